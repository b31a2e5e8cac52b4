//! Two ends of a link: network namespaces of this machine, with none of its traffic in either; two guests;
//! or two machines.
//!
//! ```text
//! namespaces   one kernel: counters of the machine are of both ends, those of networks of each
//! guests       a kernel each, a wire of QEMU's between them; an agent in each reads its counters
//! hosts        the same, and the network between them is the one that is there
//! ```

pub mod agent;
pub mod config;
mod guests;
mod hosts;
pub(super) mod programs;
mod running;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_energy::time::Mono;
use nightwatt_environments::guard::{self, Guard, Undo};
use nightwatt_environments::{Common, EnvironmentConfig, KindConfig, Started, host, netns, shell};
use nightwatt_meters::Host;

pub use agent::{Counted, CounterRequest};
pub use config::{EndConfig, EndsConfig};
pub use running::Running;

use super::Error;
use agent::Agent;
use nightwatt_measure::counters::{Network, Process};

/// The card at each end.
pub const CARD: &str = "link0";

/// Folder with the undo lists, one for each laboratory that runs. What they list is gone after a reboot,
/// and so are the lists,
const JOURNALS: &str = "/run/nightwatt-tcp-lab";

/// except those of changes on other machines. systemd gives the folder `nightwatt` beside this one to the
/// service's user, and a list that does not belong to root is never run.
const LASTING_JOURNALS: &str = "/var/lib/nightwatt-tcp-lab";

/// Names another folder for both. Laboratories with separate folders do not know of each other: `clean`
/// undoes what is listed in its own. A relative path is ignored, as with XDG's variables.
const OWN_JOURNALS: &str = "NIGHTWATT_TCP_LISTS";

/// One end of a link.
#[derive(Debug)]
pub struct End {
    /// What it does: `sender`, `receiver`.
    pub name: &'static str,
    /// Address at which the other end reaches it.
    pub address: String,
    /// Address of its card. `None` where the network is not ours: the kernel then resolves addresses as usual.
    pub hardware_address: Option<String>,
    /// Its card; left alone if the configuration names none.
    pub card: String,
    /// Are we root there?
    pub is_root: bool,
    /// Path of our own program there.
    program: String,
    started: Started,
    counters_from: CounterSource,
}

/// How its counters are read.
#[derive(Debug)]
enum CounterSource {
    /// From the host, by the process that keeps the namespace, whose file this is.
    Namespace { file: PathBuf, keeper: u32, stop: Stop },
    /// By a program there.
    Agent { agent: Mutex<Agent>, is_behind_ssh: bool, stop: Stop },
}

impl End {
    fn namespace(
        name: &'static str,
        [address, hardware_address]: [&str; 2],
        program: &Path,
        guard: &Guard,
        stop: &Stop,
    ) -> Result<Self, Error> {
        let config = netns::Config { rate: None, delay: None, loss: None, tied: false };
        let kind = KindConfig::Netns(config);
        let config = EnvironmentConfig { common: Common::named(name), kind };
        let started = config.start(0, None, guard, stop)?;
        let facts = started.facts();
        let namespace = facts.iter().find(|(name, _)| name == netns::NAMESPACE);
        let namespace = namespace.map(|(_, path)| path.clone()).unwrap_or_default();
        let keeper = namespace.split('/').find_map(|word| word.parse().ok()).unwrap_or(0);
        let counters_from =
            CounterSource::Namespace { file: PathBuf::from(namespace), keeper, stop: stop.clone() };
        Ok(Self {
            name,
            address: address.to_owned(),
            hardware_address: Some(hardware_address.to_owned()),
            card: CARD.to_owned(),
            is_root: true,
            program: program.display().to_string(),
            started,
            counters_from,
        })
    }

    /// Runs a line of the shell there, which must succeed. Returns its output.
    pub fn run(&self, what: &str, line: &str) -> Result<String, Error> {
        // Behind ssh, a user's PATH may lack the folders of root's programs.
        let whole = format!("PATH=$PATH:/usr/sbin:/sbin\n{line}");
        running::succeed(self.started.command(&whole), what, line)
    }

    /// Starts a program there.
    pub fn spawn(&self, what: &str, words: &[String]) -> Result<Running, Error> {
        match &self.counters_from {
            CounterSource::Agent { is_behind_ssh: true, stop, .. } => {
                Running::spawn_there(self.started.place(), what, words, stop)
            }
            _ => Running::spawn(self.started.place(), what, words),
        }
    }

