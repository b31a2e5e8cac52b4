//! eBPF: when threads are in which section of code and for how long they ran there ([`SectionProbes`]);
//! whose bytes go to which device ([`DiskProbes`]); how often CPUs come back from rest ([`IdleProbe`]).
//! And, without eBPF, what runs on each CPU at fixed times ([`Samples`]).
//!
//! The kernel's half (`bpf/`) sums up; this half loads it, attaches it, and reads the sums. What they
//! mean for energy is pure and lives in `energy::sections` and `energy::storage`.

mod addresses;
mod body;
mod code;
mod debug;
mod descendants;
mod disk;
mod error;
mod find_functions;
mod go;
mod idle;
mod loaded;
mod names;
mod offers;
mod place;
mod read;
mod samples;
mod sections;
mod stepping;
mod symbolize;
mod target;
mod usdt;

pub use body::{Body, function_bodies};
pub use descendants::{DescendantProbe, DescendantTimes};
pub use disk::{DiskProbes, Lost, News};
pub use error::ProbeError;
pub use find_functions::function_entries;
pub use go::{GoRuntime, go_runtime};
pub use idle::IdleProbe;
pub use offers::{Offer, offers};
pub use place::{InstructionKind, Location, ProbeSite, instruction_kind};
pub use samples::{Begin, CpuSample, Function, Program, Sample, Samples};
pub use sections::{CallEvents, Calls, Extras, SectionProbes, Watch};
pub use stepping::{StepCost, step_cost};
pub use target::{Point, resolve_file};
