//! The file `NAME.ledger.jsonl`: what must survive a crash, the ledger and the events of the server, one JSON object
//! per line.
//!
//! Every record is complete in itself and has the totals as of its time, so a restart needs only the last whole line. A
//! line torn by a crash is truncated at the next start; the time from the last whole record to that start is billed as
//! unobserved (no saving claimed).

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_energy::time::Wall;
use nightwatt_host::files::{self, Access, Durability, Replacement, Successor};
use nightwatt_policy::ledger::{Bill, Hour, ProxyShare};
use nightwatt_policy::lifecycle::Change;
use nightwatt_policy::manager::Memory;
use serde::{Deserialize, Serialize};

use crate::private;
pub use crate::wake_cause::WakeCause;

/// Beyond this size the journal starts over with its last record; the old file is kept beside it.
const ROTATE_AT: u64 = 8 << 20;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of this format: 1.
    pub v: u32,
    /// When (ms since 1970, UTC).
    pub at: Wall,
    /// What happened; nothing for a checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// For a wake-up: its cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<WakeCause>,
    /// With a meter: an hour of civil time that ended, or the observed part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hour: Option<Hour>,
    /// Totals as of then.
    pub memory: Memory,
}

/// The journal of one server, open for appending.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    size: u64,
    /// Wait for the disk at each record, and start over when the file grows large. Off only for the demo, where a lost
    /// tail does not matter and every record is counted at the end.
    durable: bool,
}

impl Journal {
    /// Opens a journal, or begins one. Returns it with the totals of its last whole record, and the time since then
    /// billed as unobserved.
    pub fn open(path: &Path, now: Wall, durable: bool) -> std::io::Result<(Self, Memory)> {
        let mut file = private::options().read(true).append(true).create(true).open(path)?;
        let Found { last, latest, whole } = last_record(&file, now)?;
        if whole < file.metadata()?.len() {
            tracing::warn!(path = %path.display(), "cut a torn record off the ledger");
            file.set_len(whole)?;
        }
        file.seek(SeekFrom::End(0))?;
        let memory = last.as_ref().map_or_else(Memory::default, |last| resume(last, latest, now));
        let mut journal = Self { file, path: path.to_owned(), size: whole, durable };
        journal.write(&Record { v: 1, at: now, change: None, cause: None, hour: None, memory })?;
        Ok((journal, memory))
    }

    /// Opens a journal that this process has closed while it kept the totals: there is no gap.
    pub fn reopen(path: &Path, durable: bool) -> std::io::Result<Self> {
        let file = private::options().append(true).create(true).open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { file, path: path.to_owned(), size, durable })
    }

    /// Appends a record with one write.
    pub fn write(&mut self, record: &Record) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        if self.durable && self.size > ROTATE_AT {
            return self.start_over(&line);
        }
        if let Err(error) = self.file.write_all(&line) {
            // A full disk may have accepted half a line: the next record must not be appended to it.
            let _ = self.file.set_len(self.size);
            return Err(error);
        }
        self.size += line.len() as u64;
        if self.durable { self.file.sync_data() } else { Ok(()) }
    }

    /// Replaces the journal with a new one that begins with this line, and keeps the old one. At every moment there is
    /// a journal with a whole record.
    fn start_over(&mut self, line: &[u8]) -> std::io::Result<()> {
        let how = Replacement { access: Access::AsBefore, durability: Durability::Whole };
        let mut new = Successor::begin(&self.path, how)?;
        new.write_all(line)?;
        new.sync()?;
        let old = self.path.with_extension("jsonl.1");
        let _ = std::fs::remove_file(&old);
        std::fs::hard_link(&self.path, &old)?;
        self.file = new.put_in_place()?;
        self.size = line.len() as u64;
        files::sync_folder_of(&self.path)
    }
}

/// What a journal ends with.
#[derive(Default)]
struct Found {
    /// The last whole record.
    last: Option<Record>,
    /// The latest time of a record, up to now.
    latest: Option<Wall>,
    /// The end of the last whole line.
    whole: u64,
}

/// Reads a journal to its end. Skips lines that are no records: one damaged line must not cost those after it.
fn last_record(file: &File, now: Wall) -> std::io::Result<Found> {
    let mut reader = BufReader::new(file);
    let (mut found, mut line) = (Found::default(), Vec::new());
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line)?;
        if read == 0 || line.last() != Some(&b'\n') {
            return Ok(found);
        }
        if let Ok(record) = serde_json::from_slice::<Record>(&line) {
            found.latest = found.latest.max(Some(record.at).filter(|at| *at <= now));
            found.last = Some(record);
        }
        found.whole += read as u64;
    }
}

/// The totals of the last record, with the gap since. `latest` is the latest time of any record: a board without a
/// battery may have written the last ones under an earlier date.
fn resume(last: &Record, latest: Option<Wall>, now: Wall) -> Memory {
    let since = latest.map_or(last.at, |latest| last.at.max(latest));
    // If the clock was set back since then, or was not set then, the gap is not known.
    let is_known = since.is_set() || !now.is_set();
    let gap = if is_known { now.0.saturating_sub(since.0) } else { 0 };
    let gap = u64::try_from(gap).unwrap_or(0);
    let (bill, gap) = (last.memory.bill, Duration::from_millis(gap));
    // For the gap, the proxy's share is the last known one.
    let share = |it: ProxyShare| ProxyShare { time: it.time + gap.mul_f64(it.part), ..it };
    let proxy_share = bill.proxy_share.map(share);
    let bill = Bill { unobserved: bill.unobserved + gap, proxy_share, ..bill };
    Memory { bill, ..last.memory }
}

