//! Jobs: when each is due, the records of their runs in `state_dir`, and the runs under way.
//!
//! A run goes on in its process while the configuration is loaded again, and while another process takes over: its lock
//! shows the other one that the run is not interrupted.

mod due;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use nightwatt_energy::time::Now;
use nightwatt_energy::zone::Zone;
use nightwatt_host::files::{self, Access, Durability, Replacement};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use self::due::Record;
use crate::config::JobConfig;
use crate::status::JobStatus;

/// A run of another process is looked at again after this time, s.
const LOOK: i64 = 5;

/// All jobs that were ever seen by this process, shared by all gateways of it.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    entries: Mutex<BTreeMap<String, Entry>>,
    tasks: Mutex<JoinSet<()>>,
    ended: Notify,
    kept: Mutex<HashMap<String, Kept>>,
    /// Another process takes over, or has.
    is_handed_over: AtomicBool,
}

#[derive(Debug, Default)]
struct Entry {
    record: Record,
    /// When the next run is, s since 1970, if this process runs jobs.
    next: Option<i64>,
    /// The lock on the run of this process.
    run: Option<File>,
    /// The process that has handed over to this one still runs it.
    is_elsewhere: bool,
}

/// A server that jobs need now.
#[derive(Debug, Default)]
struct Kept {
    jobs: u32,
    /// Before the first of them.
    was_asleep: bool,
}

/// What is to be done about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// A run begins now. [`Jobs::end`] ends it.
    pub(crate) begins: bool,
    /// When to look again, s since 1970.
    pub(crate) again: i64,
}

impl Jobs {
    /// Changes what is known of a job, and writes it down.
    fn with<T>(&self, name: &str, state_dir: &Path, act: impl FnOnce(&mut Entry) -> T) -> T {
        let mut all = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = all.entry(name.to_owned()).or_insert_with(|| Entry {
            record: read(&state_dir.join(file(name))),
            ..Entry::default()
        });
        let before = entry.record.clone();
        let result = act(entry);
        if entry.record != before {
            write(state_dir, name, &entry.record);
        }
        result
    }

    /// Finds out whether a run is due, and begins it.
    pub(crate) fn look(&self, job: &JobConfig, state_dir: &Path, zone: &Zone, now: Now) -> Look {
        self.with(&job.name, state_dir, |entry| {
            let next = entry.record.clone().due(job.at, zone, now).next;
            entry.next = Some(next);
            let later = |again: i64| Look { begins: false, again };
            if entry.run.is_some() {
                return later(next);
            }
            let mut lock = None;
            if entry.record.is_interrupted() {
                lock = locked(state_dir, &job.name);
                entry.is_elsewhere = lock.is_none();
                if entry.is_elsewhere {
                    return later(next.min(now.wall.secs() + LOOK));
                }
                // The other process may have ended it meanwhile.
                entry.record = read(&state_dir.join(file(&job.name)));
            }
            if entry.record.give_up(now.wall.0) {
                tracing::error!(
                    job = job.name,
                    "a job was interrupted twice: it waits for its next time"
                );
            }
            let Some(day) = entry.record.due(job.at, zone, now).run else { return later(next) };
            let Some(lock) = lock.or_else(|| locked(state_dir, &job.name)) else {
                return later(next.min(now.wall.secs() + LOOK));
            };
            entry.record.begin(day, now.wall.0);
            entry.run = Some(lock);
            Look { begins: true, again: next }
        })
    }

    /// A run is over.
    pub(crate) fn end(
        &self,
        job: &JobConfig,
        state_dir: &Path,
        now: Now,
        result: Result<(), String>,
    ) {
        let run = self.with(&job.name, state_dir, |entry| {
            entry.record.end(now.wall.0, result);
            entry.run.take()
        });
        // The record is written: now another process may look at it.
        drop(run);
        self.ended.notify_one();
    }

    /// Does the work of a run, beside all else.
    pub(crate) fn spawn(&self, run: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(run);
    }

    /// Waits until a run is over.
    pub(crate) async fn one_ended(&self) {
        self.ended.notified().await;
    }

