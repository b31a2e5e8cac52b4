//! Whether a connection goes on: requests that are under way in it, and whose turn it is in each.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use nightwatt_http1::Limits;
use tokio::sync::Notify;

/// What goes on in one connection.
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
    /// There was a request.
    has_begun: bool,
    /// When a request began or ended.
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

    /// Something went on.
    pub(super) fn touch(&self) {
        self.state().last = self.clock.now().mono;
    }

    /// The connection is to end after what is under way.
    pub(super) fn end_soon(&self) {
        self.ending.notify_one();
    }

    /// Comes when another task said so.
    pub(super) async fn is_to_end(&self) {
        self.ending.notified().await;
    }

    /// For how long nothing may be under way: until the first request as long as its head may take. One
    /// that ends only has the time in which it must take something.
    fn patience(&self, has_begun: bool, is_ending: bool) -> Duration {
        match (is_ending, has_begun) {
            (true, _) => self.limits.send_timeout,
            (false, true) => self.limits.idle_timeout,
            (false, false) => self.limits.head_timeout,
        }
    }

    /// Has nothing been under way for this long?
    pub(super) fn is_idle(&self, is_ending: bool) -> bool {
        let state = self.state();
        let until = state.last + self.patience(state.has_begun, is_ending);
        state.under_way == 0 && self.clock.now().mono >= until
    }

    /// When to look again. It cannot be idle before that, whatever begins or ends meanwhile.
    pub(super) fn next_look(&self, is_ending: bool) -> Mono {
        let (state, now) = (self.state(), self.clock.now().mono);
        let fresh = now + self.patience(true, is_ending);
        if state.under_way > 0 {
            return fresh;
        }
        fresh.min(state.last + self.patience(state.has_begun, is_ending))
    }
}

/// One request, and whose turn it is: the client's, who is to take what is there of its answer, or that of
/// the task that makes the answer.
pub(super) struct Turn {
    watch: Arc<Conversation>,
    clock: Clock,
    /// Since when it is the client's.
    clients: Mutex<Option<Mono>>,
}

impl Turn {
    /// A request begins. It is under way until all have dropped this.
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

    /// It is the client's turn from now on, or not.
    pub(super) fn is_clients(&self, is_it: bool) {
        *self.clients() = is_it.then(|| self.clock.now().mono);
    }

    /// Comes when the client has taken nothing for this long of what is there.
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
