//! What a run brought, for people.

use std::fmt::Write;

use crate::fault::Fault;
use crate::fetch::FetchReport;
use crate::info::{Figure, TcpInfo, TcpInfos};
use crate::tally::Times;

/// A table that fits 80 columns.
pub fn text(report: &FetchReport) -> String {
    let mut text = String::new();
    let r = report;
    let _ = writeln!(
        text,
        "connections  {} = {} completed + {} failed + {} cut; {:.1}/s",
        r.started, r.completed, r.failed, r.cut, r.completed_per_s
    );
    for (fault, count) in &r.faults {
        let _ = writeln!(text, "             {count} {fault}");
    }
    if r.cut > 0 {
        let mean = r.cut_s / r.cut as f64 * 1e3;
        let _ = writeln!(
            text,
            "             the cut ones had lived {mean:.3} ms in the mean; no lifetime below has them"
        );
    }
    if r.completed > 0 && r.busy_polled == Some(0) {
        let _ = writeln!(
            text,
            "             nothing to poll: packets come by no queue of a card (loopback, virtual cards)"
        );
    }
    let _ = writeln!(
        text,
        "throughput   {:.3} Gbit/s: {:.1} MB in {:.2} s{}",
        r.throughput_bytes_s * 8e-9,
        r.bytes as f64 * 1e-6,
        r.duration_s,
        r.congestion.as_ref().map_or(String::new(), |name| format!(", {name}"))
    );
    let _ = writeln!(
        text,
        "{:12} {:>9} {:>9} {:>9} {:>9} {:>9}  mean, 95 %",
        "ms", "min", "p50", "p99", "max", "sd"
    );
    for (name, times) in [
        ("handshake", &r.handshake_s),
        ("first byte", &r.first_byte_s),
        ("lifetime", &r.lifetime_s),
        ("closed", &r.closed_s),
    ] {
        if let Some(times) = times {
            write_times(&mut text, name, times);
        }
    }
    write_tcp(&mut text, "client", &r.tcp);
    let _ = writeln!(
        text,
        "client CPU   {}",
        cpu(&r.cpu.usage, r.cpu.s_per_gib, r.cpu.s_per_connection)
    );
    if let Some(server) = &r.server {
        write_tcp(&mut text, "server", &server.session.tcp);
        let per = &server.cpu_per;
        let server_cpu = cpu(&server.session.cpu, per.s_per_gib, per.s_per_connection);
        let _ = writeln!(text, "server CPU   {server_cpu}");
    }
    text
}

fn write_times(text: &mut String, name: &str, times: &Times) {
    let ms = |seconds: f64| format!("{:.3}", seconds * 1e3);
    let maybe = |seconds: Option<f64>| seconds.map_or("-".to_owned(), ms);
    let _ = writeln!(
        text,
        "{name:12} {:>9} {:>9} {:>9} {:>9} {:>9}  {} [{}, {}]",
        ms(times.min),
        ms(times.p50),
        ms(times.p99),
        ms(times.max),
        maybe(times.sd),
        ms(times.mean),
        maybe(times.low_95),
        maybe(times.high_95)
    );
}

fn write_tcp(text: &mut String, who: &str, tcp: &TcpInfos) {
    let sum = |figure: Figure| {
        let several = tcp.get(figure);
        if several.count == 0 { "?".to_owned() } else { several.sum.to_string() }
    };
    let mean = |figure: Figure, scale: f64| {
        tcp.get(figure).mean().map_or("?".to_owned(), |mean| format!("{:.3}", mean * scale))
    };
    if tcp.get(Figure::SegmentsOut).count + tcp.get(Figure::RetransmittedSegments).count == 0 {
        return;
    }
    let _ = writeln!(
        text,
        "{who} TCP   segments {} out, {} in; retransmitted {} ({} bytes); rtt {} ms (min {})",
        sum(Figure::SegmentsOut),
        sum(Figure::SegmentsIn),
        sum(Figure::RetransmittedSegments),
        sum(Figure::RetransmittedBytes),
        mean(Figure::RttUs, 1e-3),
        mean(Figure::MinRttUs, 1e-3),
    );
    let _ = writeln!(
        text,
        "             cwnd {} segments; busy {} ms, of that held by receive window {}, send buffer {}",
        mean(Figure::CwndSegments, 1.0),
        mean(Figure::BusyUs, 1e-3),
        mean(Figure::ReceiveWindowLimitedUs, 1e-3),
        mean(Figure::SendBufferLimitedUs, 1e-3),
    );
}

fn cpu(usage: &crate::usage::Usage, per_gib: Option<f64>, per_connection: Option<f64>) -> String {
    let per = |seconds: Option<f64>, scale: f64, what: &str| {
        seconds.map_or(String::new(), |seconds| format!(", {:.3} {what}", seconds * scale))
    };
    format!(
        "{:.3} s user + {:.3} s system{}{}; {} + {} context switches",
        usage.user.as_secs_f64(),
        usage.system.as_secs_f64(),
        per(per_gib, 1.0, "s per GiB"),
        per(per_connection, 1e3, "ms per connection"),
        usage.voluntary_switches,
        usage.involuntary_switches
    )
}

/// The records of a run, a row for each, and a column for each figure of both kernels; empty where
/// something is not known.
pub fn csv(report: &FetchReport) -> String {
    let nothing = TcpInfo::default();
    let names = |prefix: &str| {
        let names: Vec<String> =
            nothing.figures().map(|(name, _)| format!("{prefix}{name}")).collect();
        names.join(",")
    };
    let mut rows = format!(
        "number,at_s,handshake_s,first_byte_s,lifetime_s,closed_s,bytes,fault,{},{}\n",
        names("client_"),
        names("server_")
    );
    for record in &report.records {
        let _ = write!(rows, "{},{:.9}", record.number, record.at_s);
        let times = [record.handshake_s, record.first_byte_s, record.lifetime_s, record.closed_s];
        for time in times {
            let _ = write!(rows, ",{}", time.map_or(String::new(), |time| format!("{time:.9}")));
        }
        let _ = write!(rows, ",{},{}", record.bytes, record.fault.map_or("", Fault::name));
        for info in [&record.tcp, record.server_tcp.as_ref().unwrap_or(&nothing)] {
            for (_, value) in info.figures() {
                let _ = write!(rows, ",{}", value.map_or(String::new(), |value| value.to_string()));
            }
        }
        rows.push('\n');
    }
    rows
}
