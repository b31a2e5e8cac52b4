//! What can happen to a server.

use serde::{Deserialize, Serialize};

/// What happened to the server, for the ledger, the log and waiting requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// At start: it was found awake.
    FoundAwake,
    /// At start: it was found asleep.
    FoundAsleep,
    /// The sleep command was given.
    FallingAsleep,
    /// It sleeps.
    FellAsleep,
    /// It would not sleep, and is awake.
    StayedAwake,
    /// It has reasons of its own to stay awake.
    Declined,
    /// The wake command was given.
    Waking,
    /// It answers after a wake command.
    Woke,
    /// It answers, and this proxy did not wake it.
    WokenByOthers,
    /// It reported that it goes to sleep, and this proxy gave no command.
    SleptByOthers,
    /// It stopped answering without a sleep command.
    WentAway,
    /// It would not wake.
    Failed,
}

impl Change {
    /// Every change.
    pub const ALL: [Self; 12] = [
        Self::FoundAwake,
        Self::FoundAsleep,
        Self::FallingAsleep,
        Self::FellAsleep,
        Self::StayedAwake,
        Self::Declined,
        Self::Waking,
        Self::Woke,
        Self::WokenByOthers,
        Self::SleptByOthers,
        Self::WentAway,
        Self::Failed,
    ];

    /// The name used in logs and in the ledger.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FoundAwake => "found-awake",
            Self::FoundAsleep => "found-asleep",
            Self::FallingAsleep => "falling-asleep",
            Self::FellAsleep => "fell-asleep",
            Self::StayedAwake => "stayed-awake",
            Self::Declined => "declined",
            Self::Waking => "waking",
            Self::Woke => "woke",
            Self::WokenByOthers => "woken-by-others",
            Self::SleptByOthers => "slept-by-others",
            Self::WentAway => "went-away",
            Self::Failed => "failed",
        }
    }
}
