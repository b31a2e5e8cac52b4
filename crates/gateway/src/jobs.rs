//! Jobs: when each is due, and the records of their runs in `state_dir`.

mod due;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use nightwatt_energy::time::Now;
use nightwatt_mirror::store::write_whole;

use self::due::Record;
use crate::config::JobConfig;
use crate::status::JobStatus;

/// All jobs that were ever seen by this process, shared by all gateways of it.
#[derive(Debug, Default)]
pub(crate) struct Jobs(Mutex<BTreeMap<String, Entry>>);

#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) record: Record,
    pub(crate) next: i64,
    pub(crate) is_running: bool,
}

impl Jobs {
    /// Changes what is known of a job, and writes it down.
    pub(crate) fn with<T>(
        &self,
        name: &str,
        state_dir: &Path,
        act: impl FnOnce(&mut Entry) -> T,
    ) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// The status of a job.
    pub(crate) fn status(&self, job: &JobConfig, state_dir: &Path, now: Now) -> JobStatus {
        let ago = |then: Option<i64>| then.map(|then| (now.wall.0 - then).max(0) as f64 * 1e-3);
        self.with(&job.name, state_dir, |Entry { record, next, is_running }| JobStatus {
            name: job.name.clone(),
            on: job.on.clone(),
            at: job.at.shown(),
            running_for_s: ago(record.begun_ms).filter(|_| *is_running),
            next_in_s: (*next - now.wall.secs()).max(0) as f64,
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
    if let Err(error) = text.and_then(|text| write_whole(state_dir, &file(name), &text)) {
        tracing::warn!(job = name, %error, "cannot write down when a job ran");
    }
}
