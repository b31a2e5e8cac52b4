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

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use nightwatt_clock::Clock;
use nightwatt_clock::connect::connect;
use nightwatt_model::duration_text;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::{Deserialize, Deserializer};
use tokio_rustls::TlsConnector;
use tracing::debug;

use crate::again::Again;
use crate::http::{self, Answer, Broken};
use crate::real_work::within;
use crate::tls::{self, Fingerprint};
use crate::{ConfigError, Context, Controller, Error, Observed, Work, said, secret};

/// What a controller says of a system has some ten KiB.
const LONGEST: usize = 1 << 20;

/// Where the tree begins (DSP0266, section 6.3).
const ROOT: &str = "/redfish/v1/";

/// So many systems are named where one has to be chosen.
const NAMED: usize = 8;

const NOT_THERE: &str =
    "check `url`, that the controller's network is up, and that HTTPS is enabled there";

const NO_ENTRY: &str = "check `user` and its password on the controller's own page; it needs the role \
                        Operator, or the privilege ConfigureComponents";

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
    authority: String,
}

impl Url {
    /// Where to connect to.
    fn address(&self) -> String {
        let after_name = self.authority.rfind(']').unwrap_or(0);
        if self.authority[after_name..].contains(':') {
            return self.authority.clone();
        }
        let port = if self.tls { 443 } else { 80 };
        format!("{}:{port}", self.authority)
    }

    /// Whose certificate is expected.
    fn host(&self) -> Option<ServerName<'static>> {
        let address = self.address();
        let (host, _) = address.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        ServerName::try_from(host.to_owned()).ok()
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
        let authority = rest.strip_suffix('/').unwrap_or(rest).to_owned();
        let url = Self { tls, authority };
        crate::probe::check_address(&url.address())?;
        if url.host().is_none() {
            return Err(format!("`{text}` names no host, as `https://10.0.0.9` does"));
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
    pub(crate) fn check(&self) -> Result<(), String> {
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
        secret::check(self.password_file.as_deref(), self.password_env.as_deref())
    }

    /// The controller so configured.
    pub fn build(&self, context: &Context) -> Result<Redfish, ConfigError> {
        let password =
            secret::password(self.password_file.as_deref(), self.password_env.as_deref())?;
        let login = self.user.as_ref().zip(password).and_then(|(user, password)| {
            let pair = format!("{user}:{}", password.reveal());
            let mut value =
                HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair))).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        let (ca, fingerprint) = (self.ca.as_deref(), self.fingerprint.as_ref());
        let tls = self.url.tls.then(|| tls::config(ca, fingerprint)).transpose()?;
        Ok(Redfish {
            config: self.clone(),
            login,
            tls,
            system: Mutex::default(),
            clock: context.clock.clone(),
            again: Again::new(&context.clock),
        })
    }
}

/// A link to another resource.
#[derive(Debug, Deserialize)]
struct Link {
    #[serde(rename = "@odata.id")]
    place: String,
}

#[derive(Debug, Deserialize)]
struct Root {
    #[serde(rename = "Systems")]
    systems: Link,
}

#[derive(Debug, Deserialize)]
struct Collection {
    #[serde(rename = "Members")]
    members: Vec<Link>,
}

/// What a controller says of a system, as far as it is of use.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub struct System {
    #[serde(rename = "PowerState")]
    power: Option<String>,
    #[serde(rename = "Actions")]
    actions: Option<Actions>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Actions {
    #[serde(rename = "#ComputerSystem.Reset")]
    reset: Option<Reset>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Reset {
    target: String,
    /// Empty where it does not say.
    #[serde(rename = "ResetType@Redfish.AllowableValues", default)]
    allowed: Vec<String>,
}

impl System {
    /// Reads it; the error says what is there instead.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        read(body)
    }

    /// What its power says.
    pub fn observed(&self) -> Observed {
        match self.power.as_deref() {
            Some("On") => Observed::Up,
            Some("Off") => Observed::Down,
            // On its way, or the controller does not know.
            _ => Observed::Unknown,
        }
    }

    /// Where the system is reset, and the first of these ways that it knows.
    pub fn reset<'a>(&self, ways: &[&'a str]) -> Result<(&str, &'a str), String> {
        let reset = self.actions.as_ref().and_then(|actions| actions.reset.as_ref());
        let Some(Reset { target, allowed }) = reset else {
            return Err("the system has no action `#ComputerSystem.Reset`".to_owned());
        };
        let is_known = |way: &&&str| allowed.is_empty() || allowed.iter().any(|it| it == **way);
        let way = ways.iter().find(is_known).ok_or_else(|| {
            let known = said::brief(allowed.join(", ").as_bytes());
            format!("the system knows none of {}, but {known}", ways.join(", "))
        })?;
        if !is_place(target) {
            let target = said::brief(target.as_bytes());
            return Err(format!("`{target}` is no place on this controller"));
        }
        Ok((target, way))
    }
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| {
        let why = error.to_string();
        format!("`{}`: {}", said::brief(body), said::brief(why.as_bytes()))
    })
}

