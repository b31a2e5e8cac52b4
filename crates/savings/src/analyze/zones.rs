//! The log's local time: which offset from UTC held from when on.

use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::{Mono, Now, Wall};
use nightwatt_policy::electricity::EnergyByHour;

/// Changes that are kept: clocks change twice a year. Logs of servers in several zones, read
/// together, change with every line; from then on the offset stays.
const MOST: usize = 4096;

/// Offsets, each from the first line on that is written in it.
#[derive(Debug)]
pub(super) struct Zones {
    start: Wall,
    since: Vec<(Mono, i32)>,
}

impl Zones {
    /// Begins with the offset of the first line.
    pub(super) fn begin(start: Wall, utc_offset: i32) -> Self {
        Self { start, since: vec![(Mono::ZERO, utc_offset)] }
    }

    /// A line; gives the offset that holds from it on.
    pub(super) fn line(&mut self, at: Mono, utc_offset: i32) -> i32 {
        let held = self.since.last().map_or(utc_offset, |&(_, held)| held);
        if utc_offset == held || self.since.len() >= MOST {
            return held;
        }
        self.since.push((at, utc_offset));
        utc_offset
    }

    /// Adds a stretch of constant power, hour by hour of local time.
    pub(super) fn spread(&self, from: Mono, until: Mono, power: Watts, into: &mut EnergyByHour) {
        let first = self.since.partition_point(|(since, _)| *since <= from).saturating_sub(1);
        for (index, &(since, utc_offset)) in self.since.iter().enumerate().skip(first) {
            if since >= until {
                break;
            }
            let next = self.since.get(index + 1).map_or(Mono::NEVER, |(next, _)| *next);
            let (begin, end) = (from.max(since), until.min(next));
            let now = self.at(begin, utc_offset);
            into.add_stretch(now, end.since(begin), power);
        }
    }

    /// Hour of the local week.
    pub(super) fn hour_of_week(&self, at: Mono) -> usize {
        let held = self.since.partition_point(|(since, _)| *since <= at).saturating_sub(1);
        self.since.get(held).map_or(0, |&(_, utc_offset)| self.at(at, utc_offset).hour_of_week())
            as usize
    }

    fn at(&self, mono: Mono, utc_offset: i32) -> Now {
        Now { mono, wall: self.start + mono.0, utc_offset }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(energy: &EnergyByHour) -> Vec<(usize, f64)> {
        energy
            .joules()
            .map(nightwatt_energy::quantity::Joules::get)
            .enumerate()
            .filter(|(_, joules)| *joules != 0.0)
            .collect()
    }

    #[test]
    fn where_clocks_go_forward_an_hour_is_missing() {
        // Monday 2024-03-04 00:00 UTC and local; an hour later it is 02:00.
        let mut zones = Zones::begin(Wall::from_secs(1_709_510_400), 0);
        assert_eq!(zones.line(Mono::from_secs(10), 0), 0);
        assert_eq!(zones.line(Mono::from_secs(3600), 3600), 3600);
        let mut used = EnergyByHour::default();
        zones.spread(Mono::from_secs(1800), Mono::from_secs(9000), Watts(1.0), &mut used);
        assert_eq!(hours(&used), [(0, 1800.0), (2, 3600.0), (3, 1800.0)]);
        assert_eq!(zones.hour_of_week(Mono::from_secs(3599)), 0);
        assert_eq!(zones.hour_of_week(Mono::from_secs(3600)), 2);
    }

    #[test]
    fn the_number_of_changes_is_bounded() {
        let mut zones = Zones::begin(Wall(0), 0);
        for second in 1..100_000 {
            zones.line(Mono::from_secs(second), (second % 2) as i32 * 3600);
        }
        assert_eq!(zones.since.len(), MOST);
        let held = zones.line(Mono::from_secs(200_000), 1800);
        assert_eq!(zones.since.last().map(|(_, held)| *held), Some(held));
        let mut used = EnergyByHour::default();
        zones.spread(Mono::ZERO, Mono::from_secs(300_000), Watts(2.0), &mut used);
        assert!((used.total().get() - 600_000.0).abs() < 1e-6);
    }
}
