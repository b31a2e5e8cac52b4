//! Another root folder: the same kernel, network and processes, other programs.
//!
//! Its mounts are in a mount namespace of their own, which lasts as long as a process sleeps in it:
//! the mounts end with that process, and no other process ever sees them.

use serde::Deserialize;

use crate::needs::Needs;
use crate::start::{Created, FoundBy, Start};
use crate::started::Started;
use crate::{Error, root};

/// What it needs where it is made.
pub(crate) const NEEDS: Needs = Needs {
    root: true,
    programs: &[
        ("unshare", "install util-linux and coreutils"),
        ("nsenter", "install util-linux and coreutils"),
        ("chroot", "install util-linux and coreutils"),
    ],
};

/// Which root.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// A folder, or `host` for the host's own. It stays as it is: what is written goes elsewhere.
    #[serde(default = "host")]
    pub root: String,
}

pub(crate) fn host() -> String {
    "host".to_owned()
}

/// After [`root::SHOW`].
const KEEP: &str = r#"
mount -t proc proc "$view/proc"
mount --rbind /sys "$view/sys"
mount --rbind /dev "$view/dev"
[ ! -e /etc/resolv.conf ] || [ -e "$view/etc/resolv.conf" ] || cp /etc/resolv.conf "$view/etc/" || true
echo $$
exec sleep 2147483647 >/dev/null 2>&1
"#;

impl Config {
    pub(crate) fn start(&self, mut start: Start<'_>) -> Result<Started, Error> {
        start.need(NEEDS)?;
        let lower = root::folder(&start, &self.root)?;
        let folder = start.folder(FoundBy::Owner)?;
        let mut prefix = start.in_scope(true)?;
        let keeper: Vec<_> =
            prefix.iter().cloned().chain(root::shown(&folder, &lower, KEEP)).collect();
        let output = start.background("show it its root", &folder, &keeper, 1)?;
        let namespace = format!("--mount=/proc/{}/ns/mnt", output.join(""));
        let view = root::view(&folder);
        prefix.extend(["nsenter", &namespace, "chroot", &view, "/bin/sh", "-c"].map(str::to_owned));
        let place = start.place.within("a chroot", prefix);
        let (address, ports) = (start.outer_address.clone(), start.outer_ports.clone());
        let facts = vec![("root".to_owned(), self.root.clone())];
        start.ready(Created { place, address, ports, scratch: "/scratch".to_owned(), facts })
    }
}
