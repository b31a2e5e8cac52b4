//! eBPF: when threads are in which section of code, and for how long they ran there.
//!
//! The kernel's half (`bpf/`) sums up; this half loads it, attaches it to programs, and reads the sums.
//! What they mean for energy is pure and lives in `model::sections`.

mod error;
mod places;
mod sections;
mod target;

pub use error::ProbeError;
pub use places::{InstructionKind, Place, function_entries, instruction_kind};
pub use sections::{Calls, SectionProbes, Watch};
pub use target::{Point, resolve_file};
