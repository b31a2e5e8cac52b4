//! The SLA as a file writes it.

use std::time::Duration;

use nightwatt_energy::duration_text;
use serde::{Deserialize, Serialize};

use crate::bad_value::BadValue;
use crate::sla::{RequestShare, Sla};

/// Whom a sleep may delay. There are three forms, and each that is given must hold; without any, at most a tenth of the
/// requests waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct SlaRule {
    /// Off: sleep whenever the policy says so, even if requests have to wait.
    pub enabled: bool,
    /// At most this share of the requests within `window` waits, 0 ..= 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// At most this number of visits a local calendar day waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visits_per_day: Option<u32>,
    /// The server sleeps only while it is expected to wake within this.
    #[serde(with = "duration_text::option", skip_serializing_if = "Option::is_none")]
    pub longest_wait: Option<Duration>,
    /// Requests wait that wait longer than this.
    #[serde(with = "duration_text")]
    pub delay: Duration,
    /// Length of the rolling window of `share`.
    #[serde(with = "duration_text")]
    pub window: Duration,
}

/// The share of requests that may wait where no form is given, as published.
const DEFAULT_SHARE: f64 = 0.10;

/// What a file may write.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Written {
    enabled: bool,
    share: Option<f64>,
    visits_per_day: Option<u32>,
    #[serde(with = "duration_text::option")]
    longest_wait: Option<Duration>,
    #[serde(with = "duration_text")]
    delay: Duration,
    #[serde(with = "duration_text")]
    window: Duration,
}

impl Default for Written {
    fn default() -> Self {
        Self {
            enabled: true,
            share: None,
            visits_per_day: None,
            longest_wait: None,
            delay: Duration::from_millis(50),
            window: Duration::from_hours(24),
        }
    }
}

impl From<Written> for SlaRule {
    fn from(it: Written) -> Self {
        let Written { enabled, share, visits_per_day, longest_wait, delay, window } = it;
        let is_other = visits_per_day.is_some() || longest_wait.is_some();
        let share = share.or((!is_other).then_some(DEFAULT_SHARE));
        Self { enabled, share, visits_per_day, longest_wait, delay, window }
    }
}

impl Default for SlaRule {
    fn default() -> Self {
        Written::default().into()
    }
}

impl SlaRule {
    /// The SLA, if there is one.
    pub fn forms(&self) -> Option<Sla> {
        let Self { enabled, share, visits_per_day, longest_wait, delay, window } = *self;
        let share = share.map(|share| RequestShare { share, delay, window });
        enabled.then_some(Sla { share, visits_per_day, longest_wait })
    }

    /// This share of the requests may wait, and no other form applies.
    #[must_use]
    pub fn with_share(&self, share: f64) -> Self {
        let share = Some(share);
        Self { enabled: true, share, visits_per_day: None, longest_wait: None, ..self.clone() }
    }

    /// This number of visits a day may wait, and no other form applies.
    #[must_use]
    pub fn with_visits_per_day(&self, visits: u32) -> Self {
        let visits_per_day = Some(visits);
        Self { enabled: true, share: None, visits_per_day, longest_wait: None, ..self.clone() }
    }

    pub(super) fn check(&self) -> Result<(), BadValue> {
        if self.visits_per_day == Some(0) {
            let rule = "it must be at least 1: with 0 the server never sleeps, which is `policy = \"always-on\"`";
            return Err(BadValue { key: "sla.visits_per_day", value: "0".to_owned(), rule });
        }
        let is_wrong = |most: &Duration| most.is_zero() || *most > Duration::from_hours(24);
        self.longest_wait.filter(is_wrong).map_or(Ok(()), |most| {
            let rule = "it must be longer than 0 and at most 24h";
            Err(BadValue { key: "sla.longest_wait", value: duration_text::format(most), rule })
        })
    }

    /// The forms that apply, each in words; none without an SLA.
    pub fn in_words(&self) -> Vec<String> {
        if !self.enabled {
            return Vec::new();
        }
        let time = duration_text::format;
        let share = self.share.map(|share| {
            let (percent, window, delay) = (100.0 * share, time(self.window), time(self.delay));
            let percent = (percent * 100.0).round() / 100.0;
            format!("at most {percent} % of the requests within {window} wait longer than {delay}")
        });
        let visits = self.visits_per_day.map(|most| {
            let (visits, wait) = if most == 1 { ("visit", "waits") } else { ("visits", "wait") };
            format!("at most {most} {visits} a day {wait}")
        });
        let longest = self
            .longest_wait
            .map(|most| format!("it sleeps only while it wakes within {}", time(most)));
        share.into_iter().chain(visits).chain(longest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> SlaRule {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_tenth_of_the_requests_is_the_default_and_only_where_no_form_is_given() {
        assert_eq!(read("").share, Some(0.1));
        assert_eq!(read("delay = \"1s\"").share, Some(0.1));
        assert_eq!(read("visits_per_day = 3").share, None);
        assert_eq!(read("longest_wait = \"10s\"").share, None);
        let all = read("share = 0.2\nvisits_per_day = 3\nlongest_wait = \"10s\"");
        let sla = all.forms().unwrap();
        assert_eq!(
            (sla.visits_per_day, sla.longest_wait),
            (Some(3), Some(Duration::from_secs(10)))
        );
        assert!((sla.share.unwrap().share - 0.2).abs() < 1e-9);
        assert_eq!(read("enabled = false\nvisits_per_day = 3").forms(), None);
    }

    #[test]
    fn what_is_written_is_read_back() {
        for text in
            ["", "visits_per_day = 3", "longest_wait = \"1m30s\"", "share = 0.5\nenabled = false"]
        {
            let rule = read(text);
            assert_eq!(read(&toml::to_string(&rule).unwrap()), rule, "{text}");
        }
        assert!(toml::from_str::<SlaRule>("visits = 3").is_err(), "unknown key");
        assert!(toml::from_str::<SlaRule>("visits_per_day = -1").is_err());
    }

    #[test]
    fn each_form_has_words() {
        let words = |text: &str| read(text).in_words().join("; ");
        assert_eq!(words(""), "at most 10 % of the requests within 1d wait longer than 50ms");
        assert_eq!(words("visits_per_day = 1"), "at most 1 visit a day waits");
        assert_eq!(
            words("visits_per_day = 3\nlongest_wait = \"10s\""),
            "at most 3 visits a day wait; it sleeps only while it wakes within 10s"
        );
        assert_eq!(words("enabled = false"), "");
    }
}
