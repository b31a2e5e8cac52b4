//! Exchanges of clients that may not wake the server: it does not stay awake for them.

use std::time::Duration;

use super::PowerManager;
use crate::sleep::SleepPolicy;
use nightwatt_energy::time::{Mono, Now};

/// How long exchanges of clients that may not wake the server may go on when it is put to sleep.
const GUESTS_LEAVE: Duration = Duration::from_secs(30);

impl<P: SleepPolicy> PowerManager<P> {
    /// An exchange begins whose client may not wake the server (crawler, scanner, monitor), and found it
    /// awake: the server does not stay awake for it.
    pub fn begin_as_guest(&mut self) {
        self.guests += 1;
    }

    /// An exchange is over that [`begin_as_guest`](Self::begin_as_guest) began.
    pub fn end_as_guest(&mut self, now: Now) {
        self.breaker.served();
        self.guests = self.guests.saturating_sub(1);
        if self.guests == 0 && self.guests_until.is_some() {
            self.reconsider(now);
        }
    }

    /// How long the server waits for its guests before it is put to sleep; now, if there are none.
    pub(super) fn wait_for_guests(&mut self, now: Mono) -> Mono {
        if self.guests == 0 {
            return now;
        }
        *self.guests_until.get_or_insert(now + GUESTS_LEAVE)
    }
}
