//! A job in `nightwatt status`.

use serde::{Deserialize, Serialize};

/// Everything about a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobStatus {
    /// Its name.
    pub name: String,
    /// The site or machine that it needs.
    pub on: String,
    /// When it runs, as in the configuration.
    pub at: String,
    /// For this many seconds, if it runs now.
    pub running_for_s: Option<f64>,
    /// Seconds until the next run; nothing in shadow mode, in which none runs.
    pub next_in_s: Option<f64>,
    /// When it last succeeded, ms since 1970.
    pub succeeded_ms: Option<i64>,
    /// Seconds since then.
    pub succeeded_s_ago: Option<f64>,
    /// Seconds that it ran then.
    pub took_s: Option<f64>,
    /// Runs that failed since then.
    pub failures: u32,
    /// Seconds since the last of these.
    pub failed_s_ago: Option<f64>,
    /// Why it failed.
    pub problem: Option<String>,
}
