//! A server's management controller over Redfish (DMTF DSP0266).
//!
//! ```toml
//! [site.power.redfish]
//! url = "https://10.0.0.9"              # of the management controller, not of the server
//! user = "power"                        # needs the privilege ConfigureComponents
//! password_file = "/etc/nightwatt/bmc"  # its first line; or password_env = "NAME"
//! fingerprint = "AB:CD:.."              # optional, as all below: of its certificate (SHA-256)
//! ca = "/etc/nightwatt/bmc.pem"         # or the certificate that vouches for it
//! system = "1"                          # if there are several
//! sleep = "graceful"                    # or force: as by pulling the plug
//! timeout = "30s"
//! ```
//!
//! Without `fingerprint` and `ca` the system's authorities vouch for the controller. `openssl s_client
//! -connect HOST:443 </dev/null | openssl x509 -noout -fingerprint -sha256` prints the fingerprint.
//!
//! `graceful` asks the operating system to shut down. The controller stays awake while the server
//! sleeps: `state` costs the server nothing, and `probe = "controller"` tells whether it is on.
//!
//! The password is sent with each request (HTTP Basic) and never without TLS.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::uri::Authority;
use nightwatt_bmc::redfish::{self, Credentials, LONGEST, RedfishError, Service, System, last};
use nightwatt_clock::Clock;
use nightwatt_energy::duration_text;
use nightwatt_host::http::{Client, HttpError, Server};
use nightwatt_host::secret::Secret;
use nightwatt_host::text::brief;
use nightwatt_host::tls::{self, Fingerprint};
use nightwatt_host::within;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::{Deserialize, Deserializer};
use serde_json::json;

use crate::facts::Facts;
use crate::rewake::Again;
use crate::{ConfigError, Context, Controller, Error, Observed, Work, password};

/// Number of systems named in the error if one has to be chosen.
const NAMED: usize = 8;

const NOT_THERE: &str =
    "check `url`, that the controller's network is up, and that HTTPS is enabled there";

const NO_ENTRY: &str = "check `user` and its password on the controller's own page; it needs the role \
                        Operator, or the privilege ConfigureComponents";

/// What helps against a certificate that is not trusted.
const DISTRUSTED: &str = "compare `openssl s_client -connect HOST:443 </dev/null | openssl x509 -noout -fingerprint -sha256` \
     with what the controller's own page shows, and set `fingerprint` to it; or set `ca` to the \
     certificate (PEM) that vouches for it";

/// The table `[site.power.redfish]`, or one below `wake` or `sleep`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `https://HOST[:PORT]`.
    pub url: Url,
    /// Who we are.
    #[serde(default)]
    pub user: Option<String>,
    /// The file whose first line is the password.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// The variable of the environment that is the password.
    #[serde(default)]
    pub password_env: Option<String>,
    /// Of its certificate.
    #[serde(default)]
    pub fingerprint: Option<Fingerprint>,
    /// The file of the certificates that vouch for it.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// The last part of the system's address.
    #[serde(default)]
    pub system: Option<String>,
    /// How it sleeps.
    #[serde(default)]
    pub sleep: Sleep,
    /// How long all of it may take.
    #[serde(default = "timeout", with = "duration_text")]
    pub timeout: Duration,
}

/// How a server sleeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sleep {
    /// Its operating system shuts it down.
    #[default]
    Graceful,
    /// At once.
    Force,
}

/// What of `ResetType` (DSP0268) does what is wanted: the first that the system knows.
const ON: &[&str] = &["On", "ForceOn", BUTTON];
const GRACEFUL: &[&str] = &["GracefulShutdown", BUTTON];
const FORCE: &[&str] = &["ForceOff"];
const BUTTON: &str = "PushPowerButton";

fn timeout() -> Duration {
    Duration::from_secs(30)
}

/// Where a controller is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    tls: bool,
    /// `HOST` or `HOST:PORT`, as written.
    authority: Authority,
}

impl Url {
    /// Where to connect to.
    fn address(&self) -> String {
        match self.authority.port() {
            Some(_) => self.authority.to_string(),
            None => format!("{}:{}", self.authority, if self.tls { 443 } else { 80 }),
        }
    }

    /// Can a certificate be for this host?
    fn has_name(&self) -> bool {
        let host = self.authority.host().trim_start_matches('[').trim_end_matches(']');
        ServerName::try_from(host).is_ok()
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.authority)
    }
}

