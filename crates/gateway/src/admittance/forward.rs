//! Asks a service whether a request may come in (Authelia, oauth2-proxy, authentik and others).
//!
//! The service gets a `GET` with the client's cookies and credentials, and what it asked for in `X-Forwarded-*`. If it
//! answers 2xx, the client comes in, and the server gets the configured fields of that answer. Any other answer below 500
//! goes to the client. Without an answer, nothing comes in.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_LANGUAGE, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, COOKIE, HOST, HeaderMap,
    LOCATION, SET_COOKIE, USER_AGENT, WWW_AUTHENTICATE,
};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use nightwatt_clock::Clock;
use nightwatt_host::http::{HttpError, Server};
use nightwatt_host::tls::{self, TlsError};
use nightwatt_httpcache::sharing;

use super::turns::Turns;
use super::{Comer, Denial, is_basic};
use crate::body::Answer;
use crate::config::{ForwardAuthConfig, SIGN_IN_ADDRESS};
use crate::facts::Facts;
use crate::request_rules::{reads_alike, remove_alike};

/// Bytes of an answer that clients get: log-in pages are elsewhere.
const LONGEST: usize = 64 << 10;

/// Connections that are kept.
const KEPT: usize = 8;

/// Fields of the client that the service gets.
static SHOWN: [HeaderName; 6] = [
    COOKIE,
    AUTHORIZATION,
    ACCEPT,
    ACCEPT_LANGUAGE,
    USER_AGENT,
    HeaderName::from_static("x-requested-with"),
];

/// Fields of the service's answer that a client gets which does not come in.
static RETURNED: [HeaderName; 4] = [LOCATION, SET_COOKIE, WWW_AUTHENTICATE, CONTENT_TYPE];

type Connection = SendRequest<Empty<Bytes>>;

/// The service.
pub(super) struct ForwardAuth {
    pub(super) config: ForwardAuthConfig,
    /// What the server gets of its answers.
    names: Vec<HeaderName>,
    server: Server,
    idle: Mutex<Vec<Connection>>,
    turns: Turns,
}

/// What the service answered.
enum Decision {
    /// The client comes in, with these fields; and these cookies are for the client.
    In { fields: HeaderMap, cookies: Vec<HeaderValue> },
    /// This is for the client, which may have shown a wrong password.
    Out { response: Response<Bytes>, asks_for_password: bool },
}

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoDecision {
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("it answered {0}")]
    Failed(StatusCode),
    #[error("it did not answer in time")]
    TimedOut,
}

impl From<hyper::Error> for NoDecision {
    fn from(error: hyper::Error) -> Self {
        Self::Http(error.into())
    }
}

impl ForwardAuth {
    pub(super) fn open(config: &ForwardAuthConfig) -> Result<Self, TlsError> {
        let url = &config.url;
        let tls = url.by_tls.then(|| tls::config(config.ca.as_deref(), None)).transpose()?;
        Ok(Self {
            names: config.names(),
            server: Server::new(url.authority.clone(), tls),
            config: config.clone(),
            idle: Mutex::default(),
            turns: Turns::default(),
        })
    }

    /// Removes what only the service may say: from all clients, in every form that a server could read as the same name.
    fn strip(&self, fields: &mut HeaderMap) {
        remove_alike(fields, |name| self.is_own(name));
    }

    /// Whether no client may send this field, not even through a trusted proxy, which may pass on those of its client:
    /// the service alone may, or a server could go by it instead of what the service is asked about.
    fn is_own(&self, name: &HeaderName) -> bool {
        self.names.iter().any(|own| reads_alike(own, name))
            || sharing::is_routing(name.as_str().as_bytes())
    }

    /// Asks the service.
    async fn ask(
        &self,
        facts: &Facts,
        fields: &HeaderMap,
        clock: &Clock,
    ) -> Result<Decision, NoDecision> {
        let asking = async {
            let (head, body) = self.send(facts, fields).await?.into_parts();
            let body = Limited::new(body, LONGEST).collect().await;
            let body = body.map_err(|_| HttpError::TooLong(LONGEST))?.to_bytes();
            Ok(Response::from_parts(head, body))
        };
        // Boxed, since few sites ask, and the futures of all requests have room for it.
        let answer: Result<_, NoDecision> = clock
            .timeout(self.config.timeout, Box::pin(asking))
            .await
            .map_err(|_| NoDecision::TimedOut)?;
        self.decision(&answer?, facts)
    }

