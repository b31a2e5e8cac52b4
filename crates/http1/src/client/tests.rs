use std::time::Duration;

use http::{Method, Version};
use http_body_util::channel::Channel;
use http_body_util::{BodyExt, Empty, Full};
use nightwatt_clock::Clock;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

type NoBody =
    http_body_util::combinators::MapErr<Empty<Bytes>, fn(std::convert::Infallible) -> BodyError>;

fn nothing() -> NoBody {
    Empty::new().map_err(|never| match never {})
}

/// What would wait for ever fails.
fn play<T>(story: impl Future<Output = T>) -> T {
    let clock = Clock::real();
    let within = clock.timeout(Duration::from_mins(1), story);
    clock.runtime().unwrap().block_on(within).expect("it stood still")
}

fn request<B>(method: Method, fields: &[(&'static str, &str)], body: B) -> Request<B> {
    let mut request = Request::builder().method(method).uri("/a?b").version(Version::HTTP_11);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(body).unwrap()
}

fn get() -> Request<NoBody> {
    request(Method::GET, &[("host", "a")], nothing())
}

fn connected() -> (Connection<DuplexStream>, DuplexStream) {
    let (ours, servers) = duplex(64 << 10);
    (Connection::new(ours), servers)
}

fn ignored(_: StatusCode, _: HeaderMap) {}

/// Reads a request up to the end of its head.
async fn heard(server: &mut DuplexStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        bytes.push(server.read_u8().await.unwrap());
    }
    String::from_utf8(bytes).unwrap()
}

type Read = (Bytes, Option<HeaderMap>);

async fn whole<T: AsyncRead + AsyncWrite + Unpin>(answer: AnswerBody<T>) -> Read {
    let collected = answer.collect().await.unwrap();
    let trailers = collected.trailers().cloned();
    (collected.to_bytes(), trailers)
}

#[test]
fn requests_go_out_as_they_are_and_the_connection_comes_back() {
    play(async {
        let (mut connection, mut server) = connected();
        for (said, body) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello"),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
                "hello",
            ),
            ("HTTP/1.1 204 No Content\r\n\r\n", ""),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", ""),
        ] {
            assert!(!connection.is_over());
            let asking = connection.ask(get(), ignored);
            let serving = async {
                assert_eq!(heard(&mut server).await, "GET /a?b HTTP/1.1\r\nhost: a\r\n\r\n");
                server.write_all(said.as_bytes()).await.unwrap();
            };
            let (asked, ()) = tokio::join!(asking, serving);
            let (response, home) = asked.unwrap();
            assert_eq!(whole(response.into_body()).await.0, body);
            connection = home.take().expect("it can serve again");
        }
        drop(server);
        assert!(connection.is_over());
    });
}

#[test]
fn a_connection_that_cannot_serve_again_does_not_come_back() {
    play(async {
        for (said, is_error) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi", false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", false),
            // The answer to another request may follow.
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi HTTP/1.1 200 OK\r\n\r\n", false),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
                false,
            ),
            ("HTTP/1.1 200 OK\r\n\r\nhi", false),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", true),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", true),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi!\r\n0\r\n\r\n", true),
        ] {
            let (connection, mut server) = connected();
            server.write_all(said.as_bytes()).await.unwrap();
            server.shutdown().await.unwrap();
            let (response, home) = connection.ask(get(), ignored).await.unwrap();
            let collected = response.into_body().collect().await;
            assert_eq!(collected.is_err(), is_error, "{said:?}");
            if let Ok(collected) = collected {
                assert_eq!(collected.to_bytes(), "hi", "{said:?}");
            }
            assert!(home.take().is_none(), "{said:?}");
        }
    });
}

#[test]
fn an_answer_that_is_not_read_whole_keeps_its_connection() {
    play(async {
        let (connection, mut server) = connected();
        server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel").await.unwrap();
        let (response, home) = connection.ask(get(), ignored).await.unwrap();
        let mut body = response.into_body();
        assert_eq!(http_body::Body::size_hint(&body).exact(), Some(5));
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "hel");
        drop(body);
        assert!(home.take().is_none());
        assert_eq!(server.write(b"lo").await.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    });
}

