//! What the present configuration has opened. A reload replaces it, and shares what did not change.

use std::sync::Arc;

use tokio::sync::watch;

/// A handle to the present value. What holds a value for longer than a request checks here for a newer one.
pub(crate) struct Live<T>(watch::Receiver<Arc<T>>);

impl<T> Clone for Live<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Live<T> {
    /// A handle to the values of this sender.
    pub(crate) fn of(sender: &watch::Sender<Arc<T>>) -> Self {
        Self(sender.subscribe())
    }

    /// The present value.
    pub(crate) fn now(&mut self) -> Arc<T> {
        Arc::clone(&self.0.borrow_and_update())
    }

    /// The present value, if it is not the one that [`now`](Self::now) last returned.
    pub(crate) fn newer(&mut self) -> Option<Arc<T>> {
        self.0.has_changed().unwrap_or(false).then(|| self.now())
    }

    /// Returns when there is a new value; never if there will be none.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
