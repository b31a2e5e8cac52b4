//! The cause of a wake-up, as journals and counters name it.

use serde::{Deserialize, Serialize};

/// The cause of a wake-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "by")]
pub enum WakeCause {
    /// A request.
    Request {
        /// Its id, as in the access log.
        id: String,
        /// The client's address.
        client: String,
        /// Its class at that time.
        class: String,
        /// Its user agent.
        agent: Option<String>,
        /// `GET /path`.
        line: String,
    },
    /// A time window that crawlers had been promised.
    CrawlWindow,
    /// Hours in which it is to be awake began.
    AwakeHours,
    /// The policy expected a request.
    Policy,
    /// Stored answers of its site had to be renewed.
    Refresh,
    /// A job needed it.
    Job,
    /// A magic packet that was heard in the local network.
    MagicPacket,
    /// The operator.
    Operator,
    /// The pool that it belongs to needed it.
    Pool,
    /// A server on this machine had to be woken.
    Guest {
        /// Its name.
        name: String,
    },
}

impl WakeCause {
    /// All values of [`WakeCause::as_str`].
    pub const NAMES: [&str; 10] = [
        "request",
        "crawl-window",
        "awake-hours",
        "policy",
        "refresh",
        "job",
        "magic-packet",
        "operator",
        "pool",
        "guest",
    ];

    /// The cause in one word.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Request { .. } => "request",
            Self::CrawlWindow => "crawl-window",
            Self::AwakeHours => "awake-hours",
            Self::Policy => "policy",
            Self::Refresh => "refresh",
            Self::Job => "job",
            Self::MagicPacket => "magic-packet",
            Self::Operator => "operator",
            Self::Pool => "pool",
            Self::Guest { .. } => "guest",
        }
    }
}
