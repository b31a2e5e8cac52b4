//! From counters, power and what the two programs said to the figures of a run. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Error;
use super::kernel_time::KernelTimeReport;
use crate::link::{FULL_FRAME, FULL_PAYLOAD, InjectedLoss};
use nightwatt_measure::counters::{Machine, Network, Process};

/// What `tcp fetch --json` says, as far as it is needed here.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Fetched {
    /// How long it ran.
    pub duration_s: f64,
    /// Connections that were completed.
    pub completed: u64,
    /// And those that were not, in spite of having had the time.
    pub failed: u64,
    /// Those that were cut off at the end.
    #[serde(default)]
    pub cut: u64,
    /// How long these had lived, together.
    pub cut_s: f64,
    /// How many failed in which way.
    #[serde(default)]
    pub faults: BTreeMap<String, u64>,
    /// Completed ones whose card could be polled, where that was asked for.
    #[serde(default)]
    pub busy_polled: Option<u64>,
    /// Bytes of payload of all, those that were cut off at the end included.
    pub bytes: u64,
    /// Bytes of payload of each.
    pub bytes_per_connection: u64,
    /// Lifetimes of those that were completed.
    pub lifetime_s: Option<Lifetimes>,
    /// What was in force.
    pub congestion: Option<String>,
    /// What the receiver's kernel says of those that were completed.
    pub tcp: Value,
    /// The same of the sender.
    pub server: Option<Value>,
}

/// Lifetimes of connections, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Lifetimes {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Their median.
    pub p50: f64,
    /// 99 of a hundred are shorter.
    pub p99: f64,
}

impl Fetched {
    /// From what the program has printed.
    pub fn read(text: &str) -> Result<Self, Error> {
        serde_json::from_str(text.trim()).map_err(|error| Error::UnexpectedOutput {
            program: "nightwatt tcp fetch",
            why: error.to_string(),
            output: text.chars().take(200).collect(),
        })
    }

    /// What failed, and how: `2 of 120 connections failed: 1 reset, 1 stalled`.
    pub fn failures(&self) -> Option<String> {
        let ways: Vec<String> =
            self.faults.iter().map(|(way, count)| format!("{count} {way}")).collect();
        let all = self.completed + self.failed + self.cut;
        let plural = if all == 1 { "" } else { "s" };
        let of_all = format!("{} of {all} connection{plural} failed", self.failed);
        (self.failed > 0).then(|| format!("{of_all}: {}", ways.join(", ")))
    }

    /// Number of connections; those cut off at the end count as the fraction that they completed.
    pub fn connections(&self) -> f64 {
        self.bytes as f64 / (self.bytes_per_connection as f64).max(1.0)
    }

    /// The mean lifetime: all that connections have lived, those cut off at the end with what they had
    /// lived by then, over their number, in which those count as the part of one that they are. The mean of
    /// completed ones is too short: the longer one lives the sooner it is cut.
    pub fn lifetime(&self) -> Option<f64> {
        let completed = self.lifetime_s.map_or(0.0, |it| it.mean * it.count as f64);
        let mean = (completed + self.cut_s) / self.connections();
        Some(mean).filter(|it| it.is_finite() && *it > 0.0)
    }

    /// What the sender's own figures take on their way here, behind all connections, in bytes of frames.
    fn report(&self) -> f64 {
        let bytes = self.server.as_ref().and_then(|it| it.get("report_bytes")?.as_f64());
        bytes.unwrap_or(0.0) / FULL_PAYLOAD * FULL_FRAME
    }

    fn receiver(&self, name: &str, of: &str) -> Option<f64> {
        self.tcp.get(name)?.get(of)?.as_f64()
    }

    /// A figure of `TCP_INFO` at the sender, of connections that were completed.
    pub fn sender(&self, name: &str, of: &str) -> Option<f64> {
        self.server.as_ref()?.get("tcp")?.get(name)?.get(of)?.as_f64()
    }
}

/// What was counted in the middle of a run, while all connections were under way.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Window {
    /// How long it was, on this machine.
    pub seconds: f64,
    /// Where both ends are on this machine, or one is: all of them, and of what else it does.
    pub machine: Option<Machine>,
    /// The sender and the receiver, where each counts on its own.
    pub sides: Option<[Side; 2]>,
    /// At the end where data come from.
    pub sender: Network,
    /// At the other.
    pub receiver: Network,
    /// The program there.
    pub sending: Process,
    /// And here.
    pub receiving: Process,
    /// The process that is the wire.
    pub relaying: Option<Process>,
    /// Mean power, in watts.
    pub watts: Option<f64>,
}

