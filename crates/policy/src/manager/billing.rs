//! The bill of the server, as its manager keeps it.

use super::PowerManager;
use crate::ledger::{Bill, Hour, Measure, Part};
use crate::lifecycle::Phase;
use crate::sleep::SleepPolicy;
use nightwatt_energy::time::Now;

impl<P: SleepPolicy> PowerManager<P> {
    /// The bill as of now.
    pub fn bill(&self, now: Now) -> Bill {
        self.ledger.bill(now.mono)
    }

    /// The bill as far as it is settled: while the server falls asleep, as of the sleep command, since
    /// that sleep may come to nothing. None of its figures ever falls.
    pub fn settled_bill(&self, now: Now) -> Bill {
        match self.phase() {
            Phase::FallingAsleep if !self.ledger.is_metered() => self.ledger.before_sleep(),
            _ => self.ledger.settled(now.mono),
        }
    }

    /// From now on so much of the proxy is on the bill, from 0 to 1; others have the rest on theirs.
    /// Is that another part than before?
    pub fn share_proxy(&mut self, now: Now, part: f64) -> bool {
        self.ledger.share_proxy(now.mono, part)
    }

    /// Which part of the proxy is on the bill now.
    pub fn proxy_share(&self) -> f64 {
        self.ledger.proxy_share()
    }

    /// A meter will say what this part uses: from now on the bill is settled as it speaks.
    pub fn expect_meter(&mut self, part: Part) {
        self.ledger.expect_meter(part);
    }

    /// A meter said this of a time. [`settle`](Self::settle) books it.
    pub fn measured(&mut self, part: Part, measure: Measure) {
        self.ledger.measured(part, measure);
    }

    /// Settles the bill as far as the meters have spoken; returns the hours that ended.
    pub fn settle(&mut self, now: Now) -> Vec<Hour> {
        self.ledger.settle(now, self.phase() == Phase::FallingAsleep)
    }

    /// Settles all of it, and gives the present hour too: the driver stops.
    pub fn settle_all(&mut self, now: Now) -> Vec<Hour> {
        self.ledger.end(now, self.phase() == Phase::FallingAsleep)
    }
}
