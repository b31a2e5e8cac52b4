//! What a run brought, as `--json` has it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde::Serialize;

use super::{Direction, Plan};
use crate::info::TcpInfos;
use crate::report::{self, ServerRecord, SessionReport};
use crate::tally::{Record, Second, Tally, Times};
use crate::usage::Usage;
use crate::wire::{ANSWER, Name, Request, RequestKind, ServerAnswer, Status, part};

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// All connections were through.
    Done,
    /// Its time was over.
    Time,
    /// It was stopped on request.
    Stopped,
    /// Connections failed in a way in which all others would fail as well, or one after another.
    GaveUp,
}

/// What the client's process used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CpuReport {
    /// User, system, context switches.
    #[serde(flatten)]
    pub usage: Usage,
    /// CPU time for each GiB of payload.
    pub s_per_gib: Option<f64>,
    /// CPU time for each connection, those that did not complete as the part of one that they are.
    pub s_per_connection: Option<f64>,
    /// Context switches, of both kinds, for each of them.
    pub switches_per_connection: Option<f64>,
}

impl CpuReport {
    /// For `bytes` in all, and `completed` connections of `each` bytes.
    fn of(usage: Usage, bytes: u64, completed: u64, each: u64) -> Self {
        let cpu = usage.cpu().as_secs_f64();
        let switches = usage.voluntary_switches + usage.involuntary_switches;
        let per = |whole: f64, of: f64| (of > 0.0).then(|| whole / of);
        // CPU time includes that of the connections that were cut off. Divided by the completed ones alone it
        // would be charged to these: in a run of one and a half lifetimes, half as much again. Where none was
        // completed, the cost of a whole one is unknown.
        let connections = if completed > 0 { bytes as f64 / each as f64 } else { 0.0 };
        Self {
            usage,
            s_per_gib: per(cpu * f64::from(1 << 30), bytes as f64),
            s_per_connection: per(cpu, connections),
            switches_per_connection: per(switches as f64, connections),
        }
    }
}

/// What the server knows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerSide {
    /// Counts and figures of its kernel.
    #[serde(flatten)]
    pub session: SessionReport,
    /// Bytes in which it has said so, by a connection of their own behind all others.
    pub report_bytes: u64,
    /// CPU time for each GiB and connection. Other clients' work at the same time is in it.
    pub cpu_per: CpuPer,
}

/// CPU time in proportion.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CpuPer {
    /// For each GiB of payload.
    pub s_per_gib: Option<f64>,
    /// For each connection, those that did not complete as the part of one that they are.
    pub s_per_connection: Option<f64>,
}

/// What a run brought.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FetchReport {
    /// The version of this form.
    pub schema: u32,
    /// Where the server listens.
    pub server_address: String,
    /// `fetch` (the server sends) or `send` (the client does).
    pub direction: &'static str,
    /// Connections at once.
    pub connections: u32,
    /// Bytes of each, with the headers of the protocol.
    pub bytes_per_connection: u64,
    /// Congestion control of the side that sends, as its kernel names it; unknown if the server was
    /// not asked.
    pub congestion: Option<String>,
    /// Why it ended.
    pub ended: Ended,
    /// How long it lasted.
    pub duration_s: f64,
    /// Connections started: completed, failed and cut ones.
    pub started: u64,
    /// Those that were completed.
    pub completed: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those under way when the time was over.
    pub cut: u64,
    /// How long these had lived by then, together: they are in no mean of lifetimes, and the longer one
    /// lives the sooner it is among them.
    pub cut_s: f64,
    /// Completed ones whose packets came by a queue of a card that can be polled; `None` where busy polling was
    /// not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_polled: Option<u64>,
    /// How many failed in which way.
    pub faults: BTreeMap<&'static str, u64>,
    /// Bytes of payload in all, those of failed and cut ones with them.
    pub bytes: u64,
    /// The same for each second.
    pub throughput_bytes_s: f64,
    /// Connections completed for each second.
    pub completed_per_s: f64,
    /// From `connect` to the last byte (or the confirmation).
    pub lifetime_s: Option<Times>,
    /// From `connect` to the end of the handshake.
    pub handshake_s: Option<Times>,
    /// From `connect` to the first byte from the server.
    pub first_byte_s: Option<Times>,
    /// From `connect` until both sides had closed.
    pub closed_s: Option<Times>,
    /// All lifetimes: `[s, n]`, n of them at most this long and longer than in the pair before. A class is
    /// 0.4 % wide.
    pub lifetimes: Vec<(f64, u64)>,
    /// What the client's process used.
    pub cpu: CpuReport,
    /// What the client's kernel said of the completed ones.
    pub tcp: TcpInfos,
    /// What the server says of them; `None` if it was not asked or did not answer.
    pub server: Option<ServerSide>,
    /// Second by second, for a day.
    pub seconds: Vec<Second>,
    /// The first connections that ended, one by one.
    pub records: Vec<Record>,
}

/// What a server has said.
pub(super) struct FetchedReport {
    session: SessionReport,
    records: Vec<ServerRecord>,
    /// In this many bytes.
    bytes: u64,
}

