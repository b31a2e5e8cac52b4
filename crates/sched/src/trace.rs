//! A line for each decision, which a test replays through the policy of `nightwatt-corun`.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use crate::error::Error;
use crate::kernel::word;

/// The OPJ of a new task, above all others (`NEW` in `sched.bpf.c`).
const NEW: u64 = 1 << 52;
const NO_RANK: u32 = u32::MAX;
const END: u32 = 5;

/// The file of the trace, if there is one, and whether the kernel has ended the scheduler.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    file: Option<BufWriter<File>>,
    failed: Option<io::Error>,
    pub(crate) is_over: bool,
}

impl Trace {
    pub(crate) fn to(path: Option<&Path>) -> Result<Self, Error> {
        let Some(path) = path else { return Ok(Self::default()) };
        let refused =
            |source| Error::File { what: "write the trace", path: path.to_owned(), source };
        let mut file = BufWriter::new(File::create(path).map_err(refused)?);
        file.write_all(b"what,cpu,task,quantum,opj,rank\n").map_err(refused)?;
        Ok(Self { file: Some(file), ..Self::default() })
    }

    /// Takes an event of the kernel.
    pub(crate) fn take(&mut self, event: &[u8]) {
        let event = Event::of(event);
        if event.kind == END {
            self.is_over = true;
        } else if let Some(file) = &mut self.file
            && let Err(error) = writeln!(file, "{}", event.line())
        {
            self.failed.get_or_insert(error);
        }
    }

    /// Writes what is not yet in the file.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        let flushed = self.file.as_mut().map_or(Ok(()), io::Write::flush);
        let result = self.failed.map_or(flushed, Err);
        result.map_err(|source| Error::System { what: "write the trace", source })
    }
}

/// The layout of `struct event` in `sched.bpf.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Event {
    quantum: u64,
    opj: u64,
    kind: u32,
    cpu: u32,
    task: u32,
    rank: u32,
}

impl Event {
    fn of(bytes: &[u8]) -> Self {
        let half = |place: usize| (word(bytes, place / 2) >> (32 * (place % 2))) as u32;
        let (quantum, opj) = (word(bytes, 0), word(bytes, 1));
        Self { quantum, opj, kind: half(4), cpu: half(5), task: half(6), rank: half(7) }
    }

    fn line(self) -> String {
        let what = match self.kind {
            1 => "add",
            2 => "pick",
            3 => "remove",
            4 => "move",
            _ => "unknown",
        };
        let opj = if self.opj == NEW { "new".to_owned() } else { self.opj.to_string() };
        let rank = if self.rank == NO_RANK { String::new() } else { self.rank.to_string() };
        format!("{what},{},{},{},{opj},{rank}", self.cpu, self.task, self.quantum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_lines() {
        let bytes = |opj: u64, halves: [u32; 4]| {
            [7_u64.to_ne_bytes(), opj.to_ne_bytes()]
                .concat()
                .into_iter()
                .chain(halves.map(u32::to_ne_bytes).concat())
                .collect::<Vec<u8>>()
        };
        let line = |opj, halves| Event::of(&bytes(opj, halves)).line();
        assert_eq!(line(42, [2, 1, 99, 3]), "pick,1,99,7,42,3");
        assert_eq!(line(NEW, [1, 0, 99, NO_RANK]), "add,0,99,7,new,");
        let mut trace = Trace::default();
        trace.take(&bytes(0, [END, 0, 0, 0]));
        assert!(trace.is_over);
    }
}
