//! How late things happen on this machine. Only if that is little does a server answer 50 requests/s, as the simulator
//! has it.

use std::fmt;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;

use super::load::Outcome;
use super::server::SERVICE;

/// tokio's timers end at whole milliseconds, so on an idle machine up to that late.
const TICK: Duration = Duration::from_millis(1);

/// Means of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Late {
    /// Requests, after the time that the plan has for them.
    load: Duration,
    /// Timers in the thread of the gateway, beyond a tick.
    gateway: Duration,
    /// Answers of the servers, after the time that each takes.
    servers: Duration,
}

impl Late {
    /// Of the load, and of what [`watch`] has seen.
    pub(crate) fn of(outcomes: &[Outcome], watched: &[Duration]) -> Self {
        let answered = || {
            outcomes.iter().filter_map(|it| match it {
                Outcome::Answered(_, times) => Some(times),
                Outcome::Lost(_) => None,
            })
        };
        Self {
            load: mean(answered().map(|times| times.sent_late)),
            gateway: mean(watched.iter().map(|late| late.saturating_sub(TICK))),
            servers: mean(answered().filter_map(|times| times.served_late)),
        }
    }

    /// Whether it was so little that servers on and energy differ by less than that share: the same share of the time
    /// that an answer takes.
    pub(crate) fn is_little(self, may_differ: f64) -> bool {
        self.load <= SERVICE && self.gateway + self.servers <= SERVICE.mul_f64(may_differ)
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { load, gateway, servers } = self;
        write!(
            f,
            "late on average: requests {load:.1?}, gateway {gateway:.1?}, servers {servers:.1?}"
        )
    }
}

fn mean(times: impl Iterator<Item = Duration>) -> Duration {
    let times: Vec<Duration> = times.collect();
    let count = u32::try_from(times.len()).expect("few");
    times.iter().sum::<Duration>() / count.max(1)
}

/// How late timers of the length of an answer end in this thread, until that time.
pub(crate) async fn watch(clock: Clock, end: Mono) -> Vec<Duration> {
    let (mut late, mut due) = (Vec::new(), clock.now().mono);
    while due < end {
        due = due + SERVICE;
        clock.sleep_until(due).await;
        let now = clock.now().mono;
        late.push(now.since(due));
        due = now;
    }
    late
}
