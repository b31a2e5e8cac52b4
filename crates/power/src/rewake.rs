//! Wake commands that may have come too early.
//!
//! A machine that was asked to shut down stays up for a while and needs no wake command as long as it is
//! up. The driver that wakes it then has to look again.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;

use crate::{Error, Work};

/// Between two looks while a server wakes.
const PAUSE: Duration = Duration::from_secs(5);

/// When a wake command is given again.
#[derive(Debug)]
pub(crate) struct Again {
    clock: Clock,
    next: Mutex<Mono>,
}

impl Again {
    /// Nothing is due until a wake command is given.
    pub(crate) fn new(clock: &Clock) -> Self {
        Self { clock: clock.clone(), next: Mutex::new(Mono::NEVER) }
    }

    fn set(&self, next: Mono) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = next;
    }

    /// A wake command is given.
    pub(crate) fn woken(&self) {
        self.set(self.clock.now().mono + PAUSE);
    }

    /// A command to sleep is given.
    pub(crate) fn put_to_sleep(&self) {
        self.set(Mono::NEVER);
    }

    /// Gives the wake command again if it is time to look.
    pub(crate) fn remind<'a>(
        &'a self,
        wake_up: impl Future<Output = Result<(), Error>> + Send + 'a,
    ) -> Work<'a, ()> {
        Box::pin(async move { if self.is_due() { wake_up.await } else { Ok(()) } })
    }

    /// Is it time to look again?
    fn is_due(&self) -> bool {
        self.clock.now().mono >= *self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_energy::time::Wall;

    use super::*;

    #[test]
    fn it_is_due_some_seconds_after_a_wake_command_until_the_server_is_to_sleep() {
        let clock = Clock::virtual_at(Wall::from_secs(0), 0);
        let again = Again::new(&clock);
        clock.runtime().unwrap().block_on(async {
            clock.sleep(PAUSE).await;
            assert!(!again.is_due(), "nobody is to be woken");
            again.woken();
            assert!(!again.is_due());
            clock.sleep(PAUSE).await;
            assert!(again.is_due());
            again.woken();
            clock.sleep(PAUSE / 2).await;
            assert!(!again.is_due());
            again.put_to_sleep();
            clock.sleep(PAUSE).await;
            assert!(!again.is_due());
        });
    }
}
