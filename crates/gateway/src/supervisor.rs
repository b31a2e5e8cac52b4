//! Drives the power manager of one server: runs its timers, carries out its commands, writes its journal, and notifies
//! waiting requests when the server is awake.

mod calls;
mod causes;
mod exchanges;
mod look;
mod past;
mod server_control;
mod warnings;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::{Mono, Now};
use nightwatt_policy::admission::Route;
use nightwatt_policy::ledger::Bill;
use nightwatt_policy::lifecycle::{Change, Command, Handed, Phase, Report};
use nightwatt_policy::manager::{
    Action, AdmissionRequest, Cause, Memory, Order, PowerManager, Settings,
};
use nightwatt_policy::sleep::SleepPolicy;
use nightwatt_policy::visit::Visitor;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use self::calls::{Call, Parked, Underway};
pub(crate) use self::calls::{Learns, Retuning, end};
pub(crate) use self::exchanges::ExchangeFor;
pub(crate) use self::look::SupervisorStatus;
pub(crate) use self::server_control::ServerControl;
use crate::dashboard_history::HistoryLog;
use crate::ledger_file::{Journal, Record};
use crate::lessons::LessonsStore;
use crate::metering::{Meters, SETTLE_EVERY};
use crate::metrics::ServerTally;
use crate::wake_cause::WakeCause;

/// The ledger, and what was learned, are written at least this often while the supervisor has anything to do at all.
pub(crate) const CHECKPOINT_EVERY: Duration = Duration::from_mins(15);

pub(crate) type AnyPolicy = Box<dyn SleepPolicy + Send>;

/// The records, and where they are stored.
pub(crate) struct Records {
    /// The ledger, if there is one.
    pub(crate) journal: Option<Journal>,
    /// The totals of its last record.
    pub(crate) memory: Memory,
    /// Where the policy's lessons are stored, if it learns.
    pub(crate) shelf: Option<LessonsStore>,
    /// The meters of the server and the proxy.
    pub(crate) meters: Meters,
    /// The past, if there is a dashboard to show it.
    pub(crate) chronicle: Option<HistoryLog>,
    /// The state that another process handed over.
    pub(crate) handed: Option<Handed>,
}

/// One server under supervision.
pub(crate) struct Supervisor {
    name: String,
    clock: Clock,
    manager: Mutex<Managed>,
    phase: watch::Sender<Phase>,
    /// Counts how many times it went to sleep, as far as that is certain: by command, or by its own announcement.
    sleeps: watch::Sender<u64>,
    /// Whether now is a good time for background work.
    free: watch::Sender<bool>,
    /// Whether a client is served or waits.
    busy: watch::Sender<bool>,
    calls: mpsc::UnboundedSender<Call>,
    actions: mpsc::UnboundedSender<Action>,
    /// Counts the answers of probes.
    probed: watch::Sender<u64>,
    /// Notified when the manager needs its timer earlier than the driver expects.
    rearm: Notify,
    /// The bill when this process began.
    began_with: Bill,
    tally: ServerTally,
    chronicle: Mutex<Option<HistoryLog>>,
}

struct Managed {
    manager: PowerManager<AnyPolicy>,
    meters: Meters,
    /// What the driver sleeps until.
    armed: Mono,
    /// Clients that requested the current or next wake-up.
    askers: Vec<(u64, WakeCause)>,
    scratch: Vec<Action>,
    /// Exchanges of a pool's server that are tunnels.
    tunnels: u32,
    /// Exchanges without a client, which renew copies.
    background: u32,
    /// The server's last reason for not sleeping.
    inhibited_by: Option<String>,
    /// Why the last wake-up failed, or goes wrong.
    failure: Option<String>,
}

/// The background part.
struct Driver {
    supervisor: Arc<Supervisor>,
    server_control: Arc<ServerControl>,
    journal: Option<Journal>,
    shelf: Option<LessonsStore>,
    actions: mpsc::UnboundedReceiver<Action>,
    calls: mpsc::UnboundedReceiver<Call>,
    /// While another process controls the server: what is needed to take it back.
    parked: Option<Parked>,
    written: Mono,
    /// When the lessons were stored last.
    lessons_stored: Mono,
    /// When the bill is to be settled next; never without a meter.
    settle_at: Mono,
    /// When the current wake-up began.
    waking_since: Option<Mono>,
    /// Wake loops reported.
    wake_loops: u64,
    /// It was logged that its SLA keeps it awake, since it wakes too slowly.
    is_too_slow: bool,
    command: Option<Underway>,
    listener: JoinHandle<()>,
}

/// Number of clients remembered as possible causes of a wake-up.
const ASKERS: usize = 64;

