//! Connections over real sockets, with a service that says what its requests ask it to say.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Context;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use nightwatt_http1::{
    BodyError, Head, Incoming, Limits, OnSent, Prepared, Progress, Quick, Refusal, Service,
    head_bytes, serve,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What was seen, for the tests to look at.
#[derive(Default)]
struct Observed {
    quick: AtomicUsize,
    bodies: Mutex<Vec<Vec<u8>>>,
    sent: Mutex<Vec<u64>>,
    refused: Mutex<Vec<Refusal>>,
    asked: AtomicUsize,
    slow: AtomicUsize,
    left: AtomicUsize,
}

/// `/quick/N` is answered at once with N bytes, `/asked/N` after a while with as many; `/asked/long` then
/// takes the slow path, `/asked/never` waits for ever. Anything else echoes its body. `/deaf` does not read
/// it; `/never` does not answer.
struct Echo(Arc<Observed>, Mono);

/// A request that waits for an upstream, with the number of polls until its answer comes.
#[derive(Debug)]
struct PendingEcho {
    target: String,
    rounds: usize,
}

fn prepared(length: usize, byte: u8) -> Prepared {
    let head = head_bytes(StatusCode::OK, &http::HeaderMap::new(), length as u64);
    Prepared { head, body: vec![byte; length].into() }
}

type Body = BoxBody<Bytes, BodyError>;

fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed()
}

impl Service for Echo {
    type Body = Body;
    type Answering = std::pin::Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

    type Pending = PendingEcho;

    fn quick(&mut self, head: &Head<'_, '_>) -> Quick<PendingEcho> {
        if let Some(asked) = head.target.strip_prefix("/asked/") {
            self.0.asked.fetch_add(1, Ordering::Relaxed);
            let rounds = if asked == "never" { usize::MAX } else { 3 };
            return Quick::Pending(PendingEcho { target: asked.to_owned(), rounds });
        }
        let length = head.target.strip_prefix("/quick/").and_then(|it| it.parse().ok());
        let Some(length) = length else { return Quick::No };
        self.0.quick.fetch_add(1, Ordering::Relaxed);
        Quick::Ready(prepared(length, b'q'))
    }

    fn poll_pending(
        &mut self,
        mut asked: PendingEcho,
        cx: &mut Context<'_>,
    ) -> Progress<PendingEcho> {
        if asked.rounds > 0 {
            if asked.rounds < usize::MAX {
                asked.rounds -= 1;
                cx.waker().wake_by_ref();
            }
            return Progress::Waits(asked);
        }
        match asked.target.parse() {
            Ok(length) => Progress::Ready(prepared(length, b'a')),
            Err(_) => Progress::SlowPath(asked),
        }
    }

    fn deadline(&self, asked: &PendingEcho) -> Mono {
        // So much that is waited for on a clock that began with the test.
        if asked.target == "never" { self.1 } else { Mono::NEVER }
    }

    fn arrived_at(&self, _: &PendingEcho) -> Mono {
        Mono::ZERO
    }

    fn resume(&mut self, _: Request<Incoming>, asked: PendingEcho) -> Self::Answering {
        Box::pin(async move { Response::new(full(format!("{} at last", asked.target))) })
    }

    fn client_left(&mut self, head: &Head<'_, '_>, asked: PendingEcho) {
        assert!(head.target.ends_with(&asked.target));
        self.0.left.fetch_add(1, Ordering::Relaxed);
    }

    fn sent(&mut self, _: &Head<'_, '_>, prepared: &Prepared) {
        self.0.sent.lock().unwrap().push(prepared.body.len() as u64);
    }

    fn sending(&mut self, _: &Head<'_, '_>, _: &Prepared) -> OnSent {
        let seen = Arc::clone(&self.0);
        Box::new(move |bytes| seen.sent.lock().unwrap().push(bytes))
    }

    fn answer(&mut self, request: Request<Incoming>) -> Self::Answering {
        let seen = Arc::clone(&self.0);
        seen.slow.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            match request.uri().path() {
                "/never" => std::future::pending().await,
                "/deaf" => return Response::new(full("deaf")),
                "/deaf/5000000" => return Response::new(full(vec![b'd'; 5_000_000])),
                _ => {}
            }
            match request.into_body().collect().await {
                Ok(body) => {
                    let body = body.to_bytes();
                    seen.bodies.lock().unwrap().push(body.to_vec());
                    Response::new(full(body))
                }
                Err(error) => {
                    let mut response = Response::new(full(error.to_string()));
                    *response.status_mut() = StatusCode::BAD_REQUEST;
                    response
                }
            }
        })
    }

    fn refused(&mut self, refusal: Refusal, _: &[u8]) -> Response<Body> {
        self.0.refused.lock().unwrap().push(refusal);
        let mut response = Response::new(full(refusal.text()));
        *response.status_mut() = refusal.status();
        response
    }
}

