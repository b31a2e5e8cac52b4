//! `nightwatt compare`: the same work in several environments, over and over, and what it takes in each.
//!
//! ```text
//! plan.toml ─► Plan (cells) ─► runner ─► Store (a line for every run) ─► Report ─► text, JSON, CSV, HTML
//!                                ▲ which run is next, and when there are enough: model::experiment (pure)
//! ```

mod charts;
mod commands;
mod error;
mod figures;
mod host;
mod lines;
mod metering;
mod page;
mod places;
pub mod plan;
pub mod record;
mod result;
mod runner;
mod schedule;
pub mod store;
mod tables;
mod text;

#[cfg(test)]
mod tests;

use jiff::Timestamp;

pub use error::Error;
pub use plan::{Plan, PlanFile};
pub use result::{Report, report};
pub use runner::{Told, run};
pub use schedule::{Schedule, environments, schedule, tools};
pub use store::Store;

/// Civil time as RFC 3339 has it, to the second.
fn civil(wall_ns: i64) -> String {
    let second = Timestamp::from_second(wall_ns.div_euclid(1_000_000_000));
    second.map(|second| second.to_string()).unwrap_or_default()
}
