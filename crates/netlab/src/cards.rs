//! Switches what the cards at both ends do with packets in place of the kernel: reads it, changes it, and
//! restores it however the run ends.
//!
//! The cards of namespaces and of guests vanish with them. Those of existing machines stay: the guard
//! records their settings before the first change, and a card that the configuration does not name is never
//! changed.

use std::collections::BTreeMap;
use std::fmt::Write;

use nightwatt_environments::guard::Undo;
use nightwatt_environments::shell;
use serde::{Deserialize, Serialize};

use super::Error;
use super::ends::{End, Ends, Pair};

/// Work that a card may do for the kernel, or the kernel in its place, on many packets at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    /// It checks the checksums of what comes.
    RxChecksum,
    /// It computes the checksums of what goes.
    TxChecksum,
    /// It cuts what TCP hands down into segments.
    Tso,
    /// The kernel does so, just before the card.
    Gso,
    /// The kernel joins segments that come, before TCP sees them.
    Gro,
    /// The card does so, in a way that loses their borders.
    Lro,
    /// The card does so by the kernel's rules.
    GroHardware,
    /// It cuts what UDP hands down into datagrams. TCP knows nothing of it; the packets of the link's check
    /// are counted by the card as it gets them.
    UdpSegmentation,
}

impl Feature {
    /// All of them. Checksums first: without them cards do not cut.
    pub const ALL: [Self; 8] = [
        Self::RxChecksum,
        Self::TxChecksum,
        Self::Tso,
        Self::Gso,
        Self::Gro,
        Self::Lro,
        Self::GroHardware,
        Self::UdpSegmentation,
    ];

    /// Those by which a frame comes to have several segments of TCP, and that are switched on where that is
    /// wanted.
    pub const JOINING: [Self; 3] = [Self::Tso, Self::Gso, Self::Gro];

    /// Those by which it comes to have several packets of anything. A card that joins by itself does so before
    /// the kernel could, so that is never switched on: it would hide what GRO does.
    pub const JOINING_ANY: [Self; 6] =
        [Self::Tso, Self::Gso, Self::Gro, Self::Lro, Self::GroHardware, Self::UdpSegmentation];

    /// The name for `ethtool -K`.
    pub const fn short(self) -> &'static str {
        match self {
            Self::RxChecksum => "rx",
            Self::TxChecksum => "tx",
            Self::Tso => "tso",
            Self::Gso => "gso",
            Self::Gro => "gro",
            Self::Lro => "lro",
            Self::GroHardware => "rx-gro-hw",
            Self::UdpSegmentation => "tx-udp-segmentation",
        }
    }

    /// As `ethtool -k` prints it. Of TSO that is the flag for IPv4: ethtool 6.1 prints the sum of its flags,
    /// `tcp-segmentation-offload`, as on while each of them is off because checksums are.
    pub const fn long(self) -> &'static str {
        match self {
            Self::RxChecksum => "rx-checksumming",
            Self::TxChecksum => "tx-checksumming",
            Self::Tso => "tx-tcp-segmentation",
            Self::Gso => "generic-segmentation-offload",
            Self::Gro => "generic-receive-offload",
            Self::Lro => "large-receive-offload",
            Self::GroHardware => "rx-gro-hw",
            Self::UdpSegmentation => "tx-udp-segmentation",
        }
    }
}

/// What is wanted of cards; what is not in it is left as it is.
pub type Features = BTreeMap<Feature, bool>;

/// What a card is, and is set to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Card {
    /// The kernel's driver of it: `veth`.
    pub driver: String,
    /// What it does.
    pub features: Features,
    /// Microseconds that it waits for more packets before it interrupts; `None` of cards that cannot wait.
    pub rx_usecs: Option<u64>,
    /// Why that is not known, as the kernel says it.
    pub coalescing_refused: Option<String>,
    /// It chooses that itself.
    #[serde(skip)]
    is_adaptive: Option<bool>,
    /// Features that cannot be switched.
    #[serde(skip)]
    fixed: Vec<Feature>,
    /// All that can be switched, each by itself, as `ethtool -k` has it: `tx-tcp-segmentation: off [requested on]`.
    #[serde(skip)]
    switchable: Vec<String>,
}

/// What separates the answers of three commands.
const MARK: &str = "--";