impl std::str::FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (tls, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            _ => return Err("`url` begins with `https://`".to_owned()),
        };
        if rest.contains('@') {
            return Err(
                "a password in an address is read by everybody who reads this file: say `user` \
                        and `password_file`"
                    .to_owned(),
            );
        }
        let no_host = || format!("`{text}` names no host, as `https://10.0.0.9` does");
        let authority = rest.strip_suffix('/').unwrap_or(rest).parse().map_err(|_| no_host())?;
        let url = Self { tls, authority };
        crate::probe::check_address(&url.address())?;
        if !url.has_name() {
            return Err(no_host());
        }
        Ok(url)
    }
}

impl<'de> Deserialize<'de> for Url {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Config {
    /// Does what it says go together?
    fn check(&self) -> Result<(), String> {
        let password = self.password_file.is_some() || self.password_env.is_some();
        if password != self.user.is_some() {
            return Err("`user` and `password_file` (or `password_env`) belong together".to_owned());
        }
        if !self.url.tls && password {
            return Err(
                "a password over `http://` can be read by everybody in between: say `https://`"
                    .to_owned(),
            );
        }
        if !self.url.tls && (self.ca.is_some() || self.fingerprint.is_some()) {
            return Err("`ca` and `fingerprint` are for `https://`".to_owned());
        }
        if self.ca.is_some() && self.fingerprint.is_some() {
            return Err("`ca` and `fingerprint` are both given: one is enough".to_owned());
        }
        password::check(self.password_file.as_deref(), self.password_env.as_deref())
    }

    pub(crate) fn facts(&self) -> Facts<'_> {
        let (fault, password_file) = (self.check().err(), self.password_file.as_deref());
        Facts { fault, password_file, ca: self.ca.as_deref(), ..Facts::default() }
    }

    /// The controller so configured.
    pub fn build(&self, context: &Context) -> Result<Redfish, ConfigError> {
        let password =
            Secret::from_either(self.password_file.as_deref(), self.password_env.as_deref())?;
        let credentials = self.user.as_ref().zip(password);
        let credentials =
            credentials.and_then(|(user, password)| Credentials::basic(user, &password));
        let (ca, fingerprint) = (self.ca.as_deref(), self.fingerprint.as_ref());
        let tls = self.url.tls.then(|| tls::config(ca, fingerprint)).transpose()?;
        Ok(Redfish {
            config: self.clone(),
            credentials: credentials.unwrap_or(Credentials::None),
            tls,
            system: Mutex::default(),
            clock: context.clock.clone(),
            again: Again::new(&context.clock),
        })
    }
}

/// The controller; see the [module](self).
#[derive(Debug)]
pub struct Redfish {
    config: Config,
    credentials: Credentials,
    tls: Option<Arc<ClientConfig>>,
    /// Where the system is, once it was found.
    system: Mutex<Option<String>>,
    clock: Clock,
    again: Again,
}

impl Redfish {
    fn whom(&self) -> String {
        format!("the controller at {}", self.config.url)
    }

    fn refused(&self, what: &str, why: String, hint: &'static str) -> Error {
        Error::Refused { whom: self.whom(), what: what.to_owned(), why, hint }
    }

    /// Connections are not kept: controllers hang up when they like, and commands are not sent twice.
    fn service(&self) -> Service {
        let server = Server::new(self.config.url.authority.clone(), self.tls.clone());
        Service::new(Client::new(server, LONGEST), self.credentials.clone())
    }

    fn failed(&self, error: RedfishError) -> Error {
        let (method, path, status, body) = match error {
            RedfishError::Http(error) => return self.no_answer(error),
            RedfishError::Refused { method, path, status, body } => (method, path, status, body),
            RedfishError::Elsewhere => {
                let what = "its systems are elsewhere".to_owned();
                return Error::Nonsense { whom: self.whom(), what };
            }
            error => return Error::Nonsense { whom: self.whom(), what: error.to_string() },
        };
        let hint = match status {
            300..=399 => "set `url` to where it really is: redirects are not followed",
            401 | 403 => NO_ENTRY,
            404 => "check that `url` is the management controller's, and that it knows Redfish",
            _ => "it may be between two states, and is asked again; see the controller's own log",
        };
        let why = format!("{} (status {status})", redfish::complaint(&body));
        self.refused(&format!("{method} {path}"), why, hint)
    }

    fn no_answer(&self, error: HttpError) -> Error {
        match error {
            HttpError::Tls { source, .. } => match tls::distrust(&source) {
                Some(why) => self.refused("prove who it is", why, DISTRUSTED),
                None => Error::Unreachable { whom: self.whom(), hint: NOT_THERE, source },
            },
            error => Error::of_http(error, self.whom(), |_| NOT_THERE),
        }
    }

