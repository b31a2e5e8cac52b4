//! What the reports for people have in common.

use nightwatt_energy::energy::Provenance;
use nightwatt_energy::quantity::Joules;
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
pub(crate) fn rest(channel: &ChannelTotal, outside: &str) -> String {
    let idle = match channel.idle_w {
        Some(watts) => format!("(idle, {watts:.3} W)"),
        None => "(idle: not known)".to_owned(),
    };
    let rows = [
        (outside, channel.outside_j),
        ("(other processes)", channel.others_j),
        (&*idle, channel.idle_j),
    ];
    // The digits of a model are no surer than the model.
    let is_modelled = matches!(channel.provenance, Provenance::Modelled { .. });
    let share = Some(channel.accuracy.relative).filter(|share| is_modelled && *share > 0.0);
    let shown = |joules: Joules| match share {
        Some(share) => figures::rounded(joules.get(), Some(share * joules.get().abs())),
        None => figure(joules.get()),
    };
    let sure = share.map_or_else(String::new, |share| format!(", {}", figures::accuracy(share)));
    let table = Table::of("", rows).text("elsewhere", |it| it.0).written("", "J", |it| shown(it.1));
    format!(
        "\n{}\n {} J by {}/{}, {}{sure}, read every {}\n",
        Table::from(table).to_text(),
        shown(channel.joules),
        channel.meter,
        channel.channel,
        channel.provenance.as_str(),
        seconds(channel.interval_s)
    )
}

/// A share in per cent.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

/// Joules with five digits that count.
pub(crate) fn figure(joules: f64) -> String {
    digits(joules, 5)
}

/// With so many digits that count, of an amount above 0.
pub(crate) fn digits(value: f64, count: i32) -> String {
    let digits = if value > 0.0 { count - 1 - value.log10().floor() as i32 } else { count - 3 };
    format!("{value:.*}", digits.clamp(0, 6) as usize)
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
