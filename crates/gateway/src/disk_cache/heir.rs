//! The disk cache during a hand-over: another process uses it, and returns it when that process ends.

use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use nightwatt_httpcache::CacheKey;
use tokio::sync::oneshot;

use super::index::Index;
use super::storage::LOCK;
use super::{DiskCache, Forgotten, SiteDisk, look, writer};
use crate::repeated_warnings::Repeats;

/// How often it is tried to lock the cache that another process still has.
const RETRY_EVERY: Duration = Duration::from_millis(20);

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

    /// Takes the cache back: the process that was to use it has failed. That process may still be scanning it, or wait
    /// for a slow disk while it ends: its lock is waited for, for `limit` at most.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if another process has it locked for longer.
    pub(crate) async fn take_back(self: &Arc<Self>, limit: Duration) -> Result<()> {
        let until = self.clock.now().mono + limit;
        loop {
            match self.shared.storage().lock() {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => break done?,
            }
            if self.clock.now().mono >= until {
                return Err(Error::new(ErrorKind::WouldBlock, still_locked(&self.path, limit)));
            }
            self.clock.sleep(RETRY_EVERY).await;
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

fn still_locked(path: &Path, limit: Duration) -> String {
    let lock = path.join(LOCK);
    format!(
        "another process has locked {}, still after {limit:?}: find it with `lslocks`, and end it",
        lock.display()
    )
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

#[cfg(test)]
mod tests {
    use nightwatt_clock::Clock;
    use nightwatt_energy::time::Wall;

    use super::*;
    use crate::config::DiskConfig;
    use crate::disk_cache::storage::Folder;

    const LIMIT: Duration = Duration::from_mins(1);

    /// The process that was to use the cache, and has failed.
    #[derive(Debug)]
    struct Failed;

    impl Heir for Failed {
        fn forget(
            &self,
            _: String,
            _: Vec<String>,
        ) -> Pin<Box<dyn Future<Output = std::result::Result<(), String>> + Send + '_>> {
            Box::pin(async { Err("it has failed".to_owned()) })
        }
    }

    /// What becomes of a cache that the other process has locked for this time more, and after what time.
    fn taken_back(locked: Duration) -> (Result<()>, Duration) {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::virtual_at(Wall::from_secs(0), 0);
        clock.runtime().unwrap().block_on(async {
            let cache = DiskCache::open(&DiskConfig::default(), dir.path(), &clock).unwrap();
            cache.let_go(Arc::new(Failed)).await;
            let other = Folder::open(&cache.path).unwrap();
            let began = clock.now().mono;
            let taking = async {
                let done = cache.take_back(LIMIT).await;
                assert_eq!((cache.is_open(), cache.heir().is_none()), (done.is_ok(), done.is_ok()));
                (done, clock.now().mono.since(began))
            };
            let releasing = async {
                clock.sleep(locked).await;
                drop(other);
            };
            let (taken, ()) = tokio::join!(taking, releasing);
            cache.close().await;
            taken
        })
    }

    #[test]
    fn a_process_that_needs_half_a_minute_to_end_is_waited_for() {
        let (done, after) = taken_back(Duration::from_secs(30));
        done.unwrap();
        let expected = Duration::from_secs(30)..Duration::from_secs(31);
        assert!(expected.contains(&after), "{after:?}");
    }

    #[test]
    fn one_that_hangs_is_not_waited_for_longer_than_for_a_hand_over() {
        let (done, after) = taken_back(LIMIT * 2);
        let error = done.unwrap_err();
        assert_eq!((error.kind(), after), (ErrorKind::WouldBlock, LIMIT));
        let text = error.to_string();
        assert!(text.contains("cache.lock, still after 60s: find it with `lslocks`"), "{text}");
    }
}
