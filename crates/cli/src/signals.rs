//! SIGTERM and SIGINT.

use nightwatt_clock::Clock;
use nightwatt_clock::meter::Stop;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::errors::Failure;

/// The signals that end a program, caught from the moment this is made.
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

/// Is a signal ignored, as `nohup` and shells in the background have it? Whoever catches it all the
/// same undoes what the user asked for.
pub(crate) fn is_ignored(signal: rustix::process::Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal.as_raw() - 1) & 1 == 1
}

/// Do we run in the foreground of a terminal? Its Ctrl-C goes to every process there is in it.
pub(crate) fn is_in_foreground() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    terminal.is_ok_and(|terminal| {
        rustix::termios::tcgetpgrp(terminal) == Ok(rustix::process::getpgrp())
    })
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
