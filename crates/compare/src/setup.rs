//! Where a plan's lines run: the environment with its workload made ready, and the client.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_environments::guard::Guard;
use nightwatt_environments::settings::Set;
use nightwatt_environments::{EnvironmentConfig, Started};

use super::commands::{self, Process};
use super::error::Error;
use super::lines::{self, Values};
use super::plan::{Cell, EnvironmentPlan, Plan, SetupKey, Site};

/// Timeout for a server to become ready.
const READY_LIMIT: Duration = Duration::from_mins(1);

/// Interval between two checks of its readiness.
const ASK_EVERY: Duration = Duration::from_millis(200);

const LOOPBACK: &str = "127.0.0.1";

/// From where the load comes.
struct Client(Started);

impl Client {
    fn start(plan: &Plan, guard: &Guard, stop: &Stop) -> Result<Self, Error> {
        let host = || EnvironmentPlan::host("client");
        let client = plan.client.clone().unwrap_or_else(host);
        // A plan with a wrong one was refused.
        let config = client.config([]).map_err(Error::RunFailed)?;
        Ok(Self(failed(config.start(0, None, guard, stop), stop)?))
    }
}

/// An environment that runs, with a workload in it. Dropped, it is ended.
pub(crate) struct Setup {
    pub(crate) key: SetupKey,
    pub(crate) block: u32,
    copies: Vec<Copy>,
    /// It has one of its own, so that what a client leaves running does not load what comes later.
    client: Client,
    /// Given back last.
    settings: Vec<Set>,
    idle: Option<f64>,
    /// That the machine was not idle then.
    pub(crate) idle_warning: Option<String>,
    /// Lines for the end, with their copies and names.
    finish: Vec<(usize, String, String)>,
    folder: PathBuf,
    stop: Stop,
}

/// One of the environments that run at once. What ends first stands first.
struct Copy {
    server: Option<Process>,
    /// Offset added to its ports, since other copies may have the same network.
    shift: u16,
    /// The innermost, and what it is within.
    started: Vec<Started>,
}

impl Copy {
    fn inner(&self) -> &Started {
        &self.started[0]
    }
}

/// A copy of a cell's environment: the one that a line of the plan is run for.
#[derive(Clone, Copy)]
pub(crate) struct CopyOf<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) cell: &'a Cell,
    /// Its number, from 0.
    pub(crate) copy: u32,
}

/// Starts a copy of an environment, and before it what it is within.
fn start(
    plan: &Plan,
    config: &EnvironmentConfig,
    copy: u32,
    guard: &Guard,
    stop: &Stop,
) -> Result<Vec<Started>, Error> {
    let named = |name: &String| plan.environments.iter().find(|it| it.name == *name);
    let outer = match config.common.within.as_ref().and_then(named) {
        None => Vec::new(),
        Some(outer) => {
            let outer = outer.config([]).map_err(Error::RunFailed)?;
            start(plan, &outer, copy, guard, stop)?
        }
    };
    let mut started = vec![failed(config.start(copy, outer.first(), guard, stop), stop)?];
    started.extend(outer);
    Ok(started)
}

impl Setup {
    /// Settings, the environment, and the workload's server. What goes wrong with these is a run that
    /// failed.
    pub(crate) fn start(
        plan: &Plan,
        cell: &Cell,
        block: u32,
        guard: &Guard,
        folder: &Path,
        stop: &Stop,
    ) -> Result<Self, Error> {
        let mut setup = Self {
            key: plan.setup_of(cell),
            block,
            copies: Vec::new(),
            client: Client::start(plan, guard, stop)?,
            settings: Vec::new(),
            idle: None,
            idle_warning: None,
            finish: Vec::new(),
            folder: folder.to_owned(),
            stop: stop.clone(),
        };
        for (setting, value) in plan.settings(cell) {
            let set = setting.set(Path::new("/"), value, guard, stop);
            setup.settings.push(failed(set, stop)?);
        }
        // A plan with a wrong one was refused.
        let config = plan.config(cell).map_err(Error::RunFailed)?;
        let ports = plan.workloads[cell.workload].ports();
        for copy in 0..config.common.copies {
            let started = start(plan, &config, copy, guard, stop)?;
            let shift = shift(&config, &started[0], &ports, copy)?;
            setup.copies.push(Copy { server: None, shift, started });
        }
        // First, so that what is begun is finished, however far it got.
        setup.note_finish(plan, cell);
        for copy in 0..config.common.copies {
            setup.serve(CopyOf { plan, cell, copy })?;
        }
        Ok(setup)
    }

