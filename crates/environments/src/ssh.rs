//! Any machine or guest that is reached by ssh, as it stands there: a guest of Xen or `ESXi`, another server,
//! a board.
//!
//! One connection is kept open, and commands share it. What runs there is kept together and ended as it
//! would be here.

use std::time::Duration;

use serde::Deserialize;

use crate::needs::Needs;
use crate::start::{Created, FoundBy, Start};
use crate::started::Started;
use crate::{Error, ShellTarget, shell};

/// What it needs where it is made.
pub(crate) const NEEDS: Needs =
    Needs { root: false, programs: &[("ssh", "install openssh-client")] };

/// Which machine.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Its name or address, or what `~/.ssh/config` calls it.
    pub host: String,
    /// How we log in there.
    #[serde(flatten)]
    pub login: Login,
}

/// How we log in. Keys and agents only: no user is there to type a password.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Login {
    /// As whom.
    pub user: Option<String>,
    /// Where its `sshd` listens.
    pub port: Option<u16>,
    /// The private key.
    pub key: Option<String>,
    /// The keys of machines that are known.
    pub known_hosts: Option<String>,
    /// A configuration of ssh, in place of the user's own.
    pub config: Option<String>,
    /// More arguments for `ssh`: `["-J", "gateway"]`.
    #[serde(default)]
    pub ssh_arguments: Vec<String>,
}

impl Login {
    /// `ssh` and what it needs for every connection; the host comes behind.
    fn argv(&self) -> Vec<String> {
        let mut argv = vec!["ssh".to_owned()];
        let mut add = |words: [&str; 2]| argv.extend(words.map(str::to_owned));
        if let Some(config) = &self.config {
            add(["-F", config]);
        }
        if let Some(user) = &self.user {
            add(["-l", user]);
        }
        if let Some(port) = self.port {
            add(["-p", &port.to_string()]);
        }
        if let Some(key) = &self.key {
            add(["-i", key]);
            add(["-o", "IdentitiesOnly=yes"]);
        }
        if let Some(known) = &self.known_hosts {
            // Else ssh takes words for several files.
            let known = known.replace('\\', "\\\\").replace('"', "\\\"");
            add(["-o", &format!("UserKnownHostsFile=\"{known}\"")]);
        }
        add(["-o", "BatchMode=yes"]);
        // A machine that is gone is noticed within a minute.
        add(["-o", "ServerAliveInterval=15"]);
        add(["-o", "ConnectTimeout=20"]);
        argv.extend(self.ssh_arguments.iter().cloned());
        argv
    }
}

/// What ssh says when it is of no use to try again.
const FINAL: [&str; 3] = ["Permission denied", "verification failed", "Bad configuration"];

/// Opens the connection that is shared, in the scope that starts with `prefix`, and gives the place behind.
pub(crate) fn connect(
    start: &mut Start<'_>,
    prefix: &[String],
    host: &str,
    login: &Login,
    is_starting: bool,
) -> Result<ShellTarget, Error> {
    // The path of a socket may have no more than some hundred characters.
    let own = format!("/tmp/{}.ssh", start.id);
    start.protect(&format!("rm -rf {own}"))?;
    // In a folder that every user may write to, the shell would follow a symbolic link in the log's place.
    start.run("make a folder for ssh", &format!("mkdir -m 700 {own}"))?;
    let socket = format!("{own}/s");
    let mut master = prefix.to_vec();
    master.extend(login.argv());
    master.extend(
        ["-M", "-S", &socket, "-o", "ControlPersist=no", "-f", "-N", host].map(str::to_owned),
    );
    let line = format!(
        "{} </dev/null >/dev/null 2>{socket}.log || {{ cat {socket}.log >&2; exit 1; }}",
        shell::join(master)
    );
    let what = format!("log in on {host} by ssh");
    while let Err(error) = start.run(&what, &line) {
        let text = error.to_string();
        // A system that starts takes connections before it is ready for them.
        let is_final = !is_starting || FINAL.iter().any(|words| text.contains(words));
        if is_final || !start.wait(Duration::from_secs(1))? {
            return Err(error);
        }
    }
    let mut each = login.argv();
    each.extend(
        ["-S", &socket, "-o", "ControlMaster=no", "-o", "LogLevel=ERROR", host].map(str::to_owned),
    );
    Ok(start.place.behind(host, each))
}

impl Config {
    pub(crate) fn start(&self, mut start: Start<'_>) -> Result<Started, Error> {
        start.need(NEEDS)?;
        let prefix = start.in_scope(false)?;
        let there = connect(&mut start, &prefix, &self.host, &self.login, false)?;
        let line = format!(
            "ssh -V 2>&1; {} -G {}",
            shell::join(self.login.argv()),
            shell::quote(&self.host)
        );
        let output = start.run("ask ssh for its version, and for the host's address", &line)?;
        let address = output.lines().find_map(|line| line.strip_prefix("hostname "));
        let address = address.unwrap_or(&self.host).to_owned();
        let version = output.lines().next().unwrap_or_default().to_owned();
        start.place = there;
        // Should it be this very machine, the end of what is there must not end the connection.
        start.id.push_str("-there");
        let folder = start.folder(FoundBy::WhoKnowsIt)?;
        let mut inside = start.in_scope(false)?;
        inside.extend(["/bin/sh", "-c"].map(str::to_owned));
        let place = start.place.within("a login", inside);
        let facts = vec![("by".to_owned(), version), ("host".to_owned(), self.host.clone())];
        let scratch = format!("{folder}/scratch");
        start.ready(Created { place, address, ports: Vec::new(), scratch, facts })
    }
}
