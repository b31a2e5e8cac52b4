//! The opened copy of a mirror: the store on the disk and the plan, which must agree.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use nightwatt_host::files::{self, Access, Durability, Replacement};
use nightwatt_httpcache::Timestamp;
use nightwatt_mirror::pure::address::{Address, NoSite, Site};
use nightwatt_mirror::pure::coverage::Coverage;
use nightwatt_mirror::pure::entry::BodyHash;
use nightwatt_mirror::pure::own_use::OwnUse;
use nightwatt_mirror::pure::plan::{Change, PageState, PassKind, PlanRules, Planner, Taken};
use nightwatt_mirror::store::{Bounds, Opened, Store, StoreError};

use super::base::Base;

/// Number of changes that are written together, and bytes of their bodies.
const BATCH: usize = 64;
const BATCH_BYTES: usize = 4 << 20;

/// File that exists while the saved plan may lack changes of content.
const MARK: &str = "changed";

/// File with the scheme and host of the pages.
const URL: &str = "url";

/// Where a mirror is, and what it may store.
#[derive(Debug, Clone, Copy)]
pub(super) struct MirrorPlace<'a> {
    pub(super) folder: &'a Path,
    pub(super) base: &'a Base,
    pub(super) rules: &'a PlanRules,
    pub(super) bounds: Bounds,
    /// Whether it must survive a power cut.
    pub(super) is_durable: bool,
}

