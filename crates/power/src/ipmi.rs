//! A server's management controller over the network, by the program `ipmitool`.
//!
//! ```toml
//! [site.power.ipmi]
//! host = "10.0.0.9"                     # of the management controller, not of the server
//! user = "power"                        # needs the privilege OPERATOR
//! password_file = "/etc/nightwatt/bmc"  # its first line; or password_env = "NAME"
//! sleep = "soft"                        # optional, as all below; off: as by pulling the plug
//! cipher = 17                           # 3 where the controller is old
//! privilege = "OPERATOR"
//! port = 623
//! program = "ipmitool"
//! timeout = "20s"
//! ```
//!
//! `soft` presses the power button for the operating system to see. The controller stays awake while
//! the server sleeps: `state` costs the server nothing, and `probe = "controller"` tells whether it is
//! on. A server that has suspended is on to many controllers: `wol` wakes it.
//!
//! IPMI 2.0 lets anyone who reaches the controller guess passwords offline: keep it in a network of its
//! own, and prefer `redfish` where there is a choice.

use std::path::PathBuf;
use std::time::Duration;

use nightwatt_bmc::ipmitool::{Lan, PASSWORD_VARIABLE, POWER_STATUS, is_on};
use nightwatt_energy::duration_text;
use nightwatt_host::secret::Secret;
use serde::{Deserialize, Deserializer};

use crate::facts::{Facts, Program};
use crate::program_error_hints::Complaints;
use crate::rewake::Again;
use crate::tool::Tool;
use crate::{ConfigError, Context, Controller, Error, Observed, Work, password};

/// What `ipmitool` complains of.
const COMPLAINTS: Complaints = Complaints {
    missing: "install it (Debian: `apt-get install ipmitool`), or say where it is: \
              `program = \"/path/ipmitool\"`",
    slow: "check that the address is the management controller's, and that nothing between drops UDP \
           port 623",
    known: &[
        ("invalid authentication algorithm", "the controller is old: set `cipher = 3`"),
        ("no matching cipher suite", "the controller is old: set `cipher = 3`"),
        (
            "nsufficient privilege",
            "the user needs the privilege OPERATOR on this channel (`ipmitool user priv`)",
        ),
        ("illegal parameter", "set `cipher = 3` if the controller is old; else check `privilege`"),
        (
            "Unable to establish",
            "check `host`, that the controller allows IPMI over LAN, `user` and its password; if it is \
             old, set `cipher = 3`",
        ),
        ("not supported in present state", "the server is between two states: it is tried again"),
        ("Could not open socket", "check `host` and `port`"),
        ("lookup for", "check the name of the host, or give its address"),
        ("Invalid user name", "check `user`"),
    ],
    others: "run the command by hand, with `-v`, to see what the controller says",
};

/// The table `[site.power.ipmi]`, or one below `wake` or `sleep`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Of the management controller.
    #[serde(deserialize_with = "word")]
    pub host: String,
    /// Who we are.
    #[serde(deserialize_with = "word")]
    pub user: String,
    /// The file whose first line is the password.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// The variable of the environment that is the password.
    #[serde(default)]
    pub password_env: Option<String>,
    /// How it sleeps.
    #[serde(default)]
    pub sleep: Sleep,
    /// Number of the cipher suite.
    #[serde(default = "cipher")]
    pub cipher: u8,
    /// What the session may do.
    #[serde(default)]
    pub privilege: Privilege,
    /// UDP.
    #[serde(default = "port")]
    pub port: u16,
    /// The program.
    #[serde(default = "ipmitool")]
    pub program: PathBuf,
    /// How long each of its commands may take.
    #[serde(default = "timeout", with = "duration_text")]
    pub timeout: Duration,
}

/// How a server sleeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sleep {
    /// Its operating system shuts it down.
    #[default]
    Soft,
    /// At once.
    Off,
}

/// What a session may do (IPMI 2.0, section 6.8). What it takes to switch power is `OPERATOR`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Privilege {
    /// Switch power.
    #[default]
    Operator,
    /// All: some controllers give no less.
    Administrator,
}

