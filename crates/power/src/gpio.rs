//! A line of this machine that is wired to the server's power button, as by a transistor or an
//! optocoupler.
//!
//! ```toml
//! [site.power.gpio]
//! line = "/dev/gpiochip0:17"        # or its name: "GPIO17" (`gpioinfo`)
//! active_low = false                # optional, as all below: the button is pressed when the line is low
//! press = "200ms"                   # to wake
//! sleep_press = "200ms"             # to sleep; from 4 s on most machines are off at once
//! sense = "/dev/gpiochip0:27"       # a line that says whether it is on, as its power LED
//! sense_active_low = false
//! ```
//!
//! A short press is a request to the operating system (ACPI), which has to obey: `HandlePowerKey` of
//! logind.
//!
//! **A button does what the server's state makes of it**: pressed to wake one that is up, it shuts that
//! down. With `sense` it is pressed only if that does what is wanted. Without, nightwatt goes by what it
//! last did and what its probe says; a server that takes long to start may then be pressed off by the
//! second attempt, so set `wake_timeout` above its slowest start.

use std::fmt::Debug;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use gpiocdev::line::{Offset, Value};
use nightwatt_clock::Clock;
use nightwatt_energy::duration_text;
use nightwatt_host::within;
use serde::{Deserialize, Deserializer};
use tracing::debug;

use crate::facts::Facts;
use crate::{ConfigError, Context, Controller, Error, Observed, Work};

/// No button has to be held longer.
const LONGEST: Duration = Duration::from_secs(30);

/// A power button held this long turns a machine off without notice to the operating system (ACPI's power
/// button override).
const OVERRIDE: Duration = Duration::from_secs(4);

/// The table `[site.power.gpio]`, or one below `wake` or `sleep`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The button.
    pub line: Line,
    /// Is it pressed when the line is low?
    #[serde(default)]
    pub active_low: bool,
    /// How long it is pressed to wake.
    #[serde(default = "press", deserialize_with = "pressed")]
    pub press: Duration,
    /// How long to put to sleep.
    #[serde(default = "press", deserialize_with = "pressed")]
    pub sleep_press: Duration,
    /// Says whether the server is on.
    #[serde(default)]
    pub sense: Option<Line>,
    /// Is it on when that line is low?
    #[serde(default)]
    pub sense_active_low: bool,
}

fn press() -> Duration {
    Duration::from_millis(200)
}

fn pressed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let time = duration_text::deserialize(deserializer)?;
    if time.is_zero() || time > LONGEST {
        return Err(serde::de::Error::custom("a button is pressed for more than 0 and up to 30s"));
    }
    Ok(time)
}

/// A line of the GPIO character device.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Line {
    /// By its chip and number: `/dev/gpiochip0:17`.
    Numbered(PathBuf, Offset),
    /// By its name.
    Named(String),
}

impl TryFrom<String> for Line {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if !text.starts_with('/') {
            return if text.trim().is_empty() {
                Err("a line is named as /dev/gpiochip0:17, or by its name (`gpioinfo`)".to_owned())
            } else {
                Ok(Self::Named(text))
            };
        }
        let parts = text.rsplit_once(':');
        parts
            .and_then(|(chip, number)| Some(Self::Numbered(chip.into(), number.parse().ok()?)))
            .ok_or_else(|| format!("`{text}` is no line, as /dev/gpiochip0:17 is"))
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Numbered(chip, number) => write!(f, "{}:{number}", chip.display()),
            Self::Named(name) => f.write_str(name),
        }
    }
}

impl Config {
    pub(crate) fn facts(&self) -> Facts<'_> {
        let presses = [("press", self.press), ("sleep_press", self.sleep_press)];
        let long = presses.into_iter().filter(|(_, time)| *time >= OVERRIDE);
        let risks = long.map(|(key, _)| {
            format!("`{key}` of 4 s or more turns most machines off, as by pulling the plug")
        });
        Facts { is_mute: self.sense.is_none(), risks: risks.collect(), ..Facts::default() }
    }

    /// The controller so configured.
    pub fn build(&self, context: &Context) -> Result<Gpio, ConfigError> {
        let (config, clock) = (self.clone(), context.clock.clone());
        Ok(Gpio { config, clock, board: Box::new(Kernel) })
    }
}

/// The lines of this machine.
trait Board: Debug + Send + Sync {
    /// Presses the button that a line is; released when dropped.
    fn press(&self, line: &Line, active_low: bool) -> io::Result<Box<dyn Send>>;

