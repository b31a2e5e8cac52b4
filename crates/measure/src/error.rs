//! What can go wrong with a measurement.

use std::path::PathBuf;

use crate::counters::CounterError;

/// Why something could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A meter cannot be used.
    #[error(transparent)]
    Meter(#[from] nightwatt_meters::MeterError),
    /// The measurements do not say what was asked of them.
    #[error(transparent)]
    Calibrate(#[from] crate::pure::calibrate::CalibrateError),
    /// Counters of the kernel cannot be read.
    #[error(transparent)]
    Counter(#[from] CounterError),
    /// The kernel does not count transitions from idle to active.
    #[error(
        "nothing here counts wake-ups: this kernel has no idle states (/sys/devices/system/cpu/cpu0/cpuidle), and the \
         tracepoint power:cpu_idle cannot be counted{}",
        .0.as_ref().map_or_else(String::new, |why| format!(": {why}"))
    )]
    NoIdleStates(Option<String>),
    /// No power model can be made of the measurements.
    #[error(transparent)]
    PowerModel(#[from] nightwatt_energy::power_model::FitError),
    /// A table cannot be read.
    #[error("line {line}: {why}")]
    Table {
        /// From 1.
        line: usize,
        /// What is wrong there.
        why: String,
    },
    /// A collector does not take figures.
    #[error("{endpoint} did not take the figures: {why}")]
    Collector {
        /// Its URL.
        endpoint: String,
        /// What went wrong.
        why: String,
    },
    /// A file of time stamps cannot be read.
    #[error("line {line} of {path}: {why}")]
    Stamps {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong there.
        why: String,
    },
    /// The line of the sync signal.
    #[error("the line {line} cannot be {what}: {source}")]
    Line {
        /// As the user names it.
        line: String,
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// Nothing says how fast a DAQ sampled.
    #[error(
        "nothing says how many samples of {path} are a second; say it by `--rate`, as in `--rate 1000`"
    )]
    NoRate {
        /// The log.
        path: PathBuf,
    },
    /// A recording has several channels.
    #[error("say by `--channel` which channel of {path} is the machine's: it has {names}")]
    WhichChannel {
        /// The recording.
        path: PathBuf,
        /// Its channels.
        names: String,
    },
    /// The machine does not do what it is told.
    #[error("{what}{cause}")]
    Driven {
        /// What it does not do.
        what: &'static str,
        /// What its controller says, if anything.
        cause: String,
    },
    /// The controller cannot be built.
    #[error("the server's controller cannot be built: {0}")]
    Power(#[from] nightwatt_power::ConfigError),
    /// The server cannot be started or stopped.
    #[error("the server cannot be controlled: {0}")]
    Control(#[from] nightwatt_power::Error),
    /// A meter cannot be checked against itself.
    #[error(
        "`{meter}` is both the meter and the reference; name another by `--against`, or another \
         channel by `--against-channel`"
    )]
    SameMeter {
        /// The meter.
        meter: String,
    },
    /// Two meters did not say anything of the same time.
    #[error(
        "`{meter}` and `{reference}` lie {apart:.3} s apart; record both at the same time, and say \
         with `zone=` in which zone a recording without one was made"
    )]
    Apart {
        /// The meter.
        meter: String,
        /// The reference.
        reference: String,
        /// The difference in seconds.
        apart: f64,
    },
    /// A meter said nothing that could be used.
    #[error("`{meter}` said nothing in that time; read it for longer with `--for`")]
    SaidNothing {
        /// The meter.
        meter: String,
    },
    /// There is no meter that others could be compared with.
    #[error("there is no meter `{name}` to compare with; name one of {known}")]
    NoReference {
        /// As named.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// Two meters cannot be compared.
    #[error(transparent)]
    MeterCheck(#[from] crate::pure::meter_check::MeterCheckError),
    /// What a meter said makes no log.
    #[error(transparent)]
    PowerLog(#[from] crate::pure::power_log::PowerLogError),
    /// There is no spectrum.
    #[error(transparent)]
    Spectrum(#[from] crate::pure::spectrum::SpectrumError),
    /// Something else kept the machine busy.
    #[error(
        "the machine was {low:.0} to {high:.0} % busy in all steps, too close together to fit its power \
         against load; stop what else runs here, and try again"
    )]
    Busy {
        /// In the step in which it was least.
        low: f64,
        /// In that in which it was most.
        high: f64,
    },
    /// The user ended it.
    #[error("interrupted: there is no result")]
    Interrupted,
    /// There is no command to run.
    #[error("there is no command; write it behind `--`, as in `nightwatt run -- sleep 1`")]
    NoCommand,
    /// The command cannot be started.
    #[error("cannot start `{program}`: {source}")]
    Spawn {
        /// The command.
        program: String,
        /// Why not.
        source: std::io::Error,
    },
    /// A result.
    #[error("cannot write {path}: {source}")]
    NotWritten {
        /// Where to.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The runtime or a socket.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
}

impl Error {
    /// What to try next.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Stamps { .. } => {
                Some("name the file that `nightwatt calibrate sync generate -o` wrote")
            }
            Self::Line { source, .. } => Some(hint_of_line(source.kind())),
            Self::Spawn { program, source }
                if source.kind() == std::io::ErrorKind::NotFound && !program.contains('/') =>
            {
                Some("it is not in PATH: give its path, such as ./prog")
            }
            Self::Driven { .. } => Some(
                "try the controller by itself: `nightwatt sleep` and `nightwatt wake` while `serve` runs",
            ),
            Self::Power(error) => Some(error.hint()),
            Self::Control(error) => Some(error.hint()),
            Self::NotWritten { .. } => Some(
                "name a new file, in a folder that is there and can be written to: nothing is \
                 written over",
            ),
            _ => None,
        }
    }
}

fn hint_of_line(kind: std::io::ErrorKind) -> &'static str {
    match kind {
        std::io::ErrorKind::NotFound => {
            "`ls /dev/tty[SUA]* /dev/gpiochip*` lists what is there; `gpioinfo` names GPIO lines"
        }
        std::io::ErrorKind::PermissionDenied => {
            "join the group that owns it (`dialout` of serial ports, `gpio` of GPIO lines), and log \
             in again"
        }
        std::io::ErrorKind::ResourceBusy => "another program has it; end that one first",
        _ => "is it a serial port that has that pin, or a GPIO line that can be an output?",
    }
}
