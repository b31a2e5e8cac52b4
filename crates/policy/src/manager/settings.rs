//! What binds a manager.

use std::time::Duration;

use crate::hours::{DaysOff, Hours};
use crate::in_use::ProbeTimes;
use crate::lifecycle::ProbeTimeouts;
use crate::scenario::{CrawlWindow, Scenario};
use crate::sla::Sla;
use nightwatt_energy::zone::Zone;

/// What binds the manager, whatever its policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The SLA; `None`: sleep even if requests will have to wait.
    pub sla: Option<Sla>,
    /// Waiting longer than this counts as delayed.
    pub delay: Duration,
    /// Awake at least this long after waking.
    pub min_on: Duration,
    /// Awake at least this long after the last request to the server.
    pub quiet: Duration,
    /// How long it takes to wake, until that has been seen.
    pub wake_time: Duration,
    /// Show browsers a page that waits.
    pub waiting_page: bool,
    /// When crawlers are invited.
    pub crawl_window: CrawlWindow,
    /// Hours in which a server that is awake is not put to sleep.
    pub never_sleep: Vec<Hours>,
    /// Hours for which the server is woken, and in which it stays awake.
    pub awake: Vec<Hours>,
    /// Days without such hours.
    pub days_off: DaysOff,
    /// The time zone of both, if local time changes its distance to UTC.
    pub zone: Zone,
    /// How many wake-ups a client may cause, in a row and per that time.
    pub wake_budget: (u32, Duration),
    /// The same for all clients together that are not recognised ([`AdmissionRequest::recognised`](super::AdmissionRequest)).
    pub shared_budget: (u32, Duration),
    /// How long one client alone may keep the server awake in a day; `None`: no bound.
    pub awake_budget: Option<Duration>,
    /// How long the server stays awake after it was woken without us: its user probably wants to use it.
    pub grace: Duration,
    /// Probes that report use of the server past this proxy.
    pub in_use: Vec<ProbeTimes>,
    /// With a server that fails.
    pub timeouts: ProbeTimeouts,
}

impl Settings {
    /// The settings that a scenario describes; timeouts, wake budget and time zone as by default.
    pub fn of(scenario: &Scenario) -> Self {
        Self {
            sla: scenario.sla(),
            delay: scenario.sla.delay,
            min_on: scenario.server.min_on,
            quiet: scenario.server.quiet,
            wake_time: scenario.server.wake_time,
            waiting_page: true,
            crawl_window: scenario.crawl_window.clone(),
            never_sleep: scenario.never_sleep.clone(),
            awake: scenario.awake.clone(),
            days_off: scenario.days_off.clone(),
            zone: Zone::default(),
            wake_budget: (20, Duration::from_hours(1)),
            shared_budget: (12, Duration::from_hours(1)),
            awake_budget: None,
            grace: Duration::from_mins(5),
            in_use: Vec::new(),
            timeouts: ProbeTimeouts::default(),
        }
    }
}
