//! Three independent records of the same requests: what the client sent, what the proxy logged,
//! what the server served. They must agree.

use std::collections::HashMap;
use std::path::Path;

use nightwatt_gateway::ledger_file::{self, Record};
use nightwatt_gateway::{Extras, REFRESH_ID};
use nightwatt_load::{Outcome, Run};

/// What proxy and server wrote.
pub(super) struct Records {
    /// Lines of the proxy's log by request id.
    pub(super) proxy: HashMap<String, Vec<Extras>>,
    /// Requests that the server served, by id.
    origin: HashMap<String, u64>,
    /// The proxy's ledger.
    pub(super) ledger: Vec<Record>,
}

/// What came of comparing them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Reconciled {
    /// Requests that one record has and another ought to have and has not.
    pub(super) lost: u64,
    /// Requests that one record has more than once.
    pub(super) doubled: u64,
}

impl Records {
    pub(super) const ACCESS: &'static str = "access.log";
    pub(super) const ORIGIN: &'static str = "origin.tsv";

    /// What the server has.
    pub(super) const SITE: &'static str = "site.tsv";

    /// How the server answers what the proxy asks by itself, where a log is played.
    pub(super) const STATUSES: &'static str = "statuses.tsv";

    /// Every file of a play.
    pub(super) fn files(site: &str) -> [String; 6] {
        let [access, origin, files, statuses] =
            [Self::ACCESS, Self::ORIGIN, Self::SITE, Self::STATUSES].map(str::to_owned);
        let [ledger, lessons] = ["ledger.jsonl", "lessons.json"].map(|it| format!("{site}.{it}"));
        [access, origin, ledger, lessons, files, statuses]
    }

    pub(super) fn read(dir: &Path, site: &str) -> std::io::Result<Self> {
        let [access, origin, ledger, ..] = Self::files(site).map(|name| dir.join(name));
        let mut proxy: HashMap<String, Vec<Extras>> = HashMap::new();
        for line in read_or_nothing(&access)?.lines() {
            let extras = Extras::read(line)
                .ok_or_else(|| std::io::Error::other(format!("not a line of our log: {line}")))?;
            proxy.entry(extras.id.clone()).or_default().push(extras);
        }
        let mut served = HashMap::new();
        for line in read_or_nothing(&origin)?.lines() {
            let id = line.split('\t').next().unwrap_or_default();
            // The client sent neither the proxy's probes, which have no id, nor its own requests for cache and mirror.
            if id == "-" || id.starts_with(REFRESH_ID) {
                continue;
            }
            *served.entry(id.to_owned()).or_default() += 1;
        }
        Ok(Self { proxy, origin: served, ledger: ledger_file::read(&ledger)? })
    }

    /// The proxy's line on a request, if there is exactly one.
    pub(super) fn line(&self, id: &str) -> Option<&Extras> {
        match self.proxy.get(id).map(Vec::as_slice) {
            Some([only]) => Some(only),
            _ => None,
        }
    }

    /// Goes through all requests by id.
    pub(super) fn reconcile(&self, run: &Run) -> Reconciled {
        let mut result = Reconciled::default();
        let sent = run.outcomes.iter().filter(|outcome| was_sent(outcome));
        let mut known: HashMap<&str, u64> = HashMap::new();
        for outcome in sent {
            *known.entry(&outcome.id).or_default() += 1;
            let lines = self.proxy.get(&outcome.id).map_or(0, Vec::len);
            let served = self.origin.get(&outcome.id).copied().unwrap_or(0);
            let from_server = self.line(&outcome.id).is_some_and(is_from_server);
            let answered = outcome.status.is_some();
            if !answered || lines == 0 || from_server && served == 0 {
                result.lost += 1;
            }
            if lines > 1 || served > 1 || !from_server && served > 0 {
                result.doubled += 1;
            }
        }
        result.doubled += known.values().filter(|&&times| times > 1).count() as u64;
        // Requests that the proxy or the server recorded and the client never sent.
        let unknown = |id: &&String| !known.contains_key(id.as_str());
        result.doubled += self.proxy.keys().filter(unknown).count() as u64;
        result.doubled += self.origin.keys().filter(unknown).count() as u64;
        result
    }
}

fn was_sent(outcome: &Outcome) -> bool {
    outcome.error != Some(nightwatt_load::ErrorKind::Unsendable)
}

fn is_from_server(line: &Extras) -> bool {
    matches!(line.answer.as_str(), "server" | "held") && !line.from_cache
}

/// A server that never served anything has no record.
fn read_or_nothing(path: &Path) -> std::io::Result<String> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_gateway::Answered;
    use nightwatt_load::Answer;

    /// Proxy and client know nothing of each other: only their names for answers must agree.
    #[test]
    fn the_client_knows_every_answer_of_the_proxy() {
        // A client that left gets no answer.
        for answered in Answered::ALL.into_iter().filter(|it| *it != Answered::Gone) {
            let name = answered.as_str();
            let answer: Answer = name.parse().unwrap_or_else(|_| panic!("{name}"));
            assert!(!matches!(answer, Answer::Other(_)), "{name}");
            assert_eq!(answer.as_str(), name);
        }
    }
}
