//! Attributes energy to parts of a program: sections of code ([`caliper`]), reads and writes of disks ([`disk`]),
//! and functions of the kernel ([`kernel_time`]).
//!
//! It serves the commands of these names and `netlab`. Its probes (eBPF, uprobes, perf samples) are those of
//! `nightwatt_probes`, so it needs root and the feature `bpf` of the binary; commands run by `nightwatt_measure`,
//! and power comes from `nightwatt_meters`.

pub mod caliper;
mod cells;
pub mod disk;
mod error;
pub mod kernel_time;
pub mod preflight;
pub mod pure;
mod text;

pub use self::error::Error;