impl std::fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supervisor").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Supervisor {
    /// Starts to supervise a server, and probes at once whether it is awake.
    ///
    /// The driver runs until [`Supervisor::stop`] or the end of the runtime.
    pub(crate) fn start(
        name: &str,
        clock: &Clock,
        settings: Settings,
        policy: AnyPolicy,
        server_control: ServerControl,
        Records { journal, memory, shelf, meters, chronicle, handed }: Records,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let now = clock.now();
        let mut manager = PowerManager::new(settings, policy, memory, now);
        meters.announce(&mut manager);
        let settle_at = if meters.are_none() { Mono::NEVER } else { now.mono + SETTLE_EVERY };
        let (actions, queue) = mpsc::unbounded_channel();
        let (calls, called) = mpsc::unbounded_channel();
        let first = Managed {
            manager,
            meters,
            armed: Mono::ZERO,
            askers: Vec::new(),
            scratch: Vec::new(),
            tunnels: 0,
            background: 0,
            inhibited_by: None,
            failure: None,
        };
        let supervisor = Arc::new(Self {
            name: name.to_owned(),
            clock: clock.clone(),
            manager: Mutex::new(first),
            phase: watch::Sender::new(Phase::Unknown),
            sleeps: watch::Sender::new(0),
            free: watch::Sender::new(false),
            busy: watch::Sender::new(false),
            calls,
            actions,
            probed: watch::Sender::new(0),
            rearm: Notify::new(),
            began_with: memory.bill,
            tally: ServerTally::default(),
            chronicle: Mutex::new(chronicle),
        });
        if let Some(handed) = handed {
            supervisor.with(|managed, actions| managed.manager.take_over(now, &handed, actions));
            supervisor.phase.send_replace(supervisor.phase_now());
        }
        let server_control = Arc::new(server_control);
        let driver = Driver {
            supervisor: Arc::clone(&supervisor),
            listener: tokio::spawn(Arc::clone(&server_control).listen(Arc::clone(&supervisor))),
            server_control,
            journal,
            shelf,
            actions: queue,
            calls: called,
            parked: None,
            written: now.mono,
            lessons_stored: now.mono,
            settle_at,
            waking_since: None,
            wake_loops: 0,
            is_too_slow: false,
            command: None,
        };
        (supervisor, tokio::spawn(driver.run()))
    }

    fn lock(&self) -> MutexGuard<'_, Managed> {
        self.manager.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the manager and passes its actions on.
    fn with<T>(&self, call: impl FnOnce(&mut Managed, &mut Vec<Action>) -> T) -> T {
        let mut managed = self.lock();
        let mut actions = std::mem::take(&mut managed.scratch);
        let result = call(&mut managed, &mut actions);
        for action in actions.drain(..) {
            // No task receives when the gateway has stopped.
            let _ = self.actions.send(action);
        }
        managed.scratch = actions;
        publish(&self.free, managed.manager.is_free());
        publish(&self.busy, managed.is_busy());
        let earlier = managed.manager.next_timer() < managed.armed;
        drop(managed);
        if earlier {
            self.rearm.notify_one();
        }
        result
    }

    /// Its clock.
    pub(crate) const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether browsers get a waiting page, or are held like other clients.
    pub(crate) fn show_waiting_page(&self, show: bool) {
        self.lock().manager.show_waiting_page(show);
    }

    /// A number for the next request of this process, for [`AdmissionRequest::id`].
    pub(crate) fn next_id() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// A request arrived: returns how to answer it. `asker` describes it, in case it wakes the server.
    pub(crate) fn admit(
        &self,
        admission_request: &AdmissionRequest,
        asker: impl FnOnce() -> WakeCause,
    ) -> Route {
        let now = self.clock.now();
        self.with(|managed, actions| {
            let route = managed.manager.admit(now, admission_request, actions);
            if matches!(route, Route::Hold | Route::WaitingPage) && managed.askers.len() < ASKERS {
                managed.askers.push((admission_request.id, asker()));
            }
            route
        })
    }

    /// In how long a crawler that found the server gone may come back.
    pub(crate) fn appointment(&self) -> Duration {
        let now = self.clock.now();
        self.with(|managed, _| managed.manager.appointment(now))
    }

    /// Whether now is a good time for exchanges without a client; can be waited on.
    pub(crate) fn free(&self) -> watch::Receiver<bool> {
        self.free.subscribe()
    }

    /// A held request was dropped before the server woke.
    pub(crate) fn gave_up(&self, id: u64) {
        let now = self.clock.now();
        self.with(|managed, _| managed.manager.gave_up(now, id));
    }

    /// The server could not be reached although it should be awake.
    pub(crate) fn unreachable(&self) {
        self.report(Report::Unreachable);
    }

    /// It may be up again.
    pub(crate) fn stirred(&self) {
        self.report(Report::Stirred);
    }

    /// For how long a failed server is not tried again.
    pub(crate) fn blocked_for(&self) -> Duration {
        let now = self.clock.now().mono;
        self.lock().manager.lifecycle().blocked_until().since(now)
    }

    /// The machine under the server sleeps: so does the server.
    pub(crate) fn ground_is_gone(&self) {
        self.report(Report::Gone);
    }

    /// The server could not be reached although it should be awake: probes it, and waits for the answer, for at most
    /// `timeout`. Returns whether it is awake.
    pub(crate) async fn ask_after(&self, timeout: Duration) -> bool {
        let mut probed = self.probed.subscribe();
        self.unreachable();
        let _ = self.clock.parked(self.clock.timeout(timeout, probed.changed())).await;
        self.phase_now() == Phase::Awake
    }

    /// Carries out an order of the operator.
    pub(crate) fn order(&self, order: Order) {
        let now = self.clock.now();
        self.with(|managed, actions| managed.manager.order(now, order, actions));
    }

    fn report(&self, report: Report) {
        let now = self.clock.now();
        self.with(|managed, actions| managed.manager.report(now, report, actions));
    }

    /// The phase of the server; can be waited on.
    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// The bill since this process began, as far as it is settled.
    pub(crate) fn bill_since_start(&self) -> Bill {
        let now = self.clock.now();
        let mut managed = self.lock();
        managed.book(now, false);
        managed.manager.settled_bill(now).since(&self.began_with)
    }

    /// Counts since this process began.
    pub(crate) fn tally(&self) -> &ServerTally {
        &self.tally
    }

    /// Whether it is awake, for less than `time`.
    pub(crate) fn woke_within(&self, time: Duration) -> bool {
        let now = self.clock.now().mono;
        let managed = self.lock();
        let lifecycle = managed.manager.lifecycle();
        lifecycle.phase() == Phase::Awake && now.since(lifecycle.since()) < time
    }

    /// A request that had been let through found the server gone: it waits again.
    pub(crate) fn rejoin(
        &self,
        id: u64,
        visitor: Option<Visitor>,
        asker: impl FnOnce() -> WakeCause,
    ) -> bool {
        let now = self.clock.now();
        self.with(|managed, actions| {
            let waits = managed.manager.rejoin(now, id, visitor, actions);
            if waits && managed.askers.len() < ASKERS {
                managed.askers.push((id, asker()));
            }
            waits
        })
    }

    /// How long the next wake-up is expected to last.
    pub(crate) fn expected_wake_time(&self) -> Duration {
        self.lock().manager.expected_wake_time()
    }

    /// The present phase of the server.
    pub(crate) fn phase_now(&self) -> Phase {
        self.lock().manager.phase()
    }

    /// Requests held now.
    pub(crate) fn held(&self) -> usize {
        self.lock().manager.held()
    }
}

