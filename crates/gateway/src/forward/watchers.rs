//! What follows an answer on its way to the client.

use std::sync::Arc;

use bytes::Bytes;

use crate::body::Watcher;
use crate::origin::{Loan, OriginPool};
use crate::request_body::Sending;
use crate::shared_fetches::SharedFetch;
use crate::store::Collecting;

/// Returns a connection to the pool when the answer, and the request before it, have passed completely.
pub(super) struct GivesBack {
    pub(super) origin: Arc<OriginPool>,
    pub(super) loan: Option<Loan>,
    pub(super) sending: Arc<Sending>,
}

impl Watcher for GivesBack {
    fn passes(&mut self, _: &Bytes) {}

    fn ended(&mut self) {
        if let Some(loan) = self.loan.take().filter(|_| self.sending.is_whole()) {
            self.origin.put_back(loan);
        }
    }
}

/// Collects an answer for the cache while it passes.
pub(super) struct Keeping {
    /// Until the answer has passed, or has become too large.
    pub(super) kept: Option<Collecting>,
    /// Other requests wait for the result.
    pub(super) shared_fetch: Option<SharedFetch>,
}

impl Watcher for Keeping {
    fn passes(&mut self, part: &Bytes) {
        if self.kept.as_mut().is_some_and(|kept| !kept.take(part)) {
            self.kept = None;
            self.shared_fetch = None;
        }
    }

    fn ended(&mut self) {
        if let Some(kept) = self.kept.take() {
            kept.finish();
        }
        self.shared_fetch = None;
    }
}
