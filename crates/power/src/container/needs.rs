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
    /// Held while any of them is started or stopped with what it needs, so that none loses what it is about to use.
    turn: Arc<tokio::sync::Mutex<()>>,
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

    /// Held while it is started with what it needs, and while that is stopped. Containers that need nothing wait for
    /// no other.
    pub(super) fn turn(&self) -> Arc<tokio::sync::Mutex<()>> {
        if self.names.is_empty() {
            return Arc::default();
        }
        Arc::clone(&users().entry(self.daemon.clone()).or_default().turn)
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
            self.start(name).await?;
            self.wait_for(name).await?;
        }
        Ok(())
    }

    /// Waits until a needed container is ready. One that is not after `timeout` is not waited for any longer: the
    /// container that needs it may know better.
    async fn wait_for(&self, name: &str) -> Result<(), Error> {
        let until = self.clock.now().mono + self.timeout;
        loop {
            let (state, is_starting) = self.inspect(name).await?;
            if state == State::Running && !is_starting {
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
        for user in self.needs.others_that_need(name) {
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
        let text = format!("container = \"web\"\nsocket = \"{address}\"\nneeds = [\"db\"]");
        let config: crate::docker::Config = toml::from_str(&text).unwrap();
        let context =
            Context { clock: clock.clone(), state_dir: PathBuf::new(), site: String::new() };
        let web = config.build(&context).unwrap();
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
}
