//! One process takes the place of another without a lost connection ([decision 0027]).
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
//! Clients that connect in between wait in the kernel. If the next process fails before `done`, the one
//! that runs takes everything back.
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

/// The form of what is said. Another version is refused before anything is let go.
const VERSION: u32 = 2;

/// The same without the lock, which is free for a moment in between. The next process understands it, so
/// that it can take the place of an earlier version.
const WITHOUT_LOCK: u32 = 1;

/// For a word of the other process. It may have to wait for commands of its own to end.
const PATIENCE: Duration = Duration::from_mins(1);

/// Descriptors that go with one message (the kernel's `SCM_MAX_FD`).
const MOST_SOCKETS: usize = 253;

/// A line longer than this is not ours.
const LONGEST: u64 = 4 << 20;

/// What comes with the sockets: what each of them is.
#[derive(Debug, Serialize, Deserialize)]
struct Offer {
    version: u32,
    /// The first is the control socket, whose file this is.
    control: PathBuf,
    /// The others listen at these addresses, as they are configured. The lock comes last.
    addresses: Vec<SocketAddr>,
}

/// Where servers are, by their names.
#[derive(Debug, Serialize, Deserialize)]
struct LetGo {
    servers: HashMap<String, Handed>,
    /// Those that serve a client that is connected to the process before.
    busy: Vec<String>,
    /// Sites with requests that the gate has let through: they do not end with that process.
    let_through: Vec<String>,
}

/// What the next process says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    /// Let go of everything.
    LetGo,
    /// It serves; orders reach it here.
    Done(PathBuf),
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, HandOverError> {
    if line.is_empty() {
        return Err(HandOverError::Ended);
    }
    Ok(serde_json::from_slice(line)?)
}
