//! Feeds any bytes to our HTTP/1.1 client as a server's answer. The result doesn't depend on how
//! the bytes are cut on the way. A connection returns for another request only if its answer's end
//! was certain and no byte of the answer is left on it. The fast path, which passes an answer on as
//! it came, gives the same result as the slow path, also for what it leaves to the slow path.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Empty};
use nightwatt_http1::client::{AnswerBody, Connection, PlainResponse, Return, Underway};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::typed;

/// Runs the target on one input.
pub fn run(bytes: &[u8]) {
    let Some(input) = typed::<(bool, u8, &[u8])>(bytes) else { return };
    let (is_head, cut, bytes) = input;
    let method = if is_head { Method::HEAD } else { Method::GET };
    let whole = answered(&method, bytes, bytes.len().max(1));
    let parts = answered(&method, bytes, usize::from(cut).max(1));
    if !is_head {
        for (cut, long) in [(bytes.len().max(1), &whole), (usize::from(cut).max(1), &parts)] {
            let short = by_the_fast_path(bytes, cut);
            let said = |it: &Option<Answered>| it.as_ref().map(|it| (it.said.clone(), it.is_back));
            assert_eq!(said(&short), said(long), "cut every {cut} bytes");
        }
    }
    // What came behind an answer is seen only if it has come by then.
    match (&whole, &parts) {
        (Some(whole), Some(parts)) => {
            assert_eq!(whole.said, parts.said, "cut every {cut} bytes");
            for it in [whole, parts].into_iter().filter(|it| it.is_back) {
                assert!(it.read <= bytes.len());
                assert!(it.read > 0, "nothing was read, and it was an answer");
            }
            assert!(
                !whole.is_back || whole.read == bytes.len(),
                "bytes are left on the connection"
            );
            assert!(parts.is_back || !whole.is_back, "the end was certain");
        }
        (whole, parts) => assert_eq!(whole.is_some(), parts.is_some(), "cut every {cut} bytes"),
    }
}

/// What came of an answer that was read to its end.
struct Answered {
    /// Status, fields, body, trailers.
    said: String,
    is_back: bool,
    /// Bytes that were taken from the connection.
    read: usize,
}

/// `None` if the bytes aren't an answer.
fn answered(method: &Method, bytes: &[u8], cut: usize) -> Option<Answered> {
    let read = Arc::new(AtomicUsize::new(0));
    let server = Server { rest: bytes.to_vec(), cut, read: Arc::clone(&read) };
    let request = Request::builder().method(method).uri("/").header("host", "a");
    let body = Empty::<Bytes>::new().map_err(|never: Infallible| match never {});
    let asking = async {
        let asked = Connection::new(server).ask(request.body(body).ok()?, |_, _| ()).await;
        let (response, home) = asked.ok()?;
        read_to_end(response, home).await
    };
    at_once(asking, &read)
}

/// Asks for the same by the fast path, which may leave the answer to the slow path.
fn by_the_fast_path(bytes: &[u8], cut: usize) -> Option<Answered> {
    let read = Arc::new(AtomicUsize::new(0));
    let server = Server { rest: bytes.to_vec(), cut, read: Arc::clone(&read) };
    let question = Bytes::from_static(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    let mut underway = Underway::new(Connection::new(server), question);
    let told = |glance: &PlainResponse<'_, '_>| {
        let mut fields = HeaderMap::new();
        for field in glance.fields {
            let name = HeaderName::from_bytes(field.name.as_bytes()).expect("a name is a token");
            let value = HeaderValue::from_bytes(field.value).expect("a value is one");
            fields.append(name, value);
        }
        Some((glance.status, fields))
    };
    let asking = async {
        let at_once = std::future::poll_fn(|cx| underway.poll_whole(cx, told)).await;
        if let Some(((status, fields), body)) = at_once {
            let nothing: Option<HeaderMap> = None;
            return Some((format!("{status} {fields:?} {body:?} {nothing:?}"), true));
        }
        let request = Request::builder().uri("/").header("host", "a");
        let body = Empty::<Bytes>::new().map_err(|never: Infallible| match never {});
        let asked = underway.take_up(request.body(body).ok()?, |_, _| ()).await;
        let (response, home) = asked.ok()?;
        read_to_end(response, home).await
    };
    at_once(asking, &read)
}

/// What an answer says, read to its end, and whether its connection comes back.
async fn read_to_end(
    response: Response<AnswerBody<Server>>,
    home: Return<Server>,
) -> Option<(String, bool)> {
    let (head, body) = response.into_parts();
    let body = body.collect().await.ok()?;
    let trailers = body.trailers().cloned();
    let said = format!("{} {:?} {:?} {trailers:?}", head.status, head.headers, body.to_bytes());
    Some((said, home.take().is_some()))
}

fn at_once(
    asking: impl Future<Output = Option<(String, bool)>>,
    read: &AtomicUsize,
) -> Option<Answered> {
    // The server never keeps anybody waiting.
    match pin!(asking).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done.map(|(said, is_back)| Answered {
            said,
            is_back,
            read: read.load(Ordering::Relaxed),
        }),
        Poll::Pending => unreachable!("nothing to wait for"),
    }
}

/// Says so many bytes at once, takes whatever it is asked, and then ends.
struct Server {
    rest: Vec<u8>,
    cut: usize,
    read: Arc<AtomicUsize>,
}

impl AsyncRead for Server {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let part = self.cut.min(buffer.remaining()).min(self.rest.len());
        let part: Vec<u8> = self.rest.drain(..part).collect();
        buffer.put_slice(&part);
        self.read.fetch_add(part.len(), Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Server {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
