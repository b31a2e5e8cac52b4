//! Sites that labels of containers describe: they come and go with their containers.
//!
//! ```text
//! list, events (the daemon's socket)  ->  labels (pure): a table for each site  ->  the configuration, checked  ->  reload
//! ```

pub mod labels;
pub(crate) mod watch;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::duration_text;
use nightwatt_energy::time::Now;
use nightwatt_host::files::{self, Access, Durability, Replacement};
use nightwatt_host::within;
use nightwatt_power::engine::{Described, Engine};
use serde::{Deserialize, Serialize};

use self::labels::Labelled;
use crate::authority::host_name;
use crate::config::Config;
use crate::status::{ContainerOutcome, ContainerStatus, ContainersStatus};

/// The start, and a reload with another daemon, wait for its first list for this long.
const FIRST: Duration = Duration::from_secs(10);

/// The containers that were found last, shared by the task that watches them and by reloads.
#[derive(Debug, Clone, Default)]
pub struct Found(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// By daemon: containers of one are no sites of a configuration with another.
    daemons: HashMap<String, Known>,
    /// What became of those of the present configuration.
    outcomes: Vec<ContainerStatus>,
    /// Where the last list is kept for the next start, and of which daemon the one there is.
    file: Option<PathBuf>,
    kept_of: Option<String>,
}

/// The last list of a daemon, as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    daemon: String,
    all: Vec<Described>,
}

/// What is known of a daemon.
#[derive(Debug, Default)]
struct Known {
    /// Its containers with labels, the oldest first.
    all: Vec<Described>,
    contact: Contact,
}

/// Whether a daemon answers.
#[derive(Debug, Default)]
enum Contact {
    /// It was not asked yet.
    #[default]
    Unknown,
    Up,
    Lost {
        since: Now,
        why: String,
    },
}

/// A configuration with the sites of containers.
#[derive(Debug)]
pub struct Applied {
    /// All of it.
    pub config: Config,
    /// What became of each container.
    pub outcomes: Vec<ContainerStatus>,
}

impl Found {
    /// Looks once, before the gateway starts. Without an answer, the containers of the last list, which is kept in
    /// `state_dir`, have their sites.
    pub async fn look(config: &Config, clock: &Clock) -> Self {
        let found = Self::default();
        found.state().file = Some(config.state_dir.join("containers.json"));
        found.ask(config, clock).await;
        found
    }

