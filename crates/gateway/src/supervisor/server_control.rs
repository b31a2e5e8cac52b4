//! The driver's controls and senses: carries out commands, and listens for signs of the server.

use std::sync::Arc;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use nightwatt_policy::lifecycle::{Command, Phase, Report, Slept};
use nightwatt_power::neighbour::Neighbour;
use nightwatt_power::probe::Probe;
use nightwatt_power::{Controller, Error, Heard, Observed};

use super::Supervisor;

/// Minimum time between probes of a sleeping server that shows activity: some network cards send while asleep.
const BETWEEN_LOOKS: Duration = Duration::from_secs(10);

/// The same while it is expected to wake.
const BETWEEN_EAGER_LOOKS: Duration = Duration::from_millis(200);

/// The means to control a server.
pub(crate) struct ServerControl {
    /// Wakes it and puts it to sleep.
    pub(crate) controller: Box<dyn Controller>,
    /// Checks whether it answers.
    pub(crate) probe: Probe,
    /// The server on the local network, if it is a separate machine.
    pub(crate) neighbour: Option<Neighbour>,
}

impl ServerControl {
    /// Whether it is certain that the server does not even start.
    async fn is_gone(&self) -> bool {
        self.controller.down_is_final()
            && matches!(self.controller.state().await, Ok(Observed::Down))
    }

    /// Carries out a command.
    pub(super) async fn carry_out(&self, command: Command, supervisor: &Supervisor) -> Report {
        match command {
            Command::Wake(epoch) => {
                let done = self.controller.wake().await;
                Report::WakeDone(epoch, log_failure(&supervisor.name, "wake", &done))
            }
            Command::Sleep(epoch) => {
                if let Some(neighbour) = &self.neighbour {
                    neighbour.leave_in_peace().await;
                }
                let done = self.controller.sleep().await;
                let slept = match supervisor.judge_sleep(&done) {
                    Slept::Done if self.controller.says_good_bye() => Slept::Going,
                    slept => slept,
                };
                Report::SleepDone(epoch, slept)
            }
            Command::Probe(epoch) => match supervisor.phase_now() {
                Phase::Waking => self.probe_the_waking(epoch, supervisor).await,
                Phase::FallingAsleep | Phase::Asleep if self.sleeps_for_sure().await => {
                    Report::Probed(epoch, false)
                }
                _ => Report::Probed(epoch, self.probe(supervisor).await),
            },
        }
    }

    /// Whether another source knows that it sleeps. Then it need not be disturbed.
    async fn sleeps_for_sure(&self) -> bool {
        self.controller.asks_others() && matches!(self.controller.state().await, Ok(Observed::Down))
    }

    async fn probe_the_waking(&self, epoch: u64, supervisor: &Supervisor) -> Report {
        log_failure(&supervisor.name, "wake", &self.controller.remind().await);
        let up = self.probe(supervisor).await;
        if !up && supervisor.phase_now() == Phase::Waking && self.is_gone().await {
            // It was started and has ended: waiting will not make it answer.
            return Report::WakeDone(epoch, false);
        }
        Report::Probed(epoch, up)
    }

    async fn probe(&self, supervisor: &Supervisor) -> bool {
        let verdict = self.probe.attempt(&*self.controller).await;
        tracing::trace!(site = %supervisor.name, up = verdict.up, reason = %verdict.reason, "probed");
        verdict.up
    }

    /// Passes on signs of the server, forever.
    pub(super) async fn listen(self: Arc<Self>, supervisor: Arc<Supervisor>) {
        let mut phase = supervisor.phase();
        let mut looked = Mono::ZERO;
        loop {
            let now = *phase.borrow_and_update();
            let report = tokio::select! {
                heard = self.controller.heard() => match heard {
                    Heard::Leaving => Report::Leaving,
                    Heard::Back => Report::Back,
                    Heard::StayedAwake => Report::Stayed,
                },
                () = self.stirs(now, looked, &supervisor.clock) => {
                    looked = supervisor.clock.now().mono;
                    Report::Stirred
                }
                changed = phase.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let changed_to = *phase.borrow();
                    self.settle(changed_to).await;
                    continue;
                }
            };
            tracing::debug!(site = %supervisor.name, ?report, "heard of the server");
            supervisor.report(report);
        }
    }

    /// Returns when a server that does not answer shows activity, but not too soon after it was probed.
    async fn stirs(&self, phase: Phase, looked: Mono, clock: &Clock) {
        let (Some(neighbour), Phase::Asleep | Phase::Failed | Phase::Waking) =
            (&self.neighbour, phase)
        else {
            return std::future::pending().await;
        };
        let pause = if phase == Phase::Waking { BETWEEN_EAGER_LOOKS } else { BETWEEN_LOOKS };
        if looked > Mono::ZERO {
            clock.sleep_until(looked + pause).await;
        }
        neighbour.stirred().await;
    }

    /// Treats a server that is awake, or should be, as an ordinary neighbour: it may wake with another network card. A
    /// sleeping server is not disturbed, however it was put to sleep.
    async fn settle(&self, phase: Phase) {
        match (&self.neighbour, phase) {
            (Some(neighbour), Phase::Awake | Phase::Waking | Phase::Failed) => {
                neighbour.release().await;
            }
            (Some(neighbour), Phase::Asleep) => neighbour.leave_in_peace().await,
            _ => {}
        }
    }
}

impl Supervisor {
    /// Judges how a sleep command ended; reasons to stay awake are remembered, and logged when they change.
    fn judge_sleep(&self, done: &Result<(), Error>) -> Slept {
        let Err(Error::Inhibited { reasons }) = done else {
            self.lock().inhibited_by = None;
            return if log_failure(&self.name, "sleep", done) {
                Slept::Done
            } else {
                Slept::Failed
            };
        };
        let last = self.lock().inhibited_by.replace(reasons.clone());
        if last.as_ref() != Some(reasons) {
            tracing::info!(site = %self.name, reasons, "the server has reasons to stay awake");
        }
        Slept::Declined
    }
}

fn log_failure(site: &str, what: &str, done: &Result<(), Error>) -> bool {
    if let Err(error) = done {
        tracing::warn!(site, what, %error, hint = error.hint(), "the controller failed");
    }
    done.is_ok()
}
