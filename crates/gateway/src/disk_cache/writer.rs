//! What is written, and when: a thread that writes, and a task that checks periodically what is worth writing.
//!
//! An answer is worth writing once it was requested twice (more often if only by crawlers), or if it is pinned; one
//! that is newer than what the disk has, always. The task checks every five minutes and at the end, so that short-lived
//! answers are never written.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_httpcache::CacheKey;
use nightwatt_policy::admission::ClientClass;
use tokio::sync::oneshot;

use super::budget::Budget;
use super::log::{Log, New, Written};
use super::record::{Day, HEAD, Meta, Name, PAGE, variant};
use super::storage::Folder;
use super::{DiskCache, LONGEST_NAME, SiteDisk, Tally};
use crate::repeated_warnings::Repeats;
use crate::store::{Object, Popularity, Store};

/// Time between two checks.
const EVERY: Duration = Duration::from_mins(5);

/// Answers that are checked at once, before other tasks run.
const LOOKED_AT: usize = 512;

/// The popularity of two requests by people.
const TWICE: u64 = 2 * Popularity::worth(ClientClass::Human);

/// Bytes passed to the writer at once: they stay in memory until they are written.
const BATCH: u64 = 16 << 20;

/// Writes of the rest of the process are recorded once they exceed what the disk knows by this much: a power cut loses
/// no more of the count. A record needs a page.
const UNSAID: u64 = 1 << 20;

/// What an answer counts besides its body.
const FIELDS: u64 = 1 << 10;

/// A job of the thread.
pub(super) enum Job {
    /// Write this.
    Write(Vec<New>, oneshot::Sender<Written>),
    /// Record on the disk that these are forgotten.
    Forget(Vec<Name>, oneshot::Sender<Result<(), String>>),
    /// Remove everything.
    Clear(oneshot::Sender<Result<(), String>>),
}

pub(super) struct Writer {
    pub(super) log: Log<Folder>,
    /// The writes of the day as recorded on the disk.
    pub(super) noted: Day,
    pub(super) budget: Arc<Mutex<Budget>>,
    pub(super) tally: Arc<Tally>,
    pub(super) clock: Clock,
    pub(super) repeats: Repeats,
}

impl Writer {
    /// Counts a failed write, and logs it with rate limiting.
    fn failed(&self, error: &std::io::Error, what: &'static str) {
        self.tally.failed.fetch_add(1, Ordering::Relaxed);
        let error = error.to_string();
        self.repeats.warn(&self.clock, what, "", move |count| {
            tracing::warn!(error, count, "{what}");
        });
    }

    /// Starts the thread. It ends when no sender is left that could give it work.
    pub(super) fn start(self) -> std::io::Result<(Sender<Job>, JoinHandle<()>)> {
        let (jobs, taken) = channel();
        let thread = std::thread::Builder::new().name("nightwatt-cache".to_owned());
        Ok((jobs, thread.spawn(move || self.run(&taken))?))
    }

    fn run(mut self, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            match job {
                Job::Write(batch, done) => {
                    if let Some(written) = self.write(batch) {
                        let _ = done.send(written);
                    }
                    self.note(UNSAID);
                }
                Job::Forget(names, done) => {
                    let written = self.log.forget(&names);
                    let _ = done.send(self.count_forgotten(written));
                }
                Job::Clear(done) => {
                    let day = self.budget().today();
                    let written = self.log.clear_but(day);
                    self.noted = Day::default();
                    let _ = done.send(self.count_forgotten(written));
                }
            }
        }
        // Its next owner continues from there.
        self.note(PAGE);
    }

    /// Records on the disk what was written today, if that exceeds the last record by this many bytes.
    fn note(&mut self, unsaid: u64) {
        let today = self.look();
        let known = if self.noted.day == today.day { self.noted.spent() } else { 0 };
        if today.spent() < known + unsaid {
            return;
        }
        match self.log.note(today) {
            Ok(bytes) => {
                self.noted = today;
                self.budget().wrote(bytes);
            }
            Err(error) => {
                self.failed(&error, "the disk cache could not be written");
            }
        }
    }

    /// Counts the bytes written to record forgotten names, if that succeeded.
    fn count_forgotten(&self, written: std::io::Result<u64>) -> Result<(), String> {
        let bytes = written.map_err(|error| {
            let what = "the disk cache cannot record what was purged: remove its directory before the next start";
            self.failed(&error, what);
            error.to_string()
        })?;
        self.budget().wrote(bytes);
        Ok(())
    }

    fn budget(&self) -> std::sync::MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was written until now.
    fn look(&self) -> Day {
        let mut budget = self.budget();
        budget.look(self.clock.now(), kernels_count());
        budget.today()
    }

    fn write(&mut self, batch: Vec<New>) -> Option<Written> {
        let today = self.look();
        let allowed = self.budget().left();
        match self.log.write(batch, allowed, today) {
            Ok(written) => {
                if written.records + written.carried > 0 {
                    self.noted = today;
                }
                self.budget().wrote(written.bytes);
                self.tally.written.fetch_add(written.records as u64, Ordering::Relaxed);
                Some(written)
            }
            Err(error) => {
                self.failed(&error, "the disk cache could not be written");
                None
            }
        }
    }
}