/// From all that there is.
pub(super) fn of(
    plan: &Plan,
    tally: &mut Tally,
    ended: Ended,
    lasted: Duration,
    used: &Usage,
    own: Option<Name>,
    server_report: Option<FetchedReport>,
) -> FetchReport {
    let theirs = server_report.iter().flat_map(|report| &report.records);
    let theirs: BTreeMap<u32, &ServerRecord> =
        theirs.map(|record| (record.number, record)).collect();
    let mut records = std::mem::take(&mut tally.records);
    for record in &mut records {
        record.server_tcp = theirs.get(&(record.number as u32)).map(|record| record.tcp);
    }
    let congestion = own.or(server_report.as_ref().map(|report| report.session.congestion));
    let congestion = congestion.filter(|name| !name.is_none());
    let seconds = lasted.as_secs_f64();
    let rate = |number: u64| if seconds > 0.0 { number as f64 / seconds } else { 0.0 };
    FetchReport {
        schema: 1,
        server_address: plan.server.to_string(),
        direction: match plan.direction {
            Direction::Fetch => "fetch",
            Direction::Send => "send",
        },
        connections: plan.connections,
        bytes_per_connection: plan.bytes,
        congestion: congestion.map(|name| name.as_str().to_owned()),
        ended,
        duration_s: seconds,
        started: tally.started,
        completed: tally.completed,
        failed: tally.failed,
        cut: tally.cut,
        cut_s: tally.cut_lived.as_secs_f64(),
        busy_polled: (plan.options.busy_poll > 0).then_some(tally.busy_polled),
        faults: tally.faults(),
        bytes: tally.bytes,
        throughput_bytes_s: rate(tally.bytes),
        completed_per_s: rate(tally.completed),
        lifetime_s: tally.lifetime.times(),
        handshake_s: tally.handshake.times(),
        first_byte_s: tally.first_byte.times(),
        closed_s: tally.closed.times(),
        lifetimes: tally.lifetime.classes(),
        cpu: CpuReport::of(*used, tally.bytes, tally.completed, plan.bytes),
        tcp: tally.tcp,
        server: server_report.map(|FetchedReport { session, bytes, .. }| {
            let cpu = CpuReport::of(session.cpu, session.bytes, session.completed, plan.bytes);
            let cpu_per =
                CpuPer { s_per_gib: cpu.s_per_gib, s_per_connection: cpu.s_per_connection };
            ServerSide { session, report_bytes: bytes, cpu_per }
        }),
        seconds: std::mem::take(&mut tally.seconds),
        records,
    }
}

/// The longest report that is read: what a server of this version can say of this many records.
fn longest(records: u64) -> u64 {
    let records = records.saturating_mul(ServerRecord::BYTES as u64);
    (ANSWER + SessionReport::BYTES) as u64 + records
}

/// Asks the server what it knows; `None` if it does not say.
pub(super) fn request_report(plan: &Plan, session: u64) -> Option<FetchedReport> {
    let mut stream = TcpStream::connect_timeout(&plan.server, plan.timeout).ok()?;
    stream.set_read_timeout(Some(plan.timeout)).ok()?;
    stream.set_write_timeout(Some(plan.timeout)).ok()?;
    // The first to end here are not the first there: those that were under way beside them may be.
    let records = (plan.records as u64).saturating_add(u64::from(plan.connections));
    let request = Request {
        kind: RequestKind::Report,
        bytes: records,
        congestion: Name::default(),
        buffer: 0,
        pacing: 0,
        busy_poll: 0,
        ..plan.request(session, 0)
    };
    stream.write_all(&request.to_bytes()).ok()?;
    let mut bytes = Vec::new();
    stream.take(longest(records)).read_to_end(&mut bytes).ok()?;
    let answer = ServerAnswer::from_bytes(&part(bytes.get(..ANSWER)?, 0)).ok()?;
    if answer.status != Status::Fine || answer.length as usize != bytes.len() - ANSWER {
        return None;
    }
    let (session, records) = report::read(&bytes[ANSWER..])?;
    Some(FetchedReport { session, records, bytes: bytes.len() as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cut_is_charged_with_its_part_and_not_to_what_was_completed() {
        let ms = Duration::from_millis;
        let usage = Usage {
            user: ms(500),
            system: ms(1000),
            voluntary_switches: 200,
            involuntary_switches: 100,
        };
        // A hundred connections, and as many more that were cut in the middle: one and a half lifetimes.
        let cut = CpuReport::of(usage, 100 * 14_600 + 100 * 7300, 100, 14_600);
        assert_eq!((cut.s_per_connection, cut.switches_per_connection), (Some(0.01), Some(2.0)));
        let whole = CpuReport::of(usage, 150 * 14_600, 150, 14_600);
        assert_eq!(whole, cut, "as much as in a run of the same work of which none was cut");
        let none = CpuReport::of(usage, 100 * 7300, 0, 14_600);
        assert_eq!((none.s_per_connection, none.switches_per_connection), (None, None));
        assert!(none.s_per_gib > Some(0.0));
    }
}
