//! What a machine is, as far as Linux shows it without privileges.

use serde::{Deserialize, Serialize};

/// A machine, as its operating system describes it without privileges.
///
/// What is not known is left at its default: every figure is brought into a sane range before it is
/// used, so that none of them can spoil an estimate beyond its interval's honest width.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the CPU: `model name` in `/proc/cpuinfo`; on Arm, which has none there, that of its
    /// design (`Neoverse-N1`).
    pub cpu: String,
    /// Family of the CPU on x86 (`cpu family` in `/proc/cpuinfo`); 0: not known.
    pub cpu_family: u32,
    /// Model within the family (`model` in `/proc/cpuinfo`); 0: not known.
    pub cpu_model: u32,
    /// Packages that hold CPUs.
    pub sockets: u32,
    /// Physical cores, of all sockets.
    pub cores: u32,
    /// Hardware threads that the operating system schedules on, of all sockets.
    pub threads: u32,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// It is a guest of a hypervisor. (A container is not: it sees its host.)
    pub is_virtual: bool,
    /// Chassis type of the SMBIOS specification (`/sys/class/dmi/id/chassis_type`).
    pub chassis: Option<u8>,
    /// It has a battery of its own.
    pub has_battery: bool,
    /// Board that the device tree names (`/proc/device-tree/model`).
    pub board: Option<String>,
}

/// Kinds of machines whose power differs in kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MachineClass {
    /// Made to serve: server processor, server chassis, or several sockets.
    Server,
    /// Desktop, workstation without a server processor, mini PC.
    Desktop,
    /// Anything with a battery, its screen included.
    Laptop,
    /// A small board that a device tree describes, such as a Raspberry Pi.
    SingleBoard,
    /// A guest of a hypervisor: a share of a host that it cannot see.
    VirtualMachine,
}

impl MachineClass {
    /// As a reader calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Desktop => "desktop or mini PC",
            Self::Laptop => "laptop",
            Self::SingleBoard => "single-board computer",
            Self::VirtualMachine => "virtual machine",
        }
    }
}

/// Parts of names of processors that are made for servers.
const SERVER_CPUS: [&str; 9] =
    ["xeon", "epyc", "opteron", "altra", "ampereone", "neoverse", "graviton", "grace", "power9"];
/// Chassis types 8 to 10, 14 and 30 to 32: portable, laptop, notebook, sub notebook, tablet,
/// convertible, detachable.
const PORTABLE_CHASSIS: [u8; 7] = [8, 9, 10, 14, 30, 31, 32];
/// Chassis types 17, 23, 25, 28 and 29: main server, rack mount, multi-system, blade and its
/// enclosure.
const SERVER_CHASSIS: [u8; 5] = [17, 23, 25, 28, 29];
/// Boards with more cores than this are servers that happen to have a device tree.
const MOST_CORES_OF_A_BOARD: u32 = 16;

impl Machine {
    /// What kind of machine it is. The first that fits of: guest, laptop, server, single-board
    /// computer, desktop.
    pub fn class(&self) -> MachineClass {
        let cpu = self.cpu.to_lowercase();
        let chassis_in =
            |types: &[u8]| self.chassis.is_some_and(|chassis| types.contains(&chassis));
        let large_board = self.board.is_some() && self.cores > MOST_CORES_OF_A_BOARD;
        if self.is_virtual {
            MachineClass::VirtualMachine
        } else if self.has_battery || chassis_in(&PORTABLE_CHASSIS) {
            MachineClass::Laptop
        } else if SERVER_CPUS.iter().any(|name| cpu.contains(name))
            || chassis_in(&SERVER_CHASSIS)
            || self.sockets > 1
            || large_board
        {
            MachineClass::Server
        } else if self.board.is_some() && self.chassis.is_none() {
            MachineClass::SingleBoard
        } else {
            MachineClass::Desktop
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_told_apart() {
        let machine = |cpu: &str| Machine {
            cpu: cpu.to_owned(),
            sockets: 1,
            cores: 4,
            threads: 8,
            memory_bytes: 8 << 30,
            ..Machine::default()
        };
        let rack = machine("Intel(R) Xeon(R) CPU E5-2660 v2 @ 2.20GHz");
        let tower = machine("Intel(R) Core(TM) i7-2700K CPU @ 3.50GHz");
        let pi = Machine { board: Some("Raspberry Pi 4 Model B".to_owned()), ..machine("") };
        for (machine, class) in [
            (rack.clone(), MachineClass::Server),
            (Machine { is_virtual: true, ..rack.clone() }, MachineClass::VirtualMachine),
            (Machine { has_battery: true, ..rack }, MachineClass::Laptop),
            (tower.clone(), MachineClass::Desktop),
            (Machine { chassis: Some(10), ..tower.clone() }, MachineClass::Laptop),
            (Machine { chassis: Some(23), ..tower.clone() }, MachineClass::Server),
            (Machine { sockets: 2, ..tower }, MachineClass::Server),
            (pi.clone(), MachineClass::SingleBoard),
            (Machine { cores: 64, ..pi }, MachineClass::Server),
            (Machine::default(), MachineClass::Desktop),
        ] {
            assert_eq!(machine.class(), class, "{machine:?}");
        }
    }
}