/// A path on the controller itself, and nothing that could lead elsewhere.
fn is_place(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//")
        && path.len() < 1024
        && path.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Why a controller says no: in the extended information there is more than in `message`.
fn complaint(body: &[u8]) -> String {
    let told: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let message = told.as_ref().and_then(|told| {
        let at = |pointer| told.pointer(pointer).and_then(serde_json::Value::as_str);
        at("/error/@Message.ExtendedInfo/0/Message").or_else(|| at("/error/message"))
    });
    said::brief(message.map_or(body, str::as_bytes))
}

/// The controller; see the [module](self).
#[derive(Debug)]
pub struct Redfish {
    config: Config,
    login: Option<HeaderValue>,
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

    fn nonsense(&self, what: String) -> Error {
        Error::Nonsense { whom: self.whom(), what }
    }

    fn refused(&self, what: &str, why: String, hint: &'static str) -> Error {
        Error::Refused { whom: self.whom(), what: what.to_owned(), why, hint }
    }

    async fn exchange(&self, method: Method, path: &str, body: Bytes) -> Result<Answer, Broken> {
        let Config { url, .. } = &self.config;
        let mut headers: Vec<(HeaderName, HeaderValue)> = vec![
            (ACCEPT, HeaderValue::from_static("application/json")),
            (HeaderName::from_static("odata-version"), HeaderValue::from_static("4.0")),
        ];
        headers.extend(self.login.clone().map(|login| (AUTHORIZATION, login)));
        if !body.is_empty() {
            headers.push((CONTENT_TYPE, HeaderValue::from_static("application/json")));
        }
        let request = http::request(method, path, &url.authority, &headers, body)?;
        let stream = connect(&Clock::real(), url.address()).await.map_err(Broken::Connect)?;
        let Some(tls) = &self.tls else {
            return http::exchange(stream, request, LONGEST).await;
        };
        let host = url.host().ok_or_else(|| Broken::Http("a URL without a host".to_owned()))?;
        let connector = TlsConnector::from(Arc::clone(tls));
        let stream = connector.connect(host, stream).await.map_err(Broken::Connect)?;
        http::exchange(stream, request, LONGEST).await
    }

    async fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, Error> {
        let what = format!("{method} {path}");
        debug!(url = %self.config.url, what, "asking");
        // A connection with TLS is large.
        let exchange = Box::pin(self.exchange(method, path, body));
        let answer = exchange.await.map_err(|broken| match broken {
            Broken::Connect(source) => match tls::distrust(&source) {
                Some(why) => self.refused("prove who it is", why, tls::HINT),
                None => Broken::Connect(source).of(self.whom(), |_| NOT_THERE),
            },
            broken => broken.of(self.whom(), |_| NOT_THERE),
        })?;
        let hint = match answer.status {
            200..=299 => return Ok(answer.body),
            300..=399 => "set `url` to where it really is: redirects are not followed",
            401 | 403 => NO_ENTRY,
            404 => "check that `url` is the management controller's, and that it knows Redfish",
            _ => "it may be between two states, and is asked again; see the controller's own log",
        };
        let why = format!("{} (status {})", complaint(&answer.body), answer.status);
        Err(self.refused(&what, why, hint))
    }

    async fn get(&self, path: &str) -> Result<Bytes, Error> {
        self.ask(Method::GET, path, Bytes::new()).await
    }

    /// Where the system is.
    async fn find(&self) -> Result<String, Error> {
        let root: Root = read(&self.get(ROOT).await?).map_err(|what| self.nonsense(what))?;
        let place = &root.systems.place;
        if !is_place(place) {
            return Err(self.nonsense("its systems are elsewhere".to_owned()));
        }
        let systems: Collection =
            read(&self.get(place).await?).map_err(|what| self.nonsense(what))?;
        let places = systems.members.into_iter().map(|member| member.place);
        let places: Vec<_> = places.filter(|place| is_place(place)).collect();
        let wanted = self.config.system.as_deref();
        let last = |place: &str| place.trim_end_matches('/').rsplit('/').next() == wanted;
        let is_wanted = |place: &&String| wanted.is_none() || last(place);
        let chosen: Vec<_> = places.iter().filter(is_wanted).collect();
        if let [only] = chosen[..] {
            return Ok(only.clone());
        }
        if places.is_empty() {
            let hint = "check the privileges of `user`: it may not be shown any";
            return Err(self.refused("show a system", "it lists none".to_owned(), hint));
        }
        let known: Vec<_> = places.iter().take(NAMED).map(String::as_str).collect();
        let why = format!("there are {}", said::brief(known.join(", ").as_bytes()));
        let hint = "set `system` to the last part of the address of the one that is meant";
        Err(self.refused("choose a system", why, hint))
    }

    fn remembered(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.system.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn system(&self) -> Result<System, Error> {
        let known = self.remembered().clone();
        let place = match known {
            Some(place) => place,
            None => self.find().await?,
        };
        // Where it is not any more, it is looked for anew the next time.
        *self.remembered() = None;
        let body = self.get(&place).await?;
        let system = System::read(&body).map_err(|what| self.nonsense(what))?;
        *self.remembered() = Some(place);
        Ok(system)
    }

    /// Resets the system in one of these ways unless its power is so already.
    async fn set(&self, wanted: Observed, ways: &[&str]) -> Result<(), Error> {
        let system = self.system().await?;
        if system.observed() == wanted {
            return Ok(());
        }
        let hint = "see on the controller's own page what it can do; `ipmi` may know more";
        let (target, way) =
            system.reset(ways).map_err(|why| self.refused("reset the system", why, hint))?;
        if way == BUTTON && system.observed() == Observed::Unknown {
            // It does the one thing or the other; once the state is clear it does the right one.
            return Ok(());
        }
        let body = format!("{{\"ResetType\": \"{way}\"}}");
        self.ask(Method::POST, target, body.into()).await.map(drop)
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
        Box::pin(async { Ok(self.in_time(self.system()).await?.observed()) })
    }

    fn asks_others(&self) -> bool {
        true
    }

    fn remind(&self) -> Work<'_, ()> {
        Box::pin(async { if self.again.is_due() { self.wake_up().await } else { Ok(()) } })
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

    fn system(allowed: &str, target: &str) -> System {
        let text = format!(
            r##"{{"PowerState": "PoweringOff", "Actions": {{"#ComputerSystem.Reset":
                {{"target": "{target}"{allowed}}}}}}}"##
        );
        System::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_system_is_reset_in_the_first_way_that_it_knows_and_nowhere_else() {
        let allowed = |names: &str| format!(", \"ResetType@Redfish.AllowableValues\": {names}");
        let all = system("", "/r");
        assert_eq!(all.reset(ON), Ok(("/r", "On")), "who says nothing may know all");
        assert_eq!(all.observed(), Observed::Unknown);
        let old = system(&allowed(r#"["ForceOff", "PushPowerButton"]"#), "/r");
        assert_eq!(old.reset(GRACEFUL), Ok(("/r", "PushPowerButton")));
        assert!(system(&allowed(r#"["Nmi"]"#), "/r").reset(FORCE).unwrap_err().contains("but Nmi"));
        for elsewhere in ["https://evil/r", "//evil/r", "r", "/r\\r\\nX: y", ""] {
            assert!(system("", elsewhere).reset(ON).is_err(), "{elsewhere}");
        }
        let bare = System::read(b"{\"PowerState\": null}").unwrap();
        assert!(bare.reset(ON).unwrap_err().contains("no action"));
        assert_eq!(bare.observed(), Observed::Unknown);
    }

    #[test]
    fn a_complaint_is_the_most_that_is_said() {
        let whole = br#"{"error": {"message": "See ExtendedInfo",
            "@Message.ExtendedInfo": [{"Message": "The system is\u001b busy"}]}}"#;
        assert_eq!(complaint(whole), "The system is\u{fffd} busy");
        assert_eq!(complaint(br#"{"error": {"message": "no"}}"#), "no");
        assert_eq!(complaint(b"<html>"), "<html>");
    }
}
