//! What the operator says of clients.

use serde::{Deserialize, Serialize};

/// What the operator may say about clients. Agents are parts of `User-Agent`, in their exact case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClassifierConfig {
    /// Programs of the operator's own: always [`ClientClass::Api`](nightwatt_policy::admission::ClientClass::Api).
    pub api_agents: Vec<String>,
    /// Crawlers beside the built-in table.
    pub crawler_agents: Vec<String>,
    /// Monitors beside the built-in table.
    pub monitor_agents: Vec<String>,
    /// Whole paths of health checks. The proxy itself answers requests for them from what it knows, whether
    /// the server is awake or not: a site that answers these by itself takes them out of here.
    pub monitor_paths: Vec<String>,
    /// Paths that webhooks are sent to, by their beginning: every client that asks for one is
    /// [`ClientClass::Api`](nightwatt_policy::admission::ClientClass::Api), whatever its agent says.
    pub webhook_paths: Vec<String>,
    /// Parts of paths that only scanners ask for, beside the usual ones.
    pub scanner_paths: Vec<String>,
    /// Paths that exist, by their beginning, though scanners ask for them everywhere. The site's
    /// answers tell as much, but only when it is awake: name the login page here.
    pub known_paths: Vec<String>,
    /// Misses in ten minutes that make a scanner.
    pub scanner_misses: u32,
    /// Share of its requests, 0 ..= 1, that a scanner must have missed in that time.
    pub scanner_share: f64,
    /// For how many seconds after its last miss a client stays a scanner.
    pub scanner_for_s: u64,
    /// Wake-ups in a row, and per hour, of all clients together that are not recognised
    /// ([`Verdict::recognised`](crate::Verdict::recognised)).
    pub unrecognised_wakes_per_hour: u32,
    /// Clients remembered; some 250 bytes each. A client is forgotten when seven eighths as many
    /// others have been seen since.
    pub clients: usize,
}

impl Default for ClassifierConfig {
    fn default() -> Self {
        Self {
            api_agents: Vec::new(),
            crawler_agents: Vec::new(),
            monitor_agents: Vec::new(),
            monitor_paths: ["/healthz", "/livez", "/readyz"].map(str::to_owned).to_vec(),
            webhook_paths: Vec::new(),
            scanner_paths: Vec::new(),
            known_paths: Vec::new(),
            scanner_misses: 8,
            scanner_share: 0.7,
            scanner_for_s: 86_400,
            unrecognised_wakes_per_hour: 12,
            // A table of 32,768 buckets holds 28,672. While it has half of that at most, it never doubles.
            clients: 14_336,
        }
    }
}

impl ClassifierConfig {
    /// Is this a path of health checks?
    pub fn is_health_check(&self, path: &str) -> bool {
        self.monitor_paths.iter().any(|monitored| path == monitored)
    }

    /// Are webhooks sent to this path?
    pub(crate) fn is_webhook(&self, path: &str) -> bool {
        // An empty entry is the beginning of every path: it comes from a list that was left half filled in.
        self.webhook_paths.iter().any(|begin| !begin.is_empty() && path.starts_with(&**begin))
    }
}
