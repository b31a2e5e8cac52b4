//! Ratios of whole numbers that lose nothing.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Div, Mul};
use std::str::FromStr;

use num_bigint::BigUint;

use super::MiningError;

/// Digits that a written number may have: ten times those of a hash.
const MOST_DIGITS: usize = 800;
/// Decimal exponents that a written number may have.
const MOST_EXPONENT: i32 = 400;
/// Digits behind the point beyond which [`Exact::scientific`] rounds what does not end.
const ENDLESS_DIGITS: usize = 20;
/// Digits of a number that ends, which are all told.
const ALL_DIGITS: usize = 60;

/// A ratio of whole numbers, never below 0.
#[derive(Debug, Clone)]
pub struct Exact {
    numerator: BigUint,
    /// Never 0.
    denominator: BigUint,
}

impl Exact {
    /// A whole number.
    pub fn whole(number: impl Into<BigUint>) -> Self {
        Self { numerator: number.into(), denominator: BigUint::from(1_u8) }
    }

    /// 2 to this power.
    pub fn power_of_two(power: u32) -> Self {
        Self::whole(BigUint::from(1_u8) << power)
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        self.numerator == BigUint::ZERO
    }

    /// The whole part.
    pub(super) fn floor(&self) -> BigUint {
        &self.numerator / &self.denominator
    }

    /// The nearest `f64`, ties to the even one; infinite beyond them.
    pub fn to_f64(&self) -> f64 {
        if self.is_zero() {
            return 0.0;
        }
        // A quotient of 63 or 64 bits, whose last bit also tells whether anything is left: the rounding
        // of whole numbers is then that of the ratio.
        let length = |number: &BigUint| i64::try_from(number.bits()).unwrap_or(i64::MAX);
        let shift = 64 - (length(&self.numerator) - length(&self.denominator) + 1);
        let (up, down) = (shift.max(0), (-shift).max(0));
        let numerator = &self.numerator << up;
        let denominator = &self.denominator << down;
        let quotient = &numerator / &denominator;
        let is_even = numerator == &quotient * &denominator;
        let mut first = u64::try_from(&quotient).unwrap_or(u64::MAX);
        first |= u64::from(!is_even);
        let scale = i32::try_from(-shift).unwrap_or(i32::MAX);
        // In two steps, so that neither factor leaves the range of `f64` before the product does.
        first as f64 * 2_f64.powi(scale / 2) * 2_f64.powi(scale - scale / 2)
    }

    /// As a decimal with `places` digits behind the point, the last one rounded (a half upwards).
    pub fn decimal(&self, places: usize) -> String {
        let scaled = &self.numerator * ten_to(places);
        let rounded =
            (scaled * 2_u8 + &self.denominator) / (&self.denominator * BigUint::from(2_u8));
        let digits = format!("{:0>width$}", rounded.to_string(), width = places + 1);
        let (whole, behind) = digits.split_at(digits.len() - places);
        if behind.is_empty() { whole.to_owned() } else { format!("{whole}.{behind}") }
    }

    /// All its digits, as `7.16621792838594592768e14`; one that does not end, or not soon, has 21.
    pub fn scientific(&self) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        let exponent = self.exponent();
        let digits = (1..=ALL_DIGITS)
            .find_map(|digits| {
                let (number, is_all) = self.leading(exponent, digits);
                is_all.then_some(number)
            })
            .unwrap_or_else(|| self.leading(exponent, ENDLESS_DIGITS + 1).0);
        // Rounded up to the next power of ten, it has a digit more.
        let text = digits.to_string();
        let (first, behind) = text.split_at(1);
        let behind = behind.trim_end_matches('0');
        let point = if behind.is_empty() { "" } else { "." };
        format!("{first}{point}{behind}e{exponent}")
    }

    /// Of the first digit: 3 for 1234.
    fn exponent(&self) -> i32 {
        let length = |number: &BigUint| i32::try_from(number.to_string().len()).unwrap_or(0);
        let guess = length(&self.numerator) - length(&self.denominator);
        let first = Self::whole(1_u8) * ten_power(guess);
        if *self < first { guess - 1 } else { guess }
    }

    /// Its first `digits` digits as one number, rounded, and whether these are all.
    fn leading(&self, exponent: i32, digits: usize) -> (BigUint, bool) {
        let places = i32::try_from(digits).unwrap_or(0) - 1 - exponent;
        let scaled = self.clone() * ten_power(places);
        let whole = scaled.floor();
        let is_all = &whole * &scaled.denominator == scaled.numerator;
        let half = Self { numerator: BigUint::from(1_u8), denominator: BigUint::from(2_u8) };
        ((scaled + half).floor(), is_all)
    }
}

