//! The analysis in plain language.

use std::fmt::Write as _;

use nightwatt_model::quantity::JOULES_PER_KWH;

use super::result::{Analysis, PolicyFigures};

const YEAR_S: f64 = 365.25 * 86_400.0;

impl Analysis {
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
