//! Requests in the order of time, out of batches that come in the order of the log.
//!
//! Batches are sorted in themselves. As many as the limits allow are held back, and the earliest
//! request of them all goes out when another batch needs the room: a log that fits is sorted
//! perfectly. What comes too late for its place goes out at once, at the latest time so far.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use nightwatt_energy::time::Wall;

use super::Logged;
use super::batch::{Batch, BatchSpan, Entry};

/// How much is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// Requests.
    pub requests: usize,
    /// Bytes of text and entries; 2 GiB at most.
    pub bytes: usize,
}

impl Default for Hold {
    /// 262,144 requests (2^18), 128 MiB.
    fn default() -> Self {
        Self { requests: 1 << 18, bytes: 128 << 20 }
    }
}

/// No more than this is held back, whatever [`Hold`] says: 2 GiB.
const MOST_BYTES: usize = 1 << 31;

/// A batch and how much of it is left.
struct Run {
    batch: Batch,
    next: usize,
}

impl Run {
    fn head(&self) -> Option<(Wall, u32)> {
        self.batch.entries.get(self.next).map(key)
    }

    const fn left(&self) -> usize {
        self.batch.entries.len() - self.next
    }

    /// Bytes that a copy of what is left would take, roughly: requests are taken to be alike.
    fn needed(&self) -> usize {
        let all = self.batch.text.len() + self.batch.entries.len() * size_of::<Entry>();
        (all as f64 * self.left() as f64 / self.batch.entries.len().max(1) as f64) as usize
    }
}

const fn key(entry: &Entry) -> (Wall, u32) {
    (entry.at, entry.piece)
}

/// The requests held back.
pub(super) struct Order {
    hold: Hold,
    /// By slot; `None` where a slot is free.
    runs: Vec<Option<Run>>,
    free: Vec<usize>,
    /// The first request of each run and its slot, earliest first.
    heads: BinaryHeap<Reverse<((Wall, u32), usize)>>,
    requests: usize,
    bytes: usize,
    released: Option<Wall>,
    late: u64,
}

impl Order {
    pub(super) fn new(hold: Hold) -> Self {
        Self {
            // Places in a text are numbers of 32 bits.
            hold: Hold { bytes: hold.bytes.min(MOST_BYTES), ..hold },
            runs: Vec::new(),
            free: Vec::new(),
            heads: BinaryHeap::new(),
            requests: 0,
            bytes: 0,
            released: None,
            late: 0,
        }
    }

    /// Requests that came too late for their place.
    pub(super) const fn late(&self) -> u64 {
        self.late
    }

    /// Bytes held.
    #[cfg(test)]
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a batch, and gives what has to go out for it. Batches that are done go to `emptied`.
    pub(super) fn push<F>(
        &mut self,
        batch: Batch,
        consume: &mut F,
        emptied: &mut Vec<Batch>,
    ) -> ControlFlow<()>
    where
        F: FnMut(Logged<'_>) -> ControlFlow<()>,
    {
        if batch.entries.is_empty() {
            emptied.push(batch);
            return ControlFlow::Continue(());
        }
        self.insert(Run { batch, next: 0 });
        if self.bytes > self.hold.bytes {
            self.compact(emptied);
        }
        while self.requests > self.hold.requests || self.bytes > self.hold.bytes {
            let spare = self.requests.saturating_sub(self.hold.requests);
            self.release(spare.max(1), consume, emptied)?;
        }
        ControlFlow::Continue(())
    }

    /// Gives all that is left.
    pub(super) fn finish<F>(&mut self, consume: &mut F) -> ControlFlow<()>
    where
        F: FnMut(Logged<'_>) -> ControlFlow<()>,
    {
        let mut emptied = Vec::new();
        while self.requests > 0 {
            self.release(self.requests, consume, &mut emptied)?;
            emptied.clear();
        }
        ControlFlow::Continue(())
    }

    fn insert(&mut self, run: Run) {
        let Some(head) = run.head() else { return };
        self.requests += run.left();
        self.bytes += run.batch.cost();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.runs.push(None);
            self.runs.len() - 1
        });
        self.runs[slot] = Some(run);
        self.heads.push(Reverse((head, slot)));
    }

    /// Passes the earliest run's requests to `consume` until another run's is earlier, or `most` are gone.
    fn release<F>(
        &mut self,
        most: usize,
        consume: &mut F,
        emptied: &mut Vec<Batch>,
    ) -> ControlFlow<()>
    where
        F: FnMut(Logged<'_>) -> ControlFlow<()>,
    {
        let Some(Reverse((_, slot))) = self.heads.pop() else { return ControlFlow::Continue(()) };
        let other = self.heads.peek().map(|Reverse((head, _))| *head);
        let Some(run) = &mut self.runs[slot] else { return ControlFlow::Continue(()) };
        let entries = &run.batch.entries[run.next..];
        let mut given = 0;
        let mut flow = ControlFlow::Continue(());
        for entry in entries.iter().take(most) {
            if other.is_some_and(|other| key(entry) > other) {
                break;
            }
            let mut at = entry.at;
            match self.released {
                Some(released) if at < released => {
                    self.late += 1;
                    at = released;
                }
                _ => self.released = Some(at),
            }
            given += 1;
            flow = consume(entry.lend(&run.batch.text, at));
            if flow.is_break() {
                break;
            }
        }
        run.next += given;
        self.requests -= given;
        match run.head() {
            Some(head) => self.heads.push(Reverse((head, slot))),
            None => emptied.extend(self.take(slot)),
        }
        flow
    }

    fn take(&mut self, slot: usize) -> Option<Batch> {
        let run = self.runs[slot].take()?;
        self.free.push(slot);
        self.bytes -= run.batch.cost();
        self.requests -= run.left();
        Some(run.batch)
    }

    /// Copies what is left of batches that mostly hold what is gone into one of its own: a few
    /// requests far in the future must not keep the whole log in memory. Only where it frees a
    /// quarter of the room, so that each request is copied a few times at most.
    fn compact(&mut self, emptied: &mut Vec<Batch>) {
        let mut slots: Vec<usize> = Vec::new();
        let mut freed = 0;
        for (slot, run) in self.runs.iter().enumerate() {
            let Some(run) = run else { continue };
            let (cost, needed) = (run.batch.cost(), run.needed());
            if needed * 2 < cost {
                slots.push(slot);
                freed += cost - needed;
            }
        }
        if freed * 4 < self.hold.bytes {
            return;
        }
        let mut kept = Batch::default();
        for &slot in &slots {
            let left = self.runs[slot].as_ref().map_or(0, |run| run.next);
            if let Some(batch) = self.take(slot) {
                for entry in &batch.entries[left..] {
                    copy(entry, &batch.text, &mut kept);
                }
                emptied.push(batch);
            }
        }
        kept.entries.sort_by_key(key);
        kept.entries.shrink_to_fit();
        kept.text.shrink_to_fit();
        self.heads.retain(|Reverse((_, slot))| !slots.contains(slot));
        self.insert(Run { batch: kept, next: 0 });
    }
}

fn copy(entry: &Entry, text: &str, to: &mut Batch) {
    let mut entry = *entry;
    for place in entry.places() {
        let from = to.text.len() as u32;
        to.text.push_str(&text[place.from as usize..place.to as usize]);
        *place = BatchSpan { from, to: to.text.len() as u32 };
    }
    to.entries.push(entry);
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
