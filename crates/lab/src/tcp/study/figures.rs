//! From counters, power and what the two programs said to the figures of a run. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Error;
use crate::tcp::counters::{Machine, Network, Process};
use crate::tcp::link::Planted;

/// What `tcp fetch --json` says, as far as it is needed here.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Fetched {
    /// How long it ran.
    pub duration_s: f64,
    /// Connections that were completed.
    pub completed: u64,
    /// And those that were not, in spite of having had the time.
    pub failed: u64,
    /// How long those had lived, together, that were cut off at the end.
    pub cut_s: f64,
    /// In which way.
    #[serde(default)]
    pub faults: BTreeMap<String, u64>,
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
        serde_json::from_str(text.trim()).map_err(|error| Error::Said {
            program: "nightwatt tcp fetch",
            why: error.to_string(),
            said: text.chars().take(200).collect(),
        })
    }

    /// How many connections that is, those that were cut off as the part of one that they are.
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
    fn beyond(&self, idle: &Self) -> Beyond {
        let usual = self.seconds / idle.seconds.max(f64::MIN_POSITIVE);
        let beyond = |now: u64, then: u64| (now as f64 - usual * then as f64) / self.seconds;
        let (now, then) = (&self.machine, &idle.machine);
        let busy = now.busy_seconds(self.seconds) - usual * then.busy_seconds(idle.seconds);
        let softirqs = |of: &Machine| of.softirqs.get("NET_RX").copied().unwrap_or(0);
        let wake_ups = now.wake_ups().zip(then.wake_ups());
        Beyond {
            active: busy / self.seconds,
            wake_ups: wake_ups.map(|(now, then)| beyond(now, then)),
            interrupts: beyond(now.interrupts, then.interrupts),
            context_switches: beyond(now.context_switches, then.context_switches),
            received_softirqs: beyond(softirqs(now), softirqs(then)),
        }
    }
}

/// In a second.
struct Beyond {
    active: f64,
    wake_ups: Option<f64>,
    interrupts: f64,
    context_switches: f64,
    received_softirqs: f64,
}

/// The same of a connection.
#[derive(Default)]
struct PerConnection {
    active: Option<f64>,
    wake_ups: Option<f64>,
    interrupts: Option<f64>,
    context_switches: Option<f64>,
    received_softirqs: Option<f64>,
}

impl PerConnection {
    fn of(beyond: Option<&Beyond>, per_second: f64) -> Self {
        let Some(beyond) = beyond else { return Self::default() };
        let each = |value: f64| Some(value / per_second).filter(|it| it.is_finite());
        Self {
            active: each(beyond.active),
            wake_ups: beyond.wake_ups.and_then(each),
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
}

/// What a transition from idle to active takes, where the power is a model's that does not know of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WakeCost {
    /// Joules of each.
    pub joules: f64,
}

/// Counts over the whole run, from before the first packet until after the last.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Whole {
    /// At the end where data come from.
    pub sender: Network,
    /// At the other.
    pub receiver: Network,
    /// What was lost on purpose on the way to the receiver.
    pub planted: Option<Planted>,
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
        /// The figures of a run; `None` of what nobody knows.
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
    interrupts, "1", "Interrupts beyond idle, each connection.";
    context_switches, "1", "Context switches beyond idle, each connection.";
    received_softirqs, "1", "Softirqs that take in packets beyond idle, each connection.";
    sender_active, "s", "CPU time that the sender's machine was active beyond idle, each connection, where it is not the receiver's.";
    receiver_active, "s", "The same of the receiver's.";
    sender_wake_ups, "1", "Transitions from idle to active beyond idle of the sender's machine, each connection, where it is not the receiver's.";
    receiver_wake_ups, "1", "The same of the receiver's.";
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
    energy_per_segment, "J", "The same of a segment.";
}

