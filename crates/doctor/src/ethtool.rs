//! What `ethtool` says of waking by a network card.

/// Letters of `ethtool`: for what a card wakes.
const REASONS: [(char, &str); 8] = [
    ('p', "its link"),
    ('u', "any frame to its address"),
    ('m', "multicasts"),
    ('b', "broadcasts"),
    ('a', "ARP"),
    ('g', "magic packets"),
    ('s', "a magic packet's password"),
    ('f', "filters"),
];

/// For what a card can wake, and for what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wake {
    pub(super) can: String,
    pub(super) does: String,
}

impl Wake {
    /// Reads what `ethtool NAME` prints; nothing if it says nothing of it (that takes root).
    pub(super) fn read(text: &str) -> Option<Self> {
        let of = |key: &str| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(key))?;
            Some(line.trim().to_owned())
        };
        let can = of("Supports Wake-on:")?;
        Some(Self { does: of("Wake-on:").unwrap_or_else(|| "d".to_owned()), can })
    }

    /// For what it wakes besides magic packets: a sleeper should not be woken by chance.
    pub(super) fn by_chance(&self) -> Vec<&'static str> {
        let wakes = REASONS.iter().filter(|(letter, _)| !matches!(letter, 'g' | 's' | 'p'));
        wakes.filter(|(letter, _)| self.does.contains(*letter)).map(|(_, words)| *words).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_letters_of_ethtool_are_understood() {
        // Printed by ethtool 6.1 for an Intel I210, shortened.
        let text = "Settings for enp3s0:\n\tSupported ports: [ TP ]\n\tSpeed: 1000Mb/s\n\tSupports Wake-on: pumbg\n\tWake-on: ug\n        Link detected: yes\n";
        let wake = Wake::read(text).unwrap();
        assert_eq!((wake.can.as_str(), wake.does.as_str()), ("pumbg", "ug"));
        assert_eq!(wake.by_chance(), ["any frame to its address"]);
        // The output for an ordinary user.
        assert_eq!(Wake::read("Settings for enp3s0:\n\tSpeed: 1000Mb/s\n"), None);
    }
}
