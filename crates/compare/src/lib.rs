//! Runs the same work in several environments until the means are precise enough, and reports each figure with its
//! interval and its ratio to the baseline (`nightwatt compare`).
//!
//! ```text
//! plan.toml ─► Plan (cells) ─► runner ─► Store (a line for every run) ─► Report ─► text, JSON, CSV, HTML
//!                                ▲ which run is next, and when there are enough: pure::experiment
//! ```
//!
//! `nightwatt_environments` starts containers, guests and remote machines, `nightwatt_workloads` reads what tools
//! print, and `nightwatt_meters` measures. `netlab` uses its experiments, its metering and its records of runs,
//! `corun` also how runs are driven and stored.

mod busy;
mod charts;
pub mod commands;
mod consolidation;
mod error;
pub mod figures;
pub mod host;
mod lines;
pub mod machine_lock;
pub mod metering;
mod page;
mod plan;
mod preflight;
pub mod pure;
pub mod record;
mod report;
mod result;
mod runner;
mod schedule;
mod service;
mod setup;
pub mod store;
mod tables;
mod text;

#[cfg(test)]
mod tests;

use jiff::Timestamp;

pub use error::Error;
pub use plan::{Commands, Plan, PlanFile, Reader, Subject, Wrong};
pub use report::{report, warnings_of_runs};
pub use result::{Consolidation, EnergySource, Failed, Report, ServiceTime};
pub use runner::{RunProgress, Runs, drive, run};
pub use schedule::{Schedule, environments, schedule, tools};
pub use store::Store;
pub use text::{in_a_line, percent};

/// Civil time as RFC 3339 has it, to the second.
fn civil(wall_ns: i64) -> String {
    let second = Timestamp::from_second(wall_ns.div_euclid(1_000_000_000));
    second.map(|second| second.to_string()).unwrap_or_default()
}