    /// Checks that the settings still have the values that we set.
    pub(crate) fn settings_hold(&self, plan: &Plan, cell: &Cell) -> Result<(), Error> {
        for (setting, wanted) in plan.settings(cell) {
            let now = failed(setting.strayed(Path::new("/"), wanted, &self.stop), &self.stop)?;
            if let Some(now) = now {
                let name = setting.name();
                return Err(Error::RunFailed(format!(
                    "{name} was `{now}` at the end of the run, and not `{wanted}`: something else sets it, too"
                )));
            }
        }
        Ok(())
    }

    fn note_finish(&mut self, plan: &Plan, cell: &Cell) {
        let words = plan.words(cell);
        let lines = plan.workloads[cell.workload].finish.iter().enumerate();
        for (number, line) in lines {
            for copy in 0..self.copies.len() {
                let of = CopyOf { plan, cell, copy: copy as u32 };
                let filled = self.filled(of, &words, line, Site::Environment);
                self.finish.push((copy, format!("finish-{copy}-{number}"), filled));
            }
        }
    }

    /// Makes the workload of a copy ready.
    fn serve(&mut self, of: CopyOf<'_>) -> Result<(), Error> {
        let CopyOf { plan, cell, copy } = of;
        let workload = &plan.workloads[cell.workload];
        let folder = self.folder.clone();
        let inside = Site::Environment;
        self.all(of, "prepare", &workload.prepare, inside)?;
        if let Some(line) = &workload.serve {
            self.check_ports(line, copy)?;
            let command = self.command(of, line, inside);
            let server = Process::start(command, &folder, &format!("serve-{copy}"))?;
            self.copies[copy as usize].server = Some(server);
        }
        if let Some(line) = &workload.ready {
            self.wait_ready(of, line)?;
            // Another's may have answered in its place, and is not to be filled.
            self.server_is_there()?;
        }
        self.all(of, "fill", &workload.fill, workload.at)
    }

    /// Checks that no other server already listens on the ports of the server.
    fn check_ports(&self, line: &str, copy: u32) -> Result<(), Error> {
        let started = self.copies[copy as usize].inner();
        for port in lines::ports(line) {
            let port = port + self.copies[copy as usize].shift;
            // On other addresses this machine has no listener of its own.
            if started.address() != LOOPBACK || started.port(port) != port {
                continue;
            }
            if TcpStream::connect((LOOPBACK, port)).is_ok() {
                return Err(Error::RunFailed(format!(
                    "something else listens at port {port} already: end it, or take another port in the plan"
                )));
            }
        }
        Ok(())
    }

    /// Lines one after the other; each must end well.
    fn all(&self, of: CopyOf<'_>, key: &str, lines: &[String], at: Site) -> Result<(), Error> {
        for (number, line) in lines.iter().enumerate() {
            let command = self.command(of, line, at);
            let name = format!("{key}-{}-{number}", of.copy);
            let limit = of.plan.runs.time_limit;
            if let Some(why) = commands::run(command, &self.folder, &name, limit, &self.stop)? {
                return Err(Error::RunFailed(format!("`{key}` failed: {why}")));
            }
        }
        Ok(())
    }

    fn wait_ready(&mut self, of: CopyOf<'_>, line: &str) -> Result<(), Error> {
        let deadline = monotonic() + READY_LIMIT;
        let at = of.plan.workloads[of.cell.workload].at;
        loop {
            let command = self.command(of, line, at);
            let left = deadline.since(monotonic()).max(ASK_EVERY);
            let Some(why) = commands::run(command, &self.folder, "ready", left, &self.stop)? else {
                return Ok(());
            };
            self.server_is_there()?;
            if monotonic() >= deadline {
                let limit = READY_LIMIT.as_secs();
                return Err(Error::RunFailed(format!("not ready after {limit} s: {why}")));
            }
            if self.stop.wait_until(monotonic() + ASK_EVERY) == Woken::Stopped {
                return Err(Error::Interrupted);
            }
        }
    }