/// Writes what is worth it from these stores, for the last time: what cannot be written leaves nothing older behind.
pub(crate) async fn write_back(disk: &DiskCache, stores: &[Arc<Store>]) {
    look(disk, stores, true).await;
}

/// Writes what is worth it now. What exceeds the budget has to wait; until then the disk's older version is not used,
/// but not forgotten there either.
async fn look(disk: &DiskCache, stores: &[Arc<Store>], is_last: bool) {
    if !disk.is_open() {
        return;
    }
    let _debt = disk.clock.owe();
    // An earlier check may have been cancelled: do not write twice what it passed on.
    disk.have_written(Vec::new()).await;
    // What becomes outdated while this runs has to wait for the next check.
    let outdated = disk.shared.index().outdated();
    let mut found = Vec::new();
    for store in stores {
        if let Some(part) = store.disk() {
            found.extend(worth_writing(store, part).await);
        }
    }
    // First what is newer than what the disk has, then what must not be lost, then the most popular.
    found.sort_by_key(|it| std::cmp::Reverse((it.is_newer, it.is_pinned, it.popularity)));
    let too_long = disk.write_all(&found).await;
    let forgotten = {
        let mut index = disk.shared.index();
        let is_there = |it: &Worth| index.get(&it.name).iter().any(|known| known.id == it.id);
        let waiting = found.iter().filter(|it| !too_long.contains(&it.name) && !is_there(it));
        let waiting: Vec<&Name> = waiting.map(|it| &it.name).collect();
        disk.tally.waiting.store(waiting.len() as u64, Ordering::Relaxed);
        let waiting: HashSet<&Name> = waiting.into_iter().filter(|_| !is_last).collect();
        let mut outdated = outdated;
        outdated.retain(|name| !waiting.contains(name));
        index.settle(&outdated)
    };
    // If it cannot be recorded, that is logged.
    let _ = disk.record_forgotten(forgotten).settled().await;
}

/// An answer worth writing.
struct Worth {
    store: Arc<Store>,
    key: CacheKey,
    name: Name,
    id: u64,
    /// Weak: it need not stay in memory until it is written.
    object: Weak<Object>,
    /// Bytes that it keeps in memory until they are written.
    bytes: u64,
    popularity: u64,
    /// The rules under which it is stored.
    rules: u64,
    is_newer: bool,
    is_pinned: bool,
}

impl Worth {
    /// The job for the writer, unless the answer has left the memory.
    fn as_new(&self) -> Option<New> {
        let Self { name, popularity, rules, .. } = self;
        let (store, key, object) =
            (Arc::clone(&self.store), self.key.clone(), self.object.upgrade()?);
        let stored = &object.stored;
        let selecting = stored.selecting().iter();
        let meta = Meta {
            name: name.clone(),
            popularity: *popularity,
            times: stored.times(),
            status: stored.status(),
            basis: stored.basis(),
            rules: *rules,
            selecting: selecting.map(|(name, it)| (name.clone(), it.map(<[u8]>::to_vec))).collect(),
            headers: stored.headers().clone(),
        };
        let body = object.body.clone();
        let known = object.body_on_disk;
        let is_meant = Box::new(move || store.holds(&key, &object));
        Some(New { meta, body, known, is_meant })
    }
}

