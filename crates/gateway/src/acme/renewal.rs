//! When an authority wants a certificate renewed (RFC 9773): pure.

use std::time::Duration;

use nightwatt_energy::time::Wall;
use nightwatt_httpcache::{Timestamp, date};

use super::schedule;
use crate::status::RenewalStatus;
use crate::tls::validity::Validity;

/// An authority is asked again no sooner, and no later (RFC 9773, 4.3.2).
const SOONEST: Duration = Duration::from_mins(1);
const LATEST: Duration = Duration::from_hours(24);

/// It is asked again after this time if it did not answer, or has no renewal information.
const AFTER_FAILURE: Duration = Duration::from_hours(6);

/// The last part of a certificate's lifetime, in which it is renewed whatever the authority suggests.
const LAST_PART: i64 = 10;

/// The time in which an authority suggests to renew a certificate, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) start: i64,
    pub(super) end: i64,
}

/// What an authority suggests for one certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Advice {
    /// The certificate that it is about, as the authority knows it.
    pub(super) id: String,
    pub(super) window: Option<Window>,
    /// The moment in it that was chosen, in seconds since 1970.
    pub(super) moment: i64,
    /// Where the authority explains it.
    pub(super) explanation: Option<String>,
    /// When to ask again, in seconds since 1970.
    again: i64,
}

impl Advice {
    /// Nothing is known yet of this certificate: the authority is to be asked.
    pub(super) const fn unknown(id: String) -> Self {
        Self { id, window: None, moment: 0, explanation: None, again: 0 }
    }

    /// Whether the authority is to be asked now. So it is after a clock that was wrong was put back.
    pub(super) fn is_due(&self, now: Wall) -> bool {
        self.wait(now).is_zero() || self.wait(now) > LATEST
    }

    /// How long until the authority is to be asked again.
    pub(super) fn wait(&self, now: Wall) -> Duration {
        Duration::from_secs(u64::try_from(self.again.saturating_sub(seconds(now))).unwrap_or(0))
    }

    /// The authority is to be asked at once: an operator wants it.
    pub(super) const fn hurry(&mut self) {
        self.again = 0;
    }

    /// The authority suggests a window. A moment in it is chosen by `random`, from 0 to less than 1, unless one was
    /// chosen in the same window before. A window that ends before it begins is no suggestion.
    pub(super) fn suggested(
        &mut self,
        window: Window,
        retry_after: Duration,
        now: Wall,
        random: f64,
    ) {
        let pause = retry_after.clamp(SOONEST, LATEST);
        self.again = seconds(now).saturating_add_unsigned(pause.as_secs());
        if window.end <= window.start {
            self.window = None;
        } else if self.window != Some(window) {
            let length = window.end.abs_diff(window.start);
            // Less than the length, which is far below 2^53 for every window that means something.
            let into = (length as f64 * random) as u64;
            self.moment = window.start.saturating_add_unsigned(into.min(length));
            self.window = Some(window);
        }
    }

    /// The authority suggests nothing now. What it suggested before holds.
    pub(super) fn failed(&mut self, now: Wall) {
        self.again = seconds(now).saturating_add_unsigned(AFTER_FAILURE.as_secs());
    }
}

fn seconds(now: Wall) -> i64 {
    now.0.div_euclid(1000)
}

/// When a certificate is due for renewal, in seconds since 1970: as its authority suggests, but not in the last tenth of
/// its lifetime; by the usual rule if the authority suggests nothing.
fn moment(validity: Validity, advice: Option<&Advice>) -> i64 {
    let Validity { from, until } = validity;
    let last = until.saturating_sub(until.saturating_sub(from) / LAST_PART);
    let suggested = advice.filter(|it| it.window.is_some()).map(|it| it.moment.min(last));
    suggested.unwrap_or_else(|| schedule::moment(validity))
}

/// How long until a certificate is due for renewal. A missing one is due at once.
pub(super) fn wait(validity: Option<Validity>, advice: Option<&Advice>, now: Wall) -> Duration {
    validity.map_or(Duration::ZERO, |it| schedule::left(moment(it, advice), now))
}

