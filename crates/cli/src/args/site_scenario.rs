//! The scenario of a site in a configuration, for commands that compute what `serve` would do.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use nightwatt_gateway::Config;
use nightwatt_gateway::config::{SiteConfig, SiteKind};
use nightwatt_policy::electricity::Electricity;
use nightwatt_policy::scenario::Scenario;
use nightwatt_savings::analyze::Tables;
use nightwatt_traffic::classifier::ClassifierConfig;

use super::ConfigArgs;
use crate::errors::Failure;
use crate::{control, output};

/// Which configuration, and which of its sites.
#[derive(Debug, clap::Args)]
pub(crate) struct SiteScenarioArgs {
    /// Configuration with the watts, the SLA, the policy and the log [default: nightwatt.toml, else
    /// /etc/nightwatt/nightwatt.toml, if there is one]
    #[arg(short, long, value_name = "FILE", conflicts_with = "scenario", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// The site of the configuration that the log is of, if its sites differ
    #[arg(long, value_name = "NAME", conflicts_with = "scenario")]
    site: Option<String>,
}

/// What a configuration says of a site.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SiteScenario {
    pub(crate) scenario: Scenario,
    pub(crate) clients: ClassifierConfig,
    /// The access log of the gateway.
    pub(crate) access_log: Option<PathBuf>,
    /// The site is an application, which has no mirror.
    pub(crate) is_app: bool,
    /// The site, if there is one that it holds for alone.
    site: Option<String>,
    /// The table of the scenario: `scenario`, or `site.scenario`.
    table: &'static str,
    /// The table of the server's power: in that of the scenario, or in that of a machine.
    server: &'static str,
    /// The path of the configuration, as given.
    file: Option<String>,
}

impl SiteScenarioArgs {
    /// What the configuration says, if there is one; nothing if a scenario is given instead. A configuration that was
    /// only found is left alone if this user may not read it, with a warning.
    pub(crate) fn found(&self, has_scenario: bool) -> Result<Option<SiteScenario>, Failure> {
        let given = self.config.clone();
        let Some(path) = given.or_else(ConfigArgs::found).filter(|_| !has_scenario) else {
            return self.site.as_ref().map_or(Ok(None), |site| Err(no_configuration(site)));
        };
        let shown = path.display().to_string();
        if self.config.is_none() && is_forbidden(&path) {
            output::complain(&format!(
                "warning: {shown} may not be read by this user, so the server's figures are assumed; run as root, or \
                 give `--scenario FILE`"
            ));
            return Ok(None);
        }
        let config = control::load(&ConfigArgs { config: path })?;
        let found = SiteScenario::of(&config, self.site.as_deref())?;
        let site = found.site.as_ref().map_or_else(String::new, |site| format!(", site {site}"));
        output::complain(&format!(
            "note: watts, SLA and policy are those of {shown}{site}; `--scenario FILE` replaces them"
        ));
        Ok(Some(found.named(Path::new(&shown))))
    }
}

/// Which configuration and site, for commands whose figures stand for a published server unless the user asks for
/// others.
#[derive(Debug, clap::Args)]
pub(crate) struct ChosenSiteArgs {
    /// Configuration with the watts, the SLA and the policy, instead of the published server's
    #[arg(short, long, value_name = "FILE", conflicts_with = "scenario", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// The site of the configuration, if its sites differ
    #[arg(long, value_name = "NAME", conflicts_with = "scenario")]
    site: Option<String>,
}

impl ChosenSiteArgs {
    /// The scenario of the configuration, if one is given; or if one is found, where that `may_be_found`.
    pub(crate) fn scenario(&self, may_be_found: bool) -> Result<Option<Scenario>, Failure> {
        let Self { config, site } = self;
        let is_asked = may_be_found || config.is_some() || site.is_some();
        let args = SiteScenarioArgs { config: config.clone(), site: site.clone() };
        Ok(args.found(!is_asked)?.map(|found| found.scenario))
    }
}

/// The price of electricity in the configuration that is given or found; nothing without one. Its sites may differ in
/// all else.
pub(crate) fn electricity(given: Option<PathBuf>) -> Result<Option<Electricity>, Failure> {
    let is_given = given.is_some();
    let Some(path) = given.or_else(ConfigArgs::found) else { return Ok(None) };
    if !is_given && is_forbidden(&path) {
        return Ok(None);
    }
    let shown = path.display().to_string();
    let config = control::load(&ConfigArgs { config: path })?;
    let mut sites = config.site.iter().map(|site| config.scenario_of(site).electricity.clone());
    let first = sites.next().unwrap_or_else(|| config.scenario.electricity.clone());
    if sites.any(|other| other != first) {
        return Err(Failure::new(format!("the sites of {shown} differ in `electricity`"))
            .hint("give the price with `--scenario FILE`")
            .into_usage());
    }
    output::complain(&format!("note: the price of electricity is that of {shown}"));
    Ok(Some(first))
}