impl Card {
    /// From what `ethtool -i`, `-k` and `-c` print.
    fn parse(text: &str) -> Self {
        let mark = format!("{MARK}\n");
        let mut parts = text.split(&mark);
        let mut part = || parts.next().unwrap_or_default();
        let (about, features, coalescing) = (part(), part(), part());
        let value = |text: &str, name: &str| {
            let lines = text.lines().filter_map(|line| line.trim().split_once(':'));
            lines.into_iter().find(|it| it.0 == name).map(|it| it.1.trim().to_owned())
        };
        let mut card =
            Self { driver: value(about, "driver").unwrap_or_default(), ..Self::default() };
        for feature in Feature::ALL {
            let Some(state) = value(features, feature.long()) else { continue };
            card.features.insert(feature, state.starts_with("on"));
            if state.contains("[fixed]") {
                card.fixed.push(feature);
            }
        }
        card.switchable = switchable(features);
        card.rx_usecs = value(coalescing, "rx-usecs").and_then(|it| it.parse().ok());
        // `Adaptive RX: off  TX: off`, or `n/a` of a card that does not choose.
        let adaptive = value(coalescing, "Adaptive RX");
        card.is_adaptive = adaptive.and_then(|it| match it.split_ascii_whitespace().next() {
            Some("on") => Some(true),
            Some("off") => Some(false),
            _ => None,
        });
        if card.rx_usecs.is_none() {
            let usecs = value(coalescing, "rx-usecs").map(|it| format!("rx-usecs: {it}"));
            let reason = coalescing.lines().map(str::trim).rfind(|line| !line.is_empty());
            let reason = usecs.or_else(|| reason.map(str::to_owned));
            card.coalescing_refused = Some(reason.unwrap_or_else(|| "no `rx-usecs`".to_owned()));
        }
        card
    }

    fn read(end: &End) -> Result<Self, Error> {
        let card = &end.card;
        let line = format!(
            "ethtool -i {card} 2>&1; echo {MARK}; ethtool -k {card}; echo {MARK}; ethtool -c {card} 2>&1; true"
        );
        Ok(Self::parse(&end.run("see what the card does", &line)?))
    }

    /// The line that restores all of it and checks the result, unless the card is gone. If a setting
    /// differs, it fails and prints which.
    fn restoring(&self, card: &str) -> String {
        let mut line = format!(
            "PATH=$PATH:/usr/sbin:/sbin; ip link show dev {card} >/dev/null 2>&1 || exit 0; rc=0"
        );
        self.restore_features(card, &mut line);
        self.restore_waiting(card, &mut line);
        line.push_str("; exit $rc");
        line
    }

    /// The part of that line which is about features: those are set that are not as they were, each by its full
    /// name, and to what was requested. A short name would switch a whole group, with flags that were off.
    fn restore_features(&self, card: &str, line: &mut String) {
        if self.switchable.is_empty() {
            return;
        }
        let kept = shell::join(&self.switchable);
        // Of several lines, grep takes each for a pattern. Writing to a String cannot fail.
        let _ = write!(
            line,
            "; differs() {{ now=$(ethtool -k {card} | sed 's/^[[:space:]]*//'); \
             printf '%s\\n' {kept} | grep -vxF \"$now\"; }}; \
             words=$(differs | sed 's/: .*requested \\(o[nf]*\\).*/ \\1/; s/: / /'); \
             if [ -n \"$words\" ]; then output=$(ethtool -K {card} $words 2>&1); left=$(differs); \
             if [ -n \"$left\" ]; then \
             printf '%s\\n' \"$left\" | sed 's/\\(.*\\): \\(.*\\)/{card}: \\1 is not \\2 again/' >&2; \
             echo \"{card}: $output\" >&2; rc=1; fi; fi"
        );
    }

