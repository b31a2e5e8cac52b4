//! Shadow mode: every request is passed on, no server ever sleeps, and a second manager with a simulated server
//! computes what would have been saved, and which requests would have been delayed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nightwatt_clock::Clock;
use nightwatt_policy::admission::Route;
use nightwatt_policy::lifecycle::Phase;
use nightwatt_policy::manager::{AdmissionRequest, Settings};
use nightwatt_policy::scenario::Server;
use nightwatt_policy::visit::Visits;
use nightwatt_power::probe::{self, Probe};
use nightwatt_power::simulated;
use nightwatt_power::{ConfigError, Context, Controller, Observed, Work};
use tokio::task::JoinHandle;

use crate::supervisor::{AnyPolicy, ExchangeFor, Records, ServerControl, Supervisor};
use crate::wake_cause::WakeCause;

/// A controller that does not touch the server, and reports what the real one can tell about it.
#[derive(Debug)]
pub(crate) struct HandsOff {
    /// None if the server sleeps with its machine.
    pub(crate) real: Option<Box<dyn Controller>>,
    /// Whether the server listens. The real controller may know nothing of one that it did not
    /// start, and in shadow mode it has started none.
    pub(crate) listens: Probe,
}

impl Controller for HandsOff {
    fn wake(&self) -> Work<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn sleep(&self) -> Work<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn state(&self) -> Work<'_, Observed> {
        Box::pin(async {
            let told = match &self.real {
                Some(real) => real.state().await,
                None => Ok(Observed::Unknown),
            };
            match told {
                Ok(Observed::Up) => told,
                _ if self.listens.attempt(self).await.up => Ok(Observed::Up),
                _ => told,
            }
        })
    }
}

/// The simulated manager and its counts.
pub(crate) struct Shadow {
    pub(crate) supervisor: Arc<Supervisor>,
    clock: Clock,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    admitted: AtomicU64,
    delayed: AtomicU64,
    visits: Mutex<Visits>,
}

/// Admitted requests and visits, and how many of them would have been delayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WouldDelay {
    /// Requests of people and their programs.
    pub(crate) requests: u64,
    /// Of those, delayed.
    pub(crate) delayed_requests: u64,
    /// Their visits.
    pub(crate) visits: u64,
    /// Of those, delayed.
    pub(crate) delayed_visits: u64,
}

impl Shadow {
    pub(crate) fn start(
        context: &Context,
        settings: Settings,
        policy: AnyPolicy,
        server: &Server,
        records: Records,
    ) -> Result<(Self, JoinHandle<()>), ConfigError> {
        let clock = &context.clock;
        let pretended: simulated::Config = simulated::Config {
            wake_time: server.wake_time,
            sleep_time: server.sleep_time,
            starts_up: true,
            ..simulated::Config::default()
        };
        let server_control = ServerControl {
            controller: Box::new(pretended.build(context)?),
            probe: Probe::new(probe::Config::Controller, clock.clone()),
            neighbour: None,
        };
        let name = format!("{} (shadow)", context.site);
        let (supervisor, task) =
            Supervisor::start(&name, clock, settings, policy, server_control, records);
        Ok((Self { supervisor, clock: clock.clone(), tally: Tally::default() }, task))
    }

    /// How the request would have been answered. An exchange that it begins ends at once: how long the server would
    /// work is unknown when the shadow decides.
    pub(crate) fn admit(
        &self,
        admission_request: &AdmissionRequest,
        asker: impl FnOnce() -> WakeCause,
    ) -> &'static str {
        let route = self.supervisor.admit(admission_request, asker);
        let admitted = admission_request.request.class.is_admitted();
        match route {
            Route::Forward => {
                self.supervisor.end_for(ExchangeFor::of(
                    admission_request.request.class,
                    admission_request.network,
                ));
            }
            Route::Hold => self.let_through_when_awake(admission_request.network),
            _ => {}
        }
        if admitted {
            // A client held for less than the SLA's delay counts as delayed too: the simulated server needs seconds to
            // wake, and an immediate figure is worth more.
            let delayed = matches!(
                route,
                Route::Hold | Route::WaitingPage | Route::OverBudget { .. } | Route::Unavailable(_)
            );
            self.tally.count(self.clock.now().mono, admission_request.visitor, delayed);
        }
        name(route)
    }

    /// The exchange of a held request, once the simulated server is awake.
    fn let_through_when_awake(&self, network: u64) {
        let supervisor = Arc::clone(&self.supervisor);
        let mut phase = supervisor.phase();
        tokio::spawn(async move {
            let mut begun = supervisor.try_begin(network);
            while !begun && phase.changed().await.is_ok() {
                if *phase.borrow() == Phase::Failed {
                    return;
                }
                begun = supervisor.try_begin(network);
            }
            if begun {
                supervisor.end_for(ExchangeFor::Client { network });
            }
        });
    }

    pub(crate) fn would_delay(&self) -> WouldDelay {
        let visits = self.tally.visits.lock().unwrap_or_else(PoisonError::into_inner);
        WouldDelay {
            requests: self.tally.admitted.load(Ordering::Relaxed),
            delayed_requests: self.tally.delayed.load(Ordering::Relaxed),
            visits: visits.visits(),
            delayed_visits: visits.delayed(),
        }
    }
}

impl Tally {
    fn count(
        &self,
        at: nightwatt_energy::time::Mono,
        visitor: nightwatt_policy::visit::Visitor,
        delayed: bool,
    ) {
        self.admitted.fetch_add(1, Ordering::Relaxed);
        self.delayed.fetch_add(u64::from(delayed), Ordering::Relaxed);
        let mut visits = self.visits.lock().unwrap_or_else(PoisonError::into_inner);
        visits.request(at, visitor, delayed);
    }
}

const fn name(route: Route) -> &'static str {
    match route {
        Route::Cache => "cache",
        Route::Stale => "stale",
        Route::Forward => "server",
        Route::WaitingPage => "waiting-page",
        Route::Hold => "held",
        Route::Later(_) => "crawler",
        Route::Refuse => "scanner",
        Route::State => "monitor",
        Route::OverBudget { .. } => "budget",
        Route::Unavailable(_) => "unavailable",
    }
}
