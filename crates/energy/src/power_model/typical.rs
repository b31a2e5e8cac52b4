//! The power of a machine without a meter, from its description.

use serde::{Deserialize, Serialize};

use super::coefficients::{SERVER, SERVER_OF_ANY_YEAR, THREAD, THREAD_OF_ANY_YEAR};
use super::machine::{Machine, MachineClass};
use super::regression::{Basis, Regression, era};
use super::{Estimate, LOADS};
use crate::quantity::Watts;

/// A guest's interval is this many times as wide each way as that of a thread of a server left out: its host
/// may be loaded with more guests than it has threads, or hold memory and disks for many. A judgement, since
/// no published figure exists.
const GUEST_WIDER: f64 = 2.0;

/// The curve that a machine of its kind typically has: estimates at the loads 0, 10, ... 100 %,
/// straight between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Typical {
    class: MachineClass,
    curve: [Estimate; LOADS],
    basis: String,
}

/// What is published of a class that no regression covers, in watts at the wall.
struct Range {
    /// Least and most, idle.
    idle: [f64; 2],
    /// Least and most, at full load of all threads.
    full: [f64; 2],
    /// Where that comes from.
    source: &'static str,
}

/// Joins SPECpower's smallest one-socket machines (11 to 57 W idle, 40 to 140 W full),
/// the desktop in tracebase (53 to 203 W) and published readings of mini PCs (Intel N5105: 14 and 25
/// to 30 W; Arm boxes from 3 W idle), widened to round figures.
const DESKTOP: Range = Range {
    idle: [4.0, 90.0],
    full: [15.0, 300.0],
    source: "range of published readings; without screen and graphics cards",
};
/// A Dell of 2003 with 15 W idle and 26 W busy, screen on (codinghorror.com), is about the middle of
/// what reviews give: ultrabooks idle below 5 W, workstations draw above 100 W.
const LAPTOP: Range = Range {
    idle: [3.0, 30.0],
    full: [12.0, 120.0],
    source: "range of published readings; screen included, charging and graphics chips not",
};
/// Raspberry Pi documentation, power supplies: from 100 mA (Zero) to 800 mA (Pi 5) at 5 V typically
/// active, supplies of 1.2 to 5 A; other boards with eight cores draw up to about 15 W busy.
const SINGLE_BOARD: Range = Range {
    idle: [0.4, 6.0],
    full: [1.0, 15.0],
    source: "range of what Raspberry Pi documents of its boards, and other boards' readings; \
             without USB devices",
};

impl Typical {
    /// The curve of such a machine.
    pub fn of(machine: &Machine) -> Self {
        let class = machine.class();
        match class {
            MachineClass::Server => Self::regressed(machine, class, 1.0),
            MachineClass::VirtualMachine => Self::regressed(machine, class, GUEST_WIDER),
            MachineClass::Desktop => Self::between(class, &DESKTOP),
            MachineClass::Laptop => Self::between(class, &LAPTOP),
            MachineClass::SingleBoard => Self::between(class, &SINGLE_BOARD),
        }
    }

    fn regressed(machine: &Machine, class: MachineClass, wider: f64) -> Self {
        let year = machine.cpu_year();
        let basis = Basis::of(class == MachineClass::VirtualMachine, year);
        // The basis wants a year only where there is one.
        let row = basis.row(machine).unwrap_or_default();
        let curve =
            coefficients(basis).estimates(&row, era(machine), basis.multiple(machine), wider);
        let basis = match (class, year) {
            (MachineClass::VirtualMachine, year) => format!(
                "the share that {} threads have of a server of {}, by regression over \
                 SPECpower_ssj2008; the host is not seen",
                machine.threads.max(1),
                year.map_or("2012 or later".to_owned(), |year| format!("about {year}")),
            ),
            (_, Some(year)) => format!(
                "of about {year}, few disks, no accelerators, by regression over SPECpower_ssj2008"
            ),
            (_, None) => "of unknown year, few disks, no accelerators, by regression over \
                          SPECpower_ssj2008"
                .to_owned(),
        };
        Self { class, curve: rising(curve), basis }
    }

    /// In the middle of a range on a logarithmic scale, the shape that of late one-socket servers.
    fn between(class: MachineClass, range: &Range) -> Self {
        let shape = SERVER.curves[3];
        let at = |share: f64, idle: f64, full: f64| Watts(idle + share * (full - idle));
        let middle = |[low, high]: [f64; 2]| (low * high).sqrt();
        let curve = shape.map(|share| Estimate {
            watts: at(share, middle(range.idle), middle(range.full)),
            low: at(share, range.idle[0], range.full[0]),
            high: at(share, range.idle[1], range.full[1]),
        });
        Self { class, curve: rising(curve), basis: range.source.to_owned() }
    }

    /// What kind of machine it was taken for.
    pub const fn class(&self) -> MachineClass {
        self.class
    }

    /// Estimates at the loads 0, 10, ... 100 %.
    pub const fn curve(&self) -> &[Estimate; LOADS] {
        &self.curve
    }

    /// Where the figures come from, in words.
    pub fn basis(&self) -> &str {
        &self.basis
    }

    /// Power at a utilisation of 0 ..= 1.
    pub(super) fn at(&self, utilisation: f64) -> Estimate {
        let place = utilisation * (LOADS - 1) as f64;
        let below = (place.floor() as usize).min(LOADS - 2);
        self.curve[below].towards(&self.curve[below + 1], place - below as f64)
    }
}

/// The fitted regression of a basis.
fn coefficients(basis: Basis) -> &'static Regression {
    match basis {
        Basis::Server => &SERVER,
        Basis::ServerOfAnyYear => &SERVER_OF_ANY_YEAR,
        Basis::Thread => &THREAD,
        Basis::ThreadOfAnyYear => &THREAD_OF_ANY_YEAR,
    }
}

/// The same curve, none of its figures below the one before: bounds that were found at each load
/// apart may wobble.
fn rising(mut curve: [Estimate; LOADS]) -> [Estimate; LOADS] {
    for load in 1..LOADS {
        let before = curve[load - 1];
        let here = &mut curve[load];
        here.watts = here.watts.max(before.watts);
        here.low = here.low.max(before.low);
        here.high = here.high.max(before.high);
    }
    curve
}
