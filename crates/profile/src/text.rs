//! What the reports for people have in common.

use std::time::Duration;

use nightwatt_energy::quantity::{Joules, Watts};
use nightwatt_report::{Table, figures};

use crate::caliper::ChannelTotal;
use crate::caliper::target::named;

/// Names longer than this are cut.
pub(crate) const NAME: usize = 32;

/// What was watched: `process 12`, `'make all'`.
pub(crate) fn subject(pids: &[u32], command: &[String]) -> String {
    match command {
        [] => named(pids),
        words => format!("'{}'", words.join(" ")),
    }
}

/// How the command ended, where it failed.
pub(crate) fn ended(exit_status: u8) -> String {
    if exit_status == 0 {
        return String::new();
    }
    format!("\n the command ended with exit status {exit_status}\n")
}

/// The energy that no section or function has, and by which meter all of it is.
pub(crate) fn rest(channel: &ChannelTotal, outside: &str, elapsed_s: f64) -> String {
    let elapsed = Duration::from_secs_f64(elapsed_s);
    let idle = idle_power(channel);
    let label = match &idle {
        Some(idle) => format!("(idle, {} W)", figures::rounded(idle.watts, Some(idle.off))),
        None => "(idle: not known)".to_owned(),
    };
    let part =
        |it: Joules| figures::rounded(it.get(), Some(channel.uncertainty(it, elapsed).get()));
    let [outside_j, others_j] = [channel.outside_j, channel.others_j].map(part);
    let idle_j = idle_energy(channel, elapsed_s);
    let rows = [(outside, &*outside_j), ("(other processes)", &*others_j), (&*label, &*idle_j)];
    let table =
        Table::of("", rows).text("elsewhere", |it| it.0).written("", "J", |it| it.1.to_owned());
    format!(
        "\n{}\n {}, read every {}\n",
        Table::from(table).to_text(),
        total(channel, elapsed_s),
        seconds(channel.interval_s)
    )
}

/// `46 J by plug/power, measured, ± 1.0 %`.
pub(crate) fn total(channel: &ChannelTotal, elapsed_s: f64) -> String {
    let ChannelTotal { meter, channel: name, provenance, accuracy, joules, .. } = channel;
    let off = accuracy.of(*joules, Duration::from_secs_f64(elapsed_s));
    let share = if *joules > Joules::ZERO { off / *joules } else { 0.0 };
    let known = if share > 0.0 { format!(", {}", figures::accuracy(share)) } else { String::new() };
    let joules = figures::rounded(joules.get(), Some(off.get()));
    format!("{joules} J by {meter}/{name}, {}{known}", provenance.as_str())
}

/// What the idle machine used meanwhile.
pub(crate) fn idle_energy(channel: &ChannelTotal, elapsed_s: f64) -> String {
    let off = idle_power(channel).map(|it| it.off * elapsed_s);
    figures::rounded(channel.idle_j.get(), off)
}

/// A power, and how far it may be off, W.
struct IdlePower {
    watts: f64,
    off: f64,
}

fn idle_power(channel: &ChannelTotal) -> Option<IdlePower> {
    let watts = channel.idle_w?;
    let meter = channel.accuracy.at(Watts(watts)).get();
    Some(IdlePower { watts, off: meter.hypot(channel.idle_half_width_w.unwrap_or(0.0)) })
}

/// A share in per cent.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", 100.0 * share))
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

#[cfg(test)]
mod tests {
    use nightwatt_energy::energy::Provenance;
    use nightwatt_energy::uncertainty::Accuracy;
    use nightwatt_meters::Scope;

    use super::*;

    /// 230 J in 10 s by a meter of 1 %, of which an idle machine of 20 ± 1 W has 200 J: so 30 J above it may be off by
    /// 2.3 J for the meter and by 10 J for the idle machine.
    fn channel() -> ChannelTotal {
        ChannelTotal {
            meter: "plug".to_owned(),
            channel: "power".to_owned(),
            scope: Scope::Wall,
            provenance: Provenance::Measured { meter: "plug".to_owned() },
            accuracy: Accuracy::relative(0.01),
            joules: Joules(230.0),
            sections_j: Joules(5.0),
            outside_j: Joules(0.0),
            others_j: Joules(25.0),
            idle_j: Joules(200.0),
            idle_w: Some(20.0),
            idle_half_width_w: Some(1.0),
            readings: 10,
            interval_s: 1.0,
        }
    }

    #[test]
    fn no_digit_is_surer_than_meter_and_idle_power() {
        let mut channel = channel();
        // 25 J are five sixths of what is above the idle machine: 8.33 J of its 10, and 0.25 J of the meter.
        let off = channel.uncertainty(Joules(25.0), Duration::from_secs(10)).get();
        assert!((off - (10.0_f64 * 25.0 / 30.0).hypot(0.25)).abs() < 1e-9, "{off}");
        let text = rest(&channel, "(in no section)", 10.0);
        let rows: Vec<Vec<&str>> = text.lines().map(|it| it.split_whitespace().collect()).collect();
        let last = |name: &str| {
            let row = rows.iter().find(|row| row.first() == Some(&name)).unwrap();
            *row.last().unwrap()
        };
        assert_eq!(last("(other"), "25");
        // 0.2 W of the meter and 1 W: 20.0 ± 1.02 W, and ten times that.
        assert!(text.contains("(idle, 20.0 W)") && last("(idle,") == "200", "{text}");
        assert!(
            text.contains("230.0 J by plug/power, measured, ± 1.0 %, read every 1.000 s"),
            "{text}"
        );
        // Where the idle power is not known, a constant error of the meter is in all energy.
        (channel.idle_w, channel.idle_half_width_w, channel.idle_j) = (None, None, Joules(0.0));
        channel.accuracy = Accuracy { relative: 0.0, watts: Watts(0.5) };
        let off = channel.uncertainty(Joules(46.0), Duration::from_secs(10)).get();
        assert!((off - 5.0 * 46.0 / 230.0).abs() < 1e-9, "{off}");
    }
}
