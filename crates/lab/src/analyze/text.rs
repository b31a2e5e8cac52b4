//! The analysis in plain language.

use std::fmt::Write as _;

use nightwatt_model::quantity::JOULES_PER_KWH;

use super::result::{Analysis, PolicyFigures};

const YEAR_S: f64 = 365.25 * 86_400.0;

impl Analysis {
    /// For a terminal.
    pub fn text(&self) -> String {
        let mut text = self.in_short();
        text.push_str("\n\n");
        self.counts(&mut text);
        self.policies(&mut text);
        text
    }

    fn counts(&self, text: &mut String) {
        let days = self.span_s / 86_400.0;
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{} lines: {} requests in {days:.1} days, {} bad requests, {} malformed",
            self.lines, self.requests, self.bad_requests, self.malformed
        );
        let _ = writeln!(
            text,
            "{:.1} % crawlers; a cache answers {:.1} %, with an hour of grace {:.1} %",
            100.0 * self.crawler_share,
            100.0 * self.cache_share.default,
            100.0 * self.cache_share.grace
        );
    }

    fn policies(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "\n{:<14} {:>8} {:>14} {:>18} {:>16} {:>13}",
            "policy",
            "saving",
            "wake-ups/day",
            "delayed requests",
            "delayed visits",
            "of the oracle"
        );
        for (name, it) in &self.policies {
            let _ = writeln!(
                text,
                "{name:<14} {:>6.1} % {:>14.1} {:>9} ({:>4.1} %) {:>7} ({:>4.1} %) {:>11.1} %",
                100.0 * it.saving,
                it.wakeups_per_day,
                it.delayed_requests,
                100.0 * it.delayed_requests as f64 / it.admitted.max(1) as f64,
                it.delayed_visits,
                100.0 * it.delayed_visits as f64 / it.visits.max(1) as f64,
                100.0 * it.oracle_share,
            );
        }
        let _ = writeln!(text, "{:<14} {:>6.1} %", "oracle", 100.0 * self.oracle.saving);
    }

    /// The scenario's policy.
    pub fn chosen(&self) -> Option<&PolicyFigures> {
        self.policies.get(&self.default_policy)
    }

    /// What it comes to, in two sentences.
    pub fn in_short(&self) -> String {
        let Some(chosen) = self.chosen() else { return String::new() };
        let days = self.span_s / 86_400.0;
        let per_year = YEAR_S / self.span_s / JOULES_PER_KWH;
        let saved = (self.always_on_j - chosen.energy_j) * per_year;
        let mut text = String::new();
        // Writing to a String cannot fail.
        if saved > 0.0 {
            let _ = write!(
                text,
                "With `{}` you would save {saved:.0} kWh a year, {:.0} % of {:.0} kWh.",
                self.default_policy,
                100.0 * chosen.saving,
                self.always_on_j * per_year,
            );
        } else {
            let _ = write!(
                text,
                "With `{}` you would save nothing: the proxy uses more than the server's sleep saves.",
                self.default_policy
            );
        }
        let _ = write!(
            text,
            " {:.1} of {:.1} visits a day would wait for the server to wake ({} s).",
            chosen.delayed_visits as f64 / days,
            chosen.visits as f64 / days,
            self.scenario.server.wake_time.as_secs_f64(),
        );
        text
    }
}
