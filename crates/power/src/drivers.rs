//! Which drivers wake a server and put it to sleep, as the configuration says it.
//!
//! A driver is chosen by the name of its table. One that can do both stands alone:
//!
//! ```toml
//! [site.power.process]
//! command = ["/usr/sbin/apache2", "-DFOREGROUND"]
//! ```
//!
//! Any two can be joined:
//!
//! ```toml
//! [site.power.wake.wol]
//! mac = "52:54:00:12:34:56"
//! [site.power.sleep.ssh]
//! host = "root@web"
//! ```
//!
//! With a tag *inside* the table (`driver = "process"`) serde would buffer the table until it knows
//! the driver, and lose the position of every key: a mistake would be reported at the head of the
//! table. So it is reported on its own line.

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::facts::{ContainerOf, Facts, Program};
use crate::pair::Pair;
use crate::{
    ConfigError, Context, Controller, agent, command, docker, gpio, ipmi, libvirt, podman, process,
    qemu, redfish, simulated, ssh, systemd, wol,
};

/// A way to control a server, for lists and help texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Driver {
    /// The name of its table in the configuration.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// It can wake.
    pub wakes: bool,
    /// It can put to sleep.
    pub sleeps: bool,
}

/// How a server is woken and put to sleep.
#[derive(Debug, Clone, PartialEq)]
pub enum ControllerConfig {
    /// By one driver.
    One(DriverConfig),
    /// By two.
    Pair {
        /// The one that wakes.
        wake: DriverConfig,
        /// The one that puts to sleep.
        sleep: DriverConfig,
    },
}

impl ControllerConfig {
    /// The names of its drivers: `process`, `wol + ssh`.
    pub fn name(&self) -> String {
        match self {
            Self::One(driver) => driver.name().to_owned(),
            Self::Pair { wake, sleep } => format!("{} + {}", wake.name(), sleep.name()),
        }
    }

    /// Its drivers.
    pub fn drivers(&self) -> Vec<&DriverConfig> {
        match self {
            Self::One(driver) => vec![driver],
            Self::Pair { wake, sleep } => vec![wake, sleep],
        }
    }

    /// The settings of Wake-on-LAN, if that wakes it.
    pub fn wol(&self) -> Option<&wol::Config> {
        let (Self::One(driver) | Self::Pair { wake: driver, .. }) = self;
        match driver {
            DriverConfig::Wol(config) => Some(config),
            _ => None,
        }
    }

    /// The command lines of your own that wake it and put it to sleep, each with what it does.
    pub fn commands(&self) -> Vec<(&'static str, &str)> {
        let (waking, sleeping) = match self {
            Self::One(driver) => (driver, driver),
            Self::Pair { wake, sleep } => (wake, sleep),
        };
        let wakes = waking.own_commands().map(|own| ("wake", own.wake.as_str()));
        let sleeps = sleeping.own_commands().map(|own| ("sleep", own.sleep.as_str()));
        wakes.into_iter().chain(sleeps).collect()
    }

    /// Is the server a part of this machine, or nothing but a rehearsal? To look at it then costs no
    /// other machine its sleep.
    pub fn is_on_this_machine(&self) -> bool {
        self.drivers().iter().all(|driver| driver.facts().is_on_this_machine)
    }

    /// The container that it controls, if it is one.
    pub fn container(&self) -> Option<ContainerOf<'_>> {
        self.drivers().into_iter().find_map(|driver| driver.facts().container)
    }

    /// The controller so configured. Touches the server in no way.
    pub fn build(&self, context: &Context) -> Result<Box<dyn Controller>, ConfigError> {
        match self {
            Self::One(driver) => driver.build(context),
            Self::Pair { wake, sleep } => {
                Ok(Box::new(Pair::new(wake.build(context)?, sleep.build(context)?)))
            }
        }
    }
}

impl DriverConfig {
    const fn own_commands(&self) -> Option<&command::Config> {
        match self {
            Self::Command(own) => Some(own),
            _ => None,
        }
    }
}

macro_rules! drivers {
    ($($variant:ident = $module:ident $(<$inner:ident>)?, wakes: $wakes:literal, sleeps: $sleeps:literal, $about:literal;)+) => {
        /// One driver, as the configuration says it: one table, named after it (see [`DRIVERS`]).
        #[derive(Debug, Clone, PartialEq)]
        pub enum DriverConfig {
            $(#[doc = $about] $variant($module::Config$(<$inner>)?),)+
        }

        #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Key {
            $($variant,)+
            Wake,
            Sleep,
        }

        /// All drivers.
        pub const DRIVERS: &[Driver] = &[$(Driver {
            name: stringify!($module),
            about: $about,
            wakes: $wakes,
            sleeps: $sleeps,
        },)+];

        impl DriverConfig {
            /// The driver's name.
            pub const fn name(&self) -> &'static str {
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

            pub(crate) fn facts(&self) -> Facts<'_> {
                match self {
                    $(Self::$variant(config) => config.facts(),)+
                }
            }

            /// Reads the table of a driver; `None` for the keys that are none.
            fn read<'de, A: MapAccess<'de>>(key: Key, table: &mut A) -> Result<Option<Self>, A::Error> {
                match key {
                    $(Key::$variant => table.next_value().map(|config| Some(Self::$variant(config))),)+
                    Key::Wake | Key::Sleep => Ok(None),
                }
            }
        }
    };
}

