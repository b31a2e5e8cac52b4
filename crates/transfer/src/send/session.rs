//! The sender's side of a session: messages in, messages out.

mod counts;
mod pack;
mod there;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nightwatt_energy::time::Mono;

use self::counts::Counted;
use super::error::SendError;
use super::flow::{Flow, InFlight};
use super::report::Report;
use super::source::{Piece, Source};
use super::stream::Stream;
use super::walk::Plan;
use crate::codec::{MOST_BYTES, Packer};
use crate::pure::arm::Arm;
use crate::pure::bill::Bill;
use crate::pure::compress::{Compress, Settings};
use crate::pure::exclude::Exclude;
use crate::pure::layout::Layout;
use crate::pure::policy::{Policy, block_bytes};
use crate::pure::ranges::Ranges;
use crate::pure::shown;
use crate::wire::{
    Ack, Change, Codecs, Data, Entry, EntryKind, Failed, Fin, Hello, Hole, Message, Receipt, Stamp,
    VERSIONS, content_sum, negotiated,
};

/// Bytes of entries in one message of the manifest, roughly.
const MANIFEST: usize = 32 << 10;
/// Times that a block may be refused.
const REFUSALS: u32 = 100;
/// Most changes that a receiver may announce, besides one for each entry: so many it may delete.
const MOST_CHANGES: usize = 5_000_000;
/// Files that grew and are named.
const NAMED: usize = 100;
/// Most ranges that a receiver may have, besides one for each entry.
const MOST_RANGES: usize = 1 << 16;

/// What can be set.
#[derive(Debug, Clone)]
pub struct Options {
    /// The arms; if there is one besides none and `fixed` is set, it is always that one.
    pub arms: Vec<Arm>,
    /// What is made small.
    pub bill: Bill,
    /// Length of all blocks; else about a tenth of a second of the link.
    pub block: Option<u32>,
    /// Always this arm.
    pub fixed: Option<Arm>,
    /// Remove what is in the receiver's folders and not here, except what these patterns leave out.
    pub delete: Option<Vec<Exclude>>,
    /// Entries get the attributes that they have here, and lose all others.
    pub attributes: bool,
    /// Only find out what would be done.
    pub trial: bool,
    /// The same for each attempt to send the same to the same place.
    pub session: [u8; 16],
    /// Ends packing.
    pub cancelled: Arc<AtomicBool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Hello,
    Have,
    Blocks,
    Fin,
    Done,
}

/// A session's state.
#[derive(Debug)]
pub struct Session {
    options: Options,
    entries: Vec<Entry>,
    layout: Layout,
    source: Source,
    /// Instead of the source.
    stream: Option<Stream>,
    stage: Stage,
    policy: Compress,
    fixed: Option<usize>,
    packer: Packer,
    flow: Flow,
    /// Bytes that the link carried, and the seconds for that.
    carried: [f64; 2],
    /// What is there, or on the way.
    handed: Ranges,
    counted: Counted,
    position: u64,
    left: u64,
    again: VecDeque<[u64; 2]>,
    refusals: u32,
    next_id: u64,
    sum: u64,
    acknowledged: u64,
    content: Vec<u8>,
    is_stale: Vec<bool>,
    is_grown: Vec<bool>,
    report: Report,
    receipt: Option<Receipt>,
    changes: Vec<Change>,
}

impl Session {
    /// Sends this.
    pub fn new(plan: Plan, mut options: Options) -> Self {
        if let Some(fixed) = options.fixed {
            options.arms = vec![fixed];
        }
        let mut layout = Layout::default();
        for entry in &plan.entries {
            // Files of more than 2^64 bytes do not exist, and not all of them together either.
            let _ = layout.push(entry.bytes());
        }
        let policy = Compress::new(Settings::new(options.arms.clone(), options.bill));
        let fixed = options
            .fixed
            .map(|fixed| policy.arms().iter().position(|arm| *arm == fixed).unwrap_or(0));
        Self {
            source: Source::new(plan.entries.clone(), plan.sources),
            stream: None,
            report: Report { total_bytes: layout.bytes(), ..Report::default() },
            is_stale: vec![false; plan.entries.len()],
            is_grown: vec![false; plan.entries.len()],
            left: layout.bytes(),
            entries: plan.entries,
            options,
            layout,
            stage: Stage::Hello,
            policy,
            fixed,
            packer: Packer::default(),
            flow: Flow::default(),
            carried: [0.0; 2],
            handed: Ranges::default(),
            counted: Counted::default(),
            position: 0,
            again: VecDeque::new(),
            refusals: 0,
            next_id: 0,
            sum: 0,
            acknowledged: 0,
            content: Vec::new(),
            receipt: None,
            changes: Vec::new(),
        }
    }

