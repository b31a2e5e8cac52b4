//! The report for people.

use nightwatt_energy::quantity::Joules;
use nightwatt_report::{Table, figures, wrapped};

use super::result::{SampledEnergy, SampledFunction, SampledReport};
use crate::cells::end_of;
use crate::text::{NAME, ended, percent, rest, seconds, subject};

/// Number of functions that are shown if the user named none.
const SHOWN: usize = 25;

/// Files' names longer than this are cut.
const FILE: usize = 20;

impl SampledReport {
    /// A row for each function, then where the rest of the energy went.
    pub fn text(&self) -> String {
        let counts = &self.samples;
        let head = format!(
            "Functions of {}, {:.3} s, sampled: {} samples of it, one each {} on each CPU; {} of \
             others, {} of idle CPUs, {} due and not taken, {} lost",
            subject(&self.pids, &self.command),
            self.elapsed_s,
            counts.watched,
            seconds(self.period_s),
            counts.others,
            counts.idle,
            counts.missed,
            counts.lost,
        );
        let channel = self.main_channel().and_then(|channel| self.channels.get(channel));
        let dynamic = channel.map_or(0.0, |total| total.joules.get() - total.idle_j.get());
        let share = |it: Option<f64>| {
            percent(it.map(|joules| if dynamic > 0.0 { joules / dynamic } else { 0.0 }))
        };
        let alone = |it: &SampledFunction| self.energy_of(it).map(|it| it.self_j.get());
        let all = |it: &SampledFunction| self.energy_of(it).map(|it| it.joules.get());
        let figures_of = |it: &SampledFunction, of: fn(&SampledEnergy) -> [String; 3]| {
            self.energy_of(it).map_or_else(|| ["–".to_owned(), String::new(), String::new()], of)
        };
        let table = Table::of("", &self.functions)
            .text("function", |it| end_of(&it.name, NAME))
            .text("file", |it| end_of(it.file.rsplit('/').next().unwrap_or(&it.file), FILE))
            .count("samples", |it| it.self_samples)
            .written("CPU", "", |it| seconds(it.self_s))
            .written("energy", "J", |it| {
                let [joules, ..] = figures_of(it, SampledEnergy::alone);
                joules
            })
            .written("95 % of samplings", "J", |it| {
                let [_, low, high] = figures_of(it, SampledEnergy::alone);
                if low.is_empty() { String::new() } else { format!("{low} .. {high}") }
            })
            .written("share", "", |it| share(alone(it)))
            .written("with calls", "J", |it| {
                let [joules, ..] = figures_of(it, SampledEnergy::with_calls);
                joules
            })
            .written("share", "", |it| share(all(it)))
            .most(if self.has_sections() { usize::MAX } else { SHOWN });
        let outside = if self.has_sections() { "(in none of them)" } else { "(place unknown)" };
        let rest =
            channel.map(|channel| rest(channel, outside, self.elapsed_s)).unwrap_or_default();
        let head = wrapped(&head, 1);
        format!("\n {head}\n{}{rest}{}", Table::from(table).to_text(), ended(self.exit_status))
    }

    fn energy_of<'a>(&self, function: &'a SampledFunction) -> Option<&'a SampledEnergy> {
        self.main_channel().and_then(|channel| function.energy.get(channel))
    }
}

impl SampledEnergy {
    /// In it alone, and where chance leaves that.
    fn alone(&self) -> [String; 3] {
        self.sure([self.self_j, self.self_low_j, self.self_high_j])
    }

    /// The same with what it calls.
    fn with_calls(&self) -> [String; 3] {
        self.sure([self.joules, self.low_j, self.high_j])
    }

    /// Energy and its bounds with the digits that meter, idle power and samples leave sure.
    fn sure(&self, [joules, low, high]: [Joules; 3]) -> [String; 3] {
        let all = self.joules.get();
        // What may be wrong of the meter and of the idle power is in proportion to the energy.
        let share = if all > 0.0 { self.uncertainty_j.get() / all } else { 0.0 };
        let half_width = (share * joules.get()).hypot((high.get() - low.get()) / 2.0);
        [joules, low, high].map(|it| figures::rounded(it.get(), Some(half_width)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 0.27552 J, by samples 0.23243 to 0.32500 J.
    fn energy(uncertainty: f64) -> SampledEnergy {
        SampledEnergy {
            joules: Joules(0.551_04),
            low_j: Joules(0.500_11),
            high_j: Joules(0.605_88),
            self_j: Joules(0.275_52),
            self_low_j: Joules(0.232_43),
            self_high_j: Joules(0.325),
            uncertainty_j: Joules(uncertainty * 0.551_04),
            share: Some(0.5),
        }
    }

    /// A factor of 7 leaves one digit; a good meter leaves those that the samples leave.
    #[test]
    fn no_digit_is_surer_than_the_meter_and_the_samples() {
        assert_eq!(energy(5.9).alone(), ["0.3", "0.2", "0.3"]);
        assert_eq!(energy(5.9).with_calls(), ["0.6", "0.5", "0.6"]);
        assert_eq!(energy(0.01).alone(), ["0.28", "0.23", "0.33"]);
        let nothing = SampledEnergy { joules: Joules(0.0), self_j: Joules(0.0), ..energy(0.0) };
        assert_eq!(nothing.alone()[0], "0");
    }
}
