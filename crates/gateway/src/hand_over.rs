//! One process replaces another without a lost connection ([decision 0027]).
//!
//! ```text
//! next process                          the one that runs
//!   hand-over ────────────────────────────▶
//!   ◀──────────── its listening sockets and its lock, by SCM_RIGHTS
//!   (reads, binds and checks all it can)
//!   let-go ───────────────────────────────▶  accepts no more; ledgers and disk cache are closed
//!   ◀──────────── where each server is
//!   (opens ledgers, accepts)
//!   done ─────────────────────────────────▶  serves those who are connected, then ends
//! ```
//!
//! Clients that connect in between wait in the kernel. If the next process fails before `done`, the running one takes
//! everything back.
//!
//! [decision 0027]: https://github.com/nightwatt/nightwatt/blob/main/docs/decisions/0027-hand-over.md

mod current;
mod predecessor;
mod taker;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use nightwatt_policy::lifecycle::Handed;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use self::predecessor::Predecessor;
pub use self::taker::Taker;
use crate::hand_over_error::HandOverError;

/// Version of the messages. Another version is refused before anything is released.
const VERSION: u32 = 3;

/// The same without the lock, which is free for a moment in between. The next process understands it, so that it can
/// replace an earlier version.
const WITHOUT_LOCK: u32 = 1;

/// The same without the sockets for datagrams, which the next process opens a second time. It understands this too.
const WITHOUT_DATAGRAMS: u32 = 2;

/// Timeout for a message of the other process, which may have to wait for its own commands to end.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Maximum number of descriptors with one message (the kernel's `SCM_MAX_FD`).
const MOST_SOCKETS: usize = 253;

/// Maximum length of a line: a longer one is not ours.
const LONGEST: u64 = 4 << 20;

/// Describes the sockets that come with it.
#[derive(Debug, Serialize, Deserialize)]
struct Offer {
    version: u32,
    /// The path of the control socket, which comes first.
    control: PathBuf,
    /// The addresses of the listening sockets, as configured.
    addresses: Vec<SocketAddr>,
    /// Those of the sockets for datagrams, which come behind them. The lock comes last.
    #[serde(default)]
    datagrams: Vec<SocketAddr>,
}

/// The state of servers, by name.
#[derive(Debug, Serialize, Deserialize)]
struct LetGo {
    servers: HashMap<String, Handed>,
    /// Servers that serve a client connected to the previous process.
    busy: Vec<String>,
    /// Sites with requests that the gate has let through: these do not end with that process.
    let_through: Vec<String>,
    /// Local ports of sessions of datagrams: late answers may still come to them.
    #[serde(default)]
    udp_ports: Vec<u16>,
}

/// Messages of the next process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    /// Release everything.
    LetGo,
    /// It serves; its control socket is here.
    Done(PathBuf),
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, HandOverError> {
    if line.is_empty() {
        return Err(HandOverError::Ended);
    }
    Ok(serde_json::from_slice(line)?)
}
