//! Container engines with Docker's command line: podman and Docker itself.

use std::fmt::Write;

use crate::process_scope::ProcessScope;
use crate::start::{Created, FoundBy, Start, comma_separated};
use crate::started::Started;
use crate::{Error, ShellTarget, shell};

/// How a container's network is tied to its host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// It is the host's.
    #[default]
    Host,
    /// A pair of virtual cards and a bridge, as engines do if nothing else is said.
    Bridge,
    /// No network.
    None,
}

impl Network {
    const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Bridge => "bridge",
            Self::None => "none",
        }
    }
}

/// What the engines' options come to.
#[derive(Debug)]
pub(crate) struct Container<'a> {
    /// The program, and what stands before the command.
    pub(crate) engine: Vec<String>,
    /// For `run`, besides ours.
    pub(crate) arguments: Vec<String>,
    /// What it is made from: `IMAGE`, or options and a folder.
    pub(crate) root: Vec<String>,
    /// What is to be done once a container is removed; `$id` is its number.
    pub(crate) after_removal: String,
    pub(crate) network: Network,
    /// Ports inside that are to be reached, where the container has no address that this machine reaches.
    pub(crate) ports: &'a [u16],
}

impl Container<'_> {
    /// Starts it with a process that only sleeps; commands are run beside that.
    pub(crate) fn start(self, mut start: Start<'_>) -> Result<Started, Error> {
        let engine = shell::join(&self.engine);
        let version = start.run("ask for its version", &format!("{engine} --version"))?;
        if self.network == Network::Bridge && !start.outer_ports.is_empty() {
            return Err(start.refuse(
                "the ports of a bridge in this guest are not forwarded: set `network = \"host\"`",
            ));
        }
        let folder = start.folder(FoundBy::WhoKnowsIt)?;
        let name = start.id.clone();
        // An engine that is interrupted leaves what watches the container, and what was to become it.
        let mut marked = ProcessScope::mark(&mut start)?;
        // Killed first: there is nothing in it that should have time to end well.
        let after = &self.after_removal;
        start.protect(&format!(
            "id=$({engine} container inspect --format '{{{{.Id}}}}' {name} 2>/dev/null) || exit 0\n\
             {engine} kill {name} >/dev/null 2>&1\n\
             {engine} rm -f {name} && {{ :; {after}\n}}"
        ))?;
        marked.extend(self.engine.iter().cloned());
        let mut create = marked.clone();
        create.extend(
            ["create", "--name", &name, "--network", self.network.name()].map(str::to_owned),
        );
        create.extend(["--entrypoint".to_owned(), String::new()]);
        create.push(format!("--volume={folder}/scratch:/scratch"));
        if let Some(cpus) = start.cpus()? {
            create.push(format!("--cpuset-cpus={}", comma_separated(&cpus)));
        }
        if let Some(memory) = start.common.memory {
            create.push(format!("--memory={}", memory.0));
        }
        if self.network == Network::Bridge {
            create.extend(self.ports.iter().map(|port| format!("--publish=127.0.0.1::{port}")));
        }
        create.extend(self.arguments.iter().cloned());
        create.extend(self.root.iter().cloned());
        create.extend(
            ["/bin/sh", "-c", "trap exit TERM; sleep 2147483647 & wait"].map(str::to_owned),
        );
        start.run("create a container", &shell::join(&create))?;
        // podman's monitor writes an empty file `oom` to its working folder if the container runs out of memory.
        marked.extend(["start".to_owned(), name.clone()]);
        let line = format!("cd {} && {}", shell::quote(&folder), shell::join(&marked));
        start.run("start a container", &line)?;
        let (address, ports) = self.reached(&start, &engine)?;
        let mut inside = self.engine.clone();
        inside.extend(["exec", "-i", &name, "/bin/sh", "-c"].map(str::to_owned));
        let place = start.place.within("a container", inside);
        let facts = vec![
            ("engine".to_owned(), version.trim().to_owned()),
            ("root".to_owned(), shell::join(&self.root)),
            ("network".to_owned(), self.network.name().to_owned()),
        ];
        start.ready(Created { place, address, ports, scratch: "/scratch".to_owned(), facts })
    }

    /// By its own address if this machine's network has it, else by ports of the place.
    fn reached(&self, start: &Start<'_>, engine: &str) -> Result<(String, Vec<(u16, u16)>), Error> {
        let outer = start.outer_address.clone();
        if self.network != Network::Bridge {
            return Ok((outer, start.outer_ports.clone()));
        }
        if start.place == ShellTarget::here() {
            let line = format!(
                "{engine} inspect --format '{{{{.NetworkSettings.IPAddress}}}}' {}",
                start.id
            );
            let address = start.run("ask for its address", &line)?.trim().to_owned();
            if !address.is_empty() {
                return Ok((address, Vec::new()));
            }
        }
        let mut line = String::new();
        for port in self.ports {
            // `0.0.0.0:49153`, and a second line for IPv6.
            let _ = writeln!(
                line,
                "echo {port} $({engine} port {} {port}/tcp | head -n 1 | sed 's/.*://')",
                start.id
            );
        }
        let output = start.run("ask for its ports", &line)?;
        let ports = output.lines().filter_map(|line| {
            let (inside, outside) = line.split_once(' ')?;
            Some((inside.parse().ok()?, outside.trim().parse().ok()?))
        });
        Ok((outer, ports.collect()))
    }
}

/// Either a root folder or an image.
pub(crate) fn one_of<'a>(
    start: &Start<'_>,
    root: Option<&'a str>,
    image: Option<&'a str>,
) -> Result<Result<&'a str, &'a str>, Error> {
    match (root, image) {
        (Some(_), Some(_)) => Err(start.refuse("has a `root` and an `image`: leave one out")),
        (root, None) => Ok(Ok(root.unwrap_or("host"))),
        (None, Some(image)) => Ok(Err(image)),
    }
}