fn cipher() -> u8 {
    17
}

fn port() -> u16 {
    623
}

fn ipmitool() -> PathBuf {
    PathBuf::from("ipmitool")
}

fn timeout() -> Duration {
    Duration::from_secs(20)
}

fn word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let word = String::deserialize(deserializer)?;
    let strange = |c: char| c.is_whitespace() || c.is_control();
    if word.is_empty() || word.starts_with('-') || word.contains(strange) {
        return Err(serde::de::Error::custom(format!(
            "`{word}` is neither a host nor a user: nothing empty, no spaces, no dash in front"
        )));
    }
    Ok(word)
}

impl Config {
    /// Is the password said in one way?
    fn check(&self) -> Result<(), String> {
        if self.password_file.is_none() && self.password_env.is_none() {
            return Err(
                "`ipmi` needs a password: say `password_file = \"/path\"`, a file with it in its \
                        first line"
                    .to_owned(),
            );
        }
        password::check(self.password_file.as_deref(), self.password_env.as_deref())
    }

    pub(crate) fn facts(&self) -> Facts<'_> {
        let (fault, password_file) = (self.check().err(), self.password_file.as_deref());
        let program = Some(Program { name: "ipmitool", package: "ipmitool" });
        Facts { program, fault, password_file, ..Facts::default() }
    }

    /// The controller so configured.
    pub fn build(&self, context: &Context) -> Result<Ipmi, ConfigError> {
        let password =
            Secret::from_either(self.password_file.as_deref(), self.password_env.as_deref())?;
        let privilege = match self.privilege {
            Privilege::Operator => "OPERATOR",
            Privilege::Administrator => "ADMINISTRATOR",
        };
        let (port, cipher) = (self.port.to_string(), self.cipher.to_string());
        let lan = Lan {
            host: &self.host,
            port: Some(&port),
            user: Some(&self.user),
            cipher: Some(&cipher),
            privilege: Some(privilege),
        };
        let tool = Tool {
            program: self.program.clone(),
            arguments: lan.arguments(),
            password: password.map(|password| (PASSWORD_VARIABLE, password)),
            called: format!("ipmitool -H {}", self.host),
            timeout: self.timeout,
            clock: context.clock.clone(),
            complaints: COMPLAINTS,
        };
        Ok(Ipmi { tool, sleep: self.sleep, again: Again::new(&context.clock) })
    }
}

/// The controller; see the [module](self).
#[derive(Debug)]
pub struct Ipmi {
    tool: Tool,
    sleep: Sleep,
    again: Again,
}

impl Ipmi {
    async fn is_on(&self) -> Result<bool, Error> {
        let output = self.tool.run(&POWER_STATUS).await?;
        is_on(&output).ok_or_else(|| self.tool.nonsense(&POWER_STATUS, &output))
    }

    // Controllers refuse to do what is already done ("not supported in present state").
    async fn wake_up(&self) -> Result<(), Error> {
        self.again.woken();
        if self.is_on().await? {
            return Ok(());
        }
        self.tool.run(&["chassis", "power", "on"]).await.map(drop)
    }

    async fn put_to_sleep(&self) -> Result<(), Error> {
        self.again.put_to_sleep();
        if !self.is_on().await? {
            return Ok(());
        }
        let how = match self.sleep {
            Sleep::Soft => "soft",
            Sleep::Off => "off",
        };
        self.tool.run(&["chassis", "power", how]).await.map(drop)
    }
}

impl Controller for Ipmi {
    fn wake(&self) -> Work<'_, ()> {
        Box::pin(self.wake_up())
    }

    fn sleep(&self) -> Work<'_, ()> {
        Box::pin(self.put_to_sleep())
    }

    fn state(&self) -> Work<'_, Observed> {
        Box::pin(async { Ok(if self.is_on().await? { Observed::Up } else { Observed::Down }) })
    }

    fn asks_others(&self) -> bool {
        true
    }

    fn remind(&self) -> Work<'_, ()> {
        self.again.remind(self.wake_up())
    }
}