const LONG: Duration = Duration::from_mins(10);

fn long_timeouts() -> Limits {
    Limits {
        head_bytes: 4096,
        fields: 16,
        head_timeout: LONG,
        idle_timeout: LONG,
        body_timeout: LONG,
        send_timeout: LONG,
        half_closed: Duration::ZERO,
    }
}

/// A connection to a service with these limits, and its end.
struct House {
    client: TcpStream,
    seen: Arc<Observed>,
    stop: watch::Sender<bool>,
    served: tokio::task::JoinHandle<()>,
}

fn play(limits: Limits, story: impl AsyncFnOnce(House)) {
    play_until(limits, |_| Mono::NEVER, story);
}

/// `deadline`: until when the answer that never comes is waited for, by the time at the start.
fn play_until(limits: Limits, deadline: fn(Mono) -> Mono, story: impl AsyncFnOnce(House)) {
    let clock = Clock::real();
    let deadline = deadline(clock.now().mono);
    clock.runtime().unwrap().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let seen = Arc::new(Observed::default());
        let (stop, stopped) = watch::channel(false);
        let service = Echo(Arc::clone(&seen), deadline);
        let serving =
            serve(stream, BytesMut::new(), service, Arc::new(limits), clock.clone(), stopped);
        let served = tokio::spawn(serving);
        // Nothing here rests on this time: it is what a hang costs.
        let house = House { client, seen, stop, served };
        clock.timeout(Duration::from_mins(2), story(house)).await.expect("it hangs");
    });
}

impl House {
    async fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.client.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads until what came ends so.
    async fn until(&mut self, end: &str) -> String {
        let mut bytes = Vec::new();
        while !bytes.ends_with(end.as_bytes()) {
            let count = self.client.read_buf(&mut bytes).await.unwrap();
            assert!(count > 0, "closed after {:?}", String::from_utf8_lossy(&bytes));
        }
        String::from_utf8(bytes).unwrap()
    }

