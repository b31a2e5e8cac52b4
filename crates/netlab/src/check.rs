//! Is the link what it should be? Found by sending packets, before results count.

mod verdict;

use std::net::SocketAddr;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_meters::Host;
use serde::Serialize;

pub(crate) use verdict::{Loss, Verdict};

use super::Error;
use super::ends::{End, Ends, Running};
use super::probe::{ProbeRequest, ProbeResult};
use super::scenario::Scenario;

/// Load on the machine makes a link slower and later, never faster: number of counts, of which the best one
/// is used.
const TRIES: u32 = 3;

/// Questions of each try.
const ECHOES: u32 = 100;

/// When what comes is counted.
struct Times {
    /// How long the probe sends more than the link can carry.
    load: Duration,
    /// Until the queue is full.
    before: Duration,
    /// The middle.
    middle: Duration,
}

/// Ends that are on this machine.
const NEAR: Times = Times {
    load: Duration::from_millis(1200),
    before: Duration::from_millis(300),
    middle: Duration::from_millis(700),
};

/// Ends that are told by ssh when to count, which takes a while.
const FAR: Times = Times {
    load: Duration::from_secs(3),
    before: Duration::from_millis(700),
    middle: Duration::from_secs(1),
};

/// Factor by which the load exceeds the rate.
const OVERLOAD: f64 = 1.2;

/// Packets that are counted take this share of the rate, so that no queue is full.
const SHARE: f64 = 0.4;

/// Small packets in a second that any machine sends.
const MOST_PER_SECOND: f64 = 80_000.0;

/// The same for a link without loss, where there is no hurry.
const FEW_PER_SECOND: f64 = 10_000.0;

/// Where the probes are answered.
const PORT: u16 = 5001;

/// What was found, and whether that is right.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct CheckResult {
    /// From the sender to the receiver, and back.
    pub directions: [Direction; 2],
    /// Round trips of small packets, the median of the best try, in seconds.
    pub round_trip: f64,
    /// What is not as it should be.
    pub complaints: Vec<String>,
    /// It is used all the same: the user has said so.
    pub is_accepted: bool,
}

impl CheckResult {
    /// What is to be said of it: `refused: …`.
    pub(crate) fn verdict(&self) -> String {
        match (&self.complaints[..], self.is_accepted) {
            ([], _) => "as it should be".to_owned(),
            (found, true) => format!("accepted all the same: {}", found.join("; ")),
            (found, false) => format!("refused: {}", found.join("; ")),
        }
    }

    /// Why nothing was run over it, if that is so.
    pub(super) fn refusal(&self, scenario: &Scenario) -> Option<String> {
        let is_refused = !self.complaints.is_empty() && !self.is_accepted;
        is_refused.then(|| {
            format!(
                "scenario {}: the link is refused: {} (`--accept-link` uses it all the same)",
                scenario.name,
                self.complaints.join("; ")
            )
        })
    }
}

/// One direction.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Direction {
    /// Bits of frames per second when more were sent than fit.
    pub rate: f64,
    /// Bytes of a frame then, in the mean, without what is in front of Ethernet's addresses and behind the
    /// payload; some cards count the frame's checksum and the tag of its VLAN all the same (1518, 1522). More
    /// than that: a card counts several packets as one, and their headers once.
    pub frame_bytes: f64,
    /// Small packets that were lost.
    pub loss: Loss,
    /// Wilson's 99.9 % interval of their share.
    pub loss_interval: (f64, f64),
    /// Is the share known within 5 % of what is wanted, by a 95 % interval? Over a slow link too few
    /// packets go in the time.
    pub loss_is_known: bool,
}

/// A check of a link.
#[derive(Debug)]
pub(crate) struct Check<'a> {
    /// The ends of the link.
    pub ends: &'a Ends,
    /// What it should be.
    pub scenario: &'a Scenario,
    /// Where counters are read.
    pub host: &'a Host,
    /// Ends it.
    pub stop: &'a Stop,
}

