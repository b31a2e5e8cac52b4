//! An environment that runs.

use std::process::Command;

use crate::guard::Undo;
use crate::{Error, ShellTarget};

/// What it is like inside, a line for each; what a system does not have is left away.
pub(crate) const FACTS: &str = "\
echo \"kernel=$(uname -sr)\"
echo \"machine=$(uname -m)\"
echo \"system=$(. /etc/os-release 2>/dev/null; echo \"$PRETTY_NAME\")\"
echo \"cpus=$(nproc 2>/dev/null)\"
echo \"memory_kib=$(sed -n 's/^MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo 2>/dev/null)\"
true";

/// An environment in which commands can run. Dropped, it is ended; [`stop`](Self::stop) also says
/// whether that worked.
#[derive(Debug)]
pub struct Started {
    place: ShellTarget,
    address: String,
    ports: Vec<(u16, u16)>,
    scratch: String,
    facts: Vec<(String, String)>,
    undos: Vec<Undo>,
}

impl Started {
    pub(crate) fn new(
        place: ShellTarget,
        address: String,
        ports: Vec<(u16, u16)>,
        scratch: String,
        facts: Vec<(String, String)>,
        undos: Vec<Undo>,
    ) -> Self {
        Self { place, address, ports, scratch, facts, undos }
    }

    /// A command that runs a line of the shell inside. Its input, output, errors and exit status are the
    /// line's. The caller may kill it; what it then leaves running inside ends with the environment.
    pub fn command(&self, line: &str) -> Command {
        self.place.command(line)
    }

    /// Where lines run, for callers that record how.
    pub fn place(&self) -> &ShellTarget {
        &self.place
    }

    /// Where a client on this machine reaches it: an address or a name.
    pub fn address(&self) -> String {
        self.address.clone()
    }

    /// Under which port of [`address`](Self::address) a client reaches this port inside.
    pub fn port(&self, inside: u16) -> u16 {
        self.ports.iter().find(|(port, _)| *port == inside).map_or(inside, |(_, outside)| *outside)
    }

    pub(crate) fn ports(&self) -> &[(u16, u16)] {
        &self.ports
    }

    /// A folder inside: empty at the start, gone with the environment.
    pub fn scratch(&self) -> String {
        self.scratch.clone()
    }

    /// Versions, kernel, CPUs and memory as they came out: name and value.
    pub fn facts(&self) -> Vec<(String, String)> {
        self.facts.clone()
    }

    /// Ends it, and all that runs in it.
    pub fn stop(mut self) -> Result<(), Error> {
        undo_all(&mut self.undos)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        undo_all(&mut self.undos).unwrap_or_else(|error| tracing::warn!("{error}"));
    }
}

/// The latest first; all of it, whatever fails. The first failure is the one that is told.
pub(crate) fn undo_all(undos: &mut Vec<Undo>) -> Result<(), Error> {
    let mut first = Ok(());
    while let Some(undo) = undos.pop() {
        let done = undo.now();
        first = first.and(done);
    }
    first
}
