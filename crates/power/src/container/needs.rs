//! Containers that another one needs: started before it in their order, and stopped after it in the reverse order,
//! unless a further container that needs them runs, or another site controls them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Api, State};
use crate::Error;

/// Time between two looks at a container that is being started.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The containers of one daemon that have a controller.
#[derive(Debug, Default)]
struct Users {
    /// Name, and what it needs. Twice while a reload replaces its controller.
    all: Vec<(String, Vec<String>)>,
    /// Those that are being woken: they need their containers, although they do not run yet.
    waking: Vec<String>,
    /// Needed containers that did not run until they were started for another one.
    started: HashSet<String>,
    /// For each needed container: held while it is started, and while it is decided whether it is stopped, and that is
    /// done. Never while it is waited for.
    turns: HashMap<String, Arc<tokio::sync::Mutex<()>>>,
}

static USERS: LazyLock<Mutex<HashMap<String, Users>>> = LazyLock::new(Mutex::default);

fn users() -> MutexGuard<'static, HashMap<String, Users>> {
    USERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which of the needed containers are stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Released {
    /// All: the one that needs them sleeps.
    All,
    /// Those that were started for others: the site of the one that needs them is gone.
    Started,
}

/// What a container needs. Others know of it as long as this exists.
#[derive(Debug)]
pub(crate) struct Needs {
    daemon: String,
    name: String,
    pub(super) names: Vec<String>,
}

/// A container that is being woken: nothing that it needs is stopped while this exists.
#[derive(Debug)]
pub(super) struct Waking<'a>(&'a Needs);

impl Drop for Waking<'_> {
    fn drop(&mut self) {
        let mut users = users();
        let Some(entry) = users.get_mut(&self.0.daemon) else { return };
        if let Some(at) = entry.waking.iter().position(|it| *it == self.0.name) {
            entry.waking.swap_remove(at);
        }
    }
}

impl Needs {
    /// What the container with this name needs, in the order in which it is started.
    pub(crate) fn new(daemon: &super::Address, name: &str, names: &[String]) -> Self {
        let daemon = daemon.to_string();
        let entry = (name.to_owned(), names.to_vec());
        users().entry(daemon.clone()).or_default().all.push(entry);
        Self { daemon, name: name.to_owned(), names: names.to_vec() }
    }

    /// Notes that the container is being woken.
    pub(super) fn waking(&self) -> Waking<'_> {
        users().entry(self.daemon.clone()).or_default().waking.push(self.name.clone());
        Waking(self)
    }

    /// The lock of a needed container.
    fn turn(&self, needed: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut users = users();
        let turns = &mut users.entry(self.daemon.clone()).or_default().turns;
        // Those that are used by none begin again.
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(needed.to_owned()).or_default())
    }

    /// Whether this container is being woken.
    fn is_waking(&self, user: &str) -> bool {
        let users = users();
        let waking = users.get(&self.daemon).map_or(&[][..], |it| &it.waking);
        waking.iter().any(|it| it == user)
    }

    /// The containers that need this one.
    fn all_that_need(&self, name: &str) -> Vec<String> {
        let users = users();
        let all = users.get(&self.daemon).map_or(&[][..], |it| &it.all);
        let those = all.iter().filter(|(_, needs)| needs.iter().any(|it| it == name));
        those.map(|(user, _)| user.clone()).collect()
    }

    /// Whether a site controls this container itself.
    fn is_controlled(&self, name: &str) -> bool {
        let users = users();
        users.get(&self.daemon).is_some_and(|it| it.all.iter().any(|(user, _)| user == name))
    }

    /// Notes whether a container runs because it was started for another one.
    fn note_started(&self, name: &str, is_started: bool) {
        let mut users = users();
        let started = &mut users.entry(self.daemon.clone()).or_default().started;
        if is_started {
            started.insert(name.to_owned());
        } else {
            started.remove(name);
        }
    }

    fn was_started(&self, name: &str) -> bool {
        users().get(&self.daemon).is_some_and(|it| it.started.contains(name))
    }
}