    /// Sends a stream as a file of this name that was changed at this time.
    pub fn of_stream(stream: Stream, name: &[u8], modified: Stamp, options: Options) -> Self {
        let entry = Entry {
            path: name.to_vec(),
            kind: EntryKind::Stream,
            mode: 0o644,
            modified,
            attributes: Vec::new(),
        };
        let plan = Plan { entries: vec![entry], sources: vec!["-".into()], ..Plan::default() };
        let mut session = Self::new(plan, options);
        session.report.total_bytes = 0;
        session.stream = Some(stream);
        session
    }

    /// Whether it waits for a stream, which shows by itself when there is more.
    pub fn waits_for_input(&self) -> bool {
        self.stream.is_some() && self.stage == Stage::Blocks && !self.is_stream_rejected()
    }

    /// Whether an answer of the receiver is due.
    pub fn waits_for_receiver(&self) -> bool {
        !self.waits_for_input() || !self.flow.is_empty()
    }

    /// The first message.
    pub fn start(&self) -> Message {
        Message::Hello(Hello {
            versions: VERSIONS,
            codecs: Codecs::all(),
            session: self.options.session,
            program: format!("nightwatt {}", env!("CARGO_PKG_VERSION")),
        })
    }

    /// What was done so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Whether the receiver has greeted.
    pub fn has_begun(&self) -> bool {
        self.stage != Stage::Hello
    }

    /// This program took this much CPU time for it, s.
    pub fn took(&mut self, process_seconds: f64) {
        self.report.process_seconds = process_seconds;
    }

    /// Paths of files that grew while they were sent, the first hundred.
    pub fn grown(&self) -> impl Iterator<Item = &[u8]> {
        let grown = self.entries.iter().zip(&self.is_grown).filter(|(_, is_grown)| **is_grown);
        grown.map(|(entry, _)| entry.path.as_slice()).take(NAMED)
    }

    /// The receipt, when the session is done.
    pub fn receipt(&self) -> Option<&Receipt> {
        self.receipt.as_ref()
    }

    /// What would be done, if only that was asked for.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// What is to be sent.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether the user has stopped it.
    pub fn is_cancelled(&self) -> bool {
        self.options.cancelled.load(Ordering::Relaxed)
    }

    /// What the policy did and knows.
    pub fn policy(&self) -> &Compress {
        &self.policy
    }

    /// Takes a message of the receiver that arrived `at` this time. Gives what is to be sent now.
    pub fn on(&mut self, message: Message, at: Mono) -> Result<Vec<Message>, SendError> {
        match (self.stage, message) {
            (_, Message::Failed(Failed { failure, text })) => {
                Err(SendError::refused(failure, &text))
            }
            (Stage::Hello, Message::Hello(hello)) => self.hello(hello),
            (Stage::Have, Message::Have(have)) => self.is_there(&have),
            (Stage::Have, Message::Rejects(rejects)) => self.is_rejected(&rejects),
            (Stage::Have, Message::Changes(changes)) if self.options.trial => {
                self.changes.extend(changes);
                if self.changes.len() > self.entries.len().saturating_add(MOST_CHANGES) {
                    return Err(SendError::protocol("it would change more than there can be"));
                }
                Ok(Vec::new())
            }
            (Stage::Have, Message::Receipt(receipt)) if self.options.trial => {
                self.receipt = Some(receipt);
                self.stage = Stage::Done;
                Ok(Vec::new())
            }
            (Stage::Have, Message::End) if !self.options.trial => {
                self.stage = Stage::Blocks;
                Ok(Vec::new())
            }
            (Stage::Blocks, Message::Ack(ack)) => self.ack(&ack, at),
            (Stage::Blocks, Message::Nack(nack)) => {
                let block = self.flow.refused(nack.id);
                let block = block.ok_or_else(|| {
                    SendError::protocol("a block was refused that is not on its way")
                })?;
                self.refusals += 1;
                self.report.refused += 1;
                if self.refusals > REFUSALS {
                    return Err(SendError::Protocol(format!(
                        "too many blocks were refused, the last: {}",
                        shown::line(&nack.reason)
                    )));
                }
                self.again.push_back([block.start, block.start + block.length]);
                Ok(Vec::new())
            }
            (Stage::Fin, Message::Receipt(receipt)) => {
                self.receipt = Some(receipt);
                self.stage = Stage::Done;
                Ok(Vec::new())
            }
            (stage, message) => {
                let (kind, _) = message.encode();
                Err(SendError::Protocol(format!(
                    "a message of kind {kind} while it is not its turn ({stage:?})"
                )))
            }
        }
    }

