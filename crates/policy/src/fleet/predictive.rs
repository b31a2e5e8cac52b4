//! The default policy: servers ahead of need by a forecast, and off when the past says that it pays.
//!
//! - **How many are needed.** Requests are counted in bins as long as a server takes to start. The
//!   count of the bin after the next is [forecast](super::forecast). With R the servers that this rate
//!   fills, R + z sqrt(R + e^2) are wanted (square-root staffing: W. Whitt, "Understanding the
//!   efficiency of multi-server service systems", Management Science 38, 1992), where e is the error
//!   of past forecasts in servers. z is not chosen: it follows the share of requests that found no
//!   place, up where that is above what the operator allows and down where it is below. What was too
//!   many is made up for: until then half of what is allowed is aimed at.
//! - **A request that finds no place** switches nothing on where it is refused, as long as z sees to the
//!   share of them: only so many that there must be a [surge](SURGE), or where hardly any is allowed.
//!   Where requests wait in a line, each that has to switches a server on.
//! - **When one goes off.** The n-th server is needed while n are wanted, and then also while n are
//!   busy. How long it stays when it is not, its past
//!   [gaps](super::gaps) say; and less long, if z has fallen below 0 because more might find no place
//!   than do.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::FleetSettings;
use super::forecast::{Expected, Forecast, LEAD};
use super::gaps::{Costs, Gaps};

/// Never.
const NEVER: u64 = u64::MAX;
/// Bins are no shorter, ns: below, a forecast saves less than it costs.
const SHORTEST_BIN: u64 = 1_000_000_000;
/// After this many empty bins the past no longer tells the rate.
const FORGOTTEN: u64 = 1000;
/// How far z moves for as many overflows more than allowed as are allowed.
const STEP: f64 = 0.05;
/// So many times as many overflows as are allowed are no chance but a surge: a server is switched on.
/// More of them in a bin move z no further, since one burst is one thing to learn.
const SURGE: f64 = 8.0;
/// So many times more than what is no surge yet may have to be made up for.
const MOST_EXCESS: f64 = 4.0;
/// Bins in a break-even time, at most: a longer surge is answered, whatever a start costs.
const MOST_BINS: f64 = 256.0;
/// z before anything was learned, and the ends of its range.
const HEADROOM: (f64, f64, f64) = (1.0, -2.0, 8.0);

/// What the predictive policy has learned, to be stored and gone on with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetLessons {
    /// By level.
    gaps: Vec<Costs>,
    all_gaps: Costs,
    forecast: Forecast,
    /// Length of the forecast's bins, ns: lessons of other bins say nothing of these.
    bin_ns: u64,
    headroom: f64,
}

impl FleetLessons {
    /// Can this have been learned? What is read from a file need not.
    pub fn is_sound(&self) -> bool {
        self.gaps.iter().chain([&self.all_gaps]).all(Costs::is_sound)
            && self.forecast.is_sound()
            && self.headroom.is_finite()
    }
}

#[derive(Debug, Clone)]
pub(super) struct Predictive {
    gaps: Gaps,
    forecast: Forecast,
    /// Length of a bin; `None` where servers need no time to start.
    bin: Option<u64>,
    bin_ends: u64,
    count: u64,
    /// z of square-root staffing.
    headroom: f64,
    allowed: f64,
    /// Since z moved last.
    arrived: u64,
    overflowed: u64,
    /// Overflows above what was allowed, not yet made up for.
    excess: f64,
    /// Overflows that are still no surge, and how many such may be in store.
    lenience: f64,
    most_lenience: f64,
    /// May requests go without a place at all, rather than wait in a line?
    refuses: bool,
    /// Is an overflow no reason to switch a server on?
    lenient: bool,
    /// Bins that a server must be off for to pay for a cycle.
    break_even: f64,
    /// Work of one request in servers x seconds is 1 / rate; rates by place in order of preference,
    /// as pairs of a rate and how many servers have it.
    rates: Vec<(f64, u32)>,
    /// Servers wanted by forecast.
    pub(super) target: u32,
    /// When the last server that is on goes off, unless it is needed before.
    pub(super) off_due: u64,
}