/// For `nightwatt status`.
pub(super) fn status(validity: Validity, advice: Option<&Advice>) -> RenewalStatus {
    let at = moment(validity, advice);
    let text = Timestamp::from_millis(u64::try_from(at).unwrap_or(0).saturating_mul(1000));
    let window = advice.and_then(|it| it.window);
    RenewalStatus {
        at,
        at_text: date::format(text).to_str().unwrap_or_default().to_owned(),
        from: window.map(|it| it.start),
        until: window.map(|it| it.end),
        explanation: advice.and_then(|it| it.explanation.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400;
    const WINDOW: Window = Window { start: 50 * DAY, end: 52 * DAY };
    const HOUR: Duration = Duration::from_hours(1);

    fn at(day: i64) -> Wall {
        Wall::from_secs(day * DAY)
    }

    const NINETY_DAYS: Option<Validity> = Some(Validity { from: 0, until: 90 * DAY });

    fn advised(window: Window, random: f64) -> Advice {
        let mut advice = Advice::unknown("a.b".to_owned());
        assert!(advice.is_due(at(0)), "a certificate that nothing is known of");
        advice.suggested(window, HOUR, at(0), random);
        advice
    }

    #[test]
    fn a_certificate_is_renewed_at_a_random_moment_of_the_window() {
        for (random, day) in [(0.0, 50.0), (0.25, 50.5), (0.5, 51.0), (0.999_999, 52.0)] {
            let wait = wait(NINETY_DAYS, Some(&advised(WINDOW, random)), at(10));
            let days = wait.as_secs_f64() / DAY as f64;
            assert!((days - (day - 10.0)).abs() < 0.001, "{random}: {days}");
        }
        assert_eq!(wait(NINETY_DAYS, Some(&advised(WINDOW, 0.5)), at(51)), Duration::ZERO);
    }

    #[test]
    fn the_moment_is_chosen_once_for_a_window_and_again_for_another() {
        let mut advice = advised(WINDOW, 0.5);
        advice.suggested(WINDOW, HOUR, at(1), 0.9);
        assert_eq!(advice.moment, 51 * DAY);
        // The authority has to revoke it.
        advice.suggested(Window { start: 0, end: DAY }, HOUR, at(2), 0.9);
        assert_eq!(wait(NINETY_DAYS, Some(&advice), at(2)), Duration::ZERO);
    }

    #[test]
    fn without_a_window_the_usual_rule_holds() {
        let usual = Duration::from_secs(50 * DAY as u64);
        assert_eq!(wait(NINETY_DAYS, None, at(10)), usual);
        let unknown = Advice::unknown("a.b".to_owned());
        assert_eq!(wait(NINETY_DAYS, Some(&unknown), at(10)), usual);
        for wrong in [Window { start: DAY, end: DAY }, Window { start: 2 * DAY, end: DAY }] {
            assert_eq!(wait(NINETY_DAYS, Some(&advised(wrong, 0.5)), at(10)), usual);
        }
        assert_eq!(
            wait(None, Some(&advised(WINDOW, 0.5)), at(10)),
            Duration::ZERO,
            "it is missing"
        );
    }

    #[test]
    fn no_suggestion_lets_a_certificate_expire() {
        let late = Window { start: 1000 * DAY, end: i64::MAX };
        let advice = advised(late, 0.5);
        assert_eq!(wait(NINETY_DAYS, Some(&advice), at(80)).as_secs(), DAY as u64);
        assert_eq!(wait(NINETY_DAYS, Some(&advice), at(81)), Duration::ZERO);
    }

    #[test]
    fn an_authority_is_asked_again_as_it_says_within_a_minute_and_a_day() {
        for (says, waits) in [
            (Duration::ZERO, SOONEST),
            (HOUR, HOUR),
            (Duration::from_hours(6), Duration::from_hours(6)),
            (Duration::MAX, LATEST),
        ] {
            let mut advice = Advice::unknown("a.b".to_owned());
            advice.suggested(WINDOW, says, at(0), 0.0);
            assert_eq!((advice.wait(at(0)), advice.is_due(at(0))), (waits, false), "{says:?}");
        }
        let mut advice = advised(WINDOW, 0.5);
        advice.failed(at(1));
        assert_eq!((advice.wait(at(1)), advice.window), (AFTER_FAILURE, Some(WINDOW)));
        assert!(advice.is_due(at(-30)), "the clock was put back by a month");
        advice.hurry();
        assert!(advice.is_due(at(1)));
    }
}
