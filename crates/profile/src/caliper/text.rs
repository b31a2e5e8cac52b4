//! The report for people.

use std::fmt::Write as _;

use nightwatt_report::{Table, figures, wrapped};

use super::events::EventsReport;
use super::result::{CaliperReport, SectionEnergy, SectionReport};
use crate::cells::end_of;
use crate::text::{NAME, ended, percent, rest, seconds, subject};

impl CaliperReport {
    /// A row for each section, then where the rest of the energy went.
    pub fn text(&self) -> String {
        let what = subject(&self.pids, &self.command);
        let time = |time: Option<f64>| time.map_or_else(|| "–".to_owned(), seconds);
        let table = Table::of("", &self.sections)
            .text("section", |it| end_of(&it.name, NAME))
            .count("calls", |it| it.calls)
            .written("mean", "", |it| time(it.mean_s))
            .written("p50", "", |it| time(it.p50_s))
            .written("p99", "", |it| time(it.p99_s))
            .written("on CPU", "", |it| seconds(it.on_cpu_s))
            .written("preempted", "", |it| seconds(it.off_cpu.preempted_s))
            .written("energy", "J", |it| {
                let sure = self
                    .energy_of(it)
                    .map(|it| figures::rounded(it.joules.get(), Some(it.uncertainty_j.get())));
                sure.unwrap_or_else(|| "–".to_owned())
            })
            .written("sure", "", |it| {
                let sure = self.energy_of(it).filter(|it| it.joules.get() > 0.0);
                sure.map_or_else(String::new, |it| {
                    figures::accuracy(it.uncertainty_j.get() / it.joules.get())
                })
            })
            .written("a call", "", |it| {
                let found = self.energy_of(it);
                let text = |it: &SectionEnergy| {
                    let share = it.uncertainty_j.get() / it.joules.get();
                    it.per_call_j.map(|joules| scaled(joules.get(), share))
                };
                found.and_then(text).unwrap_or_else(|| "–".to_owned())
            })
            .written("share", "", |it| percent(self.energy_of(it).and_then(|it| it.share)));
        let table = Table::from(table).to_text();
        let head = wrapped(&format!("Sections of {what}, {:.3} s:", self.elapsed_s), 1);
        let mut text = format!("\n {head}\n{table}");
        if let Some(channel) = self.main_channel().and_then(|channel| self.channels.get(channel)) {
            text += &rest(
                channel,
                &format!("(in no section, {})", seconds(self.outside_s)),
                self.elapsed_s,
            );
        }
        if let Some(events) = self.events.as_ref().filter(|events| events.error.is_none()) {
            let EventsReport { file, written, lost, .. } = events;
            // Writing to a String cannot fail.
            let _ = writeln!(text, "\n {written} calls in {file}, {lost} lost");
        }
        text + &ended(self.exit_status)
    }

    fn energy_of<'a>(&self, section: &'a SectionReport) -> Option<&'a SectionEnergy> {
        self.main_channel().and_then(|channel| section.energy.get(channel))
    }
}

/// `12.3 mJ`, with the digits that this share of it leaves sure.
fn scaled(joules: f64, share: f64) -> String {
    let (unit, name) = match joules {
        _ if joules >= 1.0 => (1.0, "J"),
        _ if joules >= 1e-3 => (1e-3, "mJ"),
        _ if joules >= 1e-6 => (1e-6, "uJ"),
        _ => (1e-9, "nJ"),
    };
    let value = joules / unit;
    format!("{} {name}", figures::rounded(value, Some(share * value)))
}

#[cfg(test)]
mod tests {
    use super::scaled;

    #[test]
    fn energy_has_the_digits_that_are_sure() {
        assert_eq!(scaled(0.297_79, 5.9), "300 mJ");
        assert_eq!(scaled(0.297_79, 0.05), "298 mJ");
        assert_eq!(scaled(0.297_79, 0.001), "297.79 mJ");
        assert_eq!(scaled(1.234_6e-8, f64::NAN), "12.35 nJ", "not known: four digits");
    }
}
