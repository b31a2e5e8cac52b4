//! What a bill came to by minute of the last day and by day of local time, of a year and more.
//!
//! It is told the bill whenever that was looked at, and nothing in between: what came to the bill since
//! the last look lies evenly in the time that was billed since then, which ended with the look. (Looks
//! come with every change of the server's state, so within one the power is what the state draws.)
//! Days are kept as the bill at their beginning: what is on the bill is on exactly one day, however
//! often the proxy was started again, and a corrected figure for the server corrects all days.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::electricity::{Electricity, HOURS_OF_WEEK};
use crate::ledger::{Bill, Metered, ProxyShare};
use nightwatt_energy::power_states::PowerStates;
use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_energy::time::{Now, Wall};

/// Minutes that are kept: a day.
pub const MINUTES: i64 = 1440;

/// Days that are kept: a year, and a month more to compare with.
pub const DAYS: usize = 400;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 3_600_000;

/// What turns a bill into joules and money.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    /// What the server draws.
    pub states: PowerStates,
    /// What it draws beyond that while it has requests, as far as the bill tells.
    pub busy: Watts,
    /// What the proxy draws.
    pub proxy: Watts,
    /// Is the whole proxy on bills that say nothing of it?
    pub unsaid_proxy: bool,
    /// What a kilowatt-hour costs and emits.
    pub electricity: Electricity,
}

/// Energies of a bill, or of a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Used {
    /// Of the server.
    pub server: Joules,
    /// Of the proxy.
    pub proxy: Joules,
    /// Of a server always on, without a proxy.
    pub always_on: Joules,
}

impl Used {
    /// What was saved.
    pub fn saved(&self) -> Joules {
        self.always_on - self.server - self.proxy
    }

    fn less(&self, other: &Self) -> Self {
        Self {
            server: self.server - other.server,
            proxy: self.proxy - other.proxy,
            always_on: self.always_on - other.always_on,
        }
    }
}

impl Rates {
    /// All that is on a bill.
    pub fn used(&self, bill: &Bill) -> Used {
        Used {
            server: bill.server(&self.states) + self.busy * bill.uncovered_busy(),
            proxy: if self.unsaid_proxy { *bill } else { bill.without_unsaid_proxy() }
                .proxy(self.proxy),
            always_on: bill.always_on(&self.states) + self.busy * bill.busy,
        }
    }

    fn price(&self, hour_of_week: usize) -> f64 {
        self.electricity.price_per_kwh.at(hour_of_week)
    }

    /// What energy of unknown hours costs.
    fn mean_price(&self) -> f64 {
        (0..HOURS_OF_WEEK).map(|hour| self.price(hour)).sum::<f64>() / HOURS_OF_WEEK as f64
    }
}

/// Money saved since the bill began, at the prices of the time: what the server did not use, and what
/// the proxy used.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Money {
    /// What a server always on would have cost, less what this one did.
    pub server: f64,
    /// What the proxy cost.
    pub proxy: f64,
}

impl Money {
    /// What remains.
    pub fn saved(&self) -> f64 {
        self.server - self.proxy
    }

    fn add(&mut self, used: &Used, share: f64, price: f64) {
        self.server += (used.always_on - used.server).kwh() * share * price;
        self.proxy += used.proxy.kwh() * share * price;
    }

    fn less(&self, other: &Self) -> Self {
        Self { server: self.server - other.server, proxy: self.proxy - other.proxy }
    }
}

/// The beginning of a day.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// Days since 1970-01-01 in local time.
    pub day: i64,
    /// All that was on the bill.
    pub bill: Bill,
    /// All that was saved.
    pub money: Money,
}

/// A day, or what was seen of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Day {
    /// Days since 1970-01-01 in local time.
    pub day: i64,
    /// What came to the bill.
    pub bill: Bill,
    /// Its energy.
    pub used: Used,
    /// What was saved.
    pub money: Money,
}

/// A minute of civil time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Minute {
    /// Minutes since 1970, UTC.
    pub minute: i64,
    /// Time of it that is on the bill, s.
    pub seconds: f64,
    /// Time of it that a meter of the server covered, s.
    pub measured_s: f64,
    /// Energy of the server.
    pub server: Joules,
    /// Energy of the proxy.
    pub proxy: Joules,
}

