//! `[[site.in_use]]`: probes that report use of the server that does not come through the proxy.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Method};
use nightwatt_energy::duration_text;
use nightwatt_policy::in_use::ProbeTimes;
use nightwatt_power::{ControllerConfig, DriverConfig};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::forward_auth::BadUrl;
use super::{AuthUrl, Network, SiteConfig, Wrong, wrong};
use crate::in_use::judge::{Condition, Missing, Test, is_pointer};

/// One probe.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InUseConfig {
    /// Its name in status and metrics; default: that of the preset, `http` or `tcp`.
    pub name: Option<String>,
    /// A known program.
    pub preset: Option<Preset>,
    /// Where it is asked; of a preset, the address before its own path. Default for a preset: `origin`.
    #[serde(default, deserialize_with = "url")]
    pub url: Option<AuthUrl>,
    /// The authorities that sign its certificate instead of the system's, in PEM.
    pub ca: Option<PathBuf>,
    /// Fields of the request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A file with the token for it.
    pub token_file: Option<PathBuf>,
    /// The user for HTTP's Basic or Digest.
    pub user: Option<String>,
    /// A file with their password.
    pub password_file: Option<PathBuf>,
    /// The entity of Home Assistant.
    pub entity: Option<String>,
    /// Where the value is in the answer (RFC 6901); default: the whole answer.
    pub pointer: Option<String>,
    /// The value is a list, and this is the place in each of its elements that is compared; one is enough.
    pub each: Option<String>,
    /// In use if it is a number above this one.
    pub above: Option<f64>,
    /// In use if it equals this string, number or truth value.
    pub equals: Option<Value>,
    /// In use if it is a string that contains this one, or a list with it.
    pub contains: Option<String>,
    /// What it means if there is nothing at `pointer`.
    #[serde(default)]
    pub missing: Missing,
    /// Instead of HTTP: established connections to these TCP ports of this machine.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// Instead of HTTP: the container of the site uses more than this share of a processor: 0.05 is 5 %.
    pub cpu: Option<f64>,
    /// It moves more bytes per second over its network.
    pub network: Option<f64>,
    /// Clients whose connections do not count.
    #[serde(default)]
    pub except: Vec<Network>,
    /// Time between two questions.
    #[serde(default = "default_every", with = "duration_text")]
    pub every: Duration,
    /// Time limit for an answer.
    #[serde(default = "default_timeout", with = "duration_text")]
    pub timeout: Duration,
    /// How long the server counts as in use while there is no answer.
    #[serde(default = "default_unknown_for", with = "duration_text")]
    pub unknown_for: Duration,
}

/// Programs whose answers are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// `/Sessions`: one with media.
    Jellyfin,
    /// The same, with Emby's field for the token.
    Emby,
    /// `/status/sessions`: more than none.
    Plex,
    /// `/api/states/ENTITY`: its state is `on`.
    HomeAssistant,
    /// The remote procedure call: torrents that are checked, downloaded, or sent to others.
    Transmission,
}

impl Preset {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Jellyfin => "jellyfin",
            Self::Emby => "emby",
            Self::Plex => "plex",
            Self::HomeAssistant => "home-assistant",
            Self::Transmission => "transmission",
        }
    }

    fn path(self, entity: &str) -> String {
        match self {
            Self::Jellyfin | Self::Emby => "/Sessions".to_owned(),
            Self::Plex => "/status/sessions".to_owned(),
            Self::HomeAssistant => format!("/api/states/{entity}"),
            Self::Transmission => "/transmission/rpc".to_owned(),
        }
    }

    fn condition(self, entity: &str) -> Condition {
        let (pointer, each, test, words) = match self {
            Self::Transmission => return Condition::Torrents,
            Self::Jellyfin | Self::Emby => {
                ("", Some("/NowPlayingItem"), Test::Something, "sessions with media".to_owned())
            }
            Self::Plex => ("/MediaContainer/size", None, Test::Above(0.0), "sessions".to_owned()),
            Self::HomeAssistant => {
                ("/state", None, Test::Equals("on".into()), format!("the state of {entity}"))
            }
        };
        let (pointer, each) = (pointer.to_owned(), each.map(str::to_owned));
        Condition::Value { pointer, each, test, missing: Missing::Unknown, words: Some(words) }
    }
}

