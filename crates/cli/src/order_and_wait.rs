//! Gives an order to a running gateway, and waits until its server is in the state that the order is for.

use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_gateway::control::Order;
use nightwatt_gateway::status::Status;
use nightwatt_policy::lifecycle::Phase;
use serde_json::json;

use crate::ExitStatus;
use crate::args::{SiteArgs, WaitArgs};
use crate::control;
use crate::errors::Failure;
use crate::figures;
use crate::output;

/// Time between two looks at the state.
const EVERY: Duration = Duration::from_millis(250);

/// What a server does at one look.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Look {
    name: String,
    state: String,
    /// What keeps it awake.
    reason: Option<String>,
}

impl Look {
    /// At the server of this name, or of the only site.
    fn at(status: &Status, name: Option<&str>) -> Option<Self> {
        let name = name.or_else(|| status.sites.first().map(|it| it.name.as_str()))?;
        let site = status.sites.iter().find(|it| it.name == name);
        let machine = status.machines.iter().find(|it| it.name == name);
        let reason = site.map(|it| &it.kept_awake_by).or(machine.map(|it| &it.kept_awake_by));
        let state = status.state_of(name)?.to_owned();
        Some(Self { name: name.to_owned(), state, reason: reason.cloned().flatten() })
    }

    fn is(&self, phase: Phase) -> bool {
        self.state == phase.as_str()
    }

    /// `blog: awake, kept awake by 1 request under way`.
    fn words(&self) -> String {
        match &self.reason {
            Some(reason) if self.is(Phase::Awake) => {
                format!("{}: awake, kept awake by {reason}", self.name)
            }
            _ => format!("{}: {}", self.name, self.state),
        }
    }
}

/// Gives the order, and reports that the gateway accepted it: `done`, unless the server is in that state already.
pub(crate) fn only_order(
    site: &SiteArgs,
    order: &Order,
    wanted: Phase,
    done: &str,
) -> Result<ExitStatus, Failure> {
    let before = control::status(&site.gateway)?;
    let look = Look::at(&before, site.site.as_deref()).filter(|it| it.is(wanted));
    let already = look.map(|it| format!("{} is {} already", it.name, it.state));
    control::command(&site.gateway, order, already.as_deref().unwrap_or(done))
}

/// Gives the order, and waits until the server is in this state.
pub(crate) fn order_and_wait(
    site: &SiteArgs,
    order: &Order,
    wanted: Phase,
    wait: &WaitArgs,
) -> Result<ExitStatus, Failure> {
    let before = control::status(&site.gateway)?;
    let was_there = Look::at(&before, site.site.as_deref()).is_some_and(|it| it.is(wanted));
    control::order(&site.gateway, order)?;
    let clock = Clock::real();
    let runtime = clock.runtime().map_err(|error| Failure::because("cannot start", &error))?;
    let began = clock.now().mono;
    let mut shown = String::new();
    loop {
        let status = control::status(&site.gateway)?;
        let look = Look::at(&status, site.site.as_deref());
        let look = look.ok_or_else(|| Failure::new("the gateway has no such server any more"))?;
        let elapsed = clock.now().mono.since(began);
        if look.is(wanted) {
            let (name, time) = (&look.name, figures::time(elapsed));
            let done = json!({
                "done": true, "order": order, "state": look.state, "waited_s": elapsed.as_secs_f64()
            });
            let words = || {
                if was_there && shown.is_empty() {
                    format!("{name} is {} already", look.state)
                } else {
                    format!("{name} is {} after {time}", look.state)
                }
            };
            output::print_result(&done, site.gateway.json, words, &[])?;
            return Ok(ExitStatus::Success);
        }
        if wanted == Phase::Awake && look.is(Phase::Failed) {
            return Err(Failure::new(format!("{} does not wake", look.name)).hint(
                "the log of `nightwatt serve` has the reason; `nightwatt doctor` looks for it",
            ));
        }
        if elapsed > wait.timeout {
            let limit = figures::time(wait.timeout);
            return Err(Failure::new(format!(
                "not {} after {limit}: {}",
                wanted.as_str(),
                look.words()
            ))
            .hint("`--timeout` sets how long to wait; `nightwatt status` shows what it is doing"));
        }
        let words = look.words();
        // The time that is left changes each second.
        let what = words.split(" for another ").next().unwrap_or_default();
        if what != shown && !site.gateway.json {
            output::complain(&words);
            what.clone_into(&mut shown);
        }
        runtime.block_on(clock.sleep(EVERY));
    }
}
