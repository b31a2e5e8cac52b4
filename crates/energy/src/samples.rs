//! A profile of CPU time by samples: at fixed times each CPU tells what runs there.
//!
//! Records of the kernel's profiler come in ([`Record::parse`]), in the order of their times; [`Processes`]
//! follows which process starts which, and which file is mapped where, and finds out for each sample where a
//! watched process was. Each sample stands for one period of CPU time. A meter's energy is shared by the
//! samples between two readings ([`SampledShares`]), and each share has the interval that chance leaves it.

mod processes;
mod record;
mod shares;
mod stacks;

pub use processes::{ANONYMOUS, Frame, MappedFile, Processes, SampleOutcome, calls, is_generated};
pub use record::{Mapping, Record};
pub use shares::{Busy, SampledShares, interval};
pub use stacks::Stacks;
