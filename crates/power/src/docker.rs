//! A container of Docker, by the Engine's API.
//!
//! ```toml
//! [site.power.docker]
//! container = "web"                     # name or id
//! socket = "/var/run/docker.sock"       # optional, as all below; or tcp://127.0.0.1:2375
//! needs = ["db", "cache"]               # started before it in this order, stopped in the reverse order
//! sleep = "stop"                        # or pause: it keeps its memory, and is back at once
//! stop_timeout = "10s"                  # then it is killed; if not said, what the container has
//! timeout = "30s"                       # of each exchange
//! ```
//!
//! A user who may write to Docker's socket is root on that machine, the proxy included. TCP is spoken
//! without TLS: for a socket proxy, or a tunnel, on this machine. A container that is put to sleep by
//! `stop`
//! should have the restart policy `unless-stopped` or `no`: with `always` it is back when Docker
//! restarts.

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

/// Without a version in its paths the Engine speaks its own; every version has had these five.
const DOCKER: Dialect = Dialect {
    daemon: "Docker",
    head: "",
    stop_time: "t",
    hints: Hints {
        not_there: "start Docker (`systemctl start docker`), or set `socket` to where it listens",
        not_allowed: "put the proxy's user into the group `docker`, which is as good as root; or give it \
                      a socket proxy that allows containers to be started and stopped",
        no_such: "`docker ps --all` has the names of the containers; set `container`",
        refused: "do it by hand (`docker start`, `docker stop`) and see `docker logs`",
    },
};

/// The table `[site.power.docker]`, or one below `wake` or `sleep`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name or id.
    #[serde(deserialize_with = "container::name")]
    pub container: String,
    /// Where Docker listens.
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
    Address::Unix(PathBuf::from("/var/run/docker.sock"))
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
                dialect: DOCKER,
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
