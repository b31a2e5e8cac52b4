//! The default policy: weighs what a sleep would save against whom it would delay, by what the past
//! has taught about both.

mod arrivals;
mod bands;
mod pauses;
mod regulars;
mod visits;
mod watched;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::arrivals::Arrivals;
use self::regulars::{Expected, Regulars};
use self::visits::{OpenVisits, Pauses, Returns};
use super::{Idle, Observation, SlaBudget, SleepPolicy, Terms, Unit, Verdict};
use nightwatt_energy::time::{Mono, Now, Wall};

/// The policy asks itself again when the rates have changed: after no less and no more than these
/// seconds, nor than these shares of the idle time.
const ASK_S: (f64, f64) = (1.0, 1_800.0);
const ASK_SHARES: [f64; 2] = [0.1, 0.25];

/// The price of a delayed request when nothing of the SLA is used yet, as a share of its price
/// when all is.
const FIRST_PRICE: f64 = 0.5;

/// The price of a delayed request when the SLA is used up, as a share of what it would be worth
/// if every sleep lasted as long as the SLA allows them to on average.
const LAST_PRICE: f64 = 0.5;

/// Delays that are taken to be allowed beside those that the requests seen allow: before any was
/// seen, an SLA would seem to be worth more than every sleep.
const FIRST_DELAYS: f64 = 20.0;

/// What guarding a visit in progress is worth, as a share of the price of its delay: a visitor that is not
/// delayed now has to be guarded through the next pause too, or is delayed then.
const GUARDED: f64 = 0.6;

/// A stop is taken to be no longer than this, ten years: nothing that was learned is left by then, and
/// a wrong clock can do no harm.
const LONGEST_STOP: Duration = Duration::from_hours(10 * 365 * 24);

/// Sleeps as soon as staying awake costs more than the delays it would spare.
///
/// While the server idles, the next moment awake costs `on - off`. It spares what a request in that moment
/// would cost a sleeping server: a wake-up, and the price of a delay. So the server sleeps at the first
/// moment at which
///
/// ```text
/// on - off  >=  (rate of requests) x (wake-up + price per delayed request)
///             + (rate of new visits + 0.6 x rate of undelayed ones) x price per delayed visit
/// ```
///
/// where a visit in progress counts no less than 0.
///
/// A wake-up costs `switch` less what the server does not draw while it wakes, `(on - off) x
/// wake_time`. For rates that fall while the server idles this is the optimal stopping time: before
/// it each further moment awake is worth its price, after it none is. (One switch is paid whenever it
/// sleeps, so that the cost of the sleep itself does not depend on the moment.)
///
/// Rates are the sum of two: visits in progress, each by its age, and new ones, by the time of day, whether it
/// is a weekend, and the recent past. A visitor that has been delayed already is no further delayed visit, so the
/// server need not stay awake for it.
///
/// The price of a delayed visit is the operator's. Where they gave an SLA instead, the
/// price of a delayed request, or visit, whichever the SLA counts, follows from how much of it is
/// used: cheap while it is unused, dear when little is left, exponentially in between, which is the rule
/// of the online knapsack problem (Chakrabarty, Zhou and Lukose 2008). Its scale is what a delay would
/// have to save if the sleeps that the SLA allows shared the whole window.
#[derive(Debug)]
pub struct Learned {
    terms: Terms,
    arrivals: Arrivals,
    visits: OpenVisits,
    regulars: Regulars,
    /// Asleep, the server is to be woken then.
    wake_at: Option<Mono>,
    /// Since when it watches, in this process; nothing before the first request.
    watching: Option<Mono>,
    /// How long it watched before.
    watched: Duration,
}

/// What the policy has learned, for storing. About 10 KB of JSON.
///
/// It is about requests alone: it stays true when the server, its price or the SLA changes.
/// Whatever is deserialised can have been learned: figures that cannot be are an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Lessons {
    /// As of then (ms since 1970, UTC). What is learned fades with the time since.
    at: Wall,
    /// How long requests were watched.
    watched: Duration,
    arrivals: Arrivals,
    pauses: Pauses,
}

