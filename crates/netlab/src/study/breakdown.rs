//! Where the CPUs' time went, over all runs of a cell. Pure.

use std::fmt::Write;

use nightwatt_energy::stats::moments::Moments;
use nightwatt_energy::stats::sequential::StopRule;
use serde::Serialize;

use super::estimate::Estimate;
use super::units::with_prefix;

/// What one run says of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Shares {
    /// At rest, of the CPUs' time.
    pub(super) idle: Option<f64>,
    /// Scheduler, ACPI and IRQ together, of what is not.
    pub(super) changing: CategoryShare,
    /// By category of the operating system.
    pub(super) os: Vec<CategoryShare>,
    /// By category of TCP, of TCP's time.
    pub(super) tcp: Vec<CategoryShare>,
    /// Samples a second of busy CPUs beyond idle, of all processes.
    pub(super) beyond: f64,
    /// Of a connection, in joules, without what is told of its wake-ups by themselves.
    pub(super) energy: Option<f64>,
}

/// What one run says of a category.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct CategoryShare {
    /// As published.
    pub(super) name: &'static str,
    /// Of what is under test and of the kernel itself.
    pub(super) share: Option<f64>,
    /// Samples a second beyond idle, of all processes.
    pub(super) beyond: f64,
}

/// What all runs say of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Breakdown {
    /// At rest, of the CPUs' time.
    pub idle: Option<Estimate>,
    /// Scheduler, ACPI and IRQ together, of what is not: what the CPUs do for changing what they do.
    pub changing: Option<Estimate>,
    /// Their part of the energy of a connection, in joules.
    pub changing_energy: Option<Estimate>,
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
    /// Its share; `None` if there was nothing to share out.
    pub share: Option<Estimate>,
    /// Its part of the energy of a connection, in joules: by its share of the CPU samples beyond idle, of
    /// all processes. Those of the operating system sum to all of it except `waking_energy`.
    pub energy: Option<Estimate>,
}

/// The energy of a connection, and what it is shared out by.
struct Dividend {
    energy: Estimate,
    beyond: f64,
}

impl Dividend {
    /// `None` where the CPUs were not surely busier than those of the idle machine: then there is nothing
    /// to share out.
    fn of(energy: Option<Estimate>, beyond: Option<Estimate>) -> Option<Self> {
        let (energy, beyond) = energy.zip(beyond)?;
        let least = beyond.mean - beyond.half_width.unwrap_or(0.0);
        (least > 0.0).then_some(Self { energy, beyond: beyond.mean })
    }

    /// The part of the energy for this many samples. Its interval adds both intervals, as if they always
    /// went the same way.
    fn part(&self, seen: Estimate) -> Estimate {
        let share = seen.mean / self.beyond;
        let half_width = seen.half_width.zip(self.energy.half_width);
        Estimate {
            mean: self.energy.mean * share,
            half_width: half_width.map(|(seen, energy)| {
                self.energy.mean.abs() * seen / self.beyond + share.abs() * energy
            }),
            runs: seen.runs.min(self.energy.runs),
        }
    }
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
        // By all runs together: one in which something else was at work must not rule the mean.
        let dividend = Dividend::of(of(&|run| run.energy), of(&|run| Some(run.beyond)));
        let part = |of_run: &dyn Fn(&Shares) -> Option<&CategoryShare>| {
            let seen = of(&|run| Some(of_run(run)?.beyond))?;
            dividend.as_ref().map(|it| it.part(seen))
        };
        let categories = |list: &[CategoryShare], of_run: fn(&Shares) -> &[CategoryShare]| {
            let one = |(place, seen): (usize, &CategoryShare)| CategoryEstimate {
                name: seen.name,
                share: of(&|run| of_run(run).get(place)?.share),
                energy: part(&|run| of_run(run).get(place)),
            };
            list.iter().enumerate().map(one).collect()
        };
        Some(Self {
            idle: of(&|run| run.idle),
            changing: of(&|run| run.changing.share),
            changing_energy: part(&|run| Some(&run.changing)),
            os: categories(&first.os, |run| &run.os),
            tcp: categories(&first.tcp, |run| &run.tcp),
        })
    }

    /// The energy of each category in that of a connection, largest first; `None` if unknown.
    pub(super) fn energy_text(&self) -> Option<String> {
        let text = |it: &Estimate| {
            let half = it.half_width.map(|half| format!(" ± {}", with_prefix(half, "J")));
            with_prefix(it.mean, "J") + &half.unwrap_or_default()
        };
        let changing = format!("scheduler + ACPI + IRQ {}: ", text(&self.changing_energy?));
        let each = largest_first(&self.os, |it| it.energy);
        let each = each.iter().map(|(name, energy)| format!("{name} {}", text(energy)));
        Some(changing + &each.collect::<Vec<_>>().join(", "))
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
        let each = largest_first(&self.os, |it| it.share);
        let each = each.iter().map(|(name, share)| format!("{name} {}", percent(share)));
        text + &each.collect::<Vec<_>>().join(", ")
    }
}

