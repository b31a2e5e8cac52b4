//! The disk cache during a hand-over: another process uses it, and returns it when that process ends.

use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use nightwatt_httpcache::CacheKey;
use tokio::sync::oneshot;

use super::index::Index;
use super::{DiskCache, Forgotten, SiteDisk, look, writer};
use crate::repeated_warnings::Repeats;

/// A process that ends releases its files one after the other.
const ENDS: Duration = Duration::from_secs(2);

/// The process that uses the disk cache after this one.
pub(crate) trait Heir: std::fmt::Debug + Send + Sync {
    /// Makes it forget what a site has stored at these places; returns the outcome, in words if that failed.
    fn forget(
        &self,
        site: String,
        places: Vec<String>,
    ) -> Pin<Box<dyn Future<Output = std::result::Result<(), String>> + Send + '_>>;
}

impl DiskCache {
    fn lock_heir(&self) -> MutexGuard<'_, Option<Arc<dyn Heir>>> {
        self.heir.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process that uses the cache now.
    pub(super) fn heir(&self) -> Option<Arc<dyn Heir>> {
        self.lock_heir().clone()
    }

    /// Leaves the cache to another process. From now on nothing is found or written here.
    pub(crate) async fn let_go(&self, heir: Arc<dyn Heir>) {
        {
            // What was forgotten before this is recorded on the disk; what is forgotten after it goes to the other
            // process.
            let mut index = self.shared.index();
            *self.lock_heir() = Some(heir);
            *index = Index::default();
        }
        self.close().await;
        if let Err(error) = self.shared.storage().unlock() {
            tracing::error!(%error, "the disk cache cannot be let go");
        }
    }

    /// Takes the cache back: the process that was to use it has failed.
    pub(crate) async fn take_back(self: &Arc<Self>) -> Result<()> {
        let until = self.clock.now().mono + ENDS;
        loop {
            match self.shared.storage().lock() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => break done?,
            }
            if self.clock.now().mono >= until {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.clock.sleep(ENDS / 100).await;
        }
        let cache = Arc::clone(self);
        let _debt = self.clock.owe();
        let begun = tokio::task::spawn_blocking(move || cache.begin_again()).await;
        begun.unwrap_or_else(|error| Err(Error::other(error)))
    }

    fn begin_again(&self) -> Result<()> {
        let (log, day) = look(&self.shared, self.bounds, &self.path, &self.clock)?;
        let writer = writer::Writer {
            log,
            noted: day.unwrap_or_default(),
            budget: Arc::clone(&self.budget),
            tally: Arc::clone(&self.tally),
            clock: self.clock.clone(),
            repeats: Repeats::default(),
        };
        let (jobs, thread) = writer.start()?;
        *self.jobs.lock().unwrap_or_else(PoisonError::into_inner) = Some(jobs);
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        *self.lock_heir() = None;
        Ok(())
    }
}

impl SiteDisk {
    /// Makes the other process forget what a request that was still served here has changed.
    pub(super) fn have_forgotten(&self, heir: Arc<dyn Heir>, keys: &[CacheKey]) -> Forgotten {
        let places = keys.iter().map(|key| format!("http://{}", key.as_str())).collect();
        let site = self.site.to_string();
        let (done, settled) = oneshot::channel();
        tokio::spawn(async move {
            let told = heir.forget(site, places).await;
            let _ = done.send(told);
        });
        Forgotten(Some((settled, self.cache.clock.clone())))
    }
}