#[test]
fn what_was_not_sent_comes_back() {
    play(async {
        let (connection, server) = connected();
        drop(server);
        let failure = connection
            .ask(
                request(
                    Method::POST,
                    &[("content-length", "2")],
                    Full::from("hi").map_err(|never| match never {}),
                ),
                ignored,
            )
            .await
            .unwrap_err();
        let body = failure.unsent.expect("nothing was sent").into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), "hi");
        // What was sent may have been acted upon.
        let (connection, mut server) = connected();
        let serving = async {
            heard(&mut server).await;
            drop(server);
        };
        let (asked, ()) = tokio::join!(connection.ask(get(), ignored), serving);
        let failure = asked.unwrap_err();
        assert!(failure.unsent.is_none());
        assert!(matches!(failure.error, ClientError::Closed), "{:?}", failure.error);
    });
}

#[test]
fn interim_answers_go_ahead_but_not_for_ever() {
    play(async {
        let (connection, mut server) = connected();
        let mut seen = Vec::new();
        let said = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        server.write_all(said.as_bytes()).await.unwrap();
        let note =
            |status: StatusCode, headers: HeaderMap| seen.push((status.as_u16(), headers.len()));
        let (response, home) = connection.ask(get(), note).await.unwrap();
        assert_eq!((response.status(), home.take().is_some()), (StatusCode::OK, true));
        assert_eq!(seen, [(100, 0), (103, 1)]);
        let (connection, mut server) = connected();
        let flood = "HTTP/1.1 102 Processing\r\n\r\n".repeat(MOST_INTERIM + 1);
        server.write_all(flood.as_bytes()).await.unwrap();
        let failure = connection.ask(get(), ignored).await.unwrap_err();
        assert!(matches!(failure.error, ClientError::Bad(_)), "{:?}", failure.error);
    });
}

#[test]
fn another_protocol_begins_where_the_answer_ends() {
    play(async {
        let (connection, mut server) = connected();
        server
            .write_all(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\nfirst")
            .await
            .unwrap();
        let (response, home) = connection.ask(get(), ignored).await.unwrap();
        assert!(home.take().is_none());
        let (mut stream, ahead) = response.into_body().into_stream().unwrap();
        assert_eq!(ahead, "first");
        stream.write_all(b"second").await.unwrap();
        heard(&mut server).await;
        let mut heard = [0; 6];
        server.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"second");
    });
}

#[test]
fn of_trailers_those_go_that_were_announced() {
    play(async {
        let (connection, mut server) = connected();
        let (mut says, body) = Channel::<Bytes, BodyError>::new(8);
        says.send_data(Bytes::from("hi")).await.unwrap();
        let trailers = [("x-sum", "9"), ("x-other", "1"), ("x-sum", "10")];
        let mut fields = HeaderMap::new();
        for (name, value) in trailers {
            fields.append(name, value.parse().unwrap());
        }
        says.send_trailers(fields).await.unwrap();
        drop(says);
        let fields = [("transfer-encoding", "chunked"), ("trailer", "X-Sum, x-never")];
        let asking = connection.ask(request(Method::PUT, &fields, body), ignored);
        let serving = async {
            heard(&mut server).await;
            let expected = b"2\r\nhi\r\n0\r\nx-sum: 9\r\nx-sum: 10\r\n\r\n";
            let mut sent = vec![0; expected.len()];
            server.read_exact(&mut sent).await.unwrap();
            assert_eq!(sent, expected);
            let said =
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nx-end: 1\r\n\r\n";
            server.write_all(said).await.unwrap();
        };
        let (asked, ()) = tokio::join!(asking, serving);
        let (response, home) = asked.unwrap();
        let (body, trailers) = whole(response.into_body()).await;
        assert_eq!((&body[..], &trailers.unwrap()["x-end"]), (&b""[..], &"1".parse().unwrap()));
        assert!(home.take().is_some());
    });
}

