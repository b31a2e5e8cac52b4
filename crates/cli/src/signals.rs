//! SIGTERM and SIGINT.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::errors::Failure;

/// Both signals, caught from the moment this is made.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Catches them. Must be called within a runtime.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let caught =
            |kind| signal(kind).map_err(|error| Failure::because("cannot catch signals", &error));
        Ok(Self {
            terminate: caught(SignalKind::terminate())?,
            interrupt: caught(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
