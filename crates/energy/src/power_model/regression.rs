//! Watts of a server from what it is: regressions over SPECpower_ssj2008.
//!
//! The logarithm of the watts, idle and at full load, is a linear function of a few **predictors**;
//! between the two, the curve is the mean one of its era. How far the truth may be from that is no
//! theory: it is the middle 95 % of what the regression missed by on processors that it had not
//! seen, at each of the eleven loads.
//!
//! The coefficients are fitted by `cargo xtask power-model`, which calls [`Basis::row`] and
//! [`Regression::estimates`] too, so that what was fitted is what is used.

use std::borrow::Cow;

use super::machine::Machine;
use super::{Estimate, LOADS};
use crate::quantity::Watts;

/// What the watts are explained by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Basis {
    /// A server whose processor's year is known.
    Server,
    /// A server whose processor's year is not known.
    ServerOfAnyYear,
    /// One hardware thread of a server that has 16 or more, for guests: nothing is known of it but
    /// its processor.
    Thread,
    /// Likewise, of a processor of 2012 or later whose year is not known.
    ThreadOfAnyYear,
}

impl Basis {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Server, Self::ServerOfAnyYear, Self::Thread, Self::ThreadOfAnyYear];

    /// What fits a machine, a guest or not.
    pub(super) fn of(guest: bool, year: Option<u16>) -> Self {
        match (guest, year) {
            (false, Some(_)) => Self::Server,
            (false, None) => Self::ServerOfAnyYear,
            (true, Some(_)) => Self::Thread,
            (true, None) => Self::ThreadOfAnyYear,
        }
    }

    /// The predictors of a machine, all without unit:
    ///
    /// - 1
    /// - whether the processor is AMD's (0 or 1)
    /// - for a server: ln(sockets), ln(cores per socket / 16), ln(GB of memory per socket / 64),
    ///   whether a core has several threads (0 or 1)
    /// - where the year is known: decades since 2015, since 2010 and since 2017, the last two not
    ///   below 0, so that the trend may bend in those years
    ///
    /// `None` where the year is wanted and the processor does not tell it. Figures that no
    /// machine has are brought to the nearest that one could have.
    pub fn row(self, machine: &Machine) -> Option<Vec<f64>> {
        let mut row = vec![1.0, f64::from(u8::from(machine.is_amd()))];
        if matches!(self, Self::Server | Self::ServerOfAnyYear) {
            let sockets = f64::from(machine.sockets.clamp(1, 16));
            let cores = (f64::from(machine.cores) / sockets).clamp(1.0, 512.0);
            let memory =
                (machine.memory_bytes as f64 / f64::from(1 << 30) / sockets).clamp(1.0, 8192.0);
            let threaded = machine.threads > machine.cores;
            row.extend([
                sockets.ln(),
                (cores / 16.0).ln(),
                (memory / 64.0).ln(),
                f64::from(u8::from(threaded)),
            ]);
        }
        if matches!(self, Self::Server | Self::Thread) {
            let year = f64::from(machine.cpu_year()?);
            let since = |start: f64| (year - start) / 10.0;
            row.extend([since(2015.0), since(2010.0).max(0.0), since(2017.0).max(0.0)]);
        }
        Some(row)
    }

    /// How many times what the regression speaks of the machine is: its threads where that is one
    /// thread.
    pub fn multiple(self, machine: &Machine) -> f64 {
        match self {
            Self::Server | Self::ServerOfAnyYear => 1.0,
            Self::Thread | Self::ThreadOfAnyYear => f64::from(machine.threads.clamp(1, 8192)),
        }
    }
}

/// Eras between which the shape of the curve differs, the last of them for machines of unknown
/// year.
pub const ERAS: usize = 5;

/// The era of a processor: before 2009, 2009 to 2011, 2012 to 2016, 2017 and later, unknown.
///
/// The first draw nearly along a line; power management then bends the curve, turbo again.
pub fn era(machine: &Machine) -> usize {
    match machine.cpu_year() {
        Some(..2009) => 0,
        Some(2009..2012) => 1,
        Some(2012..2017) => 2,
        Some(_) => 3,
        None => 4,
    }
}

/// A fitted regression. p is the number of its predictors.
#[derive(Debug, Clone, PartialEq)]
pub struct Regression {
    /// Coefficients of ln(W) idle: p.
    pub idle: Cow<'static, [f64]>,
    /// Coefficients of ln(W) at full load: p.
    pub full: Cow<'static, [f64]>,
    /// (X'X)^-1 of the rows that it was fitted to: p x p, row by row.
    pub inverse_gram: Cow<'static, [f64]>,
    /// For each era, the share of the way from idle to full load at each of the loads.
    pub curves: [[f64; LOADS]; ERAS],
    /// For each load, the 2.5 and 97.5 % quantiles of ln(measured / modelled), divided by
    /// [`Regression::spread`], over processors that were left out.
    pub bounds: [[f64; 2]; LOADS],
}

