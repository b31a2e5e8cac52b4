//! Asks a program by HTTP whether it is in use.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use http::header::LOCATION;
use http::{HeaderName, HeaderValue};
use hyper::body::Bytes;
use nightwatt_host::http::{Ask, Client, HttpResponse, Login, Server};
use nightwatt_host::secret::Secret;
use nightwatt_host::text::brief;
use nightwatt_host::tls;
use rustls::ClientConfig;

use crate::config::{InUseConfig, Question, SiteConfig, TokenField};

/// Bytes of the longest answer: a session of Jellyfin has some KiB.
const LONGEST: usize = 4 << 20;

/// Transmission refuses what does not repeat this field of its refusal (409).
const SESSION: HeaderName = HeaderName::from_static("x-transmission-session-id");

/// A program that is asked.
pub(super) struct Asking {
    server: Server,
    question: Question,
    token_file: Option<PathBuf>,
    user: Option<(String, PathBuf)>,
    /// Transmission's last session.
    session: Mutex<Option<HeaderValue>>,
}

impl Asking {
    /// Checks that its files can be read. The error says which cannot.
    pub(super) fn open(
        config: &InUseConfig,
        site: &SiteConfig,
        question: Question,
    ) -> Result<Self, String> {
        let tls = question.url.by_tls.then(|| trust(config, site)).transpose()?;
        let asking = Self {
            server: Server::new(question.url.authority.clone(), tls),
            question,
            token_file: config.token_file.clone(),
            user: config.user.clone().zip(config.password_file.clone()),
            session: Mutex::default(),
        };
        asking.token()?;
        asking.login().map(|_| asking)
    }

    /// What is in use, if anything is; the error says why that is unknown.
    pub(super) async fn ask(&self) -> Result<Option<String>, String> {
        let token = self.token()?;
        let mut client = Client::new(self.server.clone(), LONGEST).with_login(self.login()?);
        let mut answer = self.once(&mut client, token.as_ref()).await?;
        if answer.status == 409
            && let Some(session) = answer.headers.get(SESSION).cloned()
        {
            *self.session() = Some(session);
            answer = self.once(&mut client, token.as_ref()).await?;
        }
        if answer.status != 200 {
            return Err(refused(&answer));
        }
        self.question.condition.judge(&answer.body)
    }

    async fn once(
        &self,
        client: &mut Client,
        token: Option<&HeaderValue>,
    ) -> Result<HttpResponse, String> {
        let Question { path, method, headers, body, token: field, .. } = &self.question;
        let session = self.session().clone().map(|value| (SESSION, value));
        let token = token.map(|value| (field.name.clone(), value.clone()));
        let headers: Vec<_> = headers.iter().cloned().chain(token).chain(session).collect();
        let body = Bytes::from_static(body.as_bytes());
        let ask = Ask { method: method.clone(), path, headers: &headers, body };
        client.ask(&ask).await.map_err(|error| error.to_string())
    }

    fn session(&self) -> std::sync::MutexGuard<'_, Option<HeaderValue>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The token is read each time: it may have changed.
    fn token(&self) -> Result<Option<HeaderValue>, String> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let secret = read("token_file", path)?;
        let TokenField { before, after, .. } = &self.question.token;
        let value = HeaderValue::try_from(format!("{before}{}{after}", secret.reveal()));
        // Not the reason, which may show it.
        let mut value = value.map_err(|_| {
            format!("the token in {} has signs that no field may have", path.display())
        })?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    fn login(&self) -> Result<Option<Login>, String> {
        let Some((user, path)) = &self.user else { return Ok(None) };
        Ok(Some(Login::new(Some(user), read("password_file", path)?)))
    }
}

/// Reads the file that a key names.
fn read(key: &str, path: &Path) -> Result<Secret, String> {
    Secret::from_file(path).map_err(|error| of_key(key, &error))
}

/// What is wrong with the file that a key names.
fn of_key(key: &str, error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("`{key}`: {error}: {source}"),
        None => format!("`{key}`: {error}"),
    }
}

fn trust(config: &InUseConfig, site: &SiteConfig) -> Result<Arc<ClientConfig>, String> {
    let own = site.origin_tls.as_ref().filter(|_| config.url.is_none() && config.ca.is_none());
    match own {
        Some(own) => own.trust().map_err(|error| of_key("origin_tls.ca", &error)),
        None => tls::config(config.ca.as_deref(), None).map_err(|error| of_key("ca", &error)),
    }
}

/// What an answer means that is not 200.
fn refused(answer: &HttpResponse) -> String {
    let status = answer.status;
    match status {
        401 | 403 => format!("status {status}: check its token or password"),
        404 => format!("status {status}: check `url`"),
        300..=399 => {
            let to = answer.headers.get(LOCATION).map_or(&b""[..], HeaderValue::as_bytes);
            // The rest may hold a secret.
            let to = to.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default();
            format!("status {status}: it redirects to {}; set `url` to that", brief(to))
        }
        _ => format!("status {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_is_shown_without_what_may_be_a_secret() {
        for to in ["http://tv/web?api_key=secret", "http://tv/web#token=secret", "http://tv/web"] {
            let headers = [(LOCATION, HeaderValue::from_static(to))].into_iter().collect();
            let answer = HttpResponse { status: 302, headers, body: Bytes::new() };
            assert_eq!(
                refused(&answer),
                "status 302: it redirects to http://tv/web; set `url` to that"
            );
        }
    }
}
