//! What was to come, known beforehand: the schedule of an oracle.

use std::time::Duration;

use nightwatt_energy::time::Nanos;
use nightwatt_policy::fleet::{FleetChoice, FleetError, FleetSettings, Levels, Pool, Schedule};

use super::{Run, ServiceTimes, Window};

/// The cheapest [`Schedule`] for these very requests, of a pool of like servers of which `always_on` are
/// to stay on: see [`Levels`]. What is needed when is found by playing the requests before servers that
/// are switched at once and whenever they are idle.
///
/// It is the cheapest of all where a server has one place. Where it has several, which servers are busy
/// depends on which are on, and another schedule may come out a little below it.
///
/// Memory holds a step for each time that the schedule switches.
pub fn oracle(
    settings: &FleetSettings,
    always_on: u32,
    arrivals: impl IntoIterator<Item = impl Into<Nanos>>,
    service: ServiceTimes,
    window: Window,
) -> Result<Schedule, FleetError> {
    let [kind] = settings.kinds[..] else { return Err(FleetError::Unlike(settings.kinds.len())) };
    let mut at_once = FleetSettings { min_on: Duration::ZERO, ..settings.clone() };
    at_once.kinds[0].switch_on = Duration::ZERO;
    let pool = Pool::new(at_once, FleetChoice::AlwaysOn { servers: 0 }, Nanos::ZERO)?;
    let cycle = kind.switch + settings.transition_price * 2.0;
    let saved = kind.idle - kind.off;
    let (switch_on, min_on) = (kind.switch_on, settings.min_on);
    let mut levels = Levels::new(kind.servers, always_on, saved, cycle, switch_on, min_on);
    let mut run = Run::new(pool, service);
    let requests = window.warm_up.saturating_add(window.counted).saturating_add(window.cool_down);
    let arrivals = arrivals.into_iter().map(Into::into).take_while(|at| *at != Nanos::NEVER);
    for at in arrivals.take(usize::try_from(requests).unwrap_or(usize::MAX)) {
        run.note_until(at, &mut levels);
        run.arrive(at);
        levels.busy(at.into(), run.pool.busy());
    }
    // Nothing more comes, so only answers are left.
    run.note_until(Nanos(Nanos::NEVER.0 - 1), &mut levels);
    Ok(levels.schedule())
}

impl Run {
    /// Lets everything happen up to `end`, and notes how many servers are busy meanwhile.
    fn note_until(&mut self, end: Nanos, levels: &mut Levels) {
        loop {
            let next = self.agenda.due().min(self.timer);
            if next > end {
                return;
            }
            self.until(next);
            levels.busy(next.into(), self.pool.busy());
        }
    }
}
