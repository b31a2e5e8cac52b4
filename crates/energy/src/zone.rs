//! A time zone as a table: when local time changes its distance to UTC.

use crate::time::Wall;

/// From a moment on, local time has this distance to UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetChange {
    /// The moment.
    pub at: Wall,
    /// Local time minus UTC, in seconds.
    pub utc_offset: i32,
}

/// The offsets of a time zone, in order of time. Without any, every moment has the offset that the caller knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Zone {
    changes: Vec<OffsetChange>,
}

/// The farthest that an offset can be from UTC, and a change from the one before: Samoa skipped a whole day.
const DAY_S: i64 = 86_400;

impl Zone {
    /// From its changes; the first is the offset at the start of the table.
    pub fn new(mut changes: Vec<OffsetChange>) -> Self {
        changes.sort_by_key(|change| change.at);
        Self { changes }
    }

    /// Local time minus UTC at a moment, in seconds; `otherwise` before the table starts.
    pub fn offset_at(&self, at: Wall, otherwise: i32) -> i32 {
        let passed = self.changes.partition_point(|change| change.at <= at);
        passed.checked_sub(1).map_or(otherwise, |last| self.changes[last].utc_offset)
    }

    /// The first moment at which clocks show this local time (seconds since 1970 as if it were UTC), or a later time
    /// if they skip it.
    pub fn first_at(&self, local_s: i64, otherwise: i32) -> Wall {
        self.moments(local_s, otherwise).0
    }

    /// The last moment at which clocks show this local time, or at which they skip it.
    pub fn last_at(&self, local_s: i64, otherwise: i32) -> Wall {
        self.moments(local_s, otherwise).1
    }

    fn moments(&self, local_s: i64, otherwise: i32) -> (Wall, Wall) {
        let offset_at = |second: i64| self.offset_at(Wall::from_secs(second), otherwise);
        let [before, after] = [offset_at(local_s - DAY_S), offset_at(local_s + DAY_S)];
        let at = |offset: i32| local_s - i64::from(offset);
        let shown = [before, after].map(|offset| offset_at(at(offset)) == offset);
        let (first, last) = match shown {
            // Clocks are put back: the time comes twice.
            [true, true] => (at(before).min(at(after)), at(before).max(at(after))),
            [true, false] => (at(before), at(before)),
            [false, true] => (at(after), at(after)),
            // Clocks are put forward over it.
            [false, false] => {
                let skips = self.changes.iter().rfind(|change| change.at.secs() <= at(before));
                let skips = skips.map_or_else(|| at(before), |change| change.at.secs());
                (skips, skips)
            }
        };
        (Wall::from_secs(first), Wall::from_secs(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Central European time around 2026: `zdump -v Europe/Berlin`.
    fn berlin() -> Zone {
        let change = |at, utc_offset| OffsetChange { at: Wall::from_secs(at), utc_offset };
        Zone::new(vec![
            change(1_792_890_000, 3600), // 2026-10-25 01:00 UTC
            change(1_761_440_400, 3600), // 2025-10-26 01:00 UTC
            change(1_774_746_000, 7200), // 2026-03-29 01:00 UTC
        ])
    }

    #[test]
    fn offsets_hold_from_their_change_on() {
        for (at, offset) in [
            (1_774_745_999, 3600),
            (1_774_746_000, 7200),
            (1_792_889_999, 7200),
            (1_792_890_000, 3600),
            (1_700_000_000, 0),
        ] {
            assert_eq!(berlin().offset_at(Wall::from_secs(at), 0), offset, "{at}");
        }
    }

    #[test]
    fn a_skipped_time_is_when_it_is_skipped_and_a_repeated_one_is_twice() {
        let zone = berlin();
        let local = |day: i64, hour: i64, minute: i64| day * 86_400 + hour * 3600 + minute * 60;
        let both = |local| (zone.first_at(local, 0).secs(), zone.last_at(local, 0).secs());
        // 2026-03-29 is day 20,541: 02:30 does not exist.
        assert_eq!(both(local(20_541, 2, 30)), (1_774_746_000, 1_774_746_000));
        assert_eq!(both(local(20_541, 1, 59)), (1_774_745_940, 1_774_745_940));
        assert_eq!(both(local(20_541, 3, 0)), (1_774_746_000, 1_774_746_000));
        // 2026-10-25 is day 20,751: 02:30 comes twice.
        assert_eq!(both(local(20_751, 2, 30)), (1_792_888_200, 1_792_891_800));
        assert_eq!(both(local(20_751, 3, 0)), (1_792_893_600, 1_792_893_600));
    }

    #[test]
    fn a_whole_day_can_be_skipped() {
        // Samoa had no 2011-12-30 (day 15,338): from 10 h behind UTC to 14 h ahead of it.
        let skip = 1_325_239_200; // 2011-12-30 10:00 UTC
        let zone = Zone::new(vec![
            OffsetChange { at: Wall(0), utc_offset: -36_000 },
            OffsetChange { at: Wall::from_secs(skip), utc_offset: 50_400 },
        ]);
        assert_eq!(zone.first_at(15_338 * 86_400 + 43_200, 0).secs(), skip);
        assert_eq!(zone.first_at(15_339 * 86_400, 0).secs(), skip, "the day after begins then");
        assert_eq!(zone.first_at(15_337 * 86_400 + 82_800, 0).secs(), skip - 3600);
    }

    #[test]
    fn without_a_table_the_known_offset_holds() {
        let zone = Zone::default();
        assert_eq!(zone.offset_at(Wall(0), 3600), 3600);
        assert_eq!(zone.first_at(7200, 3600), Wall::from_secs(3600));
    }
}
