//! The sender.
//!
//! ```text
//!   walk      what is to be sent; attributes reads extended ones
//!   flow      what is on the way; how quick the link is; knows no socket and no file
//!   source    contents of files as blocks, holes left out
//!   stream    what another program writes, as blocks
//!   report    what was done, and what that cost
//!   session   policy, packer and flow together: messages in, messages out
//!   run       a session over a pair of streams
//! ```

mod attributes;
mod error;
mod flow;
mod report;
mod run;
mod session;
mod source;
mod stream;
mod walk;

pub use error::SendError;
pub use flow::{Flow, InFlight};
pub use report::{ArmTotals, Doubt, Report};
pub use run::run;
pub use session::{Options, Session};
pub use source::open_listed;
pub use stream::Stream;
pub use walk::{Plan, WalkError, Wanted, walk};

#[cfg(test)]
mod tests;
