//! A guest of QEMU, with any accelerator: from a kernel and a root, or from a disk with a system on it.
//!
//! QEMU's own network needs no root and no bridge: ports of the guest are forwarded from ports here. What
//! the guest writes to its disk is thrown away, unless `snapshot = false`.

use std::fmt::Write;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use serde::Deserialize;

use crate::needs::Needs;
use crate::ssh::{self, Login};
use crate::start::{Created, FoundBy, Start, comma_separated};
use crate::started::Started;
use crate::{Error, Memory, shell};

/// How to get the program.
pub(crate) const ADVICE: &str = "install qemu-system-x86, or another architecture's";

/// What it needs where it is made.
pub(crate) const NEEDS: Needs =
    Needs { root: false, programs: &[("ssh", "install openssh-client")] };

/// Which guest.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The program.
    #[serde(default = "program")]
    pub program: String,
    /// `kvm`, `tcg`, `tcg,thread=multi`, or what else QEMU calls it.
    #[serde(default = "accel")]
    pub accel: String,
    /// `pc`, `q35`, `virt`.
    pub machine: Option<String>,
    /// The model of its CPU: `host`.
    pub cpu: Option<String>,
    /// A kernel, where the disk does not bring one that is booted.
    pub kernel: Option<String>,
    /// What the kernel starts from.
    pub initrd: Option<String>,
    /// The kernel's command line.
    pub append: Option<String>,
    /// A file, a partition or another block device.
    pub disk: Option<String>,
    /// `raw`, `qcow2`.
    #[serde(default = "format")]
    pub disk_format: String,
    /// `virtio`, `scsi`, `ide`.
    #[serde(default = "bus")]
    pub disk_bus: String,
    /// How the host caches it: `none`, `writeback`, `writethrough`, `directsync`, `unsafe`.
    pub disk_cache: Option<String>,
    /// What is written to the disk is thrown away at the end. It is kept in a file meanwhile: without,
    /// the guest writes to the disk itself, and only one copy can run.
    #[serde(default = "yes")]
    pub snapshot: bool,
    /// Its network card: `virtio-net-pci`, `e1000`.
    #[serde(default = "card")]
    pub card: String,
    /// Ports inside that clients are to reach, besides that of ssh.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// As whom we log in.
    #[serde(default = "user")]
    pub user: String,
    /// The private key.
    pub key: Option<String>,
    /// A file with the guest's own public key. Without it we trust any server that answers on the
    /// port that QEMU forwards.
    pub host_key: Option<String>,
    /// More arguments for QEMU.
    #[serde(default)]
    pub arguments: Vec<String>,
}

fn program() -> String {
    "qemu-system-x86_64".to_owned()
}
fn accel() -> String {
    "kvm".to_owned()
}
fn format() -> String {
    "raw".to_owned()
}
fn bus() -> String {
    "virtio".to_owned()
}
fn card() -> String {
    "virtio-net-pci".to_owned()
}
fn user() -> String {
    "root".to_owned()
}
const fn yes() -> bool {
    true
}

/// As much as a small system needs.
const MEMORY: Memory = Memory(512 << 20);

/// Where a guest's `sshd` listens.
const SSH: u16 = 22;

/// How long we wait for the first bytes of `sshd`: each connection that we give up occupies it for
/// a while, and it accepts only a limited number.
const ROUND: Duration = Duration::from_secs(4);

