//! A process on this machine: started to wake, stopped to sleep.
//!
//! ```toml
//! [site.power.process]
//! command = ["/usr/bin/node", "server.js"]    # in the foreground: the process is the server
//! dir = "/srv/app"                            # the proxy's by default
//! env = { PORT = "8080" }                     # beside the proxy's own environment
//! stop_signal = "TERM"                        # to the whole process group
//! stop_timeout = "30s"                        # then KILL
//! log = "/var/log/app.log"                    # STATE_DIR/SITE.process.log by default
//! ```
//!
//! # Whose process is it?
//!
//! The child outlives the proxy, so a proxy that was killed must find it again, and must never kill
//! a stranger. The child leads a process group of its own. A pid file in the state directory names
//! it by pid, start time and boot, which no other process ever shares. Between the start and the
//! pid file the proxy may die: so the child carries a mark in its environment,
//! `NIGHTWATT_CHILD_OF=STATE_DIR/SITE`, and where the pid file leads nowhere the marked leader of a
//! process group is looked for.
//!
//! Limits: what leaves the group (a daemon) is no longer ours; a program that overwrites its
//! environment (`nginx` does) is not found by the mark alone; under systemd the proxy's unit needs
//! `KillMode=process`, or stopping the proxy stops the child.

mod group;
mod pid_file;
mod procfs;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nightwatt_clock::{Clock, Elapsed};
use nightwatt_energy::duration_text;
use nightwatt_host::within;
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Deserializer};
use tokio::sync::Notify;
use tracing::{info, warn};

use crate::facts::Facts;
use crate::{ConfigError, Context, Controller, Error, Heard, News, Observed, Subject, Work};
use group::Group;
use pid_file::{Identity, PidFile};

/// The variable that marks a child as ours.
const MARK: &str = "NIGHTWATT_CHILD_OF";

/// How long a killed process may take to vanish: longer only when the kernel itself hangs.
const KILL_TIME: Duration = Duration::from_secs(5);

/// A process amid `execve` shows no environment: pause before the next look, and number of looks. On a busy
/// machine it may have to wait for a CPU meanwhile: number of looks while one without environment is busy.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
const LOOKS: u32 = 20;
const LOOKS_AT_BUSY: u32 = 100;

/// The table `[site.power.process]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Program and arguments; no shell is involved.
    #[serde(deserialize_with = "command_line")]
    pub command: Vec<String>,
    /// Where it runs.
    #[serde(default)]
    pub dir: Option<PathBuf>,
    /// Added to the proxy's own environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// What asks it to stop.
    #[serde(default)]
    pub stop_signal: StopSignal,
    /// How long it may take to stop before it is killed.
    #[serde(default = "stop_timeout", with = "duration_text")]
    pub stop_timeout: Duration,
    /// Where its output is appended.
    #[serde(default)]
    pub log: Option<PathBuf>,
}

fn stop_timeout() -> Duration {
    Duration::from_secs(30)
}

fn command_line<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let words = Vec::<String>::deserialize(deserializer)?;
    match words.first().map(String::as_str) {
        None | Some("") => Err(serde::de::Error::custom(
            "the command is empty: write the program and its arguments, as in [\"prog\", \"arg\"]",
        )),
        Some(_) => Ok(words),
    }
}

/// A signal that asks a process to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct StopSignal(Signal);

impl Default for StopSignal {
    fn default() -> Self {
        Self(Signal::TERM)
    }
}

impl TryFrom<String> for StopSignal {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        match name.strip_prefix("SIG").unwrap_or(&name) {
            "TERM" => Ok(Signal::TERM),
            "INT" => Ok(Signal::INT),
            "QUIT" => Ok(Signal::QUIT),
            "HUP" => Ok(Signal::HUP),
            "USR1" => Ok(Signal::USR1),
            "USR2" => Ok(Signal::USR2),
            // What Apache takes as "stop gracefully".
            "WINCH" => Ok(Signal::WINCH),
            "KILL" => Ok(Signal::KILL),
            _ => Err(format!(
                "`{name}` is no signal to stop with: use TERM, INT, QUIT, HUP, USR1, USR2, WINCH \
                 or KILL"
            )),
        }
        .map(Self)
    }
}

impl Config {
    /// Runs this command, everything else by default.
    pub fn new<S: Into<String>>(command: impl IntoIterator<Item = S>) -> Self {
        Self {
            command: command.into_iter().map(Into::into).collect(),
            dir: None,
            env: BTreeMap::new(),
            stop_signal: StopSignal::default(),
            stop_timeout: stop_timeout(),
            log: None,
        }
    }