impl Predictive {
    pub(super) fn new(settings: &FleetSettings, at: u64) -> Self {
        let preferred = settings.preferred();
        let start = settings.kinds.iter().map(|kind| kind.switch_on).max().unwrap_or_default();
        let start = u64::try_from(start.as_nanos()).unwrap_or(NEVER);
        let bin = (start > 0).then(|| start.max(SHORTEST_BIN));
        let cycle = settings.transition_price * 2.0;
        let levels = (0..settings.servers()).map(|place| {
            let kind = settings.kind_at(&preferred, place);
            let saved = kind.idle.get() - kind.off.get();
            let cost = (kind.switch + cycle).get();
            let break_even = if saved > 0.0 { 1e9 * cost / saved } else { f64::INFINITY };
            (break_even, kind.switch_on.as_nanos() as f64)
        });
        let levels: Vec<(f64, f64)> = levels.collect();
        let break_even = levels.iter().map(|it| it.0).fold(0.0, f64::max);
        Self {
            break_even: bin.map_or(1.0, |bin| (break_even / bin as f64).clamp(1.0, MOST_BINS)),
            gaps: Gaps::new(levels.into_iter()),
            forecast: Forecast::default(),
            bin,
            bin_ends: bin.map_or(NEVER, |bin| at.saturating_add(bin)),
            count: 0,
            headroom: HEADROOM.0,
            allowed: settings.overflow_share.max(1e-9),
            arrived: 0,
            overflowed: 0,
            excess: 0.0,
            lenience: 0.0,
            most_lenience: 0.0,
            refuses: settings.line == 0,
            lenient: false,
            rates: preferred
                .iter()
                .map(|&kind| (settings.kinds[kind].service.get(), settings.kinds[kind].servers))
                .collect(),
            target: 1,
            off_due: NEVER,
        }
    }

    /// A request; returns whether a bin is over, so that the target may have changed.
    #[inline]
    pub(super) fn arrived(&mut self, at: u64, busy: u32) -> bool {
        let over = at >= self.bin_ends;
        if over {
            self.close(at, busy);
        }
        self.count += 1;
        self.arrived += 1;
        over
    }

    /// A request found no place, with this many servers on. Is one to be switched on for it?
    pub(super) fn overflowed(&mut self, at: u64, busy: u32, on: u32) -> bool {
        self.overflowed += 1;
        self.lenience -= 1.0;
        if self.lenient && self.lenience >= 0.0 && on >= self.target {
            return false;
        }
        self.needs(at, busy, self.target, false);
        self.gaps.ends(on + 1, at);
        self.gaps.begins(on + 1, at);
        true
    }

    /// How many servers are needed with this many busy.
    #[inline]
    fn needed(&self, busy: u32) -> u32 {
        if self.lenient { self.target } else { self.target.max(busy) }
    }

    /// From now on this many are wanted.
    fn needs(&mut self, at: u64, busy: u32, target: u32, lenient: bool) {
        let before = self.needed(busy);
        (self.target, self.lenient) = (target, lenient);
        let after = self.needed(busy);
        for level in before + 1..=after {
            self.gaps.ends(level, at);
        }
        for level in after + 1..=before {
            self.gaps.begins(level, at);
        }
    }

    /// This many servers are busy, one more than before; this many are on.
    #[inline]
    pub(super) fn rose(&mut self, at: u64, busy: u32, on: u32) {
        if busy > self.target && !self.lenient {
            self.gaps.ends(busy, at);
        }
        if busy >= on {
            self.off_due = NEVER;
        }
    }

    /// So many servers were busy, and one is no more.
    #[inline]
    pub(super) fn fell(&mut self, at: u64, busy_before: u32, on: u32) {
        if busy_before > self.target && !self.lenient {
            self.gaps.begins(busy_before, at);
        }
        if busy_before == on {
            self.review(busy_before - 1, on);
        }
    }

    /// A server became ready: as long as it is not needed, that begins now.
    pub(super) fn came_on(&mut self, at: u64, busy: u32, on: u32) {
        if self.needed(busy) < on {
            self.gaps.begins(on, at);
        }
        self.review(busy, on);
    }

    /// When the last server goes off, as things stand.
    pub(super) fn review(&mut self, busy: u32, on: u32) {
        let needed = on <= busy.max(self.target).max(1);
        self.off_due = if needed { NEVER } else { self.gaps.due(on, self.tolerance()) };
    }

    /// When something is to be done although nothing happens.
    #[inline]
    pub(super) fn due(&self, waiting: u32) -> u64 {
        // While more than one server is wanted, or requests wait in line, the end of the bin counts, too.
        let bin = if self.target > 1 || waiting > 0 { self.bin_ends } else { NEVER };
        self.off_due.min(bin)
    }

    /// The time has come, perhaps, to close a bin; returns whether it has.
    pub(super) fn tick(&mut self, at: u64, busy: u32) -> bool {
        let over = at >= self.bin_ends;
        if over {
            self.close(at, busy);
        }
        over
    }

