//! Why a client has its class.

use nightwatt_policy::admission::ClientClass;

/// The rule that decides the class of a request's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// A path of health checks (`monitor_paths`).
    HealthCheck,
    /// An agent that the operator names in `api_agents`.
    ApiAgents,
    /// A path that the operator names in `webhook_paths`.
    WebhookPaths,
    /// A certificate authority looks for the proof that the server asked for, by ACME or another way.
    AcmeChallenge,
    /// A hub asks whether it was meant to send what is new.
    WebSub,
    /// An agent that the operator names in `monitor_agents`.
    MonitorAgents,
    /// The operator names its network in `access.monitors`.
    MonitorNetworks,
    /// A monitor by the table.
    MonitorTable,
    /// A crawler by the table, or by `crawler_agents`.
    CrawlerTable,
    /// `WordPress` calls its own timer.
    WordPressCron,
    /// It missed too much of what it asked for.
    Misses,
    /// It asks for what only scanners ask for.
    ScannerPath,
    /// It tries one password after the other.
    LogInGuessing,
    /// It read `robots.txt`.
    RobotsTxt,
    /// A sender of webhooks by the table.
    WebhookTable,
    /// A server of the fediverse or of Matrix by the table.
    FederationTable,
    /// A program that builds, syncs or backs up, by the table.
    ClientTable,
    /// A library by the table.
    LibraryTable,
    /// A browser, or an agent that opens pages.
    Browser,
    /// No rule holds: a program that is not known.
    Other,
}

impl Rule {
    /// The class that it gives.
    pub const fn class(self) -> ClientClass {
        match self {
            Self::HealthCheck
            | Self::MonitorAgents
            | Self::MonitorNetworks
            | Self::MonitorTable => ClientClass::Monitor,
            Self::CrawlerTable | Self::WordPressCron | Self::RobotsTxt => ClientClass::Crawler,
            Self::Misses | Self::ScannerPath | Self::LogInGuessing => ClientClass::Scanner,
            Self::Browser => ClientClass::Human,
            Self::ApiAgents
            | Self::WebhookPaths
            | Self::AcmeChallenge
            | Self::WebSub
            | Self::WebhookTable
            | Self::FederationTable
            | Self::ClientTable
            | Self::LibraryTable
            | Self::Other => ClientClass::Api,
        }
    }

    /// Whether it holds because of what the client did before, and ends by itself.
    pub const fn is_remembered(self) -> bool {
        matches!(self, Self::Misses | Self::LogInGuessing | Self::RobotsTxt)
    }

    /// Whether any client can fall under it: such clients share a wake budget until the server has answered
    /// them with success.
    pub(crate) const fn is_for_anybody(self) -> bool {
        matches!(
            self,
            Self::AcmeChallenge
                | Self::WebSub
                | Self::ClientTable
                | Self::LibraryTable
                | Self::Other
        )
    }

    /// The name in the access log and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::HealthCheck => "health-check",
            Self::ApiAgents => "api-agents",
            Self::WebhookPaths => "webhook-paths",
            Self::AcmeChallenge => "acme-challenge",
            Self::WebSub => "web-sub",
            Self::MonitorAgents => "monitor-agents",
            Self::MonitorNetworks => "monitor-networks",
            Self::MonitorTable => "monitor-table",
            Self::CrawlerTable => "crawler-table",
            Self::WordPressCron => "wordpress-cron",
            Self::Misses => "misses",
            Self::ScannerPath => "scanner-path",
            Self::LogInGuessing => "log-in-guessing",
            Self::RobotsTxt => "robots-txt",
            Self::WebhookTable => "webhook-table",
            Self::FederationTable => "federation-table",
            Self::ClientTable => "client-table",
            Self::LibraryTable => "library-table",
            Self::Browser => "browser",
            Self::Other => "other",
        }
    }
}
