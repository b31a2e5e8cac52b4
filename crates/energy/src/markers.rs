//! Sections that programs mark themselves: marks of threads and times at which these ran become
//! calls, and CPU time by stack of sections.
//!
//! Marks come from the program, through memory that it shares with us ([`area`]); the times at which
//! a thread was on a CPU come from the kernel, piece by piece and in their order. A [`Merger`] goes
//! through both at once, for each thread by itself:
//!
//! ```text
//! thread runs   ────────────┐      ┌──────────┐ ┌──────── known up to here
//! its marks        (a   (b            b)   a)
//! CPU time        0│ a │a;b │      │a;b │  a│0│
//! ```
//!
//! Time lies in nodes of a [`Tree`] as that of probed sections does, so energy is shared out likewise.

pub mod area;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::sections::{Node, Tree, Usage, bands};

/// Sections that a thread may have open, as in the kernel.
pub const DEPTH: usize = 16;

/// Stacks of sections that may occur, as in the kernel.
const NODES: usize = 4096;

/// Bands of lengths, as in the kernel: up to 4.9 hours.
const BANDS: usize = 672;

/// Marks of a thread that wait for the kernel to tell when it ran.
const WAITING: usize = 1 << 20;

/// And such marks of all threads of a process.
const WAITING_IN_ALL: usize = 1 << 22;

/// Threads of a process that the kernel has not reported yet. It may have 128 with rings at a time, and
/// all may be gone before the next look.
const SILENT: usize = 1 << 14;

/// Sections begun where there was no room that are remembered until they end.
const BEYOND: usize = 1024;

/// A section begins, or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// It begins.
    Begin,
    /// It ends.
    End,
}

/// What a thread said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// When, ns.
    pub at: u64,
    /// Of which section.
    pub section: u32,
    /// What.
    pub edge: Edge,
}

/// What became of a thread at the end of a piece of running time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// It runs on.
    Runs,
    /// Its CPU was given to another, though it was ready to go on.
    Preempted,
    /// It waits for something.
    Waits,
    /// It ended, or became another program.
    Gone,
}

/// A thread: its process and itself, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadId {
    /// Its process.
    pub process: u32,
    /// Its number.
    pub thread: u32,
}

/// A piece of time in which a thread was on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Which thread.
    pub thread: ThreadId,
    /// From here, ns.
    pub begin: u64,
    /// To here, ns.
    pub end: u64,
    /// Time on a CPU within the piece, ns; a hypervisor took the rest.
    pub ran: u64,
    /// And then.
    pub then: RunEnd,
}

/// Calls of a section. Times are ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calls {
    /// That have ended.
    pub ended: u64,
    /// That have begun.
    pub begun: u64,
    /// Of those that ended, from beginning to end.
    pub length: u64,
    /// Of that, on a CPU.
    pub ran: u64,
    /// Of that, ready to run while another thread had the CPU.
    pub preempted: u64,
    /// Begun, and never ended by their thread.
    pub unended: u64,
    /// Ended, and never begun while a reader was attached.
    pub unbegun: u64,
    /// Begun inside of [`DEPTH`] others.
    pub too_deep: u64,
    /// Counted by the program when there was no room to write them down: of these nothing else is known.
    pub lost: u64,
    /// Those that ended by their length, in [`bands`].
    pub bands: Vec<u64>,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            ended: 0,
            begun: 0,
            length: 0,
            ran: 0,
            preempted: 0,
            unended: 0,
            unbegun: 0,
            too_deep: 0,
            lost: 0,
            bands: vec![0; BANDS],
        }
    }
}

/// An open section, and its thread's books when it began.
#[derive(Debug, Clone, Copy)]
struct Frame {
    section: u32,
    node: usize,
    began: u64,
    ran: u64,
    preempted: u64,
}

#[derive(Debug, Default)]
struct Thread {
    /// Up to here everything is known and booked.
    upto: u64,
    ran: u64,
    preempted: u64,
    was_preempted: bool,
    frames: Vec<Frame>,
    beyond: Vec<u32>,
    waiting: VecDeque<Mark>,
    is_unsorted: bool,
}

impl Thread {
    /// The kernel has not reported it.
    const fn is_silent(&self) -> bool {
        self.upto == 0
    }

    fn node(&self) -> usize {
        self.frames.last().map_or(0, |frame| frame.node)
    }
}

/// Of all threads.
#[derive(Debug, Default)]
pub struct Merger {
    processes: HashMap<u32, Process>,
    /// Threads that have marks and that the kernel never reported.
    unmatched_threads: u64,
    accounting: Accounting,
}

