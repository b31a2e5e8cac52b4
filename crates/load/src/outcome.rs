//! What became of one request.

use std::time::Duration;

use nightwatt_energy::time::Mono;
use nightwatt_policy::admission::ClientClass;
use serde::Serialize;

use crate::answer::Answer;

/// Why a request was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestKind {
    /// It is in the trace. Every arrival has exactly one of these.
    Trace,
    /// A browser's waiting page opened what was asked for.
    Reopened,
    /// A crawler came back when `Retry-After` told it to.
    CrawlerRetry,
    /// A waiting page asked whether the server is awake.
    Poll,
}

impl RequestKind {
    /// Its name in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Reopened => "reopened",
            Self::CrawlerRetry => "crawler-retry",
            Self::Poll => "poll",
        }
    }
}

/// Why there is no (whole) answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// HTTP has no way to say what the log says; nothing was sent.
    Unsendable,
    /// The connection was refused or not answered.
    Connect,
    /// This machine had no descriptor or port left: the client's fault.
    ClientLimit,
    /// The connection ended before any answer.
    Closed,
    /// The connection ended in the middle of the answer.
    Incomplete,
    /// No whole answer within the time allowed.
    Timeout,
    /// The answer was not HTTP.
    Protocol,
}

impl ErrorKind {
    /// Its name in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unsendable => "unsendable",
            Self::Connect => "connect",
            Self::ClientLimit => "client-limit",
            Self::Closed => "closed",
            Self::Incomplete => "incomplete",
            Self::Timeout => "timeout",
            Self::Protocol => "protocol",
        }
    }
}

/// One request and its answer. Times are the clock's, so virtual where the clock is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Its `X-Request-Id`, unique within the run.
    pub id: String,
    /// Which arrival (index into the replayed slice) it belongs to.
    pub arrival: usize,
    /// Why it was sent.
    pub kind: RequestKind,
    /// What kind of client sent it.
    pub class: ClientClass,
    /// Did it ask for a page the way a browser does when a user follows a link?
    pub navigation: bool,
    /// When it was to be sent. Delays count from here.
    pub intended: Mono,
    /// When the client got to it.
    pub sent: Mono,
    /// When its whole answer had been read.
    pub answered: Option<Mono>,
    /// From `sent` to the end by the operating system's clock. Where the run's clock is virtual,
    /// waits are left out of it: it is what the work took.
    pub real_time: Duration,
    /// Status of the answer.
    pub status: Option<u16>,
    /// Who answered; `None` without an answer.
    pub answer: Option<Answer>,
    /// Bytes of the answer's body.
    pub bytes: u64,
    /// Why there is no whole answer.
    pub error: Option<ErrorKind>,
}

impl Outcome {
    /// From the intended moment to the end of the answer.
    pub fn delay(&self) -> Option<Duration> {
        self.answered.map(|answered| answered.since(self.intended))
    }

    /// Was it answered by the server (through the proxy or directly)?
    pub fn is_from_server(&self) -> bool {
        self.answer.as_ref().is_some_and(Answer::is_from_server)
    }
}
