//! A container of LXC: processes, names and mounts of its own, the host's network.
//!
//! Nothing of it stands in LXC's own folders: its configuration and state are in a folder of ours.

use serde::Deserialize;

use crate::start::{Created, FoundBy, Start};
use crate::started::Started;
use crate::{Error, chroot, root, shell};

/// Which root.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// A folder, or `host` for the host's own. It stays as it is: what is written goes elsewhere.
    #[serde(default = "chroot::host")]
    pub root: String,
    /// More lines for its configuration: `["lxc.cap.drop = sys_time"]`.
    #[serde(default)]
    pub lines: Vec<String>,
}

/// After [`root::SHOW`]. A word from within; LXC's own process is then its parent.
const EXECUTE: &str = r#"
exec lxc-execute -n $1 -P "$folder/lxc" -f "$folder/config" -o "$folder/lxc.log" -- \
/bin/sh -c 'echo ready; exec sleep 2147483647 >/dev/null 2>&1'
"#;

impl Config {
    pub(crate) fn start(&self, mut start: Start<'_>) -> Result<Started, Error> {
        start.need_root()?;
        start.need(&["lxc-execute", "lxc-attach", "lxc-stop", "unshare"], "install lxc")?;
        let lower = root::folder(&start, &self.root)?;
        let version = start.run("ask for its version", "lxc-execute --version")?;
        let folder = start.folder(FoundBy::Owner)?;
        let scope = start.in_scope(false)?;
        let name = start.id.clone();
        let word = shell::quote(&folder);
        let line = format!(
            "cd {word} && mkdir lxc && printf %s {} >config",
            shell::quote(&self.lines(&start, &folder)?)
        );
        start.run("write its configuration", &line)?;
        start.protect(&format!(
            "[ ! -e {word}/lxc ] || lxc-stop -k -n {name} -P {word}/lxc 2>/dev/null || true"
        ))?;
        let cpus = start.on_cpus()?;
        let mut execute: Vec<_> = scope.iter().chain(&cpus).cloned().collect();
        execute.extend(root::shown(&folder, &lower, EXECUTE));
        execute.push(name.clone());
        start.background("start LXC", &folder, &execute, 1)?;
        let mut attach: Vec<_> = scope.iter().chain(&cpus).cloned().collect();
        let at = format!("{folder}/lxc");
        attach.extend(
            ["lxc-attach", "-n", &name, "-P", &at, "--", "/bin/sh", "-c"].map(str::to_owned),
        );
        let place = start.place.within("LXC", attach);
        let (address, ports) = (start.outer_address.clone(), start.outer_ports.clone());
        let facts = vec![
            ("engine".to_owned(), format!("LXC {}", version.trim())),
            ("root".to_owned(), self.root.clone()),
        ];
        start.ready(Created { place, address, ports, scratch: "/scratch".to_owned(), facts })
    }

    fn lines(&self, start: &Start<'_>, folder: &str) -> Result<String, Error> {
        let name = &start.id;
        let mut lines = vec![
            format!("lxc.uts.name = {name}"),
            format!("lxc.rootfs.path = dir:{}", root::view(folder)),
            "lxc.net.0.type = none".to_owned(),
            "lxc.mount.auto = proc:rw sys:ro".to_owned(),
            "lxc.apparmor.profile = unconfined".to_owned(),
            // Its cgroups are named after it, so that they are found.
            format!("lxc.cgroup.dir.container = {name}.payload"),
            format!("lxc.cgroup.dir.monitor = {name}.monitor"),
            format!("lxc.cgroup.dir.monitor.pivot = {name}.pivot"),
        ];
        if let Some(memory) = start.common.memory {
            let line = "[ -e /sys/fs/cgroup/cgroup.controllers ] && echo 2 || true";
            let version = start.run("ask for the version of its cgroups", line)?;
            let key = if version.trim() == "2" {
                "cgroup2.memory.max"
            } else {
                "cgroup.memory.limit_in_bytes"
            };
            lines.push(format!("lxc.{key} = {}", memory.0));
        }
        lines.extend(self.lines.iter().cloned());
        Ok(lines.join("\n") + "\n")
    }
}
