//! What runs in Docker or Podman: the containers with labels, and when that changes. Both speak Docker's Engine API
//! (`ContainerList`, `ContainerInspect`, `SystemEvents`).

use std::collections::BTreeMap;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use jiff::Timestamp;
use nightwatt_clock::Clock;
use nightwatt_host::http::HttpResponse;
use nightwatt_host::text::brief;
use nightwatt_host::within;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::container::{Address, Daemon, Hints};

/// Bytes of the longest list, and of the longest event.
const LONGEST: usize = 16 << 20;

/// Time limit for an answer.
const LIMIT: Duration = Duration::from_secs(30);

const HINTS: Hints = Hints {
    not_there: "start it (`systemctl enable --now podman.socket`, `systemctl start docker`), or set its socket in \
                the configuration to where it listens",
    not_allowed: "run the proxy as a user who may use the socket (group `docker`; of podman, the user whose \
                  containers they are)",
    no_such: "check its name: `docker ps -a` or `podman ps -a` lists all containers, also those that are stopped",
    refused: "ask it by hand (`docker ps --all`, `podman ps --all`)",
};

/// A container, as far as its site needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The host address and port at which each of its TCP ports is published; no port if the daemon chooses one at each
    /// start.
    pub published: BTreeMap<u16, (String, Option<u16>)>,
    /// It has the network of the host.
    pub on_host_network: bool,
    /// The id or name of the container whose network it has (a pod, `--network container:NAME`).
    pub network_of: Option<String>,
    /// Containers in its label `nightwatt.needs` that the daemon does not have.
    pub absent: Vec<String>,
    /// When it was created, in nanoseconds since 1970; the latest of all times if that cannot be read.
    pub created_ns: i128,
}

/// A container of the list.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    id: String,
    /// Each after a `/`; the further ones are links from others.
    names: Option<Vec<String>>,
    labels: Option<BTreeMap<String, String>>,
}

impl Listed {
    /// Its id and its names.
    fn known_by(&self) -> impl Iterator<Item = String> {
        let names = self.names.iter().flatten().map(|it| it.trim_start_matches('/').to_owned());
        names.chain([self.id.clone()])
    }
}

/// What a container needs by its label and is not among these. A part of an id, as long as the daemons print it, stands
/// for it.
fn absent(container: &Described, known: &[String]) -> Vec<String> {
    let needs = container.labels.get("nightwatt.needs").map_or("", String::as_str);
    let needs = needs.split(',').map(str::trim).filter(|it| !it.is_empty());
    let is_there =
        |name: &str| known.iter().any(|it| it == name || name.len() >= 12 && it.starts_with(name));
    needs.filter(|name| !is_there(name)).map(|name| brief(name.as_bytes())).collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    name: String,
    /// As in RFC 3339.
    #[serde(default)]
    created: String,
    config: Config,
    host_config: HostConfig,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Config {
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HostConfig {
    #[serde(default)]
    network_mode: String,
    port_bindings: Option<BTreeMap<String, Option<Vec<Binding>>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Binding {
    #[serde(default)]
    host_ip: String,
    #[serde(default)]
    host_port: String,
}

impl Described {
    /// What the daemon says of a container; the error says what is there instead.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        let it: Inspected = serde_json::from_slice(body)
            .map_err(|error| format!("`{}` describes no container: {error}", brief(body)))?;
        let bindings = it.host_config.port_bindings.unwrap_or_default();
        let published = bindings.into_iter().filter_map(|(port, bindings)| {
            let port: u16 = port.strip_suffix("/tcp").unwrap_or(&port).parse().ok()?;
            let binding = bindings?.into_iter().next()?;
            let host_port = binding.host_port.parse().ok().filter(|port| *port != 0);
            Some((port, (binding.host_ip, host_port)))
        });
        let created: Option<Timestamp> = it.created.parse().ok();
        Ok(Self {
            created_ns: created.map_or(i128::MAX, Timestamp::as_nanosecond),
            name: it.name.trim_start_matches('/').to_owned(),
            labels: it.config.labels.unwrap_or_default(),
            published: published.collect(),
            on_host_network: it.host_config.network_mode == "host",
            network_of: it.host_config.network_mode.strip_prefix("container:").map(brief_id),
            absent: Vec::new(),
        })
    }
}

/// An id, as short as the daemons print it, or a name.
fn brief_id(id: &str) -> String {
    let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    brief(if is_id { &id.as_bytes()[..12] } else { id.as_bytes() })
}

/// What a container has used since it was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time in nanoseconds.
    pub cpu_ns: u64,
    /// Bytes over its network, both directions; 0 on the network of the host.
    pub network_bytes: u64,
}

impl Usage {
    /// The daemon's statistics; the error says what is there instead.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Stats {
            cpu_stats: Cpu,
            networks: Option<BTreeMap<String, Network>>,
        }
        #[derive(Deserialize)]
        struct Cpu {
            cpu_usage: CpuUsage,
        }
        #[derive(Deserialize)]
        struct CpuUsage {
            total_usage: u64,
        }
        #[derive(Deserialize)]
        struct Network {
            rx_bytes: u64,
            tx_bytes: u64,
        }
        let stats: Stats = serde_json::from_slice(body)
            .map_err(|error| format!("`{}` is no statistics: {error}", brief(body)))?;
        let networks = stats.networks.unwrap_or_default();
        let bytes = networks.values().map(|it| it.rx_bytes.saturating_add(it.tx_bytes));
        Ok(Self {
            cpu_ns: stats.cpu_stats.cpu_usage.total_usage,
            network_bytes: bytes.fold(0, u64::saturating_add),
        })
    }
}

