//! The report for people.

use nightwatt_report::Table;

use super::result::{SampledEnergy, SampledFunction, SampledReport};
use crate::cells::end_of;
use crate::text::{NAME, ended, figure, percent, rest, seconds, subject};

/// Number of functions that are shown if the user named none.
const SHOWN: usize = 25;

/// Files' names longer than this are cut.
const FILE: usize = 20;

impl SampledReport {
    /// A row for each function, then where the rest of the energy went.
    pub fn text(&self) -> String {
        let counts = &self.samples;
        let head = format!(
            "\n Functions of {}, {:.3} s, sampled: {} samples of it, one each {} on each CPU;\n {} \
             of others, {} of idle CPUs, {} due and not taken, {} lost\n",
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
        let joules = |it: Option<f64>| it.map_or_else(|| "–".to_owned(), figure);
        let table = Table::of("", &self.functions)
            .text("function", |it| end_of(&it.name, NAME))
            .text("file", |it| end_of(it.file.rsplit('/').next().unwrap_or(&it.file), FILE))
            .count("samples", |it| it.self_samples)
            .written("CPU", "", |it| seconds(it.self_s))
            .written("energy", "J", |it| joules(alone(it)))
            .written("95 % of samplings", "J", |it| {
                self.energy_of(it).map_or_else(String::new, |it| {
                    format!("{} .. {}", figure(it.self_low_j.get()), figure(it.self_high_j.get()))
                })
            })
            .written("share", "", |it| share(alone(it)))
            .written("with calls", "J", |it| joules(all(it)))
            .written("share", "", |it| share(all(it)))
            .most(if self.has_sections() { usize::MAX } else { SHOWN });
        let outside = if self.has_sections() { "(in none of them)" } else { "(place unknown)" };
        let rest = channel.map(|channel| rest(channel, outside)).unwrap_or_default();
        format!("{head}\n{}{rest}{}", Table::from(table).to_text(), ended(self.exit_status))
    }

    fn energy_of<'a>(&self, function: &'a SampledFunction) -> Option<&'a SampledEnergy> {
        self.main_channel().and_then(|channel| function.energy.get(channel))
    }
}