    /// A line of the plan, to be run for a copy.
    pub(crate) fn command(&self, of: CopyOf<'_>, line: &str, at: Site) -> Command {
        let filled = self.filled(of, &of.plan.words(of.cell), line, at);
        match at {
            Site::Environment => self.copies[of.copy as usize].inner().command(&filled),
            Site::Client => self.client.0.command(&filled),
        }
    }

    fn filled(&self, of: CopyOf<'_>, words: &[(&str, &str)], line: &str, at: Site) -> String {
        let CopyOf { plan, cell, copy } = of;
        let started = self.copies[copy as usize].inner();
        let mut address = started.address();
        // Here is elsewhere for a client on another machine.
        if let Some(ours) = plan.address.as_ref().filter(|_| address == LOOPBACK) {
            address.clone_from(ours);
        }
        let shift = self.copies[copy as usize].shift;
        let inside = |port: u16| port + shift;
        let outside = |port: u16| started.port(inside(port));
        let values = Values {
            levels: words,
            address: if at == Site::Client { &address } else { LOOPBACK },
            port: if at == Site::Client { &outside } else { &inside },
            copy,
            scratch: &started.scratch(),
            environment: &plan.environments[cell.environment].name,
        };
        lines::fill(line, &values)
    }

    pub(crate) fn copies(&self) -> u32 {
        self.copies.len() as u32
    }

    /// Power of the environment while nothing is asked of it.
    pub(crate) fn set_idle(&mut self, watts: Option<f64>) {
        self.idle = watts;
    }

    pub(crate) fn idle_watts(&self) -> Option<f64> {
        self.idle
    }

    /// What the first copy says of itself: all are alike.
    pub(crate) fn facts(&self) -> BTreeMap<String, String> {
        let facts = self.copies.first().map(|copy| copy.inner().facts());
        facts.unwrap_or_default().into_iter().collect()
    }

    /// No server has ended.
    pub(crate) fn server_is_there(&self) -> Result<(), Error> {
        let servers = self.copies.iter().filter_map(|copy| copy.server.as_ref());
        match servers.into_iter().find(|server| server.is_over()) {
            None => Ok(()),
            Some(server) => {
                let said = commands::last_words(server);
                Err(Error::RunFailed(format!("the server ended by itself: {said}")))
            }
        }
    }

    /// Ends all of it, and says whether that worked.
    pub(crate) fn end(mut self) -> Result<(), Error> {
        self.close()
    }

    fn close(&mut self) -> Result<(), Error> {
        for (copy, name, line) in std::mem::take(&mut self.finish) {
            let command = self.copies[copy].inner().command(&line);
            // Not the user's stop: the user who interrupted waits for this. And whatever the line prints,
            // the environment ends anyway.
            if let Ok(stop) = Stop::new() {
                let _ = commands::run(command, &self.folder, &name, READY_LIMIT, &stop);
            }
        }
        let mut result = Ok(());
        for copy in self.copies.drain(..) {
            drop(copy.server);
            for started in copy.started {
                result = result.and(started.stop());
            }
        }
        for set in self.settings.drain(..).rev() {
            result = result.and(set.restore());
        }
        Ok(result?)
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        // The guard tries again at the end, and then it counts.
        self.close().unwrap_or_else(|error| tracing::warn!("{error}"));
    }
}

/// By how much the ports of a copy are shifted. Where all share a network, each copy has its own: this
/// machine's, or that of one behind ssh.
fn shift(
    config: &EnvironmentConfig,
    started: &Started,
    ports: &[u16],
    copy: u32,
) -> Result<u16, Error> {
    let (Some(least), Some(most)) = (ports.iter().min(), ports.iter().max()) else { return Ok(0) };
    let is_here = started.address() == LOOPBACK && started.port(*least) == *least;
    if !is_here && config.kind.name() != "ssh" {
        return Ok(0);
    }
    let span = u32::from(most - least) + 1;
    let highest =
        span.checked_mul(copy).and_then(|shift| u16::try_from(shift + u32::from(*most)).ok());
    highest.map(|highest| highest - most).ok_or_else(|| {
        Error::RunFailed(format!("copy {copy} has no ports left: take lower ones in the plan"))
    })
}

fn failed<T>(result: Result<T, nightwatt_environments::Error>, stop: &Stop) -> Result<T, Error> {
    result.map_err(|error| Error::of_run(error, stop))
}
