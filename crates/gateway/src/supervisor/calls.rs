//! Calls to a driver from the code that manages the process: check that it runs, change the control of the server,
//! leave the server to another process.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use nightwatt_policy::lifecycle::Handed;
use nightwatt_policy::manager::Settings;
use nightwatt_policy::sleep::Lessons;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::{AnyPolicy, Driver, Managed, ServerControl, Supervisor};
use crate::dashboard_history::HistoryLog;
use crate::ledger_file::Journal;
use crate::lessons::LessonsStore;

/// Time limit for a command that is under way at a hand-over; the next process repeats a wake command that is
/// cancelled.
const COMMAND_ENDS: Duration = Duration::from_secs(5);

/// A call to a driver.
pub(super) enum Call {
    /// Answers.
    Ping(oneshot::Sender<()>),
    /// Writes a checkpoint.
    Write,
    /// The site is gone from the configuration.
    Leave,
    /// Another SLA may hold from now on.
    Retuned,
    /// Changes the control of the server.
    Reach(ServerControl),
    /// Stores what the next policy learns there; nothing if that policy does not learn.
    Learn(Option<LessonsStore>),
    /// Leaves the server to another process, which this control asks; stops writing.
    Park(ServerControl, oneshot::Sender<Handed>),
    /// That process failed: continues as before, with this journal.
    Resume(Option<Journal>),
}

/// A command that is being carried out.
pub(super) struct Underway {
    pub(super) is_wake: bool,
    pub(super) task: JoinHandle<()>,
}

/// The state of a driver while another process controls its server.
pub(super) struct Parked {
    server_control: Arc<ServerControl>,
    shelf: Option<LessonsStore>,
    chronicle: Option<HistoryLog>,
}

/// Where a policy stores what it learns.
pub(crate) enum Learns {
    /// In the same place as before, if any.
    AsBefore,
    /// In this place from now on; or it does not learn any more.
    Elsewhere(Option<LessonsStore>),
}

/// Changed supervision, ready to be applied without failure.
pub(crate) struct Retuning {
    pub(crate) supervisor: Arc<Supervisor>,
    pub(crate) settings: Settings,
    /// Another policy.
    pub(crate) policy: Option<AnyPolicy>,
    /// Where it stores what it learns.
    pub(crate) learns: Learns,
    /// Another control of the server.
    pub(crate) server_control: Option<ServerControl>,
    /// Its probes of use are others.
    pub(crate) new_probes: bool,
}

impl Retuning {
    /// Applies it.
    pub(crate) fn commit(self) {
        let Self { supervisor, settings, policy, learns, server_control, new_probes } = self;
        let now = supervisor.clock.now();
        supervisor.with(|managed, _| {
            managed.manager.retune(now, settings, policy);
            if new_probes {
                managed.manager.probes_changed(now);
            }
        });
        supervisor.call(Call::Retuned);
        if let Learns::Elsewhere(shelf) = learns {
            supervisor.call(Call::Learn(shelf));
        }
        if let Some(server_control) = server_control {
            supervisor.call(Call::Reach(server_control));
        }
    }
}

impl Supervisor {
    /// A driver that has ended needs no calls.
    fn call(&self, call: Call) {
        let _ = self.calls.send(call);
    }

    /// Returns when the driver has answered; false if it never will.
    pub(crate) async fn is_driven(&self) -> bool {
        let (answer, answered) = oneshot::channel();
        self.call(Call::Ping(answer));
        answered.await.is_ok()
    }

    /// Its site is gone: returns once its controller knows that.
    pub(crate) async fn leave(&self) {
        self.call(Call::Leave);
        self.is_driven().await;
    }

    pub(super) fn write_ledger(&self) {
        self.call(Call::Write);
    }

    /// Leaves the server to another process, through which `server_control` works from now on, and stops writing. Returns
    /// the state for that process; nothing if the driver has ended.
    pub(crate) async fn park(&self, server_control: ServerControl) -> Option<Handed> {
        let (answer, answered) = oneshot::channel();
        self.call(Call::Park(server_control, answer));
        answered.await.ok()
    }

