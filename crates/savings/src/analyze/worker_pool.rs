//! Policies run beside each other, on all cores, while the log is still being read.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use nightwatt_policy::admission::{ClientClass, Route};
use nightwatt_policy::scenario::Scenario;
use nightwatt_policy::sleep::SleepPolicy;
use nightwatt_sim::{Extent, LoggedRequest, SiteRun, VisitCount};

use super::costs::{Admitted, Bank, PolicyCost};
use super::sla::Tried;
use super::wakers::Wakers;

/// Requests given to all policies at a time.
const BATCH: usize = 2_048;

/// Batches that may wait for a slow thread.
const WAITING: usize = 16;

/// Number of recent requests whose senders are remembered until it is known whether they woke the server.
const RECENT: usize = 256;

/// A request on its way to the policies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) asked: LoggedRequest,
    /// The client's class, judged from every answer of the log.
    pub(super) class: ClientClass,
    /// Behind a cache that is the same for all policies, only the server can answer it.
    pub(super) needs_server: bool,
    /// So it is behind a mirror that holds everything.
    pub(super) needs_server_behind_mirror: bool,
    /// Local time minus UTC, s.
    pub(super) utc_offset: i32,
    /// The local calendar day, in days since 1970.
    pub(super) local_day: i64,
}

/// What a run is for.
pub(super) enum Purpose {
    /// The comparison of policies: this one, and others that do the same under this scenario.
    Policies(Vec<String>),
    /// The scenario's policy with a mirror.
    Mirror(Extent),
    /// The scenario's policy without an SLA.
    WithoutSla,
    /// The scenario's policy under another SLA.
    Sla(Tried),
}

impl Purpose {
    /// The scenario under which it runs.
    pub(super) fn scenario<'a>(&self, own: &'a Scenario) -> Cow<'a, Scenario> {
        match self {
            Self::Sla(tried) => Cow::Owned(tried.in_scenario(own)),
            Self::Policies(_) | Self::Mirror(_) | Self::WithoutSla => Cow::Borrowed(own),
        }
    }
}

/// One policy as `serve` would run it.
pub(super) struct SiteJob {
    pub(super) purpose: Purpose,
    pub(super) run: SiteRun<Box<dyn SleepPolicy + Send>>,
    /// Who wakes the server; kept for one policy only.
    pub(super) wakers: Option<Wakers>,
    recent: VecDeque<LoggedRequest>,
    woken_by: Option<u64>,
    /// Visits in which a request waits, by local calendar day.
    pub(super) delayed_visits: BTreeMap<i64, u64>,
    visits: VisitCount,
}

impl SiteJob {
    pub(super) fn new(
        purpose: Purpose,
        run: SiteRun<Box<dyn SleepPolicy + Send>>,
        wakers: Option<Wakers>,
    ) -> Self {
        Self {
            purpose,
            run,
            wakers,
            recent: VecDeque::new(),
            woken_by: None,
            delayed_visits: BTreeMap::new(),
            visits: VisitCount::default(),
        }
    }

    fn take(&mut self, event: &Event) {
        self.run.local_time(event.asked.at, event.utc_offset);
        let route = self.run.ask(&event.asked);
        self.count_visit(event, route);
        let Some(wakers) = &mut self.wakers else { return };
        let waits = matches!(route, Route::Hold | Route::WaitingPage);
        if waits {
            if self.recent.len() == RECENT {
                self.recent.pop_front();
            }
            self.recent.push_back(event.asked);
            wakers.delayed(&event.asked);
        }
        let woken_by = self.run.woken_by();
        if woken_by != self.woken_by {
            self.woken_by = woken_by;
            if let Some(by) = self.recent.iter().find(|asked| Some(asked.number) == woken_by) {
                wakers.woke(by);
            }
        }
    }
}

impl SiteJob {
    /// Counts the visit on the day of its first request that waits.
    fn count_visit(&mut self, event: &Event, route: Route) {
        if !event.asked.class.is_admitted() {
            return;
        }
        let waits = matches!(route, Route::Hold | Route::WaitingPage);
        let before = self.visits.delayed();
        self.visits.request(event.asked.visit, waits);
        if self.visits.delayed() > before {
            *self.delayed_visits.entry(event.local_day).or_default() += 1;
        }
    }
}

/// One thing to be done with every request.
pub(super) enum Job {
    /// A policy as `serve` would run it.
    Site(Box<SiteJob>),
    /// A policy at a price.
    Cost(Box<PolicyCost>),
    /// Fixed time-outs at every price.
    Bank(Box<Bank>),
}

impl Job {
    fn take(&mut self, batch: &Batch) {
        match self {
            Self::Site(job) => batch.all.iter().for_each(|event| job.take(event)),
            Self::Cost(job) => batch.admitted.iter().for_each(|request| job.request(request)),
            Self::Bank(job) => batch.admitted.iter().for_each(|request| job.request(request)),
        }
    }
}

/// Requests that every thread receives.
struct Batch {
    all: Vec<Event>,
    /// Those of admitted clients, with no more than the comparison at prices needs.
    admitted: Vec<Admitted>,
}

impl Batch {
    fn new() -> Self {
        Self { all: Vec::with_capacity(BATCH), admitted: Vec::with_capacity(BATCH) }
    }

    fn push(&mut self, event: Event) {
        if event.class.is_admitted() {
            self.admitted.push(Admitted {
                at: event.asked.at,
                visitor: event.asked.visitor,
                visit: event.asked.visit,
                class: event.class,
                needs_server: event.needs_server,
                needs_server_behind_mirror: event.needs_server_behind_mirror,
                utc_offset: event.utc_offset,
            });
        }
        self.all.push(event);
    }
}

/// Threads that do all jobs.
pub(super) struct WorkerPool {
    batch: Batch,
    workers: Vec<Worker>,
}

/// A thread, and where it takes its requests from.
type Worker = (SyncSender<Arc<Batch>>, JoinHandle<Vec<Job>>);

impl WorkerPool {
    /// Shares the jobs out among as many threads as there are cores.
    pub(super) fn begin(jobs: Vec<Job>) -> Self {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(jobs.len().max(1));
        let mut shares: Vec<Vec<Job>> = (0..threads).map(|_| Vec::new()).collect();
        for (index, job) in jobs.into_iter().enumerate() {
            shares[index % threads].push(job);
        }
        let start = |jobs| {
            let (sender, receiver) = sync_channel(WAITING);
            (sender, thread::spawn(move || work(jobs, &receiver)))
        };
        Self { batch: Batch::new(), workers: shares.into_iter().map(start).collect() }
    }

    /// One more request.
    pub(super) fn push(&mut self, event: Event) {
        self.batch.push(event);
        if self.batch.all.len() == BATCH {
            self.send();
        }
    }

    fn send(&mut self) {
        let batch = Arc::new(std::mem::replace(&mut self.batch, Batch::new()));
        for (sender, _) in &self.workers {
            // Fails only where the thread has panicked, which `end` passes on.
            let _ = sender.send(Arc::clone(&batch));
        }
    }

    /// All requests were given: the jobs, done.
    pub(super) fn end(mut self) -> Vec<Job> {
        self.send();
        let mut done = Vec::new();
        for (sender, thread) in self.workers {
            drop(sender);
            match thread.join() {
                Ok(jobs) => done.extend(jobs),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    }
}

fn work(mut jobs: Vec<Job>, batches: &Receiver<Arc<Batch>>) -> Vec<Job> {
    for batch in batches {
        for job in &mut jobs {
            job.take(&batch);
        }
    }
    jobs
}
