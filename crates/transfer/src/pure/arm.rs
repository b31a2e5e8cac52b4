//! Codecs and levels.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Most bytes of a block before it is packed.
pub const MOST_BYTES: usize = 4 << 20;

/// A way to pack a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Codec {
    /// As it is.
    None,
    /// LZ4, one level.
    Lz4,
    /// Zstandard, levels -5 to 19.
    Zstd,
    /// Deflate with gzip's frame, levels 1 to 9.
    Gzip,
    /// bzip2, levels 1 to 9.
    Bzip2,
    /// LZMA2 with xz's frame, levels 0 to 9.
    Xz,
}

impl Codec {
    /// All of them. A codec's place is its number in the protocol.
    pub const ALL: [Self; 6] =
        [Self::None, Self::Lz4, Self::Zstd, Self::Gzip, Self::Bzip2, Self::Xz];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
            Self::Bzip2 => "bzip2",
            Self::Xz => "xz",
        }
    }

    /// Its number in the protocol.
    pub const fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Lz4 => 1,
            Self::Zstd => 2,
            Self::Gzip => 3,
            Self::Bzip2 => 4,
            Self::Xz => 5,
        }
    }

    /// The codec with this number.
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The lowest and the highest level.
    pub const fn levels(self) -> [i8; 2] {
        match self {
            Self::None | Self::Lz4 => [0, 0],
            Self::Zstd => [-5, 19],
            Self::Gzip | Self::Bzip2 => [1, 9],
            Self::Xz => [0, 9],
        }
    }
}

/// A codec at a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Arm {
    /// How.
    pub codec: Codec,
    /// How hard: 0 where there is no choice.
    pub level: i8,
}

impl Arm {
    /// The block as it is.
    pub const NONE: Self = Self { codec: Codec::None, level: 0 };
    /// The arm that classifies blocks.
    pub const CANARY: Self = Self::new(Codec::Zstd, 1);

    /// This codec at this level.
    pub const fn new(codec: Codec, level: i8) -> Self {
        Self { codec, level }
    }

    /// The arms that are chosen from unless others are given.
    pub fn usual() -> Vec<Self> {
        let zstd = [-5, 1, 3, 6, 9, 13, 19].map(|level| Self::new(Codec::Zstd, level));
        let mut arms = vec![Self::NONE, Self::new(Codec::Lz4, 0)];
        arms.extend(zstd);
        arms.extend([
            Self::new(Codec::Gzip, 6),
            Self::new(Codec::Bzip2, 9),
            Self::new(Codec::Xz, 6),
        ]);
        arms
    }

    /// The arms of the published algorithm.
    pub fn published() -> Vec<Self> {
        vec![
            Self::NONE,
            Self::new(Codec::Gzip, 6),
            Self::new(Codec::Bzip2, 9),
            Self::new(Codec::Xz, 6),
        ]
    }

    /// What is assumed of it until it is measured.
    pub fn prior(self) -> Prior {
        match self.codec {
            Codec::None => {
                Prior { nanos_per_byte: 0.0, exponent: 0.0, unpack_nanos: 0.1, surprise: 0.0 }
            }
            Codec::Lz4 => {
                Prior { nanos_per_byte: 2.6, exponent: 0.72, unpack_nanos: 0.7, surprise: 0.15 }
            }
            Codec::Gzip => {
                let nanos = [10.0, 12.0, 15.0, 20.0, 28.0, 38.0, 45.0, 70.0, 90.0];
                let nanos_per_byte = nanos[level_index(self.level, 1, nanos.len())];
                let exponent = 0.9 + 0.025 * f64::from(self.level);
                Prior { nanos_per_byte, exponent, unpack_nanos: 4.0, surprise: 0.1 }
            }
            Codec::Bzip2 => {
                let exponent = 1.16 + 0.01 * f64::from(self.level);
                Prior { nanos_per_byte: 90.0, exponent, unpack_nanos: 40.0, surprise: 0.5 }
            }
            Codec::Xz => {
                let nanos = [60.0, 80.0, 110.0, 150.0, 260.0, 340.0, 420.0, 430.0, 440.0, 450.0];
                let nanos_per_byte = nanos[level_index(self.level, 0, nanos.len())];
                let exponent = 1.1 + 0.025 * f64::from(self.level);
                Prior { nanos_per_byte, exponent, unpack_nanos: 16.0, surprise: 0.7 }
            }
            Codec::Zstd => zstd_prior(self.level),
        }
    }
}

/// What is assumed of an arm before it was measured: only how arms compare counts, since the canary's own figures
/// shift all of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prior {
    /// CPU time to pack a byte.
    pub nanos_per_byte: f64,
    /// A block that the canary packs to the ratio `q` is packed to `q` to this power.
    pub exponent: f64,
    /// CPU time of the receiver to unpack a byte.
    pub unpack_nanos: f64,
    /// How much better than assumed it may turn out to pack, as a share of the logarithm of its ratio.
    pub surprise: f64,
}

