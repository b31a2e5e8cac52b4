//! One row per request, for users who analyse the results themselves.

use std::io::{self, Write};
use std::time::Duration;

use nightwatt_report::csv::quoted;

use super::Mix;
use super::sample::{Fault, Sample};

/// The columns and what they hold; times are seconds since the run began, to the nanosecond.
pub const COLUMNS: [(&str, &str); 13] = [
    ("number", "from 0, in order of intended times"),
    ("counted", "1, or 0 in the warm-up and cool-down"),
    ("intended_s", "when it was due"),
    ("sent_s", "when the client began to write it, or to open a connection for it"),
    ("first_byte_s", "when the first byte of an answer came"),
    ("end_s", "when the whole answer had been read, or the request was given up"),
    ("status", "status of the answer"),
    ("bytes", "bytes of the answer's body"),
    ("error", "why there is no whole answer"),
    ("connection", "kept, opened for it, or opened to send it again after a kept one had died"),
    ("waited", "1 if it had to wait for one of the connections there may be"),
    ("method", "method"),
    ("url", "URL"),
];

/// Writes samples as CSV (RFC 4180, lines end in LF), as they come: by end, not by number.
#[derive(Debug)]
pub struct Rows<W> {
    out: W,
}

impl<W: Write> Rows<W> {
    /// Writes the row of names. Buffer `out` if it is a file.
    pub fn new(mut out: W) -> io::Result<Self> {
        let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
        writeln!(out, "{}", names.join(","))?;
        Ok(Self { out })
    }

    /// Writes one.
    pub fn write(&mut self, sample: &Sample, mix: &Mix) -> io::Result<()> {
        let (method, url) = mix.wanted(sample.wanted);
        let out = &mut self.out;
        write!(out, "{},{},", sample.number, u8::from(sample.counted))?;
        write!(out, "{},{},", Seconds(Some(sample.intended)), Seconds(sample.sent))?;
        write!(out, "{},{},", Seconds(sample.first_byte), Seconds(Some(sample.end)))?;
        if sample.status > 0 {
            write!(out, "{}", sample.status)?;
        }
        write!(out, ",{},{},", sample.bytes, sample.fault.map_or("", Fault::as_str))?;
        write!(out, "{},{},", sample.carrier.as_str(), u8::from(sample.waited))?;
        writeln!(out, "{},{}", quoted(method), quoted(url))
    }

    /// Flushes and hands the output back.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

/// `1.000000025`, or nothing.
struct Seconds(Option<Duration>);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(time) = self.0 else { return Ok(()) };
        write!(f, "{}.{:09}", time.as_secs(), time.subsec_nanos())
    }
}