/// The answers of a site's memory that are worth writing, and not on the disk.
async fn worth_writing(store: &Arc<Store>, disk: &SiteDisk) -> Vec<Worth> {
    let mut found = Vec::new();
    let mut all = store.all();
    loop {
        let mut looked_at = 0;
        for (key, object) in all.by_ref().take(LOOKED_AT) {
            looked_at += 1;
            found.extend(worth(store, disk, key, &object));
        }
        if looked_at < LOOKED_AT {
            return found;
        }
        tokio::task::yield_now().await;
    }
}

fn worth(
    store: &Arc<Store>,
    disk: &SiteDisk,
    key: CacheKey,
    object: &Arc<Object>,
) -> Option<Worth> {
    let (name, id) = (disk.name(&key), variant(object.stored.selecting().iter()));
    let popularity = object.popularity.get();
    let mut index = disk.cache.shared.index();
    if index.get(&name).iter().any(|it| it.id == id) {
        index.used(&name, id, popularity);
        return None;
    }
    let is_newer = index.is_outdated(&name);
    drop(index);
    let is_worth_it = is_newer || object.stored.is_pinned() || popularity >= TWICE;
    let fits = name.as_str().len() <= LONGEST_NAME
        && (HEAD + object.body.len()) as u64 <= disk.cache.bounds.largest();
    // Answers that were selected by a field that may identify the sender stay in memory only.
    let may = object.stored.selecting().is_anonymous();
    let store = Arc::clone(store);
    // A body that is on the disk is not written again.
    let body = if object.body_on_disk.is_some() { 0 } else { object.body.len() as u64 };
    (is_worth_it && fits && may).then(|| Worth {
        store,
        key,
        name,
        id,
        object: Arc::downgrade(object),
        bytes: FIELDS + body,
        popularity,
        rules: disk.rules(),
        is_newer,
        is_pinned: object.stored.is_pinned(),
    })
}

impl DiskCache {
    /// Writes a batch, after all earlier jobs; returns the result, unless that failed.
    async fn have_written(&self, batch: Vec<New>) -> Option<Written> {
        let (done, written) = oneshot::channel();
        self.give(Job::Write(batch, done));
        written.await.ok()
    }

    /// Writes all of a store, whatever it is worth.
    #[cfg(test)]
    pub(crate) async fn write_all_of(&self, store: &Arc<Store>) {
        for (_, object) in store.all() {
            object.popularity.asked(ClientClass::Human);
        }
        let found = worth_writing(store, store.disk().expect("a disk")).await;
        self.write_all(&found).await;
    }

    /// Writes all of this, a batch at a time; returns the names of answers that are too long.
    async fn write_all(&self, found: &[Worth]) -> HashSet<Name> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let mut too_long = HashSet::new();
        for (number, worth) in found.iter().enumerate() {
            batch.extend(worth.as_new());
            bytes += worth.bytes;
            if bytes < BATCH && number + 1 < found.len() {
                continue;
            }
            bytes = 0;
            let Some(written) = self.have_written(std::mem::take(&mut batch)).await else { break };
            too_long.extend(written.too_long);
        }
        too_long
    }

    /// Checks every five minutes what is worth writing from the current stores.
    pub(crate) async fn drive<F>(self: Arc<Self>, mut stores: F)
    where
        F: FnMut() -> Vec<Arc<Store>> + Send,
    {
        loop {
            self.clock.sleep(EVERY).await;
            look(&self, &stores(), false).await;
        }
    }
}

/// Bytes that this process has passed to disks, as the kernel counts them: by dirtied pages, in all files. Nothing if
/// the kernel does not report it.
pub(super) fn kernels_count() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    count_in(&text)
}

fn count_in(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_found() {
        // As Linux prints it (proc(5)).
        let text = "rchar: 5\nwchar: 9\nsyscr: 1\nsyscw: 1\nread_bytes: 0\nwrite_bytes: 8192\n\
                    cancelled_write_bytes: 4096\n";
        assert_eq!(count_in(text), Some(8192));
        assert_eq!(count_in(""), None);
    }
}