impl Config {
    /// QEMU would search for something to boot, and we would wait for it until the time is up.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.kernel.is_none() && self.disk.is_none() && self.arguments.is_empty() {
            let why = "`qemu` has nothing to boot: give it a `disk`, a `kernel` with an `initrd`, or `arguments` \
                       that say where from";
            return Err(why.to_owned());
        }
        Ok(())
    }

    pub(crate) fn start(&self, mut start: Start<'_>) -> Result<Started, Error> {
        start.need_program(&self.program, ADVICE)?;
        start.need(NEEDS)?;
        if !self.snapshot && start.copy > 0 {
            return Err(start.refuse(
                "copies cannot share a disk that is written to: leave `snapshot = false` out",
            ));
        }
        let folder = start.folder(FoundBy::Owner)?;
        let ports = self.forwarded(&start)?;
        let mut prefix = start.in_scope(false)?;
        if let Some(cpus) = start.guest_cpus()? {
            prefix.extend(["taskset".to_owned(), "-c".to_owned(), comma_separated(&cpus)]);
        }
        let mut qemu = prefix.clone();
        // Where it keeps what the guest writes.
        qemu.extend(["env".to_owned(), format!("TMPDIR={folder}")]);
        qemu.extend(self.argv(&start, &folder, &ports));
        start.run("start QEMU", &format!("{} </dev/null", shell::join(qemu)))?;
        let at = ports[0].1;
        self.wait(&start, &folder, at)?;
        let login = self.login(&start, &folder, at)?;
        let there = ssh::connect(&mut start, &prefix, "127.0.0.1", &login, true)
            .map_err(|error| with_console(&start, &folder, error))?;
        let version = start
            .run("ask for QEMU's version", &format!("{} --version", shell::quote(&self.program)))?;
        let scratch = self.scratch(&mut start, &there)?;
        let name = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut facts = vec![
            name("engine", version.lines().next().unwrap_or_default()),
            name("accelerator", &self.accel),
            name("card", &self.card),
        ];
        if let Some(disk) = &self.disk {
            let cache = self.disk_cache.as_deref().unwrap_or("writeback");
            facts.push(name(
                "disk",
                &format!("{disk} ({}, {}, cache {cache})", self.disk_format, self.disk_bus),
            ));
        }
        let place = there.renamed("a guest");
        start.ready(Created { place, address: "127.0.0.1".to_owned(), ports, scratch, facts })
    }

    /// Ports inside, ssh first, each with a free one here.
    fn forwarded(&self, start: &Start<'_>) -> Result<Vec<(u16, u16)>, Error> {
        let port_error = |source| Error::System { attempt: "find a free port".to_owned(), source };
        // All are held until each has one.
        let mut held = Vec::new();
        for inside in std::iter::once(&SSH).chain(&self.ports) {
            if held.iter().any(|(port, _)| port == inside) {
                return Err(start.refuse(format!("port {inside} is named twice")));
            }
            held.push((*inside, TcpListener::bind("127.0.0.1:0").map_err(port_error)?));
        }
        let ports =
            held.iter().map(|(inside, listener)| Ok((*inside, listener.local_addr()?.port())));
        ports.collect::<Result<_, _>>().map_err(port_error)
    }

    fn argv(&self, start: &Start<'_>, folder: &str, ports: &[(u16, u16)]) -> Vec<String> {
        let mut argv = vec![self.program.clone()];
        let mut add = |name: &str, value: String| argv.extend([name.to_owned(), value]);
        let common = start.common;
        add("-name", start.id.clone());
        add("-accel", self.accel.clone());
        add("-m", common.memory.unwrap_or(MEMORY).mebibytes().to_string());
        add("-smp", common.cpus.unwrap_or(1).to_string());
        let optional = [
            ("-M", &self.machine),
            ("-cpu", &self.cpu),
            ("-kernel", &self.kernel),
            ("-initrd", &self.initrd),
            ("-append", &self.append),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                add(name, value.clone());
            }
        }
        if let Some(disk) = &self.disk {
            let cache =
                self.disk_cache.as_ref().map(|cache| format!(",cache={cache}")).unwrap_or_default();
            let snapshot = if self.snapshot { "on" } else { "off" };
            let (format, bus) = (&self.disk_format, &self.disk_bus);
            let interface = if bus == "scsi" { "none,id=disk" } else { bus };
            // A comma in a value is written twice.
            let file = disk.replace(',', ",,");
            add(
                "-drive",
                format!("file={file},if={interface},format={format},snapshot={snapshot}{cache}"),
            );
            if bus == "scsi" {
                add("-device", "virtio-scsi-pci".to_owned());
                add("-device", "scsi-hd,drive=disk".to_owned());
            }
        }
        let mut network = "user,id=net".to_owned();
        for (inside, here) in ports {
            let _ = write!(network, ",hostfwd=tcp:127.0.0.1:{here}-:{inside}");
        }
        add("-netdev", network);
        add("-device", format!("{},netdev=net", self.card));
        add("-device", "virtio-rng-pci".to_owned());
        add("-display", "none".to_owned());
        add("-vga", "none".to_owned());
        add("-serial", format!("file:{folder}/console"));
        add("-monitor", "none".to_owned());
        add("-qmp", format!("unix:{folder}/qmp,server=on,wait=off"));
        argv.extend(["-nodefaults", "-daemonize"].map(str::to_owned));
        argv.extend(self.arguments.iter().cloned());
        argv
    }

    /// Until `sshd` says its first word. The port is open long before that: QEMU takes connections itself.
    fn wait(&self, start: &Start<'_>, folder: &str, port: u16) -> Result<(), Error> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let speaks = || {
            let mut stream = TcpStream::connect_timeout(&address, ROUND).ok()?;
            stream.set_read_timeout(Some(ROUND)).ok()?;
            stream.read_exact(&mut [0; 4]).ok()
        };
        while speaks().is_none() {
            // If nothing listens on the port any more, QEMU has ended.
            if TcpStream::connect_timeout(&address, ROUND).is_err() || !start.wait(ROUND / 20)? {
                let error = start.late(&format!(
                    "wait for ssh in the guest, {}",
                    self.kernel.as_deref().unwrap_or("from its disk")
                ));
                return Err(with_console(start, folder, error));
            }
        }
        Ok(())
    }

    fn login(&self, start: &Start<'_>, folder: &str, port: u16) -> Result<Login, Error> {
        let mut ssh_arguments = Vec::new();
        let known_hosts = if let Some(file) = &self.host_key {
            let known = format!("{folder}/known_hosts");
            let line = format!(
                "printf '[127.0.0.1]:{port} %s\\n' \"$(cat {})\" >{}",
                shell::quote(file),
                shell::quote(&known)
            );
            start.run("take note of the guest's key", &line)?;
            known
        } else {
            ssh_arguments.extend(["-o".to_owned(), "StrictHostKeyChecking=no".to_owned()]);
            "/dev/null".to_owned()
        };
        Ok(Login {
            user: Some(self.user.clone()),
            port: Some(port),
            key: self.key.clone(),
            known_hosts: Some(known_hosts),
            // What the user's own configuration says of 127.0.0.1 is not meant for guests.
            config: Some("/dev/null".to_owned()),
            ssh_arguments,
        })
    }

    /// What is thrown away with the disk need not be removed.
    fn scratch(&self, start: &mut Start<'_>, there: &crate::ShellTarget) -> Result<String, Error> {
        let here = std::mem::replace(&mut start.place, there.clone());
        let folder = start.folder_in("/var/tmp", FoundBy::WhoKnowsIt, !self.snapshot);
        start.place = here;
        Ok(format!("{}/scratch", folder?))
    }
}

/// What the guest said last is worth more than that it did not answer.
fn with_console(start: &Start<'_>, folder: &str, error: Error) -> Error {
    let line = format!("tail -n 12 {}/console", shell::quote(folder));
    let Ok(output) = start.run("read the guest's console", &line) else { return error };
    start.refuse(format!("{error}; its console says: {}", output.trim()))
}
