//! What the process does while the gateway serves: signals, reloads, the service manager's watchdog, and
//! another process that takes over.

use std::sync::Arc;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_doctor::proxy::Target;
use nightwatt_energy::time::Mono;
use nightwatt_gateway::control::Demand;
use nightwatt_gateway::status::Status;
use nightwatt_gateway::{Config, Options, Reloaded, Running, Taker};
use nightwatt_policy::lifecycle::Phase;
use nightwatt_power::DriverConfig;

use super::{Args, report};
use crate::ExitStatus;
use crate::control;
use crate::errors::Failure;
use crate::service_manager::ServiceManager;
use crate::signals::{Signals, Told};

/// A gateway that serves, with everything that it has to react to.
pub(super) struct Process<'a> {
    pub(super) args: &'a Args,
    pub(super) running: Running,
    pub(super) clock: Clock,
    pub(super) manager: ServiceManager,
    pub(super) signals: Signals,
}

/// How serving ends.
enum End {
    Stopped(&'static str),
    Replaced,
}

impl Process<'_> {
    /// Runs until a signal ends it, or another process has taken over.
    pub(super) async fn run(mut self) -> Result<ExitStatus, Failure> {
        self.manager.ready();
        let end = self.serve().await;
        let Self { args, running, manager, mut signals, .. } = self;
        let gateway = Arc::clone(&running.gateway);
        let last = match end {
            End::Stopped(signal) => {
                manager.stopping();
                tracing::info!(signal, "stopping: running exchanges may end");
                for line in left(&gateway.status(), gateway.config()) {
                    tracing::info!("{line}");
                }
                tokio::select! {
                    () = running.stop() => None,
                    signal = signals.end() => Some(signal),
                }
            }
            End::Replaced => {
                tracing::info!(
                    "another process serves now: connections that are open here are served to their end"
                );
                tokio::select! {
                    () = running.leave() => None,
                    signal = signals.end() => Some(signal),
                }
            }
        };
        report(&gateway.status(), args)?;
        let Some(signal) = last else { return Ok(ExitStatus::Success) };
        tracing::warn!(signal, "stopping at once: exchanges under way are cut off");
        Ok(ExitStatus::Failed)
    }

    async fn serve(&mut self) -> End {
        let every = self.manager.hears_every();
        let mut look_at = every.map_or(Mono::NEVER, |every| self.clock.now().mono + every);
        loop {
            let look = self.clock.sleep_until(look_at);
            tokio::select! {
                told = self.signals.next() => match told {
                    Told::End(signal) => return End::Stopped(signal),
                    Told::Reload => drop(self.reload().await),
                },
                Some(demand) = self.running.demands.recv() => match demand {
                    Demand::Reload(answer) => drop(answer.send(self.reload().await)),
                    Demand::Containers => self.reload_containers().await,
                    Demand::HandOver(taker) => {
                        if let Some(end) = self.hand_over(taker).await {
                            return end;
                        }
                    }
                },
                () = look, if every.is_some() => {
                    let every = every.unwrap_or_default();
                    self.look(every).await;
                    look_at = self.clock.now().mono + every;
                }
            }
        }
    }

    /// Notifies the service manager's watchdog, but only if every driver has answered.
    async fn look(&self, timeout: Duration) {
        if matches!(self.clock.timeout(timeout, self.running.is_well()).await, Ok(true)) {
            self.manager.well();
        } else {
            tracing::error!(
                "a driver does not answer: the watchdog of the service manager is not notified"
            );
        }
    }

    /// Reads the configuration again. Returns the reason if it cannot be used.
    async fn reload(&mut self) -> Result<Reloaded, String> {
        self.manager.reloading();
        let done = match control::load_to_serve(&self.args.config) {
            Ok(config) => {
                let options = Options::default();
                let done = self.running.reload(config, options).await;
                done.map_err(|error| in_words(&Failure::failed(&error).hint(error.hint())))
            }
            Err(failure) => {
                let why = in_words(&failure);
                self.running.note_refused(why.clone());
                Err(why)
            }
        };
        match &done {
            Ok(Reloaded { new, changed, gone, listens_on, no_longer_on, .. }) => {
                tracing::info!(
                    ?new,
                    ?changed,
                    ?gone,
                    ?listens_on,
                    ?no_longer_on,
                    "the configuration was read again"
                );
            }
            Err(why) => {
                tracing::error!(why, "the configuration was not taken: the one before still holds");
            }
        }
        self.manager.ready();
        done
    }

    /// Applies the sites of containers that came or went.
    async fn reload_containers(&mut self) {
        match self.running.reload_containers().await {
            Ok(Reloaded { new, changed, gone, .. }) => {
                tracing::info!(?new, ?changed, ?gone, "containers came or went");
            }
            Err(error) => {
                let hint = error.hint();
                tracing::error!(%error, hint, "sites of containers were not changed");
            }
        }
    }

    async fn hand_over(&mut self, mut taker: Taker) -> Option<End> {
        let pid = taker.pid();
        tracing::info!(pid, "another process takes over");
        // The next check comes only after the hand-over, which needs a while if there is a disk cache.
        if let Some(every) = self.manager.hears_every() {
            self.look(every).await;
        }
        let done = {
            let Self { running, manager, clock, .. } = self;
            let every = manager.hears_every();
            let mut hand_over = Box::pin(running.hand_over(&mut taker));
            loop {
                let well = clock.sleep_until(every.map_or(Mono::NEVER, |it| clock.now().mono + it));
                tokio::select! {
                    done = &mut hand_over => break done,
                    // The hand-over itself limits how long it waits for the other process.
                    () = well => manager.well(),
                }
            }
        };
        if let Err(error) = done {
            tracing::error!(%error, hint = error.hint(), "the hand-over came to nothing");
            return None;
        }
        if let Some(pid) = pid {
            self.manager.replaced_by(pid);
        }
        Some(End::Replaced)
    }
}

/// Servers that stay as they are when the process ends, and that need its user then: what is asleep, and children.
fn left(status: &Status, config: &Config) -> Vec<String> {
    if status.observe {
        return Vec::new();
    }
    let words = |target: Target<'_>| {
        let (name, state) = (target.name, status.state_of(target.name)?);
        let drivers = target.power?.drivers();
        let is_child = drivers.iter().any(|it| matches!(it, DriverConfig::Process(_)));
        let has = |phase: Phase| state == phase.as_str();
        if has(Phase::Asleep) || has(Phase::FallingAsleep) {
            return Some(format!(
                "{name} is {state} and stays so: `nightwatt wake` before you stop nightwatt for good, or start it \
                 yourself"
            ));
        }
        (is_child && has(Phase::Awake)).then(|| {
            format!(
                "{name} is awake, and its process runs on: `nightwatt sleep` before you stop nightwatt for good, or \
                 stop the process yourself"
            )
        })
    };
    Target::all(config).into_iter().filter_map(words).collect()
}

/// The message without its prefix `error: `, which its readers add.
fn in_words(failure: &Failure) -> String {
    let text = failure.to_string();
    text.strip_prefix("error: ").map(str::to_owned).unwrap_or(text)
}