#[test]
fn a_body_that_is_not_as_long_as_the_request_says_is_not_sent_as_if_it_were() {
    play(async {
        for (length, body) in [("5", "hi"), ("1", "hi")] {
            let (connection, mut server) = connected();
            let body = Full::from(body).map_err(|never| match never {});
            let asked = connection
                .ask(request(Method::POST, &[("content-length", length)], body), ignored)
                .await;
            assert!(matches!(asked.unwrap_err().error, ClientError::Body(_)));
            heard(&mut server).await;
            let mut rest = Vec::new();
            server.read_to_end(&mut rest).await.unwrap();
            assert!(rest.len() < length.parse().unwrap(), "{rest:?}");
        }
    });
}

/// A server that echoes, through a small buffer: a client that sends all of the request before it reads, or
/// the other way round, waits for ever.
#[test]
fn an_answer_is_read_while_the_request_is_still_being_sent() {
    play(async {
        let (ours, server) = duplex(1 << 10);
        let (mut says, body) = Channel::<Bytes, BodyError>::new(1);
        let sent: Vec<u8> = (0..200_000_u32).map(|it| it as u8).collect();
        let echoing = async {
            let (mut from, mut to) = tokio::io::split(server);
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(from.read_u8().await.unwrap());
            }
            to.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n").await.unwrap();
            tokio::io::copy(&mut from.take(200_000), &mut to).await.unwrap();
        };
        let saying = async {
            for part in sent.chunks(7_000) {
                says.send_data(Bytes::copy_from_slice(part)).await.unwrap();
            }
        };
        let asking = async {
            let asked = Connection::new(ours)
                .ask(request(Method::POST, &[("content-length", "200000")], body), ignored)
                .await;
            let (response, home) = asked.unwrap();
            // While the client doesn't read, the rest of the request is still sent as far as the server takes
            // it.
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
            let (body, _) = whole(response.into_body()).await;
            (body, home.take().is_some())
        };
        let ((), (), (body, is_back)) = tokio::join!(echoing, saying, asking);
        assert!(body == sent, "{} of {} bytes", body.len(), sent.len());
        assert!(!is_back, "it was answered before all was sent");
    });
}

/// A stream that takes the head of a request and then fails, with an answer that is seen a moment later: so it is
/// when a server answers, and closes while the request still comes.
struct Refusing {
    written: usize,
    looked: bool,
    says: Bytes,
}

impl AsyncWrite for Refusing {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        if self.written > 0 {
            return Poll::Ready(Err(std::io::ErrorKind::BrokenPipe.into()));
        }
        self.written = bytes.len();
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Refusing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        read: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if !std::mem::replace(&mut self.looked, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let says = std::mem::take(&mut self.says);
        read.put_slice(&says);
        Poll::Ready(Ok(()))
    }
}

#[test]
fn a_server_that_answers_and_closes_during_an_upload_is_heard() {
    for (says, heard) in [
        ("HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno", Some(413)),
        ("", None),
    ] {
        play(async {
            let stream = Refusing { written: 0, looked: false, says: Bytes::from(says) };
            let (kept, body) = Channel::<Bytes, BodyError>::new(8);
            let fields = [("transfer-encoding", "chunked")];
            let mut body = Some(body);
            let sent = request(Method::POST, &fields, body.take().unwrap());
            let saying = async {
                let mut kept = kept;
                for _ in 0..8 {
                    if kept.send_data(Bytes::from_static(b"part")).await.is_err() {
                        return;
                    }
                }
            };
            let (asked, ()) = tokio::join!(Connection::new(stream).ask(sent, ignored), saying);
            match (asked, heard) {
                (Ok((response, home)), Some(status)) => {
                    assert_eq!(response.status().as_u16(), status);
                    assert_eq!(whole(response.into_body()).await.0, "no");
                    assert!(home.take().is_none());
                }
                (Err(Unanswered { error: ClientError::Io(_), unsent: None }), None) => {}
                (other, _) => panic!("{:?}", other.map(|_| ())),
            }
        });
    }
}