    /// Asks the daemon of a configuration for its first list. Without an answer, it has its last one.
    async fn ask(&self, config: &Config, clock: &Clock) {
        let Some(engine) = engine(config, clock) else { return };
        let daemon = engine.whom();
        let earlier = self.earlier(&daemon);
        let instead = match earlier.len() {
            0 => "sites come later".to_owned(),
            some => format!("those of the last list ({some}) have their sites"),
        };
        let problem = match within(clock, FIRST, engine.containers(&[])).await {
            Ok(Ok(all)) => {
                self.set(&daemon, all);
                return;
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, hint = error.hint(), "no containers can be found yet: {instead}");
                error.to_string()
            }
            Err(_) => {
                let limit = duration_text::format(FIRST);
                tracing::warn!(daemon, "no list of containers within {limit}: {instead}");
                format!("{daemon} has not answered within {limit}")
            }
        };
        self.replace(&daemon, earlier);
        self.lost(&daemon, clock.now(), problem);
    }

    /// The last list of a daemon that is kept.
    fn earlier(&self, daemon: &str) -> Vec<Described> {
        let file = self.state().file.clone();
        let text = file.and_then(|file| std::fs::read(file).ok()).unwrap_or_default();
        let kept = serde_json::from_slice::<Kept>(&text).ok().filter(|it| it.daemon == daemon);
        kept.map(|it| it.all).unwrap_or_default()
    }

    /// Keeps a list for the next start.
    fn keep(&self, daemon: &str) {
        let file = self.state().file.clone();
        let Some(file) = file else { return };
        let kept = Kept { daemon: daemon.to_owned(), all: self.all(daemon) };
        let text = serde_json::to_vec(&kept).map_err(std::io::Error::from);
        let how = Replacement { access: Access::Owner, durability: Durability::Kept };
        match text.and_then(|text| files::replace(&file, how, &text)) {
            Ok(()) => self.state().kept_of = Some(daemon.to_owned()),
            // The folder comes with the first start.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                let hint = "nightwatt must be able to write to `state_dir`";
                tracing::warn!(path = %file.display(), %error, hint, "the list of containers is not kept for the next start");
            }
        }
    }

    /// Before a reload: another daemon than that of the present configuration is asked at once, so that its sites come
    /// when those of the other go.
    pub(crate) async fn meet(&self, config: &Config, present: &Config, clock: &Clock) {
        let daemon = |config: &Config| engine(config, clock).map(|it| it.whom());
        if daemon(config) != daemon(present) {
            self.ask(config, clock).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The containers of a daemon.
    fn all(&self, daemon: &str) -> Vec<Described> {
        self.state().daemons.get(daemon).map(|it| it.all.clone()).unwrap_or_default()
    }

    /// Replaces those of a daemon, which has answered, and keeps them for the next start. Returns whether any is new,
    /// changed or gone.
    fn set(&self, daemon: &str, all: Vec<Described>) -> bool {
        let changed = self.replace(daemon, all);
        let is_kept = self.state().kept_of.as_deref() == Some(daemon);
        if changed || !is_kept {
            self.keep(daemon);
        }
        changed
    }

    fn replace(&self, daemon: &str, mut all: Vec<Described>) -> bool {
        // Of two containers with the same host the first gets the site: the oldest, whenever the proxy started. The
        // name only decides between two of the same moment.
        all.sort_by(|a, b| (a.created_ns, &a.name).cmp(&(b.created_ns, &b.name)));
        let mut state = self.state();
        let known = state.daemons.entry(daemon.to_owned()).or_default();
        known.contact = Contact::Up;
        let changed = known.all != all;
        known.all = all;
        changed
    }

    /// Notes that a daemon does not answer. Its containers stay as they are.
    fn lost(&self, daemon: &str, since: Now, why: String) {
        let mut state = self.state();
        let known = state.daemons.entry(daemon.to_owned()).or_default();
        let since = match known.contact {
            Contact::Lost { since, .. } => since,
            Contact::Unknown | Contact::Up => since,
        };
        known.contact = Contact::Lost { since, why };
    }

    /// The configuration with the sites of the containers of its daemon. What is wrong with one concerns it alone.
    pub fn apply(&self, config: &Config) -> Applied {
        let mut outcomes = Vec::new();
        let daemon = config.containers.as_ref().and_then(|it| it.daemon());
        let all = daemon.map(|(name, at)| self.all(&Engine::called(name, at))).unwrap_or_default();
        let mut whole = config.clone();
        for described in &all {
            let (outcome, why) = match site(described, &all, config, &whole) {
                Ok(Some(with)) => {
                    whole = with;
                    (ContainerOutcome::Site, absent(described))
                }
                Ok(None) => (ContainerOutcome::NoSite, None),
                Err(WithoutSite { outcome, why }) => (outcome, Some(why)),
            };
            let (name, hosts) = (described.name.clone(), labels::hosts(described));
            outcomes.push(ContainerStatus { name, outcome, hosts, why });
        }
        Applied { config: whole, outcomes }
    }

    /// Notes what became of the containers of the configuration that holds now. Logs what is new among it.
    pub(crate) fn note(&self, config: &Config, outcomes: Vec<ContainerStatus>) {
        let mut state = self.state();
        for it in outcomes.iter().filter(|it| !state.outcomes.contains(it)) {
            if let Some(why) = &it.why {
                let (container, outcome) = (&*it.name, it.outcome.as_str());
                if it.outcome == ContainerOutcome::Site {
                    tracing::warn!(container, why, "a container cannot be started");
                } else {
                    tracing::error!(container, outcome, why, "a container gets no site");
                }
            }
        }
        state.outcomes = outcomes;
        let daemon = config.containers.as_ref().and_then(|it| it.daemon());
        let daemon = daemon.map(|(name, at)| Engine::called(name, at));
        state.daemons.retain(|it, _| Some(it) == daemon.as_ref());
    }

    /// For `status` and metrics; nothing without `[containers]`.
    pub(crate) fn status(&self, config: &Config, now: Now) -> Option<ContainersStatus> {
        let (name, address) = config.containers.as_ref()?.daemon()?;
        let daemon = Engine::called(name, address);
        let state = self.state();
        let contact = state.daemons.get(&daemon).map(|it| &it.contact);
        let lost = match contact {
            Some(Contact::Lost { since, why }) => Some((since, why)),
            _ => None,
        };
        Some(ContainersStatus {
            up: matches!(contact, Some(Contact::Up)),
            lost_ms: lost.map(|(since, _)| since.wall.0),
            lost_for_s: lost.map(|(since, _)| now.mono.since(since.mono).as_secs_f64()),
            problem: lost.map(|(_, why)| why.clone()),
            containers: state.outcomes.clone(),
            daemon,
        })
    }
}

/// What becomes of the containers that there are now: for `check`.
pub async fn look_over(config: &Config, clock: &Clock) -> Option<ContainersStatus> {
    // Without the last list: what is there now.
    let found = Found::default();
    found.ask(config, clock).await;
    let Applied { outcomes, .. } = found.apply(config);
    found.state().outcomes = outcomes;
    found.status(config, clock.now())
}

/// What became of a container that gets no site, and why.
struct WithoutSite {
    outcome: ContainerOutcome,
    why: String,
}

/// The configuration `whole`, which is `config` and the sites of older containers, with that of one more, if it has
/// one.
fn site(
    described: &Described,
    all: &[Described],
    config: &Config,
    whole: &Config,
) -> Result<Option<Config>, WithoutSite> {
    let Some(containers) = &config.containers else { return Ok(None) };
    let Some((daemon, address)) = containers.daemon() else { return Ok(None) };
    let labelled = labels::site(described, all, &containers.site, daemon, &address.to_string());
    let labelled = labelled.map_err(|labels::LabelError { label, value, why }| {
        let why = format!("label {label}, value `{value}`: {why}");
        WithoutSite { outcome: ContainerOutcome::WrongLabel, why }
    })?;
    let Some(labelled) = labelled else { return Ok(None) };
    let is_taken = |why| Err(WithoutSite { outcome: ContainerOutcome::Conflict, why });
    conflict(described, &labelled, config, whole).map_or(Ok(()), is_taken)?;
    let with = containers.site_of(labelled, config).and_then(|site| whole.with_site(site));
    with.map(Some).map_err(|why| WithoutSite { outcome: ContainerOutcome::Refused, why })
}

/// What a container needs and the daemon does not have, and what to do.
fn absent(container: &Described) -> Option<String> {
    (!container.absent.is_empty()).then(|| {
        format!(
            "it needs `{}`, and there is no such container: create it, or remove it from the label nightwatt.needs",
            container.absent.join("`, `")
        )
    })
}

/// What another site has already that the site of a container claims, and what to do.
fn conflict(
    described: &Described,
    labelled: &Labelled,
    config: &Config,
    whole: &Config,
) -> Option<String> {
    let name = &described.name;
    if whole.site.iter().any(|it| it.name == *name) {
        return Some(format!(
            "the configuration has a site `{name}` already: rename the container"
        ));
    }
    let hosts = labelled.site.get("hosts").and_then(toml::Value::as_array);
    for host in hosts.into_iter().flatten().filter_map(toml::Value::as_str) {
        let has_it = |it: &String| host_name(it) == host_name(host);
        let Some(other) = whole.site.iter().find(|it| it.hosts.iter().any(has_it)) else {
            continue;
        };
        let other = &other.name;
        let is_configured = config.site.iter().any(|it| it.name == *other);
        let owner = if is_configured {
            format!("the site `{other}` of the configuration")
        } else {
            format!("the container `{other}`, which was created before this one")
        };
        return Some(format!(
            "the host `{host}` belongs to {owner}: remove it from the label nightwatt.hosts of this one, or from the other"
        ));
    }
    None
}

/// The daemon of a configuration.
fn engine(config: &Config, clock: &Clock) -> Option<Engine> {
    let (name, address) = config.containers.as_ref()?.daemon()?;
    Some(Engine::new(name, address.clone(), clock.clone()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn container(name: &str, host: &str, created_ns: i128) -> Described {
        let labels = [("enable", "true"), ("hosts", host), ("port", "80")];
        let labels = labels.map(|(key, value)| (format!("nightwatt.{key}"), value.to_owned()));
        Described {
            name: name.to_owned(),
            labels: labels.into_iter().collect(),
            published: BTreeMap::from([(80, (String::new(), Some(18_080)))]),
            on_host_network: false,
            network_of: None,
            absent: Vec::new(),
            created_ns,
        }
    }

    fn config(socket: &str, more: &str) -> Config {
        let text =
            format!("listen = [\"127.0.0.1:0\"]\n{more}\n[containers]\ndocker = \"{socket}\"\n");
        Config::parse(&text, "x").unwrap()
    }

    /// Each container with what became of it, and the sites.
    fn applied(found: &Found, config: &Config) -> (Vec<String>, String) {
        let Applied { config, outcomes } = found.apply(config);
        let outcomes = outcomes.iter().map(|it| format!("{} {}", it.name, it.outcome.as_str()));
        let sites: Vec<String> = config.site.into_iter().map(|it| it.name).collect();
        (outcomes.collect(), sites.join(" "))
    }

    #[test]
    fn the_oldest_of_two_containers_keeps_a_host_whenever_the_proxy_started() {
        let config = config("/a", "");
        let (wiki, aaa, blog) = (
            container("wiki", "wiki.lan", 10),
            container("aaa", "wiki.lan", 20),
            container("blog", "blog.lan, wiki.lan", 30),
        );
        let wanted = (
            ["wiki site", "aaa conflict", "blog conflict"].map(str::to_owned).to_vec(),
            "wiki".to_owned(),
        );
        // At its first start, and after they came one by one, the youngest first.
        let first = Found::default();
        assert!(first.set("docker at /a", vec![aaa.clone(), blog.clone(), wiki.clone()]));
        assert_eq!(applied(&first, &config), wanted);
        let later = Found::default();
        for all in [
            vec![blog.clone()],
            vec![aaa.clone(), blog.clone()],
            vec![aaa.clone(), blog, wiki.clone()],
        ] {
            assert!(later.set("docker at /a", all));
        }
        assert_eq!(applied(&later, &config), wanted);
        let same_moment = Found::default();
        same_moment.set("docker at /a", vec![container("wiki", "wiki.lan", 20), aaa.clone()]);
        assert_eq!(applied(&same_moment, &config).1, "aaa");
        let why = later.apply(&config).outcomes[1].why.clone().unwrap();
        assert!(
            why.contains("`wiki.lan` belongs to the container `wiki`, which was created before"),
            "{why}"
        );
        assert!(!later.set("docker at /a", later.all("docker at /a")), "nothing has changed");
        later.set("docker at /a", vec![aaa]);
        assert_eq!(applied(&later, &config).1, "aaa", "it is free now");
    }

    #[test]
    fn a_site_of_the_configuration_keeps_its_host_and_its_name() {
        let own = "[[site]]\nname = \"blog\"\nhosts = [\"blog.lan\"]\norigin = \"http://127.0.0.1:1\"\n\
                   power.simulated = {}";
        let found = Found::default();
        let all = [("a", "blog.lan"), ("blog", "x.lan"), ("c", "c.lan"), ("d", "a b")];
        let all = all.iter().zip(1..).map(|((name, host), age)| container(name, host, age));
        found.set("docker at /a", all.collect());
        let (outcomes, sites) = applied(&found, &config("/a", own));
        assert_eq!(outcomes, ["a conflict", "blog conflict", "c site", "d refused"]);
        assert_eq!(sites, "blog c");
    }

    #[test]
    fn containers_of_one_daemon_are_no_sites_of_another() {
        let found = Found::default();
        found.set("docker at /a", vec![container("wiki", "wiki.lan", 1)]);
        let (a, b) = (config("/a", ""), config("/b", ""));
        assert_eq!(applied(&found, &a).1, "wiki");
        assert_eq!(applied(&found, &b).1, "");
        // The reload has succeeded, and the old daemon is forgotten.
        found.set("docker at /b", vec![container("blog", "blog.lan", 1)]);
        let Applied { outcomes, .. } = found.apply(&b);
        found.note(&b, outcomes);
        assert_eq!(
            (applied(&found, &a).1, applied(&found, &b).1),
            (String::new(), "blog".to_owned())
        );
    }

    #[test]
    fn status_has_the_daemon_since_when_it_is_lost_and_every_container() {
        let found = Found::default();
        let config = config("/a", "");
        let clock = Clock::virtual_at(nightwatt_energy::time::Wall::from_secs(1000), 0);
        let status = || found.status(&config, clock.now()).unwrap();
        assert_eq!((status().up, status().lost_ms), (false, None), "not asked yet");
        let mut wrong = container("wrong", "w.lan", 2);
        wrong.labels.insert("nightwatt.port".to_owned(), "eighty".to_owned());
        let mut needed = container("needed", "", 3);
        needed.labels.clear();
        found.set("docker at /a", vec![container("wiki", "wiki.lan", 1), wrong, needed]);
        found.note(&config, found.apply(&config).outcomes);
        let ContainersStatus { daemon, up, containers, .. } = status();
        assert_eq!((daemon.as_str(), up), ("docker at /a", true));
        let words =
            containers.iter().map(|it| (&*it.name, it.outcome.as_str(), it.hosts.join(",")));
        let wanted = [
            ("wiki", "site", "wiki.lan"),
            ("wrong", "wrong-label", "w.lan"),
            ("needed", "no-site", ""),
        ];
        assert!(words.eq(wanted.map(|(name, outcome, hosts)| (name, outcome, hosts.to_owned()))));
        let why = containers[1].why.as_deref().unwrap();
        assert_eq!(why, "label nightwatt.port, value `eighty`: write a port from 1 to 65535");
        clock.runtime().unwrap().block_on(async {
            found.lost("docker at /a", clock.now(), "first".to_owned());
            clock.sleep(Duration::from_mins(1)).await;
            found.lost("docker at /a", clock.now(), "again".to_owned());
        });
        let lost = status();
        assert_eq!((lost.up, lost.lost_ms, lost.lost_for_s), (false, Some(1_000_000), Some(60.0)));
        assert_eq!((lost.problem.as_deref(), lost.containers.len()), (Some("again"), 3));
        found.set("docker at /a", Vec::new());
        assert_eq!((status().up, status().lost_ms), (true, None));
    }
}