/// Sets a value. Without receivers it notifies none, which would cost as much as the rest of a call. (One that subscribes
/// meanwhile reads the new value: it cannot read before this is over.)
fn publish(sender: &watch::Sender<bool>, value: bool) {
    sender.send_if_modified(|was| {
        std::mem::replace(was, value) != value && sender.receiver_count() > 0
    });
}

impl Driver {
    async fn run(mut self) {
        loop {
            let due = {
                let mut managed = self.supervisor.lock();
                managed.armed = managed.manager.next_timer().min(self.settle_at);
                managed.armed
            };
            let supervisor = Arc::clone(&self.supervisor);
            tokio::select! {
                biased;
                action = self.actions.recv() => match action {
                    Some(action) => self.act(action),
                    None => return,
                },
                Some(call) = self.calls.recv() => self.answer(call).await,
                () = supervisor.rearm.notified() => {}
                () = supervisor.clock.sleep_until(due) => self.tick(),
            }
        }
    }

    fn tick(&mut self) {
        let now = self.supervisor.clock.now();
        self.supervisor.with(|managed, actions| managed.manager.tick(now, actions));
        if self.settle_at <= now.mono {
            self.settle_at = now.mono + SETTLE_EVERY;
            self.write_hours(false);
        }
        if now.mono.since(self.written) >= CHECKPOINT_EVERY {
            self.write(None, None);
        }
        if now.mono.since(self.lessons_stored) >= CHECKPOINT_EVERY {
            self.store_lessons();
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Do(command) => self.carry_out(command),
            Action::Changed(change, cause) => self.changed(change, cause),
        }
    }

