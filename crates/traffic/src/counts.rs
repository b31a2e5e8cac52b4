//! What lines of a log were, and samples of those that were no requests.

use serde::{Deserialize, Serialize};

use crate::record::Reason;

/// Samples kept of each kind of line that is no request.
const SAMPLES: usize = 5;

/// Characters of a line in a sample.
const EXCERPT: usize = 200;

/// A line that was not taken as a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Name of the log.
    pub file: String,
    /// Number of the line, from 1.
    pub line: u64,
    /// Why it was not taken.
    pub reason: Reason,
    /// Its first characters, 200 at most: what is not UTF-8 is replaced, and what would steer a
    /// terminal is escaped.
    pub excerpt: String,
}

/// What a reader met: `lines = requests + bad_requests + malformed + directives + outside`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Lines, empty ones included.
    pub lines: u64,
    /// Lines that hold an HTTP request.
    pub requests: u64,
    /// Lines that are whole but hold no HTTP request.
    pub bad_requests: u64,
    /// Lines that cannot be parsed.
    pub malformed: u64,
    /// Lines that say something of the log itself: `#Fields: ...` in W3C extended logs.
    #[serde(default)]
    pub directives: u64,
    /// Lines of another time than was asked for.
    #[serde(default)]
    pub outside: u64,
    /// The first bad requests, 5 at most.
    pub bad_request_samples: Vec<Sample>,
    /// The first malformed lines, 5 at most.
    pub malformed_samples: Vec<Sample>,
}

impl Counts {
    /// Adds what was met in a later file or part.
    pub fn merge(&mut self, later: &Self) {
        self.lines += later.lines;
        self.requests += later.requests;
        self.bad_requests += later.bad_requests;
        self.malformed += later.malformed;
        self.directives += later.directives;
        self.outside += later.outside;
        let append = |to: &mut Vec<Sample>, from: &[Sample]| {
            let room = SAMPLES.saturating_sub(to.len());
            to.extend(from.iter().take(room).cloned());
        };
        append(&mut self.bad_request_samples, &later.bad_request_samples);
        append(&mut self.malformed_samples, &later.malformed_samples);
    }

    /// Counts a line that is no request, and samples it where it is among the first of its kind.
    pub(crate) fn lose(&mut self, file: &str, reason: Reason, line: &[u8]) {
        let (count, samples) = match reason {
            Reason::NoHttp => (&mut self.bad_requests, &mut self.bad_request_samples),
            _ => (&mut self.malformed, &mut self.malformed_samples),
        };
        *count += 1;
        if samples.len() < SAMPLES {
            samples.push(Sample {
                file: file.to_owned(),
                line: self.lines,
                reason,
                excerpt: shown(line, EXCERPT),
            });
        }
    }

    /// As met in a file after this many of its lines.
    pub(crate) fn placed(mut self, file: &str, lines_before: u64) -> Self {
        let samples = self.bad_request_samples.iter_mut().chain(&mut self.malformed_samples);
        for sample in samples {
            file.clone_into(&mut sample.file);
            sample.line += lines_before;
        }
        self
    }
}

/// The beginning of a line as people may see it.
pub(crate) fn shown(line: &[u8], most: usize) -> String {
    // No character has more than four bytes.
    let head = String::from_utf8_lossy(&line[..line.len().min(4 * most)]);
    let mut out = String::with_capacity(head.len());
    for character in head.chars().take(most) {
        let steers = character.is_control()
            || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if steers {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}