/// What a process may say is bounded, whatever it says.
#[derive(Debug, Default)]
struct Process {
    threads: HashMap<u32, Thread>,
    /// Threads that are silent.
    silent: usize,
    /// Marks that wait.
    waiting: usize,
}

/// What comes of it.
#[derive(Debug, Default)]
struct Accounting {
    tree: Tree,
    children: HashMap<(usize, u32), usize>,
    /// CPU time of each node but the first, which stands for none.
    times: Vec<u64>,
    calls: Vec<Calls>,
    is_full: bool,
}

/// A piece of time, and how much of its running time has been given to nodes.
struct Piece {
    begin: u64,
    end: u64,
    ran: u64,
    given: u64,
}

impl Merger {
    /// A thread said something. Of one thread the kernel's word is to come after its own. False: it is
    /// of more threads than can be believed.
    pub fn mark(&mut self, ThreadId { process, thread }: ThreadId, mark: Mark) -> bool {
        let process = self.processes.entry(process).or_default();
        if !process.threads.contains_key(&thread) {
            if process.silent >= SILENT {
                return false;
            }
            process.silent += 1;
        }
        let thread = process.threads.entry(thread).or_default();
        thread.is_unsorted |= thread.waiting.back().is_some_and(|last| last.at > mark.at);
        thread.waiting.push_back(mark);
        process.waiting += 1;
        if (thread.waiting.len() > WAITING || process.waiting > WAITING_IN_ALL)
            && let Some(mark) = thread.waiting.pop_front()
        {
            // The kernel does not tell of it: what is known are its calls.
            process.waiting -= 1;
            self.accounting.apply(thread, mark);
        }
        true
    }

    /// Calls of a section that were not recorded.
    pub fn lost(&mut self, section: u32, calls: u64) {
        self.accounting.calls(section).lost += calls;
    }

    /// The kernel said when a thread ran.
    pub fn run(&mut self, run: &Run) {
        let ThreadId { process: number, thread: thread_number } = run.thread;
        let process = self.processes.entry(number).or_default();
        let is_known = process.threads.contains_key(&thread_number);
        let thread = process.threads.entry(thread_number).or_default();
        process.silent -= usize::from(is_known && thread.is_silent());
        let waited = thread.waiting.len();
        self.accounting.run(thread, run);
        process.waiting -= waited - thread.waiting.len();
        process.silent += usize::from(thread.is_silent());
        if run.then == RunEnd::Gone && thread.waiting.is_empty() {
            process.silent -= usize::from(thread.is_silent());
            process.threads.remove(&thread_number);
            if process.threads.is_empty() {
                self.processes.remove(&number);
            }
        }
    }

    /// Nothing more will come.
    pub fn finish(&mut self) {
        for thread in self.processes.values_mut().flat_map(|it| it.threads.values_mut()) {
            self.unmatched_threads += u64::from(thread.is_silent());
            thread.waiting.make_contiguous().sort_by_key(|mark| mark.at);
            while let Some(mark) = thread.waiting.pop_front() {
                self.accounting.apply(thread, mark);
            }
        }
    }

    /// Threads with marks for which the kernel never reported when they ran: once all is known.
    pub const fn unmatched_threads(&self) -> u64 {
        self.unmatched_threads
    }

    /// CPU time so far, where `all` has that of all watched threads in its first node.
    #[must_use]
    pub fn usage(&self, mut all: Usage) -> Usage {
        let mut nodes: Vec<Duration> =
            self.accounting.times.iter().map(|&ns| Duration::from_nanos(ns)).collect();
        let watched: Duration = all.nodes.iter().sum();
        let inside: Duration = nodes.iter().skip(1).sum();
        nodes.resize(nodes.len().max(1), Duration::ZERO);
        nodes[0] = watched.saturating_sub(inside);
        all.nodes = nodes;
        all
    }

    /// Which stacks of sections occurred.
    pub const fn tree(&self) -> &Tree {
        &self.accounting.tree
    }

    /// Were there more than there is room for?
    pub const fn is_full(&self) -> bool {
        self.accounting.is_full
    }

    /// Calls of a section so far.
    pub fn calls(&self, section: u32) -> Calls {
        self.accounting.calls.get(section as usize).cloned().unwrap_or_default()
    }
}

impl Accounting {
    fn calls(&mut self, section: u32) -> &mut Calls {
        let number = section as usize;
        if number >= self.calls.len() {
            self.calls.resize_with(number + 1, Calls::default);
        }
        &mut self.calls[number]
    }

