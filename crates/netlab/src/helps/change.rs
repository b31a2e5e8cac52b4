//! What may help a connection, as it is written and as it is switched. Pure.

use std::fmt;

use nightwatt_tcp::wire::MOST_BUSY_POLL;
use serde::{Serialize, Serializer};

use crate::cards::{Feature, Features};
use crate::link::{FULL_FRAME, FULL_PAYLOAD};
use crate::scenario::Scenario;
use crate::study::Cell;

/// What is run with and without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Work that cards do, all of it at once.
    Features(Vec<Feature>),
    /// Microseconds that a card gathers before it interrupts, instead of none.
    Coalescing(u64),
    /// Bits a second of each connection; `None` for its share of the link's.
    Pacing(Option<u64>),
    /// Bytes of the sender's send buffer and the receiver's receive buffer, instead of what the kernel finds
    /// right.
    Buffers(u32),
    /// Microseconds that both ends look at the card before they sleep, instead of none.
    BusyPoll(u32),
}

/// All that is tried where nothing is named.
pub const USUAL: &str = "tso+gso+gro,tso,gso,gro,checksum,coalescing,pacing,buffers,busy-poll";

/// What can be tried, for help.
pub const FORMS: &str = "tso, gso, gro, checksum (together: `tso+gro`), coalescing[=US], pacing[=RATE], \
                         buffers[=BYTES], busy-poll[=US]";

/// The share of a link that its connections are paced to together: headers and acknowledgements need some.
const PACED: f64 = 0.95;

/// As bits of payload are to those of full frames.
const PAYLOAD: f64 = FULL_PAYLOAD / FULL_FRAME;

/// Number of packets of a connection that Linux sends unpaced (`tcp_update_skb_after_send`).
const UNPACED: u64 = 10;

const GIVEN: [(&str, u64); 3] = [("coalescing", 50), ("buffers", 262_144), ("busy-poll", 50)];