    /// Where the system is.
    async fn find(&self, service: &mut Service) -> Result<String, Error> {
        let failed = |error| self.failed(error);
        let systems = service.collection("Systems").await.map_err(failed)?;
        let places = service.members(&systems).await.map_err(failed)?;
        let places: Vec<_> = places.into_iter().filter(|place| redfish::is_place(place)).collect();
        let wanted = self.config.system.as_deref();
        let is_wanted = |place: &&String| wanted.is_none_or(|wanted| last(place) == wanted);
        let chosen: Vec<_> = places.iter().filter(is_wanted).collect();
        if let [only] = chosen[..] {
            return Ok(only.clone());
        }
        if places.is_empty() {
            let hint = "check the privileges of `user`: it may not be shown any";
            return Err(self.refused("show a system", "it lists none".to_owned(), hint));
        }
        let known: Vec<_> = places.iter().take(NAMED).map(String::as_str).collect();
        let why = format!("there are {}", brief(known.join(", ").as_bytes()));
        let hint = "set `system` to the last part of the address of the one that is meant";
        Err(self.refused("choose a system", why, hint))
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.system.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn system(&self, service: &mut Service) -> Result<System, Error> {
        let known = self.remembered().clone();
        let place = match known {
            Some(place) => place,
            None => self.find(service).await?,
        };
        // If it is not there any more, it is looked for again the next time.
        *self.remembered() = None;
        let system = service.system(&place).await.map_err(|error| self.failed(error))?;
        *self.remembered() = Some(place);
        Ok(system)
    }

    async fn observe(&self) -> Result<Observed, Error> {
        Ok(observed(&self.system(&mut self.service()).await?))
    }

    /// Resets the system in one of these ways unless its power is so already.
    async fn set(&self, wanted: Observed, ways: &[&str]) -> Result<(), Error> {
        let mut service = self.service();
        let system = self.system(&mut service).await?;
        if observed(&system) == wanted {
            return Ok(());
        }
        let hint = "see on the controller's own page what it can do; `ipmi` may know more";
        let (target, way) =
            system.reset(ways).map_err(|why| self.refused("reset the system", why, hint))?;
        if way == BUTTON && observed(&system) == Observed::Unknown {
            // It does the one thing or the other; once the state is clear it does the right one.
            return Ok(());
        }
        let reset = service.post(target, &json!({ "ResetType": way })).await;
        reset.map_err(|error| self.failed(error))
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let limit = self.config.timeout;
        within(&self.clock, limit, work)
            .await
            .unwrap_or_else(|_| Err(Error::Silent { whom: self.whom(), limit, hint: NOT_THERE }))
    }

    async fn wake_up(&self) -> Result<(), Error> {
        self.again.woken();
        self.in_time(self.set(Observed::Up, ON)).await
    }
}

fn observed(system: &System) -> Observed {
    match system.power() {
        redfish::Power::On => Observed::Up,
        redfish::Power::Off => Observed::Down,
        redfish::Power::Unknown => Observed::Unknown,
    }
}

impl Controller for Redfish {
    fn wake(&self) -> Work<'_, ()> {
        Box::pin(self.wake_up())
    }

    fn sleep(&self) -> Work<'_, ()> {
        self.again.put_to_sleep();
        let ways = match self.config.sleep {
            Sleep::Graceful => GRACEFUL,
            Sleep::Force => FORCE,
        };
        Box::pin(self.in_time(self.set(Observed::Down, ways)))
    }

    fn state(&self) -> Work<'_, Observed> {
        Box::pin(self.in_time(self.observe()))
    }

    fn asks_others(&self) -> bool {
        true
    }

    fn remind(&self) -> Work<'_, ()> {
        self.again.remind(self.wake_up())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_whom_to_trust_and_where_to_connect() {
        let parts =
            |text: &str| text.parse::<Url>().map(|url| (url.to_string(), url.address(), url.tls));
        let told =
            |shown: &str, address: &str, tls| Ok((shown.to_owned(), address.to_owned(), tls));
        assert_eq!(parts("https://bmc/"), told("https://bmc", "bmc:443", true));
        assert_eq!(parts("https://[fd00::9]"), told("https://[fd00::9]", "[fd00::9]:443", true));
        assert_eq!(
            parts("http://10.0.0.9:8000"),
            told("http://10.0.0.9:8000", "10.0.0.9:8000", false)
        );
        for wrong in
            ["bmc", "ftp://bmc", "https://", "https://a/redfish/v1", "https://a b", "https://:443"]
        {
            assert!(parts(wrong).is_err(), "{wrong}");
        }
        let error = parts("https://root:secret@bmc").unwrap_err();
        assert!(error.contains("password_file") && !error.contains("secret"), "{error}");
    }
}
