//! What a mirror costs: the time for which the server is awake for its sake.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The server's time for the mirror, over all starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnUse {
    /// Wake-ups for the mirror alone.
    pub wakeups: u64,
    /// Time awake after them, until a client used the server or it slept; and time for which its sleep waited.
    pub awake: Duration,
}
