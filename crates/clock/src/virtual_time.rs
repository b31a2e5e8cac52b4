//! Time that jumps from timer to timer.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use nightwatt_energy::time::{Mono, Now, Wall};

#[derive(Debug)]
pub(crate) struct VirtualTime {
    start: Wall,
    utc_offset: i32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    mono: Mono,
    /// By how much the civil clock has been set, in milliseconds.
    set_by: i64,
    /// Tasks that owe bytes, less those that are parked. Can be negative for a moment: a task may park on
    /// behalf of a debt that is taken later.
    debts: i64,
    /// In order of time, then of registration.
    timers: BTreeMap<(Mono, u64), Waker>,
    registered: u64,
}

impl VirtualTime {
    pub(crate) fn new(start: Wall, utc_offset: i32) -> Self {
        Self { start, utc_offset, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Now {
        let State { mono, set_by, .. } = *self.state();
        let wall = Wall((self.start + mono.0).0 + set_by);
        Now { mono, wall, utc_offset: self.utc_offset }
    }

    pub(crate) fn set(&self, by: i64) {
        self.state().set_by += by;
    }

    pub(crate) fn owe(&self) {
        self.state().debts += 1;
    }

    pub(crate) fn pay(&self) {
        self.state().debts -= 1;
    }

    /// Jumps to the next timer and wakes it, unless bytes are owed.
    pub(crate) fn jump_if_idle(&self) {
        let woken = {
            let mut state = self.state();
            if state.debts > 0 {
                return;
            }
            let Some(((at, _), waker)) = state.timers.pop_first() else { return };
            // A deadline in the past only waited for its turn.
            state.mono = state.mono.max(at);
            waker
        };
        woken.wake();
    }
}

/// Waits for a moment of virtual time.
pub(crate) struct Timer {
    time: Arc<VirtualTime>,
    deadline: Mono,
    key: Option<(Mono, u64)>,
}

impl Timer {
    pub(crate) fn new(time: Arc<VirtualTime>, deadline: Mono) -> Self {
        Self { time, deadline, key: None }
    }
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut state = this.time.state();
        let Some(key) = this.key else {
            state.registered += 1;
            // A deadline in the past goes behind those already due.
            let key = (this.deadline.max(state.mono), state.registered);
            this.key = Some(key);
            state.timers.insert(key, cx.waker().clone());
            return Poll::Pending;
        };
        match state.timers.get_mut(&key) {
            // Polled because of another wake-up: not yet due.
            Some(waker) => {
                waker.clone_from(cx.waker());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.time.state().timers.remove(&key);
        }
    }
}
