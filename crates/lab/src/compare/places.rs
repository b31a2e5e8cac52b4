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
use super::plan::{Cell, EnvironmentPlan, FactorKind, Plan, SetupKey, Site};

/// A server has so long until it can be used.
const READY_LIMIT: Duration = Duration::from_mins(1);

/// It is asked whether it can be used so often.
const ASK_EVERY: Duration = Duration::from_millis(200);

const LOOPBACK: &str = "127.0.0.1";

/// From where the load comes.
pub(crate) struct Client(Started);

impl Client {
    pub(crate) fn start(plan: &Plan, guard: &Guard, stop: &Stop) -> Result<Self, Error> {
        let host = || EnvironmentPlan::host("client");
        let client = plan.client.clone().unwrap_or_else(host);
        // A plan with a wrong one was refused.
        let config = client.config([]).map_err(Error::RunFailed)?;
        Ok(Self(config.start(0, None, guard, stop)?))
    }

    pub(crate) fn end(self) -> Result<(), Error> {
        Ok(self.0.stop()?)
    }
}

/// An environment that runs, with a workload in it.
pub(crate) struct Setup {
    pub(crate) key: SetupKey,
    pub(crate) block: u32,
    copies: Vec<Copy>,
    /// Given back last.
    settings: Vec<Set>,
    idle: Option<f64>,
    finish: Vec<String>,
    folder: PathBuf,
    stop: Stop,
}

/// One of the environments that run at once. What ends first stands first.
struct Copy {
    server: Option<Process>,
    /// The innermost, and what it is within.
    started: Vec<Started>,
}

impl Copy {
    fn inner(&self) -> &Started {
        &self.started[0]
    }
}