    fn decision(&self, answer: &Response<Bytes>, facts: &Facts) -> Result<Decision, NoDecision> {
        let status = answer.status();
        if status.is_server_error() || status.is_informational() {
            return Err(NoDecision::Failed(status));
        }
        let cookies: Vec<_> = answer.headers().get_all(SET_COOKIE).iter().cloned().collect();
        if status.is_success() {
            let mut fields = HeaderMap::new();
            for name in &self.names {
                // One value: a server may read several as one.
                if let Some(value) = answer.headers().get(name).filter(|it| !it.is_empty()) {
                    fields.insert(name, value.clone());
                }
            }
            return Ok(Decision::In { fields, cookies });
        }
        let asks_for_password = status == StatusCode::UNAUTHORIZED
            && answer.headers().get_all(WWW_AUTHENTICATE).iter().any(is_basic);
        let mut response = Response::new(answer.body().clone());
        *response.status_mut() = status;
        for name in &RETURNED {
            for value in answer.headers().get_all(name) {
                response.headers_mut().append(name, value.clone());
            }
        }
        if status == StatusCode::UNAUTHORIZED
            && facts.accepts_html
            && !response.headers().contains_key(LOCATION)
            && let Some(place) = self.sign_in(facts)
        {
            *response.status_mut() = StatusCode::FOUND;
            response.headers_mut().insert(LOCATION, place);
            response.headers_mut().remove(WWW_AUTHENTICATE);
            *response.body_mut() = Bytes::new();
        }
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(Decision::Out { response, asks_for_password })
    }

    /// Where a browser logs in.
    fn sign_in(&self, facts: &Facts) -> Option<HeaderValue> {
        let place = self.config.sign_in.as_ref()?;
        let place = place.replace(SIGN_IN_ADDRESS, &escaped(&address(facts)));
        HeaderValue::from_str(&place).ok()
    }

    async fn send(
        &self,
        facts: &Facts,
        fields: &HeaderMap,
    ) -> Result<Response<Incoming>, NoDecision> {
        while let Some(mut connection) = self.kept() {
            if connection.ready().await.is_err() {
                continue;
            }
            // It may have been closed meanwhile: a new one decides.
            if let Ok(answer) = connection.send_request(self.question(facts, fields)).await {
                self.keep(connection);
                return Ok(answer);
            }
        }
        let stream = self.server.connect().await?;
        let (mut connection, driver) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(driver);
        let answer = connection.send_request(self.question(facts, fields)).await?;
        self.keep(connection);
        Ok(answer)
    }

    fn kept(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|it| !it.is_closed());
        // One whose last answer has been read.
        let at = idle.iter().position(SendRequest::is_ready)?;
        Some(idle.swap_remove(at))
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT {
            idle.push(connection);
        }
    }

    fn question(&self, facts: &Facts, fields: &HeaderMap) -> Request<Empty<Bytes>> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = self.config.url.target.clone().into();
        let headers = request.headers_mut();
        for name in &SHOWN {
            for value in fields.get_all(name) {
                headers.append(name, value.clone());
            }
        }
        let proto = if facts.secure { "https" } else { "http" };
        let address = address(facts);
        for (name, value) in [
            (HOST.as_str(), self.server.authority()),
            ("x-forwarded-method", facts.method.as_str()),
            ("x-forwarded-proto", proto),
            ("x-forwarded-host", &facts.authority),
            ("x-forwarded-uri", &facts.target),
            ("x-forwarded-for", &facts.address),
            ("x-original-method", facts.method.as_str()),
            ("x-original-url", &address),
            ("x-request-id", &facts.id),
        ] {
            if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse()) {
                headers.insert(name, value);
            }
        }
        request
    }
}

/// What the client asked for, as a whole address.
fn address(facts: &Facts) -> String {
    let proto = if facts.secure { "https" } else { "http" };
    format!("{proto}://{}{}", facts.authority, facts.target)
}

/// A text within the query of an address.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = std::fmt::Write::write_fmt(&mut out, format_args!("%{byte:02X}"));
        }
    }
    out
}

/// What the service says of a client that comes in.
#[derive(Debug, Default)]
pub(crate) struct Service {
    /// Fields for the server.
    pub(crate) fields: HeaderMap,
    /// Cookies for the client.
    pub(crate) cookies: Vec<HeaderValue>,
}

/// Why a client does not come in.
pub(crate) enum Refused {
    /// By a rule here.
    By(Denial),
    /// The service has this answer for it.
    Answer(Box<Response<Answer>>),
    /// The service did not answer.
    NotAsked(NoDecision),
}