fn is_forbidden(path: &std::path::Path) -> bool {
    std::fs::File::open(path).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

fn no_configuration(site: &str) -> Failure {
    Failure::new(format!("there is no configuration that has the site `{site}`"))
        .hint("give its path with `-c FILE`, or leave out `--site`")
        .into_usage()
}

impl SiteScenario {
    /// With the path of the configuration, as given.
    pub(crate) fn named(self, path: &Path) -> Self {
        Self { file: Some(path.display().to_string()), ..self }
    }

    /// Where in the configuration its figures stand.
    pub(crate) fn tables(&self) -> Option<Tables> {
        let file = self.file.clone()?;
        let electricity = format!("[{}.electricity]", self.table);
        Some(Tables { file, server: self.server.to_owned(), electricity })
    }

    /// What a configuration says of the site with this name, or of all its sites, if that is the same.
    pub(crate) fn of(config: &Config, name: Option<&str>) -> Result<Self, Failure> {
        let sites: Vec<Self> = config.site.iter().map(|site| Self::of_site(config, site)).collect();
        if let Some(name) = name {
            let found = sites.iter().find(|it| it.site.as_deref() == Some(name));
            return found.cloned().ok_or_else(|| unknown(name, &sites));
        }
        let Some((first, rest)) = sites.split_first() else {
            return Ok(Self { scenario: config.scenario.clone(), ..Self::default_of(config) });
        };
        let is_same = |it: &Self| it.scenario == first.scenario && it.clients == first.clients;
        match rest {
            [] => Ok(first.clone()),
            rest if rest.iter().all(is_same) => Ok(Self { site: None, ..first.clone() }),
            _ => {
                Err(Failure::new("the sites of this configuration differ in watts, SLA or policy")
                    .hint(format!("choose the one that the log is of: `--site {}`", names(&sites)))
                    .into_usage())
            }
        }
    }

    fn of_site(config: &Config, site: &SiteConfig) -> Self {
        let mut scenario = config.scenario_of(site).into_owned();
        let machine = config.machine.iter().find(|it| Some(&it.name) == site.on.as_ref());
        if let Some(machine) = machine.filter(|_| site.is_on_machines_bill()) {
            scenario.server = config.server_of(machine).clone();
        }
        let own = site.scenario.is_some();
        let is_of_machine = machine.is_some_and(|it| it.server.is_some());
        let server = match (own, is_of_machine) {
            (true, _) => "[site.scenario.server]",
            (false, true) => "[machine.server]",
            (false, false) => "[scenario.server]",
        };
        Self {
            scenario,
            clients: site.clients.clone(),
            is_app: site.kind == Some(SiteKind::App),
            site: Some(site.name.clone()),
            table: if own { "site.scenario" } else { "scenario" },
            server,
            ..Self::default_of(config)
        }
    }

    fn default_of(config: &Config) -> Self {
        Self {
            scenario: Scenario::default(),
            clients: ClassifierConfig::default(),
            access_log: config.access_log.clone(),
            is_app: false,
            site: None,
            table: "scenario",
            server: "[scenario.server]",
            file: None,
        }
    }
}

fn names(sites: &[SiteScenario]) -> String {
    let names: Vec<&str> = sites.iter().filter_map(|it| it.site.as_deref()).collect();
    names.join("`, `--site ")
}

fn unknown(name: &str, sites: &[SiteScenario]) -> Failure {
    Failure::new(format!("the configuration has no site `{name}`"))
        .hint(format!("choose one of its sites: `--site {}`", names(sites)))
        .into_usage()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"listen = ["127.0.0.1:80"]
access_log = "access.log"
[scenario.server]
on_w = 60
off_w = 2

[[machine]]
name = "metal"
probe = "tcp 10.0.0.2:22"
[machine.server]
on_w = 200
off_w = 5
[machine.power.wake.wol]
mac = "52:54:00:12:34:56"
[machine.power.sleep.ssh]
host = "root@10.0.0.2"

[[site]]
name = "blog"
kind = "pages"
hosts = ["blog.example.org"]
origin = "http://10.0.0.5"
[site.power.systemd]
unit = "blog.service"

[[site]]
name = "cloud"
kind = "app"
hosts = ["cloud.example.org"]
origin = "http://10.0.0.2"
on = "metal"
"#;

    fn of(text: &str, site: Option<&str>) -> Result<SiteScenario, Failure> {
        SiteScenario::of(&Config::parse(text, "nightwatt.toml").unwrap(), site)
    }

    #[test]
    fn a_site_has_its_own_watts_and_sla() {
        let blog = of(TWO, Some("blog")).unwrap();
        assert!((blog.scenario.server.on_w - 60.0).abs() < 1e-9 && blog.scenario.sla.enabled);
        assert_eq!(blog.access_log, Some(PathBuf::from("access.log")));
        // It counts on the bill of its machine, and an app has no SLA unless one is written.
        let cloud = of(TWO, Some("cloud")).unwrap();
        assert!((cloud.scenario.server.on_w - 200.0).abs() < 1e-9 && !cloud.scenario.sla.enabled);
    }

    #[test]
    fn sites_that_differ_need_a_choice() {
        let error = of(TWO, None).unwrap_err().to_string();
        assert!(error.contains("`--site blog`, `--site cloud`"), "{error}");
        let error = of(TWO, Some("shop")).unwrap_err().to_string();
        assert!(error.contains("no site `shop`") && error.contains("--site blog"), "{error}");
        let one = TWO.split("[[site]]\nname = \"cloud\"").next().unwrap();
        assert_eq!(of(one, None).unwrap(), of(one, Some("blog")).unwrap());
    }
}
