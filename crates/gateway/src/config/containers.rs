//! `[containers]`: sites that labels of containers describe.

use std::collections::HashSet;

use nightwatt_policy::scenario::Scenario;
use nightwatt_power::docker;
use serde::Deserialize;

use super::{Config, OddEvents, SiteConfig, Wrong, listening, wrong};
use crate::containers::labels::Labelled;

/// Where containers are looked for, and what their sites have in common.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContainersConfig {
    /// The socket of Docker's daemon.
    pub docker: Option<docker::Address>,
    /// The socket of podman's.
    pub podman: Option<docker::Address>,
    /// Keys of `[[site]]` that all their sites have.
    pub site: toml::Table,
    /// The file writes an `sla` for all sites.
    #[serde(skip)]
    pub(super) file_has_sla: bool,
}

/// Keys that come from the container.
const OWN: [&str; 5] = ["name", "hosts", "origin", "power", "server"];

impl ContainersConfig {
    /// The daemon: name, as in `[site.power]`, and address.
    pub fn daemon(&self) -> Option<(&'static str, &docker::Address)> {
        let podman = self.podman.as_ref().map(|it| ("podman", it));
        podman.or(self.docker.as_ref().map(|it| ("docker", it)))
    }

    /// Notes what only the text of the file tells.
    pub(super) fn read_table(&mut self, file: &toml::Table) {
        self.file_has_sla = has_sla(file);
    }

    /// The site that labels describe.
    pub(crate) fn site_of(
        &self,
        labelled: Labelled,
        config: &Config,
    ) -> Result<SiteConfig, String> {
        let Labelled { site, policy } = labelled;
        let own = site.get("scenario").and_then(toml::Value::as_table);
        let has_own_sla = own.map_or(self.file_has_sla, |own| own.contains_key("sla"));
        let mut site = SiteConfig::deserialize(site).map_err(|error| error.message().to_owned())?;
        site.has_own_sla = has_own_sla;
        if let Some(policy) = policy {
            let scenario = site.scenario.as_ref().unwrap_or(&config.scenario).clone();
            site.scenario = Some(Scenario { policy, ..scenario });
        }
        Ok(site)
    }
}

/// A name for the example that no site, machine, service or job has.
fn free_name(taken: &HashSet<String>) -> String {
    let mut name = "example".to_owned();
    while taken.contains(&format!("name {name}")) {
        name.push('-');
    }
    name
}

fn has_sla(file: &toml::Table) -> bool {
    file.get("scenario").is_some_and(|scenario| scenario.get("sla").is_some())
}

impl Config {
    /// Checks what all sites of containers have in common, by the example of one. The rest of the configuration is
    /// right, and these names are `taken`.
    pub(super) fn check_containers(&self, taken: &HashSet<String>) -> Result<(), Wrong> {
        let Some(containers) = &self.containers else { return Ok(()) };
        if containers.docker.is_some() == containers.podman.is_some() {
            let text = "whose containers? Write `podman = \"/run/podman/podman.sock\"` or \
                        `docker = \"/var/run/docker.sock\"`, one of the two";
            return wrong("containers", text);
        }
        if let Some(key) = OWN.iter().find(|key| containers.site.contains_key(**key)) {
            return wrong(
                format!("containers.site.{key}"),
                format!("`{key}` comes from the container or its labels: leave it out"),
            );
        }
        let mut example = containers.site.clone();
        example.insert("name".to_owned(), free_name(taken).into());
        example.insert("hosts".to_owned(), vec!["example.invalid"].into());
        example.insert("origin".to_owned(), "http://127.0.0.1:1".into());
        let name = containers.daemon().map_or("podman", |(name, _)| name);
        let driver: toml::Table =
            [("container".to_owned(), "example".into())].into_iter().collect();
        let power: toml::Table = [(name.to_owned(), driver.into())].into_iter().collect();
        example.insert("power".to_owned(), power.into());
        let tried = SiteConfig::deserialize(example).map_err(|error| error.message().to_owned());
        let tried = tried.and_then(|site| self.with_site(site).map(drop));
        tried.map_err(|text| Wrong::new("containers.site", text))
    }

