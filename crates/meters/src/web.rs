//! HTTP to devices: one exchange at a time, within a time, with bodies of bounded size.
//!
//! Devices are spoken to directly, never through a proxy that the environment names. Redirects are
//! followed within the device only. A password is sent when the device asks for one.

mod tls;

use std::future::Future;
use std::time::Duration;

use http::Uri;
use http::uri::Authority;
use nightwatt_clock::Elapsed;
use nightwatt_clock::meter::monotonic;
use nightwatt_energy::time::Mono;
use nightwatt_host::http::{Ask, Blocking, Client, HttpError, HttpResponse, Login, Server};
use nightwatt_host::text::quote;
use nightwatt_host::tls::Distrust;
use serde_json::Value;

use crate::error::MeterError;
use crate::json;
use crate::meter::Turn;
use crate::spec::{LOGIN, MeterSpec};

pub(crate) use tls::trust;

/// The options that this module understands.
pub(crate) const OPTIONS: [&str; 5] = [LOGIN[0], LOGIN[1], LOGIN[2], "ca", "insecure"];

/// The longest answer, where a driver says nothing else.
const LONGEST_BODY: usize = 64 << 10;

/// A device that has not answered within this is silent, however long the turn.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// Even in a shorter turn a device gets this: else one that is slower than the user's interval
/// would never be read. Turns missed are counted.
const LEAST_TIMEOUT: Duration = Duration::from_secs(1);

/// Redirects followed for one question.
const REDIRECTS: u32 = 3;

/// When all that is asked in a turn is to be answered.
pub(crate) fn deadline(turn: &Turn<'_>) -> Mono {
    monotonic() + turn.left().clamp(LEAST_TIMEOUT, TIMEOUT)
}

/// The same while a meter is opened.
pub(crate) fn opening() -> Mono {
    monotonic() + TIMEOUT
}

/// The moment in the middle: what an answer tells was measured between question and answer.
pub(crate) fn middle(sent: Mono, received: Mono) -> Mono {
    sent + received.since(sent) / 2
}

/// A device that is spoken to.
pub(crate) struct Web {
    pub(crate) client: Client,
    pub(crate) device: Device,
}

/// What errors say of a device, and the wait for its answers.
pub(crate) struct Device {
    blocking: Blocking,
    meter: String,
    scheme: &'static str,
    authority: Authority,
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
        let server = Server::new(authority.clone(), tls::config(spec, scheme)?);
        let client = Client::new(server, LONGEST_BODY).with_keep_alive();
        let client = client.with_redirects(REDIRECTS).with_login(login(spec)?);
        let blocking = Blocking::new().map_err(|error| MeterError::Io {
            what: "begin to ask devices on the network".to_owned(),
            error,
        })?;
        let device = Device { blocking, meter: spec.name().to_owned(), scheme, authority };
        Ok((Self { client, device }, path))
    }

    /// Takes answers up to that length, in bytes.
    pub(crate) fn with_longest_body(self, longest: usize) -> Self {
        Self { client: self.client.with_longest(longest), ..self }
    }

    /// JSON at a path.
    pub(crate) fn json(&mut self, path: &str, until: Mono) -> Result<Value, MeterError> {
        let answer = self.get(path, until)?;
        let answer = self.good(path, answer)?;
        json::parse(&answer.body).map_err(|what| self.nonsense(path, &what))
    }

    /// Asks; follows redirects within the device, and logs in if it is told to.
    pub(crate) fn get(&mut self, path: &str, until: Mono) -> Result<HttpResponse, MeterError> {
        let answer = self.device.wait(until, self.client.ask(&Ask::get(path)))?;
        answer.map_err(|error| self.device.failed(path, error))
    }

    /// An answer, if it is one of success.
    pub(crate) fn good(
        &self,
        path: &str,
        answer: HttpResponse,
    ) -> Result<HttpResponse, MeterError> {
        match answer.status {
            200..=299 => Ok(answer),
            status => Err(self.device.refused(path, status, &answer.body, self.client.login())),
        }
    }

    /// It answered what it should not.
    pub(crate) fn nonsense(&self, path: &str, what: &str) -> MeterError {
        self.device.nonsense(path, what)
    }

    /// It wants another password, or one at all.
    pub(crate) fn denied(&self, path: &str, status: u16) -> MeterError {
        self.device.denied(path, status, self.client.login())
    }
}

/// Of the options `user`, `password-file` and `password-env`; `None` without a password.
fn login(spec: &MeterSpec) -> Result<Option<Login>, MeterError> {
    let user = spec.text("user");
    match (spec.password()?, user) {
        (Some(password), user) => Ok(Some(Login::new(user, password))),
        (None, None) => Ok(None),
        (None, Some(_)) => {
            Err(spec.wrong("`user` is given, and no password: say `password-file=FILE`"))
        }
    }
}

impl Device {
    /// What the user calls the meter.
    pub(crate) fn meter(&self) -> &str {
        &self.meter
    }

    /// Waits for an exchange.
    pub(crate) fn wait<F>(&self, until: Mono, exchange: F) -> Result<F::Output, MeterError>
    where
        F: Future + Send,
        F::Output: Send,
    {
        let left = until.since(monotonic());
        if left.is_zero() {
            return Err(self.silent(TIMEOUT));
        }
        self.blocking.within(left, exchange).map_err(|Elapsed| self.silent(left))
    }

    /// The error for a status that is not a success.
    pub(crate) fn refused(
        &self,
        path: &str,
        status: u16,
        body: &[u8],
        login: Option<&Login>,
    ) -> MeterError {
        match status {
            401 | 403 => self.denied(path, status, login),
            404 => self.nonsense(path, "there is no such place (404): is it the right device?"),
            status => self.nonsense(path, &format!("status {status}, {}", quote(body))),
        }
    }

    /// It wants another password, or one at all.
    fn denied(&self, path: &str, status: u16, login: Option<&Login>) -> MeterError {
        let hint = match login {
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

    /// There is no answer.
    pub(crate) fn failed(&self, path: &str, error: HttpError) -> MeterError {
        let place = self.place(path);
        match error {
            HttpError::Tls { source, .. } => match Distrust::of(&source) {
                Some(why) => MeterError::Denied {
                    meter: self.meter.clone(),
                    what: format!("{place} (its certificate: {})", tls::words(&why)),
                    hint: tls::HINT.to_owned(),
                },
                None => unreachable(&place, source),
            },
            HttpError::Lookup { source, .. } => MeterError::Io {
                what: format!("find the host of {place} (is its name right?)"),
                error: source,
            },
            HttpError::Connect { source, .. } => unreachable(&place, source),
            HttpError::TooLong(_) => {
                self.nonsense(path, &format!("{error}, which no meter has to say"))
            }
            HttpError::Elsewhere(to) => {
                let to = quote(to.as_bytes());
                let why = format!(
                    "it sends to {to}, and only places within it are followed: name that address if it \
                     is the meter's"
                );
                self.nonsense(path, &why)
            }
            error if error.is_disconnect() => unreachable(&place, std::io::Error::other(error)),
            error => self.nonsense(path, &error.to_string()),
        }
    }
}

fn unreachable(place: &str, error: std::io::Error) -> MeterError {
    let what = format!("reach {place} (is it on, and is that its address?)");
    MeterError::Io { what, error }
}

#[cfg(test)]
mod tests;