/// A bill as it grew.
#[derive(Debug, Clone)]
pub struct History {
    rates: Rates,
    last: Option<(Bill, Money)>,
    /// The time of the last look.
    looked: Option<Now>,
    /// Oldest first.
    marks: VecDeque<Mark>,
    ring: Vec<Minute>,
}

impl History {
    /// Goes on after these days, oldest first.
    pub fn new(rates: Rates, marks: impl IntoIterator<Item = Mark>) -> Self {
        let mut marks: VecDeque<Mark> = marks.into_iter().collect();
        // A day that was begun under a wrong date is there twice: nothing is on the first.
        let ends: Vec<Option<Duration>> =
            (1..=marks.len()).map(|next| Some(marks.get(next)?.bill.span())).collect();
        let mut ends = ends.into_iter();
        marks.retain(|mark| ends.next().flatten() != Some(mark.bill.span()));
        marks.drain(..marks.len().saturating_sub(DAYS));
        let last = marks.back().map(|mark| (mark.bill, mark.money));
        Self { rates, last, looked: None, marks, ring: vec![Minute::default(); MINUTES as usize] }
    }

    /// The bill was this. Returns the days that have begun since the last look.
    ///
    /// Where the civil clock was set back, what is billed belongs to the last day until that is over. On a board
    /// that starts in 1970, the day that it showed begins under its right date once it is known.
    pub fn note(&mut self, at: Now, bill: &Bill) -> Vec<Mark> {
        let looked = self.looked.replace(at);
        let Some((before, money)) = self.last else {
            let used = self.rates.used(bill);
            let mut money = Money::default();
            money.add(&used, 1.0, self.rates.mean_price());
            self.last = Some((*bill, money));
            let mark = Mark { day: at.local_day(), bill: *bill, money };
            self.marks.push_back(mark);
            return vec![mark];
        };
        let billed = bill.span().saturating_sub(before.span());
        let begins = Now { wall: Wall(at.wall.0 - millis(billed)), ..at };
        let redated = self.redated(looked, begins);
        let mut look = BillInterval {
            at,
            from: begins.wall.0,
            before,
            bill: *bill,
            money,
            marks: Vec::from_iter(redated),
        };
        let used = self.rates.used(bill).less(&self.rates.used(&before));
        let last = look.marks.last().or(self.marks.back());
        let last_day = last.map_or(i64::MIN, |mark| mark.day);
        look.walk_hours(&self.rates, &used, last_day);
        self.fill_minutes(&look, &used);
        self.last = Some((*bill, look.money));
        self.marks.extend(&look.marks);
        let excess = self.marks.len().saturating_sub(DAYS);
        self.marks.drain(..excess);
        look.marks
    }

    /// The day in progress under the date of now, if the clock was set since the last look.
    fn redated(&mut self, looked: Option<Now>, now: Now) -> Option<Mark> {
        let looked = looked.filter(|it| now.wall.is_set() && !it.wall.is_set())?;
        let mark = self.marks.pop_back_if(|mark| mark.day == looked.local_day())?;
        Some(Mark { day: now.local_day(), ..mark })
    }

    fn fill_minutes(&mut self, look: &BillInterval, used: &Used) {
        let to = look.at.wall.0;
        let covered = look.bill.server_metered.time().as_secs_f64()
            - look.before.server_metered.time().as_secs_f64();
        // What is older than a day would be pushed out at once.
        let kept = look.from.max(to - MINUTES * MINUTE_MS);
        for (from, end) in pieces(kept, to, MINUTE_MS, 0) {
            let share = look.share(from, end);
            let minute = from.div_euclid(MINUTE_MS);
            let slot = &mut self.ring[minute.rem_euclid(MINUTES) as usize];
            if slot.minute != minute {
                *slot = Minute { minute, ..Minute::default() };
            }
            slot.seconds += (end - from) as f64 / 1000.0;
            slot.measured_s += covered * share;
            slot.server += used.server * share;
            slot.proxy += used.proxy * share;
        }
    }

    /// The minutes of the last day of which anything is on the bill, oldest first.
    pub fn minutes(&self, now: Wall) -> Vec<Minute> {
        let last = now.0.div_euclid(MINUTE_MS);
        let kept = (last - MINUTES + 1)..=last;
        let slot = |minute: i64| self.ring[minute.rem_euclid(MINUTES) as usize];
        kept.filter(|minute| slot(*minute).minute == *minute).map(slot).collect()
    }

