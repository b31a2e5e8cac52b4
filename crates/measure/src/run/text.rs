//! The report for people: figures on the left, as `perf stat` has them.

use std::fmt::Write;

use nightwatt_report::figures;

use super::cpu_time::CountedBy;
use super::result::{AttributedBy, ChannelReport, RunReport, Share, Spread};

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
            write_share(&mut text, share, self.runs.len());
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
            let _ = writeln!(text, "{:>12} J  {name:<20} {by}: no reading", "-");
            return;
        };
        let share = uncertainty.get() / joules.mean.abs();
        let sure = accuracy(uncertainty.get(), joules.mean);
        let watts = channel.watts.unwrap_or(f64::NAN);
        let _ = writeln!(
            text,
            "{:>12} J  {name:<20} {:>7} W   {sure}, {by}",
            figures::rounded(joules.mean, Some(uncertainty.get())),
            figures::rounded(watts, Some(share * watts)),
        );
        if let Some(dynamic) = channel.dynamic {
            let sure = accuracy(dynamic.uncertainty_j, dynamic.joules);
            let half_width = dynamic.idle_half_width_95;
            let _ = writeln!(
                text,
                "{:>12} J    beyond idle        {:>7} W   {sure}",
                figures::rounded(dynamic.joules, Some(dynamic.uncertainty_j)),
                figures::rounded(
                    dynamic.joules / self.elapsed_s.mean,
                    Some(dynamic.uncertainty_j / self.elapsed_s.mean)
                ),
            );
            let _ = writeln!(
                text,
                "                  idle               {:>7} W   ± {} W",
                figures::rounded(dynamic.idle_watts, Some(half_width)),
                figures::rounded(half_width, Some(half_width)),
            );
        }
        if let Some(attributed) = channel.attributed_j {
            let of = match channel.attributed_by {
                Some(AttributedBy::AcceleratorTime) => "the accelerator's",
                _ => "CPU",
            };
            // Not surer than what it is a share of.
            let joules = figures::rounded(attributed, Some(share * attributed));
            let _ = writeln!(text, "{joules:>12} J    by share of {of} time");
        }
    }
}

/// As a share; in joules where there is nothing to be a share of.
fn accuracy(uncertainty: f64, joules: f64) -> String {
    let share = uncertainty / joules.abs();
    if share.is_finite() {
        figures::accuracy(share)
    } else {
        format!("± {} J", figures::rounded(uncertainty, None))
    }
}

fn write_share(text: &mut String, share: Share, runs: usize) {
    let counted = match share.by {
        CountedBy::Cgroup => "",
        CountedBy::Descendants => ", in other cgroups too",
        CountedBy::ProcessTree => ", of processes that were waited for",
    };
    // Writing to a String cannot fail.
    let _ = match share.of_busy_cpu {
        Some(of_busy_cpu) => {
            let percent = of_busy_cpu * 100.0;
            let busy = share.machine_busy_s / runs.max(1) as f64;
            let each = if runs > 1 { " a run" } else { "" };
            writeln!(
                text,
                "{percent:>12.1} %  of the machine's busy CPU time ({busy:.2} s{each}{counted})"
            )
        }
        None => writeln!(
            text,
            "           – %  of the machine's busy CPU time (too short to tell{counted})"
        ),
    };
    if let Some(of_instructions) = share.of_instructions {
        let percent = of_instructions * 100.0;
        let _ = writeln!(text, "{percent:>12.1} %  of the machine's instructions");
    }
}

fn write_time(text: &mut String, what: &str, time: Spread) {
    let percent = time.half_width_95.map(|half_width| half_width / time.mean * 100.0);
    let sure = match percent.filter(|percent| percent.is_finite()) {
        Some(percent) if percent > 100.0 => "   ± unknown, more runs needed".to_owned(),
        Some(percent) => format!("   ± {percent:.1} %"),
        None => String::new(),
    };
    let _ = writeln!(text, "{:>12.4} s  {what:<20}{sure}", time.mean);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(of_busy_cpu: Option<f64>) -> Share {
        let (cpu_s, machine_busy_s, by) = (0.3, 1.2, CountedBy::Cgroup);
        Share { of_busy_cpu, cpu_s, machine_busy_s, by, of_instructions: None }
    }

    #[test]
    fn a_share_is_printed_only_if_there_is_one() {
        let shown = |of_busy_cpu, runs| {
            let mut text = String::new();
            write_share(&mut text, share(of_busy_cpu), runs);
            text
        };
        let of = "of the machine's busy CPU time";
        assert_eq!(shown(Some(0.25), 3), format!("        25.0 %  {of} (0.40 s a run)\n"));
        assert_eq!(shown(None, 3), format!("           – %  {of} (too short to tell)\n"));
    }

    /// Of two short runs the time is known; how it varies is not.
    #[test]
    fn a_time_stays_where_only_its_spread_is_unknown() {
        let shown = |half_width| {
            let mut text = String::new();
            let half_width_95 = Some(half_width);
            write_time(&mut text, "elapsed", Spread { mean: 0.4071, sd: None, half_width_95 });
            text
        };
        let elapsed = "      0.4071 s  elapsed             ";
        assert_eq!(shown(0.5), format!("{elapsed}   ± unknown, more runs needed\n"));
        assert!(shown(0.04).starts_with(&format!("{elapsed}   ± 9.8 %")), "{}", shown(0.04));
    }
}
