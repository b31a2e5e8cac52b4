//! A server put to sleep and woken, and how long that takes: until it falls silent and until it answers,
//! by ICMP, by TCP and by its probe.
//!
//! What the way of the commands costs (an SSH login takes longer than some machines take to suspend) is
//! measured by giving none, and subtracted. All times are seen from outside, every 50 ms.

use std::net::SocketAddr;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use nightwatt_power::probe::Probe;
use nightwatt_power::{Controller, Observed, Subject};
use serde::Serialize;
use tokio::net::TcpStream;

use super::ping::Ping;
use crate::Error;

/// Pause between two questions.
const EVERY: Duration = Duration::from_millis(50);

/// Timeout of an answer: in a network that servers sleep in, it arrives sooner.
const ANSWER: Duration = Duration::from_millis(250);

/// After this many questions in a row without an answer the machine counts as silent.
const SILENT: u32 = 5;

/// Number of measurements of what the command channel itself costs.
const WAYS: usize = 3;

/// What is tried.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How often.
    pub cycles: u32,
    /// How long it sleeps each time.
    pub rest: Duration,
    /// No sleep and no wake-up takes longer.
    pub timeout: Duration,
    /// Where it is asked by TCP.
    pub port: SocketAddr,
    /// It is asked by ICMP too: not where the kernel that would answer is one that stays awake.
    pub by_icmp: bool,
    /// It is woken by the same way as it is put to sleep, whose cost is subtracted then too.
    pub one_way: bool,
}

/// Seconds by each way of asking; nothing where that cannot be used here.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Times {
    /// By ICMP echo: the machine.
    pub icmp_s: Option<f64>,
    /// By a TCP connection: the kernel's answer for a program that listens.
    pub tcp_s: Option<f64>,
    /// By the site's probe: the program.
    pub probe_s: Option<f64>,
}

/// One sleep and one wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cycle {
    /// What the way of the commands costs; subtracted from `to_sleep`, and from `to_wake` if it is woken by
    /// the same way.
    pub way_s: f64,
    /// From the sleep command to silence.
    pub to_sleep: Times,
    /// From the wake command to the first answer.
    pub to_wake: Times,
}

/// What is being done, for those who watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is put to sleep.
    Sleeping,
    /// It sleeps.
    Resting,
    /// It is woken.
    Waking,
}

/// Puts it to sleep and wakes it, as planned; first wakes it if its controller knows that it is down (cycle 0).
/// Wakes it in any case, unless interrupted.
pub async fn run(
    controller: &dyn Controller,
    probe: &Probe,
    plan: &Plan,
    clock: &Clock,
    mut on_progress: impl FnMut(u32, Step),
) -> Result<Vec<Cycle>, Error> {
    let mut cycles = Vec::new();
    begin(controller, probe, plan, clock, &mut on_progress).await?;
    for number in 1..=plan.cycles {
        let way = way(controller, clock).await?;
        on_progress(number, Step::Sleeping);
        let slept =
            Watch::begin(plan, clock, way, Wanted::Silence).run(controller.sleep(), None).await;
        let to_sleep = match slept {
            Ok(times) if times.tcp_s.is_some() => times,
            // It may be on its way all the same.
            failed => {
                let _ = controller.wake().await;
                failed?;
                return Err(driven(
                    "the server did not stop answering in time; a wake-up was sent",
                ));
            }
        };
        on_progress(number, Step::Resting);
        clock.sleep(plan.rest).await;
        on_progress(number, Step::Waking);
        let way_back = if plan.one_way { way } else { Duration::ZERO };
        let woken = Watch::begin(plan, clock, way_back, Wanted::Answer)
            .run(controller.wake(), Some(Probed { probe, controller }))
            .await?;
        if woken.probe_s.is_none() {
            return Err(driven("the server does not wake: wake it by hand"));
        }
        cycles.push(Cycle { way_s: way.as_secs_f64(), to_sleep, to_wake: woken });
    }
    Ok(cycles)
}

const fn driven(what: &'static str) -> Error {
    Error::Driven { what, cause: String::new() }
}

