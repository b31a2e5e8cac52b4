//! Containers that another one needs: started before it in their order, and stopped after it in the reverse order,
//! unless a further container that needs them runs.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Container, State};
use crate::Error;

/// Time between two looks at a container that is being started.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The containers of one daemon that need others.
#[derive(Debug, Default)]
struct Users {
    /// Name, and what it needs. Twice while a reload replaces its controller.
    all: Vec<(String, Vec<String>)>,
    /// Those that are being woken: they need their containers, although they do not run yet.
    waking: Vec<String>,
    /// For each needed container: held while it is started, and while it is decided whether it is stopped, and that is
    /// done. Never while it is waited for.
    turns: HashMap<String, Arc<tokio::sync::Mutex<()>>>,
}

static USERS: LazyLock<Mutex<HashMap<String, Users>>> = LazyLock::new(Mutex::default);

fn users() -> MutexGuard<'static, HashMap<String, Users>> {
    USERS.lock().unwrap_or_else(PoisonError::into_inner)
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
        if !names.is_empty() {
            let entry = (name.to_owned(), names.to_vec());
            users().entry(daemon.clone()).or_default().all.push(entry);
        }
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

    /// The other containers that need this one.
    fn others_that_need(&self, name: &str) -> Vec<String> {
        let users = users();
        let all = users.get(&self.daemon).map_or(&[][..], |it| &it.all);
        let others = all
            .iter()
            .filter(|(user, needs)| *user != self.name && needs.iter().any(|it| it == name));
        others.map(|(user, _)| user.clone()).collect()
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

impl Container {
    /// Starts what it needs, each once the one before runs and, if it has a health check, is healthy.
    pub(super) async fn start_needs(&self) -> Result<(), Error> {
        for name in &self.needs.names {
            {
                let turn = self.needs.turn(name);
                let _turn = turn.lock().await;
                self.start(name).await?;
            }
            self.wait_for(name).await?;
        }
        Ok(())
    }

    /// Waits until a needed container is ready. One that is not after `timeout` is not waited for any longer: the
    /// container that needs it may know better.
    async fn wait_for(&self, name: &str) -> Result<(), Error> {
        let until = self.clock.now().mono + self.timeout;
        loop {
            let (state, is_unhealthy) = self.inspect(name).await?;
            if state == State::Running && !is_unhealthy {
                return Ok(());
            }
            if self.clock.now().mono >= until {
                tracing::warn!(
                    container = self.name,
                    needs = name,
                    "a container that it needs is not ready: it is started nevertheless"
                );
                return Ok(());
            }
            self.clock.sleep(LOOK_EVERY).await;
        }
    }

    /// Stops what it needs and no other container does that runs, last first. It sleeps already, so that a failure is
    /// only logged.
    pub(super) async fn stop_needs(&self) {
        for name in self.needs.names.iter().rev() {
            if let Err(error) = self.stop_if_free(name).await {
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

    async fn stop_if_free(&self, name: &str) -> Result<(), Error> {
        // One that begins to be woken from here on waits for this before it starts what it needs.
        let turn = self.needs.turn(name);
        let _turn = turn.lock().await;
        for user in self.needs.others_that_need(name) {
            if self.needs.is_waking(&user) {
                tracing::debug!(
                    needs = name,
                    user,
                    "is left running for a container that is woken"
                );
                return Ok(());
            }
            // One that was removed does not need it any more. Of one that cannot be asked about, that is unknown: an
            // error leaves it running.
            let state = self.state_if_there(&user).await?;
            if matches!(state, Some(State::Running | State::Changing | State::Paused)) {
                tracing::debug!(needs = name, user, "is left running for another container");
                return Ok(());
            }
        }
        if self.inspect(name).await?.0 == State::Running { self.stop(name).await } else { Ok(()) }
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
        assert_eq!(web.others_that_need("db"), Vec::<String>::new());
        let wiki = of("wiki", &["db"]);
        assert_eq!(web.others_that_need("db"), ["wiki"]);
        assert_eq!(web.others_that_need("cache"), Vec::<String>::new());
        // A reload: for a moment there are two.
        let again = of("wiki", &["db"]);
        drop(wiki);
        assert_eq!(web.others_that_need("db"), ["wiki"]);
        drop(again);
        assert_eq!(web.others_that_need("db"), Vec::<String>::new());
        let elsewhere =
            Needs::new(&Address::Tcp("127.0.0.1:2".to_owned()), "x", &["db".to_owned()]);
        assert_eq!(web.others_that_need("db"), Vec::<String>::new());
        drop(elsewhere);
    }

    /// A container that needs another one.
    fn container(clock: &Clock, address: &Address, name: &str, needs: &str) -> Container {
        let text = format!(
            "container = \"{name}\"\nsocket = \"{address}\"\nneeds = [\"{needs}\"]\ntimeout = \"1m\""
        );
        let config: crate::docker::Config = toml::from_str(&text).unwrap();
        let context =
            Context { clock: clock.clone(), state_dir: PathBuf::new(), site: String::new() };
        config.build(&context).unwrap()
    }

    /// The containers that were stopped when `web` no longer needs `db`, which `wiki` needs too. Of `wiki` the daemon
    /// answers so.
    fn stopped(status: u16, body: &'static str) -> Vec<String> {
        let stopped: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&stopped);
        let address = super::super::tests::daemon(move |path| match path {
            "/containers/wiki/json" => (status, body.to_owned()),
            "/containers/db/json" => (200, r#"{"State": {"Status": "running"}}"#.to_owned()),
            _ => {
                noted.lock().unwrap().push(path.to_owned());
                (204, String::new())
            }
        });
        let _wiki = Needs::new(&address, "wiki", &["db".to_owned()]);
        let clock = Clock::real();
        let web = container(&clock, &address, "web", "db");
        clock.runtime().unwrap().block_on(web.stop_needs());
        let stopped = stopped.lock().unwrap();
        stopped.clone()
    }

    #[test]
    fn what_another_may_still_need_is_left_running() {
        let stop = ["/containers/db/stop"];
        assert_eq!(stopped(200, r#"{"State": {"Status": "exited"}}"#), stop);
        assert_eq!(stopped(404, "{}"), stop, "one that was removed needs nothing");
        for (status, body) in [
            (200, r#"{"State": {"Status": "running"}}"#),
            (200, "what?"),
            (403, "{}"),
            (500, r#"{"message": "busy"}"#),
        ] {
            assert_eq!(stopped(status, body), [""; 0], "{status} {body}");
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
                "/containers/web/json" => state(r#""exited""#),
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
            blog.put_to_sleep().await.unwrap();
            // `web` does not run yet, and nothing else needs `db`.
            wiki.put_to_sleep().await.unwrap();
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
            ["blog", "cache", "wiki"].iter().all(|it| is_there(&format!("/containers/{it}/stop")))
        );
        assert!(!is_there("/containers/db/stop"), "{asked:?}");
        // It is woken no more: the wait was given up.
        clock.runtime().unwrap().block_on(wiki.stop_needs());
        let asked: Vec<_> = std::iter::from_fn(|| asks.try_recv().ok()).collect();
        assert!(asked.iter().any(|it| it == "/containers/db/stop"), "{asked:?}");
    }
}
