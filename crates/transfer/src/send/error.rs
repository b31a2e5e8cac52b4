//! Why sending ended.

use std::io;
use std::time::Duration;

use crate::pure::shown;
use crate::wire::{Failure, FrameError, MessageError, ReadError, VERSIONS};

/// Why sending ended without a receipt. The receiver keeps what it has, and a later attempt goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The receiver cannot go on.
    #[error("the receiver stopped: {text}")]
    Refused {
        /// What kind of failure.
        failure: Failure,
        /// Its words.
        text: String,
    },
    /// The versions do not meet.
    #[error(
        "the receiver ({program}) speaks versions {} to {} of the protocol, this program {} to {}: update the older one",
        theirs[0], theirs[1], VERSIONS[0], VERSIONS[1]
    )]
    Version {
        /// The receiver's program.
        program: String,
        /// Its versions.
        theirs: [u16; 2],
    },
    /// The receiver breaks the protocol, or is something else.
    #[error("the receiver broke the protocol: {0}")]
    Protocol(String),
    /// A frame was damaged.
    #[error("from the receiver: {0}")]
    Frame(#[from] FrameError),
    /// A frame is whole, and is no message.
    #[error("from the receiver: {0}")]
    Message(#[from] MessageError),
    /// The receiver went away.
    #[error("the receiver went away; send again to go on from there")]
    Cut,
    /// The connection failed.
    #[error("the connection to the receiver failed: {0}; send again to go on from there")]
    Connection(#[from] io::Error),
    /// The receiver says nothing.
    #[error(
        "nothing came from the receiver for {} minutes; send again to go on from there",
        .0.as_secs() / 60
    )]
    Silent(Duration),
    /// What is to be sent cannot be read.
    #[error("cannot read stdin: {0}; nothing was written under the file's name")]
    Input(io::Error),
    /// The user stopped it.
    #[error("sending was stopped; send again to go on from there")]
    Cancelled,
}

impl From<ReadError> for SendError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Frame(error) => error.into(),
            ReadError::Message(error) => error.into(),
            ReadError::Cut => Self::Cut,
            ReadError::Connection(error) => error.into(),
        }
    }
}

impl SendError {
    pub(super) fn refused(failure: Failure, text: &str) -> Self {
        Self::Refused { failure, text: shown::line(text) }
    }

    pub(super) fn protocol(text: &str) -> Self {
        Self::Protocol(text.to_owned())
    }
}
