//! Visitors who look at a waiting page: what the log has next of them comes once the page is open, since a
//! browser asks for images after it has read the page that shows them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nightwatt_policy::visit::Visitor;
use tokio::sync::oneshot;

/// Which visitors look at a waiting page.
#[derive(Debug, Default)]
pub(crate) struct WaitingPages(Mutex<HashMap<Visitor, Looking>>);

/// What a visitor looks at: more than one page if they were asked for at once.
#[derive(Debug, Default)]
struct Looking {
    pages: usize,
    /// Requests that come when the last of them opens, in the order of the log.
    next: VecDeque<oneshot::Sender<()>>,
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

    /// When the waiting page of this visitor opens; nothing without one.
    pub(crate) fn opens(&self, visitor: Visitor) -> Option<oneshot::Receiver<()>> {
        let mut waiting = self.locked();
        let (opens, opened) = oneshot::channel();
        waiting.get_mut(&visitor)?.next.push_back(opens);
        Some(opened)
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Visitor, Looking>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WaitingPage {
    fn drop(&mut self) {
        let mut waiting = self.pages.locked();
        let Some(looking) = waiting.get_mut(&self.visitor) else { return };
        looking.pages -= 1;
        if looking.pages > 0 {
            return;
        }
        for next in waiting.remove(&self.visitor).into_iter().flat_map(|it| it.next) {
            // Its run may have been given up.
            let _ = next.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_when_the_last_page_opens() {
        let pages = Arc::new(WaitingPages::default());
        let (one, other) = (Visitor(1), Visitor(2));
        assert!(pages.opens(one).is_none());
        let (first, second) = (pages.wait(one), pages.wait(one));
        assert!(pages.opens(other).is_none());
        let mut opened = pages.opens(one).unwrap();
        drop(first);
        assert!(opened.try_recv().is_err(), "the other page still waits");
        drop(second);
        assert_eq!(opened.try_recv(), Ok(()));
        assert!(pages.opens(one).is_none());
    }
}
