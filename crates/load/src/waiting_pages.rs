//! Visitors who look at a waiting page: what the log has next of them comes once the page is open, since a
//! browser asks for images after it has read the page that shows them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use nightwatt_policy::visit::Visitor;
use tokio::sync::watch;

/// Which visitors look at a waiting page.
#[derive(Debug, Default)]
pub(crate) struct WaitingPages {
    waiting: Mutex<HashMap<Visitor, Looking>>,
}

/// What a visitor looks at: more than one page if they were asked for at once.
#[derive(Debug, Default)]
struct Looking {
    pages: usize,
    /// Dropped when the last of them opens.
    opened: watch::Sender<()>,
}

/// A visitor looks at a waiting page until this is dropped.
pub(crate) struct WaitingPage {
    pages: Arc<WaitingPages>,
    visitor: Visitor,
}

impl WaitingPages {
    /// From now on this visitor looks at a waiting page.
    pub(crate) fn wait(self: &Arc<Self>, visitor: Visitor) -> WaitingPage {
        self.locked().entry(visitor).or_default().pages += 1;
        WaitingPage { pages: Arc::clone(self), visitor }
    }

    /// When the waiting page of this visitor opens; nothing if there is none.
    pub(crate) fn opens(&self, visitor: Visitor) -> Option<impl Future<Output = ()> + use<>> {
        let mut opened = self.locked().get(&visitor)?.opened.subscribe();
        Some(async move {
            // Nothing is ever sent: this ends with the sender.
            let _ = opened.changed().await;
        })
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<Visitor, Looking>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WaitingPage {
    fn drop(&mut self) {
        let mut waiting = self.pages.locked();
        let Some(looking) = waiting.get_mut(&self.visitor) else { return };
        looking.pages -= 1;
        if looking.pages == 0 {
            waiting.remove(&self.visitor);
        }
    }
}