    /// Starts our own program there.
    pub fn spawn_ours(&self, what: &str, words: &[&str]) -> Result<Running, Error> {
        let own = std::iter::once(self.program.as_str());
        let words: Vec<String> = own.chain(words.iter().copied()).map(str::to_owned).collect();
        self.spawn(what, &words)
    }

    /// Its network as a file, where it is one of this machine's.
    pub fn network_file(&self) -> Option<&Path> {
        match &self.counters_from {
            CounterSource::Namespace { file, .. } => Some(file),
            CounterSource::Agent { .. } => None,
        }
    }

    /// Reads the counters of this end.
    pub fn count(&self, host: &Host, processes: &[u32]) -> Result<Counted, Error> {
        self.send(&CounterRequest { processes: processes.to_vec(), opened: None })?;
        self.receive(host, processes)
    }

    /// Waits until more connections have been opened there than it had counted before.
    pub fn wait_for_more(&self, host: &Host, before: &Network) -> Result<(), Error> {
        let opened = before.protocol(agent::OPENED);
        match &self.counters_from {
            CounterSource::Namespace { keeper, stop, .. } => {
                let network = || Ok(Network::read(host, *keeper, &self.card)?);
                agent::wait_for_more(opened, network, stop)
            }
            CounterSource::Agent { .. } => {
                self.send(&CounterRequest { processes: Vec::new(), opened: Some(opened) })?;
                self.receive(host, &[]).map(drop)
            }
        }
    }

    fn send(&self, request: &CounterRequest) -> Result<(), Error> {
        match &self.counters_from {
            CounterSource::Namespace { .. } => Ok(()),
            CounterSource::Agent { agent, .. } => {
                agent.lock().unwrap_or_else(PoisonError::into_inner).send(request)
            }
        }
    }

    fn receive(&self, host: &Host, processes: &[u32]) -> Result<Counted, Error> {
        match &self.counters_from {
            CounterSource::Namespace { keeper, .. } => {
                let processes = processes.iter().map(|process| Process::read(host, *process));
                let processes = processes.collect::<Result<_, _>>()?;
                let network = Network::read(host, *keeper, &self.card)?;
                let at_ns = monotonic().since(Mono::ZERO).as_nanos() as u64;
                Ok(Counted { at_ns, machine: None, network, processes })
            }
            CounterSource::Agent { agent, .. } => {
                agent.lock().unwrap_or_else(PoisonError::into_inner).receive()
            }
        }
    }

    fn stop(&self) -> &Stop {
        match &self.counters_from {
            CounterSource::Namespace { stop, .. } | CounterSource::Agent { stop, .. } => stop,
        }
    }

    /// Facts about this end for reports.
    pub fn facts(&self) -> Vec<(String, String)> {
        self.started.facts()
    }
}

/// Both ends, and where the wire between them is made. Dropped, all of it is gone.
#[derive(Debug)]
pub struct Ends {
    /// Where data come from.
    pub sender: End,
    /// Where they go to.
    pub receiver: End,
    pair: Pair,
    /// What is between namespaces, and beside the others: on this machine.
    wire: Started,
    /// The wire between guests.
    socket: Option<Undo>,
    // Last: it undoes what the others could not.
    guard: Guard,
}

/// What the two are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pair {
    /// One kernel.
    Namespaces,
    /// Guests of this machine, each with a kernel of its own.
    Guests,
    /// Machines.
    Hosts {
        /// One of them is this one.
        is_here: bool,
        /// Why nothing is emulated on them.
        bare: Option<String>,
    },
}

impl Ends {
    /// Makes them, not yet joined. `program` is our own.
    pub fn start(config: &EndsConfig, program: &Path, stop: &Stop) -> Result<Self, Error> {
        if matches!(config, EndsConfig::Namespaces) && !is_root() {
            return Err(Error::NeedsRoot);
        }
        let folder = match config {
            EndsConfig::Hosts(_) => lasting_journals(),
            EndsConfig::Namespaces | EndsConfig::Guests(_) => journals(),
        };
        make_folder(&folder)?;
        let journal = folder.join(format!("{}.journal", std::process::id()));
        let guard = Guard::start(&journal)?;
        let kind = KindConfig::Host(host::Config {});
        let wire = EnvironmentConfig { common: Common::named("wire"), kind };
        let wire = wire.start(0, None, &guard, stop)?;
        let mut socket = None;
        let ([sender, receiver], pair) = match config {
            EndsConfig::Namespaces => {
                let end = |name, addresses| End::namespace(name, addresses, program, &guard, stop);
                let sender = end("sender", guests::SENDER)?;
                ([sender, end("receiver", guests::RECEIVER)?], Pair::Namespaces)
            }
            EndsConfig::Guests(ends) => {
                let path = folder.join(format!("{}.link", std::process::id()));
                let (both, undo) = guests::start(ends, &path, program, &guard, stop)?;
                socket = Some(undo);
                (both, Pair::Guests)
            }
            EndsConfig::Hosts(ends) => hosts::start(ends, program, &guard, stop)?,
        };
        Ok(Self { sender, receiver, pair, wire, socket, guard })
    }

