//! A guest of libvirt: one that it knows and that is shut off, or one that a file describes, which is gone
//! afterwards. It is started and destroyed by virsh, and reached by ssh.

use std::time::Duration;

use serde::Deserialize;

use crate::needs::Needs;
use crate::ssh::{self, Login};
use crate::start::{Created, FoundBy, Start};
use crate::started::Started;
use crate::{Error, shell};

/// What it needs where it is made.
pub(crate) const NEEDS: Needs = Needs {
    root: false,
    programs: &[("virsh", "install libvirt-clients"), ("ssh", "install openssh-client")],
};

/// Which guest. Its CPUs, memory and pinning are libvirt's business.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The name of a guest that libvirt knows.
    pub domain: Option<String>,
    /// A file that describes a guest, in place of a name.
    pub xml: Option<String>,
    /// Which libvirt: `qemu:///system`, `xen:///system`.
    #[serde(default = "uri")]
    pub uri: String,
    /// Where the guest's `sshd` is reached; without, libvirt is asked for its address.
    pub address: Option<String>,
    /// How we log in there.
    #[serde(flatten)]
    pub login: Login,
}

fn uri() -> String {
    "qemu:///system".to_owned()
}

/// libvirt learns a guest's address when the guest asks for one; no event tells us when, so we poll.
const ROUND: Duration = Duration::from_secs(1);

impl Config {
    pub(crate) fn start(&self, mut start: Start<'_>) -> Result<Started, Error> {
        start.need(NEEDS)?;
        let virsh = shell::join(["virsh", "-q", "-c", &self.uri]);
        let version =
            start.run("ask libvirt for its version", &format!("{virsh} version | tail -n 1"))?;
        let (name, begin) = match (&self.domain, &self.xml) {
            (Some(domain), None) => (domain.clone(), format!("start {}", shell::quote(domain))),
            (None, Some(file)) => {
                let line = format!(
                    "sed -n 's|.*<name>\\(.*\\)</name>.*|\\1|p' {} | head -n 1",
                    shell::quote(file)
                );
                let name = start.run("read the guest's name", &line)?.trim().to_owned();
                (name, format!("create {}", shell::quote(file)))
            }
            _ => return Err(start.refuse("wants a `domain` or an `xml`, and not both")),
        };
        let word = shell::quote(&name);
        let state = format!("{virsh} domstate {word} 2>/dev/null");
        let now = start.run("ask for the guest's state", &format!("{state} || true"))?;
        if !["", "shut off"].contains(&now.trim()) {
            return Err(start.refuse(format!(
                "`{name}` is {} already: shut it off, or use it as it is by `kind = \"ssh\"`",
                now.trim()
            )));
        }
        // If the guest is shut off already, there is nothing to do.
        start.protect(&format!(
            "case $({state}) in '' | 'shut off') ;; *) {virsh} destroy {word} ;; esac"
        ))?;
        start.run("start the guest", &format!("{virsh} {begin}"))?;
        let address = match &self.address {
            Some(address) => address.clone(),
            None => Self::find_address(&start, &virsh, &word)?,
        };
        let prefix = start.in_scope(false)?;
        let there = ssh::connect(&mut start, &prefix, &address, &self.login, true)?;
        start.place = there.renamed("a guest of libvirt");
        start.id.push_str("-there");
        // Its disk may stay.
        let folder = start.folder(FoundBy::WhoKnowsIt)?;
        let facts =
            vec![("engine".to_owned(), version.trim().to_owned()), ("domain".to_owned(), name)];
        let (place, scratch) = (start.place.clone(), format!("{folder}/scratch"));
        start.ready(Created { place, address, ports: Vec::new(), scratch, facts })
    }

    fn find_address(start: &Start<'_>, virsh: &str, word: &str) -> Result<String, Error> {
        let line = format!(
            "{virsh} domifaddr {word} | awk '$3 == \"ipv4\" {{ sub(\"/.*\", \"\", $4); print $4; exit }}'"
        );
        loop {
            let address =
                start.run("ask libvirt for the guest's address", &line)?.trim().to_owned();
            if !address.is_empty() {
                return Ok(address);
            }
            if !start.wait(ROUND)? {
                return Err(start.refuse("libvirt does not learn its address; say it as `address`"));
            }
        }
    }
}