/// Why a mirror cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotOpened {
    #[error(transparent)]
    Site(#[from] NoSite),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A copy that is open.
#[derive(Debug)]
pub(crate) struct OpenMirror {
    pub(super) base: Base,
    pub(super) store: Store,
    plan: Mutex<Planner>,
    /// Changes that are not written yet.
    batch: Mutex<Vec<Change>>,
    coverage: Mutex<Coverage>,
    own_use: Mutex<OwnUse>,
    folder: PathBuf,
    /// Number of changes of content since the start.
    changes: AtomicU64,
    /// That number when the last pass began.
    changes_before_pass: AtomicU64,
    is_marked: AtomicBool,
}

/// The scheme and host that an earlier run mirrored.
pub(super) fn remembered_base(folder: &Path) -> Option<Base> {
    Base::of_url(std::fs::read_to_string(folder.join(URL)).ok()?.trim())
}

impl OpenMirror {
    /// Opens it; blocks.
    pub(super) fn open(place: &MirrorPlace<'_>, now: Timestamp) -> Result<Self, NotOpened> {
        let site = Site::new(&place.base.url())?;
        let (store, found) = Store::open(place.folder, site.base().as_str(), place.bounds)?;
        log_damage(place.folder, &found);
        if !place.is_durable {
            store.sync_no_bodies();
        }
        let (coverage, own_use) = (found.plan.coverage.clone(), found.plan.own_use);
        let mut plan = Planner::new(site, place.rules.clone());
        let current = store.current();
        let unwanted = plan.restore(found.plan, current.iter().map(AsRef::as_ref), now);
        let mark = place.folder.join(MARK);
        let was_marked = mark.exists();
        if was_marked {
            plan.outdate("/");
            plan.content_changed(now);
        }
        let open = Self {
            base: place.base.clone(),
            store,
            plan: Mutex::new(plan),
            batch: Mutex::default(),
            coverage: Mutex::new(coverage),
            own_use: Mutex::new(own_use),
            folder: place.folder.to_owned(),
            changes: AtomicU64::new(0),
            changes_before_pass: AtomicU64::new(0),
            is_marked: AtomicBool::new(was_marked),
        };
        open.apply(unwanted.into_iter().map(Change::Remove).collect(), now)?;
        open.remember_base();
        // Without a plan of this site, a restart after a crash would not trust anything in the store.
        open.save()?;
        Ok(open)
    }

    /// The plan.
    pub(super) fn plan(&self) -> MutexGuard<'_, Planner> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many requests it could have answered.
    pub(super) fn coverage(&self) -> MutexGuard<'_, Coverage> {
        self.coverage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the server was used for it.
    pub(super) fn own_use(&self) -> MutexGuard<'_, OwnUse> {
        self.own_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plan, unless a pass uses it at the moment.
    pub(super) fn try_plan(&self) -> Option<MutexGuard<'_, Planner>> {
        match self.plan.try_lock() {
            Ok(plan) => Some(plan),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Applies what an answer changes: removals at once, the rest in batches; blocks.
    pub(super) fn take(&self, taken: Taken, now: Timestamp) -> Result<(), StoreError> {
        let bytes = |change: &Change| match change {
            Change::Put { body, .. } => body.len(),
            _ => 0,
        };
        let is_urgent = taken.changes.iter().any(|it| matches!(it, Change::Remove(_)));
        let is_full = {
            let mut batch = self.batch();
            batch.extend(taken.changes);
            batch.len() >= BATCH || batch.iter().map(bytes).sum::<usize>() >= BATCH_BYTES
        };
        if is_urgent || is_full { self.flush(now) } else { Ok(()) }
    }

    fn batch(&self) -> MutexGuard<'_, Vec<Change>> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes pending changes; blocks.
    pub(super) fn flush(&self, now: Timestamp) -> Result<(), StoreError> {
        let batch = std::mem::take(&mut *self.batch());
        self.apply(batch, now)
    }

    /// Changes the store, and updates the plan with what the store lost or had no room for; blocks.
    pub(super) fn apply(&self, changes: Vec<Change>, now: Timestamp) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        match self.store.apply(changes) {
            Ok(applied) => {
                let mut plan = self.plan();
                plan.lost(&applied.lost);
                applied.full.iter().for_each(|address| plan.store_is_full(address, now));
                Ok(())
            }
            Err(error) => {
                self.agree();
                Err(error)
            }
        }
    }

    /// After an error: marks pages that the store lacks, to be fetched.
    fn agree(&self) {
        let (current, mut plan) = (self.store.current(), self.plan());
        let is_lost = |address: &Address| current.find(address).is_none();
        let kept = plan.pages().filter(|(_, page)| matches!(page.state, PageState::Kept { .. }));
        let lost: Vec<Address> = kept.map(|(address, _)| address.clone()).collect();
        let lost: Vec<Address> = lost.into_iter().filter(is_lost).collect();
        plan.lost(&lost);
    }

    /// A body cannot be read: its pages are fetched again; blocks.
    pub(super) fn forget_body(&self, hash: &BodyHash) -> Result<(), StoreError> {
        let lost = self.store.forget_body(hash)?;
        self.plan().lost(&lost);
        Ok(())
    }

    /// A client's unsafe request has succeeded; blocks.
    pub(super) fn changed(&self, now: Timestamp) -> Result<(), StoreError> {
        let removed = {
            let mut plan = self.plan();
            self.changes.fetch_add(1, Ordering::SeqCst);
            plan.changed_by_client(now)
        };
        self.mark();
        // Pending changes may be the very answers that are removed.
        self.batch().extend(removed);
        self.flush(now)
    }

    /// Number of changes of content: an answer that was requested before one confirms nothing.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Begins a pass, unless one is running.
    pub(super) fn begin_pass(&self, kind: PassKind, now: Timestamp) {
        let mut plan = self.plan();
        if !plan.is_running() {
            self.changes_before_pass.store(self.changes(), Ordering::SeqCst);
            plan.begin(kind, now, None);
        }
    }

    /// Queues the removal of what the plan has forgotten.
    pub(super) fn drop_forgotten(&self) {
        let forgotten = self.plan().take_forgotten();
        self.batch().extend(forgotten.into_iter().map(Change::Remove));
    }

    /// Whether content has changed since the last pass began.
    pub(super) fn changed_since_pass_began(&self) -> bool {
        self.changes() != self.changes_before_pass.load(Ordering::SeqCst)
    }

    /// Removes these pages, to be fetched again; returns their number; blocks. The files of their bodies are left:
    /// there may be thousands, and programs that report changes do not wait for long.
    pub(super) fn purge(
        &self,
        is_meant: impl Fn(&Address) -> bool,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        self.flush(now)?;
        let current = self.store.current();
        let meant = current.iter().map(|entry| entry.address.clone());
        let meant: Vec<Address> = meant.filter(|address| is_meant(address)).collect();
        {
            let mut plan = self.plan();
            self.changes.fetch_add(1, Ordering::SeqCst);
            plan.lost(&meant);
            plan.retry(&is_meant);
        }
        let purged = meant.len();
        if purged > 0 {
            self.store.remove(meant).inspect_err(|_| self.agree())?;
        }
        Ok(purged)
    }

    /// Number of mirrored answers whose path and query are meant.
    pub(super) fn count(&self, is_meant: impl Fn(&str) -> bool) -> usize {
        self.store.current().iter().filter(|it| is_meant(it.address.as_str())).count()
    }

    /// Pages with this prefix may have changed; blocks.
    pub(super) fn outdate(&self, prefix: &str, now: Timestamp) {
        {
            let mut plan = self.plan();
            self.changes.fetch_add(1, Ordering::SeqCst);
            plan.outdate(prefix);
            plan.content_changed(now);
        }
        self.mark();
    }

    /// Whether the saved plan may lack changes of content.
    pub(super) fn is_marked(&self) -> bool {
        self.is_marked.load(Ordering::SeqCst)
    }

    /// Makes a restart after a crash confirm pages before it serves them.
    pub(super) fn mark(&self) {
        if self.is_marked.swap(true, Ordering::SeqCst) {
            return;
        }
        if let Err(error) = keep(&self.folder.join(MARK), b"") {
            tracing::warn!(folder = %self.folder.display(), %error, "the mirror cannot note a change");
        }
    }

    /// Saves the plan; blocks.
    pub(super) fn save(&self) -> Result<(), StoreError> {
        let (mut saved, changes) = {
            let plan = self.plan();
            (plan.saved(), self.changes.load(Ordering::SeqCst))
        };
        saved.coverage = self.coverage().clone();
        saved.own_use = *self.own_use();
        self.store.save_plan(&saved)?;
        let _plan = self.plan();
        if self.changes.load(Ordering::SeqCst) == changes
            && self.is_marked.swap(false, Ordering::SeqCst)
        {
            let _ = std::fs::remove_file(self.folder.join(MARK));
        }
        Ok(())
    }

    /// Stores the base, so that the next start mirrors the same pages, under whatever host clients come first.
    fn remember_base(&self) {
        if remembered_base(&self.folder).as_ref() != Some(&self.base)
            && let Err(error) = keep(&self.folder.join(URL), self.base.url().as_bytes())
        {
            tracing::warn!(folder = %self.folder.display(), %error, "the mirror cannot note its URL");
        }
    }
}

/// As the store writes its own files.
fn keep(path: &Path, content: &[u8]) -> io::Result<()> {
    let how = Replacement { access: Access::Owner, durability: Durability::Kept };
    files::replace(path, how, content)
}

fn log_damage(folder: &Path, found: &Opened) {
    let folder = folder.display();
    if found.dropped_all {
        tracing::warn!(%folder, "the mirror was damaged or of another site, and is dropped");
    }
    if found.lost > 0 {
        tracing::warn!(%folder, pages = found.lost, "pages of the mirror are missing, and are fetched again");
    }
}
