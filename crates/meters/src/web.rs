//! HTTP to devices: one exchange at a time, within a time, with bodies of bounded size.
//!
//! Devices are spoken to directly, never through a proxy that the environment names. Redirects are
//! followed within the device only. A password is sent when the device asks for one.

mod connector;
mod login;
mod tls;

use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_model::time::Mono;
use serde_json::Value;
use ureq::http::header::{AUTHORIZATION, LOCATION, WWW_AUTHENTICATE};
use ureq::http::uri::Authority;
use ureq::http::{HeaderMap, Method, Request, Response, Uri};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, RustlsConnector};
use ureq::{Agent, Body};

use crate::error::MeterError;
use crate::json;
use crate::meter::Turn;
use crate::secret;
use crate::spec::MeterSpec;

use connector::FirstToAnswer;
pub(crate) use login::Challenge;
use login::Login;
pub(crate) use tls::roots;

/// The options that this module understands.
pub(crate) const OPTIONS: [&str; 5] =
    [secret::OPTIONS[0], secret::OPTIONS[1], secret::OPTIONS[2], "ca", "insecure"];

/// The longest answer, where a driver says nothing else.
const LONGEST_BODY: u64 = 64 << 10;

/// A device that has not answered within this is silent, however long the turn.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Even in a shorter turn a device gets this: else one that is slower than the user's interval
/// would never be read. Turns missed are counted.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);

/// Redirects followed for one question.
const REDIRECTS: u32 = 3;

/// When all that is asked in a turn is to be answered.
pub(crate) fn deadline(turn: &Turn<'_>) -> Mono {
    monotonic() + turn.left().clamp(LEAST_PATIENCE, PATIENCE)
}

/// The same while a meter is opened.
pub(crate) fn opening() -> Mono {
    monotonic() + PATIENCE
}

/// The moment in the middle: what an answer tells was measured between question and answer.
pub(crate) fn middle(asked: Mono, answered: Mono) -> Mono {
    asked + answered.since(asked) / 2
}

/// A device that is spoken to.
pub(crate) struct Web {
    agent: Agent,
    meter: String,
    scheme: &'static str,
    authority: Authority,
    login: Option<Login>,
    longest_body: u64,
    /// There may be a connection from the last question.
    has_answered: bool,
}

/// A question.
pub(crate) struct Ask<'a> {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) path: &'a str,
    pub(crate) headers: &'a [(&'static str, &'a str)],
    /// JSON.
    pub(crate) body: Option<String>,
}