/// Makes sure that the server is awake, and that it is the controller's.
async fn begin(
    controller: &dyn Controller,
    probe: &Probe,
    plan: &Plan,
    clock: &Clock,
    on_progress: &mut impl FnMut(u32, Step),
) -> Result<(), Error> {
    let is_up = probe.attempt(controller).await.up;
    let state = controller.state().await;
    if is_up && matches!(state, Ok(Observed::Down)) && controller.subject() > Subject::Machine {
        return Err(driven(
            "something that nightwatt did not start answers for this server: stop it first (`ss -ltnp` shows what \
             it is)",
        ));
    }
    if is_up {
        return Ok(());
    }
    match state? {
        Observed::Down | Observed::Frozen => {}
        Observed::Up | Observed::Unknown => {
            return Err(driven(
                "the server does not answer its probe, and its controller does not know that it sleeps: wake it \
                 by hand",
            ));
        }
    }
    on_progress(0, Step::Waking);
    let woken = Watch::begin(plan, clock, Duration::ZERO, Wanted::Answer)
        .run(controller.wake(), Some(Probed { probe, controller }))
        .await?;
    controller.still_starts().await?;
    match woken.probe_s {
        Some(_) => Ok(()),
        None => Err(driven("the server does not wake: wake it by hand")),
    }
}

/// The median time of a command of the controller that does nothing.
async fn way(controller: &dyn Controller, clock: &Clock) -> Result<Duration, Error> {
    let mut times = [Duration::ZERO; WAYS];
    for time in &mut times {
        let began = clock.now().mono;
        controller.nothing().await?;
        *time = clock.now().mono.since(began);
    }
    times.sort_unstable();
    Ok(times[WAYS / 2])
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Silence,
    Answer,
}

/// What finds out whether the server answers.
#[derive(Clone, Copy)]
struct Probed<'a> {
    probe: &'a Probe,
    controller: &'a dyn Controller,
}

/// Watches a server from a command on.
struct Watch<'a> {
    plan: &'a Plan,
    clock: &'a Clock,
    began: Mono,
    way: Duration,
    wanted: Wanted,
}

impl<'a> Watch<'a> {
    fn begin(plan: &'a Plan, clock: &'a Clock, way: Duration, wanted: Wanted) -> Self {
        Self { plan, clock, began: clock.now().mono, way, wanted }
    }

    async fn run(
        &self,
        command: impl Future<Output = Result<(), nightwatt_power::Error>>,
        probed: Option<Probed<'_>>,
    ) -> Result<Times, Error> {
        let icmp = async {
            let address = self.plan.by_icmp.then(|| self.plan.port.ip())?;
            let mut ping = Ping::new(address).ok()?;
            self.until(async || ping.answers(self.clock, ANSWER).await).await
        };
        let tcp = self.until(async || {
            let connected = TcpStream::connect(self.plan.port);
            matches!(self.clock.timeout(ANSWER, connected).await, Ok(Ok(_)))
        });
        let probed = async {
            let Probed { probe, controller } = probed?;
            self.until(async || {
                // Whether that failed is seen by whether it answers.
                let _ = controller.remind().await;
                probe.attempt(controller).await.up
            })
            .await
        };
        // A command that fails ends the watch.
        let icmp = async { Ok(icmp.await) };
        let tcp = async { Ok(tcp.await) };
        let probed = async { Ok(probed.await) };
        let ((), icmp_s, tcp_s, probe_s) = tokio::try_join!(command, icmp, tcp, probed)?;
        Ok(Times { icmp_s, tcp_s, probe_s })
    }

    /// Seconds until it is as wanted; nothing if it takes too long.
    async fn until(&self, mut is_up: impl AsyncFnMut() -> bool) -> Option<f64> {
        let mut silent_since = None;
        let mut silent = 0;
        loop {
            let asked = self.clock.now().mono;
            if asked.since(self.began) > self.plan.timeout {
                return None;
            }
            let up = is_up().await;
            match self.wanted {
                Wanted::Answer if up => return Some(self.seconds(self.clock.now().mono)),
                Wanted::Silence if up => (silent_since, silent) = (None, 0),
                Wanted::Silence => {
                    silent += 1;
                    let since = *silent_since.get_or_insert(asked);
                    if silent == SILENT {
                        return Some(self.seconds(since));
                    }
                }
                Wanted::Answer => {}
            }
            self.clock.sleep_until(asked + EVERY).await;
        }
    }

    fn seconds(&self, then: Mono) -> f64 {
        then.since(self.began).saturating_sub(self.way).as_secs_f64()
    }
}

#[cfg(test)]
mod tests;
