//! What a thread counts.

use std::time::Duration;

use nightwatt_energy::histogram::Histogram;

use super::limits::Cpu;
use super::sample::{Carrier, Fault, Sample};
use super::schedule::Window;

/// Requests by what became of them: `due` is the sum of the others once all are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Counts {
    /// Their time had come.
    pub due: u64,
    /// The whole answer was read, whatever its status.
    pub answered: u64,
    /// Sent, and no whole answer.
    pub failed: u64,
    /// Never sent: no connection was free in time, or the run was ended, or too many waited already.
    pub unsent: u64,
}

impl Counts {
    fn add(&mut self, sample: &Sample) {
        match sample.fault {
            None => self.answered += 1,
            Some(Fault::Unsent | Fault::Skipped) => self.unsent += 1,
            Some(_) => self.failed += 1,
        }
    }

    fn join(&mut self, other: &Self) {
        self.due += other.due;
        self.answered += other.answered;
        self.failed += other.failed;
        self.unsent += other.unsent;
    }

    const fn done(&self) -> u64 {
        self.answered + self.failed + self.unsent
    }
}

/// All that the report needs of the requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    /// Of the whole run.
    pub(super) all: Counts,
    /// Of the time that counts, as all that follows down to the connections.
    pub(super) counted: Counts,
    /// By the status of the answer, in hundreds.
    pub(super) statuses: [u64; 6],
    /// Answers of 429 or 503.
    pub(super) refused: u64,
    /// By the place in [`Fault::ALL`].
    pub(super) faults: [u64; Fault::ALL.len()],
    pub(super) bytes: u64,
    pub(super) waited: u64,
    pub(super) resent: u64,
    /// From the intended time to the end of the answer.
    pub(super) latency: Histogram,
    /// From the time it was sent to the end of the answer.
    pub(super) service: Histogram,
    /// From the intended time to the first byte of the answer.
    pub(super) first_byte: Histogram,
    pub(super) lag: Histogram,
    /// Of those that had not to wait for a connection: what is late about them is this machine's doing.
    pub(super) own_lag: Histogram,
    /// Sent within the time that counts, whenever they were due.
    pub(super) sent_within: u64,
    /// Whole answers that came within that time.
    pub(super) answered_within: u64,
    /// Of the whole run, as the rest.
    pub(super) opened: u64,
    pub(super) most_open: usize,
    /// The client's own limits were met, counted or not.
    pub(super) descriptors: u64,
    pub(super) ports: u64,
    /// What was owed went beyond what may wait.
    pub(super) skipped: u64,
    /// When it was told to send no more.
    pub(super) stopped: Option<Duration>,
    /// More was due than could be gone through.
    pub(super) left_behind: bool,
    pub(super) cpu: Cpu,
    reported: (u64, u64),
}

impl Tally {
    /// A request's time has come.
    pub(super) fn due(&mut self, counted: bool) {
        self.all.due += 1;
        self.counted.due += u64::from(counted);
    }

    /// A request is over.
    pub(super) fn add(&mut self, sample: &Sample, window: Window) {
        self.all.add(sample);
        self.descriptors += u64::from(sample.fault == Some(Fault::Descriptors));
        self.ports += u64::from(sample.fault == Some(Fault::Ports));
        self.skipped += u64::from(sample.fault == Some(Fault::Skipped));
        self.sent_within += u64::from(sample.sent.is_some_and(|sent| window.holds(sent)));
        let is_within = sample.fault.is_none() && window.holds(sample.end);
        self.answered_within += u64::from(is_within);
        if !sample.counted {
            return;
        }
        self.counted.add(sample);
        self.waited += u64::from(sample.waited);
        self.resent += u64::from(sample.carrier == Carrier::Again);
        self.bytes += sample.bytes;
        if let Some(lag) = sample.lag() {
            self.lag.record(lag);
            if !sample.waited {
                self.own_lag.record(lag);
            }
        }
        if let Some(first) = sample.first_byte {
            self.first_byte.record(first.saturating_sub(sample.intended));
        }
        if let Some(fault) = sample.fault {
            self.faults[fault as usize] += 1;
            return;
        }
        self.statuses[usize::from(sample.status / 100).min(5)] += 1;
        self.refused += u64::from(matches!(sample.status, 429 | 503));
        let intended = sample.intended;
        self.latency.record(sample.end.saturating_sub(intended));
        let sent = sample.sent.unwrap_or(intended);
        self.service.record(sample.end.saturating_sub(sent));
    }

    /// Requests due and done since this was asked last.
    pub(super) fn take_new(&mut self) -> (u64, u64) {
        let now = (self.all.due, self.all.done());
        let (due, done) = std::mem::replace(&mut self.reported, now);
        (now.0 - due, now.1 - done)
    }

    /// That of another thread, too; its CPU time stays its own.
    pub(super) fn join(&mut self, other: &Self) {
        self.all.join(&other.all);
        self.counted.join(&other.counted);
        for (own, more) in self.statuses.iter_mut().zip(&other.statuses) {
            *own += more;
        }
        for (own, more) in self.faults.iter_mut().zip(&other.faults) {
            *own += more;
        }
        self.refused += other.refused;
        self.bytes += other.bytes;
        self.waited += other.waited;
        self.resent += other.resent;
        self.latency.add(&other.latency);
        self.service.add(&other.service);
        self.first_byte.add(&other.first_byte);
        self.lag.add(&other.lag);
        self.own_lag.add(&other.own_lag);
        self.sent_within += other.sent_within;
        self.answered_within += other.answered_within;
        self.opened += other.opened;
        self.most_open += other.most_open;
        self.descriptors += other.descriptors;
        self.ports += other.ports;
        self.skipped += other.skipped;
        self.left_behind |= other.left_behind;
        self.stopped = self.stopped.max(other.stopped);
    }
}