    fn tasks(&self) -> JoinSet<()> {
        std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for all runs under way.
    pub(crate) async fn finish(&self) {
        let mut tasks = self.tasks();
        while tasks.join_next().await.is_some() {}
    }

    /// Ends all runs under way, and their programs. The next process makes up for them.
    pub(crate) async fn abort(&self) {
        self.tasks().shutdown().await;
    }

    /// A job needs a server from now on.
    pub(crate) fn keep(&self, server: &str, is_asleep: bool) {
        let mut all = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = all.entry(server.to_owned()).or_default();
        kept.was_asleep |= is_asleep;
        kept.jobs += 1;
    }

    /// A job needs it no more: whether it was the last one, and the server was asleep before the first.
    pub(crate) fn release(&self, server: &str) -> bool {
        let mut all = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(kept) = all.get_mut(server) else { return false };
        kept.jobs = kept.jobs.saturating_sub(1);
        let is_over = kept.jobs == 0;
        is_over && all.remove(server).is_some_and(|kept| kept.was_asleep)
    }

    /// Notes that another process takes over, or does not after all.
    pub(crate) fn hand_over(&self, is_handed_over: bool) {
        self.is_handed_over.store(is_handed_over, Ordering::Relaxed);
    }

    /// Whether another process decides about the servers.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.is_handed_over.load(Ordering::Relaxed)
    }

    /// The status of a job.
    pub(crate) fn status(&self, job: &JobConfig, state_dir: &Path, now: Now) -> JobStatus {
        let ago = |then: Option<i64>| then.map(|then| (now.wall.0 - then).max(0) as f64 * 1e-3);
        self.with(&job.name, state_dir, |Entry { record, next, run, is_elsewhere }| JobStatus {
            name: job.name.clone(),
            on: job.on.clone(),
            at: job.at.shown(),
            running_for_s: ago(record.begun_ms).filter(|_| run.is_some() || *is_elsewhere),
            next_in_s: next.map(|next| (next - now.wall.secs()).max(0) as f64),
            succeeded_ms: record.succeeded_ms,
            succeeded_s_ago: ago(record.succeeded_ms),
            took_s: record.took_s,
            failures: record.failures,
            failed_s_ago: ago(record.ended_ms).filter(|_| record.failures > 0),
            problem: record.problem.clone(),
        })
    }
}

fn file(name: &str) -> String {
    format!("{name}.job.json")
}

/// The lock on a job's runs; nothing if another process has it. It ends with that process, however that ends.
fn locked(state_dir: &Path, name: &str) -> Option<File> {
    let path = state_dir.join(format!("{name}.job.lock"));
    let mut options = File::options();
    options.write(true).create(true).truncate(false).mode(0o600);
    let result = options.open(&path).map_err(TryLockError::Error).and_then(|file| {
        file.try_lock()?;
        Ok(file)
    });
    match result {
        Ok(file) => Some(file),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(error)) => {
            let path = path.display();
            tracing::warn!(%path, %error, "cannot lock a job's runs: it does not run");
            None
        }
    }
}

/// A file that is missing or not understood says nothing: the next run is that of the next time.
fn read(path: &Path) -> Record {
    let record = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Record::default(),
        Err(error) => Err(error),
        Ok(text) => serde_json::from_slice(&text).map_err(io::Error::from),
    };
    record.unwrap_or_else(|error| {
        let path = path.display();
        tracing::warn!(%path, %error, "cannot read when a job ran: it runs at its next time");
        Record::default()
    })
}

