//! Shows where in a program energy goes, by eBPF: sections of code, disks, functions of the kernel.

pub mod caliper;
mod cells;
pub mod disk;
mod error;
pub mod kernel_time;
pub mod pure;

pub use self::error::Error;