    /// The one, and the other.
    pub fn both(&self) -> [&End; 2] {
        [&self.sender, &self.receiver]
    }

    /// What they are.
    pub fn pair(&self) -> &Pair {
        &self.pair
    }

    /// Each counts on its own.
    pub fn are_apart(&self) -> bool {
        self.pair != Pair::Namespaces
    }

    /// A folder on this machine that is gone with them.
    pub fn scratch(&self) -> PathBuf {
        PathBuf::from(self.wire.scratch())
    }

    /// Starts a program between them.
    pub fn spawn_between(&self, what: &str, words: &[String]) -> Result<Running, Error> {
        Running::spawn(self.wire.place(), what, words)
    }

    /// What both have counted, at the same time or nearly so; of a process at each.
    pub fn count(&self, host: &Host, processes: [&[u32]; 2]) -> Result<[Counted; 2], Error> {
        let both = self.both();
        for (end, processes) in both.iter().zip(processes) {
            end.send(&CounterRequest { processes: processes.to_vec(), opened: None })?;
        }
        let sender = both[0].receive(host, processes[0]);
        // Received in any case: it would be taken for the reply to the next request.
        let receiver = both[1].receive(host, processes[1]);
        Ok([sender?, receiver?])
    }

    /// What went wrong: where an end has gone, it is that.
    pub fn explained(&self, error: Error) -> Error {
        if !self.are_apart() || matches!(error, Error::Interrupted | Error::Gone { .. }) {
            return error;
        }
        if self.sender.stop().is_stopped() {
            return Error::Interrupted;
        }
        let counts = self.both().map(|end| end.count(&Host::default(), &[]));
        let gone = counts.into_iter().find_map(|it| it.err().filter(Error::is_gone));
        gone.unwrap_or(error)
    }

    /// From now on this line of the shell is run at an end when what this gives is dropped, or by the guard,
    /// however we end. Call it before what it undoes.
    pub fn protect(&self, end: &End, line: &str) -> Result<Undo, Error> {
        let place = match self.pair {
            // It may have been started again: then the place in which programs ran is gone.
            Pair::Hosts { .. } => end.started.place().outer(),
            Pair::Namespaces | Pair::Guests => end.started.place().clone(),
        };
        let mut line = shell::join(place.argv(line));
        if let Some(file) = end.network_file() {
            line = while_it_is_there(file, &line)?;
        }
        Ok(self.guard.protect(&line)?)
    }

    /// Undoes all of it, and says whether that worked.
    pub fn finish(self) -> Result<(), Error> {
        let Self { sender, receiver, wire, socket, guard, pair: _ } = self;
        let removed = socket.map_or(Ok(()), Undo::now);
        let stopped = [wire.stop(), receiver.end(), sender.end(), removed];
        guard.finish()?;
        stopped.into_iter().collect::<Result<(), _>>().map_err(Error::from)
    }
}

impl End {
    fn end(self) -> Result<(), nightwatt_environments::Error> {
        // What speaks through a connection ends before that.
        drop(self.counters_from);
        self.started.stop()
    }
}