/// How a token is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenField {
    pub(crate) name: HeaderName,
    pub(crate) before: &'static str,
    pub(crate) after: &'static str,
}

/// What is asked by HTTP.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    pub(crate) url: AuthUrl,
    pub(crate) path: String,
    pub(crate) method: Method,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) body: &'static str,
    pub(crate) token: TokenField,
    pub(crate) condition: Condition,
}

/// What it asks Transmission.
const TORRENTS: &str = r#"{"method":"torrent-get","arguments":{"fields":["status","rateUpload"]}}"#;

fn default_every() -> Duration {
    Duration::from_mins(1)
}

fn default_timeout() -> Duration {
    Duration::from_secs(5)
}

fn default_unknown_for() -> Duration {
    Duration::from_mins(10)
}

/// Reads `url`. The error names keys of this table, not those of `access.forward`.
fn url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<AuthUrl>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let next = match AuthUrl::parse(&text) {
        Ok(url) => return Ok(Some(url)),
        Err(BadUrl::Login) => {
            "a user and a password do not belong there, where others read them. Write `user = \"NAME\"` and \
             `password_file = \"FILE\"`, or `token_file = \"FILE\"`"
        }
        Err(BadUrl::Other) => "write the whole of it, as in `http://10.0.0.5:8096/state`",
    };
    Err(serde::de::Error::custom(format!("`{text}` is no address of a probe: {next}")))
}

impl InUseConfig {
    /// Its name.
    pub fn shown(&self) -> &str {
        let kind = match (self.is_of_container(), self.ports.is_empty()) {
            (true, _) => "container",
            (_, true) => "http",
            (_, false) => "tcp",
        };
        self.name.as_deref().or(self.preset.map(Preset::as_str)).unwrap_or(kind)
    }

    /// What it asks, for people.
    pub fn in_words(&self, site: &SiteConfig) -> String {
        let Self { cpu, network, ports, .. } = self;
        let what = if self.is_of_container() {
            let cpu = cpu.map(|share| format!("{} % of a processor", share * 100.0));
            let network = network.map(|rate| format!("{rate} bytes/s"));
            let limits: Vec<String> = cpu.into_iter().chain(network).collect();
            format!("its container uses more than {}", limits.join(" or "))
        } else if let Some(question) = self.question(site) {
            let scheme = if question.url.by_tls { "https" } else { "http" };
            // A query may hold a secret.
            let path = question.path.split('?').next().unwrap_or_default();
            format!("{scheme}://{}{path}", question.url.authority)
        } else {
            let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
            format!("connections to {}", ports.join(", "))
        };
        let [every, unknown] = [self.every, self.unknown_for].map(duration_text::format);
        format!(
            "{}: {what}, every {every} while idle; no answer counts as use for {unknown}",
            self.shown()
        )
    }

