//! The link between two ends: by what it is emulated, and how that is set up.
//!
//! Both ends send no faster than the scenario's rate; each direction loses packets, and has half of the
//! extra delay. Nothing but IPv4 of ours is on it: addresses are told, not asked for, and IPv6 is off, so
//! that the cards' counters are those of the connections. Whether frames are single packets, as on a wire,
//! is for `cards` to say.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use nightwatt_clock::meter::Stop;
use nightwatt_environments::guard::Undo;
use nightwatt_environments::shell;
use serde::Serialize;

use super::Error;
use super::ends::{CARD, End, Ends, Pair, Running, programs};
use super::relay::Relayed;
use super::scenario::Scenario;

/// A frame of 1500 bytes with Ethernet's head.
pub(crate) const FULL_FRAME: f64 = 1514.0;

/// Payload of TCP in it, with timestamps.
pub(crate) const FULL_PAYLOAD: f64 = 1448.0;

/// Frames that may wait in a card for the relay, which does not run all the time.
const WAITING: u32 = 10_000;

/// Handle of our queues, which tells them from other queues.
const HANDLE: &str = "6e77:";

/// Set to 1 so that a connection does not inherit metrics from earlier ones.
const METRICS: &str = "/proc/sys/net/ipv4/tcp_no_metrics_save";

/// Name of our nftables table.
const TABLE: &str = "nightwatt_link";

/// What the kernel can do to packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a thing of its own")]
pub struct Offers {
    /// Delay and loss of queues.
    pub netem: bool,
    /// A bucket of tokens for the rate.
    pub tbf: bool,
    /// Rules that drop at random.
    pub nftables: bool,
    /// Cards whose wire is a process.
    pub tap: bool,
}

/// Says, a line each, what is there. All of it is tried in a network that is ours.
const TRY: &str = "\
tc qdisc add dev lo root netem delay 1ms 2>/dev/null && { echo netem; tc qdisc del dev lo root; }
tc qdisc add dev lo root tbf rate 1mbit burst 10k limit 100k 2>/dev/null && { echo tbf; tc qdisc del dev lo root; }
echo 'table inet try { chain it { type filter hook input priority 0; numgen random mod 1000000 < 1 counter drop; }; }' \
| nft -f - 2>/dev/null && { echo nftables; nft delete table inet try; }
[ ! -c /dev/net/tun ] || echo tap
true";

impl Offers {
    /// Asks the kernel. The network may be shared with others.
    pub fn at(end: &End, is_shared: bool) -> Result<Self, Error> {
        end.need("make links", &programs::OF_LINKS)?;
        let line = if is_shared {
            // Its network is not ours.
            format!("unshare --net {}", shell::join(["/bin/sh", "-c", TRY]))
        } else {
            TRY.to_owned()
        };
        let output = end.run("try what the kernel can do to packets", &line)?;
        let has = |word: &str| output.lines().any(|line| line == word);
        Ok(Self {
            netem: has("netem"),
            tbf: has("tbf"),
            nftables: has("nftables"),
            tap: has("tap"),
        })
    }

    /// What both ends have, where each has a kernel of its own and a process of ours cannot be between.
    fn of_both(ends: &Ends) -> Result<Self, Error> {
        let is_shared = matches!(ends.pair(), Pair::Hosts { .. });
        let [one, other] =
            [Self::at(&ends.sender, is_shared)?, Self::at(&ends.receiver, is_shared)?];
        Ok(Self {
            netem: one.netem && other.netem,
            tbf: one.tbf && other.tbf,
            nftables: one.nftables && other.nftables,
            tap: false,
        })
    }
}

/// By what something is emulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EmulatedBy {
    /// Nothing is to be done.
    None,
    /// The kernel's network emulator.
    Netem,
    /// The kernel's bucket of tokens.
    Tbf,
    /// A rule of nftables.
    Nftables,
    /// A process of ours between two cards.
    Relay,
}

/// How a link is emulated.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Emulation {
    /// How fast.
    pub rate: EmulatedBy,
    /// How lossy.
    pub loss: EmulatedBy,
    /// How long.
    pub delay: EmulatedBy,
    /// In each direction.
    pub one_way: Duration,
    /// Bytes that may wait before the bottleneck.
    pub queue: u64,
    /// Bytes that may leave at once; none where nothing limits how many that are.
    pub burst: Option<u64>,
    /// Why nothing is emulated at all: the link is the one that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bare: Option<String>,
    /// What machines know of each other from before and cannot be made to forget, or why that is not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remembered: Vec<String>,
}

