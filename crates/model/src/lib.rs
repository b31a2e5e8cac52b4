//! The pure heart of nightwatt: quantities with units and origin, power states and their energy,
//! and the policies that decide when a server sleeps.
//!
//! Nothing in this crate reads a clock, opens a file or a socket, or starts a thread: events and
//! the time come in as arguments, decisions go out as data. That is why the live daemon, the
//! simulator and the what-if on a log can drive the very same code.

pub mod arrivals;
pub mod attribution;
mod bad_value;
pub mod civil;
pub mod counter;
pub mod display;
pub mod duration_text;
pub mod electricity;
pub mod energy;
pub mod frontier;
pub mod histogram;
pub mod history;
pub mod hours;
pub mod least_squares;
pub mod ledger;
pub mod markers;
pub mod policy;
pub mod power_model;
pub mod quantity;
pub mod queueing;
pub mod sample;
pub mod samples;
pub mod scenario;
pub mod sections;
pub mod sla;
pub mod stats;
pub mod storage;
pub mod time;
pub mod uncertainty;
pub mod visit;
