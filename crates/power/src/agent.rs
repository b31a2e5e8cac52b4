//! Drives the machine's own agent (`nightwatt agent`), which puts it to sleep on request, may refuse, and
//! announces when the machine leaves and when it is back.
//!
//! ```toml
//! [site.power.sleep.agent]
//! address = "10.0.0.2"              # of the machine; with a port if it is not 7386
//! key = "/etc/nightwatt/web.key"    # the same file as there: `nightwatt agent key`
//! listen = "0.0.0.0"                # optional: hear its announcements here (UDP port 7387)
//! timeout = "30s"                   # optional: for all of an order, its inhibitors included
//! ```
//!
//! Sites may share an address to listen on: they share the socket. An announcement counts if it comes from
//! the agent's IP address, its key is ours and its counter is greater than all before. The greatest counter
//! is kept in the state directory, so that a recorded announcement cannot be replayed to a proxy that has
//! restarted. The reply to an order carries the counter too: an announcement that was withheld until then
//! is stale.
//!
//! [`Controller::state`] asks the machine each time. The proxy does not call it while the server sleeps:
//! the question might wake the machine.

mod listener;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nightwatt_agent::client;
use nightwatt_agent::config::address;
use nightwatt_agent::key::Key;
use nightwatt_agent::protocol::{AGENT_PORT, NEWS_PORT, Outcome, Reply, Verb};
use nightwatt_clock::Clock;
use nightwatt_energy::duration_text;
use serde::{Deserialize, Deserializer};
use tracing::debug;

use crate::facts::Facts;
use crate::{ConfigError, Context, Controller, Error, News, Observed, Work};
use listener::{Ear, Listener};

/// Timeout of a question for the state. A machine that is up answers at once.
const STATE_LIMIT: Duration = Duration::from_secs(2);

/// The table `[site.power.sleep.agent]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Where the agent listens.
    #[serde(deserialize_with = "agent_address")]
    pub address: SocketAddr,
    /// The file of the key.
    pub key: PathBuf,
    /// Address at which announcements are heard; without it, none are.
    #[serde(default, deserialize_with = "maybe_listen")]
    pub listen: Option<SocketAddr>,
    /// How long an order may take.
    #[serde(default = "timeout", with = "duration_text")]
    pub timeout: Duration,
}

fn timeout() -> Duration {
    Duration::from_secs(30)
}

fn agent_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    address(&text, AGENT_PORT).map_err(serde::de::Error::custom)
}

fn maybe_listen<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    address(&text, NEWS_PORT).map(Some).map_err(serde::de::Error::custom)
}

impl Config {
    pub(crate) fn facts(&self) -> Facts<'_> {
        let machine = vec![self.address.to_string()];
        Facts { is_in_server: true, machine, agent_key: Some(&self.key), ..Facts::default() }
    }

    /// The controller so configured.
    pub fn build(&self, context: &Context) -> Result<Agent, ConfigError> {
        let key = Key::read(&self.key).map_err(|error| ConfigError::Agent(Box::new(error)))?;
        // Without `listen` there is no counter to keep: `doctor` runs beside a proxy that listens.
        let file = self.listen.map(|_| context.file("agent.counter"));
        let ear = Ear::new(key.clone(), self.address.ip(), file)
            .map_err(|source| ConfigError::StateDir { path: context.state_dir.clone(), source })?;
        let attach = |address| {
            listener::attach(address, &ear)
                .map_err(|source| ConfigError::Listen { address, source })
        };
        let listener = self.listen.map(attach).transpose()?;
        let clock = context.clock.clone();
        Ok(Agent { config: self.clone(), key, ear, _listener: listener, clock })
    }
}

/// The controller; see the [module](self).
#[derive(Debug)]
pub struct Agent {
    config: Config,
    key: Key,
    ear: Arc<Ear>,
    _listener: Option<Arc<Listener>>,
    clock: Clock,
}

impl Agent {
    async fn ask(&self, verb: Verb, limit: Duration) -> Result<Reply, Error> {
        let Config { address, .. } = self.config;
        // It lives in real time, and so do its answers: `client::ask` gives up by itself.
        let _debt = self.clock.owe();
        let asked_at = self.ear.counter();
        let reply = client::ask(&self.key, address, verb, limit).await;
        let reply = reply.map_err(|error| Error::Agent(Box::new(error)))?;
        debug!(%address, ?verb, outcome = ?reply.outcome, "the agent answers");
        self.ear.learn(asked_at, reply.facts.counter);
        Ok(reply)
    }

    async fn put_to_sleep(&self) -> Result<(), Error> {
        self.ear.forget_leaving();
        let reply = tokio::select! {
            biased;
            reply = self.ask(Verb::Sleep, self.config.timeout) => reply?,
            // The answer may be lost, and the machine be gone: its announcement is as good.
            () = self.ear.leaves() => return Ok(()),
        };
        let reasons = reply.texts.join("; ");
        match reply.outcome {
            Outcome::Going | Outcome::Done => Ok(()),
            Outcome::Inhibited => Err(Error::Inhibited { reasons }),
            Outcome::Busy | Outcome::Failed => Err(Error::Refused {
                whom: format!("the agent at {}", self.config.address),
                what: "put its machine to sleep".to_owned(),
                why: reasons,
                hint: "try it there: `nightwatt agent check`, and `nightwatt agent log` for what it has \
                           tried",
            }),
        }
    }
}

impl Controller for Agent {
    /// An agent that sleeps cannot wake its machine, and no configuration asks for that.
    fn wake(&self) -> Work<'_, ()> {
        let source = std::io::ErrorKind::Unsupported.into();
        let attempt = "wake a server by its own agent".to_owned();
        Box::pin(std::future::ready(Err(Error::System { attempt, source })))
    }

    fn sleep(&self) -> Work<'_, ()> {
        Box::pin(self.put_to_sleep())
    }

    fn state(&self) -> Work<'_, Observed> {
        Box::pin(async {
            let answered = self.ask(Verb::State, self.config.timeout.min(STATE_LIMIT)).await;
            Ok(if answered.is_ok() { Observed::Up } else { Observed::Unknown })
        })
    }

    fn nothing(&self) -> Work<'_, ()> {
        Box::pin(async { self.ask(Verb::State, self.config.timeout).await.map(|_| ()) })
    }

    fn announces_sleep(&self) -> bool {
        self.config.listen.is_some()
    }

    fn heard(&self) -> News<'_> {
        Box::pin(self.ear.next())
    }
}