    /// Reads to the end of the connection.
    async fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        let _ = self.client.read_to_end(&mut bytes).await;
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// The bodies of answers that say how long they are.
fn bodies(answers: &str) -> Vec<&str> {
    let each = answers.split("HTTP/1.1 200 OK\r\n").skip(1);
    each.map(|it| it.split("\r\n\r\n").nth(1).unwrap()).collect()
}

#[test]
fn both_ways_share_a_connection_in_order() {
    play(long_timeouts(), async |mut house| {
        house
            .say(
                "GET /quick/3 HTTP/1.1\r\n\r\nPOST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nab\
                 GET /quick/1 HTTP/1.1\r\n\r\nPOST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
                 1\r\nc\r\n0\r\n\r\nGET /last HTTP/1.1\r\nConnection: close\r\n\r\n",
            )
            .await;
        let seen = house.rest().await;
        assert_eq!(bodies(&seen), ["qqq", "ab", "q", "c", ""], "{seen}");
    });
}

#[test]
fn what_somebody_else_is_asked_for_keeps_its_place_in_the_line() {
    play(long_timeouts(), async |mut house| {
        house
            .say(
                "GET /quick/2 HTTP/1.1\r\n\r\nGET /asked/3 HTTP/1.1\r\n\r\nGET /asked/1 HTTP/1.1\r\n\r\n\
                 POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nbc\
                 GET /asked/long HTTP/1.1\r\n\r\nGET /quick/1 HTTP/1.1\r\n\r\nGET /asked/0 HTTP/1.1\r\n\r\n\
                 GET /last HTTP/1.1\r\nConnection: close\r\n\r\n",
            )
            .await;
        let seen = house.rest().await;
        assert_eq!(bodies(&seen), ["qq", "aaa", "a", "bc", "long at last", "q", "", ""], "{seen}");
        assert_eq!(*house.seen.sent.lock().unwrap(), [2, 3, 1, 1, 0]);
    });
}

#[test]
fn a_large_answer_of_somebody_else_reaches_a_slow_client_whole() {
    play(long_timeouts(), async |mut house| {
        house.say("GET /asked/5000000 HTTP/1.1\r\n\r\nGET /last HTTP/1.1\r\nConnection: close\r\n\r\n").await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let seen = house.rest().await;
        assert_eq!(
            seen.split("\r\n\r\n").nth(1).unwrap().bytes().filter(|it| *it == b'a').count(),
            5_000_000
        );
        assert_eq!(*house.seen.sent.lock().unwrap(), [5_000_000]);
    });
}

#[test]
fn who_leaves_while_somebody_else_is_asked_is_noticed() {
    play(long_timeouts(), async |mut house| {
        // What is said meanwhile is no reason to go on waiting for ever.
        house.say("GET /asked/never HTTP/1.1\r\n\r\nGET /quick/1 HTTP/1.1\r\n\r\n").await;
        drop(house.client);
        house.served.await.unwrap();
        assert_eq!(house.seen.left.load(Ordering::Relaxed), 1);
        assert_eq!(house.seen.quick.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn who_is_asked_in_vain_or_while_the_listener_stops_is_left_to_the_long_way() {
    let soon = |start: Mono| start + Duration::from_millis(30);
    play_until(long_timeouts(), soon, async |mut house| {
        house.say("GET /asked/never HTTP/1.1\r\n\r\n").await;
        let answer = house.until("never at last").await;
        assert!(!answer.contains("connection: close"), "{answer}");
        assert_eq!(house.seen.left.load(Ordering::Relaxed), 0);
    });
    play(long_timeouts(), async |mut house| {
        house.say("GET /asked/never HTTP/1.1\r\n\r\n").await;
        while house.seen.asked.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        house.stop.send_replace(true);
        let answer = house.rest().await;
        assert!(answer.ends_with("never at last"), "{answer}");
        assert!(answer.contains("connection: close\r\n"), "{answer}");
    });
}

#[test]
fn bytes_may_come_one_by_one() {
    play(long_timeouts(), async |mut house| {
        let bytes =
            b"GET /quick/3 HTTP/1.1\r\nA: b\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab";
        for byte in bytes {
            house.say([*byte]).await;
            tokio::task::yield_now().await;
        }
        house.until("qqq").await;
        house.until("\r\n\r\nab").await;
        assert_eq!(house.seen.quick.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_large_answer_reaches_a_slow_client_whole() {
    play(long_timeouts(), async |mut house| {
        house.say("GET /quick/5000000 HTTP/1.1\r\n\r\nGET /last HTTP/1.1\r\nConnection: close\r\n\r\n").await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let seen = house.rest().await;
        assert_eq!(seen.bytes().filter(|byte| *byte == b'q').count(), 5_000_000);
        assert_eq!(*house.seen.sent.lock().unwrap(), [5_000_000]);
    });
}

#[test]
fn the_books_say_what_a_client_that_left_has_taken() {
    play(long_timeouts(), async |mut house| {
        house.say("GET /quick/50000000 HTTP/1.1\r\n\r\n").await;
        let mut some = [0; 1000];
        house.client.read_exact(&mut some).await.unwrap();
        drop(house.client);
        house.served.await.unwrap();
        let sent = house.seen.sent.lock().unwrap().clone();
        assert!(sent.len() == 1 && sent[0] < 50_000_000, "{sent:?}");
    });
}

#[test]
fn a_body_that_nobody_reads_does_not_destroy_the_answer() {
    play(long_timeouts(), async |mut house| {
        house.say("POST /deaf HTTP/1.1\r\nContent-Length: 3000000\r\n\r\n").await;
        let body = vec![b'x'; 3_000_000];
        // All of it is sent although the answer came long ago.
        house.client.write_all(&body).await.unwrap();
        let seen = house.rest().await;
        assert!(seen.starts_with("HTTP/1.1 200 OK\r\n") && seen.ends_with("deaf"), "{seen}");
        assert!(seen.contains("connection: close\r\n"), "{seen}");
    });
}

#[test]
fn a_bad_body_is_told_to_whoever_reads_it_and_ends_the_connection() {
    for (body, says) in [
        ("5\r\nhello\r\nX\r\n\r\n", "A chunk's size is not well-formed."),
        ("2\r\nabc\r\n0\r\n\r\n", "A chunk is not as long as it says."),
    ] {
        play(long_timeouts(), async |mut house| {
            let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
            house.say(format!("{head}{body}GET /quick/1 HTTP/1.1\r\n\r\n")).await;
            let seen = house.rest().await;
            assert!(seen.starts_with("HTTP/1.1 400 ") && seen.ends_with(says), "{seen}");
            assert_eq!(house.seen.quick.load(Ordering::Relaxed), 0, "what follows is no request");
        });
    }
}

#[test]
fn who_leaves_is_noticed_while_the_answer_is_awaited() {
    play(long_timeouts(), async |mut house| {
        house.say("GET /never HTTP/1.1\r\n\r\n").await;
        drop(house.client);
        house.served.await.unwrap();
    });
}

#[test]
fn who_only_has_nothing_more_to_ask_gets_the_answer() {
    let half_closed = Limits { half_closed: LONG, ..long_timeouts() };
    for (asked, answer) in [
        ("GET /quick/2 HTTP/1.1\r\n\r\n", "qq"),
        ("GET /asked/3 HTTP/1.1\r\n\r\n", "aaa"),
        ("GET /asked/long HTTP/1.1\r\n\r\n", "long at last"),
        ("POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab", "ab"),
    ] {
        play(half_closed, async |mut house| {
            house.say(asked).await;
            house.client.shutdown().await.unwrap();
            let seen = house.rest().await;
            assert_eq!(bodies(&seen), [answer], "{seen}");
            house.served.await.unwrap();
            assert_eq!(house.seen.left.load(Ordering::Relaxed), 0);
        });
    }
}

#[test]
fn a_client_that_sends_all_before_it_reads_gets_a_large_refusal_too() {
    play(long_timeouts(), async |mut house| {
        house.say("POST /deaf/5000000 HTTP/1.1\r\nContent-Length: 30000000\r\n\r\n").await;
        house.client.write_all(&vec![b'x'; 30_000_000]).await.unwrap();
        let seen = house.rest().await;
        assert_eq!(seen.bytes().filter(|it| *it == b'd').count(), 5_000_000);
    });
}

#[test]
fn each_phase_has_its_time() {
    let short = Duration::from_millis(30);
    // The head, from the start of the connection; then a body; then between two requests.
    play(Limits { head_timeout: short, ..long_timeouts() }, async |mut house| {
        assert_eq!(house.rest().await, "", "nothing was begun: there is nothing to say");
    });
    play(Limits { head_timeout: short, ..long_timeouts() }, async |mut house| {
        house.say("GET /quick/1 HTTP/1.1\r\nA").await;
        assert!(house.rest().await.starts_with("HTTP/1.1 408 "));
        assert_eq!(*house.seen.refused.lock().unwrap(), [Refusal::TimedOut]);
    });
    play(Limits { body_timeout: short, ..long_timeouts() }, async |mut house| {
        house.say("POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nhello").await;
        let seen = house.rest().await;
        assert!(seen.ends_with("The request did not come in time."), "{seen}");
    });
    play(Limits { idle_timeout: short, ..long_timeouts() }, async |mut house| {
        house.say("GET /quick/1 HTTP/1.1\r\n\r\n").await;
        assert!(house.rest().await.ends_with('q'));
        assert_eq!(*house.seen.refused.lock().unwrap(), []);
    });
    play(Limits { send_timeout: short, ..long_timeouts() }, async |mut house| {
        house.say("GET /quick/50000000 HTTP/1.1\r\n\r\n").await;
        // It takes nothing.
        house.served.await.unwrap();
        assert!(house.seen.sent.lock().unwrap()[0] < 50_000_000);
    });
}

#[test]
fn a_head_that_comes_drop_by_drop_has_no_more_time() {
    play(
        Limits { head_timeout: Duration::from_millis(200), ..long_timeouts() },
        async |mut house| {
            house.say("GET /quick/1 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nA: ").await;
            house.until("q").await;
            let clock = Clock::real();
            // As often as it likes: it never comes to an end, yet something always comes.
            while house.client.write_all(b"a").await.is_ok()
                && house.seen.refused.lock().unwrap().is_empty()
            {
                clock.sleep(Duration::from_millis(5)).await;
            }
            assert_eq!(*house.seen.refused.lock().unwrap(), [Refusal::TimedOut]);
        },
    );
}

#[test]
fn stopping_ends_idle_connections_and_lets_exchanges_end() {
    play(long_timeouts(), async |mut house| {
        house.say("GET /quick/1 HTTP/1.1\r\n\r\n").await;
        house.until("q").await;
        house.stop.send_replace(true);
        assert_eq!(house.rest().await, "");
    });
    play(long_timeouts(), async |mut house| {
        house.say("POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\na").await;
        while house.seen.slow.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        house.stop.send_replace(true);
        house.say("b").await;
        let seen = house.rest().await;
        assert!(seen.ends_with("\r\n\r\nab") && seen.contains("connection: close"), "{seen}");
    });
}

#[test]
fn http_1_0_gets_what_it_can_read() {
    play(long_timeouts(), async |mut house| {
        house.say("POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nab").await;
        let seen = house.rest().await;
        assert!(seen.starts_with("HTTP/1.1 200 OK\r\n") && seen.contains("connection: close"));
    });
    play(long_timeouts(), async |mut house| {
        let head = "POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n";
        house.say(format!("{head}ab{head}cd")).await;
        let seen = house.until("cd").await;
        assert_eq!(seen.matches("connection: keep-alive\r\n").count(), 2, "{seen}");
    });
}
