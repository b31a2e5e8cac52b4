//! What a worker does: parses a piece of a log into a batch.

use std::borrow::Cow;
use std::ops::Range;
use std::string::FromUtf8Error;

use memchr::memchr_iter;
use nightwatt_energy::time::Wall;

use super::batch::{AgentCount, Batch, BatchSpan, Entry};
use super::between::Between;
use super::source::Piece;
use crate::classifier::{ClientFacts, Fetch};
use crate::record::MAX_LINE;
use crate::record::{Escapes, Field, Reason};
use crate::spans::{Span, Spans};
use crate::summary::{Distinct, Summary, beginning, bin};
use crate::traits::{AgentMemo, Rules, Slot, Traits, client_key, visitor};

/// Agents that a worker remembers.
const AGENTS: usize = 8192;

/// A thread's own tables.
pub(super) struct Worker<'a> {
    rules: &'a Rules,
    between: Between,
    agents: AgentMemo,
    tally: Tally,
    /// Requests and bytes of text of the batch before: about as much room will be needed again.
    room: (usize, usize),
}

impl<'a> Worker<'a> {
    pub(super) fn new(rules: &'a Rules, between: Between) -> Self {
        let (agents, tally) = (AgentMemo::new(AGENTS), Tally::default());
        Self { rules, between, agents, tally, room: (0, 0) }
    }

    /// Parses a piece into an empty batch; what is left is the piece's buffer.
    pub(super) fn parse(&mut self, piece: Piece, batch: &mut Batch) -> Vec<u8> {
        let Piece { number, input, text, mut parser } = piece;
        batch.piece = number;
        batch.input = input;
        batch.entries.reserve(self.room.0 + self.room.0 / 8);
        batch.text.reserve(self.room.1 + self.room.1 / 8);
        // What is text as a whole is text in any field; else each has to be looked at.
        let text = String::from_utf8(text);
        let (bytes, valid) = match &text {
            Ok(text) => (text.as_bytes(), Some(text.as_str())),
            Err(error) => (error.as_bytes(), None),
        };
        let mut last: Option<Wall> = None;
        for range in lines(bytes) {
            let line = &bytes[range.clone()];
            batch.counts.lines += 1;
            let found =
                if line.len() > MAX_LINE { Err(Reason::TooLong) } else { parser.find(line) };
            let spans = match found {
                Ok(Some(spans)) => spans,
                Ok(None) => {
                    batch.counts.directives += 1;
                    continue;
                }
                Err(reason) => {
                    batch.counts.lose("", reason, line);
                    continue;
                }
            };
            let at = spans.at;
            batch.has_chain |= spans.has_chain;
            batch.unsorted += u64::from(last.is_some_and(|last| at < last));
            last = Some(at);
            batch.ends = Some((batch.ends.map_or(at, |(first, _)| first), at));
            if !self.between.has(at) {
                batch.counts.outside += 1;
            } else if spans.is_request() {
                batch.counts.requests += 1;
                let source = Source { line, text: valid.map(|text| &text[range]) };
                self.enter(&source, &spans, batch);
            } else {
                batch.counts.lose("", Reason::NoHttp, line);
            }
        }
        self.tally.give(&mut batch.summary);
        self.room = (batch.entries.len(), batch.text.len());
        if batch.unsorted > 0 {
            batch.entries.sort_by_key(|entry| entry.at);
        }
        text.map_or_else(FromUtf8Error::into_bytes, String::into_bytes)
    }

    /// Distinct targets of all that was parsed: that is not in the batches.
    pub(super) fn into_targets(self) -> Distinct {
        self.tally.targets
    }

    fn enter(&mut self, source: &Source<'_>, spans: &Spans, batch: &mut Batch) {
        let [method, target, _] = spans.http.unwrap_or_default();
        let line = source.line;
        let plain = source.text.filter(|_| spans.escaped == 0);
        let agent = match (spans.agent(line).given(), plain) {
            (None, _) => Cow::Borrowed(""),
            (Some(_), Some(text)) => Cow::Borrowed(spans.agent.of_text(text)),
            (Some(agent), None) => agent.text(),
        };
        let referer = spans.field(line, spans.referer).given();
        let [client, method, target, referer] = match plain {
            // All but the agent, with what stands between: one copy is quicker than four.
            Some(text) if spans.escapes == Escapes::Clf => {
                let base = batch.text.len();
                let last = if referer.is_some() { spans.referer } else { target };
                batch.text.push_str(&text[..last.to as usize]);
                let referer = if referer.is_some() { spans.referer } else { Span::default() };
                [spans.client, method, target, referer].map(|span| BatchSpan::at(base, span))
            }
            _ => {
                let fields = [
                    Some(spans.field(line, spans.client)),
                    Some(spans.field(line, method)),
                    Some(spans.target(line, target)),
                    referer,
                ];
                fields.map(|field| field.map_or_else(BatchSpan::default, |it| put(it, batch)))
            }
        };

        let at = |place: BatchSpan| &batch.text[place.from as usize..place.to as usize];
        let client_text = at(client);
        let facts = ClientFacts {
            client: client_key(client_text),
            agent: (!agent.is_empty()).then_some(&*agent),
            method: at(method),
            target: at(target),
            host: None,
            referer: (referer.len() > 0).then(|| at(referer)),
            accepts_html: None,
            credential: None,
            fetch: Fetch::Unknown,
        };
        let slot = self.agents.look_up(self.rules, &agent);
        let traits = self.rules.traits_with(slot.agent, &facts);
        let visitor = visitor(client_text, &traits);
        self.tally.count(spans, &traits, facts.method, &mut batch.summary);
        let agent =
            if agent.is_empty() { BatchSpan::default() } else { count(slot, &agent, batch) };
        batch.entries.push(Entry {
            at: spans.at,
            piece: batch.piece,
            utc_offset: spans.utc_offset,
            client,
            method,
            target,
            referer,
            agent,
            bytes: spans.bytes,
            visitor,
            traits,
            status: spans.status,
        });
    }
}

