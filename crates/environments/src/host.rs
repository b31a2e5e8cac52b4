//! This machine itself; with `cpus` and `memory`, as much of it as a guest would have.

use serde::Deserialize;

use crate::Error;
use crate::start::{Created, FoundBy, Start};
use crate::started::Started;

/// There is nothing to say but what all kinds have.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {}

impl Config {
    #[expect(clippy::unused_self, reason = "as all kinds do")]
    pub(crate) fn start(&self, mut start: Start<'_>) -> Result<Started, Error> {
        let folder = start.folder(FoundBy::WhoKnowsIt)?;
        let mut prefix = start.in_scope(true)?;
        prefix.extend(["/bin/sh", "-c"].map(str::to_owned));
        let place = start.place.within("the host", prefix);
        let (address, ports) = (start.outer_address.clone(), start.outer_ports.clone());
        let scratch = format!("{folder}/scratch");
        start.ready(Created { place, address, ports, scratch, facts: Vec::new() })
    }
}
