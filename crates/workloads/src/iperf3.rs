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
use crate::text::after_only;
use crate::tool::{Output, Tool};

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
    match json::document(output) {
        Some(document) => from_json(&document?, output),
        None => from_text(output),
    }
}

fn from_json(document: &Value, output: &Output<'_>) -> Result<Outcome, ReadError> {
    if let Some(said) = document["error"].as_str() {
        return Err(ReadError::failed(said));
    }
    let end = json::at(document, "/end")?;
    let received = ["sum_received", "sum"].iter().find_map(|name| end.get(name));
    let received = received.ok_or_else(|| ReadError::missing("sum of the transfer", output))?;
    let mut outcome = Outcome::default();
    let bytes = number(received, "/bytes")?;
    let rate = number(received, "/bits_per_second")?;
    add_transfer(&mut outcome, bytes, rate, number(received, "/seconds")?, output)?;
    if let Some(rate) = perhaps(end, "/sum_sent/bits_per_second")? {
        outcome.add("sent_throughput", rate, unit::BITS_PER_SECOND, Higher);
    }
    if let Some(again) = perhaps(end, "/sum_sent/retransmits")? {
        outcome.add("retransmits", again, unit::COUNT, Lower);
    }
    // Of UDP; older versions have them in `sum` alone.
    for source in [received, &end["sum"]] {
        if outcome.figure("jitter").is_some() {
            break;
        }
        if let Some(jitter) = perhaps(source, "/jitter_ms")? {
            outcome.add("jitter", jitter * 1e-3, unit::SECONDS, Lower);
            outcome.add("lost", number(source, "/lost_packets")?, unit::COUNT, Lower);
            outcome.add("datagrams", number(source, "/packets")?, unit::COUNT, Higher);
        }
    }
    for (pointer, name) in [("host_total", "cpu_here"), ("remote_total", "cpu_there")] {
        if let Some(share) = perhaps(end, &format!("/cpu_utilization_percent/{pointer}"))? {
            outcome.add(name, share, unit::PERCENT, Neither);
        }
    }
    if end.get("sum_sent_bidir_reverse").is_some() {
        outcome.warn("of the two directions only the one to the server is read");
    }
    Ok(outcome)
}

fn from_text(output: &Output<'_>) -> Result<Outcome, ReadError> {
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
