//! Questions to one server.

use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, HOST, LOCATION, USER_AGENT, WWW_AUTHENTICATE,
};
use http::{HeaderName, HeaderValue, Method, Request};
use http_body_util::Full;
use hyper::body::Bytes;

use super::{Connection, HttpError, HttpResponse, Login, Server};

/// A question.
#[derive(Debug)]
pub struct Ask<'a> {
    /// `GET` is asked again on a new connection if a kept one turns out to be closed.
    pub method: Method,
    /// Path and query.
    pub path: &'a str,
    /// Fields besides those that every request has.
    pub headers: &'a [(HeaderName, HeaderValue)],
    /// The body; empty for none.
    pub body: Bytes,
}

impl<'a> Ask<'a> {
    /// Asks for what is at a path.
    pub const fn get(path: &'a str) -> Self {
        Self { method: Method::GET, path, headers: &[], body: Bytes::new() }
    }

    /// As a request to this `HOST[:PORT]`.
    pub fn request(&self, host: &str) -> Result<Request<Full<Bytes>>, HttpError> {
        self.request_for(self.path, host, None)
    }

    fn request_for(
        &self,
        path: &str,
        host: &str,
        authorization: Option<HeaderValue>,
    ) -> Result<Request<Full<Bytes>>, HttpError> {
        let mut request = Request::builder().method(self.method.clone()).uri(path);
        request = request.header(HOST, host).header(USER_AGENT, super::USER_AGENT);
        if !self.headers.iter().any(|(name, _)| *name == ACCEPT) {
            request = request.header(ACCEPT, "*/*");
        }
        if self.method != Method::GET {
            request = request.header(CONTENT_LENGTH, self.body.len());
        }
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        Ok(request.body(Full::new(self.body.clone()))?)
    }
}

/// Asks one server, one question at a time.
pub struct Client {
    server: Server,
    /// Bytes of the longest answer.
    longest: usize,
    /// Redirects followed for one question.
    redirects: u32,
    keeps: bool,
    login: Option<Login>,
    kept: Option<Connection>,
}

impl Client {
    /// Asks each question on a connection of its own, and follows no redirects. `longest` is the length of
    /// answers in bytes.
    pub const fn new(server: Server, longest: usize) -> Self {
        Self { server, longest, redirects: 0, keeps: false, login: None, kept: None }
    }

    /// Follows redirects of `GET` within the server.
    #[must_use]
    pub fn with_redirects(self, redirects: u32) -> Self {
        Self { redirects, ..self }
    }

    /// Keeps the connection for the next question.
    #[must_use]
    pub fn with_keep_alive(self) -> Self {
        Self { keeps: true, ..self }
    }

    /// Logs in when the server asks for a password.
    #[must_use]
    pub fn with_login(self, login: Option<Login>) -> Self {
        Self { login, ..self }
    }

    /// Takes answers up to this length in bytes.
    #[must_use]
    pub fn with_longest(self, longest: usize) -> Self {
        Self { longest, ..self }
    }

    /// The server of this client.
    pub const fn server(&self) -> &Server {
        &self.server
    }

    /// How it logs in, if it does.
    pub const fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    /// Asks; follows redirects, and logs in if the server wants that.
    pub async fn ask(&mut self, ask: &Ask<'_>) -> Result<HttpResponse, HttpError> {
        let mut path = ask.path.to_owned();
        let mut redirects = 0;
        let mut refused = false;
        loop {
            let answer = self.once(ask, &path).await?;
            match answer.status {
                301 | 302 | 307 | 308
                    if ask.method == Method::GET && redirects < self.redirects =>
                {
                    path = self.redirected(&answer)?;
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

    /// The path that a redirect leads to, if that is on the server.
    fn redirected(&self, answer: &HttpResponse) -> Result<String, HttpError> {
        let to = answer.headers.get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or_default();
        self.server.path_of(to).ok_or_else(|| HttpError::Elsewhere(to.to_owned()))
    }

    async fn once(&mut self, ask: &Ask<'_>, path: &str) -> Result<HttpResponse, HttpError> {
        let login = self.login.as_mut().and_then(|it| it.answer(ask.method.as_str(), path));
        let login = login.and_then(|text| {
            let mut value = HeaderValue::try_from(text).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        let request = || ask.request_for(path, self.server.authority(), login.clone());
        if let Some(mut kept) = self.kept.take()
            && kept.is_open().await
        {
            match kept.send(request()?, self.longest).await {
                // The server may have hung up at this moment.
                Err(error) if error.is_disconnect() && ask.method == Method::GET => {}
                answer => return Ok(self.keep(kept, answer?)),
            }
        }
        let request = request()?;
        let mut connection = Connection::open(self.server.connect().await?).await?;
        let answer = connection.send(request, self.longest).await?;
        Ok(self.keep(connection, answer))
    }

    fn keep(&mut self, connection: Connection, answer: HttpResponse) -> HttpResponse {
        self.kept = self.keeps.then_some(connection);
        answer
    }
}
