//! iperf 2: text, and `-y C`.
//!
//! Bits go by thousands, bytes by 1024. With `-P` the line `[SUM]` is the sum; without `-f b` or
//! `-y C` all is rounded to three digits.

use std::collections::BTreeMap;

use crate::error::ReadError;
use crate::number::{BINARY, BITS, BYTES, DECIMAL, amount, count, seconds, sized};
use crate::outcome::Better::{Higher, Lower};
use crate::outcome::{Outcome, unit};
use crate::output::Output;
use crate::text::after_only;
use crate::tool::Tool;

pub(crate) const TOOL: Tool = Tool {
    name: "iperf2",
    about: "bytes over a network, TCP or UDP",
    example: "iperf -c 10.0.0.2 -t 600 -P 4 -f b",
    main: "throughput",
    reader: read,
};

/// A line of figures.
#[derive(Debug, Clone)]
pub(crate) struct Interval<'a> {
    /// `SUM` (with `--sum-only` also `SUM-4`), or a number.
    pub(crate) id: &'a str,
    pub(crate) begin: f64,
    pub(crate) end: f64,
    pub(crate) bytes: f64,
    pub(crate) bits_per_second: f64,
    /// What follows.
    pub(crate) rest: Vec<&'a str>,
}

fn read(output: &Output<'_>) -> Result<Outcome, ReadError> {
    let mut all = Vec::new();
    for line in output.stdout.lines() {
        if let Some(interval) = interval(line)? {
            all.push(interval);
        } else if let Some(interval) = csv(line)? {
            all.push(interval);
        }
    }
    one_run(output.stdout)?;
    let Some(end) = all.iter().map(|it| it.end).max_by(f64::total_cmp) else {
        return Err(ReadError::missing("line of a whole transfer", output));
    };
    let is_whole = |it: &&Interval<'_>| it.begin <= 0.0 && it.end >= end * 0.9;
    let streams = streams(output.stdout, &all);
    // The server's own report of UDP comes after the client's, under the same number.
    let whole = all.iter().filter(is_whole).rfind(|it| streams < 2 || is_sum(it));
    let Some(whole) = whole else {
        let sum = if streams < 2 { "line" } else { "line `[SUM]`" };
        return Err(ReadError::missing(format!("{sum} of the whole transfer"), output));
    };
    let mut outcome = Outcome::default();
    add_transfer(&mut outcome, whole.bytes, whole.bits_per_second, whole.end, output)?;
    datagrams(&whole.rest, &mut outcome)?;
    Ok(outcome)
}

/// An error if the text holds two runs one after the other: which one is meant can't be known.
fn one_run(text: &str) -> Result<(), ReadError> {
    after_only(text, "Client connecting to")?;
    let mut connected: Vec<&str> = connected(text).collect();
    connected.sort_unstable();
    // By number of a stream and of fields (a server's report has more of them): how many begin at 0,
    // and are there others? The first interval does so too.
    let mut csv = BTreeMap::<_, (usize, bool)>::new();
    for fields in text.lines().map(|line| line.split(',').collect::<Vec<_>>()) {
        if let [_, _, _, _, _, id, span, _, _, ..] = fields[..] {
            let (begun, later) = csv.entry((id, fields.len())).or_default();
            *begun += usize::from(span.starts_with("0.0-"));
            *later |= !span.starts_with("0.0-");
        }
    }
    let twice = connected.windows(2).any(|pair| pair[0] == pair[1])
        || csv.values().any(|(begun, later)| *begun > 1 + usize::from(*later));
    if twice { Err(ReadError::Several) } else { Ok(()) }
}

/// The numbers of streams.
fn connected(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter(|line| line.contains(" connected with "));
    lines.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.trim()))
}

fn is_sum(interval: &Interval<'_>) -> bool {
    interval.id.starts_with("SUM") || interval.id == "-1"
}

