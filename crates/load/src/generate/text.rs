//! What a run of the generator brought, for people.

use std::fmt::Write;

use nightwatt_energy::display::bytes;
use nightwatt_report::grouped;

use super::report::{LoadReport, Quantiles};

/// With fewer answers, one that is late by chance decides whether this machine counts as the bottleneck.
const FEWEST: u64 = 300;

/// A table that fits 80 columns.
pub fn text(report: &LoadReport) -> String {
    let mut text = String::new();
    let LoadReport { requests, rate, client, .. } = report;
    let _ = writeln!(
        text,
        "{:.1} s that count, of {:.1} s; seed {}",
        report.counted_s, report.elapsed_s, report.seed
    );
    let _ = writeln!(
        text,
        "requests     {} due = {} answered + {} failed + {} unsent",
        thousands(requests.due),
        thousands(requests.answered),
        thousands(requests.failed),
        thousands(requests.unsent)
    );
    let wanted = rate.wanted.map_or(String::new(), |rate| format!(" of {rate:.1} wanted"));
    let _ = writeln!(
        text,
        "rate         {:.1}/s due{wanted}, {:.1}/s sent, {:.1}/s answered",
        rate.due, rate.sent, rate.answered
    );
    write_answers(&mut text, report);
    let shares: Vec<String> =
        client.cpu_share.iter().map(|share| format!("{:.0} %", share * 100.0)).collect();
    let _ = writeln!(
        text,
        "client       {} of a processor; {}",
        shares.join(" + "),
        match client.was_the_bottleneck {
            _ if requests.answered < FEWEST => "too few requests to judge its limits",
            true => "it was the bottleneck",
            false => "no limit of it was met",
        }
    );
    if let Some(server) = &report.server {
        let _ = writeln!(
            text,
            "server       {:.2} processors busy ({:.2} s), {} of memory in {} processes",
            server.processors,
            server.cpu_s,
            bytes(server.memory_bytes),
            server.processes
        );
    }
    write_times(&mut text, report);
    text
}

fn write_answers(text: &mut String, report: &LoadReport) {
    let connections = &report.connections;
    let listed = |counts: &mut dyn Iterator<Item = (String, u64)>| {
        let each: Vec<String> =
            counts.map(|(name, count)| format!("{} {name}", thousands(count))).collect();
        if each.is_empty() { "none".to_owned() } else { each.join(", ") }
    };
    let statuses = listed(&mut report.statuses.iter().map(|(name, n)| (name.clone(), *n)));
    let errors = listed(&mut report.errors.iter().map(|(name, n)| ((*name).to_owned(), *n)));
    let _ = writeln!(text, "answers      {statuses}; {} of bodies", bytes(report.body_bytes));
    let _ = writeln!(text, "errors       {errors}");
    let _ = writeln!(
        text,
        "connections  {} opened, {} at once of {} allowed, {} reused after they had died",
        thousands(connections.opened),
        thousands(connections.most_open as u64),
        thousands(connections.limit as u64),
        thousands(connections.resent)
    );
}

fn write_times(text: &mut String, report: &LoadReport) {
    let _ = writeln!(
        text,
        "\nms                        mean      p50      p90      p99    p99.9      max"
    );
    for (name, times) in [
        ("latency, from due", &report.latency_s),
        ("  from sent", &report.service_s),
        ("  to the first byte", &report.first_byte_s),
        ("send lag", &report.send_lag_s),
    ] {
        let _ = writeln!(text, "{}", row(name, times));
    }
    let _ =
        writeln!(text, "(percentiles are at most {:.1} % too high)", report.quantile_error * 100.0);
    if report.latency_s.missing > 0 {
        let _ = writeln!(
            text,
            "* of those that have such a time: {} of {} requests failed or were never sent,\n  and with them \
             it would look worse",
            thousands(report.latency_s.missing),
            thousands(report.requests.due)
        );
    }
}

fn row(name: &str, times: &Quantiles) -> String {
    let Quantiles { mean, p50, p90, p99, p99_9, max, .. } = *times;
    let name = if times.missing > 0 { format!("{name} *") } else { name.to_owned() };
    let mut row = format!("{name:<21}");
    for time in [mean, p50, p90, p99, p99_9, max] {
        let figure = time.map_or("-".to_owned(), |time| format!("{:.3}", time * 1e3));
        let _ = write!(row, " {figure:>8}");
    }
    row
}

fn thousands(n: u64) -> String {
    grouped(n as f64, 0)
}