/// What an end that is a machine of its own has counted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Side {
    /// In how long, by its own clock.
    pub seconds: f64,
    /// All of it.
    pub machine: Machine,
}

impl Side {
    /// What of it is beyond idle, each second: CPU time, and counts.
    fn beyond(&self, idle: &Self) -> BeyondIdle {
        let usual = self.seconds / idle.seconds.max(f64::MIN_POSITIVE);
        let beyond = |now: u64, then: u64| (now as f64 - usual * then as f64) / self.seconds;
        let (now, then) = (&self.machine, &idle.machine);
        let busy = now.busy_seconds(self.seconds) - usual * then.busy_seconds(idle.seconds);
        let softirqs = |of: &Machine| of.softirqs.get("NET_RX").copied().unwrap_or(0);
        let wake_ups = now.wake_ups().zip(then.wake_ups());
        let traced = now.traced_wake_ups.zip(then.traced_wake_ups);
        BeyondIdle {
            active: busy / self.seconds,
            wake_ups: wake_ups.map(|(now, then)| beyond(now, then)),
            traced_wake_ups: traced.map(|(now, then)| beyond(now, then)),
            interrupts: beyond(now.interrupts, then.interrupts),
            context_switches: beyond(now.context_switches, then.context_switches),
            received_softirqs: beyond(softirqs(now), softirqs(then)),
        }
    }
}

/// In a second.
struct BeyondIdle {
    active: f64,
    wake_ups: Option<f64>,
    traced_wake_ups: Option<f64>,
    interrupts: f64,
    context_switches: f64,
    received_softirqs: f64,
}

/// The same of a connection.
#[derive(Default)]
struct PerConnection {
    active: Option<f64>,
    wake_ups: Option<f64>,
    traced_wake_ups: Option<f64>,
    interrupts: Option<f64>,
    context_switches: Option<f64>,
    received_softirqs: Option<f64>,
}

impl PerConnection {
    fn of(beyond: Option<&BeyondIdle>, per_second: f64) -> Self {
        let Some(beyond) = beyond else { return Self::default() };
        let each = |value: f64| Some(value / per_second).filter(|it| it.is_finite());
        Self {
            active: each(beyond.active),
            wake_ups: beyond.wake_ups.and_then(each),
            traced_wake_ups: beyond.traced_wake_ups.and_then(each),
            interrupts: each(beyond.interrupts),
            context_switches: each(beyond.context_switches),
            received_softirqs: each(beyond.received_softirqs),
        }
    }
}

/// The machine with the link in place and nothing on it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Idle {
    /// For how long.
    pub seconds: f64,
    /// What was counted, where both ends are on this machine, or one is.
    pub machine: Option<Machine>,
    /// The sender and the receiver, where each counts on its own.
    pub sides: Option<[Side; 2]>,
    /// Mean power, in watts.
    pub watts: Option<f64>,
    /// Where the CPUs' time went, if that was asked for.
    pub kernel_time: Option<KernelTimeReport>,
}

/// What a transition from idle to active takes, where the power is a model's that does not know of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WakeCost {
    /// Joules of each.
    pub joules: f64,
}

/// Counts over the whole run, from before the first packet until after the last.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunCounts {
    /// At the end where data come from.
    pub sender: Network,
    /// At the other.
    pub receiver: Network,
    /// What was lost on purpose on the way to the receiver.
    pub planted: Option<InjectedLoss>,
}

/// A figure of runs.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// In JSON.
    pub name: &'static str,
    /// Its unit there.
    pub unit: &'static str,
}

