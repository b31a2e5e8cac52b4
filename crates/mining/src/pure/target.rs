//! Targets, the compact form in which block headers have them, and difficulties.

use std::fmt;
use std::str::FromStr;

use num_bigint::BigUint;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Exact, MiningError};

/// Bits of a hash.
const HASH_BITS: u64 = 256;

/// The target of difficulty 1, as block headers have it: (2^16 - 1) x 2^208.
const DIFFICULTY_ONE: CompactBits = CompactBits(0x1d00_ffff);

/// A target in 32 bits: a byte that counts bytes, a sign, and the three bytes that stand first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CompactBits(pub u32);

impl CompactBits {
    const SIGN: u32 = 0x0080_0000;

    /// The target, by Bitcoin's rules: bytes below the point are cut off, and what is negative, 0 or
    /// longer than a hash is no target.
    pub fn target(self) -> Result<Target, MiningError> {
        let (bytes, word) = (self.0 >> 24, self.0 & 0x007f_ffff);
        let word = if bytes <= 3 { word >> (8 * (3 - bytes)) } else { word };
        if word == 0 {
            return Err(MiningError::Zero(self));
        }
        if self.0 & Self::SIGN != 0 {
            return Err(MiningError::Negative(self));
        }
        let value = BigUint::from(word) << (8 * bytes.saturating_sub(3));
        if value.bits() > HASH_BITS {
            return Err(MiningError::Overflow(self));
        }
        Ok(Target(value))
    }
}

impl fmt::Display for CompactBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl FromStr for CompactBits {
    type Err = MiningError;

    fn from_str(text: &str) -> Result<Self, MiningError> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let is_right = digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits = is_right.then(|| u32::from_str_radix(digits, 16).ok()).flatten();
        bits.map(Self).ok_or_else(|| MiningError::Bits(text.chars().take(60).collect()))
    }
}

impl Serialize for CompactBits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CompactBits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What a hash must not be above: 1 to 2^256 - 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target(BigUint);

impl Target {
    /// The target of difficulty 1.
    pub fn of_difficulty_one() -> Self {
        Self(BigUint::from(0xffff_u32) << 208_u32)
    }

    /// The target of a difficulty, `T_max / D`, cut to a whole number.
    pub fn of_difficulty(difficulty: &Exact) -> Result<Self, MiningError> {
        if difficulty.is_zero() {
            return Err(MiningError::NoDifficulty);
        }
        let easiest = Exact::whole(Self::of_difficulty_one().0);
        let target = (easiest / difficulty.clone()).floor();
        if target == BigUint::ZERO {
            return Err(MiningError::TooDifficult(difficulty.scientific()));
        }
        if target.bits() > HASH_BITS {
            return Err(MiningError::TooEasy(difficulty.scientific()));
        }
        Ok(Self(target))
    }

    /// As block headers have it: cut to the three bytes that stand first, or two where the first of
    /// these would set the sign.
    pub fn compact(&self) -> CompactBits {
        let mut bytes = u32::try_from(self.0.bits().div_ceil(8)).unwrap_or(0);
        let word = if bytes <= 3 {
            self.0.clone() << (8 * (3 - bytes))
        } else {
            self.0.clone() >> (8 * (bytes - 3))
        };
        let mut word = u32::try_from(word).unwrap_or(u32::MAX);
        if word & CompactBits::SIGN != 0 {
            word >>= 8;
            bytes += 1;
        }
        CompactBits(word | bytes << 24)
    }

    /// How much harder than difficulty 1: `T_max / T`.
    pub fn difficulty(&self) -> Exact {
        Exact::whole(Self::of_difficulty_one().0) / Exact::whole(self.0.clone())
    }

    /// How many hashes find one that is not above it, in the mean: 2^256 / (T + 1).
    pub fn expected_hashes(&self) -> Exact {
        Exact::power_of_two(256) / Exact::whole(&self.0 + 1_u8)
    }

    pub(super) fn number(&self) -> &BigUint {
        &self.0
    }

    pub(super) const fn of(number: BigUint) -> Self {
        Self(number)
    }

    /// The next target that compact bits can say.
    pub(super) fn next_compact(&self) -> Self {
        let bits = self.compact();
        let bytes = bits.0 >> 24;
        Self(&self.0 + (BigUint::from(1_u8) << (8 * bytes.saturating_sub(3))))
    }
}

/// All 64 hexadecimal digits.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0>64}", self.0.to_str_radix(16))
    }
}

impl Default for CompactBits {
    fn default() -> Self {
        DIFFICULTY_ONE
    }
}