    /// The part of that line which is about how long the card waits. Drivers as ice refuse a time together
    /// with their own choice, so that is switched off with the first call and on with another. What ethtool's
    /// status says differs with its version (80: it is so already), so it is read back. The time is read while the
    /// card does not choose: some tell what they have just chosen.
    fn restore_waiting(&self, card: &str, line: &mut String) {
        let Some(usecs) = self.rx_usecs else { return };
        let off = if self.is_adaptive.is_some() { "adaptive-rx off " } else { "" };
        // Writing to a String cannot fail, here and below.
        let _ = write!(
            line,
            "; waits() {{ ethtool -c {card} 2>/dev/null | \
             grep -Eq '^[[:space:]]*rx-usecs:[[:space:]]*{usecs}[[:space:]]*$'; }}; \
             chooses() {{ ethtool -c {card} 2>/dev/null | \
             grep -Eq '^[[:space:]]*Adaptive RX:[[:space:]]*on'; }}; \
             waiting() {{ output=$(ethtool -C {card} {off}rx-usecs {usecs} 2>&1); waits || \
             {{ echo \"{card}: rx-usecs is not {usecs} again: $output\" >&2; rc=1; }}; }}"
        );
        let _ = match self.is_adaptive {
            Some(true) => write!(
                line,
                "; if ! {{ waits && chooses; }}; then waiting; \
                 output=$(ethtool -C {card} adaptive-rx on 2>&1); chooses || \
                 {{ echo \"{card}: adaptive-rx is not on again: $output\" >&2; rc=1; }}; fi"
            ),
            Some(false) => write!(
                line,
                "; if chooses || ! waits; then waiting; if chooses; then \
                 echo \"{card}: adaptive-rx is not off again: $output\" >&2; rc=1; fi; fi"
            ),
            None => write!(line, "; waits || waiting"),
        };
    }

    /// May a frame have several segments?
    pub fn joins(&self) -> bool {
        let several = Feature::JOINING.iter().chain(&[Feature::Lro, Feature::GroHardware]);
        several.into_iter().any(|it| self.features.get(it) == Some(&true))
    }

    /// What of it is otherwise. What its ethtool or its driver does not know is off.
    fn other(&self, wanted: &Features) -> Vec<(Feature, bool)> {
        let is_on = |feature| self.features.get(feature).copied().unwrap_or(false);
        let other = wanted.iter().filter(|it| is_on(it.0) != *it.1);
        other.map(|(feature, on)| (*feature, *on)).collect()
    }

    /// The words for ethtool that switch these. Of a word that it does not know it would take none of them.
    fn switching(&self, other: &[(Feature, bool)]) -> String {
        let known = other.iter().filter(|it| self.features.contains_key(&it.0));
        let words: Vec<String> =
            known.map(|it| format!("{} {}", it.0.short(), word(it.1))).collect();
        words.join(" ")
    }
}

/// What can be switched of what `ethtool -k` prints. A line above indented ones is the sum of these.
fn switchable(output: &str) -> Vec<String> {
    let lines: Vec<&str> = output.lines().collect();
    let is_within = |line: Option<&&str>| line.is_some_and(|it| it.starts_with('\t'));
    let is_flag = |place: usize, line: &str| {
        let is_sum = is_within(lines.get(place + 1)) && !is_within(Some(&line));
        let value = line.split_once(": ").map_or("", |it| it.1);
        !is_sum && ["on", "off"].iter().any(|it| value.starts_with(it)) && !line.contains("[fixed]")
    };
    let all = lines.iter().enumerate().filter(|it| is_flag(it.0, it.1));
    all.map(|it| it.1.trim().to_owned()).collect()
}

