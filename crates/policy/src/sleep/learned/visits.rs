//! Which visitors are here, and when they will ask again: visits in progress, and how readers behave.

use std::collections::HashMap;
use std::time::Duration;

use foldhash::fast::FixedState;
use serde::{Deserialize, Serialize};

use super::bands::edges;
use crate::admission::ClientClass;
use crate::sleep::Observation;
use crate::visit::{VISIT_GAP, Visitor};
use nightwatt_energy::time::Mono;

/// Ages are distinguished by half octaves: below 1 s, then to 1.4 s, 2 s, 2.8 s, ... 30 minutes.
const BANDS: usize = 23;

/// Seconds at which bands begin and the last one ends.
const EDGES: [f64; BANDS + 1] = edges(VISIT_GAP.as_secs() as f64);

/// Kinds of visits: of people or of programs, at their first request or further on.
const KINDS: usize = 4;

/// Before anything was seen: as if two visits had passed each age, and had asked again with a
/// hazard of 0.1 / age. (Pauses of readers are heavy-tailed: their hazard falls with age.)
const PRIOR_VISITS: f64 = 2.0;
const PRIOR_HAZARD: f64 = 0.1;

/// Visits in progress that are remembered, in some 60 bytes each. Beyond that the half that has
/// been quiet longest is forgotten: it counts as gone, and as new if it comes back.
const MOST_OPEN: usize = 4_096;

/// What is known of pauses fades by this each day: half in three weeks.
const KEPT_PER_DAY: f64 = 0.967;
const DAY: u64 = 86_400;

/// What is read from outside may be no larger: requests, and seconds in which one could have come.
/// (One visit more makes no difference to it, so nothing ever is.)
const MOST: f64 = 1e19;

/// How often visits of a kind asked again at an age, and for how long they could have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Band {
    returns: f64,
    time: f64,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    last: Mono,
    kind: usize,
    /// The visitor has waited already: a further wait makes no further delayed visit.
    delayed: bool,
}

/// Rates at which visits in progress will ask the server again, per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Returns {
    /// Of all visits.
    pub(super) any: f64,
    /// Of those that have not been delayed yet.
    pub(super) undelayed: f64,
    /// For how many seconds these stay as they are if no request comes.
    pub(super) lasts_s: f64,
}

/// The visits in progress, and the hazard of their next request by age.
#[derive(Debug)]
pub(super) struct OpenVisits {
    open: HashMap<Visitor, Open, FixedState>,
    bands: [[Band; BANDS]; KINDS],
    sweep_at: usize,
    /// When the bands have faded last.
    faded: Mono,
    /// Time up to then, less than a day, that they have not faded for yet.
    unfaded: Duration,
}

/// What survives a restart: how readers behave, not which of them are here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Pauses {
    bands: [[Band; BANDS]; KINDS],
    /// Visits of each kind that the bands do not count yet as gone.
    open: [u32; KINDS],
    /// Time that the bands have not faded for yet.
    unfaded: Duration,
}

impl Pauses {
    /// Says what cannot be true of what was read from outside.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let prior = OpenVisits::default().bands;
        // Nothing ever falls below what was believed at first; a last digit may be lost in writing.
        let from = |least: f64| 0.999 * least..=MOST;
        let mut bands = self.bands.iter().flatten().zip(prior.iter().flatten());
        if !bands.all(|(band, prior)| {
            from(prior.returns).contains(&band.returns) && from(prior.time).contains(&band.time)
        }) {
            return Err("how often visits went on, or how long they were watched, cannot be");
        }
        if self.open.iter().any(|&open| open as usize > MOST_OPEN) {
            return Err("there are more visits than are ever remembered");
        }
        Ok(())
    }
}