/// Whether an event may change which containers there are. What cannot be read may.
pub fn changes_containers(event: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Event {
        status: Option<String>,
        #[serde(rename = "Action")]
        action: Option<String>,
    }
    let known = ["create", "destroy", "remove", "rename", "update"];
    match serde_json::from_slice::<Event>(event) {
        Ok(Event { status, action }) => {
            status.or(action).is_none_or(|it| known.contains(&it.as_str()))
        }
        Err(_) => true,
    }
}

/// A daemon.
#[derive(Debug)]
pub struct Engine {
    daemon: Daemon,
    clock: Clock,
}

impl Engine {
    /// The daemon at this address. Touches nothing yet.
    pub fn new(name: &'static str, address: Address, clock: Clock) -> Self {
        Self { daemon: Daemon { name, address, hints: HINTS }, clock }
    }

    /// Name and address, for people.
    pub fn whom(&self) -> String {
        self.daemon.whom()
    }

    /// As [`whom`](Self::whom), of the daemon with this name and address.
    pub fn called(name: &'static str, address: &Address) -> String {
        Daemon { name, address: address.clone(), hints: HINTS }.whom()
    }

    async fn get(&self, path: &str) -> Result<Bytes, Error> {
        self.daemon.accepted(self.answer(path).await?, path)
    }

    async fn answer(&self, path: &str) -> Result<HttpResponse, Error> {
        let ask = self.daemon.ask(http::Method::GET, path, LONGEST);
        let silent = |_| Error::Silent { whom: self.whom(), limit: LIMIT, hint: HINTS.refused };
        let answer = within(&self.clock, LIMIT, ask).await.map_err(silent)?;
        answer.map_err(|error| self.daemon.no_answer(error))
    }