    /// Starts a command; the previous one, if it still runs, is not wanted any more.
    fn carry_out(&mut self, command: Command) {
        if let Some(old) = self.command.take() {
            old.task.abort();
        }
        let supervisor = Arc::clone(&self.supervisor);
        let server_control = Arc::clone(&self.server_control);
        let is_wake = matches!(command, Command::Wake(_));
        let task = tokio::spawn(async move {
            let report = server_control.carry_out(command, &supervisor).await;
            supervisor.report(report);
            if matches!(report, Report::Probed(..)) {
                supervisor.probed.send_modify(|count| *count += 1);
            }
        });
        self.command = Some(Underway { is_wake, task });
    }

    fn changed(&mut self, change: Change, cause: Option<Cause>) {
        let supervisor = Arc::clone(&self.supervisor);
        let (phase, cause) = {
            let mut managed = supervisor.lock();
            let cause = cause.map(|cause| managed.name_cause(cause));
            if matches!(change, Change::Woke | Change::StayedAwake | Change::Failed) {
                managed.askers.clear();
            }
            (managed.manager.phase(), cause)
        };
        self.count(change, cause.as_ref());
        self.watch_for_loops();
        self.watch_for_slowness();
        let site = supervisor.name.as_str();
        let state = phase.as_str();
        let change_name = change.as_str();
        match (change, &cause) {
            (_, Some(WakeCause::Request { id, client, class, line, .. })) => {
                tracing::info!(
                    site,
                    state,
                    cause = "request",
                    id,
                    client,
                    class,
                    line,
                    "{change_name}"
                );
            }
            (_, Some(cause)) => {
                tracing::info!(site, state, cause = cause.as_str(), "{change_name}");
            }
            // Logged once, with its reasons, when they change.
            (Change::Declined, None) => tracing::debug!(site, state, "{change_name}"),
            (Change::Failed | Change::StayedAwake | Change::WentAway, None) => {
                let failures = supervisor.lock().manager.lifecycle().failures();
                tracing::warn!(site, state, failures, "{change_name}");
            }
            (_, None) => tracing::info!(site, state, "{change_name}"),
        }
        self.write(Some(change), cause);
        supervisor.phase.send_replace(phase);
        if matches!(change, Change::FallingAsleep | Change::SleptByOthers) {
            supervisor.sleeps.send_modify(|sleeps| *sleeps += 1);
        }
    }

    /// Counts a change for the metrics.
    fn count(&mut self, change: Change, cause: Option<&WakeCause>) {
        let (now, tally) = (self.supervisor.clock.now().mono, &self.supervisor.tally);
        tally.changed(change, cause);
        let began = self.waking_since.take();
        match change {
            Change::Waking => self.waking_since = Some(now),
            Change::Woke => began.map_or((), |began| tally.woke_in(now.since(began))),
            _ => {}
        }
    }

    fn write(&mut self, change: Option<Change>, cause: Option<WakeCause>) {
        let now = self.supervisor.clock.now();
        self.written = now.mono;
        let memory = self.supervisor.lock().manager.memory(now);
        self.append(&Record { v: 1, at: now.wall, change, cause, hour: None, memory });
    }

    /// Books the meters' readings, and writes the hours that ended; the present one too if the gateway stops.
    fn write_hours(&mut self, stops: bool) {
        let now = self.supervisor.clock.now();
        let (hours, memory) = {
            let mut managed = self.supervisor.lock();
            managed.book(now, stops);
            (managed.meters.take_unwritten(), managed.manager.memory(now))
        };
        for hour in hours {
            let hour = Some(hour);
            self.append(&Record { v: 1, at: now.wall, change: None, cause: None, hour, memory });
        }
    }

    fn append(&mut self, record: &Record) {
        if let Some(journal) = &mut self.journal
            && let Err(error) = journal.write(record)
        {
            tracing::error!(site = %self.supervisor.name, %error, "the ledger could not be written");
        }
        self.supervisor.remember(record);
    }

    /// Writes all that is pending: the driver ends, or leaves the server to another process.
    fn settle_books(&mut self) {
        self.write_hours(true);
        self.write(None, None);
        self.store_lessons();
    }

    /// Stores what the policy has learned.
    fn store_lessons(&mut self) {
        let now = self.supervisor.clock.now();
        self.lessons_stored = now.mono;
        let lessons = self.supervisor.lock().manager.lessons(now);
        if let (Some(place), Some(lessons)) = (&self.shelf, lessons) {
            place.store(&lessons);
        }
    }
}

impl Drop for Driver {
    /// The last record, when the gateway stops in good order, and the last lesson.
    fn drop(&mut self) {
        if let Some(command) = &self.command {
            command.task.abort();
        }
        self.listener.abort();
        self.settle_books();
    }
}

impl Managed {
    fn book(&mut self, now: Now, stops: bool) {
        self.meters.book(&mut self.manager, now, stops);
    }
}
