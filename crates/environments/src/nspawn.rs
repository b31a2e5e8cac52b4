//! A container of systemd-nspawn: processes, names and mounts of its own, the host's network.
//!
//! It needs no systemd, here or inside. A process sleeps in it, and commands enter beside that.

use serde::Deserialize;

use crate::needs::Needs;
use crate::start::{Created, FoundBy, Start};
use crate::started::Started;
use crate::{Error, chroot, remove, root, shell};

/// What it needs where it is made.
pub(crate) const NEEDS: Needs = Needs {
    root: true,
    programs: &[
        ("systemd-nspawn", "install systemd-container"),
        ("unshare", "install systemd-container"),
        ("nsenter", "install systemd-container"),
    ],
};

/// Which root.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// A folder, or `host` for the host's own. It stays as it is: what is written goes elsewhere.
    #[serde(default = "chroot::host")]
    pub root: String,
    /// More arguments for `systemd-nspawn`.
    #[serde(default)]
    pub arguments: Vec<String>,
}

/// After [`root::SHOW`]: the name, and more arguments. Its process number, then a word from within.
const SPAWN: &str = r#"name=$1; shift
stat -c %d:%i "$view" >"$folder/lock"
echo $$
exec systemd-nspawn --quiet --register=no --keep-unit --pipe --as-pid2 --machine=$name \
--directory="$view" --bind="$folder/scratch:/scratch" --timezone=off --link-journal=no "$@" \
/bin/sh -c 'echo ready; exec sleep 2147483647 >/dev/null 2>&1'
"#;

impl Config {
    pub(crate) fn start(&self, mut start: Start<'_>) -> Result<Started, Error> {
        start.need(NEEDS)?;
        let lower = root::folder(&start, &self.root)?;
        let version = start.run("ask for its version", "systemd-nspawn --version | head -n 1")?;
        let folder = start.folder(FoundBy::Owner)?;
        // Killed, it leaves where mounts would have been handed in, and its lock on the root.
        let name = start.id.clone();
        let lock = shell::quote(&format!("{folder}/lock"));
        start.protect(&format!(
            "{}for left in /run/systemd/nspawn/*/{name}; do remove \"$left\" || exit 1; done\n\
             [ ! -e {lock} ] || rm -f /run/systemd/nspawn/locks/inode-$(cat {lock})",
            remove::REMOVE
        ))?;
        let mut prefix = start.in_scope(true)?;
        let mut spawn = prefix.clone();
        spawn.extend(root::shown(&folder, &lower, SPAWN));
        spawn.push(name);
        spawn.extend(self.arguments.iter().cloned());
        let output = start.background("start systemd-nspawn", &folder, &spawn, 2)?;
        let outer = output.first().map_or("", String::as_str);
        // Its first child is process 1 within.
        let line = format!("cat /proc/{outer}/task/*/children");
        let first = start.run("look for its first process", &line)?;
        let first = first.split_whitespace().next().unwrap_or_default();
        prefix.extend(
            ["nsenter", "-t", first, "-m", "-u", "-i", "-p", "-r", "-w"].map(str::to_owned),
        );
        prefix.extend(["/bin/sh", "-c"].map(str::to_owned));
        let place = start.place.within("systemd-nspawn", prefix);
        let (address, ports) = (start.outer_address.clone(), start.outer_ports.clone());
        let facts = vec![
            ("engine".to_owned(), version.trim().to_owned()),
            ("root".to_owned(), self.root.clone()),
        ];
        start.ready(Created { place, address, ports, scratch: "/scratch".to_owned(), facts })
    }
}