impl Change {
    /// Reads one: `gro`, `tso+gso`, `pacing=9Mbit`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let usual = GIVEN.iter().find(|it| it.0 == name).map_or(0, |it| it.1);
        let number = |what: &str| match value.map(scaled) {
            None => Ok(usual),
            Some(Some(value)) if value > 0 => Ok(value),
            Some(_) => Err(format!("`{text}`: write {what}")),
        };
        let small =
            |what: &str| number(what)?.try_into().map_err(|_| format!("`{text}`: write {what}"));
        match name {
            "coalescing" => number("microseconds, as in `coalescing=50`").map(Self::Coalescing),
            "buffers" => small("bytes, as in `buffers=64k`").map(Self::Buffers),
            "busy-poll" => {
                let what = "microseconds up to 10000, as in `busy-poll=50`";
                let usecs = small(what)?;
                if usecs > MOST_BUSY_POLL {
                    return Err(format!("`{text}`: write {what}"));
                }
                Ok(Self::BusyPoll(usecs))
            }
            "pacing" => match value.map(|it| it.strip_suffix("bit").and_then(scaled)) {
                None => Ok(Self::Pacing(None)),
                Some(Some(rate)) if rate >= 8 => Ok(Self::Pacing(Some(rate))),
                Some(_) => Err(format!("`{text}`: write bits a second, as in `pacing=9Mbit`")),
            },
            _ => Self::features(text),
        }
    }

    fn features(text: &str) -> Result<Self, String> {
        let mut all = Vec::new();
        for (place, name) in text.split('+').enumerate() {
            if text.split('+').take(place).any(|before| before == name) {
                return Err(format!("`{name}` is there twice"));
            }
            match name {
                "tso" => all.push(Feature::Tso),
                "gso" => all.push(Feature::Gso),
                "gro" => all.push(Feature::Gro),
                "checksum" => all.extend([Feature::RxChecksum, Feature::TxChecksum]),
                _ => {
                    return Err(format!(
                        "nothing is known of `{name}`: there are tso, gso, gro, checksum (joined by +: \
                         tso+gso+gro), coalescing, pacing, buffers, busy-poll"
                    ));
                }
            }
        }
        all.sort_unstable();
        Ok(Self::Features(all))
    }

    /// Reads several: `tso,buffers=64k`.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, String> {
        let mut all: Vec<Self> = Vec::new();
        for text in text.split(',').map(str::trim) {
            let change = Self::parse(text)?;
            if all.contains(&change) {
                return Err(format!("`{text}` is there twice"));
            }
            all.push(change);
        }
        Ok(all)
    }

    /// What of cards is to be on or off, if it is switched.
    pub fn switched(&self, on: bool) -> Features {
        match self {
            Self::Features(all) => all.iter().map(|it| (*it, on)).collect(),
            _ => Features::new(),
        }
    }

    /// How long cards are to gather, if it is switched.
    pub fn coalescing(&self, on: bool) -> Option<u64> {
        match self {
            Self::Coalescing(usecs) => Some(if on { *usecs } else { 0 }),
            _ => None,
        }
    }

    /// The paced rate of each of this many connections, in bytes a second, if the change is pacing.
    fn paced(&self, scenario: &Scenario, at_once: u32) -> Option<u64> {
        let Self::Pacing(given) = self else { return None };
        let share = PACED * PAYLOAD * scenario.bits_per_second / f64::from(at_once);
        let bits = given.map_or(share, |it| it as f64);
        (bits.is_finite() && bits >= 8.0).then_some((bits / 8.0) as u64)
    }

    /// What `tcp fetch` is to be told besides.
    pub fn words(&self, scenario: &Scenario, at_once: u32) -> Vec<String> {
        let words = |options: &[(&str, String)]| {
            options.iter().flat_map(|(name, value)| [(*name).to_owned(), value.clone()]).collect()
        };
        match self {
            Self::Features(_) | Self::Coalescing(_) => Vec::new(),
            Self::Pacing(_) => self
                .paced(scenario, at_once)
                .map(|bytes| words(&[("--pacing", format!("{}bit", 8 * bytes))]))
                .unwrap_or_default(),
            Self::Buffers(bytes) => words(&[
                ("--send-buffer", bytes.to_string()),
                ("--receive-buffer", bytes.to_string()),
            ]),
            Self::BusyPoll(usecs) => words(&[("--busy-poll", usecs.to_string())]),
        }
    }

    /// Why the change cannot be tried over this link, whatever the kernel accepts.
    pub fn senseless(&self, scenario: &Scenario) -> Option<&'static str> {
        let is_paced_by_nothing = *self == Self::Pacing(None) && scenario.is_bare();
        is_paced_by_nothing.then_some(
            "nothing limits this link, so there is no rate to be paced to; give one, as in `pacing=1Gbit`",
        )
    }

    /// Why connections of this load are not affected.
    pub fn unfelt(&self, cell: &Cell) -> Option<String> {
        let is_unpaced = matches!(self, Self::Pacing(_)) && cell.segments <= UNPACED;
        is_unpaced.then(|| {
            format!(
                "{}: Linux does not pace the first {UNPACED} packets of a connection; name more `--segments`",
                cell.text()
            )
        })
    }

    /// Whether the change joins frames.
    pub fn joins(&self) -> bool {
        matches!(self, Self::Features(all) if all.iter().any(|it| Feature::JOINING.contains(it)))
    }

    /// A description of the change.
    pub fn about(&self) -> String {
        match self {
            Self::Features(all) => {
                let names: Vec<&str> = all.iter().map(|it| it.long()).collect();
                format!("{} of both cards on, instead of off", names.join(", "))
            }
            Self::Coalescing(usecs) => {
                format!("cards gather for {usecs} µs before they interrupt, instead of not at all")
            }
            Self::Pacing(None) => {
                "each connection is paced (SO_MAX_PACING_RATE) to its share of 95 % of the link's \
                 payload, instead of sending as it may"
                    .to_owned()
            }
            Self::Pacing(Some(bits)) => format!(
                "each connection is paced (SO_MAX_PACING_RATE) to {} Mbit/s, instead of sending as it may",
                *bits as f64 / 1e6
            ),
            Self::Buffers(bytes) => format!(
                "SO_SNDBUF of the sender and SO_RCVBUF of the receiver are {bytes} bytes, instead of what \
                 the kernel finds right"
            ),
            Self::BusyPoll(usecs) => format!(
                "both ends look at the card for {usecs} µs before they sleep (SO_BUSY_POLL of sockets, \
                 EPIOCSPARAMS of the epoll that waits), instead of not at all"
            ),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Features(all) => {
                let checksums = [Feature::RxChecksum, Feature::TxChecksum];
                let mut names: Vec<&str> =
                    all.iter().filter(|it| !checksums.contains(it)).map(|it| it.short()).collect();
                if checksums.iter().all(|it| all.contains(it)) {
                    names.push("checksum");
                }
                f.write_str(&names.join("+"))
            }
            Self::Coalescing(usecs) => write!(f, "coalescing={usecs}"),
            Self::Pacing(None) => f.write_str("pacing"),
            Self::Pacing(Some(bits)) => write!(f, "pacing={}Mbit", *bits as f64 / 1e6),
            Self::Buffers(bytes) => write!(f, "buffers={bytes}"),
            Self::BusyPoll(usecs) => write!(f, "busy-poll={usecs}"),
        }
    }
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// `64k` as 64,000.
fn scaled(text: &str) -> Option<u64> {
    let units = [("k", 1e3), ("M", 1e6), ("G", 1e9)];
    let found = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)));
    let (number, scale) = found.unwrap_or((text, 1.0));
    let value = scale * number.parse::<f64>().ok()?;
    (0.0..1e15).contains(&value).then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::published;

    #[test]
    fn changes_are_read_as_they_are_written() {
        for text in [
            "tso",
            "tso+gso+gro",
            "checksum",
            "gso+checksum",
            "coalescing=100",
            "pacing",
            "pacing=9.5Mbit",
            "buffers=64000",
            "busy-poll=20",
        ] {
            assert_eq!(Change::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Change::parse("buffers=64k"), Ok(Change::Buffers(64_000)));
        assert_eq!(Change::parse("coalescing"), Ok(Change::Coalescing(50)));
        assert_eq!(Change::parse("gro+tso"), Change::parse("tso+gro"));
        assert_eq!(Change::parse_all(USUAL).unwrap().len(), 9);
    }

    #[test]
    fn mistakes_say_what_to_write() {
        for (text, said) in [
            ("lro", "tso, gso, gro"),
            ("pacing=9M", "pacing=9Mbit"),
            ("buffers=0", "bytes"),
            ("buffers=9G", "bytes"),
            ("coalescing=x", "microseconds"),
            ("busy-poll=10001", "up to 10000"),
            ("tso,gro,tso", "twice"),
            ("tso+gro+tso", "`tso` is there twice"),
            ("checksum+checksum", "`checksum` is there twice"),
        ] {
            let error = Change::parse_all(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn connections_that_are_over_before_anything_is_paced_are_not_compared() {
        let cell = |segments| Cell { connections: 1, segments, congestion: "cubic".to_owned() };
        for pacing in [Change::Pacing(None), Change::Pacing(Some(8_000_000))] {
            let why = pacing.unfelt(&cell(10)).unwrap();
            assert!(why.contains("10 segments") && why.contains("first 10 packets"), "{why}");
            assert_eq!(pacing.unfelt(&cell(11)), None);
        }
        assert_eq!(Change::Buffers(64_000).unfelt(&cell(10)), None);
    }

    #[test]
    fn connections_share_what_they_are_paced_to() {
        let table = published();
        let d = table.iter().find(|it| it.name == "d").unwrap();
        // 0.95 x 1448 / 1514 x 10 Mbit/s / 8 = 1,135,733 B/s; a tenth of it is 113,573, which are 908,584 bit.
        let words = Change::Pacing(None).words(d, 10);
        assert_eq!(words, ["--pacing", "908584bit"]);
        let bare = Scenario::bare();
        assert!(
            Change::Pacing(None).senseless(&bare).is_some_and(|it| it.contains("pacing=1Gbit"))
        );
        assert_eq!(Change::Pacing(None).senseless(d), None);
        let given = Change::Pacing(Some(8_000_000));
        assert_eq!(
            (given.senseless(&bare), given.words(&bare, 10)[1].as_str()),
            (None, "8000000bit")
        );
    }
}
