//! The laboratory of TCP: two ends, the link between them, and what connections cost.
//!
//! ```text
//! scenario ─► ends and link ─► is the link what it should be? ─► runs ─► counters, power ─► result
//!              │ namespaces      probe: rate, round trip, loss     │ serve | fetch at the ends
//!              ├ veth or relay, tbf, nftables, netem               ├ idle in between
//!              └ cards                                             └ helps: in pairs, with and without
//! ```

pub mod capture;
pub mod cards;
pub mod check;
pub mod ends;
mod error;
pub mod helps;
pub mod link;
pub mod probe;
pub mod relay;
pub mod scenario;
pub mod study;

pub use error::Error;
