//! The past of a server: its states and power of the last day, its days of a year, and the causes of its wake-ups. For
//! the dashboard.
//!
//! It is updated when the journal is written, so it needs no timer of its own. After a restart it is read from the
//! journal, as far as that goes back; days are kept in a file of their own, one line per day.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use nightwatt_energy::time::{Now, Wall};
use nightwatt_host::files::{Access, Durability, Replacement, Successor};
use nightwatt_policy::history::{DAYS, History, Mark, Rates};
use nightwatt_policy::ledger::Bill;
use nightwatt_policy::lifecycle::{Change, Phase};
use serde::{Deserialize, Serialize};

use crate::ledger_file::{self, Record};
use crate::private;
use crate::wake_cause::WakeCause;

/// States that are kept of the last day: one a minute, and some.
const MOST_STATES: usize = 2048;

/// Wake-ups that are kept.
const MOST_WAKEUPS: usize = 256;

const A_DAY: Duration = Duration::from_hours(24);

/// A wake-up.
#[derive(Debug, Clone)]
pub(crate) struct Wakeup {
    /// When the wake command was given.
    pub(crate) at: Wall,
    /// Its cause.
    pub(crate) cause: Option<WakeCause>,
    /// From the wake command to the first answer; nothing if there was none (yet).
    pub(crate) took: Option<Duration>,
}

/// The known past of a server.
#[derive(Debug, Clone)]
pub(crate) struct Past {
    pub(crate) history: History,
    /// State changes, oldest first; no state: the proxy did not run.
    pub(crate) states: VecDeque<(Wall, Option<Phase>)>,
    /// Oldest first.
    pub(crate) wakeups: VecDeque<Wakeup>,
}

impl Past {
    fn new(rates: Rates, marks: Vec<Mark>) -> Self {
        let history = History::new(rates, marks);
        Self { history, states: VecDeque::new(), wakeups: VecDeque::new() }
    }

    /// The server changed its state.
    fn changed(&mut self, at: Wall, change: Change, cause: Option<&WakeCause>) {
        let phase = phase_after(change);
        if self.states.back().is_none_or(|(_, last)| *last != Some(phase)) {
            self.came_to(at, Some(phase));
        }
        match change {
            Change::Waking => {
                let wakeup = Wakeup { at, cause: cause.cloned(), took: None };
                self.wakeups.push_back(wakeup);
                let excess = self.wakeups.len().saturating_sub(MOST_WAKEUPS);
                self.wakeups.drain(..excess);
            }
            Change::Woke => {
                if let Some(last) = self.wakeups.back_mut().filter(|last| last.took.is_none()) {
                    last.took = u64::try_from(at.0 - last.at.0).ok().map(Duration::from_millis);
                }
            }
            _ => {}
        }
    }

    fn came_to(&mut self, at: Wall, phase: Option<Phase>) {
        self.states.push_back((at, phase));
        let day_ago = at.0 - A_DAY.as_millis() as i64;
        // The state at the beginning of the day began before.
        while self.states.get(1).is_some_and(|(next, _)| next.0 <= day_ago) {
            self.states.pop_front();
        }
        let excess = self.states.len().saturating_sub(MOST_STATES);
        self.states.drain(..excess);
    }

    /// Reads a journal; returns the days that began since the last known one.
    fn reread(&mut self, records: &[Record], utc_offset: i32) -> Vec<Mark> {
        let (known, _) = self.history.total();
        let mut marks = Vec::new();
        let mut before: Option<&Record> = None;
        for record in records {
            let bill = &record.memory.bill;
            if before.is_some_and(|it| it.memory.bill.unobserved < bill.unobserved)
                && let Some(before) = before
            {
                self.came_to(before.at, None);
            }
            if let Some(change) = record.change {
                self.changed(record.at, change, record.cause.as_ref());
            }
            if bill.span() >= known.span() {
                let now = Now { wall: record.at, utc_offset, ..Now::default() };
                marks.extend(self.history.note(now, bill));
            }
            before = Some(record);
        }
        marks
    }
}

