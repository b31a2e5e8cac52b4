//! Who or what caused a wake-up, as journals and counters name it.

use serde::{Deserialize, Serialize};

/// Who or what caused a wake-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "by")]
pub enum WakeCause {
    /// A request.
    Request {
        /// Its id, as in the access log.
        id: String,
        /// The client's address.
        client: String,
        /// Its class then.
        class: String,
        /// Its user agent.
        agent: Option<String>,
        /// `GET /path`.
        line: String,
    },
    /// Crawlers had been promised that time.
    CrawlWindow,
    /// The policy expected a request.
    Policy,
    /// Copies of its site had to be looked at again.
    Refresh,
    /// The operator.
    Operator,
    /// The pool that it belongs to needed it.
    Pool,
    /// A server on this machine was to be woken.
    Guest {
        /// Its name.
        name: String,
    },
}

impl WakeCause {
    /// Every word that [`WakeCause::as_str`] gives.
    pub const NAMES: [&str; 7] =
        ["request", "crawl-window", "policy", "refresh", "operator", "pool", "guest"];

    /// What it is, in a word.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Request { .. } => "request",
            Self::CrawlWindow => "crawl-window",
            Self::Policy => "policy",
            Self::Refresh => "refresh",
            Self::Operator => "operator",
            Self::Pool => "pool",
            Self::Guest { .. } => "guest",
        }
    }
}
