//! Time limits of a connection.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;

/// One timer for all phases of a connection. It is moved only when it comes due, or is due too late:
/// a request costs it nothing.
pub(crate) struct Timer {
    clock: Clock,
    sleep: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    due: Mono,
}

impl Timer {
    pub(crate) fn new(clock: &Clock) -> Self {
        Self { clock: clock.clone(), sleep: None, due: Mono::NEVER }
    }

    pub(crate) fn now(&self) -> Mono {
        self.clock.now().mono
    }

    /// Do clients take time?
    pub(crate) fn is_real(&self) -> bool {
        !self.clock.is_virtual()
    }

    /// Is the deadline of a client past? Else the task is woken when it is.
    pub(crate) fn is_past(&mut self, cx: &mut Context<'_>, deadline: Mono) -> bool {
        self.is_real() && self.has_come(cx, deadline)
    }

    /// What is waited for has come: virtual time need not stop for it any more.
    pub(crate) fn settle(&mut self) {
        if self.clock.is_virtual() {
            self.sleep = None;
        }
    }

    /// The same as `is_past`, of a deadline that counts in virtual time, too.
    pub(crate) fn has_come(&mut self, cx: &mut Context<'_>, deadline: Mono) -> bool {
        loop {
            if self.sleep.is_none() || self.due > deadline {
                let clock = self.clock.clone();
                self.due = deadline;
                self.sleep = Some(Box::pin(async move { clock.sleep_until(deadline).await }));
            }
            let Some(sleep) = &mut self.sleep else { return false };
            if sleep.as_mut().poll(cx).is_pending() {
                return false;
            }
            self.sleep = None;
            if self.now() >= deadline {
                return true;
            }
        }
    }

    /// `poll`, or nothing when that takes longer than `limit` without being ready.
    pub(crate) async fn within<T>(
        &mut self,
        limit: Duration,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Option<T> {
        let mut deadline = None;
        std::future::poll_fn(|cx| {
            if let Poll::Ready(done) = poll(cx) {
                return Poll::Ready(Some(done));
            }
            // Reads the clock only where there is something to wait for.
            let deadline = *deadline.get_or_insert_with(|| self.now() + limit);
            if self.is_past(cx, deadline) { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }
}