    /// The other process has failed: continues as before it was parked.
    pub(crate) fn resume(&self, journal: Option<Journal>) {
        self.call(Call::Resume(journal));
    }

    /// What the policy has learned so far, if it learns.
    pub(crate) fn lessons(&self) -> Option<Lessons> {
        let now = self.clock.now();
        self.lock().manager.lessons(now)
    }

    fn chronicle(&self) -> MutexGuard<'_, Option<HistoryLog>> {
        self.chronicle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a client is served or waits; can be waited on.
    pub(crate) fn busy(&self) -> watch::Receiver<bool> {
        self.busy.subscribe()
    }
}

impl Managed {
    /// Whether a client is served, or waits.
    pub(super) fn is_busy(&self) -> bool {
        self.manager.in_flight() > 0 || self.manager.held() > 0
    }
}

impl Driver {
    /// Carries out a call.
    pub(super) async fn answer(&mut self, call: Call) {
        match call {
            Call::Ping(answer) => drop(answer.send(())),
            Call::Write => self.write(None, None),
            Call::Leave => self.server_control.controller.leave(),
            Call::Retuned => self.watch_for_slowness(),
            Call::Reach(server_control) => {
                self.reach(Arc::new(server_control));
                let now = self.supervisor.clock.now();
                self.supervisor
                    .with(|managed, actions| managed.manager.controller_changed(now, actions));
            }
            Call::Learn(place) => self.shelf = place,
            Call::Park(server_control, answer) => {
                let handed = self.park(server_control).await;
                let _ = answer.send(handed);
            }
            Call::Resume(journal) => self.resume(journal),
        }
    }

    /// Controls the server through this from now on. Returns the previous control.
    fn reach(&mut self, server_control: Arc<ServerControl>) -> Arc<ServerControl> {
        if let Some(command) = self.command.take() {
            command.task.abort();
        }
        self.listener.abort();
        let old = std::mem::replace(&mut self.server_control, Arc::clone(&server_control));
        self.listener = tokio::spawn(server_control.listen(Arc::clone(&self.supervisor)));
        old
    }

    async fn park(&mut self, server_control: ServerControl) -> Handed {
        self.catch_up();
        if let Some(command) = &mut self.command {
            let _ = self.supervisor.clock.timeout(COMMAND_ENDS, &mut command.task).await;
        }
        self.catch_up();
        let broken_off = |it: &Underway| it.is_wake && !it.task.is_finished();
        let carried_out = !self.command.as_ref().is_some_and(broken_off);
        self.settle_books();
        let now = self.supervisor.clock.now();
        let handed = self.supervisor.lock().manager.hand_over(now, carried_out);
        self.journal = None;
        let (place, chronicle) = (self.shelf.take(), self.supervisor.chronicle().take());
        let server_control = self.reach(Arc::new(server_control));
        self.parked = Some(Parked { server_control, shelf: place, chronicle });
        // From now on its knowledge of the server comes from the other process.
        self.supervisor.with(|managed, actions| managed.manager.controller_changed(now, actions));
        handed
    }

    /// Handles pending work, so that the reported state of the server is current.
    fn catch_up(&mut self) {
        while let Ok(action) = self.actions.try_recv() {
            self.act(action);
        }
    }

    fn resume(&mut self, journal: Option<Journal>) {
        let Some(Parked { server_control, shelf, chronicle }) = self.parked.take() else { return };
        (self.journal, self.shelf) = (journal, shelf);
        *self.supervisor.chronicle() = chronicle;
        self.reach(server_control);
        let now = self.supervisor.clock.now();
        self.supervisor.with(|managed, actions| managed.manager.controller_changed(now, actions));
    }
}

/// Ends a task, and waits until it has.
pub(crate) async fn end(task: JoinHandle<()>) {
    task.abort();
    let _ = task.await;
}