    /// The files that it reads.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.token_file.iter().chain(&self.password_file).chain(&self.ca)
    }

    /// Whether it asks the daemon of the site's container.
    pub(crate) const fn is_of_container(&self) -> bool {
        self.cpu.is_some() || self.network.is_some()
    }

    /// Its times.
    pub(crate) const fn times(&self) -> ProbeTimes {
        let Self { every, timeout, unknown_for, .. } = *self;
        ProbeTimes { every, timeout, unknown_for }
    }

    /// Its question, unless it counts connections. By default it goes to the site's `origin`.
    pub(crate) fn question(&self, site: &SiteConfig) -> Option<Question> {
        if !self.ports.is_empty() {
            return None;
        }
        let own = || {
            let (by_tls, authority) = (site.origin.by_tls, site.origin.authority.parse().ok()?);
            Some(AuthUrl { by_tls, authority, target: PathAndQuery::from_static("/") })
        };
        let url = self.url.clone().or_else(own)?;
        let base = url.target.path().trim_end_matches('/');
        let entity = self.entity.as_deref().unwrap_or_default();
        let path = match self.preset {
            Some(preset) => format!("{base}{}", preset.path(entity)),
            None => url.target.as_str().to_owned(),
        };
        let is_rpc = self.preset == Some(Preset::Transmission);
        let accept = (http::header::ACCEPT, HeaderValue::from_static("application/json"));
        let given = self.headers.iter().filter_map(|(name, value)| {
            Some((name.parse::<HeaderName>().ok()?, HeaderValue::from_str(value).ok()?))
        });
        let given: Vec<_> = given.collect();
        let has_own = given.iter().any(|(name, _)| *name == http::header::ACCEPT);
        let accept = (!has_own).then_some(accept);
        Some(Question {
            path,
            method: if is_rpc { Method::POST } else { Method::GET },
            headers: accept.into_iter().chain(given).collect(),
            body: if is_rpc { TORRENTS } else { "" },
            token: self.token_field(),
            condition: self.condition(entity),
            url,
        })
    }

    fn token_field(&self) -> TokenField {
        let authorization = http::header::AUTHORIZATION;
        let (name, before, after) = match self.preset {
            Some(Preset::Jellyfin) => (authorization, "MediaBrowser Token=\"", "\""),
            Some(Preset::Emby) => (HeaderName::from_static("x-emby-token"), "", ""),
            Some(Preset::Plex) => (HeaderName::from_static("x-plex-token"), "", ""),
            _ => (authorization, "Bearer ", ""),
        };
        TokenField { name, before, after }
    }

    fn condition(&self, entity: &str) -> Condition {
        let test = match (&self.equals, self.above, &self.contains) {
            (Some(value), _, _) => Some(Test::Equals(value.clone())),
            (_, Some(above), _) => Some(Test::Above(above)),
            (_, _, Some(part)) => Some(Test::Contains(part.clone())),
            _ => None,
        };
        let preset = self.preset.map(|preset| preset.condition(entity));
        match (preset, test) {
            (Some(Condition::Value { pointer, each, missing, words, .. }), Some(test)) => {
                Condition::Value { pointer, each, test, missing, words }
            }
            (Some(condition), _) => condition,
            (None, test) => Condition::Value {
                pointer: self.pointer.clone().unwrap_or_default(),
                each: self.each.clone(),
                test: test.unwrap_or(Test::Something),
                missing: self.missing,
                words: None,
            },
        }
    }

    fn check(&self, site: &SiteConfig) -> Result<(), Wrong> {
        self.check_times()?;
        if self.is_of_container() {
            return self.check_limits(site);
        }
        if !self.ports.is_empty() {
            return self.check_ports(site);
        }
        if !self.except.is_empty() {
            return wrong("except", "`except` is for connections to `ports`, and there are none");
        }
        if self.preset.is_none() && self.url.is_none() {
            let text = "what is asked? Write `preset = \"jellyfin\"` (emby, plex, home-assistant, transmission), \
                        `url = \"http://…\"`, or `ports = [8096]` for TCP connections";
            return wrong("", text);
        }
        self.check_secrets()?;
        self.check_condition()?;
        let is_entity = |it: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
            !it.is_empty() && it.chars().all(plain)
        };
        match (self.preset, &self.entity) {
            (Some(Preset::HomeAssistant), None) => {
                let text = "which entity reports use? Write `entity = \"media_player.living_room\"` and, if its state \
                            then is not `on`, `equals = \"playing\"`";
                wrong("entity", text)
            }
            (Some(Preset::HomeAssistant), Some(entity)) if !is_entity(entity) => {
                let text = format!("`{entity}` is no entity: write `media_player.living_room`");
                wrong("entity", text)
            }
            (Some(Preset::HomeAssistant), _) | (_, None) => Ok(()),
            _ => wrong("entity", "`entity` is for the preset `home-assistant`"),
        }?;
        let needs_token =
            matches!(self.preset, Some(Preset::Jellyfin | Preset::Emby | Preset::HomeAssistant));
        if needs_token && self.token_file.is_none() {
            let text = "this program answers only with a token: write that to a file, and the path of the file here";
            return wrong("token_file", text);
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), Wrong> {
        for (key, time) in [("every", self.every), ("timeout", self.timeout)] {
            if time.is_zero() {
                return wrong(key, format!("`{key}` is 0: leave it out for the default"));
            }
        }
        if self.every < Duration::from_secs(1) {
            return wrong("every", "`every` is shorter than a second: the default is `1m`");
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        match self.name.as_ref().filter(|it| it.is_empty() || !it.chars().all(plain)) {
            Some(name) => wrong(
                "name",
                format!("`{name}` has other signs than letters, digits, `-`, `_`, `.`"),
            ),
            None => Ok(()),
        }
    }

    fn check_limits(&self, site: &SiteConfig) -> Result<(), Wrong> {
        let others = self.preset.is_some() || self.url.is_some() || !self.ports.is_empty();
        if others {
            let text = "a probe asks by HTTP, counts connections, or asks for the use of a container: write two tables";
            return wrong("", text);
        }
        for (key, limit) in [("cpu", self.cpu), ("network", self.network)] {
            if limit.is_some_and(|limit| !(limit.is_finite() && limit >= 0.0)) {
                return wrong(key, format!("`{key}` is a number from 0 on"));
            }
        }
        let is_container = |power: &ControllerConfig| {
            let ControllerConfig::One(driver) = power else { return false };
            matches!(driver, DriverConfig::Docker(_) | DriverConfig::Podman(_))
        };
        if site.power.as_ref().is_some_and(|power| !is_container(power)) {
            let text = "`cpu` and `network` are those of a container: they need the driver `docker` or `podman`; on \
                        other servers the agent has them (docs/agent.md)";
            return wrong("", text);
        }
        Ok(())
    }

    fn check_ports(&self, site: &SiteConfig) -> Result<(), Wrong> {
        let by_http = self.preset.is_some()
            || self.url.is_some()
            || self.token_file.is_some()
            || !self.headers.is_empty();
        if by_http {
            let text = "a probe asks by HTTP or counts connections to `ports`: write two tables";
            return wrong("ports", text);
        }
        if self.ports.contains(&0) {
            return wrong("ports", "0 is no port");
        }
        if !nightwatt_power::probe::is_loopback(&site.origin.authority) {
            let text = format!(
                "connections are counted on this machine, and the server is at {}: set `ports` in `[inhibit]` of the \
                 agent there (docs/agent.md)",
                site.origin.authority
            );
            return wrong("ports", text);
        }
        Ok(())
    }

    fn check_secrets(&self) -> Result<(), Wrong> {
        for (name, value) in &self.headers {
            if name.parse::<HeaderName>().is_err() || HeaderValue::from_str(value).is_err() {
                return wrong("headers", format!("`{name}` is no field, or has no valid value"));
            }
            let lower = name.to_ascii_lowercase();
            if ["host", "content-length", "transfer-encoding", "connection"].contains(&&*lower) {
                return wrong("headers", format!("`{name}` cannot be set: leave it out"));
            }
            let is_secret = ["authorization", "cookie"].contains(&&*lower)
                || lower.contains("token")
                || lower.contains("key");
            if is_secret {
                let text = format!(
                    "`{name}` is a secret, and other programs read this file: write the token into a file that only \
                     nightwatt can read, and its path as `token_file`"
                );
                // Not at the line itself, which an excerpt would show.
                return wrong("", text);
            }
        }
        if self.user.is_some() != self.password_file.is_some() {
            return wrong("user", "`user` and `password_file` belong together: write both");
        }
        if self.user.is_some() && self.token_file.is_some() {
            return wrong("token_file", "`token_file` and `user` are two ways to log in: take one");
        }
        if self.preset == Some(Preset::Transmission) && self.token_file.is_some() {
            return wrong("token_file", "Transmission has users: write `user` and `password_file`");
        }
        let by_tls = self.url.as_ref().is_some_and(|url| url.by_tls);
        if self.ca.is_some() && self.url.is_some() && !by_tls {
            return wrong("ca", "`url` is plain HTTP: write `https://` there, or leave this out");
        }
        Ok(())
    }

    fn check_condition(&self) -> Result<(), Wrong> {
        if self.preset.is_some() && (self.pointer.is_some() || self.each.is_some()) {
            let text =
                "the preset knows where to look: leave out `pointer` and `each`, or the preset";
            return wrong("preset", text);
        }
        let tests = [self.above.is_some(), self.equals.is_some(), self.contains.is_some()];
        let tests = tests.iter().filter(|it| **it).count();
        if tests > 1 {
            return wrong("equals", "`above`, `equals` and `contains`: take one");
        }
        if tests > 0 && matches!(self.preset, Some(Preset::Transmission)) {
            return wrong(
                "preset",
                "Transmission's answer is not compared with a value: leave it out",
            );
        }
        if self.above.is_some_and(f64::is_nan) {
            return wrong("above", "no number is above NaN");
        }
        let is_plain = |it: &Value| it.is_string() || it.is_number() || it.is_boolean();
        if self.equals.as_ref().is_some_and(|it| !is_plain(it)) {
            return wrong("equals", "write a string, a number, `true` or `false`");
        }
        for (key, pointer) in [("pointer", &self.pointer), ("each", &self.each)] {
            if let Some(text) = pointer.as_ref().filter(|it| !is_pointer(it)) {
                let why = format!(
                    "`{text}` is no JSON pointer: begin it with `/`, as in `/players/0/state`, and write `~0` for `~` \
                     and `~1` for `/` in names"
                );
                return wrong(key, why);
            }
        }
        Ok(())
    }
}

