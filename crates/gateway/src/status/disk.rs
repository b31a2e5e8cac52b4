//! The disk behind the caches.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Its status. Bytes of a day count from midnight UTC, across restarts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStatus {
    /// Where it is.
    pub directory: PathBuf,
    /// Stored answers that can be used.
    pub answers: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Maximum of these.
    pub max_bytes: u64,
    /// Bytes that the cache has written today.
    pub written_today_bytes: u64,
    /// Bytes that the rest of the proxy (ledgers and logs) has written today, as the kernel counts them.
    pub others_today_bytes: u64,
    /// Maximum of both together per day.
    pub allowed_a_day_bytes: u64,
    /// What is left of it.
    pub left_today_bytes: u64,
    /// Answers written since the start.
    pub written: u64,
    /// Answers that were worth writing at the last check, but exceeded the day's budget.
    pub waiting: u64,
    /// Answers read since the start.
    pub read: u64,
    /// Answers since the start that were not as written, and were not used.
    pub spoilt: u64,
    /// Writes since the start that failed.
    pub failed_writes: u64,
}
