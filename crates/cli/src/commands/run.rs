//! `nightwatt run`: how much energy a command takes.

use std::fs::File;
use std::future::poll_fn;
use std::io::{self, Write};
use std::path::Path;
use std::task::Poll;

use nightwatt_clock::Clock;
use nightwatt_lab::Error;
use nightwatt_lab::run::{self, RunOptions, RunReport, Running, Step};
use rustix::process::Signal;
use tokio::signal::unix;

use crate::ExitStatus;
use crate::args::RunArgs;
use crate::errors::Failure;
use crate::figures;
use crate::meters;
use crate::output;
use crate::signals;

/// As `env`, `timeout` and their like: we failed; the command is no program; there is none.
const FAILED: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
/// As a shell has it of a command that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// Measures, runs, reports.
pub(crate) fn run(args: &RunArgs) -> Result<ExitStatus, Failure> {
    // Made first, so that a path that cannot be written does not cost the figures.
    let mut output = Output::open(args.output.as_deref()).map_err(failed)?;
    let options = RunOptions {
        command: args.command.clone(),
        repeats: args.repeat,
        warm_ups: args.warm_up,
        idle: args.idle,
        meters: meters::chosen(&args.meters),
        interval: args.interval,
    };
    let running = Running::new()
        .map_err(|error| failed(Failure::because("cannot prepare to run a command", &error)))?;
    forward_signals(&running).map_err(failed)?;
    let tell = |step| {
        if let (Step::Idle(time), false) = (step, args.json) {
            let time = figures::time(time);
            output::complain(&format!("measuring the idle machine for {time}"));
        }
    };
    let report = run::run(&options, &running, tell).map_err(|error| cannot_run(&error))?;
    output.write(&report, args.json).map_err(failed)?;
    Ok(match report.exit_status {
        0 => ExitStatus::Success,
        status => ExitStatus::Of(status),
    })
}

fn failed(failure: Failure) -> Failure {
    failure.ending_with(FAILED)
}

fn cannot_run(error: &Error) -> Failure {
    let status = match error {
        Error::Spawn { source, .. } if source.kind() == io::ErrorKind::NotFound => NOT_FOUND,
        Error::Spawn { .. } => NOT_EXECUTABLE,
        Error::Interrupted => INTERRUPTED,
        _ => FAILED,
    };
    let hint = error.hint();
    Failure::failed(error).maybe_hint(hint).ending_with(status)
}

/// What ends us ends the command. From the terminal it has SIGINT already; all else is passed on. Of
/// signals that were ignored before us, it and we go on ignoring them.
fn forward_signals(running: &Running) -> Result<(), Failure> {
    let cannot = |error| Failure::because("cannot catch signals", &error);
    let runtime = Clock::real().runtime().map_err(cannot)?;
    let caught = [Signal::TERM, Signal::INT, Signal::HUP];
    let caught = caught.into_iter().filter(|signal| !signals::is_ignored(*signal));
    let within = runtime.enter();
    let caught = caught.map(|signal| Ok((signal, unix::signal(signal.as_raw().into())?)));
    let mut caught: Vec<(Signal, unix::Signal)> =
        caught.collect::<io::Result<_>>().map_err(cannot)?;
    drop(within);
    let running = running.clone();
    let watch = move || {
        runtime.block_on(async {
            loop {
                let signal = next(&mut caught).await;
                let has_it = signal == Signal::INT && signals::is_in_foreground();
                running.interrupt((!has_it).then_some(signal));
            }
        })
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    thread.spawn(watch).map(drop).map_err(cannot)
}

async fn next(caught: &mut [(Signal, unix::Signal)]) -> Signal {
    poll_fn(|context| {
        let came = caught
            .iter_mut()
            .find_map(|(signal, stream)| stream.poll_recv(context).is_ready().then_some(*signal));
        came.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// Where the figures go.
enum Output<'a> {
    Stderr,
    Stdout,
    File(&'a Path, File),
}

impl<'a> Output<'a> {
    fn open(path: Option<&'a Path>) -> Result<Self, Failure> {
        match path {
            None => Ok(Self::Stderr),
            Some(path) if path == Path::new("-") => Ok(Self::Stdout),
            Some(path) => match File::create(path) {
                Ok(file) => Ok(Self::File(path, file)),
                Err(error) => Err(cannot_write(path, &error)),
            },
        }
    }

    fn write(&mut self, report: &RunReport, json: bool) -> Result<(), Failure> {
        let mut text = if json {
            serde_json::to_string(report)
                .map_err(|error| Failure::because("cannot write the result as JSON", &error))?
        } else {
            let warnings = report.warnings.iter().map(|warning| format!("\n warning: {warning}"));
            report.text() + &warnings.collect::<String>()
        };
        text.push('\n');
        match self {
            Self::Stderr => output::complain(text.trim_end_matches('\n')),
            Self::Stdout => output::say(&text)?,
            Self::File(path, file) => {
                if let Err(error) = file.write_all(text.as_bytes()) {
                    // They cost a run: they are not lost with the disk's last block.
                    output::complain(text.trim_end_matches('\n'));
                    return Err(cannot_write(path, &error));
                }
            }
        }
        Ok(())
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::because(format!("cannot write {}", path.display()), error)
        .hint("`-o` names a file in a folder that is there and can be written to")
}
