//! One row per request, for users who analyse the results themselves.

use std::io::{self, Write};

use nightwatt_energy::time::Mono;
use nightwatt_policy::admission::ClientClass;
use nightwatt_report::csv::quoted;
use nightwatt_traffic::Arrival;

use crate::answer::Answer;
use crate::outcome::{ErrorKind, Outcome};
use crate::replay::Run;

/// The columns and what they hold; times are seconds since the run began.
pub const COLUMNS: [(&str, &str); 20] = [
    ("id", "X-Request-Id of the request"),
    ("arrival", "index of the log entry (from 0) it belongs to"),
    ("kind", "trace, reopened, crawler-retry or poll"),
    ("class", "human, api, crawler, scanner or monitor"),
    ("navigation", "1 where a browser opened a page"),
    ("client", "client as logged"),
    ("method", "method as logged"),
    ("target", "target as logged"),
    ("logged_status", "status as logged"),
    ("logged_bytes", "size as logged"),
    ("intended_s", "when it was to be sent"),
    ("sent_s", "when the client got to it"),
    ("answered_s", "when its whole answer had been read; empty without one"),
    ("delay_s", "answered_s - intended_s"),
    ("real_s", "what the exchange took by the operating system's clock"),
    ("status", "status of the answer"),
    ("answer", "what answered: Nightwatt-Answer, or what other headers show"),
    ("bytes", "bytes of the answer's body"),
    ("error", "why there is no whole answer"),
    ("agent", "User-Agent as logged"),
];

/// Writes outcomes as CSV (RFC 4180, lines end in LF), each as it comes.
#[derive(Debug)]
pub struct CsvWriter<W> {
    out: W,
    started: Mono,
}

impl<W: Write> CsvWriter<W> {
    /// Writes the row of names. Times will count from `started`. Buffer `out` if it is a file.
    pub fn new(mut out: W, started: Mono) -> io::Result<Self> {
        let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
        writeln!(out, "{}", names.join(","))?;
        Ok(Self { out, started })
    }

    /// Writes one outcome of this arrival.
    pub fn write(&mut self, arrival: &Arrival, outcome: &Outcome) -> io::Result<()> {
        let seconds = |at: Mono| at.since(self.started).as_secs_f64();
        write!(
            self.out,
            "{},{},{},{},{},{},{},{},{},{},{:.6},{:.6},",
            quoted(&outcome.id),
            outcome.arrival,
            outcome.kind.as_str(),
            class_name(outcome.class),
            u8::from(outcome.navigation),
            quoted(&arrival.client),
            quoted(&arrival.method),
            quoted(&arrival.target),
            arrival.status,
            arrival.bytes,
            seconds(outcome.intended),
            seconds(outcome.sent),
        )?;
        if let (Some(answered), Some(delay)) = (outcome.answered, outcome.delay()) {
            write!(self.out, "{:.6},{:.6},", seconds(answered), delay.as_secs_f64())?;
        } else {
            write!(self.out, ",,")?;
        }
        write!(self.out, "{:.6},", outcome.real_time.as_secs_f64())?;
        if let Some(status) = outcome.status {
            write!(self.out, "{status}")?;
        }
        writeln!(
            self.out,
            ",{},{},{},{}",
            quoted(outcome.answer.as_ref().map_or("", Answer::as_str)),
            outcome.bytes,
            outcome.error.map_or("", ErrorKind::as_str),
            quoted(arrival.agent.as_deref().unwrap_or("")),
        )
    }

    /// Flushes and hands the output back.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Writes all of a run.
pub fn write_run<W: Write>(out: W, arrivals: &[Arrival], run: &Run) -> io::Result<W> {
    let mut csv = CsvWriter::new(out, run.started.mono)?;
    for outcome in &run.outcomes {
        csv.write(&arrivals[outcome.arrival], outcome)?;
    }
    csv.finish()
}

pub(crate) const fn class_name(class: ClientClass) -> &'static str {
    match class {
        ClientClass::Human => "human",
        ClientClass::Api => "api",
        ClientClass::Crawler => "crawler",
        ClientClass::Scanner => "scanner",
        ClientClass::Monitor => "monitor",
    }
}
