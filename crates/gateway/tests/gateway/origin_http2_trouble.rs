//! HTTP/2 to servers that break off, refuse, fall silent, leave or allow little: a server of the h2 crate that
//! does as the test says.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use nightwatt_gateway::config::OriginTls;
use nightwatt_gateway::control::Order;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::client::{Client, ask, get, post};
use crate::origin_tls::Made;
use crate::passthrough_programs::port;
use crate::stage::{Setup, Stage, awake, secs, watched};

/// A request that the server got.
struct Asked {
    /// Number of the connection, from 1.
    connection: usize,
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
}

impl Asked {
    async fn body(&mut self) -> (Vec<u8>, Option<HeaderMap>) {
        let body = self.request.body_mut();
        let mut bytes = Vec::new();
        while let Some(part) = body.data().await {
            let part = part.unwrap();
            body.flow_control().release_capacity(part.len()).unwrap();
            bytes.extend(part);
        }
        (bytes, body.trailers().await.unwrap())
    }

    /// 200, with more to come.
    fn begins(&mut self, part: &'static str) -> SendStream<Bytes> {
        let response = Response::builder().header("cache-control", "max-age=3600");
        let mut stream = self.respond.send_response(response.body(()).unwrap(), false).unwrap();
        stream.send_data(part.into(), false).unwrap();
        stream
    }

    /// 200 with this body.
    fn says(mut self, body: &'static str) {
        let mut stream = self.respond.send_response(Response::new(()), false).unwrap();
        stream.send_data(body.into(), true).unwrap();
    }
}

/// Serves every connection; what comes is told.
#[derive(Clone)]
struct Server {
    sender: UnboundedSender<Asked>,
    /// Requests that it allows at once on a connection.
    most: u32,
    open: Arc<AtomicUsize>,
    /// Has the first connection end in good order.
    leave: Arc<Notify>,
}

impl Server {
    async fn serve(self, listener: TcpListener, made: Made) {
        let acceptor = made.acceptor(None, &[b"h2"]);
        for number in 1.. {
            let Ok((stream, _)) = listener.accept().await else { return };
            let (server, acceptor) = (self.clone(), acceptor.clone());
            tokio::spawn(async move {
                let stream = acceptor.accept(stream).await.unwrap();
                let mut builder = h2::server::Builder::new();
                builder.max_concurrent_streams(server.most);
                let mut connection = builder.handshake(stream).await.unwrap();
                server.open.fetch_add(1, Ordering::Relaxed);
                loop {
                    tokio::select! {
                        asked = connection.accept() => {
                            let Some(Ok((request, respond))) = asked else { break };
                            let _ = server.sender.send(Asked { connection: number, request, respond });
                        }
                        () = server.leave.notified(), if number == 1 => connection.graceful_shutdown(),
                    }
                }
                server.open.fetch_sub(1, Ordering::Relaxed);
            });
        }
    }
}

/// What the test has in its hands.
struct Told {
    asked: UnboundedReceiver<Asked>,
    open: Arc<AtomicUsize>,
    leave: Arc<Notify>,
}

impl Told {
    /// The next request.
    async fn next(&mut self) -> Asked {
        watched("a request to the server", self.asked.recv()).await.unwrap()
    }
}

/// Plays with a server that allows so many requests at once on a connection.
fn play(setup: Setup, most: u32, story: impl AsyncFnOnce(&mut Stage, &mut Told)) {
    let Some(made) = Made::new("DNS:localhost", "10") else { return };
    let (listener, at) = port();
    let http2 = OriginTls { ca: Some(made.chain()), http2: true, ..OriginTls::default() };
    let setup = setup.real().site(move |site| {
        site.origin.by_tls = true;
        site.origin.authority = format!("localhost:{}", at.port());
        site.origin_tls = Some(http2);
    });
    setup.play(async |stage| {
        let (sender, asked) = unbounded_channel();
        let (open, leave) = (Arc::default(), Arc::default());
        let server = Server { sender, most, open: Arc::clone(&open), leave: Arc::clone(&leave) };
        let serving = tokio::spawn(server.serve(TcpListener::from_std(listener).unwrap(), made));
        story(stage, &mut Told { asked, open, leave }).await;
        serving.abort();
    });
}

