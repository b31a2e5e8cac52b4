//! The disk behind the cache's memory: stored answers survive restarts, reboots and power cuts.
//!
//! It is made for memory cards, which bear only so many writes: an answer is written once, in batches, to the end of a
//! log ([`log`]), and no more per day than is allowed ([`budget`]). The memory comes first; what it lacks is read from
//! here into memory, with every byte checked. A request waits for the read of its answer, but not for writes, except
//! that a request that changes or purges something is answered only when the disk has recorded it, so that the old
//! answer never comes back.

pub mod budget;
pub mod for_tests;
mod heir;
pub mod index;
pub mod log;
pub mod record;
mod scan;
pub mod storage;
pub mod survey;
#[cfg(test)]
mod tests;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use nightwatt_clock::Clock;
use nightwatt_httpcache::sharing::fingerprint;
use nightwatt_httpcache::{CacheKey, Purge, Rules, Timestamp};
use tokio::sync::{Semaphore, oneshot};

use self::budget::Budget;
pub(crate) use self::heir::Heir;
use self::index::Variant;
use self::log::{Bounds, Log, Shared};
use self::record::{Body, Day, Meta, Name};
use self::storage::Folder;
pub(crate) use self::writer::write_back;
use self::writer::{Job, kernels_count};
use crate::config::DiskConfig;
use crate::error::StartError;
use crate::repeated_warnings::Repeats;
use crate::status::DiskStatus;

/// Maximum number of stored answers: their keys and places are in memory.
const RECORDS: usize = 65_536;

/// Maximum length of a name: nothing with a longer one is written.
const LONGEST_NAME: usize = 2048;

/// Limit for the scan at the start; segments not scanned by then, the oldest, are dropped.
const SCAN: Duration = Duration::from_secs(30);

/// Reads at the same time: each is as large as an answer may be.
const READS: usize = 4;

/// Longest time that a request that changes something waits for the disk to record it.
const WAIT: Duration = Duration::from_secs(2);

/// The disk cache of all sites.
#[derive(Debug)]
pub(crate) struct DiskCache {
    path: PathBuf,
    bounds: Bounds,
    shared: Arc<Shared<Folder>>,
    budget: Arc<Mutex<Budget>>,
    tally: Arc<Tally>,
    jobs: Mutex<Option<Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The control socket of the process that uses the cache now, after a hand-over.
    heir: Mutex<Option<Arc<dyn Heir>>>,
    reads: Arc<Semaphore>,
    clock: Clock,
}

/// Counts since the start.
#[derive(Debug, Default)]
struct Tally {
    written: AtomicU64,
    read: AtomicU64,
    spoilt: AtomicU64,
    failed: AtomicU64,
    waiting: AtomicU64,
}

impl DiskCache {
    /// Opens the cache, and scans it.
    pub(crate) fn open(
        config: &DiskConfig,
        state_dir: &Path,
        clock: &Clock,
    ) -> Result<Arc<Self>, StartError> {
        let path = config.folder(state_dir);
        let failed = |source| StartError::DiskCache { path: path.clone(), source };
        let shared = Shared::new(Folder::open(&path).map_err(failed)?);
        if let Err(error) = survey::remember_earlier(&path) {
            tracing::warn!(%error, "what an earlier version has left in the disk cache cannot be counted");
        }
        let bounds = config.bounds(RECORDS);
        let (log, day) = look(&shared, bounds, &path, clock).map_err(failed)?;
        let mut budget = Budget::new(config.write_mb_per_day << 20, day);
        budget.look(clock.now(), kernels_count());
        let (budget, tally) = (Arc::new(Mutex::new(budget)), Arc::new(Tally::default()));
        let writer = writer::Writer {
            log,
            noted: day.unwrap_or_default(),
            budget: Arc::clone(&budget),
            tally: Arc::clone(&tally),
            clock: clock.clone(),
            repeats: Repeats::default(),
        };
        let (jobs, thread) = writer.start().map_err(failed)?;
        Ok(Arc::new(Self {
            path,
            bounds,
            shared,
            budget,
            tally,
            jobs: Mutex::new(Some(jobs)),
            thread: Mutex::new(Some(thread)),
            heir: Mutex::default(),
            reads: Arc::new(Semaphore::new(READS)),
            clock: clock.clone(),
        }))
    }

    /// Ends the writer when it has finished all its jobs.
    pub(crate) async fn close(&self) {
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _debt = self.clock.owe();
        let _ = tokio::task::spawn_blocking(move || thread.map(JoinHandle::join)).await;
    }

