//! Idle HTTP/1.1 connections.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use nightwatt_energy::time::Mono;
use nightwatt_http1::client::Connection;

use super::{LONGEST_IDLE, Reuse, Stream};

/// Maximum number of idle connections. There are so many only if as many requests were under way at once; the server
/// closes those that it does not want to keep.
const MOST: usize = 1024;

/// A connection is dropped this long before its announced end.
const BEFORE_ITS_END: Duration = Duration::from_secs(1);

/// An idle connection.
pub(crate) struct Waiting {
    pub(crate) connection: Connection<Stream>,
    /// How long the server keeps it open, if it announced that.
    pub(super) keeps: Option<Duration>,
    pub(super) since: Mono,
}

impl Waiting {
    /// Whether it is closed, about to be closed by the server, or too old.
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
    /// Takes a connection that this request may use.
    pub(super) fn take(&self, reuse: Reuse, now: Mono) -> Option<Waiting> {
        let mut list = lock(&self.0);
        // The most recently used one is the least likely to have been closed by the server.
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

    /// Returns a connection, unless the server closes it at once or it belongs to one user.
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
            // The task checks all of them first.
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

/// Drops connections that the server has closed, until there are no more: one task for all, so that an exchange costs
/// none.
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