    /// Whether a child that this or another proxy started runs; changes nothing. `None` if this user cannot find
    /// that out.
    pub fn has_child(&self, context: &Context) -> Option<bool> {
        let state_dir = match fs::canonicalize(&context.state_dir) {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(false),
            Err(_) => return None,
        };
        fs::read_dir(&state_dir).ok()?;
        let context = Context { state_dir, ..context.clone() };
        let pid_file = PidFile::new(context.file("process.pid"), procfs::boot_id().ok()?);
        let mark = mark_of(&context);
        let is_ours = |leader| (Group { leader, mark: &mark }).leader_runs().ok();
        match pid_file.read().map(is_ours) {
            Some(None) => None,
            Some(Some(true)) => Some(true),
            _ => Some(find_marked(&mark).ok()?.is_some()),
        }
    }

    #[expect(
        clippy::unused_self,
        reason = "as with the other drivers, which have settings that matter"
    )]
    pub(crate) fn facts(&self) -> Facts<'_> {
        Facts { is_on_this_machine: true, ..Facts::default() }
    }

    /// The controller so configured. A child that another proxy left running is found here.
    pub fn build(&self, context: &Context) -> Result<Process, ConfigError> {
        let wrong = |source| ConfigError::StateDir { path: context.state_dir.clone(), source };
        fs::create_dir_all(&context.state_dir).map_err(wrong)?;
        let state_dir = fs::canonicalize(&context.state_dir).map_err(wrong)?;
        let context = Context { state_dir, ..context.clone() };
        let pid_file = PidFile::new(
            context.file("process.pid"),
            procfs::boot_id().map_err(ConfigError::Processes)?,
        );
        let mark = mark_of(&context);
        let child = find(&pid_file, &mark).map_err(ConfigError::Processes)?;
        if let Some(child) = child {
            info!(
                site = context.site,
                pid = child.pid.as_raw_nonzero(),
                "found the process of an earlier proxy"
            );
        }
        Ok(Process {
            log: self.log.clone().unwrap_or_else(|| context.file("process.log")),
            config: self.clone(),
            clock: context.clock,
            site: context.site,
            mark,
            pid_file,
            one_at_a_time: tokio::sync::Mutex::new(()),
            child: Mutex::new(child.map(Child::new)),
            started: Notify::new(),
            ended: Mutex::new(None),
        })
    }
}

/// What marks the child in its environment; the state directory's path is canonical.
fn mark_of(context: &Context) -> String {
    format!("{MARK}={}/{}", context.state_dir.display(), context.site)
}

/// The child that an earlier proxy started, or what is left of it.
fn find(pid_file: &PidFile, mark: &str) -> io::Result<Option<Identity>> {
    let noted = pid_file.read();
    if let Some(leader) = noted
        && (Group { leader, mark }).leader_runs()?
    {
        return Ok(noted);
    }
    let found = find_marked(mark)?;
    if let Some(child) = found {
        note(pid_file, child);
    }
    // A leader that is gone may have left members of its group behind.
    Ok(found.or(noted))
}