    fn hello(&mut self, hello: Hello) -> Result<Vec<Message>, SendError> {
        let Hello { versions, codecs, program, .. } = hello;
        let program = shown::line(&program);
        if negotiated(VERSIONS, versions).is_none() {
            return Err(SendError::Version { program, theirs: versions });
        }
        if let Some(missing) = self.options.arms.iter().find(|arm| !codecs.has(arm.codec)) {
            let missing = *missing;
            if self.fixed.is_some() {
                return Err(SendError::Protocol(format!(
                    "the receiver ({program}) cannot unpack {missing}"
                )));
            }
            self.options.arms.retain(|arm| codecs.has(arm.codec));
            self.policy =
                Compress::new(Settings::new(self.options.arms.clone(), self.options.bill));
        }
        let mut messages = Vec::new();
        let mut some = Vec::new();
        let mut bytes = 0;
        for entry in &self.entries {
            let attributes = entry.attributes.iter().map(|it| it.name.len() + it.value.len() + 4);
            bytes += entry.path.len() + 32 + attributes.sum::<usize>();
            some.push(entry.clone());
            if bytes >= MANIFEST {
                messages.push(Message::Manifest(std::mem::take(&mut some)));
                bytes = 0;
            }
        }
        if !some.is_empty() {
            messages.push(Message::Manifest(some));
        }
        if let Some(excludes) = &self.options.delete {
            messages.push(Message::Delete(excludes.clone()));
        }
        if self.options.attributes {
            messages.push(Message::Attributes);
        }
        if self.options.trial {
            messages.push(Message::Trial);
        }
        messages.push(Message::End);
        self.stage = Stage::Have;
        Ok(messages)
    }

    fn ack(&mut self, ack: &Ack, at: Mono) -> Result<Vec<Message>, SendError> {
        let arrived = self.flow.arrived(ack, at);
        let (block, shown) = arrived.ok_or_else(|| {
            SendError::protocol("a block was acknowledged that is not on its way")
        })?;
        if let Some(shown) = shown {
            self.policy.acknowledged(&shown);
            let [bytes, seconds] = self.carried;
            self.carried = [bytes + shown.bytes, seconds + shown.seconds];
            self.report.link_rate = Some(self.carried[0] / self.carried[1]);
            self.report.link_rates = self.flow.rates();
        }
        let seconds = ack.cpu_nanos as f64 * 1e-9;
        if let Some(arm) = block.arm {
            self.policy.unpacked(arm, block.length as f64, seconds);
        }
        if let Some(stream) = &mut self.stream {
            stream.acknowledged(block.start);
        }
        self.report.receiver_seconds += seconds;
        self.count_arrived(block.start, block.length, block.arm.is_none());
        self.sum = self.sum.wrapping_add(block.sum);
        self.acknowledged += 1;
        Ok(Vec::new())
    }

    /// What is to be sent without waiting for an answer, if anything is: a block, or the end. `clock` is read when the
    /// block is packed.
    pub fn next(&mut self, clock: &dyn Fn() -> Mono) -> Result<Vec<Message>, SendError> {
        if self.stage != Stage::Blocks || !self.flow.is_open() {
            return Ok(Vec::new());
        }
        if let Some([start, end]) = self.again.pop_front() {
            return match self.stream.as_ref().map(|stream| stream.again(start)) {
                Some(Some(content)) => self.block(start, content, clock, Some(0)),
                Some(None) => Err(SendError::protocol("it asks for a block that it has")),
                None => self.data(start, end, clock, Some(0)),
            };
        }
        if self.stream.is_some() && !self.is_stream_rejected() {
            return self.next_of_stream(clock);
        }
        let Some([start, end]) = self.handed.gap(self.position, self.layout.bytes()) else {
            if !self.flow.is_empty() {
                return Ok(Vec::new());
            }
            self.stage = Stage::Fin;
            return Ok(vec![Message::Fin(Fin { sum: self.sum, blocks: self.acknowledged })]);
        };
        if self.next_id == 0 {
            // An empty block: it shows how long there and back takes where nothing has to be carried.
            return Ok(self.hole(start, 0, clock()));
        }
        match self.source.piece(&self.layout, start, end) {
            Piece::Hole(length) => Ok(self.hole(start, length, clock())),
            Piece::Data(until) => {
                self.data(start, until.min(start + self.wanted()), clock, self.fixed)
            }
        }
    }

