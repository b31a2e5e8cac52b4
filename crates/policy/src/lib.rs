//! Decisions, as state machines without input or output: when a server sleeps, who may wake it, how many servers of a
//! pool are on, and the accounting of what came of it.
//!
//! Nothing in this crate reads a clock, opens a file or a socket, or starts a thread: events and the time come in as
//! arguments, decisions go out as data. So the daemon, the simulator and the analysis of a log run the same code.

pub mod admission;
pub mod arrivals;
pub mod awake_budget;
mod bad_value;
pub mod connections;
pub mod datagrams;
pub mod electricity;
pub mod fleet;
pub mod frontier;
pub mod history;
pub mod hours;
pub mod in_use;
pub mod ledger;
pub mod lifecycle;
pub mod manager;
pub mod passage;
pub mod queueing;
pub mod rate;
pub mod resting_ports;
pub mod scenario;
pub mod sla;
pub mod sleep;
pub mod visit;
