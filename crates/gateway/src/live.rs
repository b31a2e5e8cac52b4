//! What the present configuration has opened: after a reload another one stands in its place, with what did not
//! change.

use std::sync::Arc;

use tokio::sync::watch;

/// Where the present one is found. What holds one for longer than a request looks here for a newer.
pub(crate) struct Live<T>(watch::Receiver<Arc<T>>);

impl<T> Clone for Live<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Live<T> {
    /// Of those that this sends.
    pub(crate) fn of(sender: &watch::Sender<Arc<T>>) -> Self {
        Self(sender.subscribe())
    }

    /// The present one.
    pub(crate) fn now(&mut self) -> Arc<T> {
        Arc::clone(&self.0.borrow_and_update())
    }

    /// The present one, if it is another than [`now`](Self::now) gave last.
    pub(crate) fn newer(&mut self) -> Option<Arc<T>> {
        self.0.has_changed().unwrap_or(false).then(|| self.now())
    }

    /// Comes when there is another one; never if there will be none.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
