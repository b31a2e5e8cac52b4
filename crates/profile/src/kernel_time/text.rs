//! The report for people.

use std::fmt::Write;

use crate::pure::kernel_time::ShareEstimate;

use super::result::{CategoryReport, FunctionReport, KernelTimeReport};
use crate::caliper::text::{figure, seconds};

/// Number of functions shown of each category.
const SHOWN: usize = 4;

/// Number of unknown functions shown, and of programs.
const SHOWN_UNKNOWN: usize = 10;

impl KernelTimeReport {
    /// A table for each level, one of unknown functions, and one of programs.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let what = match (&self.command[..], &self.processes[..]) {
            ([], []) => "this machine".to_owned(),
            ([], processes) => {
                let processes: Vec<String> = processes.iter().map(u32::to_string).collect();
                format!("process {}", processes.join(", "))
            }
            (command, _) => format!("'{}'", command.join(" ")),
        };
        let counts = &self.samples;
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            text,
            "\n Where the CPUs' time went: {what}, {:.3} s, {} samples of {} CPUs, one each {} on each;\n {} \
             due and not taken, {} lost. At rest: {} of the time. Shares are of the rest.\n",
            self.elapsed_s,
            counts.busy + counts.idle,
            self.cpus,
            seconds(self.period_s),
            counts.missed,
            counts.lost,
            ranged(self.idle.as_ref()),
        );
        self.table(&mut text, "operating system", &self.os);
        self.row(&mut text, &self.changing);
        if self.tcp.iter().any(|it| it.samples > 0) {
            let _ = writeln!(text);
            self.table(&mut text, "TCP, of its time", &self.tcp);
        }
        self.rest(&mut text);
        if self.exit_status != 0 {
            let _ = writeln!(text, "\n the command ended with exit status {}", self.exit_status);
        }
        text
    }

    fn table(&self, text: &mut String, what: &str, categories: &[CategoryReport]) {
        let _ = writeln!(
            text,
            " {what:<24} {:>8} {:>8} {:>16} {:>9} {:>16} {:>10}",
            "samples", "share", "95 %", "own", "95 %", "J"
        );
        for category in categories {
            self.row(text, category);
            let functions = told(&category.functions, category.samples, SHOWN);
            if !functions.is_empty() && category.name != "Unknown" {
                let _ = writeln!(text, "     {functions}");
            }
        }
    }

    fn row(&self, text: &mut String, category: &CategoryReport) {
        let energy = self.main_channel().and_then(|channel| category.energy.get(channel));
        let _ = writeln!(
            text,
            " {:<24} {:>8} {:>8} {:>16} {:>9} {:>16} {:>10}",
            category.name,
            category.samples,
            share(category.share.as_ref()),
            bounds(category.share.as_ref()),
            share(category.own_share.as_ref()),
            bounds(category.own_share.as_ref()),
            energy.map_or_else(|| "-".to_owned(), |it| figure(it.joules.get())),
        );
    }

    fn rest(&self, text: &mut String) {
        let unknown = self.os.last().filter(|it| it.samples > 0);
        if let Some(unknown) = unknown {
            let functions = told(&unknown.functions, unknown.samples, SHOWN_UNKNOWN);
            let _ = writeln!(text, "\n unknown: {functions}");
        }
        let busy = self.samples.busy;
        let program = |it: &super::ProgramReport| {
            let (user, kernel) = (it.user_samples, it.kernel_samples);
            let all = 100.0 * (user + kernel) as f64 / busy.max(1) as f64;
            let whose = if it.is_under_test { ", under test" } else { "" };
            format!("{} {all:.1} % ({user} + {kernel}{whose})", it.name)
        };
        let programs: Vec<String> = self.programs.iter().take(SHOWN_UNKNOWN).map(program).collect();
        let _ = writeln!(
            text,
            "\n in whose name (in its code + in the kernel): {}\n own: {} samples of what is under test and of \
             the kernel itself, without other programs\n {} of all were a helper's, and count for whom it served: {}",
            programs.join(", "),
            self.samples.own,
            share(self.helpers.share.as_ref()),
            told(&self.helpers.functions, self.helpers.samples, SHOWN),
        );
        let channel = self.main_channel().and_then(|channel| self.channels.get(channel));
        if let Some(channel) = channel {
            let _ = writeln!(
                text,
                " {} J by {}/{}, {}; {} J of it idle",
                figure(channel.joules.get()),
                channel.meter,
                channel.channel,
                channel.provenance.as_str(),
                figure(channel.idle_j.get()),
            );
        }
    }
}

fn share(of: Option<&ShareEstimate>) -> String {
    of.map_or_else(|| "-".to_owned(), |it| format!("{:.1} %", 100.0 * it.share))
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
fn told(functions: &[FunctionReport], of: u64, most: usize) -> String {
    let one = |function: &FunctionReport| {
        format!("{} {:.0} %", function.name, 100.0 * function.samples as f64 / of.max(1) as f64)
    };
    functions.iter().take(most).map(one).collect::<Vec<_>>().join(", ")
}
