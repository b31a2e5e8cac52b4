//! Gaps between the requests of pieces of a log, which may be merged in any order.
//!
//! A gap lies between two requests, and these may be in different pieces. So a piece keeps the times of its first and
//! of its last requests, and sums of the gaps between them. When the figures are drawn up, all pieces are put in the
//! order of time, and the gaps between them are added. That is exact where pieces overlap only in the times that they
//! keep: servers log requests when they end, so cuts by lines are not sharp cuts in time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use nightwatt_energy::time::Wall;
use serde::{Deserialize, Serialize};

use crate::gaps::{GapFigures, GapLengths};

/// How long before its end, and after its begin, a piece keeps the times of its requests.
const EDGE_MS: i64 = 60_000;
/// Different times that are kept at either end.
const EDGE_TIMES: usize = 2_048;

/// Requests at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Moment {
    at: Wall,
    requests: u64,
}

/// The times between which a piece keeps only sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Hidden {
    /// The last request of the first ones; it is kept, too.
    from: Wall,
    /// The last request that is not kept.
    to: Wall,
}

/// The gaps of one piece, whose requests are given in the order of time.
#[derive(Debug, Clone, Default)]
pub(super) struct Piece {
    first: Vec<Moment>,
    hidden: Option<Hidden>,
    last: VecDeque<Moment>,
    lengths: GapLengths,
}

impl Piece {
    pub(super) fn request(&mut self, at: Wall) {
        if let Some(now) = self.last.back_mut().filter(|now| now.at == at) {
            now.requests += 1;
            return;
        }
        self.last.push_back(Moment { at, requests: 1 });
        while self.has_too_many() {
            let Some(oldest) = self.last.pop_front() else { return };
            self.keep_or_add(oldest);
        }
    }

    fn has_too_many(&self) -> bool {
        let ends = self.last.front().zip(self.last.back());
        self.last.len() > EDGE_TIMES
            || ends
                .is_some_and(|(oldest, newest)| newest.at.0.saturating_sub(oldest.at.0) > EDGE_MS)
    }

    /// Whether the first ones reach beyond the edge. One of them does: a gap across the edge is in no sum,
    /// since requests of another piece may fall into it.
    fn reaches_beyond_the_edge(&self) -> bool {
        let ends = self.first.first().zip(self.first.last());
        ends.is_some_and(|(begin, last)| last.at.0.saturating_sub(begin.at.0) > EDGE_MS)
    }

    /// A moment leaves the last ones: it is one of the first ones, or goes into the sums.
    fn keep_or_add(&mut self, moment: Moment) {
        match self.first.last() {
            Some(last) if self.first.len() == EDGE_TIMES || self.reaches_beyond_the_edge() => {
                let from = last.at;
                let hidden = self.hidden.get_or_insert(Hidden { from, to: from });
                self.lengths.add(between(hidden.to, moment.at), 1);
                self.lengths.add(Duration::ZERO, moment.requests - 1);
                hidden.to = moment.at;
            }
            _ => self.first.push(moment),
        }
    }
}

/// The gaps of any number of pieces.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct GapPieces {
    /// Gaps within what pieces do not keep.
    lengths: GapLengths,
    /// Times that pieces keep, in order.
    kept: BTreeMap<Wall, u64>,
    /// What they do not keep, in order.
    hidden: Vec<Hidden>,
}

impl GapPieces {
    pub(super) fn of(piece: Piece) -> Self {
        let kept = piece.first.into_iter().chain(piece.last);
        Self {
            lengths: piece.lengths,
            kept: kept.map(|moment| (moment.at, moment.requests)).collect(),
            hidden: piece.hidden.into_iter().collect(),
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.lengths.merge(&other.lengths);
        for (&at, requests) in &other.kept {
            *self.kept.entry(at).or_default() += requests;
        }
        self.hidden.extend(&other.hidden);
        self.hidden.sort_unstable();
    }

    /// The gaps of all requests together; none if requests of one piece fall where another keeps only sums.
    pub(super) fn figures(&self, requests: u64) -> Option<GapFigures> {
        let mut moments = self.kept.clone();
        for hidden in &self.hidden {
            *moments.entry(hidden.to).or_default() += 1;
        }
        let mut lengths = self.lengths.clone();
        let mut hidden = self.hidden.iter().peekable();
        let mut before: Option<Wall> = None;
        for (&at, &here) in &moments {
            lengths.add(Duration::ZERO, here.saturating_sub(1));
            if let Some(before) = before {
                let is_hidden = hidden.next_if(|hidden| hidden.from == before);
                match is_hidden {
                    Some(hidden) if hidden.to != at => return None,
                    Some(_) => {}
                    None => lengths.add(between(before, at), 1),
                }
            }
            before = Some(at);
        }
        // Another that begins where one has begun.
        hidden.next().is_none().then(|| lengths.figures(requests))
    }
}

fn between(from: Wall, to: Wall) -> Duration {
    Duration::from_millis(to.0.abs_diff(from.0))
}