    /// Whether the cache is written to.
    fn is_open(&self) -> bool {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The index.
    #[cfg(test)]
    pub(crate) fn index(&self) -> std::sync::MutexGuard<'_, index::Index> {
        self.shared.index()
    }

    fn give(&self, job: Job) {
        if let Some(jobs) = &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            // The thread ends only with this end of the channel.
            let _ = jobs.send(job);
        }
    }

    /// Records on the disk that these names are forgotten; they have left the index.
    fn record_forgotten(&self, names: Vec<Name>) -> Forgotten {
        if names.is_empty() {
            return Forgotten(None);
        }
        let (done, settled) = oneshot::channel();
        self.give(Job::Forget(names, done));
        Forgotten(Some((settled, self.clock.clone())))
    }

    /// Forgets everything of all sites. What is in memory must have been forgotten before: otherwise it might be
    /// written again.
    pub(crate) fn purge_all(&self) -> Forgotten {
        self.shared.index().forget_all(|_| true);
        let (done, settled) = oneshot::channel();
        self.give(Job::Clear(done));
        Forgotten(Some((settled, self.clock.clone())))
    }

    /// Its status.
    pub(crate) fn status(&self) -> DiskStatus {
        let (answers, bytes) = {
            let index = self.shared.index();
            (index.count() as u64, index.bytes())
        };
        let (today, allowed, left) = {
            let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
            budget.look(self.clock.now(), kernels_count());
            (budget.today(), budget.allowed(), budget.left())
        };
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DiskStatus {
            directory: self.path.clone(),
            answers,
            bytes,
            max_bytes: self.bounds.bytes,
            written_today_bytes: today.cache,
            others_today_bytes: today.other,
            allowed_a_day_bytes: allowed,
            left_today_bytes: left,
            written: of(&self.tally.written),
            waiting: of(&self.tally.waiting),
            read: of(&self.tally.read),
            spoilt: of(&self.tally.spoilt),
            failed_writes: of(&self.tally.failed),
        }
    }
}

/// Scans the disk, and finds what was written on the last day.
fn look(
    shared: &Arc<Shared<Folder>>,
    bounds: Bounds,
    path: &Path,
    clock: &Clock,
) -> std::io::Result<(Log<Folder>, Option<Day>)> {
    let mut secret = [0; 8];
    getrandom::fill(&mut secret).map_err(std::io::Error::other)?;
    let began = clock.now().mono;
    let is_late = || clock.now().mono.since(began) > SCAN;
    let secret = u64::from_le_bytes(secret);
    let (log, found) = Log::look(Arc::clone(shared), bounds, secret, &is_late)?;
    tracing::info!(
        path = %path.display(),
        answers = shared.index().count(),
        torn_bytes = found.torn,
        dropped_segments = found.dropped,
        seconds = clock.now().mono.since(began).as_secs_f64(),
        "the disk cache is open"
    );
    let last = shared.index().last_received.as_millis();
    if i64::try_from(last).is_ok_and(|last| last > clock.now().wall.0) {
        tracing::warn!(
            "the clock stands before the time of the answer that the disk cache stored last: it is not used \
             before that time has come or another answer is stored; set the clock, or empty the cache with \
             `nightwatt purge --all`"
        );
    }
    Ok((log, found.day))
}

/// Something was forgotten in memory, and is being recorded on the disk.
#[must_use = "it may come back after a restart until the disk knows"]
#[derive(Debug)]
pub(crate) struct Forgotten(Option<(oneshot::Receiver<Result<(), String>>, Clock)>);

impl Forgotten {
    /// Nothing to record.
    pub(crate) const fn nothing() -> Self {
        Self(None)
    }

    /// Waits until the disk has recorded it, with a timeout.
    ///
    /// # Errors
    ///
    /// Why it has not recorded it, or not yet.
    pub(crate) async fn settled(self) -> Result<(), String> {
        let Some((settled, clock)) = self.0 else { return Ok(()) };
        let _debt = clock.owe();
        match clock.timeout(WAIT, settled).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err("its writer has ended".to_owned()),
            Err(_) => Err("it is slow".to_owned()),
        }
    }
}

/// One site's part of the disk cache.
#[derive(Debug, Clone)]
pub(crate) struct SiteDisk {
    cache: Arc<DiskCache>,
    site: Arc<str>,
    /// The rules under which the site stores, as their fingerprint.
    rules: u64,
}

impl SiteDisk {
    pub(crate) fn new(cache: &Arc<DiskCache>, site: &str, rules: &Rules) -> Self {
        Self { cache: Arc::clone(cache), site: site.into(), rules: fingerprint(rules) }
    }

