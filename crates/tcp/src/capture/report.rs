//! A whole capture, as figures and for people.

use std::fmt::Write;
use std::io::Read;

use serde::Serialize;

use super::CaptureError;
use super::connection::{At, Closed, ConnectionRow};
use super::counts::Counts;
use super::file::{CaptureFile, FileEnd, Frame};
use super::flow::RoundTrips;
use super::headers::{FrameKind, packet};
use super::table::{Table, Totals};

/// What the packets of a file were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Packets {
    /// All of them.
    pub all: u64,
    /// TCP.
    pub tcp: u64,
    /// Other protocols.
    pub other: u64,
    /// Of a link layer that is not known here.
    pub unknown_link: u64,
    /// Parts of IP packets, whose TCP header says nothing of their length.
    pub fragments: u64,
    /// Captured too short for a TCP header.
    pub short: u64,
    /// With headers that contradict each other.
    pub malformed: u64,
    /// Captured in part.
    pub cut: u64,
    /// Of TCP, those of whose options some were not captured: selective acknowledgements and timestamps may be
    /// missing, and what follows from them.
    pub options_cut: u64,
}

/// What a capture says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaptureReport {
    /// Of this report's form.
    pub schema: u32,
    /// `pcap` or `pcapng`.
    pub format: &'static str,
    /// How the file ended.
    pub file_end: FileEnd,
    /// What was in it.
    pub packets: Packets,
    /// From its first packet to its last, s.
    pub duration_s: f64,
    /// Where it was said to have been captured.
    pub given_at: Option<At>,
    /// Sums.
    pub totals: Totals,
    /// The first connections.
    pub connections: Vec<ConnectionRow>,
}

/// Reads a capture to its end. At most `rows` connections are kept beside the sums.
pub fn check(
    reader: impl Read,
    given: Option<At>,
    rows: usize,
) -> Result<CaptureReport, CaptureError> {
    check_while(reader, given, rows, |_| true)
}

