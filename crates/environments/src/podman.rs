//! A container of podman: from an image, or from any folder, the host's own root included, over which it
//! lays a place for what is written.

use serde::Deserialize;

use crate::engine::{Container, Network, one_of};
use crate::needs::Needs;
use crate::start::Start;
use crate::started::Started;
use crate::{Error, remove, root, shell};

/// What it needs where it is made.
pub(crate) const NEEDS: Needs = Needs { root: false, programs: &[("podman", "install podman")] };

/// What it is made from, and how.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// A folder, or `host` for the host's own root. It stays as it is: what is written goes elsewhere.
    pub root: Option<String>,
    /// An image, by name, in place of a root.
    pub image: Option<String>,
    /// How it is tied to the network.
    #[serde(default)]
    pub network: Network,
    /// Ports inside that clients are to reach, where a `bridge` has no address that this machine reaches.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// More arguments for `podman` itself: `["--runtime", "runc"]`. Paths in them are absolute.
    #[serde(default)]
    pub engine_arguments: Vec<String>,
    /// More arguments for `podman create`: `["--ulimit", "nofile=10000:10000"]`.
    #[serde(default)]
    pub arguments: Vec<String>,
}

impl Config {
    pub(crate) fn start(&self, start: Start<'_>) -> Result<Started, Error> {
        start.need(NEEDS)?;
        let root = match one_of(&start, self.root.as_deref(), self.image.as_deref())? {
            Ok(folder) => {
                let folder = root::folder(&start, folder)?;
                vec!["--rootfs".to_owned(), format!("{folder}:O")]
            }
            // What is not here is not fetched: a plan is to run the same program each time.
            Err(image) => vec!["--pull=never".to_owned(), image.to_owned()],
        };
        let mut engine = vec!["podman".to_owned()];
        engine.extend(self.engine_arguments.iter().cloned());
        let arguments = self.arguments.clone();
        // podman 4.3 leaves what was written over a root folder where it was (seen on bookworm).
        let after_removal = format!(
            "written=$({} info --format '{{{{.Store.RunRoot}}}}')/overlay-containers/$id\n\
             {}remove \"$written\"",
            shell::join(&engine),
            remove::REMOVE
        );
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