impl Default for OpenVisits {
    fn default() -> Self {
        let band = |index| {
            let (lower, upper) = (EDGES[index], EDGES[index + 1]);
            let time = PRIOR_VISITS * (upper - lower);
            let age = f64::midpoint(lower, upper) + 0.5;
            Band { returns: time * PRIOR_HAZARD / age, time }
        };
        Self {
            open: HashMap::default(),
            bands: [std::array::from_fn(band); KINDS],
            sweep_at: 0,
            faded: Mono::ZERO,
            unfaded: Duration::ZERO,
        }
    }
}

impl OpenVisits {
    /// Resumes with what was known, after a stop of that length. After a long stop all visitors have left;
    /// after a short one it is unknown, and they count neither as gone nor as come back.
    pub(super) fn resume(pauses: &Pauses, now: Mono, stop: Duration) -> Self {
        let unfaded = pauses.unfaded.saturating_add(stop);
        let mut visits = Self { bands: pauses.bands, faded: now, unfaded, ..Self::default() };
        if stop >= VISIT_GAP {
            for (bands, open) in visits.bands.iter_mut().zip(pauses.open) {
                (0..open).for_each(|_| watch(bands, VISIT_GAP));
            }
        }
        visits
    }

    pub(super) fn pauses(&self, now: Mono) -> Pauses {
        let mut open = [0; KINDS];
        self.open.values().for_each(|visit| open[visit.kind] += 1);
        let unfaded = self.unfaded.saturating_add(now.since(self.faded));
        Pauses { bands: self.bands, open, unfaded }
    }

    /// A request of a visitor; returns whether a visit begins with it.
    pub(super) fn request(&mut self, now: Mono, seen: &Observation) -> bool {
        self.fade(now);
        self.sweep(now);
        let first = usize::from(seen.class != ClientClass::Human) * 2;
        let Some(open) = self.open.get_mut(&seen.visitor) else {
            let open = Open { last: now, kind: first, delayed: seen.delayed };
            self.open.insert(seen.visitor, open);
            return true;
        };
        let age = now.since(open.last);
        let over = age >= VISIT_GAP;
        watch(&mut self.bands[open.kind], age);
        if over {
            *open = Open { last: now, kind: first, delayed: seen.delayed };
        } else {
            if seen.needs_server {
                self.bands[open.kind][band_of(age)].returns += 1.0;
            }
            *open = Open { last: now, kind: first + 1, delayed: open.delayed || seen.delayed };
        }
        over
    }

    /// How soon visits in progress will ask again. Adds them up until it is `enough`: thousands may be
    /// in progress, and a few of those keep a server awake.
    pub(super) fn returns(&self, now: Mono, enough: impl Fn(&Returns) -> bool) -> Returns {
        let mut returns = Returns { any: 0.0, undelayed: 0.0, lasts_s: f64::INFINITY };
        // Most of the table may be visits that are over.
        let over = now.0.checked_sub(VISIT_GAP).map(Mono);
        for open in self.open.values() {
            if over.is_some_and(|over| open.last <= over) {
                continue;
            }
            let age = now.since(open.last).as_secs_f64();
            let index = super::bands::band_of(&EDGES, age);
            let band = self.bands[open.kind][index];
            let hazard = band.returns / band.time;
            returns.lasts_s = returns.lasts_s.min(EDGES[index + 1] - age);
            returns.any += hazard;
            if !open.delayed {
                returns.undelayed += hazard;
            }
            if enough(&returns) {
                break;
            }
        }
        returns
    }

    /// Would a delay at `then` make one more delayed visit: is that visitor's last visit over by then, or not
    /// delayed yet?
    pub(super) fn can_be_delayed(&self, who: Visitor, then: Mono) -> bool {
        self.open.get(&who).is_none_or(|open| then.since(open.last) >= VISIT_GAP || !open.delayed)
    }