/// The same of one that is still being written: up to the first frame that `goes_on` is false of. It is shown
/// each of them.
pub fn check_while(
    reader: impl Read,
    given: Option<At>,
    rows: usize,
    mut goes_on: impl FnMut(&Frame<'_>) -> bool,
) -> Result<CaptureReport, CaptureError> {
    let mut file = CaptureFile::open(reader)?;
    let mut table = Table::new(given, rows);
    let mut packets = Packets::default();
    let mut span: Option<(i64, i64)> = None;
    while let Some(frame) = file.next_frame()? {
        if !goes_on(&frame) {
            break;
        }
        packets.all += 1;
        packets.cut += u64::from((frame.bytes.len() as u64) < u64::from(frame.original));
        let (first, last) = span.unwrap_or((frame.time_ns, frame.time_ns));
        span = Some((first, last.max(frame.time_ns)));
        match packet(frame.link, frame.bytes, frame.original, frame.time_ns) {
            FrameKind::Tcp(packet) => {
                packets.tcp += 1;
                packets.options_cut += u64::from(packet.options.cut);
                table.take(&packet);
            }
            FrameKind::Other => packets.other += 1,
            FrameKind::UnknownLink => packets.unknown_link += 1,
            FrameKind::Fragment => packets.fragments += 1,
            FrameKind::Short => packets.short += 1,
            FrameKind::Malformed => packets.malformed += 1,
        }
    }
    let (totals, connections) = table.end();
    Ok(CaptureReport {
        schema: 1,
        format: file.format(),
        file_end: file.end().unwrap_or(FileEnd::Whole),
        packets,
        duration_s: span.map_or(0.0, |(first, last)| last.saturating_sub(first) as f64 * 1e-9),
        given_at: given,
        totals,
        connections,
    })
}

/// The same for people: sums, and a line for each of the connections.
pub fn capture_text(report: &CaptureReport) -> String {
    let mut text = String::new();
    let t = &report.totals;
    let c = &t.counts;
    write_packets(&mut text, report);
    let _ = writeln!(
        text,
        "connections  {}: {} from their SYN on, {} closed; captured at the sender {}, the receiver {}",
        t.connections, t.from_their_start, t.closed, t.at_sender, t.at_receiver
    );
    let _ = writeln!(
        text,
        "payload      {} bytes, {} sent in {} segments ({} packets)",
        c.bytes, c.bytes_sent, c.data_segments, c.data_packets
    );
    let _ = writeln!(
        text,
        "retransmits  {} segments, {} bytes: {} fast, {} after {} time-outs, {} probes, {} SYN, {} unclear",
        c.retransmitted_segments,
        c.retransmitted_bytes,
        c.fast_segments,
        c.timeout_segments,
        c.timeouts,
        c.probe_segments,
        c.syn_segments,
        c.unclear_segments
    );
    let _ = writeln!(
        text,
        "             {} had been acknowledged, {} duplicates reported (DSACK)",
        c.needless_segments, c.dsacks
    );
    let _ = writeln!(
        text,
        "reordering   {} packets overtaken; {} gaps; {} bytes not captured",
        c.reordered_packets, c.gaps, c.missed_bytes
    );
    write_answers(&mut text, c);
    for (name, trips) in [("handshake", &t.initial_rtt), ("round trip", &t.round_trips)] {
        write_trips(&mut text, name, trips);
    }
    write_rows(&mut text, report);
    text
}

fn write_packets(text: &mut String, report: &CaptureReport) {
    let p = &report.packets;
    let _ = writeln!(
        text,
        "packets      {} in {:.3} s ({}): {} TCP, {} other",
        p.all,
        report.duration_s,
        report.format,
        p.tcp,
        p.all - p.tcp
    );
    let odd = [
        (p.cut, "captured in part"),
        (
            p.options_cut,
            "with TCP options cut: what made a retransmit, SACK and duplicates are known in part (`-s 128` has all)",
        ),
        (p.short, "too short for a TCP header"),
        (p.fragments, "fragments"),
        (p.malformed, "malformed"),
        (p.unknown_link, "of an unknown link layer"),
    ];
    for (count, what) in odd.into_iter().filter(|(count, _)| *count > 0) {
        let _ = writeln!(text, "             {count} {what}");
    }
    match report.file_end {
        FileEnd::Whole => {}
        FileEnd::CutShort => text.push_str("             the file ends within a packet\n"),
        FileEnd::Damaged => {
            text.push_str("             the file is damaged: the rest is not read\n");
        }
    }
}

fn write_answers(text: &mut String, c: &Counts) {
    let _ = writeln!(
        text,
        "answers      {} without payload, {} duplicate, {} with SACK; {} windows of zero, {} keep-alives",
        c.pure_acks, c.duplicate_acks, c.sacks, c.zero_windows, c.keep_alives
    );
}

fn write_trips(text: &mut String, name: &str, trips: &RoundTrips) {
    if let (Some(min), Some(mean), Some(max)) = (trips.min_s, trips.mean_s, trips.max_s) {
        let _ = writeln!(
            text,
            "{name:12} {:.3} ms at least, {:.3} on average, {:.3} at most ({})",
            min * 1e3,
            mean * 1e3,
            max * 1e3,
            trips.samples
        );
    }
}

fn write_rows(text: &mut String, report: &CaptureReport) {
    if report.connections.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "\n{:>7} {:>12} {:>9} {:>8} {:>6} {:>6} {:>6} {:>7} {:>7} {:>9}  closed by",
        "client",
        "bytes",
        "segments",
        "retrans",
        "fast",
        "t-outs",
        "late",
        "dup ack",
        "RTT ms",
        "s"
    );
    for row in &report.connections {
        let data = row.data();
        let answers = if row.client_sends() { &row.from_server } else { &row.from_client };
        let rtt = row.initial_rtt_s.map_or("-".to_owned(), |s| format!("{:.3}", s * 1e3));
        let closed = match row.closed {
            None => "-",
            Some(Closed::ClientFin) => "client",
            Some(Closed::ServerFin) => "server",
            Some(Closed::ClientReset) => "client (RST)",
            Some(Closed::ServerReset) => "server (RST)",
        };
        let c = &data.counts;
        let _ = writeln!(
            text,
            "{:>7} {:>12} {:>9} {:>8} {:>6} {:>6} {:>6} {:>7} {:>7} {:>9.3}  {closed}",
            row.client.port(),
            c.bytes,
            c.data_segments,
            c.retransmitted_segments,
            c.fast_segments,
            c.timeouts,
            c.reordered_packets,
            answers.counts.duplicate_acks,
            rtt,
            row.duration_s
        );
    }
    let more = report.totals.connections - report.connections.len() as u64;
    if more > 0 {
        let _ = writeln!(text, "and {more} more");
    }
}
