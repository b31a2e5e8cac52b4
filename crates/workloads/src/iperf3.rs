//! iperf 3: text, and `-J`.
//!
//! What was received counts, not what was sent.

use serde_json::Value;

use crate::error::ReadError;
use crate::iperf2::{Interval, add_transfer, datagrams, interval};
use crate::json::{self, number, perhaps};
use crate::number::amount;
use crate::outcome::Better::{Higher, Lower, Neither};
use crate::outcome::{Outcome, unit};
use crate::output::Output;
use crate::text::after_only;
use crate::tool::Tool;

pub(crate) const TOOL: Tool = Tool {
    name: "iperf3",
    about: "bytes over a network, TCP or UDP",
    example: "iperf3 -J -c 10.0.0.2 -t 600 -P 4",
    main: "throughput",
    reader: read,
};

fn read(output: &Output<'_>) -> Result<Outcome, ReadError> {
    if let Some(said) = output.stderr.lines().find(|line| line.contains("iperf3: error")) {
        return Err(ReadError::failed(said));
    }
    match json::document_with_doubles(output) {
        Some(document) => from_json(&document?.value, output),
        None => from_text(output),
    }
}

/// One direction of a transfer, as it is called behind the name of a sum: versions differ in how they
/// tell the other one of `--bidir`, and older ones write both under one name.
const OTHER_DIRECTION: [&str; 2] = ["_bidir_reverse", "#2"];

/// What one direction came to.
struct Direction<'a> {
    received: &'a Value,
    sent: Option<&'a Value>,
    bytes: f64,
    bits_per_second: f64,
    seconds: f64,
}

impl<'a> Direction<'a> {
    /// The sums in `end` whose names end so; `None` if there are none.
    fn of(end: &'a Value, suffix: &str) -> Result<Option<Self>, ReadError> {
        let sum = |name: &str| end.get(format!("{name}{suffix}"));
        let Some(received) = sum("sum_received").or_else(|| sum("sum")) else { return Ok(None) };
        Ok(Some(Self {
            received,
            sent: sum("sum_sent"),
            bytes: number(received, "/bytes")?,
            bits_per_second: number(received, "/bits_per_second")?,
            seconds: number(received, "/seconds")?,
        }))
    }
}

fn from_json(document: &Value, output: &Output<'_>) -> Result<Outcome, ReadError> {
    if let Some(said) = document["error"].as_str() {
        return Err(ReadError::failed(said));
    }
    let end = json::at(document, "/end")?;
    let there = Direction::of(end, "")?;
    let there = there.ok_or_else(|| ReadError::missing("sum of the transfer", output))?;
    let mut back = None;
    for suffix in OTHER_DIRECTION {
        back = back.or(Direction::of(end, suffix)?);
    }
    let wants_both = document.pointer("/start/test_start/bidirectional") == Some(&1.into());
    if wants_both && back.is_none() {
        return Err(ReadError::missing("sum of the other direction", output));
    }
    let mut outcome = Outcome::default();
    let directions = [Some(&there), back.as_ref()];
    let all = || directions.into_iter().flatten();
    let seconds = all().map(|it| it.seconds).fold(0.0, f64::max);
    let sum = |of: fn(&Direction<'_>) -> f64| all().map(of).sum::<f64>();
    add_transfer(&mut outcome, sum(|it| it.bytes), sum(|it| it.bits_per_second), seconds, output)?;
    if let Some(back) = &back {
        let throughput = [("there", &there), ("back", back)];
        for (name, direction) in throughput {
            let name = format!("throughput_{name}");
            outcome.add(&name, direction.bits_per_second, unit::BITS_PER_SECOND, Higher);
        }
    }
    for (pointer, name, unit, better) in [
        ("/bits_per_second", "sent_throughput", unit::BITS_PER_SECOND, Higher),
        ("/retransmits", "retransmits", unit::COUNT, Lower),
    ] {
        let told = all().filter_map(|it| perhaps(it.sent?, pointer).transpose());
        let told = told.collect::<Result<Vec<f64>, _>>()?;
        if !told.is_empty() {
            outcome.add(name, told.iter().sum(), unit, better);
        }
    }
    // Of UDP; older versions have them in `sum` alone.
    for source in [there.received, &end["sum"]] {
        if outcome.figure("jitter").is_some() {
            break;
        }
        if let Some(jitter) = perhaps(source, "/jitter_ms")? {
            outcome.add("jitter", jitter * 1e-3, unit::SECONDS, Lower);
            outcome.add("lost", number(source, "/lost_packets")?, unit::COUNT, Lower);
            outcome.add("datagrams", number(source, "/packets")?, unit::COUNT, Higher);
            if back.is_some() {
                outcome.warn("jitter and lost datagrams are those of the direction to the server");
            }
        }
    }
    for (pointer, name) in [("host_total", "cpu_here"), ("remote_total", "cpu_there")] {
        if let Some(share) = perhaps(end, &format!("/cpu_utilization_percent/{pointer}"))? {
            outcome.add(name, share, unit::PERCENT, Neither);
        }
    }
    Ok(outcome)
}

fn from_text(output: &Output<'_>) -> Result<Outcome, ReadError> {
    // `[  5][TX-C]`: lines of both directions, of which one would be lost.
    if output.stdout.lines().any(|line| line.contains("][RX-")) {
        return Err(ReadError::failed("--bidir as text: have iperf3 write JSON (`-J`)"));
    }
    if after_only(output.stdout, "iperf Done.")?.is_none() {
        return Err(ReadError::missing("line `iperf Done.`", output));
    }
    let mut ends = Vec::new();
    for line in output.stdout.lines() {
        let line = line.trim_end();
        let role = ["sender", "receiver"].into_iter().find(|role| line.ends_with(role));
        if let (Some(role), Some(interval)) = (role, interval(line)?) {
            ends.push((role, interval));
        }
    }
    let is_sum = ends.iter().any(|(_, it)| it.id == "SUM");
    let of =
        |role: &str| ends.iter().rfind(|(it, found)| *it == role && (found.id == "SUM" || !is_sum));
    let (sent, received) = (of("sender"), of("receiver"));
    let streams = ends.iter().filter(|(role, _)| *role == "receiver").count();
    let Some((_, whole)) = received.or(sent) else {
        return Err(ReadError::missing("line that ends with `receiver`", output));
    };
    if streams > 1 && !is_sum {
        return Err(ReadError::missing("line `[SUM] .. receiver`", output));
    }
    let mut outcome = Outcome::default();
    add_transfer(
        &mut outcome,
        whole.bytes,
        whole.bits_per_second,
        whole.end - whole.begin,
        output,
    )?;
    if received.is_none() {
        outcome.warn("only what was sent is told, not what was received");
    }
    datagrams(&whole.rest, &mut outcome)?;
    if let Some((_, sent)) = sent {
        outcome.add("sent_throughput", sent.bits_per_second, unit::BITS_PER_SECOND, Higher);
        retransmits(sent, &mut outcome)?;
    }
    Ok(outcome)
}

/// TCP's: `9  sender`.
fn retransmits(sent: &Interval<'_>, outcome: &mut Outcome) -> Result<(), ReadError> {
    if let [again, "sender"] = sent.rest[..] {
        outcome.add("retransmits", amount("retransmits", again)?, unit::COUNT, Lower);
    }
    Ok(())
}
