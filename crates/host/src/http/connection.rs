//! One connection, driven by those who use it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::HttpError;

/// An answer.
#[derive(Debug)]
pub struct HttpResponse {
    /// Its status.
    pub status: u16,
    /// Its header fields.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl HttpResponse {
    /// The first field of that name, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

type Driver = Pin<Box<dyn Future<Output = Result<(), hyper::Error>> + Send>>;

/// A connection for one exchange after the other.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Moves the bytes; `None` once the other end has hung up.
    driver: Option<Driver>,
}

impl Connection {
    /// Begins to use a stream.
    pub async fn open<S>(stream: S) -> Result<Self, HttpError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        Ok(Self { sender, driver: Some(Box::pin(connection)) })
    }

    /// Whether the other end has not hung up meanwhile, as far as that is known here.
    pub(super) async fn is_open(&mut self) -> bool {
        // Lets the runtime look at the socket.
        tokio::task::yield_now().await;
        let Some(driver) = &mut self.driver else { return false };
        let ended = poll_fn(|cx| Poll::Ready(driver.as_mut().poll(cx).is_ready())).await;
        if ended {
            self.driver = None;
        }
        !ended && !self.sender.is_closed()
    }

    /// Sends a request, and reads the answer up to a length in bytes.
    pub async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
        longest: usize,
    ) -> Result<HttpResponse, HttpError> {
        let Self { sender, driver } = self;
        let answer = async {
            sender.ready().await?;
            let (head, body) = sender.send_request(request).await?.into_parts();
            let body =
                Limited::new(body, longest).collect().await.map_err(|error| match error
                    .downcast::<hyper::Error>()
                {
                    Ok(error) => HttpError::Exchange(*error),
                    Err(error) => {
                        debug_assert!(error.is::<LengthLimitError>(), "{error}");
                        HttpError::TooLong(longest)
                    }
                })?;
            let (status, headers) = (head.status.as_u16(), head.headers);
            Ok(HttpResponse { status, headers, body: body.to_bytes() })
        };
        tokio::pin!(answer);
        let Some(driving) = driver else { return answer.await };
        let ended = tokio::select! {
            biased;
            answer = &mut answer => return answer,
            ended = driving => ended,
        };
        *driver = None;
        match ended {
            Err(error) => Err(error.into()),
            // What came before the end may be the answer.
            Ok(()) => answer.await,
        }
    }
}
