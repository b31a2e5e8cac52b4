//! How finely a file system keeps times.

/// A point in time: seconds since 1970, and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds, under 10^9.
    pub nanos: u32,
}

/// The unit of a file system's times, ns: 1 on most, 1 or 2 s on old ones and on FAT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grain(u64);

const SECOND: u64 = 1_000_000_000;

impl Grain {
    /// As the sender sends them.
    pub const FINEST: Self = Self(1);
    /// Of FAT.
    pub const FAT: Self = Self(2 * SECOND);
    /// All that is known, the finest first: of most, of NTFS, of network file systems, of exFAT, of old ones, of FAT.
    const KNOWN: [u64; 7] = [1, 100, 1_000, 1_000_000, 10_000_000, SECOND, 2 * SECOND];
    /// A time that each of them keeps differently.
    pub const PROBE: Stamp = Stamp { seconds: 1_700_000_001, nanos: 123_456_789 };

    /// The grain of a file system that has kept this of [`Grain::PROBE`]: the finest if it kept something else.
    pub fn of_kept(kept: Stamp) -> Self {
        let fits = |grain: &u64| Self(*grain).floor(Self::PROBE) == kept;
        Self::KNOWN.into_iter().find(fits).map_or(Self::FINEST, Self)
    }

    fn floor(self, stamp: Stamp) -> Stamp {
        let nanos = u64::from(stamp.nanos);
        if self.0 < SECOND {
            let kept = u32::try_from(nanos - nanos % self.0).unwrap_or(0);
            return Stamp { seconds: stamp.seconds, nanos: kept };
        }
        let grain = i64::try_from(self.0 / SECOND).unwrap_or(1);
        Stamp { seconds: stamp.seconds - stamp.seconds.rem_euclid(grain), nanos: 0 }
    }

    /// Whether a file that was sent with a time is one that is there with another.
    pub fn is_same(self, sent: Stamp, there: Stamp) -> bool {
        self.floor(sent) == there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(seconds: i64, nanos: u32) -> Stamp {
        Stamp { seconds, nanos }
    }

    #[test]
    fn a_time_is_the_same_when_the_file_system_kept_what_it_can() {
        let of = |seconds, nanos| Grain::of_kept(stamp(seconds, nanos));
        let (exact, second, fat) =
            (of(1_700_000_001, 123_456_789), of(1_700_000_001, 0), of(1_700_000_000, 0));
        assert_eq!((exact, second, fat), (Grain(1), Grain(SECOND), Grain(2 * SECOND)));
        assert_eq!(of(1_700_000_001, 123_456_700), Grain(100));
        assert_eq!(of(1_700_000_001, 120_000_000), Grain(10_000_000));
        assert_eq!(of(0, 0), Grain::FINEST, "it keeps no times");
        let sent = stamp(7, 5);
        assert!(exact.is_same(sent, sent) && !exact.is_same(sent, stamp(7, 0)));
        assert!(second.is_same(sent, stamp(7, 0)) && !second.is_same(sent, stamp(6, 0)));
        assert!(fat.is_same(sent, stamp(6, 0)) && !fat.is_same(sent, stamp(8, 0)));
        assert!(fat.is_same(stamp(-1, 9), stamp(-2, 0)), "before 1970 too");
    }
}
