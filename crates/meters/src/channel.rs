//! What a meter measures: its channels.

use nightwatt_energy::energy::Provenance;
use nightwatt_energy::wrapping_counter::CounterSpec;
use serde::{Deserialize, Serialize};

pub use nightwatt_energy::uncertainty::Accuracy;

/// What part of a machine a channel covers. Wider ones contain narrower ones, so channels of one
/// meter are never summed, except where [`Scope::is_disjoint`] says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The machine at the wall: what the plug gives it, losses of the power supply included.
    Wall,
    /// The whole machine behind its power supply, or from its battery.
    System,
    /// A processor package: cores, caches and what else is on it.
    Package,
    /// A processor's cores.
    Core,
    /// What is on the package beside the cores: mostly graphics.
    Uncore,
    /// Memory.
    Dram,
    /// An accelerator.
    Gpu,
    /// Anything else: a rail of a board, a socket of a strip.
    Part,
}

impl Scope {
    /// Its name in metrics and recordings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Wall => "wall",
            Self::System => "system",
            Self::Package => "package",
            Self::Core => "core",
            Self::Uncore => "uncore",
            Self::Dram => "dram",
            Self::Gpu => "gpu",
            Self::Part => "part",
        }
    }

    /// Do two channels of this scope on one machine never contain each other?
    pub const fn is_disjoint(self) -> bool {
        matches!(self, Self::Package | Self::Dram | Self::Gpu)
    }

    /// Is the energy of such a channel due to what uses CPU time? An accelerator's is not.
    pub const fn goes_by_cpu_time(self) -> bool {
        self.is_whole() || matches!(self, Self::Package | Self::Dram)
    }

    /// Does a channel of this scope speak for the whole machine?
    pub const fn is_whole(self) -> bool {
        matches!(self, Self::Wall | Self::System)
    }
}

/// One thing that a meter measures.
#[derive(Debug, Clone, PartialEq)]
pub struct Channel {
    /// Its name, unique within the meter: `package-0`.
    pub name: String,
    /// What it covers.
    pub scope: Scope,
    /// For energy counters.
    pub counter: Option<CounterSpec>,
    /// How sure it is, and who says so.
    pub accuracy: Accuracy,
    /// Where `accuracy` is from: `data sheet`, `assumed`.
    pub accuracy_source: &'static str,
    /// The least step of its readings: joules for counters, else watts.
    pub step: f64,
    /// Measured or modelled.
    pub is_modelled: bool,
}

impl Channel {
    /// A channel that reports power.
    pub fn power(name: impl Into<String>, scope: Scope, accuracy: Accuracy) -> Self {
        Self {
            name: name.into(),
            scope,
            counter: None,
            accuracy,
            accuracy_source: "assumed",
            step: 0.0,
            is_modelled: false,
        }
    }

    /// A channel that counts energy.
    pub fn counter(
        name: impl Into<String>,
        scope: Scope,
        counter: CounterSpec,
        accuracy: Accuracy,
    ) -> Self {
        let step = counter.joules_per_count;
        Self { counter: Some(counter), step, ..Self::power(name, scope, accuracy) }
    }

    /// Where figures of this channel come from.
    pub fn provenance(&self, meter: &str) -> Provenance {
        let name = format!("{meter}/{}", self.name);
        if self.is_modelled {
            Provenance::Modelled { model: name }
        } else {
            Provenance::Measured { meter: name }
        }
    }
}
