//! The mirror of a site.

use std::collections::BTreeMap;

use nightwatt_energy::energy::Energy;
use serde::{Deserialize, Serialize};

/// The status of a site's mirror.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MirrorStatus {
    /// The site.
    pub site: String,
    /// Scheme and host of the pages; `None` while the copy is not open.
    pub url: Option<String>,
    /// Number of mirrored pages and files.
    pub pages: usize,
    /// Number of mirrored errors: addresses at which there is nothing.
    #[serde(default)]
    pub errors: usize,
    /// Number of mirrored redirects.
    #[serde(default)]
    pub redirects: usize,
    /// Bytes of their bodies on the disk.
    pub bytes: u64,
    /// Their limit.
    pub max_bytes: u64,
    /// Seconds since the oldest answer was confirmed, errors and redirects included.
    pub oldest_s: Option<f64>,
    /// Number of pages to confirm before the server sleeps.
    pub due: usize,
    /// Seconds since the beginning of the last whole pass that was completed.
    pub last_pass_s_ago: Option<f64>,
    /// A pass is under way, or was interrupted.
    pub is_running: bool,
    /// Number of addresses that are not mirrored, by reason.
    pub not_mirrored: BTreeMap<String, usize>,
    /// With `complete`: why a path that is not mirrored is not answered with 404, if it is not.
    pub not_complete: Option<String>,
    /// `complete` is set.
    pub is_complete_wanted: bool,
    /// Of `requests`, the share that the mirror could have answered.
    pub coverage: Option<f64>,
    /// Anonymous `GET`s of people in the last seven days.
    pub requests: u64,
    /// Wake-ups for the mirror alone, over all starts.
    pub own_wakeups: u64,
    /// Seconds for which the server was awake for the mirror alone.
    pub own_awake_s: f64,
    /// The energy of both, beyond sleeping: always modelled. It is a part of the ledger's.
    pub own_energy: Energy,
}
