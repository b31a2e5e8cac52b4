//! Replaces the configuration while everything runs. Nothing changes unless everything can be applied.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::access_log::AccessLog;
use crate::common::Common;
use crate::config::Config;
use crate::containers::Applied;
use crate::datagrams;
use crate::error::StartError;
use crate::gateway::{Gateway, Options};
use crate::listen::{self, Bound, Inherited, Post, Spoken};
use crate::machine::Machine;
use crate::opening::{Addresses, Opening};
use crate::passthrough::{OpenAddress, Service};
use crate::ports::{self, BoundPort, Port};
use crate::retiring::{Leaving, Retired};
use crate::running::Running;
use crate::site::Site;
use crate::status::Reloaded;

/// Why the previous configuration still applies.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// Some things cannot change while the process runs.
    #[error("{} cannot change while it runs", .what.join(", "))]
    Fixed {
        /// What they are.
        what: Vec<String>,
        /// The control socket would move: a successor would not find this process.
        moves: bool,
    },
    /// Shadow mode counts from its start.
    #[error("in shadow mode (--observe) the configuration is not read again")]
    Shadow,
    /// A new part cannot be started.
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

impl Running {
    /// Replaces the configuration with `config`. Unchanged sites and machines continue untouched. Changed ones keep
    /// waiting requests, exchanges under way, ledgers and connections. `options` may name controllers for new ones.
    ///
    /// # Errors
    ///
    /// If a change is impossible, or cannot be started. Then nothing has changed.
    pub async fn reload(
        &mut self,
        config: Config,
        options: Options,
    ) -> Result<Reloaded, ReloadError> {
        let done = self.reload_with_found(config, options).await;
        let refused = done.as_ref().err().map(ToString::to_string);
        self.gateway.note_reload(refused);
        done
    }

    /// Replaces the configuration, with the sites of the containers that were found.
    async fn reload_with_found(
        &mut self,
        config: Config,
        options: Options,
    ) -> Result<Reloaded, ReloadError> {
        let found = self.watched.found.clone();
        found.meet(&config, &self.base, &self.gateway.serving.clock).await;
        let Applied { config: whole, outcomes } = found.apply(&config);
        let done = self.try_reload(whole, options).await;
        if done.is_ok() {
            found.note(&config, outcomes);
            *self.base = config;
        }
        done
    }

    /// Applies the sites of containers that came, changed or went. The rest of the configuration stays as it is. What
    /// fails is demanded again after a while.
    ///
    /// # Errors
    ///
    /// As for [`reload`](Self::reload).
    pub async fn reload_containers(&mut self) -> Result<Reloaded, ReloadError> {
        // What `status` shows of the last reload of the file stays.
        let done = self.reload_with_found((*self.base).clone(), Options::default()).await;
        let is_over = matches!(done, Ok(_) | Err(ReloadError::Shadow));
        self.watched.tried(is_over, &self.gateway.serving.clock);
        done
    }

    /// Notes for `status` that the configuration could not even be read.
    pub fn note_refused(&self, why: String) {
        self.gateway.note_reload(Some(why));
    }