/// How many there are, by their numbers.
fn streams(text: &str, intervals: &[Interval<'_>]) -> usize {
    let told = intervals.iter().filter(|it| !is_sum(it)).map(|it| it.id);
    let mut ids: Vec<&str> = connected(text).chain(told).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.len()
}

/// What iperf of any version found.
pub(crate) fn add_transfer(
    outcome: &mut Outcome,
    bytes: f64,
    bits_per_second: f64,
    time: f64,
    output: &Output<'_>,
) -> Result<(), ReadError> {
    if bytes < 1.0 {
        return Err(ReadError::no_operations("transfer of a byte", output));
    }
    // By the bytes, within what rounding to three digits may do.
    let wanted = bytes * 8.0 / time;
    if !(0.9..1.1).contains(&(bits_per_second / wanted)) {
        let what = format!("{bytes} bytes in {time} s were told as {bits_per_second} bit/s");
        return Err(ReadError::Contradiction { what });
    }
    outcome.operations(bytes.round() as u64, "bytes");
    outcome.duration = Some(seconds("the time of the transfer", time)?);
    outcome.add("throughput", bits_per_second, unit::BITS_PER_SECOND, Higher);
    Ok(())
}

/// `[SUM] 0.0-600.1 sec  65.8 GBytes  942 Mb/s`; `None` for lines of other kinds.
pub(crate) fn interval(line: &str) -> Result<Option<Interval<'_>>, ReadError> {
    let Some((id, rest)) = line.trim_start().strip_prefix('[').and_then(|it| it.split_once(']'))
    else {
        return Ok(None);
    };
    // `0.0- 1.0 sec`: of versions that fill up with blanks.
    let Some((span, rest)) = rest.split_once(" sec") else { return Ok(None) };
    let Some((begin, end)) = span.split_once('-') else { return Ok(None) };
    let (Ok(begin), Ok(end)) = (amount("begin", begin), amount("end", end)) else {
        return if span.contains(',') {
            Err(ReadError::number("interval", span))
        } else {
            Ok(None)
        };
    };
    let words: Vec<&str> = rest.split_whitespace().collect();
    let [bytes, bytes_unit, rate, rate_unit, rest @ ..] = &words[..] else { return Ok(None) };
    // `7 datagrams received out-of-order`
    if *bytes_unit == "datagrams" {
        return Ok(None);
    }
    let what = "amount of a transfer";
    let bytes = sized(what, &format!("{bytes} {bytes_unit}"), BYTES, BINARY)?;
    let rate = rate_of(&format!("{rate} {rate_unit}"))?;
    let id = id.trim();
    Ok(Some(Interval { id, begin, end, bytes, bits_per_second: rate, rest: rest.to_vec() }))
}

/// `942 Mbits/sec`, `942 Mb/s` or `2242 MBytes/sec` in bits a second.
fn rate_of(text: &str) -> Result<f64, ReadError> {
    let what = "throughput";
    let amount = text.strip_suffix("/sec").or_else(|| text.strip_suffix("/s"));
    let amount = amount.ok_or_else(|| ReadError::unit(what, text))?;
    match sized(what, amount, BITS, DECIMAL) {
        Err(ReadError::Unit { .. }) => Ok(sized(what, amount, BYTES, BINARY)? * 8.0),
        other => other,
    }
}

/// `20261122205559,127.0.0.1,39216,127.0.0.1,15001,1,0.0-1.0,2014707772,15860827791`
fn csv(line: &str) -> Result<Option<Interval<'_>>, ReadError> {
    let fields: Vec<&str> = line.split(',').collect();
    let [time, _, _, _, _, id, span, bytes, rate, rest @ ..] = &fields[..] else { return Ok(None) };
    let Some((begin, end)) = span.split_once('-') else { return Ok(None) };
    if !time.bytes().all(|byte| byte.is_ascii_digit() || b".+-:".contains(&byte)) {
        return Ok(None);
    }
    Ok(Some(Interval {
        id,
        begin: amount("begin", begin)?,
        end: amount("end", end)?,
        bytes: count("bytes", bytes)? as f64,
        bits_per_second: amount("rate", rate)?,
        rest: rest.to_vec(),
    }))
}

/// Of UDP: `0.022 ms 0/  893 (0%)`.
pub(crate) fn datagrams(rest: &[&str], outcome: &mut Outcome) -> Result<(), ReadError> {
    let [jitter, "ms", counts @ ..] = rest else { return Ok(()) };
    let jitter = amount("jitter", jitter)? * 1e-3;
    outcome.add("jitter", jitter, unit::SECONDS, Lower);
    let counts = counts.concat();
    let Some((lost, all)) = counts.split('(').next().and_then(|it| it.split_once('/')) else {
        return Ok(());
    };
    let (lost, all) = (count("lost datagrams", lost)?, count("datagrams", all)?);
    outcome.add("lost", lost as f64, unit::COUNT, Lower);
    outcome.add("datagrams", all as f64, unit::COUNT, Higher);
    Ok(())
}