impl<'a> Ask<'a> {
    pub(crate) const fn get(path: &'a str) -> Self {
        Self { method: Method::GET, path, headers: &[], body: None }
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Web {
    /// The device at an address: a URL, or a host with `scheme` understood. Returns what path the
    /// address has, too. Nothing is sent.
    pub(crate) fn of(
        spec: &MeterSpec,
        address: &str,
        scheme: &'static str,
    ) -> Result<(Self, String), MeterError> {
        let (scheme, rest) = match address.split_once("://") {
            None => (scheme, address),
            Some(("http", rest)) => ("http", rest),
            Some(("https", rest)) => ("https", rest),
            Some(_) => return Err(spec.wrong("its address begins with `http://` or `https://`")),
        };
        if rest.split(['/', '?']).next().is_some_and(|authority| authority.contains('@')) {
            let why = "a password in an address can be read by everybody on this machine: say \
                       `user=` and `password-file=` instead";
            return Err(spec.wrong(why));
        }
        let uri: Result<Uri, _> = format!("{scheme}://{rest}").parse();
        let uri = uri.map_err(|error| spec.wrong(format!("`{address}` is no address: {error}")))?;
        let no_host = || spec.wrong(format!("`{address}` names no host"));
        let authority = uri.authority().cloned().ok_or_else(no_host)?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("nightwatt/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls::config(spec, scheme)?)
            .build();
        let connector = ().chain(FirstToAnswer::default()).chain(RustlsConnector::default());
        let agent = Agent::with_parts(config, connector, DefaultResolver::default());
        let login = Login::of(spec)?;
        let meter = spec.name().to_owned();
        let longest_body = LONGEST_BODY;
        let has_answered = false;
        Ok((Self { agent, meter, scheme, authority, login, longest_body, has_answered }, path))
    }

    /// Takes answers up to that length, in bytes.
    pub(crate) fn with_longest_body(mut self, longest_body: u64) -> Self {
        self.longest_body = longest_body;
        self
    }

    /// What the user calls the meter.
    pub(crate) fn meter(&self) -> &str {
        &self.meter
    }

    /// JSON at a path.
    pub(crate) fn json(&mut self, path: &str, until: Mono) -> Result<Value, MeterError> {
        let answer = self.ask(&Ask::get(path), until)?;
        let answer = self.good(path, answer)?;
        json::parse(&answer.body).map_err(|what| self.nonsense(path, &what))
    }

    /// Asks; follows redirects within the device, and logs in if it is told to.
    pub(crate) fn ask(&mut self, ask: &Ask<'_>, until: Mono) -> Result<Answer, MeterError> {
        let mut path = ask.path.to_owned();
        let mut redirects = 0;
        let mut refused = false;
        loop {
            let answer = match self.once(ask, &path, until) {
                // The device may have hung up after the last answer without a word.
                Err(MeterError::Io { .. }) if self.has_answered && ask.method == Method::GET => {
                    self.has_answered = false;
                    continue;
                }
                answer => answer?,
            };
            self.has_answered = true;
            match answer.status {
                301 | 302 | 307 | 308 if ask.method == Method::GET && redirects < REDIRECTS => {
                    path = self.redirected(&answer, &path)?;
                    redirects += 1;
                }
                401 if !refused => {
                    refused = true;
                    let challenges = answer.headers.get_all(WWW_AUTHENTICATE);
                    let challenges = challenges.iter().filter_map(|it| it.to_str().ok());
                    let again = self.login.as_mut().map(|login| login.challenged(challenges));
                    if again != Some(true) {
                        return Ok(answer);
                    }
                }
                _ => return Ok(answer),
            }
        }
    }

    fn once(&mut self, ask: &Ask<'_>, path: &str, until: Mono) -> Result<Answer, MeterError> {
        let left = until.since(monotonic());
        if left.is_zero() {
            return Err(self.silent(PATIENCE));
        }
        let uri = format!("{}://{}{path}", self.scheme, self.authority);
        let mut request = Request::builder().method(ask.method.clone()).uri(uri);
        for (name, value) in ask.headers {
            request = request.header(*name, *value);
        }
        if let Some(answer) =
            self.login.as_mut().and_then(|login| login.answer(ask.method.as_str(), path))
        {
            request = request.header(AUTHORIZATION, answer);
        }
        let sent = match &ask.body {
            Some(body) => {
                let request = request.header("content-type", "application/json");
                self.send(request.body(body.clone()), left)
            }
            None => self.send(request.body(()), left),
        };
        let read = sent.and_then(|mut response| {
            let status = response.status().as_u16();
            let headers = std::mem::take(response.headers_mut());
            let body = response.body_mut().with_config().limit(self.longest_body).read_to_vec()?;
            Ok(Answer { status, headers, body })
        });
        read.map_err(|error| self.failed(path, error, left))
    }

    fn send<B: ureq::AsSendBody>(
        &self,
        request: Result<Request<B>, ureq::http::Error>,
        left: Duration,
    ) -> Result<Response<Body>, ureq::Error> {
        let request = self.agent.configure_request(request?).timeout_global(Some(left)).build();
        self.agent.run(request)
    }

    /// The path that a redirect leads to, if that is on the device.
    fn redirected(&self, answer: &Answer, path: &str) -> Result<String, MeterError> {
        let to = answer.headers.get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or_default();
        self.path_of(to).ok_or_else(|| {
            let to = json::quote(to.as_bytes());
            let why = format!(
                "it sends to {to}, and only places within it are followed: name that \
                               address if it is the meter's"
            );
            self.nonsense(path, &why)
        })
    }

    /// The path and query of a link if it stays on the device.
    pub(crate) fn path_of(&self, link: &str) -> Option<String> {
        let uri: Uri = link.parse().ok()?;
        let here = match (uri.scheme_str(), uri.authority()) {
            (None, None) => link.starts_with('/') && !link.starts_with("//"),
            (Some(scheme), Some(authority)) => {
                scheme == self.scheme && *authority == self.authority
            }
            _ => false,
        };
        here.then(|| uri.path_and_query().map(|path| path.as_str().to_owned()))?
    }

    /// An answer, if it is one of success.
    pub(crate) fn good(&self, path: &str, answer: Answer) -> Result<Answer, MeterError> {
        match answer.status {
            200..=299 => Ok(answer),
            401 | 403 => Err(self.denied(path, answer.status)),
            404 => {
                Err(self.nonsense(path, "there is no such place (404): is it the right device?"))
            }
            status => {
                let what = format!("status {status}, {}", json::quote(&answer.body));
                Err(self.nonsense(path, &what))
            }
        }
    }

    /// It wants another password, or one at all.
    pub(crate) fn denied(&self, path: &str, status: u16) -> MeterError {
        let hint = match &self.login {
            None => "it wants a password: say `password-file=FILE` (or `password-env=NAME`), and \
                     `user=NAME` if it has users"
                .to_owned(),
            Some(login) => login.hint(),
        };
        let what = format!("{} (status {status})", self.place(path));
        MeterError::Denied { meter: self.meter.clone(), what, hint }
    }

    /// It answered what it should not.
    pub(crate) fn nonsense(&self, path: &str, what: &str) -> MeterError {
        let what = format!("{}: {what}", self.place(path));
        MeterError::Nonsense { meter: self.meter.clone(), what }
    }

    fn silent(&self, waited: Duration) -> MeterError {
        let seconds = waited.as_secs_f64().ceil() as u64;
        MeterError::Silent { meter: self.meter.clone(), seconds }
    }

    /// A place on the device, without its query: that may hold a password.
    fn place(&self, path: &str) -> String {
        let path = path.split('?').next().unwrap_or_default();
        format!("{}://{}{path}", self.scheme, self.authority)
    }

    fn failed(&self, path: &str, error: ureq::Error, waited: Duration) -> MeterError {
        let place = self.place(path);
        if let Some(why) = tls::distrust(&error) {
            return MeterError::Denied {
                meter: self.meter.clone(),
                what: format!("{place} (its certificate: {why})"),
                hint: tls::HINT.to_owned(),
            };
        }
        match error {
            ureq::Error::Timeout(_) => self.silent(waited),
            ureq::Error::BodyExceedsLimit(most) => {
                let what = format!("more than {} KiB, which no meter has to say", most >> 10);
                self.nonsense(path, &what)
            }
            ureq::Error::Io(error) => MeterError::Io {
                what: format!("reach {place} (is it on, and is that its address?)"),
                error,
            },
            ureq::Error::HostNotFound => MeterError::Io {
                what: format!("find the host of {place} (is its name right?)"),
                error: std::io::Error::new(std::io::ErrorKind::NotFound, "no such host"),
            },
            error => self.nonsense(path, &error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