/// What delays cost, J.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Prices {
    /// For each request that is delayed.
    request: f64,
    /// For each visit in which a request is.
    visit: f64,
}

/// [`Lessons`] as they are read.
#[derive(Deserialize)]
struct Unchecked {
    at: Wall,
    watched: Duration,
    arrivals: Arrivals,
    pauses: Pauses,
}

impl TryFrom<Unchecked> for Lessons {
    type Error = &'static str;

    fn try_from(read: Unchecked) -> Result<Self, Self::Error> {
        let Unchecked { at, watched, arrivals, pauses } = read;
        arrivals.check()?;
        pauses.check()?;
        Ok(Self { at, watched, arrivals, pauses })
    }
}

impl Lessons {
    /// When they were drawn.
    pub const fn at(&self) -> Wall {
        self.at
    }

    /// How long requests had been watched by then, without the stops between.
    pub const fn watched(&self) -> Duration {
        self.watched
    }

    /// How much later it is now: nothing if the clock was set back since, or was not set then.
    pub fn age(&self, now: Wall) -> Duration {
        if now.is_set() && !self.at.is_set() {
            return Duration::ZERO;
        }
        let age = u64::try_from(now.0.saturating_sub(self.at.0)).unwrap_or(0);
        Duration::from_millis(age)
    }
}

impl Learned {
    /// A policy that has seen nothing yet.
    pub fn new(terms: Terms) -> Self {
        Self {
            terms,
            arrivals: Arrivals::default(),
            visits: OpenVisits::default(),
            regulars: Regulars::default(),
            wake_at: None,
            watching: None,
            watched: Duration::ZERO,
        }
    }

    /// Resumes with what was learned before, as if no request had come since: it fades by the civil time that
    /// has passed. Which visits were in progress, and which visitors came like clockwork, is no longer known.
    pub fn resume(terms: Terms, lessons: Lessons, now: Now) -> Self {
        let stop = lessons.age(now.wall).min(LONGEST_STOP);
        Self {
            arrivals: lessons.arrivals.resumed(now.mono, stop),
            visits: OpenVisits::resume(&lessons.pauses, now.mono, stop),
            watching: Some(now.mono),
            watched: lessons.watched,
            ..Self::new(terms)
        }
    }

    /// What staying awake for the next second would spare, W, or more than `enough` of it; and for how many
    /// seconds that stays so if no request comes.
    fn spared(&mut self, now: Now, sla: Option<SlaBudget>, enough: f64) -> (f64, f64) {
        self.arrivals.pass(now);
        let new = self.arrivals.rate(now);
        let Prices { request, visit } = self.prices(sla);
        let states = &self.terms.states;
        let wake_up = (states.switch - (states.on - states.off) * states.wake_time).get();
        let request = wake_up + request;
        // A server that wakes slowly draws less than one that is awake, so a wake-up may be worth more than it costs.
        // Visits count as nothing there: the sum only grows with each, and its beginning may decide.
        let [delayed, undelayed] = [request, request + GUARDED * visit].map(|each| each.max(0.0));
        let spared = |returns: &Returns| {
            new * (request + visit)
                + (returns.any - returns.undelayed) * delayed
                + returns.undelayed * undelayed
        };
        let returns = self.visits.returns(now.mono, |returns| spared(returns) > enough);
        (spared(&returns), returns.lasts_s)
    }

    /// Sleeps, and wakes ahead of an expected visitor; unless that is so soon that sleep would not pay.
    fn sleep_until_a_regular_comes(&mut self, now: Mono, idle: &Idle) -> Verdict {
        let states = &self.terms.states;
        self.wake_at = None;
        if let Some(next) = self.next_regular(now, idle.sla) {
            let wake_at = next.from - idle.wake_time;
            if wake_at.since(now) < states.break_even().max(states.sleep_time) {
                return Verdict::AskAgainAt(next.until);
            }
            self.wake_at = Some(wake_at);
        }
        Verdict::Sleep
    }