/// All figures of a run.
pub fn figures(
    fetched: &Fetched,
    window: &Window,
    whole: &Whole,
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
    let wake_ups = whole_machine.as_ref().and_then(|it| it.wake_ups);
    let waking = wake_cost.zip(wake_ups).map_or(0.0, |(cost, rate)| cost.joules * rate);
    let beyond_idle = window.watts.zip(idle.watts);
    let energy = beyond_idle.and_then(|(now, then)| each_of(now - then + waking));
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
        interrupts: machine.interrupts,
        context_switches: machine.context_switches,
        received_softirqs: machine.received_softirqs,
        sender_frames,
        receiver_frames,
        frames: sender_frames.zip(receiver_frames).map(|(sender, receiver)| sender + receiver),
        power: window.watts,
        idle_power: idle.watts,
        energy,
        energy_per_segment: energy.map(|it| it / segments as f64),
        ..of_sides(&side(0), &side(1))
    }
}

/// How many connections the window has had: of all as many as bytes came in it of all bytes. By their rate
/// alone it would be wrong where losses make the link rest for a second at a time, in the window or beside it.
fn in_window(fetched: &Fetched, window: &Window, whole: &Whole) -> f64 {
    let came = |network: &Network| network.received_bytes as f64;
    fetched.connections() * came(&window.receiver) / came(&whole.receiver)
}

/// Those of the two ends, each connection.
fn of_sides(sender: &PerConnection, receiver: &PerConnection) -> Figures {
    Figures {
        sender_active: sender.active,
        receiver_active: receiver.active,
        sender_wake_ups: sender.wake_ups,
        receiver_wake_ups: receiver.wake_ups,
        sender_interrupts: sender.interrupts,
        receiver_interrupts: receiver.interrupts,
        sender_context_switches: sender.context_switches,
        receiver_context_switches: receiver.context_switches,
        sender_received_softirqs: sender.received_softirqs,
        receiver_received_softirqs: receiver.received_softirqs,
        ..Figures::default()
    }
}