macro_rules! figures {
    ($($name:ident, $unit:literal, $about:literal;)+) => {
        /// The figures of a run; `None` of those that are unknown.
        #[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
        pub struct Figures {
            $(#[doc = $about] pub $name: Option<f64>,)+
        }

        /// All figures, in the order of reports.
        pub const FIGURES: &[Figure] = &[$(Figure { name: stringify!($name), unit: $unit },)+];

        impl Figures {
            /// The one of that name.
            pub fn get(&self, name: &str) -> Option<f64> {
                match name {
                    $(stringify!($name) => self.$name,)+
                    _ => None,
                }
            }
        }
    };
}

figures! {
    lifetime, "s", "Mean lifetime of a connection, those that were cut off at the end with what they had lived.";
    connections_per_second, "1/s", "Connections in a second, all together.";
    rate, "bit/s", "Bits of frames that came to the receiver in a second.";
    goodput, "bit/s", "Bits of payload in a second.";
    round_trip, "s", "Mean of the last smoothed round trip of each connection, as the sender has it.";
    least_round_trip, "s", "The least round trip that any sender has seen.";
    loss, "1", "Share of frames that were lost on purpose on their way to the receiver.";
    retransmitted, "1", "Segments that were sent again, as a share of all data segments.";
    sender_cpu, "s", "CPU time of the sending program, each connection.";
    receiver_cpu, "s", "CPU time of the receiving program, each connection.";
    cpu, "s", "CPU time of both programs, each connection.";
    relay_cpu, "s", "CPU time of the process that is the wire, each connection. It is no side's.";
    active, "s", "CPU time that the machine was active beyond idle, all that is neither side's included, each connection.";
    wake_ups, "1", "Transitions from idle to active beyond idle, of all CPUs, each connection.";
    traced_wake_ups, "1", "The same by the tracepoint `power:cpu_idle`, where it can be counted.";
    interrupts, "1", "Interrupts beyond idle, each connection.";
    context_switches, "1", "Context switches beyond idle, each connection.";
    received_softirqs, "1", "Softirqs that take in packets beyond idle, each connection.";
    sender_active, "s", "CPU time that the sender's machine was active beyond idle, each connection, where it is not the receiver's.";
    receiver_active, "s", "The same of the receiver's.";
    sender_wake_ups, "1", "Transitions from idle to active beyond idle of the sender's machine, each connection, where it is not the receiver's.";
    receiver_wake_ups, "1", "The same of the receiver's.";
    sender_traced_wake_ups, "1", "Those of the sender's by the tracepoint `power:cpu_idle`, where it can be counted.";
    receiver_traced_wake_ups, "1", "The same of the receiver's.";
    sender_interrupts, "1", "Interrupts of the sender's machine beyond idle, each connection, where it is not the receiver's.";
    receiver_interrupts, "1", "The same of the receiver's.";
    sender_context_switches, "1", "Context switches of the sender's machine beyond idle, each connection, where it is not the receiver's.";
    receiver_context_switches, "1", "The same of the receiver's.";
    sender_received_softirqs, "1", "Softirqs that take in packets beyond idle at the sender's machine, each connection, where it is not the receiver's.";
    receiver_received_softirqs, "1", "The same of the receiver's.";
    sender_frames, "1", "Frames that the sender's card has sent, each connection.";
    receiver_frames, "1", "The same of the receiver's.";
    frames, "1", "Frames that the cards of both ends have sent, each connection.";
    power, "W", "Mean power of the machine.";
    idle_power, "W", "The same with nothing on the link.";
    energy, "J", "Energy of a connection beyond idle.";
    waking_energy, "J", "What of it was added for wake-ups (`--wake-energy`).";
    energy_per_segment, "J", "The same of a segment.";
}

/// All figures of a run.
pub fn figures(
    fetched: &Fetched,
    window: &Window,
    whole: &RunCounts,
    idle: &Idle,
    segments: u64,
    wake_cost: Option<WakeCost>,
) -> Figures {
    // How long the window was at each end, by its own clock.
    let seconds = |end: usize| window.sides.as_ref().map_or(window.seconds, |it| it[end].seconds);
    let per_second = in_window(fetched, window, whole) / seconds(1);
    let each_of = |value: f64| Some(value / per_second).filter(|it| it.is_finite());
    let each = |end: usize, value: f64| each_of(value / seconds(end));
    let of = |seconds: f64, machine: &Option<Machine>| {
        machine.clone().map(|machine| Side { seconds, machine })
    };
    let whole_machine = of(window.seconds, &window.machine).zip(of(idle.seconds, &idle.machine));
    let whole_machine = whole_machine.map(|(now, then)| now.beyond(&then));
    let sides = window.sides.as_ref().zip(idle.sides.as_ref());
    let side = |end: usize| {
        let beyond = sides.map(|(now, then)| now[end].beyond(&then[end]));
        PerConnection::of(beyond.as_ref(), per_second)
    };
    let machine = PerConnection::of(whole_machine.as_ref(), per_second);
    let wake_ups = whole_machine.as_ref().and_then(|it| it.wake_ups.or(it.traced_wake_ups));
    let waking = wake_cost.zip(wake_ups).map(|(cost, rate)| cost.joules * rate);
    let beyond_idle = window.watts.zip(idle.watts);
    let energy = beyond_idle.and_then(|(now, then)| each_of(now - then + waking.unwrap_or(0.0)));
    let cpu = |process: Process| 1e-9 * process.cpu_ns as f64;
    let (sending, receiving) = (each(0, cpu(window.sending)), each(1, cpu(window.receiving)));
    let micro = |name: &str, of: &str| fetched.sender(name, of).map(|it| 1e-6 * it);
    let sent = fetched.sender("data_segments_out", "sum").filter(|it| *it > 0.0);
    let lost = whole.planted.filter(|it| it.came > 0);
    let frames = [window.sender.sent_frames, window.receiver.sent_frames];
    let [sender_frames, receiver_frames] = [0, 1].map(|end| each(end, frames[end] as f64));
    Figures {
        lifetime: fetched.lifetime(),
        connections_per_second: Some(fetched.connections() / fetched.duration_s),
        rate: Some(8.0 * window.receiver.received_bytes as f64 / seconds(1)),
        goodput: Some(8.0 * fetched.bytes as f64 / fetched.duration_s),
        round_trip: micro("rtt_us", "mean"),
        least_round_trip: micro("min_rtt_us", "min"),
        loss: lost.map(|it| it.lost as f64 / it.came as f64),
        retransmitted: fetched
            .sender("retransmitted_segments", "sum")
            .zip(sent)
            .map(|(again, sent)| again / sent),
        sender_cpu: sending,
        receiver_cpu: receiving,
        cpu: sending.zip(receiving).map(|(sender, receiver)| sender + receiver),
        relay_cpu: window.relaying.and_then(|it| each_of(cpu(it) / window.seconds)),
        active: machine.active,
        wake_ups: machine.wake_ups,
        traced_wake_ups: machine.traced_wake_ups,
        interrupts: machine.interrupts,
        context_switches: machine.context_switches,
        received_softirqs: machine.received_softirqs,
        sender_frames,
        receiver_frames,
        frames: sender_frames.zip(receiver_frames).map(|(sender, receiver)| sender + receiver),
        power: window.watts,
        idle_power: idle.watts,
        energy,
        waking_energy: waking.and_then(each_of).filter(|_| energy.is_some()),
        energy_per_segment: energy.map(|it| it / segments as f64),
        ..of_sides(&side(0), &side(1))
    }
}

/// How many connections the window has had: of all as many as bytes came in it of all bytes. By their rate
/// alone it would be wrong where losses make the link rest for a second at a time, in the window or beside it.
fn in_window(fetched: &Fetched, window: &Window, whole: &RunCounts) -> f64 {
    let came = |network: &Network| network.received_bytes as f64;
    // The sender's report is no connection's, and comes when the window is over.
    fetched.connections() * came(&window.receiver) / (came(&whole.receiver) - fetched.report())
}

/// Those of the two ends, each connection.
fn of_sides(sender: &PerConnection, receiver: &PerConnection) -> Figures {
    Figures {
        sender_active: sender.active,
        receiver_active: receiver.active,
        sender_wake_ups: sender.wake_ups,
        receiver_wake_ups: receiver.wake_ups,
        sender_traced_wake_ups: sender.traced_wake_ups,
        receiver_traced_wake_ups: receiver.traced_wake_ups,
        sender_interrupts: sender.interrupts,
        receiver_interrupts: receiver.interrupts,
        sender_context_switches: sender.context_switches,
        receiver_context_switches: receiver.context_switches,
        sender_received_softirqs: sender.received_softirqs,
        receiver_received_softirqs: receiver.received_softirqs,
        ..Figures::default()
    }
}

/// Runs the consistency checks and describes each one that failed. Where cards join segments to larger
/// frames (`joined`), fewer checks apply.
pub fn disagreements(fetched: &Fetched, whole: &RunCounts, joined: bool) -> Vec<String> {
    let mut all = Vec::new();
    let lost = whole.planted.map_or(0, |it| it.lost);
    let received = whole.receiver.received_frames;
    let taken = whole.receiver.protocol("Tcp.InSegs");
    if received != taken + lost && !joined {
        all.push(format!(
            "the receiver's card has received {received} frames, and TCP has taken {taken} segments; {lost} \
             were lost on purpose"
        ));
    }
    // What a connection was told of at its end is in the counts of its network.
    let (sum, counted) = (fetched.receiver("segments_in", "sum"), taken as f64);
    // Joined ones are one for the network, and as many as were sent for the connection.
    if sum.is_some_and(|sum| sum > counted) && !joined {
        all.push(format!("connections have received more segments than their network, {counted}"));
    }
    let again = whole.sender.protocol("Tcp.RetransSegs") as f64;
    if fetched.sender("retransmitted_segments", "sum").is_some_and(|sum| sum > again) {
        all.push(format!("connections have sent more segments again than their network, {again}"));
    }
    if whole.receiver.received_bytes < fetched.bytes {
        all.push(format!(
            "the receiver's card has received {} bytes, and the program {}",
            whole.receiver.received_bytes, fetched.bytes
        ));
    }
    all
}

#[cfg(test)]
mod tests;
