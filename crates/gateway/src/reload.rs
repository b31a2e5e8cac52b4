//! A configuration takes the place of the one before while everything runs on. Nothing is changed unless
//! all of it can be.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::access::AccessLog;
use crate::config::Config;
use crate::error::StartError;
use crate::gateway::{Gateway, Options, file};
use crate::listen::{self, Bound, Inherited, Post, Spoken};
use crate::live::Live;
use crate::machine::Machine;
use crate::opening::Opening;
use crate::running::Running;
use crate::site::{Common, Site};
use crate::supervisor::{Supervisor, end};

/// What a reload did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// Sites and machines that are there from now on.
    pub new: Vec<String>,
    /// Those that are otherwise than before.
    pub changed: Vec<String>,
    /// Those that are there no more.
    pub gone: Vec<String>,
}

/// How the last reload went, for `status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadStatus {
    /// When, in ms since 1970.
    pub at_ms: i64,
    /// Why the configuration before still holds, if it does.
    pub refused: Option<String>,
}

/// The last reload, which all gateways of a process share.
pub(crate) type LastReload = Arc<Mutex<Option<ReloadStatus>>>;

/// Why the configuration before still holds.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// Some things cannot change while the process runs.
    #[error("{} cannot change while it runs", .what.join(", "))]
    Fixed {
        /// What they are.
        what: Vec<String>,
        /// The control socket would be elsewhere: who takes over would not find this process.
        moves: bool,
    },
    /// Shadow mode counts from its start.
    #[error("in shadow mode (--observe) the configuration is not read again")]
    Shadow,
    /// Something that is new cannot be begun.
    #[error(transparent)]
    Start(#[from] StartError),
}

impl ReloadError {
    /// What to try next.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Fixed { moves: true, .. } => {
                "nothing was changed; stop this process and start it with the new configuration (under \
                 systemd: `systemctl restart nightwatt`)"
            }
            Self::Fixed { moves: false, .. } => {
                "nothing was changed; under systemd `systemctl restart nightwatt` takes it, elsewhere \
                 `nightwatt serve --replace` with the new configuration does, in a new process, and no \
                 connection is lost"
            }
            Self::Shadow => "stop it and start it anew: in shadow mode no server sleeps meanwhile",
            Self::Start(StartError::Power { source, .. }) => source.hint(),
            Self::Start(error) => error.hint().unwrap_or("nothing was changed"),
        }
    }
}

impl Gateway {
    /// Everybody who drives a server or a machine.
    pub(crate) fn supervisors(&self) -> impl Iterator<Item = &Arc<Supervisor>> {
        let machines = self.machines.iter().map(|it| &it.supervisor);
        let pools = self.sites.iter().filter_map(|it| it.pool.as_ref());
        let servers = pools.flat_map(|pool| pool.servers.iter().map(|it| &it.supervisor));
        machines.chain(servers).chain(self.sites.iter().map(|it| &it.supervisor))
    }

    /// How the last reload went, if there was one.
    pub(crate) fn last_reload(&self) -> Option<ReloadStatus> {
        self.last_reload.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn note_reload(&self, refused: Option<String>) {
        let at_ms = self.clock.now().wall.0;
        let mut last = self.last_reload.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(ReloadStatus { at_ms, refused });
    }
}

impl Running {
    /// Reads `config` in the place of the configuration before. Sites and machines that did not change go
    /// on untouched. Of those that did, requests that wait, exchanges under way, ledgers and connections
    /// are kept. `options` may name controllers for what is new.
    ///
    /// # Errors
    ///
    /// If something is to change that cannot, or cannot be begun. Then nothing has changed.
    pub async fn reload(
        &mut self,
        config: Config,
        options: Options,
    ) -> Result<Reloaded, ReloadError> {
        let done = self.try_reload(config, options).await;
        let refused = done.as_ref().err().map(ToString::to_string);
        self.gateway.note_reload(refused);
        done
    }

    /// The configuration could not even be read: for `status`.
    pub fn note_refused(&self, why: String) {
        self.gateway.note_reload(Some(why));
    }

