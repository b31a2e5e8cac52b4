//! Connections by HTTP/1.1 that wait for their next requests.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use nightwatt_energy::time::Mono;
use nightwatt_http1::client::Connection;

use super::{LONGEST_IDLE, Reuse, Stream};

/// Idle connections kept. So many come about only if as many requests were under way at once; the
/// server closes those that it does not want to keep.
const MOST: usize = 1024;

/// A connection is given up this long before the server's announced end of it.
const BEFORE_ITS_END: Duration = Duration::from_secs(1);

/// A connection that waits.
pub(crate) struct Waiting {
    pub(crate) connection: Connection<Stream>,
    /// How long the server keeps it, if it said so.
    pub(super) keeps: Option<Duration>,
    pub(super) since: Mono,
}

impl Waiting {
    /// Closed, about to be closed by the server, or too old.
    fn has_ended(&mut self, now: Mono) -> bool {
        let idle = now.since(self.since);
        idle >= LONGEST_IDLE
            || self.keeps.is_some_and(|keeps| idle + BEFORE_ITS_END >= keeps)
            || self.connection.is_over()
    }
}

#[derive(Default)]
struct List {
    waiting: Vec<Waiting>,
    /// Wakes the task that closes what the server has closed.
    watcher: Option<Waker>,
}

/// The idle connections to one server.
#[derive(Default)]
pub(super) struct Idle(Arc<Mutex<List>>);

fn lock(list: &Mutex<List>) -> MutexGuard<'_, List> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Idle {
    /// One that may take this request.
    pub(super) fn take(&self, reuse: Reuse, now: Mono) -> Option<Waiting> {
        let mut list = lock(&self.0);
        // The last one used is the least likely to have been closed by the server.
        while let Some(mut last) = list.waiting.pop() {
            if last.has_ended(now) {
                continue;
            }
            if reuse.allows(now.since(last.since)) {
                return Some(last);
            }
            list.waiting.push(last);
            return None;
        }
        None
    }

    /// It can serve again, unless the server closes it right away or it belongs to one user.
    pub(super) fn put(&self, mut waiting: Waiting) {
        if waiting.keeps.is_some_and(|keeps| keeps <= BEFORE_ITS_END) {
            return;
        }
        let mut list = lock(&self.0);
        if list.waiting.len() >= MOST {
            return;
        }
        if let Some(watcher) = &list.watcher {
            if waiting.connection.poll_over(&mut Context::from_waker(watcher)).is_ready() {
                return;
            }
        } else {
            // The task looks at all of them first.
            list.watcher = Some(Waker::noop().clone());
            tokio::spawn(watch(Arc::downgrade(&self.0)));
        }
        list.waiting.push(waiting);
    }

    /// Closes all.
    pub(super) fn close(&self) {
        let mut list = lock(&self.0);
        list.waiting.clear();
        if let Some(watcher) = &list.watcher {
            watcher.wake_by_ref();
        }
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.close();
    }
}

/// Closes connections when the server has closed them, until there are no more: one task for all, so that
/// an exchange costs none.
async fn watch(list: Weak<Mutex<List>>) {
    poll_fn(|cx| {
        let Some(list) = list.upgrade() else { return Poll::Ready(()) };
        let mut list = lock(&list);
        list.waiting.retain_mut(|it| it.connection.poll_over(cx).is_pending());
        let goes_on = !list.waiting.is_empty();
        list.watcher = goes_on.then(|| cx.waker().clone());
        if goes_on { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}