/// The leader of a process group that carries the mark.
fn find_marked(mark: &str) -> io::Result<Option<Identity>> {
    for look in 1..=LOOKS_AT_BUSY {
        let mut leaders = procfs::all()?;
        leaders.retain(|it| it.pid.as_raw_nonzero().get() == it.group && !it.zombie);
        let (mut marked, mut hidden) = (Vec::new(), Vec::new());
        for leader in leaders {
            match procfs::has_environment(leader.pid, mark) {
                Some(true) => marked.push(leader),
                Some(false) => {}
                None => hidden.push(leader.pid),
            }
        }
        let is_marked = |pid| procfs::has_environment(pid, mark) == Some(true);
        // The child's own children inherit the mark and may lead groups too.
        let found = marked.iter().min_by_key(|it| (it.parent.is_some_and(is_marked), it.started));
        let may_be_seen_later = |pid: &Pid| look < LOOKS || procfs::is_busy(*pid);
        if found.is_some() || !hidden.iter().any(may_be_seen_later) {
            return Ok(found.map(|it| Identity { pid: it.pid, started: it.started }));
        }
        #[expect(clippy::disallowed_methods, reason = "at the start, for a process in real time")]
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(None)
}

/// Writes the pid file. A full disk is no reason to leave the site down: the mark must do then.
fn note(pid_file: &PidFile, child: Identity) {
    if let Err(error) = pid_file.write(child) {
        warn!(%error, path = %pid_file.path().display(), "cannot write the pid file");
    }
}

/// The controller; see the [module](self).
#[derive(Debug)]
pub struct Process {
    config: Config,
    clock: Clock,
    site: String,
    mark: String,
    pid_file: PidFile,
    log: PathBuf,
    /// Starting and stopping take turns.
    one_at_a_time: tokio::sync::Mutex<()>,
    child: Mutex<Option<Child>>,
    /// Notified when there is another child.
    started: Notify,
    /// The exit status of the last child, if it ended by itself.
    ended: Mutex<Option<String>>,
}

#[derive(Debug, Clone, Copy)]
struct Child {
    identity: Identity,
    /// It was told to stop: that it still runs means nothing any more.
    stopping: bool,
    /// Its end was passed on as news.
    reported: bool,
}

impl Child {
    const fn new(identity: Identity) -> Self {
        Self { identity, stopping: false, reported: false }
    }
}

impl Process {
    /// The child's pid, which is its process group's id too; none when it does not run.
    pub fn pid(&self) -> Option<i32> {
        let child = (*self.child())?;
        let runs = self.group(child.identity).leader_runs().unwrap_or(false);
        runs.then(|| child.identity.pid.as_raw_nonzero().get())
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn group(&self, leader: Identity) -> Group<'_> {
        Group { leader, mark: &self.mark }
    }

    async fn run_wake(&self) -> Result<(), Error> {
        let _turn = self.one_at_a_time.lock().await;
        self.settle()?;
        if self.observe()? == Observed::Up {
            return Ok(());
        }
        // An earlier stop was abandoned, or the process died and left children that may still hold its port.
        let left = *self.child();
        if let Some(child) = left {
            self.stop(child).await?;
        }
        self.start()
    }

    async fn run_sleep(&self) -> Result<(), Error> {
        let _turn = self.one_at_a_time.lock().await;
        self.settle()?;
        let child = *self.child();
        match child {
            Some(child) => self.stop(child).await,
            None => Ok(()),
        }
    }

    fn look(&self) -> Result<Observed, Error> {
        // If another task starts or stops it meanwhile, that task settles it as well.
        if let Ok(_turn) = self.one_at_a_time.try_lock() {
            self.settle()?;
        }
        self.observe()
    }

    fn observe(&self) -> Result<Observed, Error> {
        let Some(child) = *self.child() else { return Ok(Observed::Down) };
        let runs = self.group(child.identity).leader_runs().map_err(cannot_look)?;
        Ok(match (runs, child.stopping) {
            (true, false) => Observed::Up,
            (true, true) => Observed::Unknown,
            (false, _) => Observed::Down,
        })
    }

    /// Notices that the child has ended. Until nothing is left of its group either, its zombie
    /// stays: it proves that the group is ours.
    fn settle(&self) -> Result<(), Error> {
        let Some(child) = *self.child() else { return Ok(()) };
        let group = self.group(child.identity);
        if group.leader_runs().map_err(cannot_look)?
            || !group.members().map_err(cannot_look)?.is_empty()
        {
            return Ok(());
        }
        let status = self.forget(child.identity);
        let status = status.map_or_else(|| "unknown".to_owned(), |status| status.to_string());
        let (pid, log) = (child.identity.pid.as_raw_nonzero(), self.log.display());
        if child.stopping {
            info!(site = self.site, pid, status, "process stopped");
        } else {
            warn!(site = self.site, pid, status, %log, "the process ended by itself");
            *self.ended() = Some(status);
        }
        Ok(())
    }

    fn ended(&self) -> MutexGuard<'_, Option<String>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An error if the last child has ended by itself.
    fn check_start(&self) -> Result<(), Error> {
        if self.look()? != Observed::Down {
            return Ok(());
        }
        Err(Error::Ended {
            program: self.config.command.first().cloned().unwrap_or_default(),
            status: self.ended().clone().unwrap_or_else(|| "exit status unknown".to_owned()),
            log: self.log.clone(),
        })
    }

    /// Waits for a child that ends by itself, and reaps it.
    async fn end_of_child(&self) {
        loop {
            // Before the look at the child, so that no start is missed.
            let started = self.started.notified();
            let child = *self.child();
            let Some(child) = child.filter(|child| !child.stopping && !child.reported) else {
                started.await;
                continue;
            };
            if self.group(child.identity).leader_gone().await.is_err() {
                // Without news of it: the next probe finds it out.
                started.await;
                continue;
            }
            let _turn = self.one_at_a_time.lock().await;
            if self.note_end(child.identity) {
                if let Err(error) = self.settle() {
                    warn!(site = self.site, %error, "cannot look after the process");
                }
                return;
            }
        }
    }

    /// Notes that the end of this child is news. False if another task stopped or reaped it.
    fn note_end(&self, ended: Identity) -> bool {
        let mut child = self.child();
        let Some(child) = child.as_mut().filter(|it| it.identity == ended && !it.stopping) else {
            return false;
        };
        !std::mem::replace(&mut child.reported, true)
    }

    /// Forgets a child that has ended, and removes its pid file.
    fn forget(&self, child: Identity) -> Option<std::process::ExitStatus> {
        let status = self.group(child).reap();
        self.pid_file.remove();
        *self.child() = None;
        status
    }

    fn start(&self) -> Result<(), Error> {
        let (program, arguments) = self
            .config
            .command
            .split_first()
            .map_or(("", &[][..]), |split| (split.0.as_str(), split.1));
        let (output, errors) = self.output();
        let (_, mark) = self.mark.split_once('=').unwrap_or_default();
        let mut command = Command::new(program);
        command.args(arguments).envs(&self.config.env).env(MARK, mark).process_group(0);
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        if let Some(dir) = &self.config.dir {
            command.current_dir(dir);
        }
        let mut child = command
            .spawn()
            .map_err(|source| Error::Start { program: program.to_owned(), source })?;
        // Not waited for yet: even if it has ended by now, its entry is there. It outlives this
        // proxy, and `forget` reaps it by its pid.
        let stat = procfs::stat(Pid::from_child(&child))
            .and_then(|stat| stat.ok_or_else(|| io::ErrorKind::NotFound.into()))
            .map_err(|source| {
                let _ = child.kill().and_then(|()| child.wait());
                cannot_look(source)
            })?;
        let identity = Identity { pid: stat.pid, started: stat.started };
        *self.child() = Some(Child::new(identity));
        *self.ended() = None;
        self.started.notify_waiters();
        note(&self.pid_file, identity);
        let pid = identity.pid.as_raw_nonzero();
        info!(site = self.site, pid, "process started");
        Ok(())
    }

    /// The log, twice; nothing when it cannot be opened, which must not keep the site down.
    fn output(&self) -> (Stdio, Stdio) {
        let log = File::options().append(true).create(true).open(&self.log);
        match log.and_then(|log| Ok((log.try_clone()?, log))) {
            Ok((output, errors)) => (output.into(), errors.into()),
            Err(error) => {
                let path = self.log.display();
                warn!(site = self.site, %error, %path, "cannot open the process's log");
                (Stdio::null(), Stdio::null())
            }
        }
    }

    /// Asks all of the group to end, insists when the time is up, and waits until it has.
    async fn stop(&self, child: Child) -> Result<(), Error> {
        let Child { identity, stopping, reported } = child;
        let group = self.group(identity);
        let pid = identity.pid.as_raw_nonzero().get();
        let failed = |source| Error::System { attempt: format!("stop process {pid}"), source };
        // Many take a second request for impatience and end at once, whatever they lose.
        if !stopping {
            group.signal(self.config.stop_signal.0).map_err(failed)?;
            *self.child() = Some(Child { identity, stopping: true, reported });
            // One that is suspended notices only when it goes on.
            group.signal(Signal::CONT).map_err(failed)?;
        }
        let waited = self.config.stop_timeout;
        if let Ok(gone) = within(&self.clock, waited, group.gone()).await {
            gone.map_err(failed)?;
        } else {
            warn!(site = self.site, pid, ?waited, "the process does not stop: killing it");
            group.signal(Signal::KILL).map_err(failed)?;
            within(&self.clock, KILL_TIME, group.gone())
                .await
                .map_err(|Elapsed| Error::Unkillable { pid, waited: KILL_TIME })?
                .map_err(failed)?;
        }
        self.forget(identity);
        info!(site = self.site, pid, "process stopped");
        Ok(())
    }
}

fn cannot_look(source: io::Error) -> Error {
    Error::System { attempt: "look for the process in /proc".to_owned(), source }
}

impl Controller for Process {
    fn wake(&self) -> Work<'_, ()> {
        Box::pin(self.run_wake())
    }

    fn sleep(&self) -> Work<'_, ()> {
        Box::pin(self.run_sleep())
    }

    fn state(&self) -> Work<'_, Observed> {
        Box::pin(async { self.look() })
    }

    fn asks_others(&self) -> bool {
        true
    }

    fn still_starts(&self) -> Work<'_, ()> {
        Box::pin(async { self.check_start() })
    }

    fn heard(&self) -> News<'_> {
        Box::pin(async {
            self.end_of_child().await;
            Heard::Ended
        })
    }

    /// What is left of its group may be what answers: that is no stranger.
    fn subject(&self) -> Subject {
        let _ = self.look();
        if self.child().is_some() { Subject::Machine } else { Subject::Child }
    }
}
