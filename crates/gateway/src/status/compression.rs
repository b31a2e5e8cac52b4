//! What was compressed on its way to clients.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a site has compressed since the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompressionStatus {
    /// Answers, by coding.
    pub answers: BTreeMap<String, u64>,
    /// Their bytes, by coding.
    #[serde(default)]
    pub bytes: BTreeMap<String, CompressedBytes>,
    /// Their bytes as the server sent them.
    pub bytes_before: u64,
    /// Their bytes as clients got them.
    pub bytes_after: u64,
    /// Answers that were not compressed, since too many others were.
    pub no_room: u64,
}

/// Bytes of answers in one coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompressedBytes {
    /// As the server sent them.
    pub before: u64,
    /// As clients got them.
    pub after: u64,
}