impl SiteConfig {
    /// Checks its probes of use.
    pub(super) fn check_in_use(&self) -> Result<(), Wrong> {
        let mut names = HashSet::new();
        for (index, probe) in self.in_use.iter().enumerate() {
            probe.check(self).map_err(|it| it.within(format_args!("in_use.{index}")))?;
            if !names.insert(probe.shown()) {
                let text = format!("two probes are called `{}`: give one a `name`", probe.shown());
                return wrong(format!("in_use.{index}.name"), text);
            }
        }
        if !self.in_use.is_empty() && !self.server.is_empty() {
            let text = "a site with several servers has no such probes: which of them would be asked? Set `[inhibit]` \
                        of the agents there (docs/agent.md)";
            return wrong("in_use", text);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn parse(lines: &str) -> Result<Config, String> {
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"media\"\norigin = \"http://127.0.0.1:8096\"\n\
             power.simulated = {{}}\n[[site.in_use]]\n{lines}\n"
        );
        Config::parse(&text, "test.toml").map_err(|error| error.to_string())
    }

    fn question(lines: &str) -> Question {
        let config = parse(lines).unwrap();
        config.site[0].in_use[0].question(&config.site[0]).unwrap()
    }

    #[test]
    fn presets_ask_their_program_at_the_origin_or_at_an_address_before_their_path() {
        let plex = question("preset = \"plex\"");
        assert_eq!(plex.url.authority.as_str(), "127.0.0.1:8096");
        assert_eq!(
            (plex.path.as_str(), plex.token.name.as_str()),
            ("/status/sessions", "x-plex-token")
        );
        assert_eq!(plex.headers[0].1, "application/json");
        let jellyfin =
            question("preset = \"jellyfin\"\nurl = \"https://nas/media/\"\ntoken_file = \"/t\"");
        assert!(jellyfin.url.by_tls);
        assert_eq!(jellyfin.path, "/media/Sessions");
        let home = question(
            "preset = \"home-assistant\"\nentity = \"media_player.tv\"\nequals = \"playing\"\ntoken_file = \"/t\"",
        );
        assert_eq!(
            (home.path.as_str(), home.token.before),
            ("/api/states/media_player.tv", "Bearer ")
        );
        let Condition::Value { test, pointer, .. } = home.condition else { panic!() };
        assert_eq!((test, pointer.as_str()), (Test::Equals("playing".into()), "/state"));
        let transmission =
            question("preset = \"transmission\"\nuser = \"a\"\npassword_file = \"/p\"");
        assert_eq!(
            (transmission.method, transmission.condition),
            (Method::POST, Condition::Torrents)
        );
        let own = question("url = \"http://a:1/b?c=d\"\npointer = \"/x~1y\"\nabove = 2");
        assert_eq!(own.path, "/b?c=d");
    }

    #[test]
    fn what_is_ambiguous_unsafe_or_without_effect_is_refused() {
        for (lines, why) in [
            ("every = \"5m\"", "what is asked?"),
            ("preset = \"kodi\"", "jellyfin"),
            ("preset = \"plex\"\npointer = \"/a\"", "knows where to look"),
            ("preset = \"plex\"\nentity = \"a.b\"", "home-assistant"),
            ("preset = \"home-assistant\"", "which entity"),
            ("preset = \"home-assistant\"\nentity = \"../x\"", "no entity"),
            ("preset = \"home-assistant\"\nentity = \"a.b\"", "only with a token"),
            ("preset = \"jellyfin\"", "only with a token"),
            ("preset = \"transmission\"\ntoken_file = \"/t\"", "has users"),
            ("preset = \"transmission\"\nabove = 1", "not compared"),
            ("preset = \"plex\"\nports = [1]", "two tables"),
            ("preset = \"plex\"\nuser = \"a\"", "belong together"),
            ("preset = \"plex\"\nexcept = [\"10.0.0.1\"]", "for connections"),
            ("preset = \"plex\"\nname = \"a b\"", "other signs"),
            (
                "preset = \"plex\"\n[[site.in_use]]\npreset = \"plex\"",
                "two probes are called `plex`",
            ),
            ("url = \"http://a\"\nabove = 1\nequals = 2", "take one"),
            ("url = \"http://a\"\nequals = [1]", "write a string"),
            ("url = \"http://a\"\npointer = \"a\"", "no JSON pointer"),
            ("url = \"http://a\"\neach = \"/a~2\"", "no JSON pointer"),
            ("url = \"http://a\"\nheaders = { X-Api-Key = \"s3cret\" }", "token_file"),
            ("url = \"http://a\"\nheaders = { Host = \"x\" }", "cannot be set"),
            ("url = \"http://a\"\nheaders = { \"a b\" = \"x\" }", "no field"),
            ("url = \"http://a\"\nca = \"/x\"", "plain HTTP"),
            ("url = \"http://me:s3cret@a\"", "no address of a probe: a user and a password do not"),
            ("url = \"http://me:s3c/s3cret@a\"", "`password_file = "),
            ("url = \"a/state\"", "http://10.0.0.5:8096/state"),
            ("url = \"http://a\"\nevery = \"0s\"", "is 0"),
            ("ports = [0]", "0 is no port"),
            ("cpu = 0.1", "the driver `docker` or `podman`"),
            ("cpu = -1.0", "from 0 on"),
            ("cpu = 0.1\nports = [1]", "two tables"),
        ] {
            let said = parse(lines).unwrap_err();
            assert!(said.starts_with("test.toml:") && said.contains(why), "{lines}: {said}");
            assert!(!said.contains("s3cret"), "{said}");
        }
        let remote = "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"a\"\norigin = \"http://10.0.0.5:1\"\n\
                      power.simulated = {}\n[[site.in_use]]\nports = [1]\n";
        let said = Config::parse(remote, "x").map(drop).unwrap_err().to_string();
        assert!(said.contains("`[inhibit]` of the agent there"), "{said}");
    }
}
