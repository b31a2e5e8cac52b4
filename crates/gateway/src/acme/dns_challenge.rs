//! Records in DNS that prove to an authority that a name is ours (RFC 8555, 8.4): added before it looks, and removed
//! whatever happens.

use std::path::PathBuf;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_clock::connect::connect_any;
use nightwatt_host::tool::{self, Capture, Ended};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::lookup_host;
use tokio::process::Command;

use crate::authority::Authority;
use crate::config::DnsConfig;
use crate::dns_update::{self as message, Signer, Text};

/// Limit for one question.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How often a server is asked whether it has the record.
const EVERY: Duration = Duration::from_secs(1);

/// Records that are noted, in case that a server never lets them be removed.
const MOST: usize = 64;

/// Bytes of a program's output that an error shows.
const SHOWN: usize = 300;

/// Why a record was not changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum DnsError {
    /// The server does not answer.
    #[error("{server} cannot be asked: {why}")]
    Unreachable { server: String, why: String },
    /// Its answer is of no use.
    #[error("{server} did not take the record {name}: {why}")]
    Refused { server: String, name: String, why: message::UpdateError },
    /// It does not know a zone that the name is in.
    #[error("{server} has no zone for {name}")]
    NoZone { server: String, name: String },
    /// It does not have the record in time.
    #[error("{server} does not have the record {name} after {after:?}")]
    NotVisible { server: String, name: String, after: Duration },
    /// The program failed.
    #[error("the hook `{program}` failed for {name}: {why}")]
    Hook { program: String, name: String, why: String },
    /// There is nothing that changes records.
    #[error("there is no `[tls.acme.dns]`")]
    NotConfigured,
}

/// A record of ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    name: String,
    value: String,
}

/// The records that are there for an authority now. Those that a killed process left are in a file, and are removed
/// with the next ones.
pub(super) struct Records<'a> {
    dns: Option<&'a DnsConfig>,
    clock: &'a Clock,
    path: PathBuf,
    added: Vec<Record>,
    /// Those of this order, which the servers may not have yet.
    unseen: Vec<Record>,
}

impl<'a> Records<'a> {
    /// The records of which this file knows.
    pub(super) fn open(dns: Option<&'a DnsConfig>, clock: &'a Clock, path: PathBuf) -> Self {
        let text = std::fs::read(&path).unwrap_or_default();
        let added = serde_json::from_slice(&text).unwrap_or_default();
        Self { dns, clock, path, added, unseen: Vec::new() }
    }

    /// Adds the record for a name. The servers may have it later.
    pub(super) async fn add(&mut self, domain: &str, value: &str) -> Result<(), DnsError> {
        let dns = self.dns.ok_or(DnsError::NotConfigured)?;
        let name = format!("_acme-challenge.{}", domain.trim_start_matches("*."));
        let record = Record { name, value: value.to_owned() };
        // Before it is there, so that it is removed in any case.
        self.added.push(record.clone());
        self.added.drain(..self.added.len().saturating_sub(MOST));
        self.store();
        let added = self.change(dns, &record, true).await;
        if let Err(
            DnsError::NoZone { .. }
            | DnsError::Refused { why: message::UpdateError::Refused(_), .. },
        ) = added
        {
            // It is certainly not there.
            self.added.pop();
            self.store();
        }
        added?;
        self.unseen.push(record);
        Ok(())
    }

    /// Returns once the servers have all records that were added.
    pub(super) async fn wait_for_all(&mut self) -> Result<(), DnsError> {
        for record in std::mem::take(&mut self.unseen) {
            let dns = self.dns.ok_or(DnsError::NotConfigured)?;
            for server in dns.checked() {
                self.wait(dns, server, &record).await?;
            }
        }
        Ok(())
    }

    /// Removes all of them. Those that cannot be removed now are tried again with the next certificate.
    pub(super) async fn remove_all(&mut self) {
        let Some(dns) = self.dns.filter(|_| !self.added.is_empty()) else { return };
        for record in std::mem::take(&mut self.added) {
            if let Err(error) = self.change(dns, &record, false).await {
                tracing::warn!(name = record.name, %error, "a record for an authority is left in DNS; it is removed later");
                self.added.push(record);
            }
        }
        self.store();
    }

