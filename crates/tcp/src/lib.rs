//! What a TCP connection costs: a server and a client, each in one thread, that open as many
//! connections as wanted, move as many segments over each, and read what the kernel says of it.
//!
//! [`fetch()`] is the client, [`Server`] the server. What they say to each other is in [`wire`] and in
//! `docs/tcp.md`; what becomes of one connection is decided by state machines without sockets. Neither
//! loop allocates memory or touches a disk: all that they need is taken before the first connection.

mod address;
pub mod capture;
mod connection;
mod error;
mod fault;
mod fetch;
pub mod info;
mod limits;
mod options;
pub mod pattern;
mod reactor;
pub mod report;
mod serve;
mod status;
mod stream;
mod sys;
mod tally;
mod text;
mod transfer;
mod usage;
pub mod wire;

pub use address::{PORT, resolve};
pub use connection::{rehearse_client, rehearse_server};
pub use error::Error;
pub use fault::Fault;
pub use fetch::{CpuPer, CpuReport, Direction, Ended, FetchReport, Plan, ServerSide, Until, fetch};
pub use options::SocketOptions;
pub use report::{ServerRecord, SessionReport};
pub use serve::{ServeReport, Server, ServerPlan};
pub use tally::{Record, Second, Times};
pub use text::{csv, text};
pub use usage::Usage;