fn level_index(level: i8, lowest: i8, count: usize) -> usize {
    usize::try_from(level - lowest).unwrap_or(0).min(count - 1)
}

/// Between the levels that were measured, costs grow by a constant factor.
fn zstd_prior(level: i8) -> Prior {
    const KNOWN: [(i8, f64, f64); 7] = [
        (-5, 2.0, 0.7),
        (1, 3.6, 1.0),
        (3, 5.5, 1.06),
        (6, 14.0, 1.14),
        (9, 24.0, 1.17),
        (13, 70.0, 1.19),
        (19, 330.0, 1.27),
    ];
    let above = KNOWN.iter().position(|known| known.0 >= level).unwrap_or(KNOWN.len() - 1);
    let (low, high) = (KNOWN[above.saturating_sub(1)], KNOWN[above]);
    let width = f64::from(high.0 - low.0);
    let share = if width > 0.0 { f64::from(level - low.0) / width } else { 1.0 };
    Prior {
        nanos_per_byte: low.1 * (high.1 / low.1).powf(share),
        exponent: low.2 + (high.2 - low.2) * share,
        unpack_nanos: 1.4,
        surprise: 0.1 + 0.01 * f64::from(level.max(0)),
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.codec {
            Codec::None | Codec::Lz4 => f.write_str(self.codec.name()),
            Codec::Zstd if self.level < 0 => write!(f, "zstd-fast{}", -i16::from(self.level)),
            codec => write!(f, "{}-{}", codec.name(), self.level),
        }
    }
}

/// A name that is no arm's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown codec `{0}`: use none, lz4, zstd-1 to zstd-19, zstd-fast1 to zstd-fast5, gzip-1 to gzip-9, \
     bzip2-1 to bzip2-9 or xz-0 to xz-9"
)]
pub struct UnknownArm(String);

impl FromStr for Arm {
    type Err = UnknownArm;

    /// As it is displayed; without a level, the usual one.
    fn from_str(text: &str) -> Result<Self, UnknownArm> {
        let unknown = || UnknownArm(text.to_owned());
        let (name, level) = text.split_once('-').map_or((text, None), |(n, l)| (n, Some(l)));
        let codec = *Codec::ALL.iter().find(|it| it.name() == name).ok_or_else(unknown)?;
        let usual = match codec {
            Codec::None | Codec::Lz4 => 0,
            Codec::Zstd => 3,
            Codec::Gzip | Codec::Xz => 6,
            Codec::Bzip2 => 9,
        };
        let level = match level {
            None => usual,
            Some(level) => match level.strip_prefix("fast") {
                Some(fast) => -fast.parse::<i8>().map_err(|_| unknown())?,
                None if level.starts_with(['-', '+']) => return Err(unknown()),
                None => level.parse().map_err(|_| unknown())?,
            },
        };
        let [lowest, highest] = codec.levels();
        // Zstandard's level 0 stands for its usual one.
        let is_level = (lowest..=highest).contains(&level) && (codec != Codec::Zstd || level != 0);
        if is_level { Ok(Self { codec, level }) } else { Err(unknown()) }
    }
}

impl TryFrom<String> for Arm {
    type Error = UnknownArm;
    fn try_from(text: String) -> Result<Self, UnknownArm> {
        text.parse()
    }
}

impl From<Arm> for String {
    fn from(arm: Arm) -> Self {
        arm.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_are_read_as_they_are_shown() {
        for arm in Arm::usual() {
            assert_eq!(arm.to_string().parse(), Ok(arm));
        }
        assert_eq!("zstd".parse(), Ok(Arm::new(Codec::Zstd, 3)));
        assert_eq!("zstd-fast5".parse(), Ok(Arm::new(Codec::Zstd, -5)));
        for unknown in
            ["zstd-0", "zstd-20", "zip", "none-1", "gzip-", "xz-10", "zstd-fast6", "zstd--5"]
        {
            assert!(unknown.parse::<Arm>().is_err(), "{unknown}");
        }
    }

    #[test]
    fn codecs_have_numbers() {
        for codec in Codec::ALL {
            assert_eq!(Codec::of_number(codec.number()), Some(codec));
        }
        assert_eq!(Codec::of_number(6), None);
    }

    #[test]
    fn what_is_assumed_of_zstd_grows_with_the_level() {
        let priors: Vec<Prior> =
            (-5..=19).map(|level| Arm::new(Codec::Zstd, level).prior()).collect();
        assert!(priors.windows(2).all(|two| two[0].nanos_per_byte < two[1].nanos_per_byte));
        assert!(priors.windows(2).all(|two| two[0].exponent < two[1].exponent));
    }
}