    /// The first of the visitors that come like clockwork for which it pays to be awake.
    fn next_regular(&self, now: Mono, sla: Option<SlaBudget>) -> Option<Expected> {
        // Not dearer than the first delays: that one was spared may turn out to buy no further sleep.
        let unused = sla.map(|sla| SlaBudget { used: 0.0, ..sla });
        let prices = self.prices(unused);
        self.regulars
            .expected(now)
            .filter(|expected| self.is_worth_waking(expected, &prices))
            .min_by_key(|expected| (expected.from, expected.who))
    }

    /// A visitor that comes wakes the server anyhow. To be awake ahead of it costs the time until it comes
    /// and, should it not come, a wake-up for nothing.
    fn is_worth_waking(&self, expected: &Expected, prices: &Prices) -> bool {
        let Terms { states, min_on, .. } = &self.terms;
        let awake = states.on - states.off;
        let spared = prices.request
            + if self.visits.can_be_delayed(expected.who, expected.from) {
                prices.visit
            } else {
                0.0
            };
        let waited = (awake * expected.until.since(expected.from)).get();
        let in_vain = waited + (states.switch + awake * *min_on).get();
        let Expected { chance, .. } = *expected;
        chance * spared > chance * 0.5 * waited + (1.0 - chance) * in_vain
    }

    /// What delays cost: the operator's price, and what the SLA adds to it while so much of it is used.
    fn prices(&self, sla: Option<SlaBudget>) -> Prices {
        let own = Prices { request: 0.0, visit: self.terms.delay_price.get() };
        let Some(sla) = sla else { return own };
        let states = &self.terms.states;
        let first = match sla.unit {
            Unit::Request => FIRST_DELAYS,
            // The number is given, not learned.
            Unit::Visit => 0.0,
        };
        let share = sla.window.as_secs_f64() / (sla.delays + first).max(1.0);
        let last = LAST_PRICE * (states.on - states.off).get() * share;
        let more = last * FIRST_PRICE.powf(1.0 - sla.used.clamp(0.0, 1.0));
        match sla.unit {
            Unit::Request => Prices { request: more, ..own },
            Unit::Visit => Prices { visit: own.visit + more, ..own },
        }
    }
}

impl SleepPolicy for Learned {
    fn observe(&mut self, now: Now, seen: &Observation) {
        self.watching.get_or_insert(now.mono);
        let begins = self.visits.request(now.mono, seen);
        if seen.needs_server {
            self.regulars.request(now.mono, seen.visitor);
        }
        if begins && seen.needs_server {
            self.arrivals.pass(now);
            self.arrivals.arrived(now);
        }
    }

    fn verdict(&mut self, now: Now, idle: &Idle) -> Verdict {
        let states = self.terms.states;
        let awake = (states.on - states.off).get();
        let (spared, lasts_s) = self.spared(now, idle.sla, awake);
        if awake > 0.0 && awake >= spared {
            return self.sleep_until_a_regular_comes(now.mono, idle);
        }
        let idle_s = now.mono.since(idle.since).as_secs_f64();
        let [soonest, latest] = ASK_SHARES.map(|share| (idle_s * share).clamp(ASK_S.0, ASK_S.1));
        Verdict::AskAgainAt(now.mono + Duration::from_secs_f64(lasts_s.clamp(soonest, latest)))
    }

    fn wake_at(&self) -> Option<Mono> {
        self.wake_at
    }

    fn lessons(&self, now: Now) -> Option<Lessons> {
        let watching = self.watching?;
        Some(Lessons {
            at: now.wall,
            watched: self.watched.saturating_add(now.mono.since(watching)),
            arrivals: self.arrivals.stored(now.mono),
            pauses: self.visits.pauses(now.mono),
        })
    }
}

#[cfg(test)]
mod tests;
