//! What a worker does: parses a piece of a log into a batch.

use std::ops::Range;

use nightwatt_model::time::Wall;

use super::batch::{AgentCount, Batch, Entry, Place};
use super::source::Piece;
use crate::classes::ClientFacts;
use crate::reader::MAX_LINE;
use crate::record::{Field, Reason};
use crate::spans::{Span, Spans};
use crate::summary::{Summary, beginning, bin};
use crate::traits::{AgentMemo, Rules, client_key, visitor};

/// Agents that a worker remembers.
const AGENTS: usize = 8192;

/// A thread's own tables.
pub(super) struct Worker<'a> {
    rules: &'a Rules,
    agents: AgentMemo,
    tally: Tally,
}

impl<'a> Worker<'a> {
    pub(super) fn new(rules: &'a Rules) -> Self {
        Self { rules, agents: AgentMemo::new(AGENTS), tally: Tally::default() }
    }

    /// Parses a piece into an empty batch.
    pub(super) fn parse(&mut self, piece: Piece, batch: &mut Batch) {
        let Piece { number, input, text, mut parser } = piece;
        batch.piece = number;
        batch.input = input;
        let mut text = Text::new(text);
        let mut last: Option<Wall> = None;
        let mut from = 0;
        while let Some(range) = text.line(&mut from) {
            let line = &text.bytes()[range.clone()];
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
            batch.unsorted += u64::from(last.is_some_and(|last| at < last));
            last = Some(at);
            batch.ends = Some((batch.ends.map_or(at, |(first, _)| first), at));
            if spans.is_request() {
                batch.counts.requests += 1;
                let entry = self.entry(&mut text, range, &spans, batch);
                batch.entries.push(entry);
            } else {
                batch.counts.lose("", Reason::NoHttp, line);
            }
        }
        self.tally.give(&mut batch.summary);
        batch.text = text.whole();
        if batch.unsorted > 0 {
            batch.entries.sort_by_key(|entry| entry.at);
        }
    }

    fn entry(
        &mut self,
        text: &mut Text,
        line: Range<usize>,
        spans: &Spans,
        batch: &mut Batch,
    ) -> Entry {
        let [method, target, _] = spans.http.unwrap_or_default();
        let from = line.start;
        let client = Place::at(from, spans.client);
        let method = Place::at(from, method);
        let target = text.place(&line, target, |line| Some(spans.target(line, target)));
        let referer =
            text.place(&line, spans.referer, |line| spans.field(line, spans.referer).given());
        let agent = text.place(&line, spans.agent, |line| spans.agent(line).given());
        batch.used +=
            [client, method, target, referer, agent].map(Place::len).iter().sum::<usize>();

        let client_text = text.at(client);
        let given = |place: Place| (place.len() > 0).then(|| text.at(place));
        let facts = ClientFacts {
            client: client_key(client_text),
            agent: given(agent),
            method: text.at(method),
            target: text.at(target),
            host: None,
            referer: given(referer),
            accepts_html: None,
        };
        let slot = self.agents.look_up(self.rules, facts.agent.unwrap_or_default());
        if agent.len() > 0 {
            match slot.mark {
                Some((piece, index)) if piece == batch.piece => {
                    batch.agents[index as usize].requests += 1;
                }
                _ => {
                    slot.mark = Some((batch.piece, batch.agents.len() as u32));
                    batch.agents.push(AgentCount { agent, requests: 1 });
                }
            }
        }
        let traits = self.rules.traits_with(slot.agent, &facts);
        let entry = Entry {
            at: spans.at,
            piece: batch.piece,
            utc_offset: spans.utc_offset,
            client,
            method,
            target,
            referer,
            agent,
            bytes: spans.bytes,
            visitor: visitor(client_text, &traits),
            traits,
            status: spans.status,
        };
        self.tally.add(&entry, facts.method, &mut batch.summary);
        entry
    }
}

/// A piece's bytes, and the same as text.
struct Text {
    /// What is no UTF-8 replaced byte for byte, so that places are the same.
    text: String,
    /// The bytes as they were, where they are no UTF-8.
    raw: Option<Vec<u8>>,
    /// Fields that had escapes or were no UTF-8, to be put behind the text.
    undone: String,
}

impl Text {
    fn new(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self { text, raw: None, undone: String::new() },
            Err(error) => {
                let raw = error.into_bytes();
                let mut text = String::with_capacity(raw.len());
                for chunk in raw.utf8_chunks() {
                    text.push_str(chunk.valid());
                    text.extend(chunk.invalid().iter().map(|_| '?'));
                }
                Self { text, raw: Some(raw), undone: String::new() }
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        self.raw.as_deref().unwrap_or(self.text.as_bytes())
    }

    /// The line at `from`, which moves behind it; without its end.
    fn line(&self, from: &mut usize) -> Option<Range<usize>> {
        let rest = self.bytes().get(*from..).filter(|rest| !rest.is_empty())?;
        let len = memchr::memchr(b'\n', rest);
        let line = &rest[..len.unwrap_or(rest.len())];
        let start = *from;
        *from += line.len() + 1;
        Some(start..start + line.strip_suffix(b"\r").unwrap_or(line).len())
    }

    /// Where a field of a line stands as text; `field` says what it is, if it is given at all.
    fn place(
        &mut self,
        line: &Range<usize>,
        span: Span,
        field: impl Fn(&[u8]) -> Option<Field<'_>>,
    ) -> Place {
        let Some(field) = field(&self.bytes()[line.clone()]) else { return Place::default() };
        match field.plain() {
            Some(plain) if self.raw.is_none() || std::str::from_utf8(plain).is_ok() => {
                Place::at(line.start, span)
            }
            _ => {
                let text = field.text().into_owned();
                let from = self.text.len() + self.undone.len();
                self.undone.push_str(&text);
                Place { from: from as u32, to: (from + text.len()) as u32 }
            }
        }
    }

    fn at(&self, place: Place) -> &str {
        let (from, to) = (place.from as usize, place.to as usize);
        match from.checked_sub(self.text.len()) {
            None => &self.text[from..to],
            Some(from) => &self.undone[from..to - self.text.len()],
        }
    }

    fn whole(mut self) -> String {
        self.text.push_str(&self.undone);
        self.text
    }
}

impl Place {
    const fn at(base: usize, (from, to): Span) -> Self {
        Self { from: (base + from) as u32, to: (base + to) as u32 }
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
            hour: (0, 0, 0),
        }
    }
}

impl Tally {
    fn add(&mut self, entry: &Entry, method: &str, summary: &mut Summary) {
        let at = entry.at;
        summary.requests += 1;
        summary.fractions |= at.0 % 1000 != 0;
        summary.span =
            Some(summary.span.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
        summary.targets.add(entry.traits.target);
        if method == "GET" {
            self.gets += 1;
        } else {
            summary.methods.add(method, 1);
        }
        self.statuses[usize::from(entry.status) % 1000] += 1;
        self.sizes[usize::from(bin(entry.bytes))] += 1;
        self.bytes = self.bytes.saturating_add(entry.bytes);
        let (begins, utc_offset, requests) = &mut self.hour;
        if *utc_offset != entry.utc_offset || !(0..3600).contains(&(at.secs() - *begins)) {
            summary.hours.add(Wall::from_secs(*begins), *utc_offset, *requests);
            (*begins, *utc_offset, *requests) =
                (beginning(at, entry.utc_offset), entry.utc_offset, 0);
        }
        *requests += 1;
    }

    /// Puts the sums into the summary, and starts anew.
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