fn ten_to(power: usize) -> BigUint {
    BigUint::from(10_u8).pow(u32::try_from(power).unwrap_or(u32::MAX))
}

/// 10 to a power of either sign.
fn ten_power(power: i32) -> Exact {
    let magnitude = ten_to(power.unsigned_abs() as usize);
    let one = BigUint::from(1_u8);
    if power < 0 {
        Exact { numerator: one, denominator: magnitude }
    } else {
        Exact { numerator: magnitude, denominator: one }
    }
}

impl FromStr for Exact {
    type Err = MiningError;

    /// Decimal digits with a point and an exponent as wanted; `,` and `_` may group digits before the
    /// point.
    fn from_str(text: &str) -> Result<Self, MiningError> {
        let bad = || MiningError::Number(text.chars().take(60).collect());
        let (number, exponent) = match text.split_once(['e', 'E']) {
            Some((number, exponent)) => (number, exponent.parse::<i32>().map_err(|_| bad())?),
            None => (text, 0),
        };
        let (whole, behind) = number.split_once('.').unwrap_or((number, ""));
        let whole = grouped(whole).ok_or_else(bad)?;
        let digits = format!("{whole}{behind}");
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number || digits.len() > MOST_DIGITS || exponent.abs() > MOST_EXPONENT {
            return Err(bad());
        }
        let value = Self::whole(digits.parse::<BigUint>().map_err(|_| bad())?);
        let places = i32::try_from(behind.len()).map_err(|_| bad())?;
        Ok(value * ten_power(exponent - places))
    }
}

/// Without the marks between groups of three digits; nothing if they stand elsewhere.
fn grouped(whole: &str) -> Option<String> {
    let mark = |c: char| c == ',' || c == '_';
    let mut groups = whole.split(mark);
    let first = groups.next()?;
    let is_right = !whole.contains(mark)
        || (1..=3).contains(&first.len()) && groups.all(|group| group.len() == 3);
    is_right.then(|| whole.replace(mark, ""))
}

/// Up to 20 digits behind the point where it has more, and no zeros at the end.
impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.decimal(f.precision().unwrap_or(ENDLESS_DIGITS));
        let short = if f.precision().is_none() && text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.')
        } else {
            &text
        };
        f.write_str(short)
    }
}

impl Mul for Exact {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self {
            numerator: self.numerator * other.numerator,
            denominator: self.denominator * other.denominator,
        }
    }
}

impl Add for Exact {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            numerator: self.numerator * &other.denominator + other.numerator * &self.denominator,
            denominator: self.denominator * other.denominator,
        }
    }
}

/// By nothing, it is a bug of the caller, as with whole numbers.
impl Div for Exact {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        assert!(!other.is_zero(), "a ratio divided by nothing");
        Self {
            numerator: self.numerator * other.denominator,
            denominator: self.denominator * other.numerator,
        }
    }
}

impl PartialEq for Exact {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Exact {}

impl PartialOrd for Exact {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Exact {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.numerator * &other.denominator).cmp(&(&other.numerator * &self.denominator))
    }
}
