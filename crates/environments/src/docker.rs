//! A container of Docker: always from an image.

use serde::Deserialize;

use crate::Error;
use crate::engine::{Container, Network};
use crate::needs::Needs;
use crate::start::Start;
use crate::started::Started;

/// What it needs where it is made.
pub(crate) const NEEDS: Needs =
    Needs { root: false, programs: &[("docker", "install docker.io, and start its daemon")] };

/// What it is made from, and how.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// An image, by name. `tar -C FOLDER -c . | docker import - NAME` makes one of a folder.
    pub image: String,
    /// How it is tied to the network.
    #[serde(default)]
    pub network: Network,
    /// Ports inside that clients are to reach, where a `bridge` has no address that this machine reaches.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// Where the daemon listens, if not where it always does: `unix:///run/docker.sock`.
    pub host: Option<String>,
    /// More arguments for `docker create`.
    #[serde(default)]
    pub arguments: Vec<String>,
}

impl Config {
    pub(crate) fn start(&self, start: Start<'_>) -> Result<Started, Error> {
        start.need(NEEDS)?;
        let mut engine = vec!["docker".to_owned()];
        if let Some(host) = &self.host {
            engine.extend(["--host".to_owned(), host.clone()]);
        }
        let arguments = self.arguments.clone();
        let root = vec!["--pull=never".to_owned(), self.image.clone()];
        let after_removal = String::new();
        Container {
            engine,
            arguments,
            root,
            after_removal,
            network: self.network,
            ports: &self.ports,
        }
        .start(start)
    }
}
