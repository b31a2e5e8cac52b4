//! The report for people: figures on the left, as `perf stat` has them.

use std::fmt::Write;

use super::cpu_time::CountedBy;
use super::result::{AttributedBy, ChannelReport, RunReport, Spread};

impl RunReport {
    /// Figures, what they are of, and how sure they are.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let runs = match self.runs.len() {
            1 => String::new(),
            runs => format!(" ({runs} runs)"),
        };
        // Writing to a String cannot fail, here and below.
        let command = self.command.join(" ");
        let _ = writeln!(text, "\n Energy of '{command}'{runs}:\n");
        for channel in &self.channels {
            self.write_channel(&mut text, channel);
        }
        text.push('\n');
        write_time(&mut text, "elapsed", self.elapsed_s);
        write_time(&mut text, "user", self.user_s);
        write_time(&mut text, "sys", self.sys_s);
        if let Some(share) = self.share {
            let percent = share.of_busy_cpu * 100.0;
            let busy = share.machine_busy_s / self.runs.len().max(1) as f64;
            let each = if self.runs.len() > 1 { " a run" } else { "" };
            let counted = match share.by {
                CountedBy::Cgroup => "",
                CountedBy::Descendants => ", in other cgroups too",
                CountedBy::ProcessTree => ", of processes that were waited for",
            };
            let _ = writeln!(
                text,
                "{percent:>16.1} %  of the machine's busy CPU time ({busy:.2} s{each}{counted})"
            );
            if let Some(of_instructions) = share.of_instructions {
                let percent = of_instructions * 100.0;
                let _ = writeln!(text, "{percent:>16.1} %  of the machine's instructions");
            }
        }
        if self.exit_status != 0 {
            let _ = writeln!(text, "\n the command ended with exit status {}", self.exit_status);
        }
        text
    }

    fn write_channel(&self, text: &mut String, channel: &ChannelReport) {
        let name = format!("{}/{}", channel.meter, channel.channel);
        let by = channel.provenance.as_str();
        let (Some(joules), Some(uncertainty)) = (channel.joules, channel.uncertainty_j) else {
            let _ = writeln!(text, "{:>16} J  {name:<24} {by}: said nothing", "-");
            return;
        };
        let percent = relative(uncertainty.get(), joules.mean);
        let watts = channel.watts.unwrap_or(f64::NAN);
        let _ = writeln!(
            text,
            "{:>16} J  {name:<24} {watts:>9.3} W   ± {percent:<7} {by}",
            figure(joules.mean)
        );
        if let Some(dynamic) = channel.dynamic {
            let percent = relative(dynamic.uncertainty_j, dynamic.joules);
            let _ = writeln!(
                text,
                "{:>16} J    beyond idle            {:>9.3} W   ± {percent:<7} idle: {:.3} ± {:.3} W",
                figure(dynamic.joules),
                dynamic.joules / self.elapsed_s.mean,
                dynamic.idle_watts,
                dynamic.idle_half_width_95,
            );
        }
        if let Some(attributed) = channel.attributed_j {
            let of = match channel.attributed_by {
                Some(AttributedBy::AcceleratorTime) => "the accelerator's",
                _ => "CPU",
            };
            let _ = writeln!(text, "{:>16} J    by share of {of} time", figure(attributed));
        }
    }
}

/// Five digits that count.
fn figure(joules: f64) -> String {
    let digits = match joules.abs() {
        large if large >= 10_000.0 => 0,
        large if large >= 1000.0 => 1,
        medium if medium >= 100.0 => 2,
        small if small >= 10.0 => 3,
        _ => 4,
    };
    format!("{joules:.digits$}")
}

fn relative(uncertainty: f64, joules: f64) -> String {
    let percent = uncertainty / joules.abs() * 100.0;
    if percent.is_finite() && percent < 100.0 {
        format!("{percent:.1} %")
    } else {
        format!("{} J", figure(uncertainty))
    }
}

fn write_time(text: &mut String, what: &str, time: Spread) {
    let percent = time.half_width_95.map(|half_width| half_width / time.mean * 100.0);
    let sure = match percent.filter(|percent| percent.is_finite()) {
        Some(percent) => format!("   ± {percent:.1} %"),
        None => String::new(),
    };
    let _ = writeln!(text, "{:>16.4} s  {what:<24}{sure}", time.mean);
}
