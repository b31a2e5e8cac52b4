//! The report for people.

use std::time::Duration;

use nightwatt_report::{Table, figures, wrapped};

use super::result::{CategoryReport, EnergyReport, FunctionReport, KernelTimeReport};
use crate::pure::kernel_time::ShareEstimate;
use crate::text::{ended, idle_energy, percent, seconds, total};

/// Number of functions shown of each category.
const SHOWN: usize = 4;

/// Number of unknown functions shown, and of programs.
const SHOWN_UNKNOWN: usize = 10;

impl KernelTimeReport {
    /// A table for each level, one of unknown functions, and one of programs.
    pub fn text(&self) -> String {
        let what = match (&self.command[..], &self.processes[..]) {
            ([], []) => "this machine".to_owned(),
            ([], processes) => {
                let processes: Vec<String> = processes.iter().map(u32::to_string).collect();
                format!("process {}", processes.join(", "))
            }
            (command, _) => format!("'{}'", command.join(" ")),
        };
        let counts = &self.samples;
        let head = format!(
            "Where the CPUs' time went: {what}, {:.3} s, {} samples of {} CPUs, one each {} on each; {} due \
             and not taken, {} lost. At rest: {} of the time. Shares are of the rest.",
            self.elapsed_s,
            counts.busy + counts.idle,
            self.cpus,
            seconds(self.period_s),
            counts.missed,
            counts.lost,
            ranged(self.idle.as_ref()),
        );
        let os = self.table("operating system", self.os.iter().chain([&self.changing]));
        let mut text = format!("\n {}\n{os}", wrapped(&head, 1));
        if self.tcp.iter().any(|it| it.samples > 0) {
            text.push('\n');
            text += &self.table("TCP, of its time", &self.tcp);
        }
        text + &self.rest() + &ended(self.exit_status)
    }

    fn table<'a>(
        &self,
        what: &str,
        categories: impl IntoIterator<Item = &'a CategoryReport>,
    ) -> String {
        let energy = |it: &CategoryReport| {
            let number = self.main_channel()?;
            let EnergyReport { joules, low_j, high_j, .. } = it.energy.get(number)?;
            let elapsed = Duration::from_secs_f64(self.elapsed_s);
            let off = self.channels.get(number)?.uncertainty(*joules, elapsed).get();
            // What the meter and the samples leave sure.
            let half_width = off.hypot((high_j.get() - low_j.get()) / 2.0);
            Some(figures::rounded(joules.get(), Some(half_width)))
        };
        let table = Table::of("", categories)
            .text(what, |it| it.name)
            .count("samples", |it| it.samples)
            .written("share", "", |it| share(it.share.as_ref()))
            .written("95 %", "%", |it| bounds(it.share.as_ref()))
            .written("own", "", |it| share(it.own_share.as_ref()))
            .written("95 %", "%", |it| bounds(it.own_share.as_ref()))
            .written("energy", "J", |it| energy(it).unwrap_or_else(|| "–".to_owned()))
            .text("most of it", |it| largest(&it.functions, it.samples, SHOWN));
        Table::from(table).to_text()
    }

    fn rest(&self) -> String {
        let mut text = String::from("\n");
        let mut line = |words: &str| {
            text.push(' ');
            text += &wrapped(words, 1);
        };
        if let Some(unknown) = self.os.last().filter(|it| it.samples > 0) {
            let functions = largest(&unknown.functions, unknown.samples, SHOWN_UNKNOWN);
            line(&format!("unknown: {functions}"));
        }
        let busy = self.samples.busy;
        let program = |it: &super::ProgramReport| {
            let (user, kernel) = (it.user_samples, it.kernel_samples);
            let all = 100.0 * (user + kernel) as f64 / busy.max(1) as f64;
            let whose = if it.is_under_test { ", under test" } else { "" };
            format!("{} {all:.1} % ({user} + {kernel}{whose})", it.name)
        };
        let programs: Vec<String> = self.programs.iter().take(SHOWN_UNKNOWN).map(program).collect();
        line(&format!("in whose name (in its code + in the kernel): {}", programs.join(", ")));
        line(&format!(
            "own: {} samples of what is under test and of the kernel itself, without other programs",
            self.samples.own
        ));
        line(&format!(
            "{} of all were a helper's, and count for whom it served: {}",
            share(self.helpers.share.as_ref()),
            largest(&self.helpers.functions, self.helpers.samples, SHOWN)
        ));
        if let Some(channel) = self.main_channel().and_then(|channel| self.channels.get(channel)) {
            let idle = idle_energy(channel, self.elapsed_s);
            line(&format!("{}; {idle} J of it idle", total(channel, self.elapsed_s)));
        }
        text
    }
}

fn share(of: Option<&ShareEstimate>) -> String {
    percent(of.map(|it| it.share))
}

fn bounds(of: Option<&ShareEstimate>) -> String {
    of.map_or_else(String::new, |it| format!("{:.1} .. {:.1}", 100.0 * it.low, 100.0 * it.high))
}

fn ranged(of: Option<&ShareEstimate>) -> String {
    of.map_or_else(
        || "-".to_owned(),
        |it| format!("{:.1} % ({:.1} .. {:.1})", 100.0 * it.share, 100.0 * it.low, 100.0 * it.high),
    )
}

/// `tcp_ack 31 %, tcp_rcv_established 22 %`: the first of them, and their shares of the category.
fn largest(functions: &[FunctionReport], of: u64, most: usize) -> String {
    let one = |function: &FunctionReport| {
        format!(
            "{} {:.0}\u{a0}%",
            function.name,
            100.0 * function.samples as f64 / of.max(1) as f64
        )
    };
    functions.iter().take(most).map(one).collect::<Vec<_>>().join(", ")
}
