//! Watts, joules and rates as types, with only the arithmetic that physics allows.
//!
//! Durations are [`std::time::Duration`]; `Watts * Duration = Joules`, `Joules / Watts = Duration`.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Joules in one kilowatt-hour.
pub const JOULES_PER_KWH: f64 = 3.6e6;

macro_rules! scalar {
    ($(#[$doc:meta])* $name:ident, $unit:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub f64);

        impl $name {
            /// Nothing.
            pub const ZERO: Self = Self(0.0);

            /// The bare number, in the unit of the type.
            pub const fn get(self) -> f64 {
                self.0
            }

            /// The larger of two.
            #[must_use]
            pub fn max(self, other: Self) -> Self {
                Self(self.0.max(other.0))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                if let Some(precision) = f.precision() {
                    write!(f, "{:.*} {}", precision, self.0, $unit)
                } else {
                    write!(f, "{} {}", self.0, $unit)
                }
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl Neg for $name {
            type Output = Self;
            fn neg(self) -> Self {
                Self(-self.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl Mul<f64> for $name {
            type Output = Self;
            fn mul(self, factor: f64) -> Self {
                Self(self.0 * factor)
            }
        }

        impl Div for $name {
            type Output = f64;
            fn div(self, other: Self) -> f64 {
                self.0 / other.0
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
                values.fold(Self::ZERO, Add::add)
            }
        }
    };
}

scalar!(
    /// Power.
    Watts,
    "W"
);
scalar!(
    /// Energy.
    Joules,
    "J"
);
scalar!(
    /// How often something happens: requests that arrive, or that a server can answer.
    PerSecond,
    "/s"
);

impl Joules {
    /// The same energy in kilowatt-hours.
    pub fn kwh(self) -> f64 {
        self.0 / JOULES_PER_KWH
    }
}

impl Mul<Duration> for Watts {
    type Output = Joules;
    fn mul(self, time: Duration) -> Joules {
        Joules(self.0 * time.as_secs_f64())
    }
}

impl Div<Duration> for Joules {
    type Output = Watts;
    fn div(self, time: Duration) -> Watts {
        Watts(self.0 / time.as_secs_f64())
    }
}

impl Div<Watts> for Joules {
    type Output = Duration;
    /// How long that power takes to use that energy. Nothing or less takes no time; what does not
    /// fit a [`Duration`] (no power at all, say) takes [`Duration::MAX`].
    fn div(self, power: Watts) -> Duration {
        if self.0 <= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(self.0 / power.0).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kettle_of_two_kilowatts_uses_a_kilowatt_hour_in_half_an_hour() {
        let used = Watts(2000.0) * Duration::from_mins(30);
        assert!((used.kwh() - 1.0).abs() < 1e-12);
        assert_eq!(used / Duration::from_mins(30), Watts(2000.0));
        assert_eq!(used / Watts(2000.0), Duration::from_mins(30));
    }

    #[test]
    fn no_power_never_uses_up_any_energy() {
        assert_eq!(Joules(1.0) / Watts(0.0), Duration::MAX);
        assert_eq!(Joules(1.0) / Watts(-1.0), Duration::MAX);
        assert_eq!(Joules(0.0) / Watts(0.0), Duration::ZERO);
    }

    #[test]
    fn figures_print_with_their_unit() {
        assert_eq!(format!("{:.1}", Watts(43.3)), "43.3 W");
        assert_eq!(Joules(170.7).to_string(), "170.7 J");
    }
}
