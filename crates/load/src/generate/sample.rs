//! What became of one request.

use std::time::Duration;

use serde::Serialize;

/// Why there is no whole answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Never sent: no connection was free before its time was over, or the run ended before.
    Unsent,
    /// Never sent: when its time came, as many others as may wait were waiting already.
    Skipped,
    /// No server listens at the address.
    Refused,
    /// The connection could not be made for another reason: no route, no such network.
    Unreachable,
    /// The connection was not made within the time allowed.
    ConnectTimeout,
    /// No whole answer within the time allowed.
    Timeout,
    /// The connection was reset.
    Reset,
    /// The connection ended before any answer.
    Closed,
    /// The connection ended in the middle of the answer.
    Short,
    /// What came was not an answer of HTTP/1.
    BadAnswer,
    /// This machine had no descriptor left: the client's fault.
    Descriptors,
    /// This machine had no port left: the client's fault.
    Ports,
    /// The run was ended while the answer was awaited.
    Interrupted,
}

impl Fault {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Self; 13] = [
        Self::Unsent,
        Self::Skipped,
        Self::Refused,
        Self::Unreachable,
        Self::ConnectTimeout,
        Self::Timeout,
        Self::Reset,
        Self::Closed,
        Self::Short,
        Self::BadAnswer,
        Self::Descriptors,
        Self::Ports,
        Self::Interrupted,
    ];

    /// Its name in tables and keys.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unsent => "unsent",
            Self::Skipped => "skipped",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::ConnectTimeout => "connect_timeout",
            Self::Timeout => "timeout",
            Self::Reset => "reset",
            Self::Closed => "closed",
            Self::Short => "short",
            Self::BadAnswer => "bad_answer",
            Self::Descriptors => "descriptors",
            Self::Ports => "ports",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Which connection a request went by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// None.
    None,
    /// One that had answered another request before.
    Kept,
    /// One that was opened for it.
    Opened,
    /// One that was opened for it after a kept one had died under it: it was sent twice.
    Again,
}

impl Carrier {
    /// Its name in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Kept => "kept",
            Self::Opened => "opened",
            Self::Again => "again",
        }
    }
}

/// One request and what became of it. Times are since the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Its number, from 0, in order of intended times.
    pub number: u64,
    /// Which of the mix.
    pub wanted: u32,
    /// When it was due.
    pub intended: Duration,
    /// When the client began to write it to a connection that it had, or to open one for it. `None`
    /// if it came to neither.
    pub sent: Option<Duration>,
    /// When the first byte of an answer came.
    pub first_byte: Option<Duration>,
    /// When it was over: the whole answer read, or given up.
    pub end: Duration,
    /// Status of the answer, 0 without one.
    pub status: u16,
    /// Bytes of the answer's body.
    pub bytes: u64,
    /// Why there is no whole answer.
    pub fault: Option<Fault>,
    /// Which connection it went by.
    pub carrier: Carrier,
    /// It had to wait for one of the connections that there may be at most.
    pub waited: bool,
    /// It lies neither in the warm-up nor in the cool-down.
    pub counted: bool,
}

impl Sample {
    /// From when it was due to the last byte of its answer; `None` without a whole one.
    pub fn latency(&self) -> Option<Duration> {
        self.fault.is_none().then(|| self.end.saturating_sub(self.intended))
    }

    /// How much later than due it left.
    pub fn lag(&self) -> Option<Duration> {
        self.sent.map(|sent| sent.saturating_sub(self.intended))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_listed_in_their_order_and_named_as_in_json() {
        for (index, fault) in Fault::ALL.into_iter().enumerate() {
            assert_eq!(fault as usize, index);
            assert_eq!(serde_json::to_value(fault).unwrap(), fault.as_str());
        }
    }
}