#[test]
fn an_answer_that_is_broken_off_without_an_error_is_cut_and_not_kept() {
    play(awake(), 100, async |stage, told| {
        for _ in 0..2 {
            let mut client = stage.begin(get("/page")).await;
            let mut asked = told.next().await;
            let mut stream = asked.begins("half of it");
            assert_eq!(client.head().await.status, 200);
            assert!(!client.part().await.is_empty());
            stream.send_reset(Reason::NO_ERROR);
            while !client.part().await.is_empty() {}
        }
        let mut client = stage.begin(get("/page")).await;
        told.next().await.says("all of it");
        let got = client.answer().await;
        assert_eq!((got.how(), got.text()), ((200, "server"), "all of it"));
    });
}

#[test]
fn an_answer_that_comes_before_the_end_of_the_request_is_whole() {
    play(awake(), 100, async |stage, told| {
        let mut client = Client::connect(stage).await;
        client
            .say("POST /long HTTP/1.1\r\nHost: blog\r\nContent-Length: 1000000\r\n\r\nsome")
            .await;
        // The server takes no more of the request: h2 says so (`RST_STREAM`, `NO_ERROR`) behind the answer.
        told.next().await.says("not wanted");
        let got = client.answer().await;
        assert_eq!((got.how(), got.text()), ((200, "server"), "not wanted"));
    });
}

#[test]
fn an_answer_that_is_broken_off_while_the_request_is_under_way_is_cut() {
    play(awake(), 100, async |stage, told| {
        let mut client = Client::connect(stage).await;
        client
            .say("POST /long HTTP/1.1\r\nHost: blog\r\nContent-Length: 1000000\r\n\r\nsome")
            .await;
        let mut asked = told.next().await;
        let mut stream = asked.begins("half of it");
        assert_eq!(client.head().await.status, 200);
        let first = client.part().await;
        assert!(!first.is_empty());
        stream.send_reset(Reason::NO_ERROR);
        let mut rest = first;
        loop {
            let part = client.part().await;
            if part.is_empty() {
                break;
            }
            rest.extend(part);
        }
        // The last chunk, which says that all is there, did not come.
        assert!(!rest.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&rest));
    });
}

#[test]
fn requests_that_take_new_connections_do_not_pile_them_up() {
    play(awake(), 100, async |stage, told| {
        for number in 1..=3 {
            let mut client = stage.begin(post("/form", "")).await;
            let asked = told.next().await;
            assert_eq!(asked.connection, number, "the one before was not used just now");
            asked.says("done");
            assert_eq!(client.answer().await.status, 200);
            let one_is_left = || told.open.load(Ordering::Relaxed) == 1;
            watched("the end of the connection before", async {
                while !one_is_left() {
                    tokio::task::yield_now().await;
                }
            })
            .await;
            stage.pass(std::time::Duration::from_millis(1_100)).await;
        }
    });
}

#[test]
fn what_the_server_refused_is_asked_again_whatever_it_is() {
    play(awake(), 100, async |stage, told| {
        let mut client = stage.begin(post("/order", "")).await;
        told.next().await.respond.send_reset(Reason::REFUSED_STREAM);
        let again = told.next().await;
        assert_eq!(
            (again.request.method().as_str(), again.request.uri().path()),
            ("POST", "/order")
        );
        again.says("done");
        let got = client.answer().await;
        assert_eq!((got.how(), got.text()), ((200, "server"), "done"));

        // The gateway has passed the body on and no longer has it, but the client may send it again.
        let mut client = stage.begin(post("/form", "a=b")).await;
        let mut asked = told.next().await;
        assert_eq!(asked.body().await.0, b"a=b");
        asked.respond.send_reset(Reason::REFUSED_STREAM);
        let got = client.answer().await;
        assert_eq!((got.how(), got.field("retry-after")), ((503, "unavailable"), Some("1")));
        assert!(got.text().contains("not acted upon"), "{}", got.text());
    });
}

#[test]
fn what_broke_in_the_server_is_not_asked_again_unless_it_may_be() {
    play(awake(), 100, async |stage, told| {
        let mut client = stage.begin(post("/form", "a=b")).await;
        told.next().await.respond.send_reset(Reason::INTERNAL_ERROR);
        assert_eq!(client.answer().await.status, 502);
        let mut client = stage.begin(get("/page")).await;
        told.next().await.respond.send_reset(Reason::INTERNAL_ERROR);
        told.next().await.says("page");
        assert_eq!(client.answer().await.text(), "page");
    });
}