impl Drop for Needs {
    fn drop(&mut self) {
        let mut users = users();
        let Some(entry) = users.get_mut(&self.daemon) else { return };
        let is_this =
            |(name, needs): &(String, Vec<String>)| *name == self.name && *needs == self.names;
        if let Some(at) = entry.all.iter().position(is_this) {
            entry.all.swap_remove(at);
        }
    }
}

impl Needs {
    /// Starts what it needs, each once the one before runs and, if it has a health check, is healthy.
    pub(super) async fn start(&self, api: &Api) -> Result<(), Error> {
        for name in &self.names {
            {
                let turn = self.turn(name);
                let _turn = turn.lock().await;
                if api.start(name).await? {
                    self.note_started(name, true);
                }
            }
            self.wait_for(api, name).await?;
        }
        Ok(())
    }

    /// Waits until a needed container is ready. One that is not after `timeout` is not waited for any longer: the
    /// container that needs it may know better.
    async fn wait_for(&self, api: &Api, name: &str) -> Result<(), Error> {
        let until = api.clock.now().mono + api.timeout;
        loop {
            let (state, is_unhealthy) = api.inspect(name).await?;
            if state == State::Running && !is_unhealthy {
                return Ok(());
            }
            if api.clock.now().mono >= until {
                tracing::warn!(
                    container = self.name,
                    needs = name,
                    "a container that it needs is not ready: it is started nevertheless"
                );
                return Ok(());
            }
            api.clock.sleep(LOOK_EVERY).await;
        }
    }

    /// Stops what it needs and no container does that runs or is woken, last first. It sleeps already, so that a failure
    /// is only logged.
    pub(super) async fn stop(&self, api: &Api, which: Released) {
        for name in self.names.iter().rev() {
            if which == Released::Started && !self.was_started(name) {
                continue;
            }
            if let Err(error) = self.stop_if_free(api, name).await {
                tracing::warn!(
                    container = self.name,
                    needs = name,
                    %error,
                    hint = error.hint(),
                    "a container that it needs was not stopped"
                );
            }
        }
    }

