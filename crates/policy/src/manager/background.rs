//! Background exchanges with the server: the cache renews what it has.

use super::PowerManager;
use crate::lifecycle::Phase;
use crate::sleep::SleepPolicy;
use nightwatt_energy::time::Now;

impl<P: SleepPolicy> PowerManager<P> {
    /// Begins a background exchange, such as a renewal of the cache, if the server is awake and not about to
    /// sleep; returns false otherwise. [`end_background`](Self::end_background) ends it.
    ///
    /// The server is not put to sleep in the middle of one, but none is a use of it: neither the quiet
    /// time nor the policy hears of them, and once all else agrees that it may sleep no new one begins.
    pub fn begin_background(&mut self) -> bool {
        let may = self.lifecycle.phase() == Phase::Awake && !self.draining;
        self.background += u32::from(may);
        may
    }

    /// A background exchange is over.
    pub fn end_background(&mut self, now: Now) {
        self.background = self.background.saturating_sub(1);
        if self.draining && self.background == 0 {
            self.reconsider(now);
        }
    }

    /// Whether the server's sleep waits for background exchanges, and for nothing else.
    pub const fn is_draining(&self) -> bool {
        self.draining
    }

    /// Whether now is a good time for background exchanges: whether one would begin, and would not share the
    /// server with any client's request.
    pub const fn is_free(&self) -> bool {
        matches!(self.lifecycle.phase(), Phase::Awake)
            && !self.draining
            && self.in_flight == 0
            && self.guests == 0
    }
}