drivers! {
    Process = process, wakes: true, sleeps: true, "A process on this machine: started to wake, stopped to sleep.";
    Command = command, wakes: true, sleeps: true, "Shell commands of your own for waking, sleeping and asking.";
    Wol = wol, wakes: true, sleeps: false, "Wake-on-LAN: a magic packet to a sleeping machine's network card.";
    Ssh = ssh, wakes: true, sleeps: true, "Commands on another machine by OpenSSH: it suspends, or wakes a guest.";
    Agent = agent, wakes: false, sleeps: true, "The machine's own agent: it sleeps unless something there needs it.";
    Systemd = systemd, wakes: true, sleeps: true, "A unit of systemd, here or on another machine: started and stopped, or frozen.";
    Docker = docker, wakes: true, sleeps: true, "A container of Docker, by its API: started and stopped, or paused.";
    Podman = podman, wakes: true, sleeps: true, "A container of podman, by its API: started and stopped, or paused.";
    Libvirt = libvirt, wakes: true, sleeps: true, "A guest of libvirt, by virsh: started, resumed or woken, as its state asks for.";
    Qemu = qemu, wakes: true, sleeps: true, "A guest of QEMU, by QMP: it goes on, is woken or reset; it is paused or powered down.";
    Ipmi = ipmi, wakes: true, sleeps: true, "A server's management controller, by ipmitool: power on, and a shutdown or off.";
    Redfish = redfish, wakes: true, sleeps: true, "A server's management controller, over Redfish: power on, and a shutdown or off.";
    Gpio = gpio, wakes: true, sleeps: true, "A line of this machine that is wired to the server's power button.";
    Simulated = simulated<ControllerConfig>, wakes: true, sleeps: true, "Nothing but delays and scripted failures: for demos and tests.";
}

impl DriverConfig {
    fn driver(&self) -> &'static Driver {
        DRIVERS.iter().find(|driver| driver.name == self.name()).unwrap_or(&DRIVERS[0])
    }

    /// The program that it runs, except those that its settings name.
    pub fn program(&self) -> Option<Program> {
        self.facts().program
    }

    /// Can it do what is asked of it, as it is configured?
    fn check(&self, to_wake: bool, to_sleep: bool) -> Result<(), String> {
        let (driver, name) = (self.driver(), self.name());
        if to_wake && !driver.wakes {
            return Err(format!(
                "`{name}` cannot wake a server: write `[site.power.sleep.{name}]`, and beside it how it \
                 is woken, as `[site.power.wake.wol]`"
            ));
        }
        if to_sleep && !driver.sleeps {
            return Err(format!(
                "`{name}` cannot put a server to sleep: write `[site.power.wake.{name}]`, and beside it \
                 how it is put to sleep, as `[site.power.sleep.ssh]`"
            ));
        }
        let facts = self.facts();
        facts.cannot_wake.filter(|_| to_wake).or(facts.fault).map_or(Ok(()), Err)
    }
}

impl simulated::InnerConfig for ControllerConfig {
    fn build(&self, context: &Context) -> Result<Box<dyn Controller>, ConfigError> {
        self.build(context)
    }

    fn reports_state(&self) -> bool {
        self.reports_state()
    }
}

/// A driver that is to do only one of the two.
struct Half(DriverConfig);

impl<'de> Deserialize<'de> for Half {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_map(Tables)? {
            ControllerConfig::One(driver) => Ok(Self(driver)),
            ControllerConfig::Pair { .. } => {
                Err(D::Error::custom("`wake` and `sleep` are not nested"))
            }
        }
    }
}

impl<'de> Deserialize<'de> for ControllerConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let config = deserializer.deserialize_map(Tables)?;
        let checked = match &config {
            Self::One(driver) => driver.check(true, true),
            Self::Pair { wake, sleep } => wake.check(true, false).and(sleep.check(false, true)),
        };
        checked.map_err(D::Error::custom)?;
        Ok(config)
    }
}

/// What serde would derive, except the messages about no driver and about two.
struct Tables;

impl Tables {
    fn names() -> String {
        let names: Vec<_> = DRIVERS.iter().map(|driver| driver.name).collect();
        names.join("`, `")
    }
}

impl<'de> Visitor<'de> for Tables {
    type Value = ControllerConfig;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "a table named after a driver, with its settings, or the two `wake` and `sleep`",
        )
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut one, mut wake, mut sleep): (Option<DriverConfig>, _, _) = (None, None, None);
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Wake => wake = Some(map.next_value::<Half>()?.0),
                Key::Sleep => sleep = Some(map.next_value::<Half>()?.0),
                key => {
                    let next = DriverConfig::read(key, &mut map)?;
                    if let (Some(first), Some(next)) = (&one, &next) {
                        return Err(A::Error::custom(format!(
                            "two drivers, `{}` and `{}`: a server is controlled by one, or by one below \
                             `wake` and one below `sleep`",
                            first.name(),
                            next.name()
                        )));
                    }
                    one = next;
                }
            }
        }
        match (one, wake, sleep) {
            (Some(driver), None, None) => Ok(ControllerConfig::One(driver)),
            (None, Some(wake), Some(sleep)) => Ok(ControllerConfig::Pair { wake, sleep }),
            (None, None, None) => {
                Err(A::Error::custom(format!("no driver: name one of `{}`", Self::names())))
            }
            (Some(driver), _, _) => Err(A::Error::custom(format!(
                "`{}` stands beside `wake` or `sleep`: put it below one of them",
                driver.name()
            ))),
            (None, None, Some(_)) => Err(A::Error::custom(
                "how it sleeps is said, and not how it is woken: add `[site.power.wake.DRIVER]`",
            )),
            (None, Some(_), None) => Err(A::Error::custom(
                "how it is woken is said, and not how it sleeps: add `[site.power.sleep.DRIVER]`",
            )),
        }
    }
}
