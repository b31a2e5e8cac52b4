//! A container of podman, by its own API (libpod).
//!
//! ```toml
//! [site.power.podman]
//! container = "web"                     # name or id
//! socket = "/run/podman/podman.sock"    # optional, as all below; or tcp://127.0.0.1:8888
//! needs = ["db", "cache"]               # started before it in this order, stopped in the reverse order
//! sleep = "stop"                        # or pause: it keeps its memory, and is back at once
//! stop_timeout = "10s"                  # then it is killed; if not said, what the container has
//! timeout = "30s"                       # of each exchange
//! ```
//!
//! `systemctl enable --now podman.socket` makes podman listen; a user's own listens at
//! `/run/user/UID/podman/podman.sock`. A user who may write to root's socket is root on that machine, the
//! proxy included. TCP has no password at all: for a tunnel on this machine. Podman 4 or later. A container
//! that Quadlet or another unit of systemd runs is started and stopped by the driver `systemd`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nightwatt_energy::duration_text;
use serde::Deserialize;

use crate::container::{Api, Dialect, Hints, Needs};
use crate::facts::{ContainerOf, Facts};
use crate::rewake::Again;
use crate::{ConfigError, Context, container};

pub use crate::container::{Address, Container, Sleep, State};

/// Podman 4 and 5 both speak version 4.0.0.
const PODMAN: Dialect = Dialect {
    daemon: "podman",
    head: "/v4.0.0/libpod",
    stop_time: "timeout",
    hints: Hints {
        not_there: "`systemctl enable --now podman.socket`, or set `socket` to where podman listens",
        not_allowed: "run the proxy as the user whose container it is, and set `socket` to that user's \
                      (`/run/user/UID/podman/podman.sock`)",
        no_such: "`podman ps --all` has the names of the containers; each user has their own, root too",
        refused: "do it by hand (`podman start`, `podman stop`) and see `podman logs`",
    },
};

/// The table `[site.power.podman]`, or one below `wake` or `sleep`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name or id.
    #[serde(deserialize_with = "container::name")]
    pub container: String,
    /// Where podman listens.
    #[serde(default = "socket")]
    pub socket: Address,
    /// Containers that it needs: started before it, in this order, and stopped after it in the reverse order.
    #[serde(default, deserialize_with = "container::names")]
    pub needs: Vec<String>,
    /// How it sleeps.
    #[serde(default)]
    pub sleep: Sleep,
    /// How long it has to stop, in whole seconds.
    #[serde(default, deserialize_with = "container::some_duration")]
    pub stop_timeout: Option<Duration>,
    /// How long each exchange may take; that to stop has `stop_timeout` as well.
    #[serde(default = "timeout", with = "duration_text")]
    pub timeout: Duration,
}

fn socket() -> Address {
    Address::Unix(PathBuf::from("/run/podman/podman.sock"))
}

fn timeout() -> Duration {
    Duration::from_secs(30)
}

impl Config {
    pub(crate) fn facts(&self) -> Facts<'_> {
        let (name, socket, needs) = (&self.container, &self.socket, &self.needs);
        let container = Some(ContainerOf { name, socket, needs });
        Facts { container, is_on_this_machine: socket.is_here(), ..Facts::default() }
    }

    /// The controller so configured.
    pub fn build(&self, context: &Context) -> Result<Container, ConfigError> {
        Ok(Container {
            name: self.container.clone(),
            api: Api {
                address: self.socket.clone(),
                dialect: PODMAN,
                stop_timeout: self.stop_timeout,
                timeout: self.timeout,
                clock: context.clock.clone(),
            },
            needs: Arc::new(Needs::new(&self.socket, &self.container, &self.needs)),
            sleep: self.sleep,
            again: Again::new(&context.clock),
        })
    }
}