    async fn try_reload(
        &mut self,
        config: Config,
        options: Options,
    ) -> Result<Reloaded, ReloadError> {
        if self.gateway.serving.observe {
            return Err(ReloadError::Shadow);
        }
        let old = &self.gateway.serving.config;
        let what = fixed(old, &config);
        if !what.is_empty() {
            let moves = old.control_socket() != config.control_socket();
            return Err(ReloadError::Fixed { what, moves });
        }
        // Its configuration cannot change, but its file may have another password now.
        let guard = self.admin_post.as_ref().map(|it| Arc::clone(&it.guard));
        let password = guard.as_ref().map(|it| it.reread()).transpose()?;
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

    /// Applies a configuration; `back` are removed parts that are configured again.
    fn turn_to(
        &mut self,
        config: Config,
        mut options: Options,
        back: &[Retired],
    ) -> Result<Reloaded, ReloadError> {
        let bound = self.bind_new(&config)?;
        let udp_bound = ports::bind(&config, &self.ports, &mut Inherited::default())?;
        let (old, clock) = (Arc::clone(&self.gateway), self.gateway.serving.clock.clone());
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
        let addresses = Addresses {
            tls: self.addresses_of(&config, &bound, Spoken::Https),
            tcp: self.addresses_of(&config, &bound, Spoken::Anything),
            udp: self.udp_addresses_of(&config, &udp_bound),
        };
        let gateway = Arc::new(opening.gateway(config, &addresses)?);
        let fronts = self.present.fronts();
        let mut posts = Vec::new();
        for (bound, spoken) in bound {
            posts.push(Post::man(bound, spoken, &fronts, &self.room)?);
        }
        self.turn_log(&gateway)?;
        // Nothing below can fail.
        let jobs = opening.commit();
        gateway.share_out_proxy();
        // Before new connections come in by the new configuration.
        gateway.front.services.all.iter().for_each(Service::shuts_out);
        self.present.turn_to(&gateway);
        self.gateway = gateway;
        for site in &self.gateway.serving.sites {
            site.doorkeeper.send_replace(site.admittance.clone());
        }
        self.jobs.extend(jobs);
        self.turn_ports(udp_bound);
        self.turn_posts(posts);
        let done = difference(&old, &self.gateway);
        for name in &done.new {
            self.tend(&name.as_str().into());
        }
        self.retire(&old, &done.gone);
        Ok(done)
    }

    /// Brings removed parts back that are configured again, with all clients that wait for them: a name must not have
    /// two drivers. Parts that have changed their kind meanwhile cannot come back, and end.
    async fn call_back(&mut self, config: &Config) -> Vec<Retired> {
        let kinds = kinds(config);
        let mut back = Vec::new();
        for retiring in std::mem::take(&mut self.retiring) {
            let is_named = |it: &String| kinds.contains_key(it.as_str());
            if retiring.is_finished() || !retiring.names.iter().any(is_named) {
                self.retiring.push(retiring);
                continue;
            }
            let Retired { gateway, hold, leaving } = retiring.call_back().await;
            let fits = fixed(&gateway.serving.config, config).is_empty();
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
        self.retiring.retain(|it| !it.is_finished());
        back
    }

    /// Listens on new addresses.
    fn bind_new(&self, config: &Config) -> Result<Vec<(Bound, Spoken)>, StartError> {
        let mut there: Vec<_> = self.posts.iter().map(|it| (it.configured, it.spoken)).collect();
        let (mut bound, all) = (Vec::new(), listen::all(config));
        for wanted in listen::posts(config) {
            if let Some(at) = there.iter().position(|it| *it == wanted) {
                there.remove(at);
                continue;
            }
            let (address, spoken) = wanted;
            bound.push((
                listen::bind(spoken.key(), address, &all, &mut Inherited::default())?,
                spoken,
            ));
        }
        Ok(bound)
    }

    /// Where it will listen by a configuration for this protocol: at existing and at new addresses.
    fn addresses_of(
        &self,
        config: &Config,
        new: &[(Bound, Spoken)],
        wanted: Spoken,
    ) -> Vec<OpenAddress> {
        let old = self.posts.iter().map(|it| (it.spoken, it.configured, it.address));
        let new = new.iter().map(|(it, spoken)| (*spoken, it.configured, it.address));
        let mut all: Vec<_> = old.chain(new).filter(|it| it.0 == wanted).collect();
        let configured = listen::posts(config).into_iter().filter(|it| it.1 == wanted);
        // Several listeners may have the same address with port 0: each is used once.
        let open = |(configured, _): (SocketAddr, Spoken)| {
            let at = all.iter().position(|it| it.1 == configured)?;
            Some(OpenAddress { configured, actual: all.remove(at).2 })
        };
        configured.filter_map(open).collect()
    }

    /// The same for datagrams.
    fn udp_addresses_of(&self, config: &Config, new: &[BoundPort]) -> Vec<OpenAddress> {
        let old = self.ports.iter().map(|it| (it.configured, it.address));
        let all: Vec<_> = old.chain(new.iter().map(|it| (it.configured, it.address))).collect();
        let open = |configured: SocketAddr| {
            let (_, actual) = *all.iter().find(|it| it.0 == configured)?;
            Some(OpenAddress { configured, actual })
        };
        datagrams::addresses(config).into_iter().filter_map(open).collect()
    }

    /// Puts sockets for datagrams in the order of the configuration; closes removed ones.
    fn turn_ports(&mut self, new: Vec<BoundPort>) {
        let fronts = self.present.fronts();
        let new = new.into_iter().map(|it| Port::serve(it, &fronts));
        let mut there: Vec<Port> = std::mem::take(&mut self.ports).into_iter().chain(new).collect();
        for wanted in datagrams::addresses(&self.gateway.serving.config) {
            let at = there.iter().position(|it| it.configured == wanted);
            self.ports.extend(at.map(|at| there.remove(at)));
        }
        there.iter().for_each(Port::close);
    }

    /// Puts listeners in the order of the configuration; closes removed ones.
    fn turn_posts(&mut self, new: Vec<Post>) {
        let mut there: Vec<Post> = std::mem::take(&mut self.posts).into_iter().chain(new).collect();
        for wanted in listen::posts(&self.gateway.serving.config) {
            let at = there.iter().position(|it| (it.configured, it.spoken) == wanted);
            self.posts.extend(at.map(|at| there.remove(at)));
        }
        there.iter_mut().for_each(Post::close);
        self.closing.retain(Post::is_manned);
        self.closing.extend(there);
        self.publish_addresses();
    }

    /// Reopens the access log, which may have been moved away, or have another path.
    fn turn_log(&mut self, gateway: &Gateway) -> Result<(), StartError> {
        let (Some(path), Some(log)) =
            (&gateway.serving.config.access_log, &gateway.serving.access_log)
        else {
            return Ok(());
        };
        log.reopen(path).map_err(StartError::file(path))?;
        if self.gateway.serving.access_log.is_none() {
            self.log_job = Some(tokio::spawn(AccessLog::run(Arc::clone(log))));
        }
        Ok(())
    }

    /// Retires removed parts once no client waits for them: sites first, then the machines under them.
    fn retire(&mut self, old: &Arc<Gateway>, gone: &[String]) {
        if gone.is_empty() {
            return;
        }
        let is_gone = |name: &str| gone.iter().any(|it| it == name);
        let sites = old.serving.sites.iter().filter(|it| is_gone(&it.name));
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
        let retired =
            Retired { gateway: Arc::clone(old), hold: old.serving.config.limits.hold, leaving };
        self.retiring.push(retired.retire());
    }
}

/// Changes that are impossible while the process runs.
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

/// The kind of each name.
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
        gateway.machines.iter().map(machine).chain(gateway.serving.sites.iter().map(site)).collect()
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
    let (old, new) = (&old.serving.config, &new.serving.config);
    (done.listens_on, done.no_longer_on) = (added(old, new), added(new, old));
    done.has_changed = old != new;
    done
}

/// Addresses that only the second configuration listens on.
fn added(first: &Config, second: &Config) -> Vec<String> {
    let there = listen::posts(first);
    let added = listen::posts(second).into_iter().filter(|it| !there.contains(it));
    let words = |(address, spoken): (SocketAddr, Spoken)| match spoken {
        Spoken::Https => format!("{address} (TLS)"),
        Spoken::Http | Spoken::Anything | Spoken::Questions => address.to_string(),
    };
    added.map(words).collect()
}
