//! What the labels of a container say about its site. They are written by others than the configuration: what is wrong
//! with one concerns its container alone.

use nightwatt_host::text::brief;
use nightwatt_policy::sleep::PolicyChoice;
use nightwatt_power::engine::Described;
use toml::{Table, Value};

const ENABLE: &str = "nightwatt.enable";
const HOSTS: &str = "nightwatt.hosts";
const PORT: &str = "nightwatt.port";
const ADDRESS: &str = "nightwatt.address";
const POLICY: &str = "nightwatt.policy";
const KIND: &str = "nightwatt.kind";
const NEEDS: &str = "nightwatt.needs";
const GROUP: &str = "nightwatt.group";

const KNOWN: [&str; 8] = [ENABLE, HOSTS, PORT, ADDRESS, POLICY, KIND, NEEDS, GROUP];

/// What labels describe.
#[derive(Debug, Clone, PartialEq)]
pub struct Labelled {
    /// A table as of `[[site]]`.
    pub site: Table,
    /// Its sleep policy, if a label names one.
    pub policy: Option<PolicyChoice>,
}

/// A label that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelError {
    /// Its name.
    pub label: String,
    /// Its value, shortened; empty if it is missing.
    pub value: String,
    /// What is wrong, and what to do.
    pub why: String,
}

/// A container with labels.
struct Labels<'a>(&'a Described);

impl<'a> Labels<'a> {
    /// The value of a label, unless it is empty.
    fn get(&self, label: &str) -> Option<&'a str> {
        self.0.labels.get(label).map(|it| it.trim()).filter(|it| !it.is_empty())
    }

    fn wrong(&self, label: &str, why: impl Into<String>) -> LabelError {
        let value = brief(self.get(label).unwrap_or_default().as_bytes());
        LabelError { label: label.to_owned(), value, why: why.into() }
    }

    /// The parts of a list with commas.
    fn list(&self, label: &str) -> Vec<&'a str> {
        let parts = self.get(label).unwrap_or_default().split(',');
        parts.map(str::trim).filter(|it| !it.is_empty()).collect()
    }

    fn is_enabled(&self) -> Result<bool, LabelError> {
        match self.get(ENABLE) {
            None => Ok(false),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(_) => Err(self.wrong(ENABLE, "write `true` or `false`")),
        }
    }

    /// `HOST:PORT` at which the proxy reaches it.
    fn authority(&self) -> Result<String, LabelError> {
        let Described { published, on_host_network, network_of, .. } = self.0;
        let port = if let Some(text) = self.get(PORT) {
            let port = text.parse().ok().filter(|port: &u16| *port != 0);
            port.ok_or_else(|| self.wrong(PORT, "write a port from 1 to 65535"))?
        } else {
            let mut ports = published.keys();
            let only = ports.next().filter(|_| ports.next().is_none());
            let why = "the container publishes no port or several: write the port inside of it at which its \
                       program answers, as in `nightwatt.port=8080`";
            *only.ok_or_else(|| match network_of {
                Some(other) => self.wrong(ADDRESS, shares_network(other)),
                None => self.wrong(PORT, why),
            })?
        };
        if let Some(address) = self.get(ADDRESS) {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
            if !address.chars().all(plain) {
                return Err(self.wrong(ADDRESS, "write a host name or an address"));
            }
            let address = if address.contains(':') && !address.starts_with('[') {
                format!("[{address}]")
            } else {
                address.to_owned()
            };
            return Ok(format!("{address}:{port}"));
        }
        match published.get(&port) {
            Some((host, Some(outside))) => Ok(match host.as_str() {
                "" | "0.0.0.0" | "::" => format!("127.0.0.1:{outside}"),
                v6 if v6.contains(':') => format!("[{v6}]:{outside}"),
                host => format!("{host}:{outside}"),
            }),
            Some((_, None)) => Err(self.wrong(
                PORT,
                format!(
                    "port {port} is published at another port after each start: create the container with a fixed \
                     one, as in `-p 127.0.0.1:{port}:{port}`"
                ),
            )),
            None if *on_host_network => Ok(format!("127.0.0.1:{port}")),
            None => Err(match network_of {
                Some(other) => self.wrong(ADDRESS, shares_network(other)),
                None => self.wrong(
                    PORT,
                    format!(
                        "port {port} is not published: create the container with `-p 127.0.0.1:{port}:{port}`, or \
                         write the label {ADDRESS} with the host at which the proxy reaches it"
                    ),
                ),
            }),
        }
    }

    /// What it needs, in the order in which it is started: `nightwatt.needs`, then the rest of its group by name.
    fn needs(&self, all: &[Described]) -> Result<Vec<String>, LabelError> {
        let mut needs: Vec<String> = Vec::new();
        for name in self.list(NEEDS) {
            let there = all.iter().find(|it| it.name == name);
            let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
            if !is_name {
                let why = format!(
                    "`{}` cannot be the name of a container: write the names with commas between them, as in \
                     `{NEEDS}=db,cache`",
                    brief(name.as_bytes())
                );
                return Err(self.wrong(NEEDS, why));
            }
            if name == self.0.name {
                return Err(self.wrong(NEEDS, "a container cannot need itself"));
            }
            if needs.iter().any(|it| it == name) {
                return Err(self.wrong(NEEDS, format!("`{name}` is there twice")));
            }
            if there.is_some_and(|it| Labels(it).is_enabled() == Ok(true)) {
                let why = format!(
                    "`{name}` has a site of its own, which stops it when it is idle: remove its label {ENABLE}, or \
                     leave it out here"
                );
                return Err(self.wrong(NEEDS, why));
            }
            needs.push(name.to_owned());
        }
        let Some(group) = self.get(GROUP) else { return Ok(needs) };
        let mut rest: Vec<&String> = Vec::new();
        for other in all.iter().filter(|it| it.name != self.0.name) {
            let is_in = Labels(other).get(GROUP) == Some(group);
            let serves = Labels(other).is_enabled() == Ok(true);
            if is_in && !serves && !needs.contains(&other.name) {
                rest.push(&other.name);
            }
        }
        rest.sort();
        needs.extend(rest.into_iter().cloned());
        Ok(needs)
    }
}

