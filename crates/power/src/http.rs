//! HTTP/1.1 to daemons and management controllers: one exchange over a connection of its own, with
//! answers of bounded length. No redirects are followed.

use std::io;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_LENGTH, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{Error, said};

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Bytes,
}

/// Why there is none.
#[derive(Debug)]
pub(crate) enum Broken {
    Connect(io::Error),
    /// Of what it answered.
    Http(String),
    TooLong(usize),
}

impl Broken {
    /// The error of whom was asked, with what helps if nobody is there.
    pub(crate) fn of(self, whom: String, hint: impl Fn(&io::Error) -> &'static str) -> Error {
        match self {
            Self::Connect(source) => Error::Unreachable { whom, hint: hint(&source), source },
            Self::Http(why) => {
                let what = format!("no HTTP/1.1: {}", said::brief(why.as_bytes()));
                Error::Nonsense { whom, what }
            }
            Self::TooLong(longest) => {
                let what = format!("more than {} KiB", longest >> 10);
                Error::Nonsense { whom, what }
            }
        }
    }
}

impl From<hyper::Error> for Broken {
    fn from(error: hyper::Error) -> Self {
        Self::Http(error.to_string())
    }
}

/// A request, whole.
pub(crate) fn request(
    method: Method,
    path: &str,
    host: &str,
    headers: &[(HeaderName, HeaderValue)],
    body: Bytes,
) -> Result<Request<Full<Bytes>>, Broken> {
    let mut request = Request::builder().method(method).uri(path).header(HOST, host);
    request = request.header(USER_AGENT, concat!("nightwatt/", env!("CARGO_PKG_VERSION")));
    request = request.header(CONTENT_LENGTH, body.len());
    for (name, value) in headers {
        request = request.header(name, value);
    }
    request.body(Full::new(body)).map_err(|error| Broken::Http(error.to_string()))
}

/// Asks, and reads the answer up to a length.
pub(crate) async fn exchange<S>(
    stream: S,
    request: Request<Full<Bytes>>,
    longest: usize,
) -> Result<Answer, Broken>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let answer = async {
        let response = sender.send_request(request).await?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), longest).collect().await;
        let body = body.map_err(|error| {
            if error.is::<LengthLimitError>() {
                Broken::TooLong(longest)
            } else {
                Broken::Http(error.to_string())
            }
        });
        Ok(Answer { status, body: body?.to_bytes() })
    };
    tokio::pin!(answer);
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        ended = connection => match ended {
            Err(error) => Err(error.into()),
            // What came before the end may be the answer.
            Ok(()) => answer.await,
        },
    }
}