impl Emulation {
    /// The best way to have such a link on such a kernel.
    pub fn of(scenario: &Scenario, offers: Offers) -> Result<Self, Error> {
        let rate = match (scenario.is_bare(), offers.tbf) {
            (true, _) => EmulatedBy::None,
            (false, true) => EmulatedBy::Tbf,
            (false, false) => EmulatedBy::Relay,
        };
        let delay = match (scenario.delay.is_zero(), offers.netem) {
            (true, _) => EmulatedBy::None,
            (false, true) => EmulatedBy::Netem,
            (false, false) => EmulatedBy::Relay,
        };
        let loss = match (scenario.loss > 0.0, offers) {
            (false, _) => EmulatedBy::None,
            (true, Offers { netem: true, .. }) => EmulatedBy::Netem,
            (true, Offers { nftables: true, .. }) => EmulatedBy::Nftables,
            (true, _) => EmulatedBy::Relay,
        };
        if [rate, loss, delay].contains(&EmulatedBy::Relay) && !offers.tap {
            return Err(Error::Options(format!(
                "this kernel cannot be made to have a link of {}: it has neither netem (sch_netem), nor what \
                 would do in its place (sch_tbf, nftables, /dev/net/tun); load these modules, or use another \
                 machine",
                scenario.text()
            )));
        }
        let one_way = scenario.delay / 2;
        let in_flight = scenario.bits_per_second / 8.0 * scenario.delay.as_secs_f64();
        // A millisecond, and two frames at the least: a slow link sends them one by one.
        let burst = (scenario.bits_per_second / 8.0 * 1e-3).max(2.0 * FULL_FRAME);
        let queue = in_flight.max(100.0 * FULL_FRAME);
        let burst = burst.is_finite().then_some(burst as u64);
        let queue = queue as u64;
        let remembered = Vec::new();
        Ok(Self { rate, loss, delay, one_way, queue, burst, bare: None, remembered })
    }

    /// None: a link as it is.
    fn bare(why: String) -> Self {
        let (rate, loss, delay) = (EmulatedBy::None, EmulatedBy::None, EmulatedBy::None);
        let (one_way, bare, remembered) = (Duration::ZERO, Some(why), Vec::new());
        Self { rate, loss, delay, one_way, queue: 0, burst: None, bare, remembered }
    }

    /// Whether a process of ours relays the frames.
    pub fn is_relayed(&self) -> bool {
        [self.rate, self.loss, self.delay].contains(&EmulatedBy::Relay)
    }

    /// In words: `rate by tbf, loss by nftables`.
    pub fn text(&self) -> String {
        if let Some(why) = &self.bare {
            return format!("nothing is emulated: {why}");
        }
        let by = |what, means| {
            let name = match means {
                EmulatedBy::None => return None,
                EmulatedBy::Netem => "netem",
                EmulatedBy::Tbf => "tbf",
                EmulatedBy::Nftables => "nftables",
                EmulatedBy::Relay => "a relay",
            };
            Some(format!("{what} by {name}"))
        };
        let all = [by("rate", self.rate), by("loss", self.loss), by("delay", self.delay)];
        let all: Vec<String> = all.into_iter().flatten().collect();
        let emulated =
            if all.is_empty() { "nothing is emulated".to_owned() } else { all.join(", ") };
        let parts = std::iter::once(emulated).chain(self.remembered.iter().cloned());
        parts.collect::<Vec<String>>().join("; ")
    }

