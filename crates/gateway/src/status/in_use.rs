//! Probes of use past the proxy.

use serde::{Deserialize, Serialize};

/// A probe of `[[site.in_use]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InUseStatus {
    /// Its name.
    pub name: String,
    /// `in-use`, `idle`, `not-asked`, `unknown` (no answer: counts as use for `unknown_for`), `ignored` (no answer for
    /// longer: counts as idle); `asleep` while the server is not awake.
    pub state: String,
    /// What was in use at the last answer, or why there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Answers since the start that reported use.
    pub used: u64,
    /// Answers since the start that reported none.
    pub idle: u64,
    /// Questions since the start without an answer that made sense.
    pub failed: u64,
}
