//! Redfish (DMTF DSP0266): resources as JSON, linked with each other, and sessions.

mod system;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method};
use hyper::body::Bytes;
use nightwatt_host::http::{Ask, Client, HttpError, HttpResponse, Server};
use nightwatt_host::secret::Secret;
use nightwatt_host::text::brief;
use serde_json::{Value, json};

pub use system::{Power, System, is_place};

/// Bytes of the longest resource. What a controller says of a system has some ten KiB.
pub const LONGEST: usize = 1 << 20;

/// The root of the resource tree (DSP0266, section 6.3). It can be read without a login.
pub const ROOT: &str = "/redfish/v1/";

/// Where sessions begin if the root does not say.
const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";

const TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
const VERSION: HeaderName = HeaderName::from_static("odata-version");

/// How we log in.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// Not at all.
    None,
    /// The password goes into the head of each request.
    Basic(HeaderValue),
    /// The password goes into the body of one request, which begins a session.
    Session {
        /// Who we are.
        user: String,
        /// The password.
        password: Secret,
    },
}

impl Credentials {
    /// Basic authentication (RFC 7617).
    pub fn basic(user: &str, password: &Secret) -> Option<Self> {
        let pair = STANDARD.encode(format!("{user}:{}", password.reveal()));
        let mut value = HeaderValue::try_from(format!("Basic {pair}")).ok()?;
        value.set_sensitive(true);
        Some(Self::Basic(value))
    }
}

/// Why there is no such resource.
#[derive(Debug, thiserror::Error)]
pub enum RedfishError {
    /// There is no answer.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The status of the answer is not a success.
    #[error("{method} {path}: status {status}")]
    Refused {
        /// `GET`, or `POST` for actions.
        method: Method,
        /// Of what.
        path: String,
        /// The status.
        status: u16,
        /// What it says about it.
        body: Bytes,
    },
    /// The controller begins no session for this user and password.
    #[error("no session at {path} (status {status})")]
    NoSession {
        /// Where.
        path: String,
        /// The status.
        status: u16,
    },
    /// A session began without the token that requests are to show.
    #[error("a session without `X-Auth-Token`")]
    NoToken {
        /// Where.
        path: String,
    },
    /// A link leads to another server.
    #[error("a link that leads elsewhere")]
    Elsewhere,
    /// The root has no such link.
    #[error("that is no Redfish: it names no `{0}`")]
    NoLink(&'static str),
    /// The answer is no JSON, or not of this kind.
    #[error("`{}`: {}", brief(.body), brief(.error.to_string().as_bytes()))]
    Json {
        /// Of what.
        path: String,
        /// The answer.
        body: Bytes,
        /// What is wrong with it.
        error: serde_json::Error,
    },
}

/// Why a controller refuses, in its own words: the extended information has more than `message`.
pub fn complaint(body: &[u8]) -> String {
    let value: Option<Value> = serde_json::from_slice(body).ok();
    let message = value.as_ref().and_then(|value| {
        let at = |pointer| value.pointer(pointer).and_then(Value::as_str);
        at("/error/@Message.ExtendedInfo/0/Message").or_else(|| at("/error/message"))
    });
    brief(message.map_or(body, str::as_bytes))
}

/// The link at a pointer.
pub fn link<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(&format!("{pointer}/@odata.id"))?.as_str()
}

/// The last part of a place: the name of the resource.
pub fn last(place: &str) -> &str {
    place.trim_end_matches('/').rsplit('/').next().unwrap_or(place)
}

#[derive(Debug)]
struct Session {
    token: HeaderValue,
    /// Where it is ended.
    place: Option<String>,
}

/// A controller that is asked.
pub struct Service {
    client: Client,
    credentials: Credentials,
    session: Option<Session>,
    /// Where sessions begin.
    sessions: String,
}

impl Service {
    /// Nothing is sent.
    pub fn new(client: Client, credentials: Credentials) -> Self {
        Self { client, credentials, session: None, sessions: SESSIONS.to_owned() }
    }

    /// The server of this client.
    pub const fn server(&self) -> &Server {
        self.client.server()
    }

    /// The place of a collection that the root names: `Chassis`, `Systems`.
    pub async fn collection(&mut self, name: &'static str) -> Result<String, RedfishError> {
        let path = ROOT.to_owned();
        let headers = match &self.credentials {
            Credentials::Basic(value) => vec![(AUTHORIZATION, value.clone())],
            Credentials::None | Credentials::Session { .. } => Vec::new(),
        };
        let answer = self.ask(Method::GET, &path, headers, Bytes::new()).await?;
        let root = parse(&path, good(Method::GET, &path, answer)?.body)?;
        if let Some(sessions) = link(&root, "/Links/Sessions") {
            sessions.clone_into(&mut self.sessions);
        }
        let place = link(&root, &format!("/{name}")).map(str::to_owned);
        place.ok_or(RedfishError::NoLink(name))
    }