    async fn stop_if_free(&self, api: &Api, name: &str) -> Result<(), Error> {
        // One that begins to be woken from here on waits for this before it starts what it needs.
        let turn = self.turn(name);
        let _turn = turn.lock().await;
        if self.is_controlled(name) {
            tracing::debug!(needs = name, "is left running: it has a site of its own");
            return Ok(());
        }
        // This one is among them: it may be woken meanwhile, also by another process.
        for user in self.all_that_need(name) {
            if self.is_waking(&user) {
                tracing::debug!(
                    needs = name,
                    user,
                    "is left running for a container that is woken"
                );
                return Ok(());
            }
            // One that was removed does not need it any more. Of one that cannot be asked about, that is unknown: an
            // error leaves it running.
            let state = api.state_if_there(&user).await?;
            if matches!(state, Some(State::Running | State::Changing | State::Paused)) {
                tracing::debug!(needs = name, user, "is left running for a container that runs");
                return Ok(());
            }
        }
        if api.inspect(name).await?.0 == State::Running {
            api.stop(name).await?;
        }
        self.note_started(name, false);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use nightwatt_clock::Clock;

    use super::super::Address;
    use super::*;
    use crate::Context;

    #[test]
    fn containers_know_who_else_needs_what_they_need() {
        let daemon = Address::Tcp("127.0.0.1:1".to_owned());
        let of = |name: &str, needs: &[&str]| {
            let needs: Vec<String> = needs.iter().map(|&it| it.to_owned()).collect();
            Needs::new(&daemon, name, &needs)
        };
        let web = of("web", &["db", "cache"]);
        assert_eq!(web.all_that_need("db"), ["web"]);
        let wiki = of("wiki", &["db"]);
        assert_eq!(web.all_that_need("db"), ["web", "wiki"]);
        assert_eq!(web.all_that_need("cache"), ["web"]);
        // A reload: for a moment there are two.
        let again = of("wiki", &["db"]);
        drop(wiki);
        assert_eq!(web.all_that_need("db"), ["web", "wiki"]);
        drop(again);
        assert_eq!(web.all_that_need("db"), ["web"]);
        assert!(!web.is_controlled("db"));
        let db = of("db", &[]);
        assert!(web.is_controlled("db"));
        drop(db);
        assert!(!web.is_controlled("db"));
        let elsewhere =
            Needs::new(&Address::Tcp("127.0.0.1:2".to_owned()), "x", &["db".to_owned()]);
        assert_eq!(web.all_that_need("db"), ["web"]);
        drop(elsewhere);
    }

    /// A container that needs another one.
    fn container(
        clock: &Clock,
        address: &Address,
        name: &str,
        needs: &str,
    ) -> super::super::Container {
        let text = format!(
            "container = \"{name}\"\nsocket = \"{address}\"\nneeds = [\"{needs}\"]\ntimeout = \"1m\""
        );
        let config: crate::docker::Config = toml::from_str(&text).unwrap();
        let context =
            Context { clock: clock.clone(), state_dir: PathBuf::new(), site: String::new() };
        config.build(&context).unwrap()
    }

    /// A container that does not run.
    const EXITED: &str = r#"{"State": {"Status": "exited"}}"#;

    /// The containers that were stopped when `web` no longer needs `db`, which `wiki` needs too. Of `wiki` the daemon
    /// answers so. A site controls the container `controlled`.
    fn stopped(status: u16, body: &'static str, controlled: &str) -> Vec<String> {
        let stopped: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&stopped);
        let address = super::super::tests::daemon(move |path| match path {
            "/containers/wiki/json" => (status, body.to_owned()),
            "/containers/web/json" => (200, EXITED.to_owned()),
            "/containers/db/json" => (200, r#"{"State": {"Status": "running"}}"#.to_owned()),
            _ => {
                noted.lock().unwrap().push(path.to_owned());
                (204, String::new())
            }
        });
        let _wiki = Needs::new(&address, "wiki", &["db".to_owned()]);
        let _other = Needs::new(&address, controlled, &[]);
        let clock = Clock::real();
        let web = container(&clock, &address, "web", "db");
        clock.runtime().unwrap().block_on(web.needs.stop(&web.api, Released::All));
        let stopped = stopped.lock().unwrap();
        stopped.clone()
    }

    #[test]
    fn what_another_may_still_need_is_left_running() {
        let stop = ["/containers/db/stop"];
        assert_eq!(stopped(200, EXITED, "other"), stop);
        assert_eq!(stopped(404, "{}", "other"), stop, "one that was removed needs nothing");
        assert_eq!(stopped(200, EXITED, "db"), [""; 0], "it has a site of its own");
        for (status, body) in [
            (200, r#"{"State": {"Status": "running"}}"#),
            (200, "what?"),
            (403, "{}"),
            (500, r#"{"message": "busy"}"#),
        ] {
            assert_eq!(stopped(status, body, "other"), [""; 0], "{status} {body}");
        }
    }

    #[test]
    fn a_container_that_waits_for_health_delays_no_other_and_loses_nothing() {
        let (asked, mut asks) = tokio::sync::mpsc::unbounded_channel();
        let address = super::super::tests::daemon(move |path| {
            let _ = asked.send(path.to_owned());
            let state = |words: &str| (200, format!(r#"{{"State": {{"Status": {words}}}}}"#));
            match path {
                // It never passes its health check.
                "/containers/db/json" => state(r#""running", "Health": {"Status": "starting"}"#),
                "/containers/web/json" | "/containers/blog/json" | "/containers/wiki/json" => {
                    state(r#""exited""#)
                }
                _ if path.ends_with("/json") => state(r#""running""#),
                _ => (204, String::new()),
            }
        });
        let clock = Clock::real();
        let of = |name: &str, needs: &str| container(&clock, &address, name, needs);
        let (web, wiki, blog) = (of("web", "db"), of("wiki", "db"), of("blog", "cache"));
        let others = async {
            let mut looks = 0;
            // The second look is that of the wait.
            while looks < 2 {
                looks += usize::from(asks.recv().await.unwrap() == "/containers/db/json");
            }
            blog.wake_up().await.unwrap();
            blog.needs.stop(&blog.api, Released::All).await;
            // `web` does not run yet, and nothing else needs `db`.
            wiki.needs.stop(&wiki.api, Released::All).await;
            std::iter::from_fn(|| asks.try_recv().ok()).collect::<Vec<_>>()
        };
        let asked = clock.runtime().unwrap().block_on(async {
            tokio::select! {
                biased;
                _ = web.wake_up() => panic!("the others wait for the health of `db`"),
                asked = others => asked,
            }
        });
        let is_there = |path: &str| asked.iter().any(|it| it == path);
        assert!(
            is_there("/containers/blog/start") && is_there("/containers/cache/stop"),
            "{asked:?}"
        );
        assert!(!is_there("/containers/db/stop"), "{asked:?}");
        // It is woken no more: the wait was given up.
        clock.runtime().unwrap().block_on(wiki.needs.stop(&wiki.api, Released::All));
        let asked: Vec<_> = std::iter::from_fn(|| asks.try_recv().ok()).collect();
        assert!(asked.iter().any(|it| it == "/containers/db/stop"), "{asked:?}");
    }

    /// A daemon whose containers are started and stopped, and a channel with what it was asked to do. Each stop of `db`
    /// waits for the other channel.
    fn scripted(
        running: &[&str],
    ) -> (Address, tokio::sync::mpsc::UnboundedReceiver<String>, std::sync::mpsc::Sender<()>) {
        let (asked, asks) = tokio::sync::mpsc::unbounded_channel();
        let (may_stop, stops) = std::sync::mpsc::channel();
        let running: HashSet<String> = running.iter().map(|&it| it.to_owned()).collect();
        let running = Mutex::new(running);
        let address = super::super::tests::daemon(move |path| {
            let mut parts = path.trim_start_matches("/containers/").split('/');
            let (name, what) = (parts.next().unwrap(), parts.next().unwrap());
            let mut running = running.lock().unwrap();
            if what == "json" {
                let state = if running.contains(name) { "running" } else { "exited" };
                return (200, format!(r#"{{"State": {{"Status": "{state}"}}}}"#));
            }
            let _ = asked.send(format!("{what} {name}"));
            if what == "start" {
                running.insert(name.to_owned());
            } else {
                running.remove(name);
                if name == "db" {
                    let _ = stops.recv();
                }
            }
            (204, String::new())
        });
        (address, asks, may_stop)
    }

    #[test]
    fn a_container_sleeps_before_what_it_needs_is_stopped() {
        let (address, mut asks, may_stop) = scripted(&["web", "db"]);
        let clock = Clock::real();
        let web = container(&clock, &address, "web", "db");
        clock.runtime().unwrap().block_on(async {
            // It returns although the daemon does not answer yet.
            web.put_to_sleep().await.unwrap();
            assert_eq!(asks.recv().await.unwrap(), "stop web");
            assert_eq!(asks.recv().await.unwrap(), "stop db");
            may_stop.send(()).unwrap();
        });
    }

    #[test]
    fn what_was_started_for_a_container_ends_with_its_site_and_nothing_else_does() {
        let (address, mut asks, may_stop) = scripted(&["cache"]);
        may_stop.send(()).unwrap();
        let clock = Clock::real();
        let text =
            format!("container = \"web\"\nsocket = \"{address}\"\nneeds = [\"cache\", \"db\"]");
        let config: crate::docker::Config = toml::from_str(&text).unwrap();
        let context =
            Context { clock: clock.clone(), state_dir: PathBuf::new(), site: String::new() };
        let web = config.build(&context).unwrap();
        clock.runtime().unwrap().block_on(async {
            web.wake_up().await.unwrap();
            assert_eq!(asks.recv().await.unwrap(), "start db");
            assert_eq!(asks.recv().await.unwrap(), "start web");
            web.needs.stop(&web.api, Released::Started).await;
            assert!(asks.try_recv().is_err(), "the container itself runs on, and uses it");
            web.api.stop("web").await.unwrap();
            assert_eq!(asks.recv().await.unwrap(), "stop web");
            crate::Controller::leave(&web);
            assert_eq!(asks.recv().await.unwrap(), "stop db");
            web.needs.stop(&web.api, Released::Started).await;
            assert!(asks.try_recv().is_err(), "`cache` ran before");
        });
    }
}
