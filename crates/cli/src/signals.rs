//! SIGTERM and SIGINT.

use nightwatt_clock::Clock;
use nightwatt_clock::meter::Stop;
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

/// What ends threads that read meters when SIGINT or SIGTERM comes.
pub(crate) fn stop_on_signals() -> Result<Stop, Failure> {
    let cannot = |error| Failure::because("cannot catch signals", &error);
    let stop = Stop::new().map_err(cannot)?;
    let runtime = Clock::real().runtime().map_err(cannot)?;
    let mut signals = {
        let _within = runtime.enter();
        Signals::catch()?
    };
    let theirs = stop.clone();
    let wait = move || {
        runtime.block_on(signals.next());
        theirs.stop();
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(cannot)?;
    Ok(stop)
}