    /// The node below `parent`. Node 0 where there is no room for one more.
    fn child(&mut self, parent: usize, section: u32) -> usize {
        if let Some(node) = self.children.get(&(parent, section)) {
            return *node;
        }
        let node = self.tree.len();
        if node >= NODES {
            self.is_full = true;
            return 0;
        }
        self.tree.insert(node, Node { parent, section: section as usize });
        self.children.insert((parent, section), node);
        self.times.resize(node + 1, 0);
        node
    }

    /// Charges time on a CPU to the node that the thread is in.
    fn give(&mut self, thread: &mut Thread, ran: u64) {
        thread.ran += ran;
        if let Some(time) = self.times.get_mut(thread.node()).filter(|_| thread.node() > 0) {
            *time += ran;
        }
    }

    /// Books a thread's time up to `to`, which is not behind the end of `piece`.
    fn advance(&mut self, thread: &mut Thread, to: u64, piece: &mut Piece) {
        if thread.upto < piece.begin {
            let there = to.min(piece.begin);
            if thread.was_preempted {
                thread.preempted += there - thread.upto;
            }
            thread.upto = there;
        }
        if to <= thread.upto {
            return;
        }
        // When a hypervisor took its time is unknown: it is spread over the piece.
        let (done, all) = (u128::from(to - piece.begin), u128::from(piece.end - piece.begin));
        let ran = (u128::from(piece.ran) * done / all) as u64 - piece.given;
        piece.given += ran;
        thread.preempted += (to - thread.upto).saturating_sub(ran);
        thread.upto = to;
        self.give(thread, ran);
    }

    /// Books a piece of a thread's running time, and what it said up to its end.
    fn run(&mut self, thread: &mut Thread, run: &Run) {
        if std::mem::take(&mut thread.is_unsorted) {
            thread.waiting.make_contiguous().sort_by_key(|mark| mark.at);
        }
        let begin = run.begin.max(thread.upto);
        let mut piece = Piece { begin, end: run.end.max(begin), ran: run.ran, given: 0 };
        while let Some(mark) = thread.waiting.pop_front_if(|mark| mark.at <= piece.end) {
            // One that was written just before the thread was taken off its CPU comes late.
            self.advance(thread, mark.at.max(thread.upto), &mut piece);
            self.apply(thread, mark);
        }
        self.advance(thread, piece.end, &mut piece);
        self.give(thread, piece.ran - piece.given);
        thread.was_preempted = run.then == RunEnd::Preempted;
        if run.then == RunEnd::Gone {
            self.leave(thread);
            // What is left was said by another that has its number now.
            let waiting = std::mem::take(&mut thread.waiting);
            *thread = Thread { upto: piece.end, waiting, ..Thread::default() };
        }
    }

    fn apply(&mut self, thread: &mut Thread, mark: Mark) {
        match mark.edge {
            Edge::Begin => self.begin(thread, mark),
            Edge::End => self.end(thread, mark),
        }
    }

    fn begin(&mut self, thread: &mut Thread, mark: Mark) {
        let section = mark.section;
        if thread.frames.len() >= DEPTH {
            self.calls(section).too_deep += 1;
            if thread.beyond.len() < BEYOND {
                thread.beyond.push(section);
            }
            return;
        }
        self.calls(section).begun += 1;
        let node = self.child(thread.node(), section);
        let (ran, preempted) = (thread.ran, thread.preempted);
        thread.frames.push(Frame { section, node, began: mark.at, ran, preempted });
    }

    /// The last one that began ends. It need not be the innermost: sections may overlap.
    fn end(&mut self, thread: &mut Thread, mark: Mark) {
        let section = mark.section;
        if let Some(place) = thread.beyond.iter().rposition(|it| *it == section) {
            thread.beyond.remove(place);
            return;
        }
        let Some(place) = thread.frames.iter().rposition(|frame| frame.section == section) else {
            self.calls(section).unbegun += 1;
            return;
        };
        let frame = thread.frames.remove(place);
        // Those that began inside of it lie in other nodes now.
        let mut parent = place.checked_sub(1).map_or(0, |below| thread.frames[below].node);
        for inner in &mut thread.frames[place..] {
            inner.node = self.child(parent, inner.section);
            parent = inner.node;
        }
        let length = mark.at.saturating_sub(frame.began);
        let calls = self.calls(section);
        calls.ended += 1;
        // A program may say of any two moments what it likes.
        calls.length = calls.length.saturating_add(length);
        calls.ran += thread.ran - frame.ran;
        calls.preempted += thread.preempted - frame.preempted;
        calls.bands[bands::band(length).min(BANDS - 1)] += 1;
    }

    /// A thread is gone, and whatever it had open is left.
    fn leave(&mut self, thread: &mut Thread) {
        for frame in thread.frames.drain(..) {
            self.calls(frame.section).unended += 1;
        }
    }
}