    /// The members of a collection, by their places.
    pub async fn members(&mut self, place: &str) -> Result<Vec<String>, RedfishError> {
        let collection = self.get(place).await?;
        let members = collection["Members"].as_array().into_iter().flatten();
        Ok(members.filter_map(|member| link(member, "")).map(str::to_owned).collect())
    }

    /// A resource.
    pub async fn get(&mut self, place: &str) -> Result<Value, RedfishError> {
        let body = self.request(Method::GET, place, Bytes::new()).await?;
        parse(place, body)
    }

    /// The system at a place.
    pub async fn system(&mut self, place: &str) -> Result<System, RedfishError> {
        let body = self.request(Method::GET, place, Bytes::new()).await?;
        serde_json::from_slice(&body).map_err(|error| RedfishError::Json {
            path: place.to_owned(),
            body,
            error,
        })
    }

    /// Asks for an action.
    pub async fn post(&mut self, place: &str, body: &Value) -> Result<(), RedfishError> {
        self.request(Method::POST, place, body.to_string().into()).await.map(drop)
    }

    /// Ends the session, if there is one: controllers have room for a few only.
    pub async fn end(&mut self) -> Result<(), HttpError> {
        let Some(Session { token, place: Some(place) }) = self.session.take() else {
            return Ok(());
        };
        let headers = vec![(TOKEN, token)];
        self.ask(Method::DELETE, &place, headers, Bytes::new()).await.map(drop)
    }

    /// Asks for what is at a place; begins a session where that is needed.
    async fn request(
        &mut self,
        method: Method,
        place: &str,
        body: Bytes,
    ) -> Result<Bytes, RedfishError> {
        let path = self.server().path_of(place).ok_or(RedfishError::Elsewhere)?;
        let mut again = false;
        loop {
            let headers = self.proof().await?;
            let answer = self.ask(method.clone(), &path, headers, body.clone()).await?;
            // Sessions end when they are not used for a while.
            if answer.status == 401 && !again && self.session.take().is_some() {
                again = true;
                continue;
            }
            return Ok(good(method, &path, answer)?.body);
        }
    }

    /// Returns the headers that authenticate a request. Begins a session if one is needed and none exists.
    async fn proof(&mut self) -> Result<Vec<(HeaderName, HeaderValue)>, RedfishError> {
        let (user, password) = match &self.credentials {
            Credentials::None => return Ok(Vec::new()),
            Credentials::Basic(value) => return Ok(vec![(AUTHORIZATION, value.clone())]),
            Credentials::Session { user, password } => (user, password),
        };
        if let Some(Session { token, .. }) = &self.session {
            return Ok(vec![(TOKEN, token.clone())]);
        }
        let body = json!({ "UserName": user, "Password": password.reveal() }).to_string();
        let path = self.sessions.clone();
        let answer = self.ask(Method::POST, &path, Vec::new(), body.into()).await?;
        if let 400 | 401 | 403 = answer.status {
            return Err(RedfishError::NoSession { path, status: answer.status });
        }
        let answer = good(Method::POST, &path, answer)?;
        let Some(token) = answer.headers.get(TOKEN).cloned() else {
            return Err(RedfishError::NoToken { path });
        };
        let place = answer.header("location").and_then(|place| self.server().path_of(place));
        self.session = Some(Session { token: token.clone(), place });
        Ok(vec![(TOKEN, token)])
    }

    async fn ask(
        &mut self,
        method: Method,
        path: &str,
        mut headers: Vec<(HeaderName, HeaderValue)>,
        body: Bytes,
    ) -> Result<HttpResponse, HttpError> {
        let json = HeaderValue::from_static("application/json");
        headers.push((VERSION, HeaderValue::from_static("4.0")));
        headers.push((ACCEPT, json.clone()));
        if !body.is_empty() {
            headers.push((CONTENT_TYPE, json));
        }
        tracing::debug!(authority = self.server().authority(), %method, path, "asking");
        self.client.ask(&Ask { method, path, headers: &headers, body }).await
    }
}

fn good(method: Method, path: &str, answer: HttpResponse) -> Result<HttpResponse, RedfishError> {
    match answer.status {
        200..=299 => Ok(answer),
        status => {
            Err(RedfishError::Refused { method, path: path.to_owned(), status, body: answer.body })
        }
    }
}

fn parse(path: &str, body: Bytes) -> Result<Value, RedfishError> {
    serde_json::from_slice(&body).map_err(|error| RedfishError::Json {
        path: path.to_owned(),
        body,
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_the_most_that_is_said() {
        let whole = br#"{"error": {"message": "See ExtendedInfo",
            "@Message.ExtendedInfo": [{"Message": "The system is\u001b busy"}]}}"#;
        assert_eq!(complaint(whole), "The system is\u{fffd} busy");
        assert_eq!(complaint(br#"{"error": {"message": "no"}}"#), "no");
        assert_eq!(complaint(b"<html>"), "<html>");
    }
}