    /// Does `since` lie a bin back?
    pub(super) fn is_a_bin_ago(&self, at: u64, since: u64) -> bool {
        self.bin.is_some_and(|bin| at.saturating_sub(since) >= bin)
    }

    #[cold]
    fn close(&mut self, at: u64, busy: u32) {
        let Some(bin) = self.bin else { return };
        let bins = (at - self.bin_ends) / bin + 1;
        if bins > FORGOTTEN {
            self.forecast = Forecast::default();
        } else {
            self.forecast.add(self.count as f64);
            (1..bins).for_each(|_| self.forecast.add(0.0));
        }
        self.count = 0;
        self.bin_ends += bins * bin;
        self.learn_headroom();
        let expected = self.forecast.ahead();
        let wanted = expected.map_or(1, |it| self.wanted(it, bin as f64 / 1e9));
        // A surge that is over within a break-even time is not worth a start.
        let surge = expected.map_or(0.0, |it| SURGE * self.allowed * it.mean);
        self.most_lenience = surge * self.break_even;
        self.lenience = (self.lenience.max(0.0) + surge).min(self.most_lenience);
        // z sees to the share only as long as it can: where requests take longer than servers are said
        // to need for them, no z is enough.
        let sees_to_it = self.excess <= self.most_lenience;
        self.needs(at, busy, wanted, self.refuses && sees_to_it && self.lenience >= 1.0);
    }

    /// Moves z by the share of requests that found no place, whenever there were enough to tell.
    ///
    /// By less where a break-even time has many bins, lest chance switch servers in each: that many steps
    /// in any direction lead as far as one (a random walk).
    fn learn_headroom(&mut self) {
        let allowed = self.arrived as f64 * self.allowed;
        if allowed >= 1.0 {
            let overflowed = self.overflowed as f64;
            // A surge that no server could have answered is not to be made up for in days.
            let most = MOST_EXCESS * self.most_lenience.max(1.0);
            self.excess = (self.excess + overflowed - allowed).clamp(0.0, most);
            let aim = if self.excess > 0.0 { 0.5 * allowed } else { allowed };
            let step = STEP / self.break_even.sqrt() * (overflowed / aim - 1.0);
            let (_, least, most) = HEADROOM;
            self.headroom = (self.headroom + step.min(STEP * SURGE)).clamp(least, most);
            (self.arrived, self.overflowed) = (0, 0);
        }
    }

    /// How little it matters that requests find no server while one starts, 0 to 1: more, the further z is
    /// below 0 because fewer find no place than the operator allows.
    fn tolerance(&self) -> f64 {
        (self.headroom / HEADROOM.1).clamp(0.0, 1.0)
    }

    /// Servers for the forecast rate.
    fn wanted(&self, expected: Expected, bin_s: f64) -> u32 {
        let (rate, error) = (expected.mean / bin_s, expected.error / bin_s);
        let (mut servers, mut load) = (0, rate);
        for &(service, count) in &self.rates {
            let filled = load / service;
            let deviation = (filled + (error / service).powi(2)).sqrt();
            let wanted = (filled + self.headroom * deviation).ceil().max(0.0);
            if wanted <= f64::from(count) {
                return (servers + wanted as u32).max(1);
            }
            servers += count;
            load -= f64::from(count) * service;
            if load <= 0.0 {
                // What is left is headroom: one of the next kind.
                load = 0.0;
            }
        }
        servers
    }

    pub(super) fn lessons(&self) -> FleetLessons {
        let (gaps, all_gaps) = self.gaps.lessons();
        FleetLessons {
            gaps,
            all_gaps,
            forecast: self.forecast,
            bin_ns: self.bin.unwrap_or(0),
            headroom: self.headroom,
        }
    }

    /// Resumes with what was learned before the pool was stopped for this long.
    pub(super) fn resume(&mut self, lessons: &FleetLessons, stopped: Duration) {
        self.gaps.resume(&lessons.gaps, lessons.all_gaps);
        self.headroom = lessons.headroom.clamp(HEADROOM.1, HEADROOM.2);
        if let Some(bin) = self.bin.filter(|bin| *bin == lessons.bin_ns) {
            self.forecast = lessons.forecast;
            let unseen = stopped.as_nanos() / u128::from(bin);
            self.forecast.age(u32::try_from(unseen).unwrap_or(u32::MAX));
        }
    }
}

const _: () =
    assert!(LEAD == 2, "a bin is as long as a start, so the bin after the next is served");
