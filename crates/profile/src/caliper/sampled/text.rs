//! The report for people.

use std::fmt::Write;

use super::super::result::ChannelTotal;
use super::super::target;
use super::super::text::{NAME, figure, seconds};
use super::result::{SampledFunction, SampledReport};
use crate::cells::end_of;

/// Number of functions that are shown if the user named none.
const SHOWN: usize = 25;

/// Files' names longer than this are cut.
const FILE: usize = 20;

impl SampledReport {
    /// A row for each function, then where the rest of the energy went.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let what = match self.command.as_slice() {
            [] => target::named(&self.pids),
            command => format!("'{}'", command.join(" ")),
        };
        let counts = &self.samples;
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            text,
            "\n Functions of {what}, {:.3} s, sampled: {} samples of it, one each {} on each CPU;\n {} \
             of others, {} of idle CPUs, {} due and not taken, {} lost\n",
            self.elapsed_s,
            counts.watched,
            seconds(self.period_s),
            counts.others,
            counts.idle,
            counts.missed,
            counts.lost,
        );
        let _ = writeln!(
            text,
            " {:<NAME$} {:<FILE$} {:>8} {:>10} {:>10} {:>21} {:>7} {:>10} {:>7}",
            "function",
            "file",
            "samples",
            "CPU",
            "J",
            "95 % of samplings",
            "share",
            "with calls",
            "share"
        );
        let channel = self.main_channel();
        let shown = if self.asked() { self.functions.len() } else { SHOWN };
        let dynamic = channel.and_then(|channel| self.channels.get(channel));
        let dynamic = dynamic.map_or(0.0, |total| total.joules.get() - total.idle_j.get());
        for function in self.functions.iter().take(shown) {
            function.write(&mut text, channel, dynamic);
        }
        if let Some((place, channel)) =
            channel.and_then(|place| Some((place, self.channels.get(place)?)))
        {
            self.write_rest(&mut text, shown, place, channel);
        }
        if self.exit_status != 0 {
            let _ = writeln!(text, "\n the command ended with exit status {}", self.exit_status);
        }
        text
    }

    fn write_rest(&self, text: &mut String, shown: usize, place: usize, channel: &ChannelTotal) {
        let width = NAME + FILE + 1;
        let mut row = |name: &str, samples: &str, joules: f64| {
            let _ =
                writeln!(text, " {name:<width$} {samples:>8} {:>10} {:>10}", "", figure(joules));
        };
        let rest = self.functions.get(shown..).unwrap_or_default();
        if !rest.is_empty() {
            let joules = rest.iter().filter_map(|function| function.energy.get(place));
            let samples: u64 = rest.iter().map(|function| function.self_samples).sum();
            row(
                &format!("({} more functions: --json)", rest.len()),
                &samples.to_string(),
                joules.map(|energy| energy.self_j.get()).sum(),
            );
        }
        let outside = if self.asked() { "(in none of them)" } else { "(place unknown)" };
        row(outside, "", channel.outside_j.get());
        row("(other processes)", &self.samples.others.to_string(), channel.others_j.get());
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

impl SampledFunction {
    fn write(&self, text: &mut String, channel: Option<usize>, dynamic: f64) {
        let energy = channel.and_then(|channel| self.energy.get(channel));
        let cell = |of: Option<f64>| of.map_or_else(|| "-".to_owned(), figure);
        let share = |joules: f64| {
            let share = if dynamic > 0.0 { joules / dynamic } else { 0.0 };
            format!("{:.1} %", 100.0 * share)
        };
        let share = |of: Option<f64>| of.map_or_else(|| "-".to_owned(), share);
        let alone = energy.map(|it| it.self_j.get());
        let all = energy.map(|it| it.joules.get());
        let bounds = energy.map_or_else(String::new, |it| {
            format!("{} .. {}", figure(it.self_low_j.get()), figure(it.self_high_j.get()))
        });
        let file = self.file.rsplit('/').next().unwrap_or(&self.file);
        let _ = writeln!(
            text,
            " {:<NAME$} {:<FILE$} {:>8} {:>10} {:>10} {bounds:>21} {:>7} {:>10} {:>7}",
            end_of(&self.name, NAME),
            end_of(file, FILE),
            self.self_samples,
            seconds(self.self_s),
            cell(alone),
            share(alone),
            cell(all),
            share(all),
        );
    }
}
