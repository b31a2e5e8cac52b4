//! The pool as one server, as admission and the site's sleep policy see it.

use std::sync::Arc;
use std::time::Duration;

use nightwatt_power::probe::{self, Probe};
use nightwatt_power::{Controller, Observed, Work};

use super::ServerPool;
use crate::supervisor::ServerControl;

/// Timeout for the first probes of all servers.
pub(super) const FIRST_LOOK: Duration = Duration::from_secs(5);

/// Awake as long as a server is on or can be switched on; asleep if all were put to sleep.
pub(crate) struct Whole(pub(crate) Arc<ServerPool>);

impl Whole {
    /// How to control it.
    pub(crate) fn server_control(pool: &Arc<ServerPool>) -> ServerControl {
        ServerControl {
            controller: Box::new(Self(Arc::clone(pool))),
            probe: Probe::new(probe::Config::Controller, pool.clock.clone()),
            neighbour: None,
        }
    }
}

impl std::fmt::Debug for Whole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Whole({})", self.0.site)
    }
}

impl ServerPool {
    /// Waits until the servers were probed, so that none is woken while another is awake.
    pub(super) async fn has_begun(&self) {
        let mut begun = self.begun.subscribe();
        if !*begun.borrow_and_update() {
            let begins = self.clock.timeout(FIRST_LOOK * 2, begun.wait_for(|begun| *begun));
            let _ = self.clock.parked(begins).await;
        }
    }

    fn observe(&self) -> Observed {
        let state = self.lock();
        if state.pool.is_closed() {
            Observed::Down
        } else if state.pool.on() > 0 {
            Observed::Up
        } else if state.opening || state.no_server_left() {
            Observed::Down
        } else {
            // New requests may wait in line.
            Observed::Up
        }
    }
}

impl Controller for Whole {
    fn wake(&self) -> Work<'_, ()> {
        Box::pin(async {
            self.0.has_begun().await;
            self.0.reopen();
            Ok(())
        })
    }

    fn sleep(&self) -> Work<'_, ()> {
        Box::pin(async {
            self.0.shut();
            Ok(())
        })
    }

    fn state(&self) -> Work<'_, Observed> {
        Box::pin(async {
            self.0.has_begun().await;
            Ok(self.0.observe())
        })
    }

    fn asks_others(&self) -> bool {
        true
    }
}
