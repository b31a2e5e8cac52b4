//! Finds holes in a log: pauses that are implausible against all others.
//!
//! A pause is a hole if it lasts at least a day, and ten times as long as the longest ordinary pause. So
//! where no client comes at night, at weekends, or for a week at a time, a night, a weekend or three weeks
//! are no holes. A lost file is a hole in the log of a site with requests every hour, and so are the years
//! after an early test of the server.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use nightwatt_energy::time::{Mono, Wall};
use serde::Serialize;

use super::DAY;
use super::amounts::days_text;
use super::apart::Apart;

/// No hole is shorter: sites sleep at night.
const LEAST: Duration = DAY;

/// How many times as long as the longest ordinary pause a hole is.
const TIMES: u32 = 10;

/// The most holes that are told. A log with more pauses of a day is that of a quiet site.
const MOST: usize = 64;

/// Holes named in a warning.
const NAMED: usize = 3;

/// A pause in which requests should have come.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Hole {
    /// The last request before it, milliseconds since 1970.
    pub after: Wall,
    /// The first request after it, milliseconds since 1970.
    pub before: Wall,
    /// How long it is, s.
    pub length_s: f64,
}

/// The longest pauses of a log.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    last: Option<Mono>,
    /// Length and end; one more than there may be holes, to compare them with.
    longest: BinaryHeap<Reverse<(Duration, Mono)>>,
    pub(super) apart: Apart,
}

impl Pauses {
    /// A request, not before the last one.
    pub(super) fn request(&mut self, at: Mono) {
        self.apart.request(at);
        let Some(last) = self.last.replace(at) else { return };
        let pause = at.since(last);
        if self.longest.len() <= MOST {
            self.longest.push(Reverse((pause, at)));
        } else if let Some(mut least) = self.longest.peek_mut()
            && least.0.0 < pause
        {
            *least = Reverse((pause, at));
        }
    }

    /// The holes, in the order of time, and the longest pause beside them.
    pub(super) fn holes(&self, start: Wall) -> (Vec<Hole>, Duration) {
        let mut longest: Vec<(Duration, Mono)> = self.longest.iter().map(|it| it.0).collect();
        longest.sort_unstable_by_key(|it| Reverse(*it));
        let is_absurd = |pair: &[(Duration, Mono)]| {
            pair[0].0 >= LEAST && pair[0].0 >= pair[1].0.saturating_mul(TIMES)
        };
        let Some(last) = longest.windows(2).rposition(is_absurd) else {
            return (Vec::new(), Duration::ZERO);
        };
        let ordinary = longest[last + 1].0;
        longest.truncate(last + 1);
        longest.sort_unstable_by_key(|(_, end)| *end);
        let hole = |(pause, end): (Duration, Mono)| Hole {
            after: start + (end - pause).0,
            before: start + end.0,
            length_s: pause.as_secs_f64(),
        };
        (longest.into_iter().map(hole).collect(), ordinary)
    }
}

/// What holes do to the figures, and what to do. Nothing where there are none.
pub(super) fn warning(
    holes: &[Hole],
    ordinary: Duration,
    from: Wall,
    span_s: f64,
) -> Option<String> {
    let first = holes.first()?;
    let total: f64 = holes.iter().map(|hole| hole.length_s).sum();
    let named: Vec<String> = holes
        .iter()
        .take(NAMED)
        .map(|hole| {
            let after = nightwatt_energy::civil::to_minute(hole.after.secs());
            format!("{} after {after} UTC", days_text(hole.length_s))
        })
        .collect();
    let more = holes.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let days = (first.after.0 - from.0) / 86_400_000;
    let cut = if days > 0 {
        format!("; `--days {days}` ends before the first hole")
    } else {
        String::new()
    };
    Some(format!(
        "the log has {}: {}{more}, {:.0} % of its span, and no other pause above {}. If the log or the \
         site was away then, all figures are those of hours in which no client could come: without an \
         SLA too much is saved, with one too little, since it takes requests to allow a sleep. \
         Analyse what lies on each side by itself (`--from`, `--until`){cut}",
        if holes.len() == 1 { "a hole".to_owned() } else { format!("{} holes", holes.len()) },
        named.join(", "),
        100.0 * total / span_s,
        days_text(ordinary.as_secs_f64()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;
    const DAYS: u64 = 24 * HOUR;

    fn holes(pauses: &[u64]) -> (Vec<Hole>, Duration) {
        let (mut found, mut at) = (Pauses::default(), 0);
        found.request(Mono::ZERO);
        for pause in pauses {
            at += pause;
            found.request(Mono::from_secs(at));
        }
        found.holes(Wall::from_secs(1000))
    }

    #[test]
    fn two_years_among_hours_are_a_hole() {
        let (found, ordinary) = holes(&[HOUR, 2 * HOUR, 730 * DAYS, HOUR]);
        let after = Wall::from_secs(1000 + 3 * HOUR.cast_signed());
        let before = Wall(after.0 + 730 * 86_400_000);
        assert_eq!(found, [Hole { after, before, length_s: 730.0 * 86_400.0 }]);
        assert_eq!(ordinary, Duration::from_hours(2));
        let text = warning(&found, ordinary, Wall(0), 731.0 * 86_400.0).unwrap();
        let said = "a hole: 730.0 days after 1970-01-01 03:16 UTC, 100 % of its span";
        assert!(text.contains(said), "{text}");
        assert!(!text.contains("--days"), "less than a day lies before it: {text}");
    }

    #[test]
    fn nights_weekends_and_quiet_weeks_are_none() {
        assert_eq!(holes(&[]).0, []);
        assert_eq!(holes(&[730 * DAYS]).0, [], "two requests tell of no usual pause");
        // An office: nights of 14 hours, weekends of 62, two weeks of holidays.
        assert_eq!(holes(&[HOUR, 14 * HOUR, HOUR, 62 * HOUR, 14 * HOUR, 16 * DAYS]).0, []);
        // Requests come once a week, with one pause of two months.
        assert_eq!(holes(&[7 * DAYS, 7 * DAYS, 60 * DAYS, 7 * DAYS]).0, []);
        assert_eq!(holes(&[60, 60, 23 * HOUR, 60]).0, [], "shorter than a day");
    }

    #[test]
    fn holes_of_any_lengths_are_found_together_and_in_order() {
        let pauses: Vec<u64> =
            (0..1000).map(|n| if n % 100 == 99 { (n + 1) * HOUR } else { HOUR }).collect();
        let (found, ordinary) = holes(&pauses);
        assert_eq!(found.len(), 10);
        assert!(found.is_sorted_by_key(|hole| hole.after));
        assert_eq!((found[0].length_s, found[9].length_s), (360_000.0, 3_600_000.0));
        assert_eq!(ordinary, Duration::from_hours(1));
        let text = warning(&found, ordinary, Wall(0), 2e7).unwrap();
        assert!(text.contains("10 holes") && text.contains("and 7 more"), "{text}");
        assert!(text.contains("`--days 4` ends before"), "{text}");
    }

    #[test]
    fn the_number_of_pauses_kept_is_bounded() {
        let (found, _) = holes(&[[60, 10 * DAYS]; 1000].concat());
        assert_eq!(found, [], "so many are no holes");
        let (found, _) = holes(&[vec![10 * DAYS; 64], vec![60; 1000]].concat());
        assert_eq!(found.len(), 64);
    }
}