/// What to do with a container that publishes nothing, because it has the network of another one.
fn shares_network(other: &str) -> String {
    format!(
        "the container has the network of another one (`{other}`: a pod, or `--network container:NAME`), which publishes the \
         ports of both: write `{ADDRESS}=127.0.0.1`, and in {PORT} the port at which the other one publishes it"
    )
}

fn list(texts: impl IntoIterator<Item = String>) -> Value {
    Value::Array(texts.into_iter().map(Value::String).collect())
}

/// The hosts that a container's labels name, shortened.
pub fn hosts(container: &Described) -> Vec<String> {
    Labels(container).list(HOSTS).iter().map(|it| brief(it.as_bytes())).collect()
}

/// The site of a container as a table of the configuration, if it has one: `template` with what the labels say. `all`
/// are the containers with labels; `daemon` and `socket` control them.
///
/// # Errors
///
/// Which label is wrong.
pub fn site(
    container: &Described,
    all: &[Described],
    template: &Table,
    daemon: &str,
    socket: &str,
) -> Result<Option<Labelled>, LabelError> {
    let labels = Labels(container);
    if !labels.is_enabled()? {
        return Ok(None);
    }
    let unknown = |it: &&String| it.starts_with("nightwatt.") && !KNOWN.contains(&it.as_str());
    if let Some(label) = container.labels.keys().find(unknown) {
        let why = format!("there is no such label: there are {}", KNOWN.join(", "));
        return Err(labels.wrong(label, why));
    }
    let hosts = labels.list(HOSTS);
    if hosts.is_empty() {
        return Err(labels.wrong(
            HOSTS,
            "write the names of its site, as in `nightwatt.hosts=wiki.example.org`",
        ));
    }
    let twice = hosts
        .iter()
        .enumerate()
        .find(|(at, host)| hosts[..*at].iter().any(|it| it.eq_ignore_ascii_case(host)));
    if let Some((_, host)) = twice {
        let why = format!("`{}` is there twice: write each name once", brief(host.as_bytes()));
        return Err(labels.wrong(HOSTS, why));
    }
    let mut power = Table::new();
    power.insert("container".to_owned(), container.name.clone().into());
    power.insert("socket".to_owned(), socket.into());
    let needs = labels.needs(all)?;
    if !needs.is_empty() {
        power.insert("needs".to_owned(), list(needs));
    }
    let power: Table = [(daemon.to_owned(), power.into())].into_iter().collect();
    let mut site = template.clone();
    site.insert("name".to_owned(), container.name.clone().into());
    site.insert("hosts".to_owned(), list(hosts.iter().map(|&it| it.to_owned())));
    site.insert("origin".to_owned(), format!("http://{}", labels.authority()?).into());
    site.insert("power".to_owned(), power.into());
    if let Some(kind) = labels.get(KIND) {
        if !["app", "pages"].contains(&kind) {
            return Err(labels.wrong(KIND, "write `app` or `pages`"));
        }
        site.insert("kind".to_owned(), kind.into());
    }
    let policy = labels.get(POLICY).map(str::parse).transpose();
    let policy = policy.map_err(|why: String| labels.wrong(POLICY, why))?;
    Ok(Some(Labelled { site, policy }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A container with these labels that publishes its port 8080 as 18080.
    fn container(name: &str, labels: &[(&str, &str)]) -> Described {
        let labels = labels.iter().map(|&(name, value)| {
            let name =
                if name.contains('.') { name.to_owned() } else { format!("nightwatt.{name}") };
            (name, value.to_owned())
        });
        Described {
            name: name.to_owned(),
            labels: labels.collect(),
            published: [(8080, (String::new(), Some(18_080)))].into_iter().collect(),
            on_host_network: false,
            network_of: None,
            absent: Vec::new(),
            created_ns: 0,
        }
    }

    fn of(it: &Described, all: &[Described]) -> Result<Option<Labelled>, LabelError> {
        let template: Table = "kind = \"app\"\ncompression.enabled = true".parse().unwrap();
        site(it, all, &template, "podman", "/run/podman/podman.sock")
    }

    const WIKI: [(&str, &str); 2] =
        [("enable", "true"), ("hosts", "wiki.example.org, w.example.org")];

    #[test]
    fn labels_describe_a_site_with_what_all_have_in_common() {
        let labels = [&WIKI[..], &[("policy", "timeout 10m"), ("needs", "db, cache")]].concat();
        let found = of(&container("wiki", &labels), &[]).unwrap().unwrap();
        let wanted: Table =
            "kind = \"app\"\nname = \"wiki\"\norigin = \"http://127.0.0.1:18080\"\n\
             hosts = [\"wiki.example.org\", \"w.example.org\"]\n\
             power.podman = { container = \"wiki\", socket = \"/run/podman/podman.sock\", \
             needs = [\"db\", \"cache\"] }\n\
             compression.enabled = true"
                .parse()
                .unwrap();
        assert_eq!(found.site, wanted);
        let idle = std::time::Duration::from_mins(10);
        assert_eq!(found.policy, Some(PolicyChoice::Timeout { idle }));
        assert_eq!(of(&container("db", &[("group", "wiki")]), &[]), Ok(None));
        assert_eq!(of(&container("db", &[("enable", "False"), ("port", "x")]), &[]), Ok(None));
    }

    #[test]
    fn a_port_is_found_where_it_is_published() {
        let origin = |change: &dyn Fn(&mut Described), labels: &[(&str, &str)]| {
            let mut it = container("wiki", &[&WIKI[..], labels].concat());
            change(&mut it);
            let labelled = of(&it, &[]).map_err(|wrong| wrong.why)?.unwrap();
            Ok::<_, String>(labelled.site["origin"].as_str().unwrap().to_owned())
        };
        let same = |_: &mut Described| {};
        assert_eq!(origin(&same, &[("port", "8080")]).unwrap(), "http://127.0.0.1:18080");
        let at = |host: &'static str| {
            move |it: &mut Described| {
                it.published.insert(8080, (host.to_owned(), Some(81)));
            }
        };
        assert_eq!(origin(&at("10.0.0.2"), &[]).unwrap(), "http://10.0.0.2:81");
        assert_eq!(origin(&at("::"), &[]).unwrap(), "http://127.0.0.1:81");
        assert_eq!(origin(&at("fd00::1"), &[]).unwrap(), "http://[fd00::1]:81");
        let host = |it: &mut Described| it.on_host_network = true;
        assert_eq!(origin(&host, &[("port", "80")]).unwrap(), "http://127.0.0.1:80");
        let inner = [("port", "80"), ("address", "wiki.internal")];
        assert_eq!(origin(&same, &inner).unwrap(), "http://wiki.internal:80");
        assert_eq!(
            origin(&same, &[("port", "80"), ("address", "fd00::2")]).unwrap(),
            "http://[fd00::2]:80"
        );
        assert!(origin(&same, &[("port", "80")]).unwrap_err().contains("`-p 127.0.0.1:80:80`"));
        let random = |it: &mut Described| it.published = [(8080, (String::new(), None))].into();
        assert!(origin(&random, &[]).unwrap_err().contains("another port after each start"));
        let none = |it: &mut Described| it.published.clear();
        assert!(origin(&none, &[]).unwrap_err().contains("publishes no port or several"));
        let pod = |it: &mut Described| {
            it.published.clear();
            it.network_of = Some("vpn".to_owned());
        };
        for labels in [&[][..], &[("port", "80")]] {
            let said = origin(&pod, labels).unwrap_err();
            assert!(
                said.contains("`vpn`") && said.contains("`nightwatt.address=127.0.0.1`"),
                "{said}"
            );
        }
        let remedy = [("port", "18080"), ("address", "127.0.0.1")];
        assert_eq!(origin(&pod, &remedy).unwrap(), "http://127.0.0.1:18080");
    }

    #[test]
    fn the_rest_of_a_group_is_needed_after_what_is_named() {
        let all = [
            container("cache", &[("group", "wiki")]),
            container("db", &[("group", "wiki")]),
            container("other", &[("group", "blog")]),
            container("second", &[&WIKI[..], &[("group", "wiki")]].concat()),
            container("archive", &[("group", "wiki")]),
        ];
        let wiki = container("wiki", &[&WIKI[..], &[("group", "wiki"), ("needs", "db")]].concat());
        let found = of(&wiki, &all).unwrap().unwrap();
        let needs = found.site["power"]["podman"]["needs"].as_array().unwrap();
        assert_eq!(
            needs.iter().filter_map(Value::as_str).collect::<Vec<_>>(),
            ["db", "archive", "cache"]
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_value_and_what_to_do() {
        let second = container("second", &WIKI);
        for (labels, label, value, why) in [
            (&[("enable", "yes")][..], "enable", "yes", "`true` or `false`"),
            (&[("enable", "true")], "hosts", "", "write the names"),
            (&[("hosts", " , ")], "hosts", ",", "write the names"),
            (&[("port", "99999")], "port", "99999", "1 to 65535"),
            (&[("port", "0")], "port", "0", "1 to 65535"),
            (&[("address", "a/b")], "address", "a/b", "a host name"),
            (&[("kind", "blog")], "kind", "blog", "`app` or `pages`"),
            (&[("policy", "often")], "policy", "often", "choose"),
            (&[("needs", "wiki")], "needs", "wiki", "need itself"),
            (&[("needs", "db,db")], "needs", "db,db", "twice"),
            (&[("needs", "a b")], "needs", "a b", "with commas between them"),
            (&[("hosts", "b10.lan,B10.lan")], "hosts", "b10.lan,B10.lan", "twice"),
            (&[("needs", "second")], "needs", "second", "a site of its own"),
            (&[("polcy", "window\u{1b}[2J")], "polcy", "window\u{fffd}[2J", "no such label"),
        ] {
            let labels: Vec<_> = WIKI
                .iter()
                .filter(|(name, _)| !(*name == "hosts" && label == "hosts" || *name == labels[0].0))
                .chain(labels)
                .copied()
                .collect();
            let wrong = of(&container("wiki", &labels), std::slice::from_ref(&second)).unwrap_err();
            assert_eq!(wrong.label, format!("nightwatt.{label}"));
            assert_eq!(wrong.value, value);
            assert!(wrong.why.contains(why), "{wrong:?}");
        }
    }
}