    /// All containers that have a label of nightwatt, the oldest first. One whose description cannot be read stays as it
    /// was `earlier`.
    pub async fn containers(&self, earlier: &[Described]) -> Result<Vec<Described>, Error> {
        let nonsense = |what| Error::Nonsense { whom: self.whom(), what };
        let body = self.get("/containers/json?all=true").await?;
        let all: Vec<Listed> = serde_json::from_slice(&body)
            .map_err(|error| nonsense(format!("`{}` is no list: {error}", brief(&body))))?;
        let known: Vec<String> = all.iter().flat_map(Listed::known_by).collect();
        let mut described = Vec::new();
        for listed in all {
            let labels = listed.labels.unwrap_or_default();
            let is_plain = listed.id.bytes().all(|byte| byte.is_ascii_alphanumeric());
            if !is_plain || !labels.keys().any(|it| it.starts_with("nightwatt.")) {
                continue;
            }
            let path = format!("/containers/{}/json", listed.id);
            let answer = self.answer(&path).await?;
            // Without a body it was removed meanwhile.
            let Some(body) = self.daemon.if_there(answer, &path)? else { continue };
            let names = listed.names.unwrap_or_default();
            match Described::read(&body) {
                Ok(mut it) => {
                    it.absent = absent(&it, &known);
                    described.push(it);
                }
                Err(why) => {
                    let (daemon, container) = (self.whom(), names.join(" "));
                    tracing::warn!(daemon, container, why, "a container stays as it was");
                    let is_it = |it: &&Described| {
                        names.iter().any(|name| name.trim_start_matches('/') == it.name)
                    };
                    described.extend(earlier.iter().find(is_it).cloned());
                }
            }
        }
        // The name only decides between two of the same moment.
        described.sort_by(|a, b| (a.created_ns, &a.name).cmp(&(b.created_ns, &b.name)));
        Ok(described)
    }

    /// What a container has used since it was started. The daemon answers at once.
    pub async fn usage(&self, name: &str) -> Result<Usage, Error> {
        // Without `one-shot` Docker measures for a second or two, for a rate that is not used here.
        let path = format!("/containers/{name}/stats?stream=false&one-shot=true");
        let what = format!("measure the container `{name}`");
        let body = self.daemon.accepted(self.answer(&path).await?, &what)?;
        Usage::read(&body).map_err(|what| Error::Nonsense { whom: self.whom(), what })
    }

    /// The stream of events about containers.
    pub async fn events(&self) -> Result<Events, Error> {
        // {"type":["container"]}
        let path = "/events?filters=%7B%22type%22%3A%5B%22container%22%5D%7D";
        let ask = self.daemon.stream(path);
        let silent = |_| Error::Silent { whom: self.whom(), limit: LIMIT, hint: HINTS.refused };
        let body = within(&self.clock, LIMIT, ask).await.map_err(silent)?;
        let body = body.map_err(|error| self.daemon.no_answer(error))?;
        Ok(Events { body, rest: Vec::new() })
    }
}

/// Events, one a line.
#[derive(Debug)]
pub struct Events {
    body: Incoming,
    rest: Vec<u8>,
}