/// A run that has begun must be known after a power cut: else it begins again.
fn write(state_dir: &Path, name: &str, record: &Record) {
    let text = serde_json::to_vec(record).map_err(io::Error::from);
    let how = Replacement { access: Access::Owner, durability: Durability::Kept };
    let path = state_dir.join(file(name));
    if let Err(error) = text.and_then(|text| files::replace(&path, how, &text)) {
        tracing::warn!(job = name, %error, "cannot write down when a job ran");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nightwatt_energy::time::{Mono, Wall};
    use nightwatt_energy::zone::OffsetChange;

    use super::*;

    fn job() -> JobConfig {
        let text = "name = \"backup\"\non = \"nas\"\nat = \"03:00\"\ncommand = [\"true\"]";
        toml::from_str(text).unwrap()
    }

    fn now(day: i64, hour: i64) -> Now {
        let wall = Wall::from_secs(day * 86_400 + hour * 3600);
        Now { mono: Mono(Duration::ZERO), wall, utc_offset: 0 }
    }

    /// Always the offset of `now`.
    fn fixed() -> Zone {
        Zone::default()
    }

    /// The process that hands over runs the backup to its end: the next one neither begins it again, nor makes up for
    /// it.
    #[test]
    fn a_run_of_the_process_that_handed_over_is_not_interrupted() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let (old, new) = (Jobs::default(), Jobs::default());
        assert!(
            !old.look(&job(), dir, &fixed(), now(100, 12)).begins,
            "a new job waits for its time"
        );
        assert!(old.look(&job(), dir, &fixed(), now(101, 3)).begins);
        let look = new.look(&job(), dir, &fixed(), now(101, 4));
        assert_eq!(look, Look { begins: false, again: now(101, 4).wall.secs() + LOOK });
        assert_eq!(new.status(&job(), dir, now(101, 4)).running_for_s, Some(3600.0));
        old.end(&job(), dir, now(101, 5), Ok(()));
        assert!(!new.look(&job(), dir, &fixed(), now(101, 5)).begins, "it has succeeded");
        let status = new.status(&job(), dir, now(101, 6));
        assert_eq!((status.running_for_s, status.took_s), (None, Some(7200.0)));
        assert!(new.look(&job(), dir, &fixed(), now(102, 3)).begins, "the next night it runs here");
    }

    /// The other process was killed: its lock is gone with it.
    #[test]
    fn a_run_whose_process_is_gone_is_made_up_for() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let (old, new) = (Jobs::default(), Jobs::default());
        old.look(&job(), dir, &fixed(), now(100, 12));
        assert!(old.look(&job(), dir, &fixed(), now(101, 3)).begins);
        assert!(!new.look(&job(), dir, &fixed(), now(101, 4)).begins);
        drop(old);
        assert!(new.look(&job(), dir, &fixed(), now(101, 4)).begins);
    }

    #[test]
    fn the_last_of_several_jobs_lets_a_server_sleep_that_slept_before_the_first() {
        let jobs = Jobs::default();
        jobs.keep("nas", true);
        jobs.keep("nas", false);
        assert!(!jobs.release("nas"), "another one needs it");
        assert!(jobs.release("nas"));
        jobs.keep("nas", false);
        assert!(!jobs.release("nas"), "it was awake");
    }

    #[test]
    fn in_shadow_mode_no_next_run_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let jobs = Jobs::default();
        assert_eq!(jobs.status(&job(), folder.path(), now(100, 12)).next_in_s, None);
        jobs.look(&job(), folder.path(), &fixed(), now(100, 12));
        let status = jobs.status(&job(), folder.path(), now(100, 12));
        assert_eq!(status.next_in_s, Some(15.0 * 3600.0));
    }

    /// Central European time on 2027-03-28, day 20,905: from 02:00 clocks go to 03:00, at 01:00 UTC.
    #[test]
    fn the_time_until_a_run_is_an_hour_less_in_the_night_to_summer_time() {
        let change = |at, utc_offset| OffsetChange { at: Wall::from_secs(at), utc_offset };
        let berlin = Zone::new(vec![change(0, 3600), change(1_806_195_600, 7200)]);
        let folder = tempfile::tempdir().unwrap();
        let jobs = Jobs::default();
        // 19:00 UTC: from 20:00 to 03:00, less the hour that is skipped.
        let evening = Now { utc_offset: 3600, ..now(20_904, 19) };
        jobs.look(&job(), folder.path(), &berlin, evening);
        let status = jobs.status(&job(), folder.path(), evening);
        assert_eq!(status.next_in_s, Some(6.0 * 3600.0));
    }
}
