//! Why a request may not go to its server, and the answer for its client.

use std::fmt;
use std::time::Duration;

use http::{Response, StatusCode};
use nightwatt_policy::admission::{Budget, Route, Want};

use crate::access_log::Answered;
use crate::answers;
use crate::body::Answer;
use crate::site::Site;
use crate::supervisor::Supervisor;

/// Why it is refused; with the time after which to retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    WaitingPage(Duration),
    Crawler(Duration),
    Scanner(Duration),
    /// An icon that no visitor waits for.
    Icon(Duration),
    /// A health check or a monitor: only the admin address answers those with 200.
    Monitor,
    Budget {
        budget: Budget,
        wait: Duration,
    },
    Limited(Duration),
    Unavailable(Duration),
    Timeout,
    /// The site has several servers.
    Pool,
    NoSite,
    /// The gate did not refuse it.
    Unknown,
}

impl Refusal {
    /// The refusal for a request that the manager does not let through.
    pub(super) fn of(route: Route, supervisor: &Supervisor, want: Want) -> Self {
        match route {
            Route::WaitingPage => Self::WaitingPage(supervisor.expected_wake_time()),
            Route::Later(after) => Self::Crawler(after),
            Route::State if want == Want::Icon => Self::Icon(supervisor.expected_wake_time()),
            Route::State => Self::Monitor,
            Route::OverBudget { budget, wait } => Self::Budget { budget, wait },
            Route::Unavailable(after) => Self::Unavailable(after),
            // The gate has no cache, and the others are not refused.
            Route::Cache | Route::Stale | Route::Forward | Route::Hold | Route::Refuse => {
                Self::Unavailable(Duration::from_secs(1))
            }
        }
    }

    const fn name(self) -> (&'static str, Option<Duration>) {
        match self {
            Self::WaitingPage(after) => ("waiting-page", Some(after)),
            Self::Crawler(after) => ("crawler", Some(after)),
            Self::Scanner(after) => ("scanner", Some(after)),
            Self::Icon(after) => ("icon", Some(after)),
            Self::Monitor => ("monitor", None),
            Self::Budget { budget, wait } => (budget.as_str(), Some(wait)),
            Self::Limited(after) => ("limited", Some(after)),
            Self::Unavailable(after) => ("unavailable", Some(after)),
            Self::Timeout => ("timeout", None),
            Self::Pool => ("pool", None),
            Self::NoSite => ("no-site", None),
            Self::Unknown => ("unknown", None),
        }
    }

    /// Parses the output of [`Display`](fmt::Display).
    pub(super) fn read(text: &str) -> Self {
        let (name, after) = text.split_once(' ').unwrap_or((text, "1"));
        let after = Duration::from_secs(after.parse().unwrap_or(1));
        match name {
            "waiting-page" => Self::WaitingPage(after),
            "crawler" => Self::Crawler(after),
            "scanner" => Self::Scanner(after),
            "icon" => Self::Icon(after),
            "monitor" => Self::Monitor,
            "limited" => Self::Limited(after),
            "unavailable" => Self::Unavailable(after),
            "timeout" => Self::Timeout,
            "pool" => Self::Pool,
            "no-site" => Self::NoSite,
            _ => Budget::ALL
                .into_iter()
                .find(|budget| budget.as_str() == name)
                .map_or(Self::Unknown, |budget| Self::Budget { budget, wait: after }),
        }
    }

    /// For the request log.
    pub(super) const fn answered(self) -> Answered {
        match self {
            Self::WaitingPage(_) => Answered::WaitingPage,
            Self::Crawler(_) => Answered::Crawler,
            Self::Scanner(_) => Answered::Scanner,
            Self::Icon(_) | Self::Monitor => Answered::Monitor,
            Self::Budget { .. } => Answered::Budget,
            Self::Limited(_) => Answered::Limited,
            Self::Unavailable(_) => Answered::Unavailable,
            Self::Timeout => Answered::Timeout,
            Self::Pool | Self::NoSite | Self::Unknown => Answered::Refused,
        }
    }

    /// The client's answer. Never a 2xx: for a proxy that asks by `/ask`, that is permission.
    pub(super) fn answer(self, site: &Site, observe: bool) -> Response<Answer> {
        const LATER: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
        match self {
            Self::WaitingPage(expected) => site.waiting_page.answer(expected),
            Self::Crawler(after) => answers::later(LATER, after, answers::COME_BACK),
            Self::Scanner(after) => answers::later(LATER, after, answers::REFUSED),
            Self::Icon(after) => {
                let after = after.max(Duration::from_secs(1));
                answers::later(LATER, after, "No icon while the server sleeps.")
            }
            Self::Monitor => {
                let health = site.health(observe);
                let after = health.retry_after().unwrap_or(site.supervisor.expected_wake_time());
                answers::later(LATER, after.max(Duration::from_secs(1)), &health.text)
            }
            Self::Budget { budget, wait } => {
                answers::later(LATER, wait, answers::over_budget(budget))
            }
            Self::Limited(after) => {
                answers::later(StatusCode::TOO_MANY_REQUESTS, after, answers::LIMITED)
            }
            Self::Unavailable(after) => {
                answers::later(LATER, after.max(Duration::from_secs(1)), answers::UNAVAILABLE)
            }
            Self::Timeout => answers::sentence(StatusCode::GATEWAY_TIMEOUT, answers::TOO_LATE),
            Self::Pool => {
                let text = "This site has several servers: which of them a request is for, only nightwatt \
                            itself knows. Let its requests go through its `listen` address.";
                answers::sentence(StatusCode::NOT_IMPLEMENTED, text)
            }
            Self::NoSite => {
                answers::sentence(StatusCode::MISDIRECTED_REQUEST, super::question::NO_SITE)
            }
            Self::Unknown => answers::sentence(StatusCode::FORBIDDEN, "Not allowed."),
        }
    }
}

/// The value of a header field: its name, and seconds.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            (name, Some(after)) => write!(f, "{name} {}", answers::seconds(after)),
            (name, None) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_in_whole_seconds() {
        let after = Duration::from_secs(90);
        for refusal in [
            Refusal::WaitingPage(after),
            Refusal::Crawler(after),
            Refusal::Scanner(after),
            Refusal::Icon(after),
            Refusal::Monitor,
            Refusal::Budget { budget: Budget::AwakeTime, wait: after },
            Refusal::Budget { budget: Budget::Client, wait: after },
            Refusal::Limited(after),
            Refusal::Unavailable(after),
            Refusal::Timeout,
            Refusal::Pool,
            Refusal::NoSite,
            Refusal::Unknown,
        ] {
            assert_eq!(Refusal::read(&refusal.to_string()), refusal);
        }
        let wait = Duration::from_millis(1);
        let refusal = Refusal::Budget { budget: Budget::Network, wait };
        assert_eq!(refusal.to_string(), "wakes-per-network 1");
    }

    #[test]
    fn what_is_no_refusal_of_ours_is_one_of_somebody_else() {
        for text in ["", "waiting", "WAITING-PAGE 5", " ", "5"] {
            assert_eq!(Refusal::read(text), Refusal::Unknown, "{text:?}");
        }
        let second = Duration::from_secs(1);
        assert_eq!(Refusal::read("crawler -7"), Refusal::Crawler(second));
    }
}