    async fn try_reload(
        &mut self,
        config: Config,
        mut options: Options,
    ) -> Result<Reloaded, ReloadError> {
        if self.gateway.observe {
            return Err(ReloadError::Shadow);
        }
        let old = &self.gateway.config;
        let what = fixed(old, &config);
        if !what.is_empty() {
            let moves = old.control_socket() != config.control_socket();
            return Err(ReloadError::Fixed { what, moves });
        }
        self.end_retired(&config).await;
        let bound = self.bind_new(&config)?;
        let (old, clock) = (Arc::clone(&self.gateway), self.gateway.clock.clone());
        let controllers = std::mem::take(&mut options.controllers);
        (options.observe, options.durable) = (false, self.durable);
        let (own, none) = (config.clone(), HashMap::new());
        let disk = old.disk.as_ref();
        let common = Common { config: &own, clock: &clock, options: &options, handed: &none, disk };
        let mut opening = Opening::new(common, controllers, Some(&*old));
        let mut gateway = Gateway::open(config, &clock, &mut opening, Some(&*old))?;
        gateway.tcp_addresses = self.tcp_addresses_of(&gateway, &bound);
        let gateway = Arc::new(gateway);
        let live = Live::of(&self.live);
        let mut posts = Vec::new();
        for (bound, spoken) in bound {
            posts.push(Post::man(bound, spoken, &live, &self.room)?);
        }
        self.turn_log(&gateway)?;
        // From here on nothing fails.
        let jobs = opening.commit();
        self.gateway = Arc::clone(&gateway);
        self.live.send_replace(gateway);
        self.jobs.extend(jobs);
        self.turn_posts(posts);
        let done = difference(&old, &self.gateway);
        for name in &done.new {
            self.tend(&name.as_str().into());
        }
        self.retire(&old, &done.gone);
        Ok(done)
    }

    /// A name that comes back must not have two drivers.
    async fn end_retired(&mut self, config: &Config) {
        let named = |name: &String| {
            config.site.iter().any(|it| it.name == *name)
                || config.machine.iter().any(|it| it.name == *name)
        };
        let (back, rest) = std::mem::take(&mut self.retiring)
            .into_iter()
            .filter(|it| !it.task.is_finished())
            .partition(|it| it.names.iter().any(named));
        self.retiring = rest;
        let back: Vec<Retiring> = back;
        for retiring in back {
            retiring.hurry().await;
        }
    }

    /// Listens where nobody listens yet.
    fn bind_new(&self, config: &Config) -> Result<Vec<(Bound, Spoken)>, StartError> {
        let mut there: Vec<_> = self.posts.iter().map(|it| (it.configured, it.spoken)).collect();
        let (mut bound, all) = (Vec::new(), listen::all(config));
        for wanted in listen::posts(config) {
            if let Some(at) = there.iter().position(|it| *it == wanted) {
                there.remove(at);
                continue;
            }
            let (address, spoken) = wanted;
            bound.push((listen::bind(address, &all, &mut Inherited::default())?, spoken));
        }
        Ok(bound)
    }

    /// Where a gateway listens for services: at addresses that were there before, and at new ones.
    fn tcp_addresses_of(&self, gateway: &Gateway, new: &[(Bound, Spoken)]) -> Vec<SocketAddr> {
        let old = self.posts.iter().map(|it| (it.spoken, it.configured, it.address));
        let new = new.iter().map(|(it, spoken)| (*spoken, it.configured, it.address));
        let all: Vec<_> = old.chain(new).filter(|it| it.0 == Spoken::Anything).collect();
        let doors = gateway.doors.iter();
        doors.filter_map(|(at, _)| Some(all.iter().find(|it| it.1 == *at)?.2)).collect()
    }

    /// Listeners in the order of the configuration; those that are gone from it close.
    fn turn_posts(&mut self, new: Vec<Post>) {
        let mut there: Vec<Post> = std::mem::take(&mut self.posts).into_iter().chain(new).collect();
        for wanted in listen::posts(&self.gateway.config) {
            let at = there.iter().position(|it| (it.configured, it.spoken) == wanted);
            self.posts.extend(at.map(|at| there.remove(at)));
        }
        there.iter_mut().for_each(Post::close);
        self.closing.retain(Post::is_manned);
        self.closing.extend(there);
        self.tell_addresses();
    }

    /// The access log may have been moved away, or be another one.
    fn turn_log(&mut self, gateway: &Gateway) -> Result<(), StartError> {
        let (Some(path), Some(log)) = (&gateway.config.access_log, &gateway.access_log) else {
            return Ok(());
        };
        log.reopen(path).map_err(file(path))?;
        if self.gateway.access_log.is_none() {
            self.log_job = Some(tokio::spawn(AccessLog::run(Arc::clone(log))));
        }
        Ok(())
    }