/// A body that says when it is dropped.
#[derive(Debug)]
struct Flag(Arc<std::sync::atomic::AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

impl http_body::Body for Flag {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, BodyError>>> {
        Poll::Pending
    }
}

#[test]
fn the_rest_of_a_request_is_not_kept_beyond_its_answer() {
    play(async {
        let (connection, mut server) = connected();
        let is_dropped = Arc::new(std::sync::atomic::AtomicBool::new(false));
        server.write_all(b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno").await.unwrap();
        let sent = request(Method::POST, &[("content-length", "5")], Flag(Arc::clone(&is_dropped)));
        let (response, _) = connection.ask(sent, ignored).await.unwrap();
        assert_eq!(whole(response.into_body()).await.0, "no");
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(is_dropped.load(std::sync::atomic::Ordering::Relaxed), "the server is still there");
    });
}

#[test]
fn another_protocol_begins_when_the_request_has_gone_whole() {
    play(async {
        let (connection, mut server) = connected();
        let (mut says, body) = Channel::<Bytes, BodyError>::new(8);
        let sent =
            request(Method::POST, &[("transfer-encoding", "chunked"), ("upgrade", "tcp")], body);
        let talking = async {
            heard(&mut server).await;
            server.write_all(b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\nfirst").await.unwrap();
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            says.send_data(Bytes::from("{}")).await.unwrap();
            drop(says);
            let mut rest = [0; 12];
            server.read_exact(&mut rest).await.unwrap();
            assert_eq!(&rest, b"2\r\n{}\r\n0\r\n\r\n");
        };
        let (asked, ()) = tokio::join!(connection.ask(sent, ignored), talking);
        let (_, ahead) = asked.unwrap().0.into_body().into_stream().expect("a tunnel");
        assert_eq!(ahead, "first");
    });
}

const ASKED: &str = "GET /a?b HTTP/1.1\r\nhost: a\r\n\r\n";

/// Status and length as the fast path sees them, and the body.
async fn at_once<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    underway: &mut Underway<T>,
) -> Option<((u16, usize), Bytes)> {
    let read = |glance: &PlainResponse<'_, '_>| Some((glance.status.as_u16(), glance.length));
    std::future::poll_fn(|cx| underway.poll_whole(cx, read)).await
}

#[test]
fn a_plain_answer_that_is_there_is_taken_as_it_came() {
    play(async {
        let (mut connection, mut server) = connected();
        for (said, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", (200, "hello")),
            ("HTTP/1.1 404 No\nConnection: Keep-Alive\ncontent-length: 2\n\nno", (404, "no")),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", (200, "")),
        ] {
            let mut underway = Underway::new(connection, Bytes::from(ASKED));
            let serving = async {
                assert_eq!(heard(&mut server).await, ASKED);
                server.write_all(said.as_bytes()).await.unwrap();
            };
            let (answer, ()) = tokio::join!(at_once(&mut underway), serving);
            let (glance, body) = answer.expect("it is plain, and whole");
            assert_eq!(
                (glance, &body[..]),
                ((expected.0, expected.1.len()), expected.1.as_bytes())
            );
            connection = underway.into_connection();
            assert!(!connection.is_over());
        }
    });
}

/// Whatever is not plain, or not wanted, is read as if it had been asked for by `ask`, and nothing is said twice.
#[test]
fn any_other_answer_is_taken_up_where_it_is() {
    play(async {
        for (said, body, is_back) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel|lo", "hello", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n|\r\nhi", "hi", true),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
                "hi",
                true,
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nhi", "hi", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi", "hi", true),
            (
                "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
                "hi",
                true,
            ),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n", "", true),
            ("HTTP/1.1 204 No Content\r\n\r\n", "", true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi", "hi", false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", "hi", false),
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi there", "hi", false),
            ("HTTP/1.1 200 OK\r\n\r\nhi|", "hi", false),
        ] {
            let (connection, mut server) = connected();
            let mut underway = Underway::new(connection, Bytes::from(ASKED));
            let (now, later) = said.split_once('|').unwrap_or((said, ""));
            let serving = async {
                assert_eq!(heard(&mut server).await, ASKED);
                server.write_all(now.as_bytes()).await.unwrap();
            };
            let (answer, ()) = tokio::join!(at_once(&mut underway), serving);
            assert!(answer.is_none(), "{said:?}");
            server.write_all(later.as_bytes()).await.unwrap();
            server.shutdown().await.unwrap();
            let (response, home) = underway.take_up(get(), ignored).await.unwrap();
            assert_eq!(whole(response.into_body()).await.0, body, "{said:?}");
            assert_eq!(home.take().is_some(), is_back, "{said:?}");
            let mut rest = Vec::new();
            server.read_to_end(&mut rest).await.unwrap();
            assert!(rest.is_empty(), "it was asked twice: {rest:?}");
        }
    });
}