impl super::Admittance {
    /// Removes the fields that no client may send to a site about which a service decides.
    pub(crate) fn strip(&self, fields: &mut HeaderMap) {
        if let Some(forward) = &self.forward {
            forward.strip(fields);
        }
    }

    /// Whether the server gets this field from no client.
    pub(crate) fn withholds(&self, name: &HeaderName) -> bool {
        self.forward.as_ref().is_some_and(|it| it.is_own(name))
    }

    /// Whether a client may come in with what the service says of its request.
    pub(crate) async fn by_service(
        &self,
        comer: Comer,
        facts: &Facts,
        fields: &HeaderMap,
        clock: &Clock,
    ) -> Result<Service, Refused> {
        let Some(forward) = self.forward_for(comer.ip) else { return Ok(Service::default()) };
        let shows_password = fields.get_all(AUTHORIZATION).iter().any(is_basic);
        let may_ask = || {
            if !shows_password {
                return Ok(());
            }
            self.lock().may_attempt(comer, clock).map_err(Refused::By)
        };
        may_ask()?;
        let turn = clock.timeout(forward.config.timeout, Box::pin(forward.turns.wait(comer))).await;
        let Ok(_turn) = turn else { return Err(Refused::By(Denial::Busy)) };
        // Its other requests may have shown wrong ones meanwhile.
        may_ask()?;
        match forward.ask(facts, fields, clock).await {
            Ok(Decision::In { fields, cookies }) => Ok(Service { fields, cookies }),
            Ok(Decision::Out { response, asks_for_password }) => {
                if shows_password && asks_for_password {
                    let _ = self.lock().attempt(comer, clock);
                }
                Err(Refused::Answer(Box::new(response.map(Answer::whole))))
            }
            Err(why) => Err(Refused::NotAsked(why)),
        }
    }

    /// The service that decides about clients at an address, if one does.
    pub(super) fn forward_for(&self, ip: Option<std::net::IpAddr>) -> Option<&Arc<ForwardAuth>> {
        let forward = self.forward.as_ref()?;
        (!self.config.is_without_password(ip)).then_some(forward)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auth(headers: &[&str]) -> ForwardAuth {
        let text = format!("url = \"http://127.0.0.1:1/\"\nheaders = {headers:?}");
        ForwardAuth::open(&toml::from_str(&text).unwrap()).unwrap()
    }

    #[test]
    fn no_client_sends_what_only_the_service_may_say_in_any_form() {
        let auth = auth(&["Remote-User", "X-My-Name"]);
        let mut fields = HeaderMap::new();
        for name in
            ["remote-user", "remote_user", "remote.user", "x-my-name", "x_my-name", "x_my_name"]
        {
            fields.insert(name.parse::<HeaderName>().unwrap(), HeaderValue::from_static("eve"));
        }
        fields.append("remote-user", HeaderValue::from_static("again"));
        for name in ["x-http-method", "x-http_method_override", "X-Method-Override"] {
            fields.insert(name.parse::<HeaderName>().unwrap(), HeaderValue::from_static("DELETE"));
        }
        for name in ["X-Rewrite-URL", "x_original_url", "X-Forwarded-Path", "X-Forwarded-Uri"] {
            fields.insert(name.parse::<HeaderName>().unwrap(), HeaderValue::from_static("/admin"));
        }
        for name in ["X-Forwarded-Host", "x_forwarded_host", "X-Original-Host", "X-Host"] {
            fields.insert(name.parse::<HeaderName>().unwrap(), HeaderValue::from_static("admin"));
        }
        for name in ["X-Forwarded-Method", "X-Original-Method", "X-Script-Name", "x.script.name"] {
            fields.insert(name.parse::<HeaderName>().unwrap(), HeaderValue::from_static("DELETE"));
        }
        fields.insert("forwarded", HeaderValue::from_static("for=192.0.2.1;host=admin"));
        fields.insert("x-my-names", HeaderValue::from_static("stays"));
        auth.strip(&mut fields);
        let left: Vec<&str> = fields.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["x-my-names"]);
    }

    #[test]
    fn an_address_within_a_query_has_no_sign_with_a_meaning() {
        assert_eq!(escaped("https://a.b/c?d=e&f#g"), "https%3A%2F%2Fa.b%2Fc%3Fd%3De%26f%23g");
        assert_eq!(escaped("a\r\n\u{e4}"), "a%0D%0A%C3%A4");
    }
}
