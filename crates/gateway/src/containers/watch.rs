//! Watches the daemon's events. While the daemon is away, sites stay as they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nightwatt_clock::Clock;
use tokio::sync::mpsc;

use super::{Found, engine};
use crate::control::Demand;
use crate::gateway::Gateway;
use crate::live::Live;

/// Events of a project that starts come one after the other: the list is read this long after the first.
const SETTLES: Duration = Duration::from_millis(300);

/// Pauses before the daemon is tried again, the last one for ever.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(15),
    Duration::from_mins(1),
];

/// The containers that were found, and the task that applies their sites.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    pub(crate) found: Found,
    pub(crate) demand: mpsc::Sender<Demand>,
    /// Failures to apply them, one after the other.
    pub(crate) failures: Arc<AtomicUsize>,
}

impl Watched {
    /// They were applied, or were not: then that is tried again after a pause, unless it was tried meanwhile.
    pub(crate) fn tried(&self, done: bool, clock: &Clock) {
        if done {
            self.failures.store(0, Ordering::Relaxed);
            return;
        }
        let before = self.failures.fetch_add(1, Ordering::Relaxed);
        let (it, clock) = (self.clone(), clock.clone());
        tokio::spawn(async move {
            clock.sleep(PAUSES[before.min(PAUSES.len() - 1)]).await;
            if it.failures.load(Ordering::Relaxed) == before + 1 {
                let _ = it.demand.send(Demand::Containers).await;
            }
        });
    }
}

/// Keeps the sites of containers current, as long as the gateway runs.
pub(crate) async fn run(mut live: Live<Gateway>, watched: Watched) {
    loop {
        let gateway = live.now();
        let (config, clock) =
            (gateway.serving.config.containers.clone(), gateway.serving.clock.clone());
        let engine = engine(&gateway.serving.config, &clock);
        // In shadow mode the configuration does not change.
        let engine = engine.filter(|_| !gateway.serving.observe);
        drop(gateway);
        let Some(engine) = engine else {
            live.changed().await;
            continue;
        };
        let mut failures = 0;
        let watching = async {
            loop {
                let error = follow(&engine, &watched, &mut failures).await;
                let pause = PAUSES[failures.min(PAUSES.len() - 1)];
                if failures == 0 {
                    if let Some(error) = &error {
                        let hint = error.hint();
                        tracing::warn!(%error, hint, "containers are not watched: their sites stay as they are");
                    } else {
                        let daemon = engine.whom();
                        tracing::info!(
                            daemon,
                            "the stream of events has ended: it is opened again"
                        );
                    }
                }
                failures += 1;
                clock.sleep(pause).await;
            }
        };
        let other_daemon = async {
            let mut live = live.clone();
            while live.now().serving.config.containers == config {
                live.changed().await;
            }
        };
        tokio::select! {
            () = watching => {}
            () = other_daemon => {}
        }
    }
}

/// Follows the stream of events to its end. Nothing is lost between the list and the stream: that is opened first.
async fn follow(
    engine: &nightwatt_power::engine::Engine,
    Watched { found, demand, .. }: &Watched,
    failures: &mut usize,
) -> Option<nightwatt_power::Error> {
    let mut events = match engine.events().await {
        Ok(events) => events,
        Err(error) => return Some(error),
    };
    loop {
        match engine.containers(&found.all()).await {
            Ok(all) => {
                *failures = 0;
                if found.set(all) && demand.send(Demand::Containers).await.is_err() {
                    return None;
                }
            }
            Err(error) => return Some(error),
        }
        if !events.changed().await {
            return None;
        }
        settle().await;
    }
}

/// Changes that come together are applied together.
#[expect(clippy::disallowed_methods, reason = "containers live in real time")]
async fn settle() {
    tokio::time::sleep(SETTLES).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_applied_is_tried_again_with_longer_pauses() {
        let clock = Clock::virtual_at(nightwatt_energy::time::Wall::from_secs(0), 0);
        clock.runtime().unwrap().block_on(async {
            let (demand, mut demands) = mpsc::channel(4);
            let watched = Watched { found: Found::default(), demand, failures: Arc::default() };
            for pause in [1, 5, 15, 60, 60] {
                let begin = clock.now().mono;
                watched.tried(false, &clock);
                assert!(matches!(demands.recv().await, Some(Demand::Containers)));
                assert_eq!(clock.now().mono.since(begin), Duration::from_secs(pause));
            }
            watched.tried(false, &clock);
            watched.tried(true, &clock);
            clock.sleep(Duration::from_mins(2)).await;
            assert!(demands.try_recv().is_err(), "it was applied meanwhile");
        });
    }
}