    fn fade(&mut self, now: Mono) {
        let unfaded = self.unfaded.saturating_add(now.since(self.faded));
        let days = unfaded.as_secs() / DAY;
        if days == 0 {
            return;
        }
        let keep = KEPT_PER_DAY.powi(i32::try_from(days).unwrap_or(i32::MAX));
        self.faded = now;
        self.unfaded = unfaded.saturating_sub(Duration::from_secs(days * DAY));
        let prior = Self::default().bands;
        for (band, prior) in self.bands.iter_mut().flatten().zip(prior.iter().flatten()) {
            // What was seen fades, and the prior takes its place.
            band.returns = prior.returns + (band.returns - prior.returns) * keep;
            band.time = prior.time + (band.time - prior.time) * keep;
        }
    }

    /// Takes leave of visits that are over, whenever the table has doubled.
    fn sweep(&mut self, now: Mono) {
        if self.open.len() >= self.sweep_at.max(16) {
            self.take_leave(now);
        }
    }

    pub(super) fn take_leave(&mut self, now: Mono) {
        let bands = &mut self.bands;
        self.open.retain(|_, open| {
            let age = now.since(open.last);
            if age >= VISIT_GAP {
                watch(&mut bands[open.kind], age);
            }
            age < VISIT_GAP
        });
        if self.open.len() >= MOST_OPEN {
            let mut lasts: Vec<Mono> = self.open.values().map(|open| open.last).collect();
            let (_, &mut middle, _) = lasts.select_nth_unstable(MOST_OPEN / 2);
            self.open.retain(|_, open| open.last > middle);
        }
        self.sweep_at = (self.open.len() * 2).min(MOST_OPEN);
    }
}

/// A visit was watched up to an age.
fn watch(bands: &mut [Band; BANDS], age: Duration) {
    let age = age.as_secs_f64();
    for (index, band) in bands.iter_mut().enumerate() {
        if age <= EDGES[index] {
            break;
        }
        band.time += age.min(EDGES[index + 1]) - EDGES[index];
    }
}

fn band_of(age: Duration) -> usize {
    super::bands::band_of(&EDGES, age.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(visitor: u64) -> Observation {
        let (class, needs_server) = (ClientClass::Human, true);
        Observation { visitor: Visitor(visitor), class, needs_server, delayed: false }
    }

    fn all(visits: &OpenVisits, now: Mono) -> Returns {
        visits.returns(now, |_| false)
    }

    #[test]
    fn readers_who_ask_again_after_ten_seconds_are_expected_then_and_not_later() {
        let mut visits = OpenVisits::default();
        for reader in 0..200 {
            let start = Mono::from_secs(reader * 10_000);
            assert!(visits.request(start, &request(reader)));
            assert!(!visits.request(start + Duration::from_secs(10), &request(reader)));
        }
        let start = Mono::from_secs(200 * 10_000);
        visits.request(start, &request(999));
        let after = |seconds| all(&visits, start + Duration::from_secs(seconds)).undelayed;
        assert!(after(10) > 0.1, "{}", after(10));
        assert!(after(10) > 50.0 * after(100), "{} and {}", after(10), after(100));
        assert!(after(1800).abs() < 1e-12, "the visit is over");
    }

    #[test]
    fn whoever_waited_once_is_no_further_delayed_visit() {
        let mut visits = OpenVisits::default();
        let waited = Observation { delayed: true, ..request(1) };
        visits.request(Mono::ZERO, &waited);
        let returns = all(&visits, Mono::from_secs(5));
        assert!(returns.any > 0.0 && returns.undelayed.abs() < 1e-12, "{returns:?}");
    }

    #[test]
    fn more_visitors_than_fit_are_forgotten_and_time_never_turns_a_hazard_negative() {
        let mut visits = OpenVisits::default();
        for n in 0..50_000_u64 {
            visits.request(Mono::from_secs(n / 100), &request(n));
            assert!(visits.open.len() <= MOST_OPEN);
        }
        visits.request(Mono::from_secs(100 * 86_400), &request(7));
        assert!(visits.bands.iter().flatten().all(|band| band.returns >= 0.0 && band.time > 0.0));
    }
}
