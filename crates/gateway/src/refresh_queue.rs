//! What the proxy should request from a server by itself, because clients have shown it to be worthwhile.
//! [`refresh`](crate::refresh) does it.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use nightwatt_httpcache::CacheKey;
use tokio::sync::Notify;

use crate::shared_fetches::SharedFetch;
use crate::store::{Object, Requester};

/// Maximum number of resources remembered while the server sleeps. Others are left to their next visitor.
const MOST: usize = 256;

/// Maximum number of resources remembered whose requests failed. Beyond it, all are tried again.
const IN_VAIN: usize = 4096;

/// What the proxy requests by itself.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// What is stored, once more.
    Again(Arc<Object>),
    /// What a client was answered, in this coding.
    Like(&'static str, AnswerKind, Requester),
}

impl Wanted {
    /// The expected kind of answer.
    pub(crate) const fn kind(&self) -> Option<&AnswerKind> {
        match self {
            Self::Again(_) => None,
            Self::Like(_, kind, _) => Some(kind),
        }
    }
}

/// One of these.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) key: CacheKey,
    pub(crate) wanted: Wanted,
    /// Others wait for it.
    pub(crate) shared_fetch: Option<SharedFetch>,
}

/// The jobs of one site.
#[derive(Debug, Default)]
pub(crate) struct Refresher {
    jobs: Mutex<Jobs>,
    /// Notified when the jobs should start now.
    asked: Notify,
}

#[derive(Debug, Default)]
struct Jobs {
    waiting: Vec<Job>,
    /// Waiting or under way.
    known: HashSet<CacheKey>,
    /// Requests that failed since the server woke: they are not repeated, unless a client gets an answer of another
    /// kind.
    in_vain: HashSet<(CacheKey, AnswerKind)>,
}

impl Refresher {
    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job.
    pub(crate) fn want(&self, key: &CacheKey, wanted: Wanted, shared_fetch: Option<SharedFetch>) {
        let mut jobs = self.lock();
        let is_in_vain =
            wanted.kind().is_some_and(|kind| jobs.in_vain.contains(&(key.clone(), kind.clone())));
        if !is_in_vain && jobs.waiting.len() < MOST && jobs.known.insert(key.clone()) {
            jobs.waiting.push(Job { key: key.clone(), wanted, shared_fetch });
        }
    }

    /// Starts the waiting jobs now, by [`refresh`](crate::refresh), if the server is awake.
    pub(crate) fn start(&self) {
        self.asked.notify_one();
    }

    /// Returns when the waiting jobs should start.
    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// The server has woken: requests that failed before may be tried again.
    pub(crate) fn forget_failures(&self) {
        self.lock().in_vain.clear();
    }

    /// Takes the waiting jobs.
    pub(crate) fn take(&self) -> Vec<Job> {
        std::mem::take(&mut self.lock().waiting)
    }

    /// A job is over. `in_vain` is the kind of answer that did not come.
    pub(crate) fn done(&self, key: &CacheKey, in_vain: Option<AnswerKind>) {
        let mut jobs = self.lock();
        jobs.known.remove(key);
        if jobs.in_vain.len() >= IN_VAIN {
            jobs.in_vain.clear();
        }
        jobs.in_vain.extend(in_vain.map(|kind| (key.clone(), kind)));
    }
}

/// What a client got: the answer to the proxy's own request must be of the same kind to be stored.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AnswerKind {
    status: StatusCode,
    content_type: Option<HeaderValue>,
}

impl AnswerKind {
    pub(crate) fn of(status: StatusCode, headers: &HeaderMap) -> Self {
        // A partial answer belongs to the whole that the proxy requests.
        let is_part = status == StatusCode::PARTIAL_CONTENT;
        let status = if is_part { StatusCode::OK } else { status };
        Self { status, content_type: headers.get(CONTENT_TYPE).cloned() }
    }
}
