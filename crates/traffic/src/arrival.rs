//! One request that is to happen: what a log or the generator says, and a client replays.

use nightwatt_energy::time::Wall;
use serde::{Deserialize, Serialize};

/// A request at a time, with the answer it got (or is to get) from its server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// When it reached the server; as fine as its source (most logs: whole seconds).
    pub at: Wall,
    /// Local time of the log minus UTC, in seconds.
    pub utc_offset: i32,
    /// Address (or name) of the client, as logged.
    pub client: String,
    /// Method, as logged: `GET`.
    pub method: String,
    /// Request target, as logged: `/index.html?a=b`.
    pub target: String,
    /// Status of the logged answer.
    pub status: u16,
    /// Bytes of the logged answer's body.
    pub bytes: u64,
    /// The page it came from, if the client said.
    pub referer: Option<String>,
    /// The client's `User-Agent`, if it sent one.
    pub agent: Option<String>,
}
