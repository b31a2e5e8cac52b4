//! A configuration takes the place of the one before while everything runs on. Nothing is changed unless
//! all of it can be.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::access::AccessLog;
use crate::common::Common;
use crate::config::Config;
use crate::error::StartError;
use crate::gateway::{Gateway, Options};
use crate::listen::{self, Bound, Inherited, Post, Spoken};
use crate::live::Live;
use crate::machine::Machine;
use crate::opening::Opening;
use crate::running::Running;
use crate::site::Site;
use crate::status::ReloadStatus;
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
            Self::Shadow => "stop it and start it again: in shadow mode no server sleeps meanwhile",
            Self::Start(error) => error.hint().unwrap_or("nothing was changed"),
        }
    }
}

impl Gateway {
    /// All tasks that drive a server or a machine.
    pub(crate) fn supervisors(&self) -> impl Iterator<Item = &Arc<Supervisor>> {
        let machines = self.machines.iter().map(|it| &it.supervisor);
        let pools = self.sites.iter().filter_map(|it| it.pool.as_ref());
        let servers = pools.flat_map(|pool| pool.servers.iter().map(|it| &it.supervisor));
        machines.chain(servers).chain(self.sites.iter().map(|it| &it.supervisor))
    }

    /// Puts the proxy on the bills of its sites, or of its machines where there is no site: on each an
    /// equal part, so that all of them together have it once.
    pub(crate) fn share_out_proxy(&self) {
        let part = |count: usize| if count == 0 { 0.0 } else { 1.0 / count as f64 };
        let of_site = part(self.sites.len());
        let of_machine = if self.sites.is_empty() { part(self.machines.len()) } else { 0.0 };
        for site in &self.sites {
            site.supervisor.share_proxy(of_site);
            if let Some(shadow) = &site.shadow {
                shadow.supervisor.share_proxy(of_site);
            }
        }
        for machine in &self.machines {
            machine.supervisor.share_proxy(of_machine);
        }
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
        options: Options,
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
        // It cannot be configured otherwise, but its file may say another password now.
        let guard = self.admin_post.as_ref().map(|it| Arc::clone(&it.guard));
        let password = guard.as_ref().map(|it| it.read_anew()).transpose()?;
        let back = self.call_back(&config).await;
        let done = self.turn_to(config, options, &back);
        if done.is_ok() {
            if let Some((guard, password)) = guard.zip(password) {
                guard.turn_to(password);
            }
            self.jobs.extend(back.into_iter().flat_map(|it| it.leaving).map(Leaving::into_job));
        } else {
            self.retiring.extend(back.into_iter().map(Retired::retire));
        }
        done
    }

    /// Puts a configuration in the place of the one before; `back` are those who had left and are named
    /// again.
    fn turn_to(
        &mut self,
        config: Config,
        mut options: Options,
        back: &[Retired],
    ) -> Result<Reloaded, ReloadError> {
        let bound = self.bind_new(&config)?;
        let (old, clock) = (Arc::clone(&self.gateway), self.gateway.clock.clone());
        let controllers = std::mem::take(&mut options.controllers);
        let (own, none) = (config.clone(), HashMap::new());
        let disk = old.disk.as_ref();
        let common = Common {
            config: &own,
            clock: &clock,
            observe: false,
            durable: self.durable,
            handed: &none,
            disk,
        };
        let before = [&*old].into_iter().chain(back.iter().map(|it| &*it.gateway)).collect();
        let mut opening = Opening::new(common, controllers, &options.meters, before);
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
        gateway.share_out_proxy();
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

    /// Those who have left and are named again come back, with all who wait for them: a name must not have
    /// two drivers. What has become something else meanwhile cannot, and ends.
    async fn call_back(&mut self, config: &Config) -> Vec<Retired> {
        let kinds = kinds(config);
        let mut back = Vec::new();
        for retiring in std::mem::take(&mut self.retiring) {
            let is_named = |it: &String| kinds.contains_key(it.as_str());
            if retiring.task.is_finished() || !retiring.names.iter().any(is_named) {
                self.retiring.push(retiring);
                continue;
            }
            let Retired { gateway, hold, leaving } = retiring.call_back().await;
            let fits = fixed(&gateway.config, config).is_empty();
            let (named, rest): (Vec<_>, Vec<_>) =
                leaving.into_iter().partition(|it| kinds.contains_key(it.name.as_str()));
            if !rest.is_empty() {
                let rest = Retired { gateway: Arc::clone(&gateway), hold, leaving: rest };
                self.retiring.push(rest.retire());
            }
            if fits {
                back.push(Retired { gateway, hold, leaving: named });
            } else {
                for leaving in named {
                    leaving.end().await;
                }
            }
        }
        self.retiring.retain(|it| !it.task.is_finished());
        back
    }

    /// Listens on addresses that are not open yet.
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
        log.reopen(path).map_err(StartError::file(path))?;
        if self.gateway.access_log.is_none() {
            self.log_job = Some(tokio::spawn(AccessLog::run(Arc::clone(log))));
        }
        Ok(())
    }

