//! Why one process could not replace another.

use std::time::Duration;

/// Why a hand-over failed.
#[derive(Debug, thiserror::Error)]
pub enum HandOverError {
    /// The connection between the two broke.
    #[error("the other process cannot be reached: {0}")]
    Io(#[from] std::io::Error),
    /// The other process ended, or gave up.
    #[error("the other process broke off")]
    Ended,
    /// It does not answer.
    #[error("the other process said nothing for {0:?}")]
    Silent(Duration),
    /// It refuses.
    #[error("the process that runs does not hand over: {0}")]
    Refused(String),
    /// It has another version of the hand-over.
    #[error("the process that runs hands over in form {0}, which this release does not know")]
    Version(u32),
    /// The sockets do not match the message, or are too many for one message.
    #[error("{0} listening sockets cannot be handed over at once")]
    Sockets(usize),
    /// It sent an unexpected message.
    #[error("the other process said something else than expected: {0}")]
    Misunderstood(#[from] serde_json::Error),
}

impl HandOverError {
    /// What to try next.
    pub const fn hint(&self) -> &'static str {
        "nothing was changed: the process that runs goes on; its log may say more. Stop it and start this one \
         without `--replace` if it must be"
    }
}