/// Starts a copy of an environment, and before it what it is within.
fn start(
    plan: &Plan,
    config: &EnvironmentConfig,
    copy: u32,
    (guard, stop): (&Guard, &Stop),
) -> Result<Vec<Started>, Error> {
    let named = |name: &String| plan.environments.iter().find(|it| it.name == *name);
    let outer = match config.common.within.as_ref().and_then(named) {
        None => Vec::new(),
        Some(outer) => {
            let outer = outer.config([]).map_err(Error::RunFailed)?;
            start(plan, &outer, copy, (guard, stop))?
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
        (plan, cell, block): (&Plan, &Cell, u32),
        client: &Client,
        guard: &Guard,
        (folder, stop): (&Path, &Stop),
    ) -> Result<Self, Error> {
        let workload = &plan.workloads[cell.workload];
        let mut setup = Self {
            key: plan.setup_of(cell),
            block,
            copies: Vec::new(),
            settings: Vec::new(),
            idle: None,
            finish: Vec::new(),
            folder: folder.to_owned(),
            stop: stop.clone(),
        };
        for (factor, level) in plan.factors.iter().zip(&cell.levels) {
            let (Some(level), FactorKind::Setting(setting)) = (*level, &factor.kind) else {
                continue;
            };
            let set = setting.set(Path::new("/"), &factor.values[level], guard, stop);
            setup.settings.push(failed(set, stop)?);
        }
        // A plan with a wrong one was refused.
        let config = plan.config(cell).map_err(Error::RunFailed)?;
        let copies = config.common.copies;
        for copy in 0..copies {
            let started = start(plan, &config, copy, (guard, stop))?;
            setup.copies.push(Copy { server: None, started });
        }
        for copy in 0..copies {
            setup.serve((plan, cell), copy, client)?;
        }
        let words = plan.words(cell);
        for line in &workload.finish {
            for copy in 0..copies {
                setup.finish.push(setup.filled(
                    plan,
                    cell,
                    &words,
                    (line, Site::Environment),
                    copy,
                ));
            }
        }
        Ok(setup)
    }

    /// Makes the workload of a copy ready.
    fn serve(
        &mut self,
        (plan, cell): (&Plan, &Cell),
        copy: u32,
        client: &Client,
    ) -> Result<(), Error> {
        let workload = &plan.workloads[cell.workload];
        let folder = self.folder.clone();
        let inside = Site::Environment;
        self.all((plan, cell), ("prepare", &workload.prepare, inside), copy, client)?;
        if let Some(line) = &workload.serve {
            self.check_ports(line, copy)?;
            let command = self.command(plan, cell, (line, inside), copy, client);
            let server = Process::start(command, &folder, &format!("serve-{copy}"))?;
            self.copies[copy as usize].server = Some(server);
        }
        if let Some(line) = &workload.ready {
            self.wait_ready((plan, cell, line), copy, client)?;
        }
        self.all((plan, cell), ("fill", &workload.fill, workload.at), copy, client)
    }

    /// Nobody else is to answer in the server's place.
    fn check_ports(&self, line: &str, copy: u32) -> Result<(), Error> {
        let started = self.copies[copy as usize].inner();
        for port in lines::ports(line) {
            let port = inside(started, copy, port);
            // Elsewhere nobody of ours can listen.
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
    fn all(
        &self,
        (plan, cell): (&Plan, &Cell),
        (key, lines, at): (&str, &[String], Site),
        copy: u32,
        client: &Client,
    ) -> Result<(), Error> {
        for (number, line) in lines.iter().enumerate() {
            let command = self.command(plan, cell, (line, at), copy, client);
            let name = format!("{key}-{copy}-{number}");
            let limit = plan.runs.time_limit;
            let place = (self.folder.as_path(), name.as_str());
            if let Some(why) = commands::run(command, place, limit, &self.stop)? {
                return Err(Error::RunFailed(format!("`{key}` failed: {why}")));
            }
        }
        Ok(())
    }

    fn wait_ready(
        &mut self,
        (plan, cell, line): (&Plan, &Cell, &str),
        copy: u32,
        client: &Client,
    ) -> Result<(), Error> {
        let deadline = monotonic() + READY_LIMIT;
        let at = plan.workloads[cell.workload].at;
        loop {
            let command = self.command(plan, cell, (line, at), copy, client);
            let place = (self.folder.as_path(), "ready");
            let Some(why) = commands::run(command, place, READY_LIMIT, &self.stop)? else {
                return Ok(());
            };
            let server = self.copies[copy as usize].server.as_mut();
            if let Some(server) = server
                && server.is_over()
            {
                let said = commands::last_words(server);
                return Err(Error::RunFailed(format!(
                    "the server ended before it was ready: {said}"
                )));
            }
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
    pub(crate) fn command(
        &self,
        plan: &Plan,
        cell: &Cell,
        (line, at): (&str, Site),
        copy: u32,
        client: &Client,
    ) -> Command {
        let filled = self.filled(plan, cell, &plan.words(cell), (line, at), copy);
        match at {
            Site::Environment => self.copies[copy as usize].inner().command(&filled),
            Site::Client => client.0.command(&filled),
        }
    }

    fn filled(
        &self,
        plan: &Plan,
        cell: &Cell,
        words: &[(&str, &str)],
        (line, at): (&str, Site),
        copy: u32,
    ) -> String {
        let started = self.copies[copy as usize].inner();
        let address = started.address();
        let inside = |port: u16| inside(started, copy, port);
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

    pub(crate) fn server_is_gone(&mut self) -> bool {
        self.copies.iter_mut().any(|copy| copy.server.as_mut().is_some_and(Process::is_over))
    }

    /// Ends all of it, and says whether that worked.
    pub(crate) fn end(mut self) -> Result<(), Error> {
        let per_copy = self.finish.len() / self.copies.len().max(1);
        for (number, line) in std::mem::take(&mut self.finish).iter().enumerate() {
            let copy = number % self.copies.len().max(1);
            let command = self.copies[copy].inner().command(line);
            let place = (self.folder.as_path(), &*format!("finish-{}", number / per_copy.max(1)));
            // Whatever it says: the environment ends anyway.
            let _ = commands::run(command, place, READY_LIMIT, &self.stop);
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

/// The port at which a copy's server listens. Where all share this machine's network, each copy has its
/// own.
fn inside(started: &Started, copy: u32, port: u16) -> u16 {
    let is_shared = started.address() == LOOPBACK && started.port(port) == port;
    if is_shared { port.saturating_add(copy as u16) } else { port }
}

/// What goes wrong with an environment or a setting is a run that failed, unless the user stops us.
fn failed<T>(result: Result<T, nightwatt_environments::Error>, stop: &Stop) -> Result<T, Error> {
    result.map_err(|error| {
        if stop.is_stopped() { Error::Interrupted } else { Error::RunFailed(error.to_string()) }
    })
}
