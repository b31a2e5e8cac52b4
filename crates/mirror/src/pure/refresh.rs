//! When to refresh: what is old, how long sleep may wait for it, and when to wake the server for it.

use std::time::Duration;

use nightwatt_httpcache::Timestamp;

/// How fresh the mirror is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshRules {
    /// How old an answer may be while the server sleeps.
    pub max_age: Duration,
    /// How long the server may be kept awake, before it is put to sleep, to refresh what is old.
    pub extension: Duration,
}

impl Default for RefreshRules {
    fn default() -> Self {
        Self { max_age: Duration::from_hours(24), extension: Duration::from_secs(30) }
    }
}

impl RefreshRules {
    /// The age at which an answer is due: half of that which it may reach, an eighth if it is popular.
    pub fn due_after(&self, popularity: f64) -> Duration {
        self.max_age / if popularity >= 1.0 { 8 } else { 2 }
    }

    /// Whether an answer is [due](Self::due_after) before the server is put to sleep.
    pub fn is_due(&self, confirmed: Timestamp, popularity: f64, now: Timestamp) -> bool {
        now.since(confirmed) >= self.due_after(popularity) || confirmed > now
    }

    /// Whether an answer is too old to be given while the server sleeps.
    ///
    /// One from the future came in while the clock was ahead: its age is not known.
    pub fn is_too_old(&self, confirmed: Timestamp, now: Timestamp) -> bool {
        now.since(confirmed) > self.max_age || confirmed.since(now) > Duration::from_secs(1)
    }
}

/// An hour in which the server could be woken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hour {
    /// When it begins.
    pub from: Timestamp,
    /// What a wake-up costs in it, in any unit: price, carbon, or the chance that no client would have woken
    /// the server anyway.
    pub cost: f64,
}

/// When to wake the server to refresh the mirror, if nothing else does before.
///
/// `oldest` is when the oldest answer that is to stay was confirmed. `hours` are the hours to come. There is one
/// such wake-up per `max_age`: in the cheapest hour of the second half of the time that is left when an answer is
/// half as old as it may become, so that a wake-up by others before then makes it unnecessary. Without hours, it
/// is when the answer becomes too old.
pub fn wake_at(oldest: Timestamp, rules: &RefreshRules, hours: &[Hour]) -> Timestamp {
    let earliest = oldest.plus(rules.max_age / 2);
    let latest = oldest.plus(rules.max_age);
    let within = hours.iter().filter(|hour| {
        let end = hour.from.plus(Duration::from_hours(1));
        end > earliest && hour.from < latest
    });
    let cheapest = within.min_by(|one, other| {
        // Of two that cost the same, the later one: something else may wake the server before.
        one.cost.total_cmp(&other.cost).then(other.from.cmp(&one.from))
    });
    cheapest.map_or(latest, |hour| hour.from.max(earliest).min(latest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);
    const NOW: Timestamp = Timestamp::from_secs(1_780_012_800);

    fn after(hours: u64) -> Timestamp {
        NOW.plus(Duration::from_hours(hours))
    }

    #[test]
    fn what_is_popular_is_due_earlier() {
        let rules = RefreshRules::default();
        let is_due = |hours, popularity| rules.is_due(NOW, popularity, after(hours));
        assert!(!is_due(11, 0.0) && is_due(12, 0.0));
        assert!(!is_due(2, 3.0) && is_due(3, 3.0));
        assert!(rules.is_due(after(1), 0.0, NOW), "it came in while the clock was ahead");
    }

    #[test]
    fn an_answer_is_given_until_it_is_as_old_as_it_may_become() {
        let rules = RefreshRules::default();
        assert!(!rules.is_too_old(NOW, after(24)));
        assert!(rules.is_too_old(NOW, after(24).plus(Duration::from_millis(1))));
        assert!(rules.is_too_old(after(1), NOW));
    }

    #[test]
    fn the_server_is_woken_in_the_cheapest_hour_before_answers_are_too_old() {
        let rules = RefreshRules { max_age: DAY, ..RefreshRules::default() };
        let hours = |cheap: u64| -> Vec<Hour> {
            let cost = |hour| if hour == cheap { 1.0 } else { 2.0 };
            (0..48).map(|hour| Hour { from: after(hour), cost: cost(hour) }).collect()
        };
        assert_eq!(wake_at(NOW, &rules, &hours(18)), after(18));
        assert_eq!(wake_at(NOW, &rules, &hours(12)), after(12));
        // Cheaper hours before and behind do not count; of the others the last one does.
        assert_eq!(wake_at(NOW, &rules, &hours(3)), after(23));
        assert_eq!(wake_at(NOW, &rules, &hours(24)), after(23));
        assert_eq!(wake_at(NOW, &rules, &[]), after(24));
    }
}
