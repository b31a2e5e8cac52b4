//! Exchanges with the server that nobody asked for: the cache renews what it has.

use super::PowerManager;
use crate::policy::lifecycle::Phase;
use crate::policy::sleep::SleepPolicy;
use crate::time::Now;

impl<P: SleepPolicy> PowerManager<P> {
    /// Begins an exchange that nobody asked for, such as a renewal of the cache, if the server is awake
    /// and not about to sleep; false: not now. [`end_background`](Self::end_background) ends it.
    ///
    /// The server is not put to sleep in the middle of one, but none is a use of it: neither the quiet
    /// time nor the policy hears of them, and once all else agrees that it may sleep no new one begins.
    pub fn begin_background(&mut self) -> bool {
        let may = self.lifecycle.phase() == Phase::Awake && !self.draining;
        self.background += u32::from(may);
        may
    }

    /// An exchange that nobody asked for is over.
    pub fn end_background(&mut self, now: Now) {
        self.background = self.background.saturating_sub(1);
        if self.draining && self.background == 0 {
            self.reconsider(now);
        }
    }

    /// Does the server's sleep wait for background exchanges, and for nothing else?
    pub const fn is_draining(&self) -> bool {
        self.draining
    }

    /// Is now a good time for exchanges that nobody asked for: would one begin, and would nobody's
    /// request have to share the server with it?
    pub const fn is_free(&self) -> bool {
        matches!(self.lifecycle.phase(), Phase::Awake)
            && !self.draining
            && self.in_flight == 0
            && self.guests == 0
    }
}
