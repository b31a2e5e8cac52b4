//! Why a message is not understood.

/// Why a body is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It ends too early.
    #[error("a message ends too early")]
    Short,
    /// Something follows it.
    #[error("a message is longer than it should be")]
    Long,
    /// A value that may not be.
    #[error("{0} in a message has a value that is not allowed")]
    Value(&'static str),
    /// No message has this kind.
    #[error("a message of the unknown kind {0}")]
    Kind(u8),
}