#[test]
fn a_connection_that_the_server_ends_finishes_what_is_under_way_and_gets_no_more() {
    play(awake(), 100, async |stage, told| {
        let mut slow = stage.begin(get("/slow")).await;
        let under_way = told.next().await;
        told.leave.notify_one();
        // It may have got another one before it was heard.
        for number in 0..1000 {
            let mut client = stage.begin(get(&format!("/{number}"))).await;
            let asked = told.next().await;
            let connection = asked.connection;
            asked.says("done");
            assert_eq!(client.answer().await.how(), (200, "server"));
            if connection > 1 {
                under_way.says("at last");
                assert_eq!(slow.answer().await.text(), "at last");
                return;
            }
        }
        panic!("the connection that ends is still used");
    });
}

#[test]
fn a_server_that_refuses_an_upload_is_heard_by_its_client() {
    play(awake(), 100, async |stage, told| {
        let mut client = Client::connect(stage).await;
        client.send(&ask("POST", "/up").field("Content-Length", "30000000")).await;
        let mut asked = told.next().await;
        let refusal = Response::builder().status(413).body(()).unwrap();
        let mut stream = asked.respond.send_response(refusal, false).unwrap();
        stream.send_data("too large".into(), true).unwrap();
        // The stream is reset, without an error (RFC 9113, 8.1).
        drop((asked, stream));
        client.say(vec![b'x'; 30_000_000]).await;
        let got = client.answer().await;
        assert_eq!((got.status, got.text()), (413, "too large"));
    });
}

#[test]
fn a_connection_on_which_nothing_came_in_time_gets_no_more() {
    let hasty = awake().with(|config| {
        // Long enough for a busy machine to make the second connection.
        config.limits.origin_timeout = secs(5);
    });
    play(hasty, 100, async |stage, told| {
        let mut client = stage.begin(get("/a")).await;
        let silent = told.next().await;
        assert_eq!(client.answer().await.status, 504);
        let mut client = stage.begin(get("/b")).await;
        let asked = told.next().await;
        assert_eq!((silent.connection, asked.connection), (1, 2));
        asked.says("b");
        assert_eq!(client.answer().await.text(), "b");
    });
}

#[test]
fn no_connection_gets_more_at_once_than_the_server_allows() {
    play(awake(), 3, async |stage, told| {
        let (mut connections, mut under_way) = (Vec::new(), Vec::new());
        for round in 0..2 {
            // Once it has answered, what it allows is known.
            let mut first = stage.begin(get(&format!("/first/{round}"))).await;
            let asked = told.next().await;
            connections.push(asked.connection);
            asked.says("first");
            assert_eq!(first.answer().await.status, 200);
            for number in 0..3 {
                let client = stage.begin(get(&format!("/more/{round}/{number}"))).await;
                let asked = told.next().await;
                connections.push(asked.connection);
                under_way.push((client, asked));
            }
        }
        assert_eq!(connections, [1, 1, 1, 1, 2, 2, 2, 2]);
        for (mut client, asked) in under_way {
            asked.says("more");
            assert_eq!(client.answer().await.status, 200);
        }
    });
}

#[test]
fn trailers_that_were_not_announced_are_not_passed_on() {
    play(awake(), 100, async |stage, told| {
        let mut client = Client::connect(stage).await;
        client.say("POST /form HTTP/1.1\r\nHost: blog\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum, Keep-Alive, Authorization\r\n\r\n").await;
        let trailers =
            "X-Sum: 7\r\nKeep-Alive: a\r\nAuthorization: b\r\nX-Forwarded-For: 10.0.0.1\r\n";
        client.say(format!("3\r\na=b\r\n0\r\n{trailers}\r\n")).await;
        let mut asked = told.next().await;
        let (body, trailers) = asked.body().await;
        let trailers = trailers.unwrap_or_default();
        assert_eq!(body, b"a=b");
        assert_eq!(trailers.keys().map(http::HeaderName::as_str).collect::<Vec<_>>(), ["x-sum"]);
        asked.says("done");
        assert_eq!(client.answer().await.text(), "done");
    });
}

#[test]
fn a_server_that_sleeps_has_no_connection() {
    play(awake(), 100, async |stage, told| {
        let mut client = stage.begin(get("/a")).await;
        told.next().await.says("a");
        assert_eq!(client.answer().await.text(), "a");
        assert_eq!(told.open.load(Ordering::Relaxed), 1);
        stage.order(Order::Sleep { site: None }).await;
        watched("the end of the connection", async {
            while told.open.load(Ordering::Relaxed) > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let mut client = stage.begin(get("/b")).await;
        let asked = told.next().await;
        assert_eq!(asked.connection, 2);
        asked.says("b");
        assert_eq!(client.answer().await.how(), (200, "held"));
    });
}