const fn word(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Something that a card does not do, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Refusal {
    /// What was wanted: `rx-usecs 50`.
    pub what: String,
    /// At which end, or of which side.
    pub end: String,
    /// What the kernel says.
    pub why: String,
}

/// The cards of both ends, the sender's first. Dropped, they are set to what they were.
#[derive(Debug)]
pub struct Cards {
    now: [Card; 2],
    found: [Card; 2],
    undo: Vec<Undo>,
    /// Why they are left as they are, if they are.
    untouched: Option<String>,
}

impl Cards {
    /// Reads the settings of both cards, and has them restored in the end.
    pub fn take(ends: &Ends) -> Result<Self, Error> {
        let [sender, receiver] = ends.both().map(Card::read);
        let found = [sender?, receiver?];
        let (mut undo, mut untouched) = (Vec::new(), None);
        match ends.pair() {
            // A guest's card ends with the guest.
            Pair::Guests => (),
            Pair::Hosts { bare: Some(why), .. } => untouched = Some(why.clone()),
            Pair::Namespaces | Pair::Hosts { bare: None, .. } => {
                for (end, card) in ends.both().into_iter().zip(&found) {
                    undo.push(ends.protect(end, &card.restoring(&end.card))?);
                }
            }
        }
        Ok(Self { now: found.clone(), found, undo, untouched })
    }

    /// What they are set to now.
    pub const fn now(&self) -> &[Card; 2] {
        &self.now
    }

    /// Switches both. Gives what they refuse.
    pub fn switch(&mut self, ends: &Ends, wanted: &Features) -> Result<Vec<Refusal>, Error> {
        let mut refused = Vec::new();
        for (place, end) in ends.both().into_iter().enumerate() {
            let card = &mut self.now[place];
            let other = card.other(wanted);
            if other.is_empty() {
                continue;
            }
            let words = card.switching(&other);
            let output = if words.is_empty() || self.untouched.is_some() {
                String::new()
            } else {
                let line = format!("ethtool -K {} {words} 2>&1 || true", end.card);
                end.run("switch what the card does", &line)?
            };
            *card = Card::read(end)?;
            for (feature, on) in card.other(wanted) {
                let what = format!("{} {}", feature.long(), word(on));
                refused.push(Refusal {
                    what,
                    end: end.name.to_owned(),
                    why: match &self.untouched {
                        Some(why) => left_alone(why),
                        None => why_not(card, feature, &output),
                    },
                });
            }
        }
        Ok(refused)
    }

    /// Has them wait for this many microseconds before they interrupt; `None` restores what they were found
    /// with. Returns what they refuse.
    pub fn coalesce(&mut self, ends: &Ends, usecs: Option<u64>) -> Result<Vec<Refusal>, Error> {
        let mut refused = Vec::new();
        for (place, end) in ends.both().into_iter().enumerate() {
            let (card, found) = (&mut self.now[place], &self.found[place]);
            let Some(wanted) = usecs.or(found.rx_usecs) else { continue };
            // What it was found to choose itself it chooses again, and no time is asked of it then.
            let chooses = usecs.is_none() && found.is_adaptive == Some(true);
            let is_so = |card: &Card| {
                (card.is_adaptive == Some(true)) == chooses
                    && (chooses || card.rx_usecs == Some(wanted))
            };
            if is_so(card) {
                continue;
            }
            if let Some(why) = &self.untouched {
                let (what, end) = (format!("rx-usecs {wanted}"), end.name.to_owned());
                refused.push(Refusal { what, end, why: left_alone(why) });
                continue;
            }
            let fixed = if card.is_adaptive == Some(true) { "adaptive-rx off " } else { "" };
            let mut line = format!("ethtool -C {} {fixed}rx-usecs {wanted} 2>&1 || true", end.card);
            if chooses {
                let _ = write!(line, "; ethtool -C {} adaptive-rx on 2>&1 || true", end.card);
            }
            let output = end.run("switch how long the card waits", &line)?;
            *card = Card::read(end)?;
            if !is_so(card) {
                let last_line = output.lines().rfind(|line| !line.trim().is_empty()).map(str::trim);
                let now = card.rx_usecs.map(|it| format!("it stays at {it}"));
                let why = last_line.map(str::to_owned).or(now).unwrap_or_default();
                let (what, end) = (format!("rx-usecs {wanted}"), end.name.to_owned());
                refused.push(Refusal { what, end, why: format!("{}: {why}", card.driver) });
            }
        }
        Ok(refused)
    }

    /// Sets them to what they were.
    pub fn put_back(self, ends: &Ends) -> Result<(), Error> {
        if *ends.pair() == Pair::Guests {
            for (end, card) in ends.both().into_iter().zip(&self.found) {
                end.run("set the card as it was", &card.restoring(&end.card))?;
            }
        }
        for undo in self.undo.into_iter().rev() {
            undo.now()?;
        }
        Ok(())
    }
}

fn left_alone(why: &str) -> String {
    format!("{why}: it is left as it is")
}

fn why_not(card: &Card, feature: Feature, output: &str) -> String {
    let Card { driver, .. } = card;
    if card.fixed.contains(&feature) {
        return format!("{driver}: its driver has it fixed");
    }
    // What it did change besides is no reason: `Actual changes:`, `tx-checksum-sctp: off [requested on]`.
    let is_change = |it: &str| it.ends_with(':') || it.contains(": on") || it.contains(": off");
    let complaints = output.lines().map(str::trim).filter(|it| !it.is_empty() && !is_change(it));
    let complaints: Vec<&str> = complaints.collect();
    match card.features.get(&feature) {
        None => format!("{driver}: ethtool does not know it"),
        Some(now) if complaints.is_empty() => {
            format!("{driver}: its driver does not take it, and it stays {}", word(*now))
        }
        Some(_) => format!("{driver}: {}", complaints.join(", ")),
    }
}

#[cfg(test)]
mod tests;
