//! Where the CPUs' time went, over all runs of a cell. Pure.

use std::fmt::Write;

use nightwatt_model::stats::moments::Moments;
use nightwatt_model::stats::sequential::StopRule;
use serde::Serialize;

use super::result::Estimate;

/// What one run says of it. Shares are of what is under test and of the kernel itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Shares {
    /// At rest, of the CPUs' time.
    pub(super) idle: Option<f64>,
    /// Scheduler, ACPI and IRQ together, of what is not.
    pub(super) changing: Option<f64>,
    /// By category of the operating system.
    pub(super) os: Vec<(&'static str, Option<f64>)>,
    /// By category of TCP, of TCP's time.
    pub(super) tcp: Vec<(&'static str, Option<f64>)>,
}

/// What all runs say of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Breakdown {
    /// At rest, of the CPUs' time.
    pub idle: Option<Estimate>,
    /// Scheduler, ACPI and IRQ together, of what is not: what the CPUs do for changing what they do.
    pub changing: Option<Estimate>,
    /// By category of the operating system.
    pub os: Vec<CategoryEstimate>,
    /// By category of TCP, of TCP's time.
    pub tcp: Vec<CategoryEstimate>,
}

/// A category.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CategoryEstimate {
    /// As published.
    pub name: &'static str,
    /// Its share; none where nothing was seen of which it is one.
    pub share: Option<Estimate>,
}

impl Breakdown {
    /// None where no run has told.
    pub(super) fn of(runs: &[Shares], rule: Option<&StopRule>) -> Option<Self> {
        let first = runs.first()?;
        let estimate = |values: Vec<f64>| {
            let moments = Moments::of(&values);
            let half_width = rule.and_then(|rule| rule.half_width(&moments));
            moments.mean().map(|mean| Estimate { mean, half_width, runs: moments.count() })
        };
        let of = |what: &dyn Fn(&Shares) -> Option<f64>| {
            estimate(runs.iter().filter_map(what).collect())
        };
        let categories = |list: &[(&'static str, Option<f64>)], of_run: fn(&Shares) -> &[_]| {
            let one = |(place, (name, _)): (usize, &(&'static str, Option<f64>))| {
                let share = |run: &Shares| {
                    of_run(run).get(place).and_then(|(_, share): &(&str, Option<f64>)| *share)
                };
                CategoryEstimate { name, share: of(&share) }
            };
            list.iter().enumerate().map(one).collect()
        };
        Some(Self {
            idle: of(&|run| run.idle),
            changing: of(&|run| run.changing),
            os: categories(&first.os, |run| &run.os),
            tcp: categories(&first.tcp, |run| &run.tcp),
        })
    }

    /// In one line: rest, what changing takes, and the categories, largest first.
    pub(super) fn text(&self) -> String {
        let percent = |it: &Estimate| match it.half_width {
            Some(half) => format!("{:.1} ± {:.1} %", 100.0 * it.mean, 100.0 * half),
            None => format!("{:.1} %", 100.0 * it.mean),
        };
        let mut text = String::new();
        if let Some(idle) = &self.idle {
            // Writing to a String cannot fail, here and below.
            let _ = write!(text, "at rest {}; ", percent(idle));
        }
        if let Some(changing) = &self.changing {
            let _ = write!(text, "scheduler + ACPI + IRQ {}: ", percent(changing));
        }
        let mut known: Vec<(&str, Estimate)> =
            self.os.iter().filter_map(|it| it.share.map(|share| (it.name, share))).collect();
        known.retain(|(_, share)| share.mean > 0.0);
        known.sort_by(|a, b| b.1.mean.total_cmp(&a.1.mean));
        let each = known.iter().map(|(name, share)| format!("{name} {}", percent(share)));
        text + &each.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(changing: f64, tcp: Option<f64>) -> Shares {
        Shares {
            idle: Some(0.5),
            changing: Some(changing),
            os: vec![("Scheduler", Some(changing)), ("TCP", Some(1.0 - changing))],
            tcp: vec![("Tx_data", tcp)],
        }
    }

    #[test]
    fn shares_are_means_of_the_runs_that_know_them() {
        let rule = StopRule::new(3, 20, 0.03).unwrap();
        let runs = [run(0.2, Some(1.0)), run(0.4, None), run(0.3, Some(0.5))];
        let it = Breakdown::of(&runs, Some(&rule)).unwrap();
        let changing = it.changing.unwrap();
        assert!((changing.mean - 0.3).abs() < 1e-12);
        // Student's t of 97.5 % with two degrees of freedom is 4.303; the standard error is 0.1 / sqrt(3).
        assert!(changing.half_width.unwrap() >= 4.303 * 0.1 / 3f64.sqrt() * 0.999);
        let sum: f64 = it.os.iter().map(|it| it.share.unwrap().mean).sum();
        assert!((sum - 1.0).abs() < 1e-12, "categories share all of it out");
        let tx = it.tcp[0].share.unwrap();
        assert_eq!((tx.mean, tx.runs), (0.75, 2));
        assert!(it.text().starts_with("at rest 50.0 ± 0.0 %; scheduler + ACPI + IRQ 30.0 ±"));
        assert_eq!(Breakdown::of(&[], Some(&rule)), None);
    }
}