/// All whole records of a journal, for reports.
pub fn read(path: &Path) -> std::io::Result<Vec<Record>> {
    let reader = BufReader::new(File::open(path)?);
    let lines = reader.split(b'\n').map_while(Result::ok);
    Ok(lines.filter_map(|line| serde_json::from_slice(&line).ok()).collect())
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    fn record(second: i64, on: u64) -> Record {
        let bill = Bill { on: Duration::from_secs(on), ..Bill::default() };
        let memory = Memory { bill, ..Memory::default() };
        Record {
            v: 1,
            at: Wall::from_secs(second),
            change: Some(Change::Woke),
            cause: None,
            hour: None,
            memory,
        }
    }

    #[test]
    fn a_crash_at_any_byte_loses_at_most_one_record() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("site.jsonl");
        let (mut journal, _) = Journal::open(&path, Wall::from_secs(0), true).unwrap();
        let mut sizes = vec![std::fs::metadata(&path).unwrap().len()];
        for n in 1..5 {
            journal.write(&record(i64::from(n), u64::from(n as u32))).unwrap();
            sizes.push(std::fs::metadata(&path).unwrap().len());
        }
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let records = sizes.iter().filter(|&&size| size <= cut as u64).count();
            let (_, memory) = Journal::open(&path, Wall::from_secs(100), true).unwrap();
            let bill = memory.bill;
            if records == 0 {
                assert_eq!(bill, Bill::default());
            } else {
                let last = records as u64 - 1;
                assert_eq!(bill.on, Duration::from_secs(last), "cut at {cut}");
                assert_eq!(bill.unobserved, Duration::from_secs(100 - last), "cut at {cut}");
            }
            // The journal can be continued.
            assert_eq!(read(&path).unwrap().len(), records + 1);
        }
    }

    #[test]
    fn garbage_after_the_last_record_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("site.jsonl");
        let (mut journal, _) = Journal::open(&path, Wall::from_secs(0), false).unwrap();
        journal.write(&record(10, 7)).unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"\0\0\0\xff garbage\nmore").unwrap();
        let (_, memory) = Journal::open(&path, Wall::from_secs(10), false).unwrap();
        assert_eq!(memory.bill.on, Duration::from_secs(7));
        assert_eq!(read(&path).unwrap().len(), 3);
    }

    #[test]
    fn a_long_journal_begins_anew_and_forgets_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("site.jsonl");
        let (mut journal, _) = Journal::open(&path, Wall::from_secs(0), true).unwrap();
        for n in 1..3 {
            journal.size = ROTATE_AT + 1;
            journal.write(&record(n, 7 * n.unsigned_abs())).unwrap();
            journal.write(&record(n, 8 * n.unsigned_abs())).unwrap();
        }
        assert_eq!(read(&path).unwrap().len(), 2);
        assert_eq!(read(&dir.path().join("site.jsonl.1")).unwrap().len(), 2);
        let (_, memory) = Journal::open(&path, Wall::from_secs(2), false).unwrap();
        assert_eq!(memory.bill.on, Duration::from_secs(16));
    }

    #[test]
    fn a_bad_line_in_the_middle_costs_nothing_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("site.jsonl");
        let (mut journal, _) = Journal::open(&path, Wall::from_secs(0), false).unwrap();
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"v\":1,\"at\n").unwrap();
        journal.write(&record(10, 7)).unwrap();
        let (_, memory) = Journal::open(&path, Wall::from_secs(10), false).unwrap();
        assert_eq!(memory.bill.on, Duration::from_secs(7));
        assert_eq!(read(&path).unwrap().len(), 3);
    }

    #[test]
    fn a_clock_set_back_makes_no_gap() {
        let memory = resume(&record(100, 7), None, Wall::from_secs(50));
        assert_eq!(memory.bill.unobserved, Duration::ZERO);
    }

    #[test]
    fn a_clock_that_started_in_1970_bills_no_decades() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("site.jsonl");
        // 23 November 2026.
        let noon = 1_795_435_200;
        // A new board: all it has written is of 1970 when the clock is set.
        let (mut journal, _) = Journal::open(&path, Wall::from_secs(5), false).unwrap();
        journal.write(&record(60, 55)).unwrap();
        let (mut journal, memory) = Journal::open(&path, Wall::from_secs(noon), false).unwrap();
        assert_eq!(memory.bill.unobserved, Duration::ZERO, "it is not known how long");
        assert_eq!(memory.bill.on, Duration::from_secs(55));
        // An old one: it was off, and starts in 1970 twice before its clock is set.
        journal.write(&record(noon + 3600, 3600)).unwrap();
        let (mut journal, _) = Journal::open(&path, Wall::from_secs(5), false).unwrap();
        journal.write(&record(65, 3660)).unwrap();
        let (_, memory) = Journal::open(&path, Wall::from_secs(noon + 7200), false).unwrap();
        assert_eq!(memory.bill.on, Duration::from_mins(61));
        assert_eq!(memory.bill.unobserved, Duration::from_hours(1), "since the last right time");
    }
}