    /// The days until the last look, oldest first: each is what came to the bill between its beginning
    /// and that of the next.
    pub fn days(&self) -> Vec<Day> {
        let Some((bill, money)) = self.last else { return Vec::new() };
        let ends = self.marks.iter().skip(1).map(|next| (next.bill, next.money));
        let ends = ends.chain([(bill, money)]);
        let day = |(from, (bill, money)): (&Mark, (Bill, Money))| Day {
            day: from.day,
            bill: bill.since(&from.bill),
            used: self.rates.used(&bill).less(&self.rates.used(&from.bill)),
            money: money.less(&from.money),
        };
        self.marks.iter().zip(ends).map(day).collect()
    }

    /// Energy of all that was ever on the bill, at the last look.
    pub fn used(&self) -> Used {
        self.rates.used(&self.total().0)
    }

    /// All that was ever on the bill, at the last look.
    pub fn total(&self) -> (Bill, Money) {
        self.last.unwrap_or_default()
    }
}

/// What came to the bill from one look to the next.
struct BillInterval {
    at: Now,
    /// Where it began: ms since 1970, UTC.
    from: i64,
    before: Bill,
    bill: Bill,
    money: Money,
    marks: Vec<Mark>,
}

impl BillInterval {
    /// Which part of what came lies between two moments.
    fn share(&self, from: i64, to: i64) -> f64 {
        let all = self.at.wall.0 - self.from;
        if all > 0 { (to - from) as f64 / all as f64 } else { 1.0 }
    }

    /// Adds the money of each hour, and marks the days that begin after `last_day`.
    fn walk_hours(&mut self, rates: &Rates, used: &Used, last_day: i64) {
        let mut last_day = last_day;
        let (from, to) = (self.from, self.at.wall.0);
        for (from, end) in pieces(from, to, HOUR_MS, i64::from(self.at.utc_offset) * 1000) {
            let moment = Now { wall: Wall(from), ..self.at };
            // No time at all lies at its end, where all has come to the bill but what comes with it.
            let day = moment.local_day();
            if day > last_day {
                let bill = between(&self.before, &self.bill, self.share(self.from, from));
                let bill = if from == end { self.before } else { bill };
                self.marks.push(Mark { day, bill, money: self.money });
                last_day = day;
            }
            let price = rates.price(moment.hour_of_week() as usize);
            self.money.add(used, self.share(from, end), price);
        }
        let excess = self.marks.len().saturating_sub(DAYS);
        self.marks.drain(..excess);
    }
}

/// A stretch of time, cut where a multiple of `step` passes (at `offset` from UTC); one piece, though
/// empty, if there is no time.
fn pieces(from: i64, to: i64, step: i64, offset: i64) -> impl Iterator<Item = (i64, i64)> {
    let mut next = Some(from);
    std::iter::from_fn(move || {
        let begins = next?;
        let ends = ((begins + offset).div_euclid(step) + 1) * step - offset;
        next = (ends < to).then_some(ends);
        Some((begins, ends.min(to)))
    })
}

/// A bill on its way from one state to another; what is counted comes at the end.
fn between(from: &Bill, to: &Bill, share: f64) -> Bill {
    let time = |of: fn(&Bill) -> Duration| part(of(from), of(to), share);
    let metered = |of: fn(&Bill) -> &Metered| {
        let (from, to) = (of(from), of(to));
        let joules = |of: fn(&Metered) -> Joules| of(from) + (of(to) - of(from)) * share;
        Metered {
            joules: joules(|it| it.joules),
            uncertainty: joules(|it| it.uncertainty),
            on: part(from.on, to.on, share),
            off: part(from.off, to.off, share),
            unobserved: part(from.unobserved, to.unobserved, share),
            cycles: from.cycles,
        }
    };
    Bill {
        on: time(|it| it.on),
        off: time(|it| it.off),
        unobserved: time(|it| it.unobserved),
        busy: time(|it| it.busy),
        cycles: from.cycles,
        wakeups: from.wakeups,
        server_metered: metered(|it| &it.server_metered),
        proxy_share: to.proxy_share.map(|it| ProxyShare { time: time(Bill::proxy_time), ..it }),
        proxy_metered: metered(|it| &it.proxy_metered),
    }
}

/// Times can shrink too: what was asleep for now turns out to have been awake.
fn part(from: Duration, to: Duration, share: f64) -> Duration {
    let way = from.abs_diff(to).mul_f64(share);
    if to >= from { from + way } else { from.saturating_sub(way) }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
