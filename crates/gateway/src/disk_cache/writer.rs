//! What is written, and when: a thread that writes, and a task that looks now and then for what is worth
//! it.
//!
//! An answer is worth it once it was asked for twice (by crawlers as often as makes two people), or is
//! pinned; one that is newer than what the disk has, always. Looked is every five minutes and at the end,
//! so that what is stored for a moment never gets there.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_httpcache::CacheKey;
use nightwatt_model::policy::admission::ClientClass;
use tokio::sync::oneshot;

use super::budget::{Budget, kernels_count};
use super::log::{Log, New};
use super::record::{HEAD, Meta, Name, variant};
use super::storage::Folder;
use super::{DiskCache, LONGEST_NAME, SiteDisk, Tally};
use crate::gateway::Gateway;
use crate::live::Live;
use crate::store::{Object, Popularity, Store};
use crate::warm_up::is_anybodys;

/// Between two looks.
const EVERY: Duration = Duration::from_mins(5);

/// Answers that are looked at in one go, before others have their turn.
const LOOKED_AT: usize = 512;

/// Two people.
const TWICE: u64 = 2 * Popularity::worth(ClientClass::Human);

/// Bytes that are handed to the writer at once: they are kept in memory until they are written.
const BATCH: u64 = 16 << 20;

/// What the thread is to do.
pub(super) enum Job {
    /// Write this.
    Write(Vec<New>, oneshot::Sender<()>),
    /// Tell the disk that these are forgotten.
    Forget(Vec<Name>, oneshot::Sender<Result<(), String>>),
}

pub(super) struct Writer {
    pub(super) log: Log<Folder>,
    pub(super) budget: Arc<Mutex<Budget>>,
    pub(super) tally: Arc<Tally>,
    pub(super) clock: Clock,
}

impl Writer {
    /// Begins. It ends when nobody can give it anything to do any more.
    pub(super) fn start(self) -> std::io::Result<(Sender<Job>, JoinHandle<()>)> {
        let (jobs, taken) = channel();
        let thread = std::thread::Builder::new().name("nightwatt-cache".to_owned());
        Ok((jobs, thread.spawn(move || self.run(&taken))?))
    }

    fn run(mut self, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            match job {
                Job::Write(batch, done) => {
                    self.write(batch);
                    let _ = done.send(());
                }
                Job::Forget(names, done) => {
                    let told = self.log.forget(&names);
                    if let Err(error) = &told {
                        self.tally.failed.fetch_add(1, Ordering::Relaxed);
                        tracing::error!(%error, "the disk cache cannot be told what is forgotten: remove its directory before the next start");
                    }
                    self.budget().wrote(*told.as_ref().unwrap_or(&0));
                    let _ = done.send(told.map(drop).map_err(|error| error.to_string()));
                }
            }
        }
    }

    fn budget(&self) -> std::sync::MutexGuard<'_, Budget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&mut self, batch: Vec<New>) {
        let (allowed, today) = {
            let mut budget = self.budget();
            budget.look(self.clock.now().wall, kernels_count());
            (budget.left(), budget.today())
        };
        match self.log.write(batch, allowed, today) {
            Ok(written) => {
                self.budget().wrote(written.bytes);
                self.tally.written.fetch_add(written.records as u64, Ordering::Relaxed);
            }
            Err(error) => {
                self.tally.failed.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%error, "the disk cache could not be written");
            }
        }
    }
}

/// Looks every five minutes for what is worth being written.
async fn run(mut live: Live) {
    loop {
        let clock = live.now().clock.clone();
        clock.sleep(EVERY).await;
        write_back(&live.now()).await;
    }
}

/// Writes what is worth it now.
pub(crate) async fn write_back(gateway: &Gateway) {
    let Some(disk) = gateway.disk.as_ref().filter(|it| it.is_open()) else { return };
    let _debt = gateway.clock.owe();
    // What is outdated while this goes on has its turn the next time.
    let outdated = disk.shared.index().outdated();
    let mut found = Vec::new();
    for site in &gateway.sites {
        if let Some(part) = site.store.disk() {
            found.extend(worth_writing(&site.store, part).await);
        }
    }
    // What is newer than what the disk has, then what is never to be lost, then what is asked for most.
    found.sort_by_key(|it| {
        std::cmp::Reverse((it.is_newer, it.object.stored.is_pinned(), it.popularity))
    });
    let names: Vec<(Name, u64)> = found.iter().map(|it| (it.name.clone(), it.id)).collect();
    let mut bytes = 0;
    found.retain(|it| {
        bytes += it.object.body.len() as u64;
        bytes <= BATCH
    });
    let (done, written) = oneshot::channel();
    let batch: Vec<New> = found.into_iter().map(Worth::into_new).collect();
    if !batch.is_empty() {
        disk.give(Job::Write(batch, done));
        let _ = written.await;
    }
    let forgotten = {
        let mut index = disk.shared.index();
        let waiting =
            names.iter().filter(|(name, id)| !index.get(name).iter().any(|it| it.id == *id));
        disk.tally.waiting.store(waiting.count() as u64, Ordering::Relaxed);
        index.settle(&outdated)
    };
    // If the disk cannot be told, that is in the log.
    let _ = disk.tell(forgotten).settled().await;
}

/// Something worth being written.
struct Worth {
    store: Arc<Store>,
    key: CacheKey,
    name: Name,
    id: u64,
    object: Arc<Object>,
    popularity: u64,
    is_newer: bool,
}

impl Worth {
    fn into_new(self) -> New {
        let Self { store, key, name, object, popularity, .. } = self;
        let stored = &object.stored;
        let selecting = stored.selecting().iter();
        let meta = Meta {
            name,
            popularity,
            times: stored.times(),
            status: stored.status(),
            selecting: selecting.map(|(name, it)| (name.clone(), it.map(<[u8]>::to_vec))).collect(),
            headers: stored.headers().clone(),
        };
        let body = object.body.clone();
        let known = object.body_on_disk;
        let is_meant = Box::new(move || store.holds(&key, &object));
        New { meta, body, known, is_meant }
    }
}

/// What of a site's memory is worth it, and not on the disk.
async fn worth_writing(store: &Arc<Store>, disk: &SiteDisk) -> Vec<Worth> {
    let mut found = Vec::new();
    let mut all = store.all();
    loop {
        let mut looked_at = 0;
        for (key, object) in all.by_ref().take(LOOKED_AT) {
            looked_at += 1;
            found.extend(worth(store, disk, key, object));
        }
        if looked_at < LOOKED_AT {
            return found;
        }
        tokio::task::yield_now().await;
    }
}

fn worth(store: &Arc<Store>, disk: &SiteDisk, key: CacheKey, object: Arc<Object>) -> Option<Worth> {
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
    // What was chosen by a field that says who asks is in memory only.
    let may = is_anybodys(object.stored.selecting());
    let store = Arc::clone(store);
    (is_worth_it && fits && may).then_some(Worth {
        store,
        key,
        name,
        id,
        object,
        popularity,
        is_newer,
    })
}

impl DiskCache {
    /// Begins to look for what is worth being written.
    pub(crate) fn drive(mut live: Live) -> Option<tokio::task::JoinHandle<()>> {
        live.now().disk.as_ref().map(|_| tokio::spawn(run(live.clone())))
    }
}
