//! What can go wrong with an experiment.

use std::path::PathBuf;

use nightwatt_traffic::Reading;
use nightwatt_traffic::scan::Scan;

use crate::warnings::excerpt;

/// Why an experiment could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] nightwatt_traffic::error::Error),
    /// There is nothing to replay.
    #[error("{0} holds no request that could be replayed")]
    Empty(String),
    /// There is nothing to analyse.
    #[error(
        "{logs} holds no request: {lines} {}, {malformed} malformed, {bad} without one{first}",
        if *lines == 1 { "line" } else { "lines" }
    )]
    NothingAsked {
        /// The logs.
        logs: String,
        /// The option that set their format, if one did.
        option: Option<&'static str>,
        /// The first line that could not be read, and why, as the end of a sentence.
        first: String,
        /// Lines in them.
        lines: u64,
        /// Lines that could not be read.
        malformed: u64,
        /// Lines that hold no HTTP request.
        bad: u64,
    },
    /// The scenario cannot be true.
    #[error("the scenario is wrong: {0}")]
    Scenario(#[from] nightwatt_model::scenario::BadValue),
    /// A meter cannot be used.
    #[error(transparent)]
    Meter(#[from] nightwatt_meters::MeterError),
    /// A program cannot be watched.
    #[cfg(feature = "bpf")]
    #[error(transparent)]
    Probe(#[from] nightwatt_probes::ProbeError),
    /// More sections than there is room for.
    #[error("{found} sections are too many: {most} can be watched at a time")]
    TooManySections {
        /// As asked for.
        found: usize,
        /// As there may be.
        most: usize,
    },
    /// A function that is not to be watched from its entry.
    #[error("a function begins at its entry: `{0}` cannot have an offset")]
    NoEntry(String),
    /// What is no function is to be watched as one.
    #[error("`{0}` is a place, and no function with an entry and a return")]
    NoFunction(String),
    /// Samples see functions, not places.
    #[error("samples show functions, and not where they begin or end")]
    SampledPair,
    /// A function that has no name in its file.
    #[error("`{0}` is in no function whose name and length are known: samples cannot show it")]
    SampledAddress(String),
    /// There is no such process.
    #[error("there is no process {0}: it has ended, or is a thread of another one")]
    NoProcess(u32),
    /// A device that is named and not there.
    #[error("there is no block device `{name}`: there are {}", names.join(", "))]
    NoDevice {
        /// As written.
        name: String,
        /// Those there are.
        names: Vec<String>,
    },
    /// Where one place is needed.
    #[error("`{text}` fits several functions ({}): a section begins at one place and ends at one", names.join(", "))]
    SeveralPlaces {
        /// As written.
        text: String,
        /// The first of them.
        names: Vec<String>,
    },
    /// The measurements do not say what was asked of them.
    #[error(transparent)]
    Calibrate(#[from] nightwatt_model::calibrate::CalibrateError),
    /// Counters of the kernel cannot be read.
    #[error(transparent)]
    Counters(Box<crate::tcp::Error>),
    /// The kernel does not count transitions from idle to active.
    #[error(
        "nothing here counts wake-ups: this kernel has no idle states (/sys/devices/system/cpu/cpu0/cpuidle), and the \
         tracepoint power:cpu_idle cannot be counted{}",
        .0.as_ref().map_or_else(String::new, |why| format!(": {why}"))
    )]
    NoIdleStates(Option<String>),
    /// No power model can be made of the measurements.
    #[error(transparent)]
    PowerModel(#[from] nightwatt_model::power_model::FitError),
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
    /// A configuration has several sites.
    #[error("say by `--site` whose server is meant: there are {names}")]
    WhichSite {
        /// Their names.
        names: String,
    },
    /// Nothing measures the machine.
    #[error("no meter measures the machine; name one by `-m`, or as `[site.meter]`")]
    NoMeter,
    /// The machine does not do what it is told.
    #[error("{what}{cause}")]
    Driven {
        /// What it does not do.
        what: &'static str,
        /// What its controller says, if anything.
        cause: String,
    },
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
        /// By so many seconds.
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
    MeterCheck(#[from] nightwatt_model::meter_check::MeterCheckError),
    /// What a meter said makes no log.
    #[error(transparent)]
    PowerLog(#[from] nightwatt_model::power_log::PowerLogError),
    /// There is no spectrum.
    #[error(transparent)]
    Spectrum(#[from] nightwatt_model::spectrum::SpectrumError),
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
    /// A file or folder.
    #[error("cannot use {path}: {source}")]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
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
    /// The proxy's configuration: a bug of the demo.
    #[error("the demo's own configuration is wrong: {0}")]
    Config(#[from] nightwatt_gateway::ConfigError),
    /// The proxy would not start.
    #[error("the proxy would not start: {0}")]
    Gateway(#[from] nightwatt_gateway::StartError),
    /// The controller cannot be built.
    #[error("the server's controller cannot be built: {0}")]
    Power(#[from] nightwatt_power::ConfigError),
    /// The server cannot be started or stopped.
    #[error("the server cannot be controlled: {0}")]
    Control(#[from] nightwatt_power::Error),
    /// The server ended, or never listened.
    #[error("the demo's server did not come up: what it said is in {0}")]
    NoServer(PathBuf),
    /// The replay.
    #[error(transparent)]
    Replay(#[from] nightwatt_load::Error),
}

impl Error {
    /// Why there was nothing in these logs.
    pub(crate) fn nothing_asked(logs: &[PathBuf], reading: &Reading, scan: Scan) -> Self {
        if let Some(failure) = scan.failures.into_iter().next() {
            return failure.into();
        }
        let names: Vec<String> = logs.iter().map(|log| log.display().to_string()).collect();
        let first = scan.counts.malformed_samples.first().map_or_else(String::new, |sample| {
            let why = reading.explain(&sample.excerpt).unwrap_or_else(|| sample.reason.to_string());
            format!("; line {} ({why}): `{}`", sample.line, excerpt(sample))
        });
        Self::NothingAsked {
            logs: names.join(", "),
            option: reading.named().map(|(option, _)| option),
            first,
            lines: scan.counts.lines,
            malformed: scan.counts.malformed,
            bad: scan.counts.bad_requests,
        }
    }

    /// What to try next.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            #[cfg(feature = "bpf")]
            Self::Probe(error) => error.hint(),
            Self::NoEntry(_) => Some("`--start` and `--end` take places within functions"),
            Self::NoFunction(_) => Some("`--start` and `--end` take USDT probes"),
            Self::SampledPair => Some("with `--sample`, name functions with `--function`, or none"),
            Self::SampledAddress(_) => {
                Some("name functions of a program that was not stripped, or leave out `--sample`")
            }
            Self::NoProcess(_) => Some("`ps` lists processes; `-p` takes the number of one"),
            Self::Empty(_) => Some(
                "name an access log in the Combined or Common format, or leave `--log` out for a generated day",
            ),
            Self::NothingAsked { option: Some("--log-format"), malformed: 1.., .. } => Some(
                "`--log-format` is the likely cause: compare it with the line, or leave it out, and \
                 the format is detected from the first lines of each log",
            ),
            Self::NothingAsked { option: Some(_), malformed: 1.., .. } => Some(
                "`--format` is the likely cause: leave it out, and the format is detected from the first lines of each log",
            ),
            Self::NothingAsked { .. } => {
                Some("name an access log of a web server; `--format` says how it is written")
            }
            Self::File { .. } => Some("choose another folder with `--out`"),
            Self::NotWritten { .. } => Some(
                "name a new file, in a folder that is there and can be written to: nothing is \
                 written over",
            ),
            Self::Line { source, .. } => Some(hint_of_line(source.kind())),
            Self::Stamps { .. } => {
                Some("name the file that `nightwatt calibrate sync generate -o` wrote")
            }
            Self::Driven { .. } => Some(
                "try the controller by itself: `nightwatt sleep` and `nightwatt wake` while `serve` runs",
            ),
            Self::Power(error) => Some(error.hint()),
            Self::Gateway(error) => error.hint(),
            Self::NoServer(_) => Some("with `--out DIR` that file is kept"),
            Self::Control(error) => Some(error.hint()),
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
