//! The gateway as it is now: after a reload another one stands in its place, with what did not change.

use std::sync::Arc;

use tokio::sync::watch;

use crate::gateway::Gateway;

/// Where the present gateway is found. What holds one for longer than a request looks here for a newer.
#[derive(Clone)]
pub(crate) struct Live(watch::Receiver<Arc<Gateway>>);

impl Live {
    /// Of the gateways that this sends.
    pub(crate) fn of(sender: &watch::Sender<Arc<Gateway>>) -> Self {
        Self(sender.subscribe())
    }

    /// The present one.
    pub(crate) fn now(&mut self) -> Arc<Gateway> {
        Arc::clone(&self.0.borrow_and_update())
    }

    /// The present one, if it is another than [`now`](Self::now) gave last.
    pub(crate) fn newer(&mut self) -> Option<Arc<Gateway>> {
        self.0.has_changed().unwrap_or(false).then(|| self.now())
    }

    /// Comes when there is another one; never if there will be none.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