    /// Checks that no container is needed that a site or machine controls: it would be stopped for the one while it is
    /// used for the other.
    pub(super) fn check_needs(&self) -> Result<(), Wrong> {
        let sites = self.site.iter().enumerate();
        let of_sites = sites.clone().filter_map(|(index, it)| {
            Some((format!("site.{index}.power"), &it.name, it.power.as_ref()?))
        });
        let members = sites.flat_map(|(index, site)| {
            site.server.iter().enumerate().filter_map(move |(of, it)| {
                Some((format!("site.{index}.server.{of}.power"), &it.name, it.power.as_ref()?))
            })
        });
        let machines = self.machine.iter().enumerate();
        let machines =
            machines.map(|(index, it)| (format!("machine.{index}.power"), &it.name, &it.power));
        let all = of_sites.chain(members).chain(machines);
        let all: Vec<_> =
            all.filter_map(|(key, owner, power)| Some((key, owner, power.container()?))).collect();
        for (key, _, user) in &all {
            for (_, owner, it) in all.iter().filter(|(.., it)| it.socket == user.socket) {
                if user.needs.iter().any(|needed| needed == it.name) {
                    let text = format!(
                        "`needs` has the container `{}`, which `{owner}` controls and stops when it is idle: leave it \
                         out of `needs`, or give `{owner}` no power over it",
                        it.name
                    );
                    return wrong(key.clone(), text);
                }
            }
        }
        Ok(())
    }

