//! Whether a connection makes progress: its requests under way, and whose turn it is in each.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use nightwatt_http1::Limits;
use tokio::sync::Notify;

/// The state of one connection.
pub(super) struct Conversation {
    clock: Clock,
    limits: Arc<Limits>,
    state: Mutex<State>,
    ending: Notify,
}

#[derive(Debug)]
struct State {
    /// Requests whose answers have not gone whole.
    under_way: usize,
    /// There has been a request.
    has_begun: bool,
    /// When the last request began or ended.
    last: Mono,
}

impl Conversation {
    pub(super) fn begin(clock: &Clock, limits: &Arc<Limits>) -> Arc<Self> {
        let state = State { under_way: 0, has_begun: false, last: clock.now().mono };
        Arc::new(Self {
            clock: clock.clone(),
            limits: Arc::clone(limits),
            state: Mutex::new(state),
            ending: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes progress.
    pub(super) fn touch(&self) {
        self.state().last = self.clock.now().mono;
    }

    /// Makes the connection end after the requests under way.
    pub(super) fn end_soon(&self) {
        self.ending.notify_one();
    }

    /// Returns when another task has called [`end_soon`](Self::end_soon).
    pub(super) async fn is_to_end(&self) {
        self.ending.notified().await;
    }

    /// For how long the connection may be idle: before the first request, the time limit for its head. A connection
    /// that is ending only has the time limit for reading.
    fn timeout(&self, has_begun: bool, is_ending: bool) -> Duration {
        match (is_ending, has_begun) {
            (true, _) => self.limits.send_timeout,
            (false, true) => self.limits.idle_timeout,
            (false, false) => self.limits.head_timeout,
        }
    }

    /// Whether it has been idle for this long.
    pub(super) fn is_idle(&self, is_ending: bool) -> bool {
        let state = self.state();
        let until = state.last + self.timeout(state.has_begun, is_ending);
        state.under_way == 0 && self.clock.now().mono >= until
    }

    /// When to check again. It cannot be idle before that, whatever begins or ends meanwhile.
    pub(super) fn next_look(&self, is_ending: bool) -> Mono {
        let (state, now) = (self.state(), self.clock.now().mono);
        let fresh = now + self.timeout(true, is_ending);
        if state.under_way > 0 {
            return fresh;
        }
        fresh.min(state.last + self.timeout(state.has_begun, is_ending))
    }
}

/// One request, and whose turn it is: the client's, which has to read what is there of its answer, or that of the task
/// that makes the answer.
pub(super) struct Turn {
    watch: Arc<Conversation>,
    clock: Clock,
    /// Since when it has been the client's turn.
    clients: Mutex<Option<Mono>>,
}

impl Turn {
    /// Begins a request. It is under way until all have dropped this.
    pub(super) fn begin(watch: &Arc<Conversation>, clock: &Clock) -> Arc<Self> {
        let mut state = watch.state();
        (state.under_way, state.has_begun) = (state.under_way + 1, true);
        drop(state);
        watch.touch();
        let (watch, clock) = (Arc::clone(watch), clock.clone());
        Arc::new(Self { watch, clock, clients: Mutex::new(None) })
    }

    fn clients(&self) -> MutexGuard<'_, Option<Mono>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets whether it is the client's turn.
    pub(super) fn is_clients(&self, is_it: bool) {
        *self.clients() = is_it.then(|| self.clock.now().mono);
    }

    /// Returns when the client has read nothing for this long although there was data.
    pub(super) async fn stands_still(&self, clock: &Clock, limit: Duration) {
        loop {
            let now = clock.now().mono;
            let until = self.clients().unwrap_or(now) + limit;
            if until <= now {
                return;
            }
            clock.sleep_until(until).await;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.watch.state().under_way -= 1;
        self.watch.touch();
    }
}
