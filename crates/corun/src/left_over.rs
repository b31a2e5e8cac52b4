//! Finds what a job has left running when it has ended.

use std::fs;
use std::process::Command;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};

/// Handed on from parent to child, also to daemons.
const NAME: &str = "NIGHTWATT_JOB";

/// What ends on its own just after the job has this time for it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);

/// What a job is to do that leaves something running.
pub(crate) const ADVICE: &str = "let it wait for what it starts, and start no daemons";

/// Between two looks.
pub(crate) const STEP: Duration = Duration::from_millis(50);

/// Marks what a job starts.
#[derive(Debug)]
pub(crate) struct LeftOver {
    mark: String,
}

impl LeftOver {
    /// Of a job that is the `place`-th of a run.
    pub(crate) fn new(run: u32, place: usize) -> Self {
        Self { mark: format!("{}-{run}-{place}", std::process::id()) }
    }

    /// Marks what this command starts.
    pub(crate) fn mark(&self, command: &mut Command) {
        command.env(NAME, &self.mark);
    }

    /// What still runs, in words.
    pub(crate) fn find(&self, stop: &Stop) -> Option<String> {
        let deadline = monotonic() + TIMEOUT;
        loop {
            let running = self.running();
            if running.is_empty() || monotonic() >= deadline || stop.is_stopped() {
                return (!running.is_empty()).then(|| running.join(", "));
            }
            stop.wait_until(monotonic() + STEP);
        }
    }

    fn running(&self) -> Vec<String> {
        let mark = format!("{NAME}={}", self.mark);
        let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
        let is_marked = |environment: &[u8]| {
            environment.split(|byte| *byte == 0).any(|it| it == mark.as_bytes())
        };
        let process = |entry: fs::DirEntry| {
            let number: u32 = entry.file_name().to_str()?.parse().ok()?;
            // That of a process that has ended is empty.
            let environment = fs::read(entry.path().join("environ")).ok()?;
            let name = fs::read_to_string(entry.path().join("comm")).ok()?;
            is_marked(&environment).then(|| format!("`{}` (process {number})", name.trim_end()))
        };
        all.flatten().filter_map(process).collect()
    }
}