/// Do the books agree? What does not, in words. Where cards join segments to larger frames (`joined`), there
/// are fewer of these.
pub fn disagreements(fetched: &Fetched, whole: &Whole, joined: bool) -> Vec<String> {
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
mod tests {
    use serde_json::json;

    use super::*;

    fn fetched() -> Fetched {
        let text = json!({
            "duration_s": 2.5, "completed": 99, "failed": 0, "cut": 1, "cut_s": 0.024, "bytes": 1_460_000,
            "bytes_per_connection": 14_600, "congestion": "cubic", "records": [],
            "lifetime_s": {"count": 99, "mean": 0.024, "sd": 0.001, "p50": 0.023, "p99": 0.03},
            "tcp": {"segments_in": {"connections": 99, "sum": 1200, "mean": 12.1, "min": 1, "max": 14}},
            "server": {"tcp": {
                "rtt_us": {"connections": 99, "mean": 1500.0, "min": 1, "max": 9},
                "min_rtt_us": {"connections": 99, "mean": 500.0, "min": 200, "max": 900},
                "retransmitted_segments": {"connections": 99, "sum": 5, "mean": 0.05, "min": 0, "max": 2},
                "data_segments_out": {"connections": 99, "sum": 1000, "mean": 10, "min": 10, "max": 12},
                "pacing": null,
            }},
        });
        Fetched::read(&text.to_string()).unwrap()
    }

    fn whole(received_bytes: u64) -> Whole {
        let receiver = Network { received_bytes, ..Network::default() };
        Whole { receiver, ..Whole::default() }
    }

    fn machine(idle_us: u64, wakes: u64) -> Machine {
        Machine {
            cpus: 2,
            idle_us,
            idle_entries: [("C1".to_owned(), wakes)].into(),
            interrupts: 10 * wakes,
            ..Machine::default()
        }
    }

    #[test]
    fn the_energy_of_a_connection_is_what_is_drawn_beyond_idle_in_its_share_of_the_time() {
        // 100 connections in 2.5 s; the window has 80 % of the bytes, so 80 of them. 3 W more than idle for
        // 2 s are 6 J: 0.075 J each. Of 2 x 2 s, 3 s were idle: 1 s busy, less the 0.2 s that idle has in 2 s: 0.01 s
        // each. 1000 wake-ups, less the 200 of idle: 10 each, 0.001 J a piece.
        let window = Window {
            seconds: 2.0,
            machine: Some(machine(3_000_000, 1000)),
            receiver: Network { received_bytes: 1_250_000, ..Network::default() },
            sending: Process { cpu_ns: 160_000_000, ..Process::default() },
            watts: Some(23.0),
            ..Window::default()
        };
        let idle = Idle {
            seconds: 1.0,
            machine: Some(machine(1_900_000, 100)),
            watts: Some(20.0),
            ..Idle::default()
        };
        let of = |cost| figures(&fetched(), &window, &whole(1_562_500), &idle, 10, cost);
        let close = |name: &str, value: Option<f64>, wanted: f64| {
            let value = value.unwrap_or_else(|| panic!("no {name}"));
            assert!((value - wanted).abs() < 1e-9 * wanted.abs(), "{name}: {value}, not {wanted}");
        };
        let plain = of(None);
        for (name, wanted) in [
            ("lifetime", 0.024),
            ("connections_per_second", 40.0),
            ("rate", 5e6),
            ("goodput", 4_672_000.0),
            ("round_trip", 1.5e-3),
            ("least_round_trip", 2e-4),
            ("retransmitted", 0.005),
            ("sender_cpu", 0.002),
            ("active", 0.01),
            ("wake_ups", 10.0),
            ("interrupts", 100.0),
            ("energy", 0.075),
            ("energy_per_segment", 0.0075),
        ] {
            close(name, plain.get(name), wanted);
        }
        close("energy with wake-ups", of(Some(WakeCost { joules: 1e-3 })).energy, 0.085);
        assert_eq!((plain.relay_cpu, plain.loss), (None, None), "what is not there is not 0");
    }

    #[test]
    fn a_window_in_which_the_link_rested_has_fewer_connections_and_not_cheaper_ones() {
        // A tenth of the bytes, so ten of 100 connections, and 220 frames; it had half of the time.
        let window = Window {
            seconds: 1.25,
            sender: Network { sent_frames: 120, ..Network::default() },
            receiver: Network { sent_frames: 100, received_bytes: 156_250, ..Network::default() },
            ..Window::default()
        };
        let all = figures(&fetched(), &window, &whole(1_562_500), &Idle::default(), 10, None);
        assert_eq!(all.frames, Some(22.0));
        assert_eq!(all.connections_per_second, Some(40.0), "that is of the whole run");
        let nothing = Window { receiver: Network::default(), ..window };
        let none = figures(&fetched(), &nothing, &whole(1_562_500), &Idle::default(), 10, None);
        assert_eq!(none.frames, None, "where nothing came nothing is known");
    }

    #[test]
    fn ends_that_are_machines_of_their_own_are_told_apart_each_by_its_own_clock() {
        // The receiver's window has all bytes, so 100 connections, in 2.5 s; of its 5 s 2.5 s were active,
        // and none with nothing on the link: 0.025 s each. At 40 connections in a second the sender's
        // window of 2 s has 80; it was active for 1 s, and idle has 0.05 s a second: 0.9 s.
        let side = |seconds, idle_us, wakes| Side { seconds, machine: machine(idle_us, wakes) };
        let window = Window {
            seconds: 2.1,
            sides: Some([side(2.0, 3_000_000, 1000), side(2.5, 2_500_000, 300)]),
            sender: Network { sent_frames: 800, ..Network::default() },
            receiver: Network { sent_frames: 500, received_bytes: 1_250_000, ..Network::default() },
            receiving: Process { cpu_ns: 500_000_000, ..Process::default() },
            ..Window::default()
        };
        let idle = Idle {
            seconds: 1.0,
            sides: Some([side(1.0, 1_950_000, 100), side(1.0, 2_000_000, 20)]),
            ..Idle::default()
        };
        let all = figures(&fetched(), &window, &whole(1_250_000), &idle, 10, None);
        for (name, wanted) in [
            ("sender_active", 0.9 / 80.0),
            ("receiver_active", 0.025),
            ("sender_wake_ups", 10.0),
            ("receiver_wake_ups", 2.5),
            ("sender_interrupts", 100.0),
            ("receiver_cpu", 0.005),
            ("sender_frames", 10.0),
            ("receiver_frames", 5.0),
            ("frames", 15.0),
            ("rate", 4e6),
        ] {
            let value = all.get(name).unwrap_or_else(|| panic!("no {name}"));
            assert!((value - wanted).abs() < 1e-9 * wanted, "{name}: {value}, not {wanted}");
        }
        for name in ["active", "wake_ups", "interrupts", "energy", "power"] {
            assert_eq!(all.get(name), None, "{name}: no machine is both");
        }
    }

    #[test]
    fn those_cut_off_count_with_what_they_had_lived() {
        // 99 of 24 ms, and one that had all its bytes after 24 ms.
        let close = |value: Option<f64>, wanted: f64| (value.unwrap() - wanted).abs() < 1e-12;
        assert!(close(fetched().lifetime(), 0.024), "{:?}", fetched().lifetime());
        // Half of each of ten connections in 2.5 s: they would take 5 s.
        let none = Fetched { lifetime_s: None, bytes: 73_000, cut_s: 25.0, ..fetched() };
        assert!(close(none.lifetime(), 5.0), "{:?}", none.lifetime());
        // Lives of 0.1 and of 1 s by turns (mean 0.55), cut after 5 s: nine were completed, of 0.5 s in the
        // mean, and a long one is half done. With that one it is 0.526.
        let lifetimes = Lifetimes { count: 9, mean: 4.5 / 9.0, p50: 0.1, p99: 1.0 };
        let bytes = 9 * 14_600 + 7_300;
        let cut = Fetched { lifetime_s: Some(lifetimes), bytes, cut_s: 0.5, ..fetched() };
        assert!(close(cut.lifetime(), 5.0 / 9.5), "{:?}", cut.lifetime());
        let nothing = Fetched { lifetime_s: None, bytes: 0, cut_s: 0.0, ..fetched() };
        assert_eq!(nothing.lifetime(), None);
    }

    #[test]
    fn books_that_do_not_agree_are_told() {
        let network = |frames, segments| Network {
            received_frames: frames,
            received_bytes: 2_000_000,
            protocols: [("Tcp.InSegs".to_owned(), segments)].into(),
            ..Network::default()
        };
        let whole = |frames, segments, lost| Whole {
            receiver: network(frames, segments),
            sender: Network {
                protocols: [("Tcp.RetransSegs".to_owned(), 6)].into(),
                ..Network::default()
            },
            planted: Some(Planted { came: frames, lost }),
        };
        let of = |frames, segments, joined| {
            disagreements(&fetched(), &whole(frames, segments, 10), joined)
        };
        assert_eq!(of(1300, 1290, false), Vec::<String>::new());
        assert_eq!(of(1300, 1300, false).len(), 1);
        assert_eq!(of(300, 1300, true).len(), 0, "a frame has several segments there");
        assert_eq!(of(1300, 900, true).len(), 0, "and what is joined is one for the network");
        assert_eq!(of(1110, 1100, false).len(), 1, "1200 were told");
    }

    #[test]
    fn every_figure_is_found_by_its_name() {
        let figures = Figures { energy: Some(1.0), ..Figures::default() };
        assert_eq!(
            (figures.get("energy"), figures.get("power"), figures.get("x")),
            (Some(1.0), None, None)
        );
        assert!(FIGURES.iter().any(|it| it.name == "wake_ups"));
    }
}
