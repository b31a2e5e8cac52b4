//! SIGTERM, SIGINT and SIGHUP: SIGHUP ends a command at a terminal, and makes a server reload.

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::task::Poll;

use nightwatt_clock::Clock;
use nightwatt_clock::meter::Stop;
use nightwatt_host::proc_stat::{self, ProcStat};
use nightwatt_measure::run::Running;
use rustix::process;
use tokio::signal::unix::{Signal, SignalKind, signal as catch};

use crate::errors::Failure;

/// What a signal asks a server to do.
pub(crate) enum Told {
    /// Stop, because of this signal.
    End(&'static str),
    /// Read the configuration again.
    Reload,
}

/// The signals that end a program, and the one that makes it read its configuration again. They are caught from the
/// moment this is created.
pub(crate) struct Signals {
    hang_up: Option<Signal>,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Catches the signals. Must be called within a runtime.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let caught =
            |kind| catch(kind).map_err(|error| Failure::because("cannot catch signals", &error));
        Ok(Self {
            hang_up: None,
            terminate: caught(SignalKind::terminate())?,
            interrupt: caught(SignalKind::interrupt())?,
        })
    }

    /// Catches SIGHUP too, unless it was ignored before us.
    pub(crate) fn and_reload(self) -> Result<Self, Failure> {
        if is_ignored(process::Signal::HUP) {
            return Ok(self);
        }
        let caught = catch(SignalKind::hangup());
        let caught = caught.map_err(|error| Failure::because("cannot catch signals", &error))?;
        Ok(Self { hang_up: Some(caught), ..self })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> Told {
        let Self { hang_up, terminate, interrupt } = self;
        let reload = async {
            match hang_up {
                Some(signal) => drop(signal.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = terminate.recv() => Told::End("SIGTERM"),
            _ = interrupt.recv() => Told::End("SIGINT"),
            () = reload => Told::Reload,
        }
    }

    /// Waits for the next signal that ends a program.
    pub(crate) async fn end(&mut self) -> &'static str {
        loop {
            if let Told::End(signal) = self.next().await {
                return signal;
            }
        }
    }
}

/// Returns whether a signal is ignored, as under `nohup` or for background jobs of a shell. A program that catches it
/// anyway undoes what the user asked for.
pub(crate) fn is_ignored(signal: process::Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal.as_raw() - 1) & 1 == 1
}

/// Returns whether this process runs in the foreground of a terminal, whose Ctrl-C goes to every process there.
pub(crate) fn is_in_foreground() -> bool {
    // Groups that began outside the container have number 0 here, which rustix's `getpgrp` cannot return.
    let Ok(text) = proc_stat::read(Path::new("/proc/self")) else { return false };
    let Some(stat) = ProcStat::of(&text) else { return false };
    let group: Option<i32> = stat.field(5);
    std::fs::File::open("/dev/tty").is_ok() && group.is_some() && group == stat.field(8)
}

/// Stops threads that read meters when SIGINT or SIGTERM comes, or the terminal goes away.
pub(crate) fn stop_on_signals() -> Result<Stop, Failure> {
    let cannot = |error| Failure::because("cannot catch signals", &error);
    let stop = Stop::new().map_err(cannot)?;
    let runtime = Clock::real().runtime().map_err(cannot)?;
    let (mut signals, mut hang_up) = {
        let _within = runtime.enter();
        let hang_up = (!is_ignored(process::Signal::HUP)).then(|| catch(SignalKind::hangup()));
        (Signals::catch()?, hang_up.transpose().map_err(cannot)?)
    };
    let theirs = stop.clone();
    let wait = move || {
        runtime.block_on(async {
            let terminal_gone = async {
                match &mut hang_up {
                    Some(hang_up) => drop(hang_up.recv().await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = signals.end() => {}
                () = terminal_gone => {}
            }
        });
        theirs.stop();
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(cannot)?;
    Ok(stop)
}

/// Passes the signals that end this process on to the command. On Ctrl-C at the terminal the command gets SIGINT
/// itself. Signals that were ignored before our start stay ignored by both.
pub(crate) fn forward(running: &Running) -> Result<(), Failure> {
    let cannot = |error| Failure::because("cannot catch signals", &error);
    let runtime = Clock::real().runtime().map_err(cannot)?;
    let caught = [process::Signal::TERM, process::Signal::INT, process::Signal::HUP];
    let caught = caught.into_iter().filter(|signal| !is_ignored(*signal));
    let within = runtime.enter();
    let caught = caught.map(|signal| Ok((signal, catch(signal.as_raw().into())?)));
    let mut caught: Vec<(process::Signal, Signal)> =
        caught.collect::<io::Result<_>>().map_err(cannot)?;
    drop(within);
    let running = running.clone();
    let watch = move || {
        runtime.block_on(async {
            loop {
                let signal = next(&mut caught).await;
                let has_it = signal == process::Signal::INT && is_in_foreground();
                running.interrupt((!has_it).then_some(signal));
            }
        })
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    thread.spawn(watch).map(drop).map_err(cannot)
}

async fn next(caught: &mut [(process::Signal, Signal)]) -> process::Signal {
    poll_fn(|context| {
        let came = caught
            .iter_mut()
            .find_map(|(signal, stream)| stream.poll_recv(context).is_ready().then_some(*signal));
        came.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}
