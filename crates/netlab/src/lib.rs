//! The TCP laboratory: two ends, an emulated link between them, and what connections over it cost (`nightwatt tcp
//! lab` and `nightwatt tcp helps`).
//!
//! ```text
//! scenario ─► ends and link ─► is the link what it should be? ─► runs ─► counters, power ─► result
//!              │ namespaces      probe: rate, round trip, loss     │ serve | fetch at the ends
//!              ├ veth or relay, tbf, nftables, netem               ├ idle in between
//!              └ cards                                             └ helps: in pairs, with and without
//! ```
//!
//! Connections are those of `nightwatt_tcp`. `nightwatt_compare` decides which run is next, `nightwatt_measure`
//! reads the counters of the kernel, and with the feature `bpf` `nightwatt_profile` says where the CPUs' time goes.

mod capture;
pub mod cards;
mod check;
pub mod ends;
mod error;
pub mod helps;
mod link;
pub mod probe;
pub mod relay;
pub mod scenario;
pub mod study;

pub use error::Error;