impl Regression {
    /// ln(W) at each of the loads 0, 10, ... 100 %.
    ///
    /// Full load never draws less than idle, whatever is extrapolated.
    pub fn ln_watts(&self, row: &[f64], era: usize) -> [f64; LOADS] {
        let along =
            |coefficients: &[f64]| row.iter().zip(coefficients).map(|(x, b)| x * b).sum::<f64>();
        let idle = along(&self.idle).exp();
        let full = along(&self.full).exp().max(idle);
        self.curves[era].map(|share| (idle + share * (full - idle)).ln())
    }

    /// By how much an error is wider for a machine of these predictors than for those fitted to:
    /// sqrt(1 + x' (X'X)^-1 x), the standard error of a prediction over that of the residuals. It
    /// grows for machines unlike all that were seen.
    pub fn spread(&self, row: &[f64]) -> f64 {
        let columns = row.len();
        let lever: f64 = self
            .inverse_gram
            .chunks(columns.max(1))
            .zip(row)
            .map(|(line, x)| x * line.iter().zip(row).map(|(a, x)| a * x).sum::<f64>())
            .sum();
        (1.0 + lever.max(0.0)).sqrt()
    }

    /// Estimates at each of the loads, times `multiple`, their intervals `wider` times as wide each
    /// way (1: as found on processors that were left out).
    pub fn estimates(
        &self,
        row: &[f64],
        era: usize,
        multiple: f64,
        wider: f64,
    ) -> [Estimate; LOADS] {
        let spread = self.spread(row);
        let ln_watts = self.ln_watts(row, era);
        std::array::from_fn(|load| {
            let [low, high] = self.bounds[load];
            let watts = ln_watts[load].exp() * multiple;
            Estimate {
                watts: Watts(watts),
                low: Watts(watts * (low * spread).min(0.0).exp() / wider),
                high: Watts(watts * (high * spread).max(0.0).exp() * wider),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 50 W idle and 100 W at full load, whatever the machine.
    fn flat() -> Regression {
        Regression {
            idle: Cow::Owned(vec![50.0_f64.ln(), 0.0]),
            full: Cow::Owned(vec![100.0_f64.ln(), 0.0]),
            inverse_gram: Cow::Owned(vec![0.5, 0.25, 0.25, 0.5]),
            curves: [std::array::from_fn(|load| load as f64 / 10.0); ERAS],
            bounds: [[-0.5, 1.0]; LOADS],
        }
    }

    #[test]
    fn the_curve_lies_between_idle_and_full_load() {
        let watts = flat().ln_watts(&[1.0, 0.0], 0).map(f64::exp);
        for (load, watts) in watts.iter().enumerate() {
            assert!((watts - (50.0 + 5.0 * load as f64)).abs() < 1e-9, "{watts}");
        }
        let crossed = Regression { full: Cow::Owned(vec![0.0, 0.0]), ..flat() };
        let watts = crossed.ln_watts(&[1.0, 0.0], 0).map(f64::exp);
        assert!(watts.iter().all(|watts| (watts - 50.0).abs() < 1e-9), "{watts:?}");
    }

    #[test]
    fn the_interval_widens_away_from_what_was_fitted_to() {
        // x' A x = 0.5 for (1, 0), and 0.5 + 2 x 0.25 x 2 + 0.5 x 4 = 3.5 for (1, 2).
        assert!((flat().spread(&[1.0, 0.0]) - 1.5_f64.sqrt()).abs() < 1e-12);
        assert!((flat().spread(&[1.0, 2.0]) - 4.5_f64.sqrt()).abs() < 1e-12);
        let idle = flat().estimates(&[1.0, 0.0], 0, 2.0, 3.0)[0];
        let spread = 1.5_f64.sqrt();
        assert!((idle.watts.get() - 100.0).abs() < 1e-9);
        assert!((idle.low.get() - 100.0 * (-0.5 * spread).exp() / 3.0).abs() < 1e-9);
        assert!((idle.high.get() - 100.0 * spread.exp() * 3.0).abs() < 1e-9);
    }

    #[test]
    fn predictors_are_those_documented() {
        let machine = Machine {
            cpu: "AMD EPYC 7763 64-Core Processor".to_owned(),
            sockets: 2,
            cores: 128,
            threads: 256,
            memory_bytes: 256 << 30,
            ..Machine::default()
        };
        // 64 cores and 128 GB for each socket; EPYC 7003 came out in 2021.
        let expected = [1.0, 1.0, 2.0_f64.ln(), 4.0_f64.ln(), 2.0_f64.ln(), 1.0, 0.6, 1.1, 0.4];
        let row = Basis::Server.row(&machine).unwrap();
        assert_eq!(row.len(), expected.len());
        for (found, expected) in row.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{row:?}");
        }
        assert_eq!(Basis::ServerOfAnyYear.row(&machine).unwrap(), row[..6]);
        assert_eq!(Basis::Server.row(&Machine::default()), None);
        assert!((Basis::Thread.multiple(&machine) - 256.0).abs() < 1e-12);
    }
}