    fn store(&self) {
        let stored = if self.added.is_empty() {
            match std::fs::remove_file(&self.path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        } else {
            let text = serde_json::to_vec(&self.added).map_err(std::io::Error::from);
            text.and_then(|text| super::replace(&self.path, &text))
        };
        if let Err(error) = stored {
            tracing::warn!(path = %self.path.display(), %error, "records in DNS are not noted: a crash would leave them there");
        }
    }

    async fn change(&self, dns: &DnsConfig, record: &Record, adds: bool) -> Result<(), DnsError> {
        match (&dns.hook, &dns.server) {
            (Some(hook), _) => self.run(dns, hook, record, adds).await,
            (None, Some(server)) => self.update(dns, server, record, adds).await,
            (None, None) => Err(DnsError::NotConfigured),
        }
    }

    async fn update(
        &self,
        dns: &DnsConfig,
        server: &str,
        record: &Record,
        adds: bool,
    ) -> Result<(), DnsError> {
        let key = dns.key.as_ref().ok_or(DnsError::NotConfigured)?;
        let name = &record.name;
        let refused =
            |why| DnsError::Refused { server: server.to_owned(), name: name.clone(), why };
        let id = number();
        let answer = self.ask(server, &message::zone_query(id, name)).await?;
        let answer = message::read(&answer).map_err(refused)?;
        answer.is_for(id).map_err(refused)?;
        let no_zone = || DnsError::NoZone { server: server.to_owned(), name: name.clone() };
        let zone = answer.zone().ok_or_else(no_zone)?;
        let id = number();
        let mut question = message::update(id, &Text { zone, name, value: &record.value }, adds);
        let now = u64::try_from(self.clock.now().wall.0.div_euclid(1000)).unwrap_or(0);
        let signer = Signer { name: &key.name, secret: &key.secret, now };
        let code = message::sign(&mut question, &signer);
        let answer = self.ask(server, &question).await?;
        message::check(&answer, id, &code, &signer).map_err(refused)
    }

    /// Asks a server by TCP.
    async fn ask(&self, server: &str, question: &[u8]) -> Result<Vec<u8>, DnsError> {
        let failed = |why: &dyn std::fmt::Display| DnsError::Unreachable {
            server: server.to_owned(),
            why: why.to_string(),
        };
        let place = Authority::parse(server).ok_or_else(|| failed(&"it is not an address"))?;
        let asking = async {
            let host = place.host.trim_matches(['[', ']']);
            let at = lookup_host((host, place.port.unwrap_or(53))).await?;
            let mut stream = connect_any(self.clock, at).await?;
            let length = u16::try_from(question.len()).map_err(std::io::Error::other)?;
            stream.write_all(&[&length.to_be_bytes(), question].concat()).await?;
            let length = stream.read_u16().await?;
            let mut answer = vec![0; usize::from(length)];
            stream.read_exact(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        match self.clock.timeout(TIMEOUT, asking).await {
            Ok(answer) => answer.map_err(|error| failed(&error)),
            Err(_) => Err(failed(&"it does not answer within ten seconds")),
        }
    }

    /// Returns once the server has the record.
    async fn wait(&self, dns: &DnsConfig, server: &str, record: &Record) -> Result<(), DnsError> {
        let deadline = self.clock.now().mono + dns.propagation;
        loop {
            let id = number();
            // A server may be out of reach for a moment.
            let answer = self.ask(server, &message::text_query(id, &record.name)).await;
            let has_it =
                answer.as_ref().ok().and_then(|it| message::read(it).ok()).is_some_and(|answer| {
                    answer.is_for(id).is_ok() && answer.has_text(&record.name, &record.value)
                });
            if has_it {
                return Ok(());
            }
            if self.clock.now().mono + EVERY > deadline {
                let (server, name) = (server.to_owned(), record.name.clone());
                return Err(match answer {
                    Err(error) => error,
                    Ok(_) => DnsError::NotVisible { server, name, after: dns.propagation },
                });
            }
            self.clock.sleep(EVERY).await;
        }
    }

    /// Has a program add or remove the record.
    async fn run(
        &self,
        dns: &DnsConfig,
        hook: &[String],
        record: &Record,
        adds: bool,
    ) -> Result<(), DnsError> {
        let Some((program, arguments)) = hook.split_first() else {
            return Err(DnsError::NotConfigured);
        };
        let failed = |why: String| DnsError::Hook {
            program: program.clone(),
            name: record.name.clone(),
            why,
        };
        let mut command = Command::new(program);
        command.args(arguments).env("NIGHTWATT_ACTION", if adds { "add" } else { "remove" });
        command.env("NIGHTWATT_NAME", &record.name).env("NIGHTWATT_VALUE", &record.value);
        let ended =
            tool::run(self.clock, dns.hook_timeout, command, Capture::EndOfBoth(SHOWN)).await;
        match ended {
            Ok(Ended { status, .. }) if status.success() => Ok(()),
            Ok(Ended { status, stdout, .. }) => {
                let said = String::from_utf8_lossy(&stdout);
                let said: String =
                    said.trim().chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
                Err(failed(format!("{status}: {said}")))
            }
            Err(tool::Failed::Start(error) | tool::Failed::Wait(error)) => {
                Err(failed(error.to_string()))
            }
            Err(tool::Failed::TimedOut(_)) => {
                Err(failed(format!("it took longer than {:?}", dns.hook_timeout)))
            }
        }
    }
}

/// A number for a question, which is asked by a connection of its own.
fn number() -> u16 {
    let mut number = [0; 2];
    // Without random numbers any will do: an answer must come by the same connection.
    let _ = getrandom::fill(&mut number);
    u16::from_be_bytes(number)
}
