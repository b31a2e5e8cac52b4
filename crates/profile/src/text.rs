//! What the reports for people have in common.

use std::time::Duration;

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
        Some(watts) => format!("(idle, {} W)", sure(channel, watts)),
        None => "(idle: not known)".to_owned(),
    };
    let rows = [
        (outside, channel.outside_j),
        ("(other processes)", channel.others_j),
        (&*idle, channel.idle_j),
    ];
    let table = Table::of("", rows)
        .text("elsewhere", |it| it.0)
        .written("", "J", |it| sure(channel, it.1.get()));
    format!(
        "\n{}\n {}, read every {}\n",
        Table::from(table).to_text(),
        total(channel),
        seconds(channel.interval_s)
    )
}

/// `46 J by plug/power, measured, ± 1.0 %`.
pub(crate) fn total(channel: &ChannelTotal) -> String {
    let ChannelTotal { meter, channel: name, provenance, .. } = channel;
    let share = share_off(channel);
    let accuracy =
        if share > 0.0 { format!(", {}", figures::accuracy(share)) } else { String::new() };
    let joules = sure(channel, channel.joules.get());
    format!("{joules} J by {meter}/{name}, {}{accuracy}", provenance.as_str())
}

/// With the digits that the channel leaves sure.
pub(crate) fn sure(channel: &ChannelTotal, value: f64) -> String {
    figures::rounded(value, Some(share_off(channel) * value.abs()))
}

/// How far the energy of a channel may be off, as a share of it. A meter errs in the same direction all the while.
pub(crate) fn share_off(channel: &ChannelTotal) -> f64 {
    let time = Duration::from_secs_f64(channel.interval_s * channel.readings as f64);
    let Joules(off) = channel.accuracy.of(channel.joules, time);
    if channel.joules.get() > 0.0 { off / channel.joules.get() } else { 0.0 }
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