    /// This configuration with one more site. The error says what is wrong with that site.
    pub(crate) fn with_site(&self, mut site: SiteConfig) -> Result<Self, String> {
        if let Some(other) = self.site.iter().find(|it| it.name == site.name) {
            return Err(format!("there is a site `{}` already: rename the container", other.name));
        }
        site.name_origins();
        let mut config = Self { containers: None, ..self.clone() };
        config.site.push(site);
        config.check().map_err(|Wrong { key, text }| match key.split_once('.') {
            Some(("site", rest)) => {
                let key = rest.split_once('.').map_or(rest, |(_, key)| key);
                format!("{text} (`{key}`)")
            }
            _ => text,
        })?;
        config.containers.clone_from(&self.containers);
        // What is wrong without it is not its fault.
        if listening::check(self).is_ok() {
            listening::check(&config).map_err(|it| it.text)?;
        }
        if let Some(site) = config.site.last_mut() {
            site.read_files(OddEvents::Skip).map_err(|it| it.text)?;
        }
        config.gather_authorities();
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(lines: &str) -> Result<Config, String> {
        let text = format!("listen = [\"127.0.0.1:0\"]\n[containers]\n{lines}\n");
        Config::parse(&text, "test.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn containers_alone_are_a_configuration_and_what_their_sites_share_is_checked_at_once() {
        let config =
            parse("podman = \"/run/podman/podman.sock\"\nsite.in_use = [{ cpu = 0.05 }]").unwrap();
        assert_eq!(config.containers.unwrap().daemon().unwrap().0, "podman");
        for (lines, why) in [
            ("", "whose containers?"),
            ("docker = \"/a\"\npodman = \"/b\"", "one of the two"),
            ("docker = \"a\"", "the whole path of a socket"),
            ("docker = \"/a\"\nsite.hosts = [\"a\"]", "leave it out"),
            ("docker = \"/a\"\nsite.knid = \"app\"", "unknown field `knid`"),
            ("docker = \"/a\"\nsite.wake_timeout = \"0s\"", "is 0"),
        ] {
            let said = parse(lines).unwrap_err();
            assert!(said.starts_with("test.toml:") && said.contains(why), "{lines}: {said}");
        }
    }

    #[test]
    fn what_is_wrong_elsewhere_is_shown_there_and_not_at_the_containers() {
        let service =
            "name = \"a\"\nlisten = [\"127.0.0.1:2222\"]\norigin = \"10.0.0.5:22\"\non = \"nas\"";
        let job = "name = \"a\"\non = \"nas\"\nat = \"03:00\"\ncommand = [\"true\"]";
        for (lines, shown) in [
            ("[magic_packets]".to_owned(), "[magic_packets]"),
            ("[gate]\nlisten = [\"127.0.0.1:9181\"]\nquiet = \"0s\"".to_owned(), "quiet = \"0s\""),
            (format!("[[tcp]]\n{service}"), "on = \"nas\""),
            (format!("[[udp]]\n{service}"), "on = \"nas\""),
            (format!("[[job]]\n{job}"), "on = \"nas\""),
        ] {
            let text = format!(
                "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"blog\"\nhosts = [\"blog\"]\n\
                 origin = \"http://127.0.0.1:1\"\npower.simulated = {{}}\n{lines}\n[containers]\ndocker = \"/a\"\n"
            );
            let said = Config::parse(&text, "x").unwrap_err().to_string();
            assert!(said.contains(&format!(" | {shown}\n")), "{lines}: {said}");
        }
    }

    #[test]
    fn a_site_and_a_service_may_have_the_name_of_the_example() {
        let text = "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"example\"\nhosts = [\"blog\"]\n\
                    origin = \"http://127.0.0.1:1\"\npower.simulated = {}\n[[tcp]]\nname = \"example-\"\n\
                    listen = [\"127.0.0.1:2222\"]\norigin = \"10.0.0.5:22\"\non = \"example\"\n\
                    [containers]\ndocker = \"/a\"\n";
        let names = Config::parse(text, "x").map(|it| it.site.len() + it.tcp.len());
        assert_eq!(names.map_err(|error| error.to_string()), Ok(2));
    }

    #[test]
    fn a_site_of_a_container_must_fit_to_the_others() {
        let text = "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"blog\"\nhosts = [\"blog\"]\n\
                    origin = \"http://127.0.0.1:1\"\npower.simulated = {}\n[containers]\ndocker = \"/a\"\n";
        let config = Config::parse(text, "x").unwrap();
        let labelled = |name: &str, host: &str| {
            let text = format!(
                "name = \"{name}\"\nhosts = [\"{host}\"]\norigin = \"http://127.0.0.1:2\"\n\
                 power.docker.container = \"{name}\""
            );
            let labelled = Labelled { site: text.parse().unwrap(), policy: None };
            let site = config.containers.as_ref().unwrap().site_of(labelled, &config).unwrap();
            config.with_site(site).map(|it| it.site.len())
        };
        assert_eq!(labelled("wiki", "wiki"), Ok(2));
        assert!(labelled("blog", "wiki").unwrap_err().contains("there is a site `blog` already"));
        assert!(labelled("wiki", "blog").unwrap_err().contains("`hosts`"));
        assert!(labelled("wiki", "a b").is_err());
    }

    #[test]
    fn a_site_of_a_container_is_read_and_checked_as_one_of_the_file() {
        let text = "listen = [\"127.0.0.1:8080\"]\n[containers]\ndocker = \"/a\"\n";
        let config = Config::parse(text, "x").unwrap();
        let wrong = |port: u16, lines: &str| {
            let text = format!(
                "name = \"wiki\"\nhosts = [\"wiki\"]\norigin = \"http://127.0.0.1:{port}\"\n\
                 power.docker.container = \"wiki\"\n{lines}"
            );
            let labelled = Labelled { site: text.parse().unwrap(), policy: None };
            let site = config.containers.as_ref().unwrap().site_of(labelled, &config).unwrap();
            config.with_site(site).err()
        };
        assert_eq!(wrong(8081, ""), None);
        assert!(wrong(8080, "").unwrap().contains("where nightwatt itself listens"));
        let days = "scenario.awake = [\"08:00-10:00\"]\nscenario.holidays = \"/no/such/days.ics\"";
        let named = "`scenario.holidays` is /no/such/days.ics: cannot read it: No such file";
        assert!(wrong(8081, days).unwrap().starts_with(named));
    }

    #[test]
    fn a_container_that_a_site_controls_is_needed_by_no_other_one() {
        let parse = |db: &str, needs: &str| {
            let site = |name: &str, power: &str| {
                format!(
                    "[[site]]\nname = \"{name}\"\nhosts = [\"{name}\"]\norigin = \"http://127.0.0.1:1\"\n\
                     power.podman = {{ {power} }}\n"
                )
            };
            let (db, wiki) = (site("dbsite", db), site("wiki", needs));
            let text = format!("listen = [\"127.0.0.1:0\"]\n{db}{wiki}");
            Config::parse(&text, "test.toml").map_err(|error| error.to_string())
        };
        let needs = "container = \"wiki\", needs = [\"db\"]";
        let said = parse("container = \"db\"", needs).unwrap_err();
        assert!(said.contains("`db`, which `dbsite` controls"), "{said}");
        assert!(parse("container = \"other\"", needs).is_ok());
        assert!(parse("container = \"db\", socket = \"/run/b.sock\"", needs).is_ok());
    }
}