/// Wraps the line so that it runs only while this file under `/proc` is still the same network. If the
/// process that keeps the network has ended, its contents are gone, or the rest is in the list behind this
/// line: there is nothing to undo. By then another process may have its number.
fn while_it_is_there(network: &Path, line: &str) -> Result<String, Error> {
    let to_error = Error::system(format!("see which network {} is", network.display()));
    let now = fs::read_link(network).map_err(to_error)?;
    let [file, now] = [network, &now].map(|it| shell::quote(&it.display().to_string()));
    Ok(format!("[ \"$(readlink {file} 2>/dev/null)\" != {now} ] || {line}"))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Guests and machines behind ssh take no root here.
fn journals() -> PathBuf {
    if let Some(own) = absolute(OWN_JOURNALS) {
        return own.join("run");
    }
    if is_root() {
        return PathBuf::from(JOURNALS);
    }
    own_folder("XDG_RUNTIME_DIR").unwrap_or_else(|| folder_of_user("/tmp"))
}

fn lasting_journals() -> PathBuf {
    if let Some(own) = absolute(OWN_JOURNALS) {
        return own.join("lasting");
    }
    if is_root() {
        return PathBuf::from(LASTING_JOURNALS);
    }
    let home = || Some(absolute("HOME")?.join(".local/state/nightwatt-tcp-lab"));
    own_folder("XDG_STATE_HOME").or_else(home).unwrap_or_else(|| folder_of_user("/var/tmp"))
}

fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|it| it.is_absolute())
}

fn own_folder(variable: &str) -> Option<PathBuf> {
    absolute(variable).map(|own| own.join("nightwatt-tcp-lab"))
}

fn folder_of_user(above: &str) -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    PathBuf::from(format!("{above}/nightwatt-tcp-lab-{user}"))
}

fn make_folder(folder: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(Error::system(format!(
        "make the folder {} for what is to be undone",
        folder.display()
    )))
}

/// The result of cleaning up after killed runs.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// Number of undone changes.
    pub undone: usize,
    /// Runs that are still at work.
    pub busy: Vec<PathBuf>,
    /// Lists that could not be worked off, and why.
    pub failed: Vec<(PathBuf, Error)>,
}

/// Undoes what killed runs have left that their guardians could not undo.
pub fn clean() -> Cleaned {
    let mut cleaned = Cleaned::default();
    for folder in [journals(), lasting_journals()] {
        cleaned.of(&folder);
    }
    cleaned
}

impl Cleaned {
    /// One list that cannot be worked off does not keep the others from it.
    fn of(&mut self, folder: &Path) {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => {
                let error = Error::system("look for lists")(error);
                return self.failed.push((folder.to_owned(), error));
            }
        };
        let is_journal = |path: &PathBuf| path.extension().is_some_and(|it| it == "journal");
        for path in entries.flatten().map(|entry| entry.path()).filter(is_journal) {
            match guard::clean(&path) {
                Ok(undone) => self.undone += undone,
                Err(nightwatt_environments::Error::Busy(path)) => self.busy.push(path),
                Err(error) => self.failed.push((path, error.into())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_to_be_undone_in_a_network_is_done_when_that_is_gone() {
        let mut keeper = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let network = PathBuf::from(format!("/proc/{}/ns/net", keeper.id()));
        let line = while_it_is_there(&network, "exit 3").unwrap();
        let status = |line: &str| {
            std::process::Command::new("/bin/sh").args(["-c", line]).status().unwrap().code()
        };
        assert_eq!(status(&line), Some(3), "it is there, and what is wrong is told");
        let number = fs::read_link(&network).unwrap().display().to_string();
        let other = line.replace(&number, "net:[1]");
        assert_ne!(other, line);
        assert_eq!(status(&other), Some(0), "another process has the number");
        keeper.kill().unwrap();
        keeper.wait().unwrap();
        assert_eq!(status(&line), Some(0), "nobody has it");
        assert!(while_it_is_there(&network, "exit 3").is_err());
    }

    #[test]
    fn a_list_that_cannot_be_worked_off_does_not_keep_the_others_from_it() {
        let folder = tempfile::tempdir().unwrap();
        let lists = ["1", "2", "3"].map(|name| {
            let path = folder.path().join(format!("{name}.journal"));
            let line = if name == "2" { "+1 true\n" } else { "+1 false\n" };
            fs::write(&path, line).unwrap();
            path
        });
        let mut cleaned = Cleaned::default();
        cleaned.of(folder.path());
        assert_eq!((cleaned.undone, cleaned.busy.len(), cleaned.failed.len()), (1, 0, 2));
        assert!(cleaned.failed[0].1.to_string().contains("-c false"), "{cleaned:?}");
        assert_eq!(lists.map(|it| it.exists()), [true, false, true]);
        cleaned.of(&folder.path().join("none"));
        assert_eq!(cleaned.failed.len(), 2, "where nobody has been there is nothing to undo");
    }
}