    /// Length of the next block, if there is so much.
    fn wanted(&self) -> u64 {
        let wanted = self.options.block.unwrap_or_else(|| {
            let link = self.policy.link();
            if link.is_known() {
                block_bytes(1.0 / link.seconds_per_byte())
            } else {
                block_bytes(0.0)
            }
        });
        u64::from(wanted).clamp(1, MOST_BYTES as u64)
    }

    fn next_of_stream(&mut self, clock: &dyn Fn() -> Mono) -> Result<Vec<Message>, SendError> {
        if self.next_id == 0 {
            return Ok(self.hole(0, 0, clock()));
        }
        let wanted = usize::try_from(self.wanted()).unwrap_or(MOST_BYTES);
        let Some(stream) = &mut self.stream else { return Ok(Vec::new()) };
        if let Some((start, content)) = stream.next(wanted, self.flow.is_empty()) {
            self.report.total_bytes += content.len() as u64;
            return self.block(start, content, clock, self.fixed);
        }
        if let Some(error) = stream.failure() {
            return Err(SendError::Input(error));
        }
        let Some(length) = stream.length().filter(|_| self.flow.is_empty()) else {
            return Ok(Vec::new());
        };
        self.stage = Stage::Fin;
        let fin = Fin { sum: self.sum, blocks: self.acknowledged };
        Ok(vec![Message::Ended(length), Message::Fin(fin)])
    }

    fn hand_over(&mut self, start: u64, end: u64) {
        if !self.handed.covers(start, end) {
            self.left -= (end - start).min(self.left);
            self.handed.add(start, end);
            self.position = end;
        }
    }

    fn hole(&mut self, start: u64, length: u64, now: Mono) -> Vec<Message> {
        let end = start + length;
        self.hand_over(start, end);
        let stale = self.source.stale_in_hole(&self.layout, &self.handed, [start, end]);
        let mut messages = self.stale(stale, end);
        let id = self.id();
        let sum = content_sum(start, &length.to_le_bytes());
        self.flow.sent(InFlight { id, start, length, packed: 0, arm: None, sum, sent: now });
        messages.push(Message::Hole(Hole { id, start, length }));
        messages
    }

    /// Announces entries that are not what the manifest says. What is left of them behind `end` need not be sent: the
    /// receiver takes it for done.
    fn stale(&mut self, stale: Vec<usize>, end: u64) -> Vec<Message> {
        let mut messages = Vec::new();
        for entry in self.source.take_grown() {
            if !std::mem::replace(&mut self.is_grown[entry], true) {
                self.report.grown += 1;
            }
        }
        for entry in stale {
            if !std::mem::replace(&mut self.is_stale[entry], true) {
                self.report.stale += 1;
                self.reject(entry);
                messages.push(Message::Stale(entry as u64));
                let [from, until] = self.layout.range(entry);
                let from = from.max(end);
                if from < until {
                    self.hand_over(from, until);
                }
            }
        }
        messages
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn data(
        &mut self,
        start: u64,
        end: u64,
        clock: &dyn Fn() -> Mono,
        fixed: Option<usize>,
    ) -> Result<Vec<Message>, SendError> {
        let mut content = std::mem::take(&mut self.content);
        self.hand_over(start, end);
        let stale = self.source.read(&self.layout, &self.handed, [start, end], &mut content);
        let mut messages = self.stale(stale, end);
        messages.extend(self.block(start, content, clock, fixed)?);
        Ok(messages)
    }

    fn block(
        &mut self,
        start: u64,
        content: Vec<u8>,
        clock: &dyn Fn() -> Mono,
        fixed: Option<usize>,
    ) -> Result<Vec<Message>, SendError> {
        let packed = self.pack(&content, fixed);
        let sum = content_sum(start, &content);
        let length = content.len();
        let (arm, codec, packed) = packed?;
        let packed = match packed {
            Some(packed) => {
                self.content = content;
                packed
            }
            None => content,
        };
        let id = self.id();
        self.report.wire_bytes += packed.len() as u64;
        self.flow.sent(InFlight {
            id,
            start,
            length: length as u64,
            packed: packed.len() as u64,
            arm: Some(arm),
            sum,
            sent: clock(),
        });
        let length = u32::try_from(length).unwrap_or(0);
        Ok(vec![Message::Data(Data { id, start, length, codec, sum, packed })])
    }
}
