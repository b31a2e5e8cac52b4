//! The driver's controls and senses: carries out commands, and listens for signs of the server.

use std::sync::Arc;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use nightwatt_policy::lifecycle::{Command, Phase, Report, Slept};
use nightwatt_power::neighbour::Neighbour;
use nightwatt_power::probe::{Probe, Verdict};
use nightwatt_power::{Controller, Error, Heard, Observed, Subject};

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
    /// Carries out a command.
    pub(super) async fn carry_out(&self, command: Command, supervisor: &Supervisor) -> Report {
        match command {
            // A child could not have the port that another listens on: it would end at once.
            Command::Wake(epoch)
                if self.controller.subject() == Subject::Child
                    && self.meets_stranger(supervisor).await =>
            {
                Report::Probed(epoch, true)
            }
            Command::Sleep(epoch) if self.meets_stranger(supervisor).await => {
                Report::SleepDone(epoch, Slept::Declined)
            }
            Command::Wake(epoch) => {
                let done = self.controller.wake().await;
                Report::WakeDone(epoch, supervisor.judge_wake(&done))
            }
            Command::Sleep(epoch) => {
                if let Some(neighbour) = &self.neighbour {
                    neighbour.leave_in_peace().await;
                }
                let done = self.controller.sleep().await;
                let slept = match supervisor.judge_sleep(&done) {
                    Slept::Done if self.controller.announces_sleep() => Slept::Going,
                    slept => slept,
                };
                Report::SleepDone(epoch, slept)
            }
            Command::Probe(epoch) => match supervisor.phase_now() {
                Phase::Waking => self.probe_the_waking(epoch, supervisor).await,
                Phase::FallingAsleep | Phase::Asleep if self.sleeps_for_sure().await => {
                    Report::Probed(epoch, false)
                }
                phase => {
                    let verdict = self.probe(supervisor).await;
                    let is_worth_a_look =
                        phase != Phase::Awake || self.controller.subject() == Subject::Child;
                    let is_stranger =
                        is_worth_a_look && self.has_stranger(&verdict, supervisor).await;
                    match phase {
                        Phase::FallingAsleep if is_stranger => {
                            Report::SleepDone(epoch, Slept::Declined)
                        }
                        _ => Report::Probed(epoch, verdict.up),
                    }
                }
            },
        }
    }

    /// Whether another source knows that it sleeps, and a probe would disturb it or show nothing.
    async fn sleeps_for_sure(&self) -> bool {
        if !self.controller.asks_others() {
            return false;
        }
        match self.controller.state().await {
            Ok(Observed::Frozen) => true,
            Ok(Observed::Down) => self.controller.subject() < Subject::Program,
            _ => false,
        }
    }

    /// Whether the controller knows that its own server does not run, so that what answers a probe is another.
    async fn has_no_server(&self) -> bool {
        !self.probe.asks_the_controller()
            && self.controller.subject() > Subject::Machine
            && matches!(self.controller.state().await, Ok(Observed::Down))
    }

    /// Whether another server than the controller's has answered the probe; logs it.
    async fn has_stranger(&self, verdict: &Verdict, supervisor: &Supervisor) -> bool {
        let has_stranger = verdict.up && self.has_no_server().await;
        if has_stranger {
            supervisor.note_stranger(verdict);
        }
        has_stranger
    }

    /// Whether another server answers where the controller's own, which does not run, would. Probes only then.
    async fn meets_stranger(&self, supervisor: &Supervisor) -> bool {
        // Asked twice: the probe may have started it (socket activation).
        self.has_no_server().await && {
            let verdict = self.probe(supervisor).await;
            self.has_stranger(&verdict, supervisor).await
        }
    }

    async fn probe_the_waking(&self, epoch: u64, supervisor: &Supervisor) -> Report {
        let reminded = self.controller.remind().await;
        log_failure(&supervisor.name, "wake", &reminded);
        let verdict = self.probe(supervisor).await;
        if supervisor.phase_now() == Phase::Waking {
            // If it was started and has ended, waiting will not make it answer, and what answers is another.
            let starts = self.controller.still_starts().await;
            if !log_failure(&supervisor.name, "wake", &starts) {
                supervisor.note_failure(&starts);
                return Report::WakeDone(epoch, false);
            }
            supervisor.note_failure(&reminded);
            if !verdict.up {
                let reason = || format!("it did not answer: {}", verdict.reason);
                supervisor.lock().failure.get_or_insert_with(reason);
            }
            self.has_stranger(&verdict, supervisor).await;
        }
        Report::Probed(epoch, verdict.up)
    }

    async fn probe(&self, supervisor: &Supervisor) -> Verdict {
        let verdict = self.probe.attempt(&*self.controller).await;
        tracing::trace!(site = %supervisor.name, up = verdict.up, reason = %verdict.reason, "probed");
        verdict
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
                    Heard::Ended => Report::Unreachable,
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
    /// A server answers that the controller does not control: remembered as a reason to stay awake, and logged once.
    fn note_stranger(&self, verdict: &Verdict) {
        let reason = format!("something that nightwatt did not start answers ({})", verdict.reason);
        let last = self.lock().inhibited_by.replace(reason.clone());
        if last.as_ref() != Some(&reason) {
            tracing::error!(
                site = %self.name,
                answer = verdict.reason,
                hint = "`ss -ltnp` shows what it is: stop it, and the next request starts the site's own \
                        server; or configure the controller that this one was started by",
                "something that nightwatt did not start answers for this site: it counts as awake"
            );
        }
    }

    /// Whether a wake command succeeded; remembers why not.
    fn judge_wake(&self, done: &Result<(), Error>) -> bool {
        self.lock().failure = done.as_ref().err().map(ToString::to_string);
        log_failure(&self.name, "wake", done)
    }

    /// Remembers why a wake-up fails, for `status`.
    fn note_failure(&self, done: &Result<(), Error>) {
        if let Err(error) = done {
            self.lock().failure = Some(error.to_string());
        }
    }

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

#[cfg(test)]
mod tests;
