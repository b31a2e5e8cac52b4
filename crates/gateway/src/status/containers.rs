//! Containers whose labels describe sites.

use serde::{Deserialize, Serialize};

/// The daemon of `[containers]`, and its containers with labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContainersStatus {
    /// Its name and address.
    pub daemon: String,
    /// Whether it answered last.
    pub up: bool,
    /// Since when it does not answer, in ms since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_ms: Option<i64>,
    /// For how many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_for_s: Option<f64>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Its containers with labels of nightwatt, the oldest first.
    pub containers: Vec<ContainerStatus>,
}

/// What became of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerStatus {
    /// Its name.
    pub name: String,
    /// What it became.
    pub outcome: ContainerOutcome,
    /// The hosts that its labels name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Why it has no site although its labels ask for one, or what its site lacks, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What a container with labels became.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContainerOutcome {
    /// A site.
    Site,
    /// Its labels ask for none: another container may need it.
    NoSite,
    /// A label cannot be used.
    WrongLabel,
    /// Another site has its name, or one of its hosts.
    Conflict,
    /// Its site does not fit to the rest of the configuration.
    Refused,
}

impl ContainerOutcome {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Site, Self::NoSite, Self::WrongLabel, Self::Conflict, Self::Refused];

    /// As in JSON and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Site => "site",
            Self::NoSite => "no-site",
            Self::WrongLabel => "wrong-label",
            Self::Conflict => "conflict",
            Self::Refused => "refused",
        }
    }
}
