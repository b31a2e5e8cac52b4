//! What a worker makes of a piece of a log: requests as places in the piece's own text.

use nightwatt_energy::time::Wall;
use nightwatt_policy::visit::Visitor;

use super::Logged;
use crate::counts::Counts;
use crate::summary::Summary;
use crate::traits::Traits;

/// From and to, in bytes of [`Batch::text`]. Nothing is longer than 4 GiB there.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BatchSpan {
    pub(super) from: u32,
    pub(super) to: u32,
}

impl BatchSpan {
    pub(super) const fn len(self) -> usize {
        (self.to - self.from) as usize
    }
}

/// A request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) at: Wall,
    /// Number of the piece it was in: of equal times, the earlier piece goes first.
    pub(super) piece: u32,
    pub(super) utc_offset: i32,
    pub(super) client: BatchSpan,
    pub(super) method: BatchSpan,
    pub(super) target: BatchSpan,
    /// Empty for none; likewise the agent.
    pub(super) referer: BatchSpan,
    pub(super) agent: BatchSpan,
    pub(super) bytes: u64,
    pub(super) visitor: Visitor,
    pub(super) traits: Traits,
    pub(super) status: u16,
}

impl Entry {
    pub(super) fn places(&mut self) -> [&mut BatchSpan; 5] {
        [&mut self.client, &mut self.method, &mut self.target, &mut self.referer, &mut self.agent]
    }

    /// The request, at a time of the caller's.
    pub(super) fn lend<'a>(&self, text: &'a str, at: Wall) -> Logged<'a> {
        let cut = |place: BatchSpan| &text[place.from as usize..place.to as usize];
        let given = |place: BatchSpan| (place.from != place.to).then(|| cut(place));
        Logged {
            at,
            utc_offset: self.utc_offset,
            client: cut(self.client),
            visitor: self.visitor,
            method: cut(self.method),
            target: cut(self.target),
            status: self.status,
            bytes: self.bytes,
            referer: given(self.referer),
            agent: given(self.agent),
            traits: self.traits,
        }
    }
}

/// How often an agent stands in a batch, and where once.
#[derive(Debug, Clone, Copy)]
pub(super) struct AgentCount {
    pub(super) agent: BatchSpan,
    pub(super) requests: u64,
}

/// A piece of a log after parsing.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Place in the order of pieces.
    pub(super) piece: u32,
    /// Place of its log among the inputs.
    pub(super) input: usize,
    /// The fields of the entries; each agent once.
    pub(super) text: String,
    /// In the order of time; of equal times, in that of the log.
    pub(super) entries: Vec<Entry>,
    /// Samples have no file yet, and lines from the start of the piece.
    pub(super) counts: Counts,
    /// Times of the first and the last line that has one, in the order of the log.
    pub(super) ends: Option<(Wall, Wall)>,
    /// Lines with a time before that of the line before.
    pub(super) unsorted: u64,
    /// Whether a line has a chain of forwarded addresses.
    pub(super) has_chain: bool,
    /// Of the requests; agents are apart, in `agents`, and targets with the worker.
    pub(super) summary: Summary,
    pub(super) agents: Vec<AgentCount>,
}

impl Batch {
    /// Bytes it takes to keep.
    pub(super) fn cost(&self) -> usize {
        self.text.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// Nothing in it, room kept.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.entries.clear();
        self.agents.clear();
        self.unsorted = 0;
        self.has_chain = false;
        self.ends = None;
        self.counts = Counts::default();
        self.summary.clear();
    }
}
