//! Why one process could not take the place of another.

use std::time::Duration;

/// Why a hand-over came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum HandOverError {
    /// The connection between the two broke.
    #[error("the other process cannot be reached: {0}")]
    Io(#[from] std::io::Error),
    /// The other process ended, or broke off.
    #[error("the other process broke off")]
    Ended,
    /// It does not go on.
    #[error("the other process said nothing for {0:?}")]
    Silent(Duration),
    /// It will not.
    #[error("the process that runs does not hand over: {0}")]
    Refused(String),
    /// It is of a release that does it in another way.
    #[error("the process that runs hands over in form {0}, which this release does not know")]
    Version(u32),
    /// Not the sockets that it told of, or too many for one message.
    #[error("{0} listening sockets cannot be handed over at once")]
    Sockets(usize),
    /// It said something else.
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