/// Puts a field behind the text of its batch.
fn put(field: Field<'_>, batch: &mut Batch) -> BatchSpan {
    let from = batch.text.len();
    batch.text.push_str(&field.text());
    BatchSpan { from: from as u32, to: batch.text.len() as u32 }
}

/// Counts an agent, and puts it into its batch once.
fn count(slot: &mut Slot, agent: &str, batch: &mut Batch) -> BatchSpan {
    match slot.mark {
        Some((piece, index)) if piece == batch.piece => {
            let known = &mut batch.agents[index as usize];
            known.requests += 1;
            known.agent
        }
        _ => {
            slot.mark = Some((batch.piece, batch.agents.len() as u32));
            let from = batch.text.len();
            batch.text.push_str(agent);
            let agent = BatchSpan { from: from as u32, to: batch.text.len() as u32 };
            batch.agents.push(AgentCount { agent, requests: 1 });
            agent
        }
    }
}

/// A line, and the same as text where its piece is.
struct Source<'a> {
    line: &'a [u8],
    text: Option<&'a str>,
}

/// Where each line is, without its end.
fn lines(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let open = bytes.last().is_some_and(|&last| last != b'\n');
    let mut start = 0;
    memchr_iter(b'\n', bytes).chain(open.then_some(bytes.len())).map(move |end| {
        let line = start..end;
        start = end + 1;
        let carriage_return = end > line.start && bytes[end - 1] == b'\r';
        line.start..end - usize::from(carriage_return)
    })
}

impl BatchSpan {
    /// None where the field is empty, wherever it stands.
    const fn at(base: usize, span: Span) -> Self {
        if span.from == span.to {
            return Self { from: 0, to: 0 };
        }
        Self { from: base as u32 + span.from, to: base as u32 + span.to }
    }
}

/// Sums of a batch that take an array or a look at the request before, where the summary has a
/// tree.
struct Tally {
    /// By status.
    statuses: Box<[u64; 1000]>,
    /// By bin of size.
    sizes: Box<[u64; 256]>,
    bytes: u64,
    gets: u64,
    /// Distinct targets of all batches so far: as one sketch that stays at hand it is quicker, and
    /// in what order sketches merge is all the same.
    targets: Distinct,
    /// Beginning, offset and requests of the hour that the latest request was in.
    hour: (i64, i32, u64),
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            statuses: Box::new([0; 1000]),
            sizes: Box::new([0; 256]),
            bytes: 0,
            gets: 0,
            targets: Distinct::default(),
            hour: (0, 0, 0),
        }
    }
}

impl Tally {
    fn count(&mut self, spans: &Spans, traits: &Traits, method: &str, summary: &mut Summary) {
        let at = spans.at;
        summary.requests += 1;
        summary.fractions |= at.0 % 1000 != 0;
        summary.span =
            Some(summary.span.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
        self.targets.add(traits.target);
        if method == "GET" {
            self.gets += 1;
        } else {
            summary.methods.add(method, 1);
        }
        self.statuses[usize::from(spans.status) % 1000] += 1;
        self.sizes[usize::from(bin(spans.bytes))] += 1;
        self.bytes = self.bytes.saturating_add(spans.bytes);
        let (begins, utc_offset, requests) = &mut self.hour;
        if *utc_offset != spans.utc_offset || !(0..3600).contains(&(at.secs() - *begins)) {
            summary.hours.add(Wall::from_secs(*begins), *utc_offset, *requests);
            (*begins, *utc_offset, *requests) =
                (beginning(at, spans.utc_offset), spans.utc_offset, 0);
        }
        *requests += 1;
    }

    /// Puts the sums into the summary, and starts again at zero.
    fn give(&mut self, summary: &mut Summary) {
        let (begins, utc_offset, requests) = std::mem::take(&mut self.hour);
        summary.hours.add(Wall::from_secs(begins), utc_offset, requests);
        summary.methods.add("GET", std::mem::take(&mut self.gets));
        for (status, requests) in self.statuses.iter_mut().enumerate().filter(|(_, n)| **n > 0) {
            *summary.statuses.entry(status as u16).or_default() += std::mem::take(requests);
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        for (bin, answers) in self.sizes.iter_mut().enumerate().filter(|(_, n)| **n > 0) {
            summary.sizes.add_many(bin as u8, std::mem::take(answers), std::mem::take(&mut bytes));
        }
    }
}