    /// The lines that make it slow, lossy and long. `from` is the other end, where it is not the only one.
    fn lines(&self, scenario: &Scenario, card: &str, from: Option<&str>) -> String {
        let mut lines = String::new();
        let mut parent = format!("root handle {HANDLE}");
        if self.delay == EmulatedBy::Netem || self.loss == EmulatedBy::Netem {
            let delay = self.one_way.as_micros();
            let loss = 100.0 * if self.loss == EmulatedBy::Netem { scenario.loss } else { 0.0 };
            let _ = writeln!(
                lines,
                "tc qdisc add dev {card} {parent} netem delay {delay}us loss {loss}% limit 100000"
            );
            parent = format!("parent {HANDLE}1");
        }
        if self.rate == EmulatedBy::Tbf
            && let Some(burst) = self.burst
        {
            let (rate, queue) = (scenario.bits_per_second.round(), self.queue);
            let _ = writeln!(
                lines,
                "tc qdisc add dev {card} {parent} tbf rate {rate}bit burst {burst} limit {queue}"
            );
        }
        if self.loss == EmulatedBy::Nftables {
            let of_million = (scenario.loss * 1e6).round();
            // nft refuses what is always so.
            let chance = if of_million < 1e6 {
                format!("numgen random mod 1000000 < {of_million} ")
            } else {
                String::new()
            };
            let of = from.map(|it| format!("ip saddr {it} ")).unwrap_or_default();
            let _ = writeln!(
                lines,
                "printf '%s\\n' 'table inet {TABLE} {{ counter came {{ }}; counter lost {{ }}; \
                 chain it {{ type filter hook input priority 0; \
                 iifname \"{card}\" {of}counter name came; \
                 iifname \"{card}\" {of}{chance}counter name lost drop; }}; }}' | nft -f -"
            );
        }
        lines
    }
}

/// The lines that set up the card of an end, which is ours alone.
fn own_card(end: &End, other: &End) -> String {
    let (card, own) = (&end.card, &end.address);
    let hardware = |end: &End| end.hardware_address.clone().unwrap_or_default();
    let (own_card, other_card) = (hardware(end), hardware(other));
    format!(
        "set -e\n\
         ip link set dev {card} address {own_card} mtu 1500 txqueuelen {WAITING}\n\
         [ ! -e /proc/sys/net/ipv6/conf/{card}/disable_ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/{card}/disable_ipv6\n\
         # What one connection has learned is not for the next.\n\
         echo 1 >{METRICS}\n\
         ip address add {own}/30 dev {card}\n\
         ip link set dev {card} up\n\
         ip link set dev lo up\n\
         ip neighbour replace {} lladdr {other_card} dev {card} nud permanent\n",
        other.address
    )
}

/// The line that says which of our things are on a machine that is not ours alone.
fn looking(card: &str) -> String {
    format!(
        "! tc qdisc show dev {card} | grep -q ' {HANDLE} root' || echo 'the queue {HANDLE}'\n\
         ! nft list table inet {TABLE} >/dev/null 2>&1 || echo 'the table {TABLE} of nftables'\n"
    )
}

/// The lines that have a machine forget what connections to another one have taught it. They print what it knows
/// all the same, or why that is not known. Of one that it knows nothing of, `flush` fails.
fn forgetting(other: &str) -> String {
    format!(
        "ip tcp_metrics flush {other} >/dev/null 2>&1\n\
         known=$(ip tcp_metrics show 2>&1) || {{ printf '%s\\n' \"$known\"; exit 0; }}\n\
         printf '%s\\n' \"$known\" | while read -r whose rest; do\n\
         [ \"$whose\" != {other} ] || echo \"$whose $rest\"; done\n"
    )
}

/// The line that takes off a machine, which is not ours alone, what a link has put there. It does no harm
/// where nothing was changed, or the machine was started again.
fn restoring(card: &str, saved_metrics: bool) -> String {
    let mut lines = format!(
        "PATH=$PATH:/usr/sbin:/sbin\n\
         ours() {{ tc qdisc show dev {card} 2>/dev/null | grep -q ' {HANDLE} root'; }}\n\
         ! ours || tc qdisc del dev {card} root\n\
         ! nft list table inet {TABLE} >/dev/null 2>&1 || nft delete table inet {TABLE} || exit 1\n"
    );
    if saved_metrics {
        let _ = writeln!(lines, "echo 0 >{METRICS} || exit 1");
    }
    lines.push_str("! ours\n");
    lines
}

/// A link that is there.
#[derive(Debug)]
pub(crate) struct Link {
    /// How it is made.
    pub emulation: Emulation,
    relay: Option<Running>,
    /// On machines that are not ours alone.
    undos: Vec<Undo>,
}

/// Frames that reached an end, and those that were lost on purpose just before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct InjectedLoss {
    /// All of them.
    pub came: u64,
    /// Dropped.
    pub lost: u64,
}

