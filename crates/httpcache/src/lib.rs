//! The rules of a shared HTTP cache, as functions of headers and times.
//!
//! RFC 9111 (caching), with what it needs of RFC 9110 (conditional requests, ranges), RFC 5861
//! (`stale-while-revalidate`, `stale-if-error`), RFC 9211 (`Cache-Status`) and RFC 9213
//! (`CDN-Cache-Control`). Nothing here stores, sends or waits: the gateway does, and asks.
//!
//! ```text
//! request  -> KeyRules::key, RequestDirectives::parse, Sender::of
//! lookup   -> Stored::usability of each candidate   -> Fresh | Stale | Validate | Unusable
//! hit      -> Stored::precondition (304?)  Stored::range (206, 416?)  Stored::response_headers
//! validate -> update::add_validators, then on 304: update::answered, Stored::freshened
//! response -> Stored::new -> the metadata to store, or why not
//! unsafe   -> invalidation::invalidated
//! operator -> Purge::covers
//! ```

pub mod actions;
pub mod conditional;
mod content_range;
pub mod date;
pub mod directives;
pub mod fields;
pub mod freshness;
pub mod invalidation;
pub mod key;
mod names;
pub mod operator_rules;
pub mod purge;
pub mod range;
mod reference;
pub mod request;
pub mod reuse;
pub mod sharing;
pub mod status;
pub mod stored;
pub mod storing;
pub mod targeted;
pub mod time;
pub mod update;
pub mod vary;

pub use conditional::Precondition;
pub use directives::{RequestDirectives, ResponseDirectives};
pub use freshness::{Freshness, Source};
pub use key::{CacheKey, KeyRules, SECURE, normal_authority};
pub use operator_rules::{CookieRule, CookieRules, Fill, Heuristic, Rules};
pub use purge::Purge;
pub use range::{ByteRange, RangeAnswer};
pub use request::RequestHead;
pub use reuse::{Mismatch, Occasion, Occasions, Stale, Usability, Wish};
pub use sharing::{Basis, Filler, Sender};
pub use status::{CacheStatus, Forward};
pub use stored::Stored;
pub use storing::NotStorable;
pub use time::{Times, Timestamp};