impl Events {
    /// Returns when the containers may have changed; false if the stream has ended.
    pub async fn changed(&mut self) -> bool {
        loop {
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                if !line.trim_ascii().is_empty() && changes_containers(&line) {
                    return true;
                }
            }
            let Some(Ok(frame)) = self.body.frame().await else { return false };
            if let Some(data) = frame.data_ref() {
                self.rest.extend_from_slice(data);
            }
            if self.rest.len() > LONGEST {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_its_name_labels_and_published_ports() {
        // The fields of Docker's ContainerInspect.
        let body = br#"{"Id": "ab", "Created": "2026-11-23T20:15:00.5Z", "Name": "/web", "Config": {"Labels": {"nightwatt.enable": "true"}},
            "HostConfig": {"NetworkMode": "bridge", "PortBindings": {
                "8080/tcp": [{"HostIp": "", "HostPort": "18080"}], "53/udp": [{"HostIp": "", "HostPort": "53"}],
                "9000/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}], "1/tcp": null}}}"#;
        let web = Described::read(body).unwrap();
        assert_eq!((web.name.as_str(), web.labels["nightwatt.enable"].as_str()), ("web", "true"));
        assert_eq!(web.published.keys().copied().collect::<Vec<_>>(), [8080, 9000]);
        assert_eq!(web.published[&8080], (String::new(), Some(18_080)));
        assert_eq!(web.published[&9000], ("127.0.0.1".to_owned(), None));
        let bare = br#"{"Name": "a", "Config": {"Labels": null},
            "HostConfig": {"NetworkMode": "host", "PortBindings": null}}"#;
        let bare = Described::read(bare).unwrap();
        // `date --date 2026-11-23T20:15:00Z +%s`, and half a second.
        assert_eq!(web.created_ns, 1_795_464_900_500_000_000);
        assert_eq!(bare.created_ns, i128::MAX, "unknown: it claims nothing before others");
        assert!(bare.labels.is_empty() && bare.published.is_empty() && bare.on_host_network);
        let id = "ab".repeat(32);
        for (mode, of) in [
            (format!("container:{id}"), Some("abababababab")),
            ("container:vpn".to_owned(), Some("vpn")),
            ("bridge".to_owned(), None),
        ] {
            let body = format!(
                r#"{{"Name": "a", "Config": {{"Labels": null}}, "HostConfig": {{"NetworkMode": "{mode}"}}}}"#
            );
            let read = Described::read(body.as_bytes()).unwrap();
            assert_eq!((read.network_of.as_deref(), read.on_host_network), (of, false));
        }
        for other in ["", "[]", "{}", "<html>"] {
            assert!(
                Described::read(other.as_bytes()).unwrap_err().contains("describes no container")
            );
        }
    }

    /// A daemon with these containers: id, status and description.
    fn daemon(containers: [(&'static str, u16, &'static str); 3]) -> Address {
        let listed = containers.map(|(id, ..)| {
            format!(
                r#"{{"Id": "{id}", "Names": ["/{id}"], "Labels": {{"nightwatt.enable": "true"}}}}"#
            )
        });
        let list = format!("[{}]", listed.join(","));
        crate::container::tests::daemon(move |path| {
            let is_it = |id: &str| path == format!("/containers/{id}/json");
            let found = containers.iter().find(|(id, ..)| is_it(id));
            found.map_or((200, list.clone()), |(_, status, body)| (*status, (*body).to_owned()))
        })
    }

    const A: &str =
        r#"{"Name": "/a", "Config": {"Labels": null}, "HostConfig": {"PortBindings": null}}"#;

    fn containers(
        daemon_of: [(&'static str, u16, &'static str); 3],
        earlier: &[Described],
    ) -> Result<Vec<Described>, Error> {
        let clock = Clock::real();
        let engine = Engine::new("docker", daemon(daemon_of), clock.clone());
        clock.runtime().unwrap().block_on(engine.containers(earlier))
    }

    #[test]
    fn only_what_the_daemon_does_not_know_is_gone() {
        let all = containers([("a", 200, A), ("b", 404, "{}"), ("c", 404, "{}")], &[]).unwrap();
        assert_eq!(all, [Described::read(A.as_bytes()).unwrap()]);
        for status in [400, 403, 500, 503] {
            let error = containers([("a", 200, A), ("b", status, "{}"), ("c", 200, A)], &all);
            assert!(error.unwrap_err().to_string().contains(&format!("(status {status})")));
        }
    }

    #[test]
    fn a_needed_container_that_is_not_there_is_named() {
        const NEEDS: &str = r#"{"Name": "/a", "Config": {"Labels": {"nightwatt.needs": "b, nodb,c"}},
            "HostConfig": {"PortBindings": null}}"#;
        let all = containers([("a", 200, NEEDS), ("b", 200, A), ("c", 404, "{}")], &[]).unwrap();
        // `c` is in the list, and is removed meanwhile: the next list shows that.
        assert_eq!(all.iter().map(|it| it.absent.join(" ")).collect::<Vec<_>>(), ["nodb", ""]);
    }

    #[test]
    fn the_oldest_container_comes_first_and_the_name_decides_between_equals() {
        // Docker omits zeros at the end of a fraction; podman may write local time.
        let of = |name, created| {
            Box::leak(
                format!(
                    r#"{{"Name": "/{name}", "Created": "{created}", "Config": {{"Labels": null}},
                "HostConfig": {{"PortBindings": null}}}}"#
                )
                .into_boxed_str(),
            ) as &'static str
        };
        let a = of("a", "2026-11-23T20:15:00.42Z");
        let (b, c) = (of("b", "2026-11-23T20:15:00.4Z"), of("c", "2026-11-23T21:15:00.4+01:00"));
        let all = containers([("a", 200, a), ("c", 200, c), ("b", 200, b)], &[]).unwrap();
        assert_eq!(all.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["b", "c", "a"]);
    }