#[test]
fn what_the_fast_path_could_not_send_may_be_sent_again() {
    play(async {
        let (connection, server) = connected();
        drop(server);
        let mut underway = Underway::new(connection, Bytes::from(ASKED));
        assert!(at_once(&mut underway).await.is_none());
        let failure = underway.take_up(get(), ignored).await.unwrap_err();
        assert!(failure.unsent.is_some(), "nothing was sent: {:?}", failure.error);
        // What was sent may have been acted upon.
        let (connection, mut server) = connected();
        let mut underway = Underway::new(connection, Bytes::from(ASKED));
        let serving = async {
            heard(&mut server).await;
            drop(server);
        };
        let (answer, ()) = tokio::join!(at_once(&mut underway), serving);
        assert!(answer.is_none());
        let failure = underway.take_up(get(), ignored).await.unwrap_err();
        assert!(failure.unsent.is_none());
        assert!(matches!(failure.error, ClientError::Closed), "{:?}", failure.error);
    });
}

proptest! {
    /// However an answer is cut on its way, the same comes of it.
    #[test]
    fn answers_are_read_whole_in_whatever_parts_they_come(
        body in proptest::collection::vec(any::<u8>(), 0..40_000),
        cuts in proptest::collection::vec(1_usize..20_000, 1..20),
        chunks in proptest::option::of(proptest::collection::vec(1_usize..9_000, 1..10)),
    ) {
        let mut said = b"HTTP/1.1 200 OK\r\n".to_vec();
        match &chunks {
            None => {
                said.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
                said.extend(&body);
            }
            Some(sizes) => {
                said.extend(b"Transfer-Encoding: chunked\r\n\r\n");
                let (mut rest, mut sizes) = (&body[..], sizes.iter().cycle());
                // On the first alone: all extensions of a body together have a bound.
                let mut extension = ";x=y";
                while !rest.is_empty() {
                    let (chunk, after) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
                    said.extend(format!("{:x}{extension}\r\n", chunk.len()).bytes());
                    said.extend(chunk);
                    said.extend(b"\r\n");
                    (rest, extension) = (after, "");
                }
                said.extend(b"0\r\n\r\n");
            }
        }
        let (got, is_back) = play(async {
            let (connection, mut server) = connected();
            let serving = async {
                let (mut rest, mut cuts) = (&said[..], cuts.iter().cycle());
                while !rest.is_empty() {
                    let (part, after) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                    server.write_all(part).await.unwrap();
                    tokio::task::yield_now().await;
                    rest = after;
                }
            };
            let reading = async {
                let (response, home) = connection.ask(get(), ignored).await.unwrap();
                let (body, _) = whole(response.into_body()).await;
                (body, home.take().is_some())
            };
            tokio::join!(reading, serving).0
        });
        prop_assert!(got == body);
        prop_assert!(is_back);
    }
}
