//! Which jobs belong together: how much they slow each other down, and what that means for time and energy
//! (`nightwatt corun`).
//!
//! ```text
//! jobs.toml ─► Plan (groups) ─► runner ─► Store (a line for every run) ─► Report ─► text, JSON, CSV, HTML
//!                                 ▲ which run is next: compare's experiment      └─► pure::answers
//! results ─► Profile, JobList ─► pure::batches ─► batch_runner ─► Store ─► job_history (`nightwatt schedule`)
//! matrix (measured) ─► pure::machine, a simulator ◄─ pure::run_queue (the policy of one CPU)
//! ```
//!
//! The order of runs, their repetition, the statistics and the folder of results are those of `nightwatt_compare`.

mod adopted;
mod batch_runner;
mod error;
mod job_history;
mod job_key;
mod job_list;
mod left_over;
mod page;
mod plan;
pub mod pure;
mod report;
mod runner;
mod schedule;
mod text;
mod topology;

#[cfg(test)]
mod tests;

pub use batch_runner::{BatchRun, run_batches};
pub use error::Error;
pub use job_history::{EndedJob, JobsDone, jobs_done};
pub use job_list::{Batches, JobList, ListedJob, Profile};
pub use plan::{CommandLineError, Plan};
pub use pure::groups::Goal;
pub use report::{NamedJob, Report, report};
pub use runner::{placement, run};
pub use schedule::{Schedule, schedule};

/// A measured matrix: eight applications on a guest with 16 CPUs, four processes of each on four CPUs, alone, in pairs,
/// threes and fours. Measured on 26 November 2026 on a guest of an Intel Xeon (family 6, model 207), 1 s for each set,
/// without counters and without energy. The level-3 cache was shared with other tenants.
pub const SIXTEEN_CPUS: &str = include_str!("../data/sixteen-cpus.csv");