impl InjectedLoss {
    /// What has happened since.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let (came, lost) = (self.came - before.came, self.lost - before.lost);
        Self { came, lost }
    }
}

impl Link {
    /// Joins the ends. `program` is our own binary.
    pub(crate) fn make(
        ends: &Ends,
        scenario: &Scenario,
        program: &Path,
        stop: &Stop,
    ) -> Result<Self, Error> {
        match ends.pair() {
            Pair::Namespaces => Self::between_namespaces(ends, scenario, program, stop),
            Pair::Guests => {
                let emulation = Emulation::of(scenario, Offers::of_both(ends)?)?;
                Self::on_own_cards(ends, &emulation, scenario)?;
                Ok(Self { emulation, relay: None, undos: Vec::new() })
            }
            Pair::Hosts { bare: Some(why), .. } => {
                let emulation = Emulation::bare(why.clone());
                Ok(Self { emulation, relay: None, undos: Vec::new() })
            }
            Pair::Hosts { bare: None, .. } => Self::on_hosts(ends, scenario),
        }
    }

    fn between_namespaces(
        ends: &Ends,
        scenario: &Scenario,
        program: &Path,
        stop: &Stop,
    ) -> Result<Self, Error> {
        let emulation = Emulation::of(scenario, Offers::at(&ends.sender, false)?)?;
        let relay = if emulation.is_relayed() {
            let words = relay_words(&emulation, scenario, ends, program);
            let mut relay = ends.spawn_between("relay frames", &words)?;
            relay.first_line(stop)?;
            Some(relay)
        } else {
            let other = ends.receiver.network_file().unwrap_or(Path::new("")).display();
            let line = format!(
                "ip link add {CARD} type veth peer name {CARD} netns {}",
                other.to_string().split('/').nth(2).unwrap_or_default()
            );
            ends.sender.run("join the two ends", &line)?;
            None
        };
        Self::on_own_cards(ends, &emulation, scenario)?;
        Ok(Self { emulation, relay, undos: Vec::new() })
    }

    fn on_own_cards(ends: &Ends, emulation: &Emulation, scenario: &Scenario) -> Result<(), Error> {
        for (end, other) in [(&ends.sender, &ends.receiver), (&ends.receiver, &ends.sender)] {
            let mut lines = own_card(end, other);
            lines.push_str(&emulation.lines(scenario, &end.card, None));
            end.run("set up the link", &lines)?;
        }
        Ok(())
    }

    /// Sets up a link on cards of existing machines: every change is undone even if we crash.
    fn on_hosts(ends: &Ends, scenario: &Scenario) -> Result<Self, Error> {
        let emulation = Emulation::of(scenario, Offers::of_both(ends)?)?;
        let mut link = Self { emulation, relay: None, undos: Vec::new() };
        for end in ends.both() {
            // What undoes ours would undo theirs.
            let output = end.run("look whether a link is there already", &looking(&end.card))?;
            let there = output.lines().collect::<Vec<_>>().join(" and ");
            if !there.is_empty() {
                let End { name, card, .. } = end;
                return Err(Error::Options(format!(
                    "at the {name}, {card} has {there} of a link already: another run has it, so wait for its end; \
                     if none runs, a killed one has left it: `nightwatt tcp lab clean`, where that ran"
                )));
            }
        }
        for (end, other) in [(&ends.sender, &ends.receiver), (&ends.receiver, &ends.sender)] {
            let card = &end.card;
            let output = end.run("see what it learns of connections", &format!("cat {METRICS}"))?;
            let saved_metrics = output.trim() == "0";
            link.undos.push(ends.protect(end, &restoring(card, saved_metrics))?);
            let mut lines = format!("set -e\necho 1 >{METRICS}\n");
            lines.push_str(&link.emulation.lines(scenario, card, Some(&other.address)));
            end.run(
                "set up the link (a queue of somebody else's on that card is left alone)",
                &lines,
            )?;
            let known = end.run("forget earlier connections", &forgetting(&other.address))?;
            let known = known.lines().next().map(|first| {
                let (name, first) = (end.name, first.trim());
                format!("the {name} may know the other end from before: `ip tcp_metrics`: {first}")
            });
            link.emulation.remembered.extend(known);
        }
        Ok(link)
    }

    /// The process that is the wire.
    pub(crate) fn relay(&self) -> Option<u32> {
        self.relay.as_ref().map(Running::process)
    }

