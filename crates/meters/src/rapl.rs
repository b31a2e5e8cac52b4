//! RAPL: the energy counters of processors, Intel's and AMD's.
//!
//! Linux shows them in two places: powercap, which only root may read, and the `power` PMU of perf,
//! which a program with `CAP_PERFMON` may read. The first that can be read is used, or the one that
//! the option `by` names.
//!
//! What they cover contains each other (psys: packages: cores), so channels are never summed.
//!
//! Hypervisors show counters that they do not fill: those stay at zero. A counter of the machine or of a package
//! that does so is left out, since it would report that nothing is used.

mod perf;
mod powercap;

use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_model::quantity::Watts;

use crate::channel::{Accuracy, Scope};
use crate::error::MeterError;
use crate::host::Host;
use crate::meter::{Driver, Opening, Presence};
use crate::spec::MeterSpec;

pub(crate) const DRIVER: Driver = Driver {
    name: "rapl",
    about: "energy counters of processors (Intel, AMD)",
    example: "rapl",
    probe,
    open,
};

/// Counters are brought up to date about every millisecond.
const FASTEST: Duration = Duration::from_millis(1);

/// Published comparisons with meters at the supply find errors of a few per cent where the counter
/// measures, and more where it estimates (Sandy Bridge, most of AMD); no data sheet gives a bound.
const ACCURACY: Accuracy = Accuracy::relative(0.05);

/// Beyond what any machine of today draws there: what tells a wrap from a reset.
fn most(scope: Scope) -> Watts {
    Watts(match scope {
        Scope::System => 4000.0,
        Scope::Dram => 400.0,
        _ => 1200.0,
    })
}

/// A package draws some power at all times, which is hundreds of counts in this time.
const LONGEST_AT_ZERO: Duration = Duration::from_millis(50);

/// Whether a counter counts. A part of a package may be off, so its counter may stay at zero; and what cannot be
/// read says so when it is read.
fn counts(scope: Scope, mut read: impl FnMut() -> Option<u64>) -> bool {
    if !matches!(scope, Scope::System | Scope::Package) {
        return true;
    }
    let began = monotonic();
    while read() == Some(0) {
        if monotonic().since(began) > LONGEST_AT_ZERO {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Why counters that are shown are no meter.
fn at_zero(folder: &str) -> String {
    format!("the energy counters in {folder} stay at zero, as a virtual machine's do")
}

fn probe(host: &Host) -> Presence {
    match (powercap::probe(host), perf::probe(host)) {
        (Presence::Available, _) | (_, Presence::Available) => Presence::Available,
        (denied @ Presence::Denied { .. }, _) | (_, denied @ Presence::Denied { .. }) => denied,
        (Presence::Absent(one), Presence::Absent(other)) => {
            Presence::Absent(format!("{one}; {other}"))
        }
        (other, _) => other,
    }
}

fn open(host: &Host, spec: &MeterSpec) -> Opening {
    spec.only(&["by"])?;
    match spec.text("by") {
        Some("powercap") => powercap::open(host, spec),
        Some("perf") => perf::open(host, spec),
        Some(other) => Err(spec.wrong(format!("`by` is `powercap` or `perf`, and not `{other}`"))),
        None => powercap::open(host, spec).or_else(|error| {
            // What the first says is told if neither can be read: its cure is the usual one.
            perf::open(host, spec).map_err(|other| match (error, other) {
                (MeterError::Absent { meter, why }, MeterError::Absent { why: other, .. }) => {
                    MeterError::Absent { meter, why: format!("{why}; {other}") }
                }
                (MeterError::Absent { .. }, other) => other,
                (error, _) => error,
            })
        }),
    }
}

#[cfg(test)]
mod tests;