    /// Is a line active?
    fn read(&self, line: &Line, active_low: bool) -> io::Result<bool>;
}

/// As the kernel has them.
#[derive(Debug)]
struct Kernel;

impl Kernel {
    fn builder(line: &Line, active_low: bool) -> io::Result<gpiocdev::request::Builder> {
        let mut builder = gpiocdev::Request::builder();
        builder.with_consumer("nightwatt");
        match line {
            Line::Numbered(chip, offset) => {
                builder.on_chip(chip).with_line(*offset);
            }
            Line::Named(name) => {
                let found = gpiocdev::find_named_line(name).ok_or_else(|| {
                    io::Error::new(io::ErrorKind::NotFound, "no line of this machine has that name")
                })?;
                builder.with_found_line(&found);
            }
        }
        if active_low {
            builder.as_active_low();
        }
        Ok(builder)
    }
}

/// A button that is pressed.
struct Pressed(gpiocdev::Request);

impl Drop for Pressed {
    fn drop(&mut self) {
        if let Err(error) = self.0.set_lone_value(Value::Inactive) {
            tracing::error!(%error, "the power button may still be pressed");
        }
    }
}

impl Board for Kernel {
    fn press(&self, line: &Line, active_low: bool) -> io::Result<Box<dyn Send>> {
        let mut builder = Self::builder(line, active_low)?;
        let request = builder.as_output(Value::Active).request().map_err(of_gpio)?;
        Ok(Box::new(Pressed(request)))
    }

    fn read(&self, line: &Line, active_low: bool) -> io::Result<bool> {
        let mut builder = Self::builder(line, active_low)?;
        let request = builder.as_input().request().map_err(of_gpio)?;
        Ok(request.lone_value().map_err(of_gpio)? == Value::Active)
    }
}

/// The error of a GPIO line with the system's reason, where that is one.
pub fn of_gpio(error: gpiocdev::Error) -> io::Error {
    match error {
        gpiocdev::Error::Os(errno) => io::Error::from_raw_os_error(errno.0),
        error => io::Error::other(error),
    }
}

/// The controller; see the [module](self).
#[derive(Debug)]
pub struct Gpio {
    config: Config,
    clock: Clock,
    board: Box<dyn Board>,
}

impl Gpio {
    fn failed(line: &Line, source: io::Error) -> Error {
        let hint = match source.kind() {
            io::ErrorKind::NotFound => "`gpioinfo` (Debian: gpiod) has the lines of this machine",
            io::ErrorKind::PermissionDenied => "put the proxy's user into the group `gpio`",
            io::ErrorKind::ResourceBusy => {
                "`gpioinfo` says who uses the line: it has to let go of it"
            }
            _ => "check with `gpioinfo` that the line is there and can be what it is to be",
        };
        Error::Unreachable { whom: format!("the GPIO line {line}"), hint, source }
    }

    fn sensed(&self) -> Result<Observed, Error> {
        let Some(sense) = &self.config.sense else { return Ok(Observed::Unknown) };
        match self.board.read(sense, self.config.sense_active_low) {
            Ok(true) => Ok(Observed::Up),
            Ok(false) => Ok(Observed::Down),
            Err(source) => Err(Self::failed(sense, source)),
        }
    }

    /// Presses the button unless the server is there already.
    async fn press(&self, wanted: Observed, time: Duration) -> Result<(), Error> {
        let Config { line, active_low, .. } = &self.config;
        if self.sensed()? == wanted {
            return Ok(());
        }
        debug!(%line, ?time, "pressing the power button");
        let button =
            self.board.press(line, *active_low).map_err(|source| Self::failed(line, source))?;
        let _ = within(&self.clock, time, std::future::pending::<()>()).await;
        drop(button);
        Ok(())
    }
}

impl Controller for Gpio {
    fn wake(&self) -> Work<'_, ()> {
        Box::pin(self.press(Observed::Up, self.config.press))
    }

    fn sleep(&self) -> Work<'_, ()> {
        Box::pin(self.press(Observed::Down, self.config.sleep_press))
    }

    fn state(&self) -> Work<'_, Observed> {
        Box::pin(std::future::ready(self.sensed()))
    }

    fn asks_others(&self) -> bool {
        self.config.sense.is_some()
    }
}

#[cfg(test)]
mod tests;