    /// What is gone is left as it is, once nobody waits for it: sites first, then what they stood on.
    fn retire(&mut self, old: &Gateway, gone: &[String]) {
        if gone.is_empty() {
            return;
        }
        let is_gone = |name: &str| gone.iter().any(|it| it == name);
        let sites = old.sites.iter().filter(|it| is_gone(&it.name));
        let sites = sites.map(|it| (Arc::clone(&it.supervisor), it.name.to_string()));
        let machines = old.machines.iter().rev().filter(|it| is_gone(&it.name));
        let machines = machines.map(|it| (Arc::clone(&it.supervisor), it.name.to_string()));
        let leaving: Vec<_> = sites
            .chain(machines)
            .map(|(it, name)| (it, self.jobs.remove(&name).unwrap_or_default()))
            .collect();
        let hurry = Arc::new(Notify::new());
        let work = retire(leaving, Arc::clone(&hurry), old.config.limits.hold);
        let task = tokio::spawn(work);
        self.retiring.push(Retiring { names: gone.to_vec(), hurry, task });
    }
}

/// Sites and machines that are gone from the configuration, as long as somebody waits for them.
pub(crate) struct Retiring {
    names: Vec<String>,
    hurry: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Retiring {
    /// Ends them now.
    pub(crate) async fn hurry(self) {
        self.hurry.notify_one();
        let _ = self.task.await;
    }
}

async fn retire(
    leaving: Vec<(Arc<Supervisor>, Vec<JoinHandle<()>>)>,
    hurry: Arc<Notify>,
    hold: Duration,
) {
    let mut hurried = false;
    for (supervisor, jobs) in leaving {
        let (mut phase, mut busy) = (supervisor.phase(), supervisor.busy());
        while !hurried && supervisor.held() > 0 {
            tokio::select! {
                changed = supervisor.clock().timeout(hold, phase.changed()) => {
                    if !matches!(changed, Ok(Ok(()))) {
                        break;
                    }
                }
                () = hurry.notified() => hurried = true,
            }
        }
        // What it stands on stays awake for whoever is still served.
        while !hurried && supervisor.held() == 0 && *busy.borrow_and_update() {
            tokio::select! {
                _ = busy.changed() => {}
                () = hurry.notified() => hurried = true,
            }
        }
        for job in jobs {
            end(job).await;
        }
    }
}

/// What cannot change while the process runs, and is to change.
fn fixed(old: &Config, new: &Config) -> Vec<String> {
    let mut fixed = Vec::new();
    let mut check = |same: bool, what: &dyn Fn() -> String| {
        if !same {
            fixed.push(what());
        }
    };
    check(old.state_dir == new.state_dir, &|| "`state_dir`".to_owned());
    check(old.control_socket == new.control_socket, &|| "`control_socket`".to_owned());
    check(old.admin == new.admin, &|| "`admin`".to_owned());
    check(old.meter == new.meter, &|| "`meter`".to_owned());
    check(old.cache.disk == new.cache.disk, &|| "`cache.disk`".to_owned());
    check(old.limits.connections == new.limits.connections, &|| "`limits.connections`".to_owned());
    for site in &new.site {
        let Some(was) = old.site.iter().find(|it| it.name == site.name) else { continue };
        let of = |key: &str| format!("`{key}` of site `{}`", site.name);
        check(was.meter == site.meter, &|| of("meter"));
        check(was.server == site.server, &|| of("server"));
        check(was.pool == site.pool, &|| of("pool"));
        let same = old.scenario_of(was).server == new.scenario_of(site).server;
        check(same || site.server.is_empty(), &|| of("scenario.server"));
    }
    for machine in &new.machine {
        let was = old.machine.iter().find(|it| it.name == machine.name);
        let same = was.is_none_or(|it| it.meter == machine.meter);
        check(same, &|| format!("`meter` of machine `{}`", machine.name));
    }
    let (were, are) = (kinds(old), kinds(new));
    for (name, kind) in are {
        let was = were.get(name).copied().unwrap_or(kind);
        check(was == kind, &|| format!("the {was} `{name}`, which is to be a {kind},"));
    }
    fixed
}

/// What each name is.
fn kinds(config: &Config) -> HashMap<&str, &'static str> {
    let sites = config.site.iter().map(|it| (it.name.as_str(), "site"));
    let servers = config.site.iter().flat_map(|it| &it.server);
    let servers = servers.map(|it| (it.name.as_str(), "server of a pool"));
    let machines = config.machine.iter().map(|it| (it.name.as_str(), "machine"));
    sites.chain(servers).chain(machines).collect()
}

fn difference(old: &Gateway, new: &Gateway) -> Reloaded {
    let site = |it: &Arc<Site>| (it.name.to_string(), Arc::as_ptr(it).cast::<()>());
    let machine = |it: &Arc<Machine>| (it.name.to_string(), Arc::as_ptr(it).cast::<()>());
    let all = |gateway: &Gateway| -> Vec<_> {
        gateway.machines.iter().map(machine).chain(gateway.sites.iter().map(site)).collect()
    };
    let (before, now) = (all(old), all(new));
    let mut done = Reloaded::default();
    for (name, place) in &now {
        match before.iter().find(|(it, _)| it == name) {
            None => done.new.push(name.clone()),
            Some((_, was)) if was != place => done.changed.push(name.clone()),
            Some(_) => {}
        }
    }
    let is_there = |name: &String| now.iter().any(|(it, _)| it == name);
    done.gone = before.into_iter().map(|it| it.0).filter(|it| !is_there(it)).collect();
    done
}
