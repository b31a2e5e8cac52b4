//! RAPL: the energy counters of processors, Intel's and AMD's.
//!
//! Linux shows them in two places: powercap, which only root may read, and the `power` PMU of perf,
//! which a program with `CAP_PERFMON` may read. The first that can be read is used, or the one that
//! the option `by` names.
//!
//! What they cover contains each other (psys: packages: cores), so channels are never summed.
//!
//! Each counter stands by itself: one that may not or cannot be read is left out and named. Hypervisors show
//! counters that they do not fill. A counter of the machine or of a package that stands still is left out too,
//! since it would report that nothing is used.

mod perf;
mod powercap;

use std::io;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_energy::quantity::Watts;
use nightwatt_host::Host;

use crate::channel::{Accuracy, Channel, Scope};
use crate::error::MeterError;
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

/// A counter that stays at zero for this long is not filled by the hypervisor. A package always draws some
/// power, which is hundreds of counts in this time.
const LONGEST_AT_ZERO: Duration = Duration::from_millis(50);

/// A counter that is not zero stands still only after this time: some count the whole machine in joules,
/// and some are updated rarely.
const LONGEST_STILL: Duration = Duration::from_millis(1500);

/// Counters that work, and remarks on the others.
struct FoundCounters<C> {
    channels: Vec<Channel>,
    counters: Vec<C>,
    denied: Vec<String>,
    failed: Vec<String>,
    still: Vec<String>,
}

impl<C> FoundCounters<C> {
    const fn new() -> Self {
        Self {
            channels: Vec::new(),
            counters: Vec::new(),
            denied: Vec::new(),
            failed: Vec::new(),
            still: Vec::new(),
        }
    }

    /// Takes a counter as it was opened.
    fn take(&mut self, channel: Channel, counter: io::Result<C>) {
        match counter {
            Ok(counter) => {
                self.channels.push(channel);
                self.counters.push(counter);
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.denied.push(channel.name);
            }
            Err(error) => self.failed.push(format!("`{}` cannot be read: {error}", channel.name)),
        }
    }

    /// Leaves out counters of the machine and of packages that stand still: such a counter would say
    /// that nothing is used. A part of a package may be off, so its counter may stand still; and what
    /// cannot be read says so when it is read.
    fn without_still(mut self, mut read: impl FnMut(&mut C) -> Option<u64>) -> Self {
        let (began, never) = (monotonic(), Stop::new());
        let first: Vec<Option<u64>> = self.counters.iter_mut().map(&mut read).collect();
        let must_move = |channel: &Channel| matches!(channel.scope, Scope::System | Scope::Package);
        let mut moves: Vec<bool> = self.channels.iter().map(|it| !must_move(it)).collect();
        loop {
            let mut waits = false;
            let time = monotonic().since(began);
            for (place, counter) in self.counters.iter_mut().enumerate() {
                let now = if moves[place] { None } else { read(counter) };
                moves[place] |= now.is_none() || now != first[place];
                let longest = if now == Some(0) { LONGEST_AT_ZERO } else { LONGEST_STILL };
                waits |= !moves[place] && time <= longest;
            }
            if !waits {
                break;
            }
            match &never {
                Ok(never) => {
                    never.wait_until(monotonic() + FASTEST);
                }
                Err(_) => std::thread::yield_now(),
            }
        }
        // Where nothing of the machine moves, parts that stand still are not off.
        let some_still =
            self.channels.iter().zip(&moves).any(|(it, moves)| must_move(it) && !moves);
        let some_move = self.channels.iter().zip(&moves).any(|(it, moves)| must_move(it) && *moves);
        if some_still && !some_move {
            for (place, counter) in self.counters.iter_mut().enumerate() {
                moves[place] = read(counter) != first[place];
            }
        }
        let mut moves = moves.into_iter();
        let (channels, counters) = (std::mem::take(&mut self.channels), self.counters);
        self.counters = Vec::new();
        for (channel, counter) in channels.into_iter().zip(counters) {
            if moves.next() == Some(true) {
                self.channels.push(channel);
                self.counters.push(counter);
            } else {
                self.still.push(channel.name);
            }
        }
        self
    }

    /// What is to be said of those that are left out; `hint` lets the denied ones be read.
    fn remarks(&self, hint: &str) -> Vec<String> {
        let mut remarks = Vec::new();
        if !self.denied.is_empty() {
            remarks.push(format!("{} may not be read: {hint}", listed(&self.denied)));
        }
        remarks.extend(self.failed.iter().cloned());
        if !self.still.is_empty() {
            remarks.push(format!("{} stands still: that is no measurement", listed(&self.still)));
        }
        remarks
    }

    /// Whether some of it can be read, and why not.
    fn presence(&self, folder: &str, hint: &str, absent: impl FnOnce() -> String) -> Presence {
        if !self.channels.is_empty() {
            return Presence::Available;
        }
        if !self.denied.is_empty() {
            let what = format!("{} in {folder}", listed(&self.denied));
            return Presence::Denied { what, hint: hint.to_owned() };
        }
        if let Some(why) = self.failed.first() {
            return Presence::Absent(format!("{folder}: {why}"));
        }
        Presence::Absent(if self.still.is_empty() {
            absent()
        } else {
            format!(
                "{} in {folder} stand still or stay at zero, as a virtual machine's counters do",
                listed(&self.still)
            )
        })
    }
}

/// `` `core-0`, `psys` ``.
fn listed(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Why there is no meter.
fn refusal(meter: &str, presence: Presence) -> MeterError {
    let meter = meter.to_owned();
    match presence {
        Presence::Denied { what, hint } => MeterError::Denied { meter, what, hint },
        Presence::Absent(why) => MeterError::Absent { meter, why },
        Presence::Available | Presence::NeedsAddress => {
            MeterError::Absent { meter, why: "it is gone".to_owned() }
        }
    }
}

fn probe(host: &Host) -> Presence {
    match (powercap::probe(host), perf::probe(host)) {
        (Presence::Available, _) | (_, Presence::Available) => Presence::Available,
        (denied @ Presence::Denied { .. }, _) | (_, denied @ Presence::Denied { .. }) => denied,
        (Presence::Absent(one), Presence::Absent(other)) => {
            Presence::Absent(format!("{one}, and {other}"))
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
                    MeterError::Absent { meter, why: format!("{why}, and {other}") }
                }
                (MeterError::Absent { .. }, other) => other,
                (error, _) => error,
            })
        }),
    }
}

#[cfg(test)]
mod tests;
