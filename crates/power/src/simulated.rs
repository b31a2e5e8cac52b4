//! A server that is nothing but delays and scripted failures: for demos, shadow runs and tests.
//!
//! ```toml
//! [site.power.simulated]
//! wake_time = "5s"
//! sleep_time = "5s"
//!
//! [site.power.simulated.inner.process]    # optional: what is really started and stopped
//! command = ["python3", "-m", "http.server", "8080"]
//! ```

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::duration_text;
use nightwatt_energy::time::Mono;
use serde::Deserialize;

use crate::facts::Facts;
use crate::{ConfigError, Context, Controller, Error, Observed, Work};

/// The configuration of a controller that a simulated server starts and stops.
pub trait InnerConfig {
    /// The controller so configured.
    fn build(&self, context: &Context) -> Result<Box<dyn Controller>, ConfigError>;

    /// Can it report whether the server is up?
    fn reports_state(&self) -> bool;
}

/// For a simulated server without an inner controller.
impl InnerConfig for Infallible {
    fn build(&self, _: &Context) -> Result<Box<dyn Controller>, ConfigError> {
        match *self {}
    }

    fn reports_state(&self) -> bool {
        match *self {}
    }
}

/// The table `[site.power.simulated]`. All times pass on the clock, real or virtual.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config<Inner = Infallible> {
    /// From the wake command until it is done.
    #[serde(with = "duration_text")]
    pub wake_time: Duration,
    /// From the sleep command until it is done; a wake command waits for that.
    #[serde(with = "duration_text")]
    pub sleep_time: Duration,
    /// From the end of the wake command until the server is up: a command that was only accepted,
    /// as Wake-on-LAN is.
    #[serde(with = "duration_text")]
    pub ready_after: Duration,
    /// Number of wake commands that fail first.
    pub fail_wakes: u32,
    /// Number of sleep commands that fail first.
    pub fail_sleeps: u32,
    /// Wake commands are accepted, and nothing ever comes of them.
    pub never_wakes: bool,
    /// Is the server up at the start? Where there is an inner controller, it is the one to know.
    pub starts_up: bool,
    /// A controller that is called after the wake delay and before the sleep delay.
    pub inner: Option<Box<Inner>>,
}

impl<Inner> Default for Config<Inner> {
    fn default() -> Self {
        Self {
            wake_time: Duration::from_secs(5),
            sleep_time: Duration::from_secs(5),
            ready_after: Duration::ZERO,
            fail_wakes: 0,
            fail_sleeps: 0,
            never_wakes: false,
            starts_up: false,
            inner: None,
        }
    }
}

impl<Inner: InnerConfig> Config<Inner> {
    pub(crate) fn facts(&self) -> Facts<'_> {
        let is_mute = self.inner.as_ref().is_some_and(|inner| !inner.reports_state());
        Facts { is_on_this_machine: true, is_mute, ..Facts::default() }
    }

    /// The controller so configured.
    pub fn build(&self, context: &Context) -> Result<Simulated, ConfigError> {
        let inner = self.inner.as_ref().map(|inner| inner.build(context)).transpose()?;
        let up_from = (self.starts_up || inner.is_some()).then_some(Mono::ZERO);
        let config = Config {
            wake_time: self.wake_time,
            sleep_time: self.sleep_time,
            ready_after: self.ready_after,
            fail_wakes: self.fail_wakes,
            fail_sleeps: self.fail_sleeps,
            never_wakes: self.never_wakes,
            starts_up: self.starts_up,
            inner: None,
        };
        Ok(Simulated(Arc::new(Shared {
            config,
            clock: context.clock.clone(),
            inner,
            one_at_a_time: tokio::sync::Mutex::new(()),
            play: Mutex::new(Play { up_from, busy_until: Mono::ZERO, calls: Calls::default() }),
        })))
    }
}

/// A simulated server; clones are handles to the same one.
#[derive(Debug, Clone)]
pub struct Simulated(Arc<Shared>);

