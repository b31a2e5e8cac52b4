//! What survives a restart of the proxy.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::AwakeRun;
use crate::ledger::Bill;
use crate::sla::DelayedToday;
use nightwatt_energy::time::Wall;

/// What survives a restart of the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Memory {
    /// The bill so far.
    pub bill: Bill,
    /// When crawlers were promised an answer.
    pub crawl_appointment: Option<Wall>,
    /// How long it took to wake, the last wake-ups' mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_time: Option<Duration>,
    /// The hours of `awake` in which an operator has put it to sleep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordered_to_sleep: Option<AwakeRun>,
    /// Today's delayed visits, where the SLA limits their number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delayed_visits: Option<DelayedToday>,
}
