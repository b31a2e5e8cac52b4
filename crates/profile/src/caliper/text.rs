//! The report for people.

use std::fmt::Write;

use crate::cells::end_of;

use super::events::EventsReport;
use super::result::{CaliperReport, ChannelTotal, SectionReport};
use super::target;

/// Names longer than this are cut.
pub(super) const NAME: usize = 32;

impl CaliperReport {
    /// A row for each section, then where the rest of the energy went.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let what = match self.command.as_slice() {
            [] => target::named(&self.pids),
            command => format!("'{}'", command.join(" ")),
        };
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "\n Sections of {what}, {:.3} s:\n", self.elapsed_s);
        let _ = writeln!(
            text,
            " {:<NAME$} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>11} {:>8} {:>10} {:>7}",
            "section",
            "calls",
            "mean",
            "p50",
            "p99",
            "on CPU",
            "preempted",
            "J",
            "±",
            "J/call",
            "share"
        );
        let channel = self.main_channel();
        for section in &self.sections {
            section.write(&mut text, channel);
        }
        if let Some(channel) = channel.and_then(|channel| self.channels.get(channel)) {
            self.write_rest(&mut text, channel);
        }
        if let Some(events) = self.events.as_ref().filter(|events| events.error.is_none()) {
            let EventsReport { file, written, lost, .. } = events;
            let _ = writeln!(text, "\n {written} calls in {file}, {lost} lost");
        }
        if self.exit_status != 0 {
            let _ = writeln!(text, "\n the command ended with exit status {}", self.exit_status);
        }
        text
    }

    fn write_rest(&self, text: &mut String, channel: &ChannelTotal) {
        let watched: f64 = self.outside_s;
        let mut row = |name: &str, on_cpu: &str, joules: f64| {
            let _ = writeln!(
                text,
                " {name:<NAME$} {:>10} {:>10} {:>10} {:>10} {on_cpu:>10} {:>10} {:>11}",
                "",
                "",
                "",
                "",
                "",
                figure(joules)
            );
        };
        row("(in no section)", &seconds(watched), channel.outside_j.get());
        row("(other processes)", "", channel.others_j.get());
        match channel.idle_w {
            Some(watts) => row(&format!("(idle, {watts:.3} W)"), "", channel.idle_j.get()),
            None => row("(idle: not known)", "", channel.idle_j.get()),
        }
        let _ = writeln!(
            text,
            "\n {} J by {}/{}, {}, read every {}",
            figure(channel.joules.get()),
            channel.meter,
            channel.channel,
            channel.provenance.as_str(),
            seconds(channel.interval_s)
        );
    }
}

impl SectionReport {
    fn write(&self, text: &mut String, channel: Option<usize>) {
        let time = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), seconds);
        let energy = channel.and_then(|channel| self.energy.get(channel));
        let joules = energy.map_or_else(|| "-".to_owned(), |it| figure(it.joules.get()));
        let sure = energy.filter(|it| it.joules.get() > 0.0);
        let sure = sure.map_or_else(String::new, |it| {
            format!("{:.1} %", 100.0 * it.uncertainty_j.get() / it.joules.get())
        });
        let per_call = energy.and_then(|it| it.per_call_j);
        let share = energy.and_then(|it| it.share);
        let _ = writeln!(
            text,
            " {:<NAME$} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {joules:>11} {sure:>8} {:>10} {:>7}",
            end_of(&self.name, NAME),
            self.calls,
            time(self.mean_s),
            time(self.p50_s),
            time(self.p99_s),
            seconds(self.on_cpu_s),
            seconds(self.off_cpu.preempted_s),
            per_call.map_or_else(|| "-".to_owned(), |it| scaled(it.get())),
            share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", 100.0 * share)),
        );
    }
}

/// Joules with five digits that count.
pub(crate) fn figure(joules: f64) -> String {
    let digits = if joules > 0.0 { 4 - joules.log10().floor() as i32 } else { 2 };
    let digits = digits.clamp(0, 6) as usize;
    format!("{joules:.digits$}")
}

/// `1.234 ms`.
pub(crate) fn seconds(time: f64) -> String {
    match time {
        _ if time >= 1.0 => format!("{time:.3} s"),
        _ if time >= 1e-3 => format!("{:.3} ms", time * 1e3),
        _ if time >= 1e-6 => format!("{:.2} us", time * 1e6),
        _ => format!("{:.0} ns", time * 1e9),
    }
}

/// `12.3 mJ`.
fn scaled(joules: f64) -> String {
    match joules {
        _ if joules >= 1.0 => format!("{joules:.3} J"),
        _ if joules >= 1e-3 => format!("{:.2} mJ", joules * 1e3),
        _ if joules >= 1e-6 => format!("{:.2} uJ", joules * 1e6),
        _ => format!("{:.1} nJ", joules * 1e9),
    }
}