    /// What is gone is left as it is, once no client waits for it: sites first, then what they stood on.
    fn retire(&mut self, old: &Arc<Gateway>, gone: &[String]) {
        if gone.is_empty() {
            return;
        }
        let is_gone = |name: &str| gone.iter().any(|it| it == name);
        let sites = old.sites.iter().filter(|it| is_gone(&it.name));
        let sites = sites.map(|it| (Arc::clone(&it.supervisor), it.name.to_string()));
        let machines = old.machines.iter().rev().filter(|it| is_gone(&it.name));
        let machines = machines.map(|it| (Arc::clone(&it.supervisor), it.name.to_string()));
        let mut leaving = Vec::new();
        for (supervisor, name) in sites.chain(machines) {
            supervisor.share_proxy(0.0);
            self.tending.remove(&name).unwrap_or_default().iter().for_each(JoinHandle::abort);
            let jobs = self.jobs.remove(&name).unwrap_or_default();
            leaving.push(Leaving { name, supervisor, jobs });
        }
        let retired = Retired { gateway: Arc::clone(old), hold: old.config.limits.hold, leaving };
        self.retiring.push(retired.retire());
    }
}

/// A site or machine that is gone from the configuration, and what still goes on by itself for it.
struct Leaving {
    name: String,
    supervisor: Arc<Supervisor>,
    jobs: Vec<JoinHandle<()>>,
}

impl Leaving {
    fn into_job(self) -> (String, Vec<JoinHandle<()>>) {
        (self.name, self.jobs)
    }

    async fn end(self) {
        for job in self.jobs {
            end(job).await;
        }
    }
}

/// Sites and machines that left with one reload, and the gateway that had them.
struct Retired {
    gateway: Arc<Gateway>,
    hold: Duration,
    /// Sites first, then what they stood on.
    leaving: Vec<Leaving>,
}

impl Retired {
    /// Each goes on until no client waits for it any more.
    fn retire(self) -> Retiring {
        let names = self.leaving.iter().map(|it| it.name.clone()).collect();
        let hurry = Arc::new(Notify::new());
        let task = tokio::spawn(retire(self, Arc::clone(&hurry)));
        Retiring { names, hurry, task }
    }
}

/// Sites and machines that are gone from the configuration, as long as a client waits for them.
pub(crate) struct Retiring {
    names: Vec<String>,
    hurry: Arc<Notify>,
    /// Returns those that clients still waited for when there was a hurry.
    task: JoinHandle<Retired>,
}

impl Retiring {
    /// Ends them now.
    pub(crate) async fn end(self) {
        for leaving in self.call_back().await.leaving {
            leaving.end().await;
        }
    }

    /// Has those back that have not ended yet.
    async fn call_back(self) -> Retired {
        self.hurry.notify_one();
        match self.task.await {
            Ok(retired) => retired,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

/// Ends one after the other, once no client waits for it or is served by it. Returns the rest if there is a
/// hurry.
async fn retire(mut retired: Retired, hurry: Arc<Notify>) -> Retired {
    while let Some(first) = retired.leaving.first() {
        tokio::select! {
            () = hurry.notified() => return retired,
            () = unneeded(&first.supervisor, retired.hold) => {}
        }
        retired.leaving.remove(0).end().await;
    }
    retired
}

/// Comes when no client waits for a server or is served by it.
async fn unneeded(supervisor: &Supervisor, hold: Duration) {
    let (mut phase, mut busy) = (supervisor.phase(), supervisor.busy());
    while supervisor.held() > 0 {
        let changed = supervisor.clock().timeout(hold, phase.changed()).await;
        if !matches!(changed, Ok(Ok(()))) {
            break;
        }
    }
    // What it stands on stays awake for clients that are still served.
    while supervisor.held() == 0 && *busy.borrow_and_update() {
        let _ = busy.changed().await;
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
