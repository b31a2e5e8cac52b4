//! Stub.
/// Stub.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SyncError {}
