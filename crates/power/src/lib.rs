//! Power states out: controllers that wake servers and put them to sleep.
//!
//! A [`Controller`] issues the command; a [`Probe`](probe::Probe) says whether the server answers.
//! When to wake and when to sleep is decided elsewhere (`nightwatt_model::policy`).
//!
//! # Adding a driver
//!
//! One file with a `Config` and its `build`, and one line in the list at the end of this one.
//!
//! # Configuration
//!
//! A driver is chosen by the name of its table:
//!
//! ```toml
//! [site.power.process]
//! command = ["/usr/sbin/apache2", "-DFOREGROUND"]
//! ```
//!
//! With a tag *inside* the table (`driver = "process"`) serde would buffer the table until it knows
//! the driver, and lose the position of every key: a mistake would be reported at the head of the
//! table. So it is reported on its own line.
//!
//! # Time
//!
//! Processes, shell commands and sockets live in real time, even when the [`Clock`] is virtual:
//! whoever awaits one holds a [`Debt`](nightwatt_clock::Debt), so virtual time stands still, and
//! gives up after real time. Only `simulated` lets the clock's time pass; whoever calls it while
//! holding a debt calls it through [`Clock::parked`].

pub mod command;
mod error;
pub mod probe;
pub mod process;
mod real_work;
pub mod simulated;

use std::fmt::{Debug, Write};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

use nightwatt_clock::Clock;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

pub use error::{ConfigError, Error};

/// What a controller is doing, boxed so that controllers can be trait objects.
pub type Work<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// How one server is woken and put to sleep.
///
/// Every method ends: what can hang has a time-out. Each may be called at any time, in any state
/// and again: to wake what is awake is a success. To drop the work before it is done is allowed;
/// helper processes are then killed, and the next call finds out how far it had come.
pub trait Controller: Debug + Send + Sync {
    /// Issues the command to wake; ends when that is done or was accepted. The server may need much
    /// longer until it answers: ask a [`Probe`](probe::Probe).
    fn wake(&self) -> Work<'_, ()>;

    /// Issues the command to sleep; ends when that is done or was accepted.
    fn sleep(&self) -> Work<'_, ()>;

    /// What the controller itself can tell (does the process live?), without changing anything.
    fn state(&self) -> Work<'_, Observed>;

    /// After a wake command, does [`Observed::Down`] say that it failed (a process that has ended)? For
    /// most it says only that the server is not up yet.
    fn down_is_final(&self) -> bool {
        false
    }
}

/// What a controller can tell of its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// It runs; whether it already answers is for a probe to find out.
    Up,
    /// It does not run.
    Down,
    /// The controller has no means to tell, or the server is between the two.
    Unknown,
}

/// What a driver needs to know besides its own configuration.
#[derive(Debug, Clone)]
pub struct Context {
    /// Real or virtual time.
    pub clock: Clock,
    /// Where state that must outlive the proxy is kept; made when missing.
    pub state_dir: PathBuf,
    /// Name of the site that the server serves: in messages, file names and environments.
    pub site: String,
}

impl Context {
    /// The file of this site in the state directory whose name ends so. Names with characters that
    /// file names should not have are written with `%`, so that two sites never share a file.
    fn file(&self, suffix: &str) -> PathBuf {
        let mut name = String::new();
        for byte in self.site.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                    name.push(char::from(byte));
                }
                _ => {
                    let _ = write!(name, "%{byte:02x}");
                }
            }
        }
        self.state_dir.join(format!("{name}.{suffix}"))
    }
}

/// A way to control a server, for lists and help texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Driver {
    /// The name of its table in the configuration.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
}

macro_rules! drivers {
    ($($variant:ident = $module:ident, $about:literal;)+) => {
        /// How a server is woken and put to sleep, as the configuration says it: one table, named
        /// after its driver (see [`DRIVERS`]).
        #[derive(Debug, Clone, PartialEq)]
        pub enum ControllerConfig {
            $(#[doc = $about] $variant($module::Config),)+
        }

        #[derive(Debug, Clone, Copy, Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum DriverName {
            $($variant,)+
        }

        /// All drivers.
        pub const DRIVERS: &[Driver] = &[$(Driver { name: stringify!($module), about: $about },)+];

        impl ControllerConfig {
            /// The driver's name.
            pub const fn driver(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => stringify!($module),)+
                }
            }

            /// The controller so configured. Touches the server in no way.
            pub fn build(&self, context: &Context) -> Result<Box<dyn Controller>, ConfigError> {
                match self {
                    $(Self::$variant(config) => Ok(Box::new(config.build(context)?)),)+
                }
            }

            fn read<'de, A: MapAccess<'de>>(name: DriverName, table: &mut A) -> Result<Self, A::Error> {
                match name {
                    $(DriverName::$variant => table.next_value().map(Self::$variant),)+
                }
            }
        }
    };
}

drivers! {
    Process = process, "A process on this machine: started to wake, stopped to sleep.";
    Command = command, "Shell commands of your own for waking, sleeping and asking.";
    Simulated = simulated, "Nothing but delays and scripted failures: for demos and tests.";
}

impl<'de> Deserialize<'de> for ControllerConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// What serde would derive, but for the words about no driver and about two.
        struct OneDriver;

        impl<'de> Visitor<'de> for OneDriver {
            type Value = ControllerConfig;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a table named after a driver, with its settings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let Some(name) = map.next_key()? else {
                    let names: Vec<_> = DRIVERS.iter().map(|driver| driver.name).collect();
                    let names = names.join("`, `");
                    return Err(A::Error::custom(format!("no driver: name one of `{names}`")));
                };
                let config = ControllerConfig::read(name, &mut map)?;
                match map.next_key::<String>()? {
                    None => Ok(config),
                    Some(other) => Err(A::Error::custom(format!(
                        "two drivers, `{}` and `{other}`: a server is controlled by one",
                        config.driver()
                    ))),
                }
            }
        }

        deserializer.deserialize_map(OneDriver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_never_share_a_file() {
        let file = |site: &str| {
            let context = Context {
                clock: Clock::real(),
                state_dir: PathBuf::from("/var/lib/nightwatt"),
                site: site.to_owned(),
            };
            context.file("process.pid").display().to_string()
        };
        assert_eq!(file("www.example.org"), "/var/lib/nightwatt/www.example.org.process.pid");
        assert_eq!(file("a/b"), "/var/lib/nightwatt/a%2fb.process.pid");
        assert_eq!(file("a%2fb"), "/var/lib/nightwatt/a%252fb.process.pid");
        assert_eq!(file(".."), "/var/lib/nightwatt/...process.pid");
    }
}
