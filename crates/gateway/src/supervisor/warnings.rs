//! What the log warns of: wake loops, and an SLA that a server cannot keep.

use nightwatt_energy::duration_text;
use nightwatt_policy::sla::Broken;

use super::Driver;

impl Driver {
    /// Warns when the server was woken repeatedly for nothing.
    pub(super) fn watch_for_loops(&mut self) {
        let found = self.supervisor.lock().manager.wake_loops();
        if found > self.wake_loops {
            self.wake_loops = found;
            tracing::error!(
                site = %self.supervisor.name,
                hint = "something keeps waking it: see `cause` of the last wake-ups above; without one, \
                        look at what its card wakes for (`ethtool DEVICE | grep Wake-on`), at timers and at \
                        other machines that poll it",
                "woken again and again without serving a request: it is left awake for an hour"
            );
        }
    }

    /// Warns once when the SLA keeps the server awake, since it wakes too slowly, and logs when that is over.
    pub(super) fn watch_for_slowness(&mut self) {
        let slow = self.supervisor.lock().manager.too_slow();
        let was_slow = std::mem::replace(&mut self.is_too_slow, slow.is_some());
        let site = self.supervisor.name.as_str();
        match slow {
            Some(Broken::LongestWait { expected, most }) if !was_slow => tracing::warn!(
                site,
                wake_time = duration_text::format(expected),
                longest_wait = duration_text::format(most),
                hint = "if it wakes faster now, measure it again: `nightwatt sleep SITE`, then `nightwatt wake SITE`; \
                        else raise `sla.longest_wait`",
                "it wakes more slowly than the SLA allows: it does not sleep"
            ),
            None if was_slow => {
                tracing::info!(site, "it wakes as fast as the SLA demands: it may sleep");
            }
            _ => {}
        }
    }
}
