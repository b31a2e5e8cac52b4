//! The mirror: a whole, current copy of what an anonymous visitor can see of a site.
//!
//! ```text
//! pure::plan      what to fetch next, what an answer changes, when to refresh, when to wake
//! pure::admit     whether an answer may be mirrored, and why not
//! discover        links in HTML, CSS, feeds, sitemaps, manifests and fields
//! store           the copy on disk: bodies by their hash, a manifest, generations
//! pure::represent mirrored answers as clients get them
//! ```
//!
//! It sends nothing: the gateway fetches what [`Planner::next`] orders, gives the answers to
//! [`Planner::take`], and applies the changes to the [`Store`]. Decision 0036 has the reasons.
//!
//! [`Planner::next`]: pure::plan::Planner::next
//! [`Planner::take`]: pure::plan::Planner::take
//! [`Store`]: store::Store

pub mod coding;
pub mod discover;
pub mod pure;
pub mod store;