/// How often a simulated server was commanded, whatever came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Calls {
    /// Wake commands.
    pub wakes: u32,
    /// Sleep commands.
    pub sleeps: u32,
}

#[derive(Debug)]
struct Shared {
    config: Config,
    clock: Clock,
    inner: Option<Box<dyn Controller>>,
    /// A server does one thing after the other.
    one_at_a_time: tokio::sync::Mutex<()>,
    play: Mutex<Play>,
}

#[derive(Debug)]
struct Play {
    /// Up from this moment on, which may lie ahead; none: down.
    up_from: Option<Mono>,
    /// Falling asleep cannot be interrupted: it goes on when the caller no longer waits for it.
    busy_until: Mono,
    calls: Calls,
}

impl Simulated {
    /// The server comes up now without a command of ours.
    pub fn come_up(&self) {
        self.play().up_from = Some(self.0.clock.now().mono);
    }

    /// The server goes down now without a command of ours: it died.
    pub fn go_down(&self) {
        self.play().up_from = None;
    }

    /// How often it was commanded so far.
    pub fn calls(&self) -> Calls {
        self.play().calls
    }

    /// Is it up at this moment? (An inner controller is not asked.)
    pub fn is_up(&self) -> bool {
        let now = self.0.clock.now().mono;
        self.play().up_from.is_some_and(|from| from <= now)
    }

    fn play(&self) -> MutexGuard<'_, Play> {
        self.0.play.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn observe(&self) -> Result<Observed, Error> {
        match &self.0.inner {
            _ if !self.is_up() => Ok(Observed::Down),
            Some(inner) => inner.state().await,
            None => Ok(Observed::Up),
        }
    }

    async fn run_wake(&self) -> Result<(), Error> {
        let Shared { config, clock, inner, .. } = &*self.0;
        let nth = {
            let mut play = self.play();
            play.calls.wakes += 1;
            play.calls.wakes
        };
        let _turn = self.0.one_at_a_time.lock().await;
        if self.observe().await? == Observed::Up {
            return Ok(());
        }
        let started = clock.now().mono;
        let free_from = {
            let mut play = self.play();
            // Up by our own account only: what is inside has died since.
            play.up_from.take_if(|from| *from <= started);
            play.busy_until.max(started)
        };
        clock.sleep_until(free_from + config.wake_time).await;
        if nth <= config.fail_wakes {
            return Err(Error::Scripted { action: "wake" });
        }
        if config.never_wakes {
            return Ok(());
        }
        if let Some(inner) = inner {
            inner.wake().await?;
        }
        let mut play = self.play();
        // It may have come up by itself meanwhile.
        let ready = clock.now().mono + config.ready_after;
        play.up_from = Some(play.up_from.map_or(ready, |from| from.min(ready)));
        Ok(())
    }

    async fn run_sleep(&self) -> Result<(), Error> {
        let Shared { config, clock, inner, .. } = &*self.0;
        let nth = {
            let mut play = self.play();
            play.calls.sleeps += 1;
            play.calls.sleeps
        };
        let _turn = self.0.one_at_a_time.lock().await;
        if nth <= config.fail_sleeps {
            return Err(Error::Scripted { action: "sleep" });
        }
        if self.play().up_from.is_none() {
            return Ok(());
        }
        if let Some(inner) = inner {
            let was = inner.state().await?;
            inner.sleep().await?;
            if was == Observed::Down {
                self.go_down();
                return Ok(());
            }
        }
        let asleep = clock.now().mono + config.sleep_time;
        {
            let mut play = self.play();
            play.up_from = None;
            play.busy_until = asleep;
        }
        clock.sleep_until(asleep).await;
        Ok(())
    }
}

impl Controller for Simulated {
    fn wake(&self) -> Work<'_, ()> {
        Box::pin(self.run_wake())
    }

    fn sleep(&self) -> Work<'_, ()> {
        Box::pin(self.run_sleep())
    }

    fn state(&self) -> Work<'_, Observed> {
        Box::pin(self.observe())
    }
}