/// Those of which something was seen.
fn largest_first(
    categories: &[CategoryEstimate],
    of: fn(&CategoryEstimate) -> Option<Estimate>,
) -> Vec<(&'static str, Estimate)> {
    let mut known: Vec<(&str, Estimate)> =
        categories.iter().filter_map(|it| of(it).map(|found| (it.name, found))).collect();
    known.retain(|(_, found)| found.mean != 0.0);
    known.sort_by(|a, b| b.1.mean.abs().total_cmp(&a.1.mean.abs()));
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(changing: f64, tcp: Option<f64>, energy: Option<f64>, beyond: f64) -> Shares {
        let seen = |name, share: Option<f64>| CategoryShare {
            name,
            share,
            beyond: share.unwrap_or(0.0) * beyond,
        };
        Shares {
            idle: Some(0.5),
            changing: seen("Scheduler + ACPI + IRQ", Some(changing)),
            os: vec![seen("Scheduler", Some(changing)), seen("TCP", Some(1.0 - changing))],
            tcp: vec![seen("Tx_data", tcp)],
            beyond,
            energy,
        }
    }

    #[test]
    fn shares_are_means_of_the_runs_that_know_them() {
        let rule = StopRule::new(3, 20, 0.03).unwrap();
        let runs = [(0.2, Some(1.0)), (0.4, None), (0.3, Some(0.5))];
        let runs = runs.map(|(changing, tcp)| run(changing, tcp, None, 100.0));
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
        assert_eq!(it.energy_text(), None, "no run has an energy");
        assert_eq!(Breakdown::of(&[], Some(&rule)), None);
    }

    #[test]
    fn categories_share_the_energy_of_a_connection_out_by_what_cpus_did_beyond_idle() {
        let rule = StopRule::new(3, 20, 0.03).unwrap();
        // In a second beyond idle 99, 100 and 101 samples, of which 20, 40 and 30 % are changing.
        let runs = [(0.2, 1e-3, 99.0), (0.4, 3e-3, 100.0), (0.3, 2e-3, 101.0)];
        let runs = runs.map(|(changing, energy, beyond)| run(changing, None, Some(energy), beyond));
        let it = Breakdown::of(&runs, Some(&rule)).unwrap();
        let sum: f64 = it.os.iter().map(|it| it.energy.unwrap().mean).sum();
        assert!((sum - 2e-3).abs() < 1e-12, "{sum}");
        let by_hand = 2e-3 * (0.2 * 99.0 + 0.4 * 100.0 + 0.3 * 101.0) / 300.0;
        let changing = it.changing_energy.unwrap();
        assert!((changing.mean - by_hand).abs() < 1e-12, "{changing:?}");
        let told = it.energy_text().unwrap();
        assert!(told.starts_with("scheduler + ACPI + IRQ 600.7 µJ ± "), "{told}");
        assert!(told.contains(": TCP 1.399 mJ ± "), "the largest first: {told}");
    }

    #[test]
    fn a_machine_that_was_busy_with_something_else_shares_nothing_out() {
        let rule = StopRule::new(3, 20, 0.03).unwrap();
        // Idle was busier in one of three: what is beyond it may be nothing.
        let runs = [60.0, -50.0, 5.0].map(|beyond| run(0.3, None, Some(1e-3), beyond));
        let it = Breakdown::of(&runs, Some(&rule)).unwrap();
        assert_eq!((it.changing_energy, it.os[0].energy, it.energy_text()), (None, None, None));
        assert!(it.os[0].share.is_some(), "their time they have all the same");
    }
}