/// The state of a server after a change.
fn phase_after(change: Change) -> Phase {
    match change {
        Change::FoundAwake
        | Change::StayedAwake
        | Change::Declined
        | Change::Woke
        | Change::WokenByOthers => Phase::Awake,
        Change::FallingAsleep => Phase::FallingAsleep,
        Change::FoundAsleep | Change::FellAsleep | Change::SleptByOthers | Change::WentAway => {
            Phase::Asleep
        }
        Change::Waking => Phase::Waking,
        Change::Failed => Phase::Failed,
    }
}

/// A past that is written to disk as it grows.
#[derive(Debug)]
pub(crate) struct HistoryLog {
    pub(crate) past: Past,
    days: File,
    durable: bool,
}

/// A line of the file of days.
#[derive(Serialize, Deserialize)]
struct Line {
    /// Version of this format: 1.
    v: u32,
    #[serde(flatten)]
    mark: Mark,
}

impl HistoryLog {
    /// Opens the past of the server with this name, whose journal is open already.
    pub(crate) fn open(
        state_dir: &Path,
        name: &str,
        rates: Rates,
        now: Now,
        durable: bool,
    ) -> std::io::Result<Self> {
        let current = state_dir.join(format!("{name}.ledger.jsonl"));
        let mut records = ledger_file::read(&current.with_extension("jsonl.1")).unwrap_or_default();
        records.extend(ledger_file::read(&current)?);
        let path = state_dir.join(format!("{name}.days.jsonl"));
        let mut marks = read_days(&path)?;
        let days = private::options().append(true).create(true).open(&path)?;
        let billed = records.last().map_or(Duration::ZERO, |last| last.memory.bill.span());
        if marks.last().is_some_and(|last| billed < last.bill.span()) {
            tracing::warn!(server = name, "the ledger started from zero, and so do its days");
            days.set_len(0)?;
            marks.clear();
        }
        let mut chronicle = Self { past: Past::new(rates, marks), days, durable };
        let begun = chronicle.past.reread(&records, now.utc_offset);
        chronicle.write(&begun)?;
        Ok(chronicle)
    }

    /// The journal gets this record. `settled` has the bill when it was last settled, and that time.
    pub(crate) fn take(&mut self, record: &Record, at: Now, bill: &Bill) {
        if let Some(change) = record.change {
            self.past.changed(record.at, change, record.cause.as_ref());
        }
        let begun = self.past.history.note(at, bill);
        if let Err(error) = self.write(&begun) {
            tracing::error!(%error, "the days of the ledger could not be written");
        }
    }

    fn write(&mut self, marks: &[Mark]) -> std::io::Result<()> {
        for mark in marks {
            let mut line = serde_json::to_vec(&Line { v: 1, mark: *mark })?;
            line.push(b'\n');
            self.days.write_all(&line)?;
        }
        if self.durable && !marks.is_empty() { self.days.sync_data() } else { Ok(()) }
    }
}

/// The days of a file. Terminates a line torn by a crash, so that the next one is whole; removes days that are too old.
fn read_days(path: &Path) -> std::io::Result<Vec<Mark>> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let lines = text.split(|byte| *byte == b'\n');
    let mut marks: Vec<Mark> =
        lines.filter_map(|line| Some(serde_json::from_slice::<Line>(line).ok()?.mark)).collect();
    let torn = text.last().is_some_and(|last| *last != b'\n');
    if torn || marks.len() > 2 * DAYS {
        marks.drain(..marks.len().saturating_sub(DAYS));
        let how = Replacement { access: Access::AsBefore, durability: Durability::Kept };
        let mut new = Successor::begin(path, how)?;
        for mark in &marks {
            let mut line = serde_json::to_vec(&Line { v: 1, mark: *mark })?;
            line.push(b'\n');
            new.write_all(&line)?;
        }
        new.put_in_place()?;
    }
    Ok(marks)
}

#[cfg(test)]
mod tests;