    #[test]
    fn statistics_are_asked_for_without_a_measurement_of_the_daemon() {
        let address = crate::container::tests::daemon(|path| match path.split_once('?') {
            Some(("/containers/web/stats", "stream=false&one-shot=true")) => {
                (200, r#"{"cpu_stats": {"cpu_usage": {"total_usage": 7}}}"#.to_owned())
            }
            _ => (400, "{}".to_owned()),
        });
        let clock = Clock::real();
        let engine = Engine::new("docker", address, clock.clone());
        let usage = clock.runtime().unwrap().block_on(engine.usage("web")).unwrap();
        assert_eq!(usage, Usage { cpu_ns: 7, network_bytes: 0 });
    }

    #[test]
    fn a_missing_container_is_named_and_the_hint_lists_those_that_there_are() {
        let address = crate::container::tests::daemon(|_| {
            (404, r#"{"message": "No such container: wbe"}"#.to_owned())
        });
        let clock = Clock::real();
        let engine = Engine::new("Docker", address, clock.clone());
        let error = clock.runtime().unwrap().block_on(engine.usage("wbe")).unwrap_err();
        let text = error.to_string();
        let end = "refuses to measure the container `wbe`: No such container: wbe (status 404)";
        assert!(text.starts_with("Docker at tcp://127.0.0.1:") && text.ends_with(end), "{text}");
        assert!(error.hint().contains("`docker ps -a`"), "{}", error.hint());
    }

    #[test]
    fn a_container_that_cannot_be_read_stays_as_it_was_and_hinders_no_other() {
        let known = Described { name: "b".to_owned(), ..Described::read(A.as_bytes()).unwrap() };
        let all = [("a", 200, A), ("b", 200, "what?"), ("c", 200, "{}")];
        let found = containers(all, std::slice::from_ref(&known)).unwrap();
        assert_eq!(found, [Described::read(A.as_bytes()).unwrap(), known]);
    }

    #[test]
    fn statistics_are_processor_time_and_the_bytes_of_all_networks() {
        // The fields of Docker's ContainerStats.
        let body =
            br#"{"read": "2026-11-23T20:15:00Z", "cpu_stats": {"cpu_usage": {"total_usage": 7,
            "usage_in_usermode": 3}, "system_cpu_usage": 99}, "networks": {
            "eth0": {"rx_bytes": 10, "tx_bytes": 20}, "eth1": {"rx_bytes": 1, "tx_bytes": 2}}}"#;
        assert_eq!(Usage::read(body), Ok(Usage { cpu_ns: 7, network_bytes: 33 }));
        let host = br#"{"cpu_stats": {"cpu_usage": {"total_usage": 7}}, "networks": null}"#;
        assert_eq!(Usage::read(host), Ok(Usage { cpu_ns: 7, network_bytes: 0 }));
        assert!(Usage::read(b"{}").unwrap_err().contains("is no statistics"));
    }

    #[test]
    fn only_events_about_which_containers_there_are_matter() {
        for (event, matters) in [
            (r#"{"status":"create","id":"ab","Type":"container","Action":"create"}"#, true),
            (r#"{"Type":"container","Action":"rename"}"#, true),
            (r#"{"status":"start","id":"ab","Type":"container","Action":"start"}"#, false),
            (r#"{"status":"remove"}"#, true),
            (r#"{"status":"health_status: healthy"}"#, false),
            ("what?", true),
        ] {
            assert_eq!(changes_containers(event.as_bytes()), matters, "{event}");
        }
    }
}
