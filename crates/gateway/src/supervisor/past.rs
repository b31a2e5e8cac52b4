//! The past of a server under supervision: updated when the journal is written, read by the dashboard.

use std::sync::PoisonError;

use nightwatt_energy::time::{Now, Wall};
use nightwatt_policy::ledger::Bill;

use super::{Managed, Supervisor};
use crate::dashboard_history::Past;
use crate::ledger_file::Record;

impl Supervisor {
    /// The journal gets this record.
    pub(super) fn remember(&self, record: &Record) {
        let now = self.clock.now();
        let mut chronicle = self.chronicle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chronicle) = &mut *chronicle {
            let (at, bill) = self.lock().settled(now);
            chronicle.take(record, at, &bill);
        }
    }

    /// Sets the share of the proxy on its bill, from 0 to 1. It is recorded in the journal: time in which the proxy
    /// does not run is billed by it.
    pub(crate) fn share_proxy(&self, part: f64) {
        let now = self.clock.now();
        if self.lock().manager.share_proxy(now, part) {
            self.write_ledger();
        }
    }

    /// The share of the proxy on its bill now.
    pub(crate) fn proxy_share(&self) -> f64 {
        self.lock().manager.proxy_share()
    }

    /// Its known past, up to now.
    pub(crate) fn past(&self) -> Option<Past> {
        let now = self.clock.now();
        let chronicle = self.chronicle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut past = chronicle.as_ref()?.past.clone();
        drop(chronicle);
        let (at, bill) = {
            let mut managed = self.lock();
            managed.book(now, false);
            managed.settled(now)
        };
        past.history.note(at, &bill);
        Some(past)
    }
}

impl Managed {
    /// The bill as far as it is settled, and the time of that.
    fn settled(&self, now: Now) -> (Now, Bill) {
        let bill = self.manager.settled_bill(now);
        let open = self.manager.memory(now).bill.span().saturating_sub(bill.span());
        let ago = i64::try_from(open.as_millis()).unwrap_or(0);
        (Now { wall: Wall(now.wall.0 - ago), ..now }, bill)
    }
}