impl Check<'_> {
    /// Measures the link in both directions.
    pub(crate) fn run(&self) -> Result<CheckResult, Error> {
        let Ends { sender, receiver, .. } = self.ends;
        let mut verdict = Verdict::new(self.scenario);
        let (there, round_trip) = self.direction(sender, receiver, &mut verdict, true)?;
        let (back, _) = self.direction(receiver, sender, &mut verdict, false)?;
        let complaints = verdict.complaints();
        let round_trip = round_trip.unwrap_or(f64::INFINITY);
        Ok(CheckResult { directions: [there, back], round_trip, complaints, is_accepted: false })
    }

    fn direction(
        &self,
        from: &End,
        to: &End,
        verdict: &mut Verdict,
        with_echoes: bool,
    ) -> Result<(Direction, Option<f64>), Error> {
        let at: SocketAddr = format!("{}:{PORT}", to.address)
            .parse()
            .map_err(|_| Error::Options(format!("no address: {}", to.address)))?;
        let mut answer = to
            .spawn_ours("answer probes", &["tcp", "link", "answer", "--listen", &at.to_string()])?;
        answer.first_line(self.stop)?;
        let name = format!("from {} to {}", from.name, to.name);
        let mut round_trip = None;
        for _ in 0..TRIES {
            if !with_echoes || round_trip.is_some_and(|it| verdict.is_round_trip_settled(it)) {
                break;
            }
            let request = ProbeRequest { target: at, echoes: ECHOES, load: None, count: None };
            let probed = self.probe(from, &request)?;
            let median = probed.round_trips.get(probed.round_trips.len() / 2).copied();
            let best = round_trip.unwrap_or(f64::INFINITY).min(median.unwrap_or(f64::INFINITY));
            round_trip = Some(best);
        }
        if with_echoes {
            verdict.round_trip(round_trip);
        }
        let (mut rate, mut frame_bytes) = (0.0_f64, 0.0_f64);
        for _ in 0..TRIES {
            let (found, bytes) = self.rate(from, to, at)?;
            (rate, frame_bytes) = (rate.max(found), frame_bytes.max(bytes));
            if verdict.is_rate_settled(rate) {
                break;
            }
        }
        verdict.rate(&name, rate);
        verdict.frames(&name, frame_bytes);
        let mut loss = self.loss(from, at)?;
        if verdict.is_stray(loss) {
            loss = loss.and(self.loss(from, at)?);
        }
        verdict.loss(&name, loss);
        drop(answer);
        let (loss_interval, loss_is_known) = (loss.interval(), verdict.is_loss_known(loss));
        let found = Direction { rate, frame_bytes, loss, loss_interval, loss_is_known };
        Ok((found, round_trip))
    }

    /// How many of small packets are lost.
    fn loss(&self, from: &End, at: SocketAddr) -> Result<Loss, Error> {
        let bits = SHARE * self.scenario.bits_per_second;
        let frame = 8.0 * super::probe::SMALL as f64;
        let most = if self.scenario.loss > 0.0 { MOST_PER_SECOND } else { FEW_PER_SECOND };
        let per_second = (bits / frame).min(most);
        let count = verdict::packets(self.scenario.loss, per_second);
        let request = ProbeRequest {
            target: at,
            echoes: 0,
            load: None,
            count: Some((per_second * frame, count)),
        };
        let probed = self.probe(from, &request)?;
        Ok(Loss { sent: probed.sent, lost: probed.sent.saturating_sub(probed.came) })
    }

    /// What comes while more is sent than fits: bits per second, and bytes of a frame.
    fn rate(&self, from: &End, to: &End, at: SocketAddr) -> Result<(f64, f64), Error> {
        let times = if self.ends.are_apart() { FAR } else { NEAR };
        let load = Some((OVERLOAD * self.scenario.bits_per_second, times.load));
        let request = ProbeRequest { target: at, echoes: 0, load, count: None };
        let mut running = start(from, "load the link", &request)?;
        // Its start may take longer than all that follows.
        running.first_line(self.stop)?;
        self.wait(times.before)?;
        let before = to.count(self.host, &[])?;
        self.wait(times.middle)?;
        let after = to.count(self.host, &[])?;
        running.output(self.stop)?;
        let came = after.network.since(&before.network);
        let bytes = came.received_bytes as f64;
        Ok((
            8.0 * bytes / after.seconds_since(&before),
            bytes / (came.received_frames as f64).max(1.0),
        ))
    }

    fn wait(&self, time: Duration) -> Result<(), Error> {
        self.stop.wait_until(monotonic() + time);
        if self.stop.is_stopped() { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn probe(&self, from: &End, request: &ProbeRequest) -> Result<ProbeResult, Error> {
        probe_from(from, request, self.stop)
    }
}

/// Has an end send probes, and gives what came of it.
pub(super) fn probe_from(
    from: &End,
    request: &ProbeRequest,
    stop: &Stop,
) -> Result<ProbeResult, Error> {
    let mut running = start(from, "probe the link", request)?;
    running.first_line(stop)?;
    let output = running.output(stop)?;
    serde_json::from_str(output.trim()).map_err(|error| Error::UnexpectedOutput {
        program: "the probe",
        why: error.to_string(),
        output: output.chars().take(200).collect(),
    })
}

fn start(from: &End, what: &str, request: &ProbeRequest) -> Result<Running, Error> {
    let json = serde_json::to_string(request).map_err(|error| Error::UnexpectedOutput {
        program: "the probe",
        why: error.to_string(),
        output: String::new(),
    })?;
    from.spawn_ours(what, &["tcp", "link", "ask", &json])
}