    /// Packets lost on purpose on the way to an end, so far; `None` where they are not counted.
    pub(crate) fn planted(&self, end: &End) -> Result<Option<InjectedLoss>, Error> {
        if self.emulation.loss != EmulatedBy::Nftables {
            return Ok(None);
        }
        let output = end.run("read the counters of the link", "nft -j list counters")?;
        planted(&output).map(Some)
    }

    /// Packets that the queue of an end's card had no room for, so far.
    pub(crate) fn dropped_by_queue(&self, end: &End) -> Result<u64, Error> {
        if self.emulation.rate != EmulatedBy::Tbf {
            return Ok(0);
        }
        let line = format!("tc -s -j qdisc show dev {} root", end.card);
        let output = end.run("read the counters of the card's queue", &line)?;
        dropped_by_queue(&output)
    }

    /// Takes the link away.
    pub(crate) fn end(self, ends: &Ends, stop: &Stop) -> Result<Option<Relayed>, Error> {
        let mut relayed = None;
        if let Some(relay) = self.relay {
            let output = relay.end(stop)?;
            relayed = serde_json::from_str(output.trim()).ok();
        }
        for undo in self.undos.into_iter().rev() {
            undo.now()?;
        }
        for end in ends.both() {
            let card = &end.card;
            let line = match ends.pair() {
                Pair::Namespaces => format!("ip link del dev {card} 2>/dev/null"),
                Pair::Guests => format!(
                    "ip link set dev {card} down; ip address flush dev {card}; \
                     tc qdisc del dev {card} root 2>/dev/null"
                ),
                Pair::Hosts { .. } => continue,
            };
            let line = format!("{line}; nft delete table inet {TABLE} 2>/dev/null; true");
            end.run("take the link away", &line)?;
        }
        Ok(relayed)
    }
}

fn relay_words(
    emulation: &Emulation,
    scenario: &Scenario,
    ends: &Ends,
    program: &Path,
) -> Vec<String> {
    let mut words = ["nice", "-n", "-20"].map(str::to_owned).to_vec();
    words.push(program.display().to_string());
    let one_way =
        if emulation.delay == EmulatedBy::Relay { emulation.one_way } else { Duration::ZERO };
    words.extend(["tcp", "link", "relay", "--card", CARD, "--delay-us"].map(str::to_owned));
    words.push(one_way.as_micros().to_string());
    for (option, end) in [("--first", &ends.sender), ("--second", &ends.receiver)] {
        let file = end.network_file().unwrap_or(Path::new("")).display();
        words.extend([option.to_owned(), file.to_string()]);
    }
    if emulation.rate == EmulatedBy::Relay {
        words.extend(["--rate".to_owned(), scenario.bits_per_second.to_string()]);
        words.extend(["--queue".to_owned(), emulation.queue.to_string()]);
    }
    if emulation.loss == EmulatedBy::Relay {
        words.extend(["--loss".to_owned(), scenario.loss.to_string()]);
    }
    words
}

fn dropped_by_queue(output: &str) -> Result<u64, Error> {
    let wrong = |why: &str| Error::UnexpectedOutput {
        program: "tc",
        why: why.to_owned(),
        output: output.chars().take(200).collect(),
    };
    let json: serde_json::Value =
        serde_json::from_str(output).map_err(|error| wrong(&error.to_string()))?;
    json[0]["drops"].as_u64().ok_or_else(|| wrong("no `drops`"))
}

fn planted(output: &str) -> Result<InjectedLoss, Error> {
    let wrong = |why: &str| Error::UnexpectedOutput {
        program: "nft",
        why: why.to_owned(),
        output: output.chars().take(200).collect(),
    };
    let json: serde_json::Value =
        serde_json::from_str(output).map_err(|error| wrong(&error.to_string()))?;
    let all = json["nftables"].as_array().ok_or_else(|| wrong("no list"))?;
    let packets = |name: &str| {
        let counters = all.iter().map(|it| &it["counter"]);
        let counter = counters.filter(|it| it["table"] == TABLE).find(|it| it["name"] == name);
        counter.and_then(|it| it["packets"].as_u64()).ok_or_else(|| wrong("a counter is missing"))
    };
    Ok(InjectedLoss { came: packets("came")?, lost: packets("lost")? })
}

#[cfg(test)]
mod tests;
