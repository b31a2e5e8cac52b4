//! What logs add up to, piece by piece: summaries that merge.
//!
//! `summary(a)` merged with `summary(b)` has the figures of `summary(a ++ b)`, in any order and any grouping; the empty
//! summary changes nothing. So logs can be read in pieces, on many cores or machines, and the figures are those of one
//! machine to the last digit. What depends on the order of requests over hours (policies, caches, crawlers known by
//! their behaviour) has no such summary: [`analyze`](crate::analyze) reads a site's logs as a whole.

mod pieces;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::PathBuf;

use nightwatt_energy::time::Wall;
use nightwatt_traffic::Reading;
use nightwatt_traffic::classifier::ClassifierConfig;
use nightwatt_traffic::scan::{self, Progress, Scan};
use nightwatt_traffic::summary::{Distinct, Hours, Sizes, Summary, Tops};
use nightwatt_traffic::traits::Rules;
use serde::{Deserialize, Serialize};

use self::pieces::{GapPieces, Piece};
use crate::analyze::{GapFigures, SizeFigures};
use crate::error::Error;
use crate::warnings::{skipped, warnings};

/// Different methods that are counted. A log with more has garbage for methods.
const METHODS: usize = 64;

/// What changed times spoil.
const WRONG_IF_CHANGED: &str = "its gaps are wrong";

/// What is known of the requests of a log, or of a piece of one, without their order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSummary {
    /// Lines.
    pub lines: u64,
    /// Lines that could not be read.
    pub malformed: u64,
    /// Lines that are whole, but hold no HTTP request.
    pub bad_requests: u64,
    /// Lines logged before the line in front of them.
    pub unsorted: u64,
    /// Of those, requests too late to be put where they belong.
    pub late: u64,
    /// Requests.
    pub requests: u64,
    /// Times of the first and the last.
    pub span: Option<(Wall, Wall)>,
    /// Whether any time has a fraction of a second.
    pub fractions: bool,
    /// Requests by method.
    pub methods: Methods,
    /// Requests by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Sizes of answers.
    pub sizes: Sizes,
    /// Requests of each hour.
    pub hours: Hours,
    /// Distinct targets, queries included.
    pub targets: Distinct,
    gaps: GapPieces,
    /// What could not be read, and what to mind.
    pub warnings: BTreeSet<String>,
}

/// Requests by method; unknown once there are more than 64 of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Methods(Option<BTreeMap<String, u64>>);

impl Default for Methods {
    fn default() -> Self {
        Self(Some(BTreeMap::new()))
    }
}

impl Methods {
    /// Requests by method; none if there were too many to count.
    pub const fn counts(&self) -> Option<&BTreeMap<String, u64>> {
        self.0.as_ref()
    }

    fn of(tops: &Tops) -> Self {
        let counts = tops.sorted().into_iter().map(|(method, count)| (method.to_owned(), count));
        Self((tops.error() == 0).then(|| counts.collect())).bounded()
    }

    fn merge(&mut self, other: &Self) {
        let (Some(counts), Some(more)) = (&mut self.0, &other.0) else {
            self.0 = None;
            return;
        };
        for (method, count) in more {
            *counts.entry(method.clone()).or_default() += count;
        }
        *self = std::mem::take(self).bounded();
    }

    fn bounded(self) -> Self {
        Self(self.0.filter(|counts| counts.len() <= METHODS))
    }
}

impl LogSummary {
    /// Reads logs as one site's, as `options` has it. `progress` may stop it by `Break`.
    pub fn read(
        logs: &[PathBuf],
        options: &scan::Options,
        mut progress: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Self, Error> {
        let rules = Rules::new(ClassifierConfig::default());
        let goes_on = std::cell::Cell::new(true);
        let report = |at| goes_on.set(goes_on.get() && progress(at).is_continue());
        let mut piece = Piece::default();
        let mut scan = scan::scan(logs, &rules, options, report, |logged| {
            piece.request(logged.at);
            if goes_on.get() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if !goes_on.get() {
            return Err(Error::Stopped);
        }
        scan.refuse()?;
        if scan.counts.requests == 0 && !scan.failures.is_empty() {
            return Err(scan.failures.swap_remove(0).into());
        }
        Ok(Self::of(scan, piece, &options.reading))
    }

    fn of(scan: Scan, piece: Piece, reading: &Reading) -> Self {
        let told = warnings(&scan, reading, WRONG_IF_CHANGED).into_iter();
        let warnings = told.chain(skipped(&scan.counts)).collect();
        let unsorted = scan.unsorted();
        let Scan { counts, summary, late, .. } = scan;
        let Summary { requests, span, fractions, methods, statuses, sizes, hours, targets, .. } =
            summary;
        Self {
            lines: counts.lines,
            malformed: counts.malformed,
            bad_requests: counts.bad_requests,
            unsorted,
            late,
            requests,
            span,
            fractions,
            methods: Methods::of(&methods),
            statuses,
            sizes,
            hours,
            targets,
            gaps: GapPieces::of(piece),
            warnings,
        }
    }

    /// Adds another's requests.
    pub fn merge(&mut self, other: &Self) {
        self.lines += other.lines;
        self.malformed += other.malformed;
        self.bad_requests += other.bad_requests;
        self.unsorted += other.unsorted;
        self.late += other.late;
        self.requests += other.requests;
        self.span = match (self.span, other.span) {
            (Some((first, last)), Some((from, to))) => Some((first.min(from), last.max(to))),
            (one, other) => one.or(other),
        };
        self.fractions |= other.fractions;
        self.methods.merge(&other.methods);
        for (&status, requests) in &other.statuses {
            *self.statuses.entry(status).or_default() += requests;
        }
        self.sizes.merge(&other.sizes);
        self.hours.merge(&other.hours);
        self.targets.merge(&other.targets);
        self.gaps.merge(&other.gaps);
        self.warnings.extend(other.warnings.iter().cloned());
    }

    /// Gaps between requests; none if pieces overlap in time by more than the minute that their ends remember.
    pub fn gaps(&self) -> Option<GapFigures> {
        self.gaps.figures(self.requests)
    }

    /// Sizes of answers.
    pub fn size_figures(&self) -> SizeFigures {
        SizeFigures::of(&self.sizes)
    }
}

#[cfg(test)]
mod tests;