    /// The rules under which the site stores, as their fingerprint.
    pub(crate) const fn rules(&self) -> u64 {
        self.rules
    }

    fn name(&self, key: &CacheKey) -> Name {
        Name::new(&self.site, key.as_str())
    }

    /// Where the body of an answer is stored.
    pub(crate) fn body(&self, key: &CacheKey, id: u64) -> Option<Body> {
        let index = self.cache.shared.index();
        index.get(&self.name(key)).iter().find(|it| it.id == id).map(|it| it.body)
    }

    /// A newer answer was stored in memory.
    pub(crate) fn outdate(&self, key: &CacheKey, id: u64) {
        self.cache.shared.index().outdate(&self.name(key), id);
    }

    /// Whether this is still what is stored.
    pub(crate) fn still_has(&self, key: &CacheKey, variant: &Variant) -> bool {
        let index = self.cache.shared.index();
        index.get(&self.name(key)).iter().any(|it| it.record == variant.record)
    }

    /// Forgets these keys.
    pub(crate) fn forget(&self, keys: &[CacheKey]) -> Forgotten {
        let mut index = self.cache.shared.index();
        if let Some(heir) = self.cache.heir() {
            return self.have_forgotten(heir, keys);
        }
        let names = keys.iter().map(|key| self.name(key));
        let names = names.filter(|name| index.forget(name)).collect();
        // Under the lock, so that nothing is recorded after a hand-over.
        self.cache.record_forgotten(names)
    }

    /// Forgets what the operator purges; returns the keys, too. What is in memory must have been forgotten before:
    /// otherwise it might be written again.
    pub(crate) fn purge(&self, purge: &Purge) -> (Vec<String>, Forgotten) {
        let names = self.take_out(purge);
        (self.keys(&names), self.cache.record_forgotten(names))
    }

    /// The same without recording it: [`DiskCache::purge_all`] does that.
    pub(crate) fn purge_untold(&self) -> (Vec<String>, Forgotten) {
        (self.keys(&self.take_out(&Purge::All)), Forgotten::nothing())
    }

    fn take_out(&self, purge: &Purge) -> Vec<Name> {
        let is_meant = |name: &Name| {
            let key = name.key_in(&self.site).and_then(canonical);
            key.is_some_and(|key| purge.covers(&key))
        };
        self.cache.shared.index().forget_all(is_meant)
    }

    fn keys(&self, names: &[Name]) -> Vec<String> {
        names.iter().filter_map(|name| name.key_in(&self.site)).map(str::to_owned).collect()
    }

    /// Whether anything is stored under this key, if the time can be trusted. A clock that is before the latest stored
    /// answer has been set back, or is not set yet, and ages would be unknown.
    pub(crate) fn has(&self, key: &CacheKey, now: Timestamp) -> bool {
        let index = self.cache.shared.index();
        !index.get(&self.name(key)).is_empty() && now >= index.last_received
    }

    /// Reads everything stored under a key.
    pub(crate) async fn read(&self, key: &CacheKey) -> Vec<(Meta, Bytes, Variant)> {
        let name = self.name(key);
        let _debt = self.cache.clock.owe();
        // The semaphore is never closed.
        let Ok(turn) = Arc::clone(&self.cache.reads).acquire_owned().await else {
            return Vec::new();
        };
        let shared = Arc::clone(&self.cache.shared);
        let read = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            shared.fetch(&name)
        });
        let (all, spoilt) = read.await.unwrap_or_default();
        self.cache.tally.read.fetch_add(all.len() as u64, Ordering::Relaxed);
        self.cache.tally.spoilt.fetch_add(spoilt as u64, Ordering::Relaxed);
        all
    }

    /// The most popular keys, and their popularity.
    pub(crate) fn popular(&self, most: usize) -> Vec<CacheKey> {
        let index = self.cache.shared.index();
        let mut all: Vec<(u64, &str)> = index
            .names()
            .filter_map(|(name, variants)| {
                let popularity = variants.iter().map(|it| it.popularity).max()?;
                Some((popularity, name.key_in(&self.site)?))
            })
            .filter(|(popularity, _)| *popularity > 0)
            .collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        all.truncate(most);
        all.into_iter().filter_map(|(_, key)| canonical(key)).collect()
    }
}

/// Parses a stored key. With the default rules instead of a site's it stays unchanged.
fn canonical(key: &str) -> Option<CacheKey> {
    let (authority, target) = key.split_at(key.find('/')?);
    nightwatt_httpcache::KeyRules::default().key(authority, target)
}
