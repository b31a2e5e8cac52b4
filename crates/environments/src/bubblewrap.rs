//! Namespaces by bubblewrap: processes see each other only within one command, files of the root can be
//! read and not written, and `/tmp`, `/run` and `/var/tmp` are the environment's own.
//!
//! Each command is a sandbox of its own with the same folders, as bubblewrap is used; it needs no root.

use serde::Deserialize;

use crate::start::{Created, FoundBy, Start};
use crate::started::Started;
use crate::{Error, chroot, root, shell};

/// Which root.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// A folder, or `host` for the host's own.
    #[serde(default = "chroot::host")]
    pub root: String,
    /// More arguments for `bwrap`: `["--unshare-ipc"]`.
    #[serde(default)]
    pub arguments: Vec<String>,
}

impl Config {
    pub(crate) fn start(&self, mut start: Start<'_>) -> Result<Started, Error> {
        start.need(&["bwrap"], "install bubblewrap")?;
        let lower = root::folder(&start, &self.root)?;
        let folder = start.folder(FoundBy::Owner)?;
        let line = format!(
            "cd {} && mkdir -m 1777 tmp run var-tmp && mkdir -m 1777 tmp/scratch",
            shell::quote(&folder)
        );
        start.run("make its folders", &line)?;
        let version = start.run("ask for its version", "bwrap --version")?;
        let mut prefix = start.in_scope(true)?;
        let [scratch, tmp, run, var_tmp] =
            ["scratch", "tmp", "run", "var-tmp"].map(|name| format!("{folder}/{name}"));
        prefix.extend(
            [
                "bwrap",
                "--ro-bind",
                &lower,
                "/",
                "--dev-bind",
                "/dev",
                "/dev",
                "--proc",
                "/proc",
                "--bind",
                &tmp,
                "/tmp",
                "--bind",
                &run,
                "/run",
                "--bind",
                &var_tmp,
                "/var/tmp",
                "--bind",
                &scratch,
                "/tmp/scratch",
                "--unshare-pid",
                "--die-with-parent",
            ]
            .map(str::to_owned),
        );
        prefix.extend(self.arguments.iter().cloned());
        prefix.extend(["/bin/sh", "-c"].map(str::to_owned));
        let place = start.place.within("bubblewrap", prefix);
        let (address, ports) = (start.outer_address.clone(), start.outer_ports.clone());
        let facts = vec![
            ("engine".to_owned(), version.trim().to_owned()),
            ("root".to_owned(), self.root.clone()),
        ];
        let scratch = "/tmp/scratch".to_owned();
        start.ready(Created { place, address, ports, scratch, facts })
    }
}
