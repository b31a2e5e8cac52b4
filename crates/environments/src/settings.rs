//! Settings of the host that a plan compares: each is read, set, read back, and restored at the end.
//!
//! A setting is either words in files of the kernel, or what commands do. [`Setting`] has the list.

mod commands;
mod files;

use std::path::Path;

use nightwatt_clock::meter::Stop;
use serde::Deserialize;

use crate::Error;
use crate::guard::{Guard, Undo};
use commands::Commands;
use files::Files;

/// A setting of the host, as a plan names it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Setting {
    /// How the kernel chooses the CPUs' frequency: `performance`, `powersave`, `schedutil`, ..
    Governor {},
    /// Frequencies above the nominal one: `on`, `off`.
    Turbo {},
    /// More than one thread for each core: `on`, `off`.
    Smt {},
    /// What the CPU itself is to prefer: `performance`, `balance_power`, `power`, ..
    Preference {},
    /// A parameter of the kernel.
    Sysctl {
        /// Its name: `net.ipv4.tcp_congestion_control`.
        key: String,
    },
    /// Any file that holds one value; where it shows choices, the one in brackets is the value.
    File {
        /// Where it is: `/sys/block/sda/queue/scheduler`.
        path: String,
    },
    /// Work that a network card does for the kernel: `on`, `off`.
    Offload {
        /// The card.
        interface: String,
        /// As `ethtool -k` calls it: `tcp-segmentation-offload`, or shortly `tso`.
        feature: String,
    },
    /// How long a network card gathers before it interrupts.
    Coalescing {
        /// The card.
        interface: String,
        /// As `ethtool -c` calls it: `rx-usecs`.
        parameter: String,
    },
    /// Anything else, by lines of the shell in which `$value` is the value.
    Command {
        /// Sets it.
        set: String,
        /// Prints what it is.
        read: Option<String>,
        /// Restores it, `$value` being what was read; by default what sets it.
        restore: Option<String>,
    },
}

/// A setting that was made. Dropped, it is restored; [`restore`](Self::restore) also says whether that
/// worked.
#[derive(Debug)]
pub struct Set {
    before: String,
    undo: Option<Undo>,
}

impl Set {
    /// What it was before.
    pub fn before(&self) -> &str {
        &self.before
    }

    /// Sets it to what it was.
    pub fn restore(self) -> Result<(), Error> {
        self.undo.map_or(Ok(()), Undo::now)
    }
}

enum Way {
    Files(Files),
    Commands(Commands),
}

impl Setting {
    /// What errors and tables call it.
    pub fn name(&self) -> String {
        match self {
            Self::Governor {} => "the CPUs' governor".to_owned(),
            Self::Turbo {} => "turbo".to_owned(),
            Self::Smt {} => "simultaneous multithreading".to_owned(),
            Self::Preference {} => "the CPUs' energy preference".to_owned(),
            Self::Sysctl { key } => key.clone(),
            Self::File { path } => path.clone(),
            Self::Offload { interface, feature } => format!("{feature} of {interface}"),
            Self::Coalescing { interface, parameter } => format!("{parameter} of {interface}"),
            Self::Command { set, .. } => format!("`{set}`"),
        }
    }

    fn way(&self, root: &Path) -> Result<Way, Error> {
        let name = self.name();
        let files = match self {
            Self::Governor {} => {
                files::of_policies(root, name, "scaling_governor", "scaling_available_governors")
            }
            Self::Preference {} => files::of_policies(
                root,
                name,
                "energy_performance_preference",
                "energy_performance_available_preferences",
            ),
            Self::Turbo {} => files::turbo(root, name),
            Self::Smt {} => files::smt(root, name),
            Self::Sysctl { key } => files::sysctl(root, name, key),
            Self::File { path } => files::any(root, name, path),
            Self::Offload { interface, feature } => {
                return Ok(Way::Commands(Commands::offload(name, interface, feature)));
            }
            Self::Coalescing { interface, parameter } => {
                return Ok(Way::Commands(Commands::coalescing(name, interface, parameter)));
            }
            Self::Command { set, read, restore } => {
                return Ok(Way::Commands(Commands::new(
                    name,
                    set,
                    read.as_deref(),
                    restore.as_deref(),
                )));
            }
        };
        Ok(Way::Files(files?))
    }

    /// What it is now; nothing if there is no way to tell. `root` is `/`, or in tests a folder with what
    /// a machine has there.
    pub fn read(&self, root: &Path, stop: &Stop) -> Result<Option<String>, Error> {
        match self.way(root)? {
            Way::Files(files) => files.read().map(Some),
            Way::Commands(commands) => commands.read(stop),
        }
    }

    /// Is it there, and can it be these values, as far as can be seen without setting it?
    pub fn check(&self, root: &Path, values: &[String], stop: &Stop) -> Result<(), Error> {
        match self.way(root)? {
            Way::Files(files) => files.check(values),
            Way::Commands(commands) => commands.read(stop).map(drop),
        }
    }

    /// What it is now, if that is known and is not this value.
    pub fn strayed(&self, root: &Path, value: &str, stop: &Stop) -> Result<Option<String>, Error> {
        match self.way(root)? {
            Way::Files(files) => files.strayed(value),
            Way::Commands(commands) => Ok(commands.read(stop)?.filter(|now| now != value)),
        }
    }

    /// Sets it, and sees that it took. It is restored when what this gives is dropped, or by the guard.
    pub fn set(&self, root: &Path, value: &str, guard: &Guard, stop: &Stop) -> Result<Set, Error> {
        match self.way(root)? {
            Way::Files(files) => files.set(value, guard),
            Way::Commands(commands) => commands.set(value, guard, stop),
        }
    }
}

#[cfg(test)]
mod tests;
