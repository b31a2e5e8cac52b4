//! HTTP/2 to clients: curl, nghttp2 and h2spec, which others wrote, and hyper's client for what these do
//! not do.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::client::{BROWSER, another};
use crate::origin::{Act, Gate, ok};
use crate::origin_trouble::refuses;
use crate::passthrough_programs::{has, run, succeeded};
use crate::stage::{Setup, Stage, asleep, awake, secs, watched};
use crate::tls::{by_tls, certificate, curl};

pub(crate) type Body = http_body_util::combinators::BoxBody<Bytes, std::convert::Infallible>;
pub(crate) type Sender = SendRequest<Body>;

/// A body whose length is not known before its end, if it has one.
struct Frames {
    frames: VecDeque<Frame<Bytes>>,
    ends: bool,
}

impl hyper::body::Body for Frames {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.frames.pop_front() {
            None if !self.ends => Poll::Pending,
            frame => Poll::Ready(frame.map(Ok)),
        }
    }
}

/// How a client begins: the server's certificate that it believes, the name that it asks for, and the person
/// whose certificate and key it has, if any (`NAME.pem` and `NAME.key`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hello<'a> {
    pub(crate) chain: &'a Path,
    pub(crate) name: &'static str,
    pub(crate) person: Option<&'a Path>,
}

impl<'a> Hello<'a> {
    /// For `blog`, without a certificate of its own.
    pub(crate) fn new(chain: &'a Path) -> Self {
        Self { chain, name: "blog", person: None }
    }
}

/// A connection on which HTTP/2 was agreed.
pub(crate) async fn connection(stage: &Stage, chain: &Path) -> TlsStream<TcpStream> {
    connection_of(stage, Hello::new(chain)).await
}

/// The same of a client that begins so.
pub(crate) async fn connection_of(stage: &Stage, hello: Hello<'_>) -> TlsStream<TcpStream> {
    agreed(TcpStream::connect(stage.tls_address()).await.unwrap(), hello).await
}

/// The same of a client at 127.0.0.2, of which the proxy knows nothing yet.
pub(crate) async fn connection_of_another(stage: &Stage, chain: &Path) -> TlsStream<TcpStream> {
    agreed(another(stage.tls_address()).await, Hello::new(chain)).await
}

async fn agreed(stream: TcpStream, hello: Hello<'_>) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(hello.chain).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match hello.person {
        None => config.with_no_client_auth(),
        Some(person) => {
            let own = CertificateDer::from_pem_file(person.with_extension("pem")).unwrap();
            let key = PrivateKeyDer::from_pem_file(person.with_extension("key")).unwrap();
            config.with_client_auth_cert(vec![own], key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let name = hello.name.try_into().unwrap();
    watched("the handshake", connector.connect(name, stream)).await.unwrap()
}

/// The same that speaks it, by hyper; none of its windows is larger than this.
pub(crate) async fn connect(stage: &Stage, chain: &Path, window: u32) -> Sender {
    speaks(connection(stage, chain).await, window).await
}

/// Speaks HTTP/2 on a connection that there is.
pub(crate) async fn speaks(stream: TlsStream<TcpStream>, window: u32) -> Sender {
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window).initial_connection_window_size(window.max(65_535));
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn get(path: &str) -> http::request::Builder {
    Request::get(format!("https://blog{path}"))
}

fn nothing() -> Body {
    Full::default().boxed()
}

pub(crate) async fn answer(sender: &mut Sender, request: Request<Body>) -> Response<Incoming> {
    watched("its turn", sender.ready()).await.unwrap();
    watched("an answer", sender.send_request(request)).await.unwrap()
}

/// Status, `nightwatt-answer`, body.
pub(crate) async fn read(response: Response<Incoming>) -> (u16, String, String) {
    let (parts, body) = response.into_parts();
    let body = watched("a body", body.collect()).await.unwrap().to_bytes();
    let how = parts.headers.get("nightwatt-answer").map_or("", |it| it.to_str().unwrap());
    (parts.status.as_u16(), how.to_owned(), String::from_utf8(body.into()).unwrap())
}

pub(crate) fn with_tls(setup: Setup) -> Option<(tempfile::TempDir, PathBuf, Setup)> {
    let dir = tempfile::tempdir().unwrap();
    let made = certificate(dir.path())?;
    let setup = by_tls(setup.real(), &made);
    Some((dir, made.chain, setup))
}

#[test]
fn curl_gets_by_http2_what_the_server_says_and_then_what_the_cache_has() {
    let Some((_dir, chain, setup)) = with_tls(awake()).filter(|_| has("curl")) else { return };
    setup.play(async |stage| {
        // More than all windows.
        let page = (0..800_000).map(|line: u32| line.to_string()).collect::<Vec<_>>().join("\n");
        stage.origin.says(ok(&page).field("Cache-Control", "max-age=600"));
        for answer in ["server", "cache"] {
            let mut curl = curl(stage, &chain, "/page");
            curl.arg("--http2");
            let got = succeeded(&run(curl).await);
            let (head, body) = got.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/2 200"), "{head}");
            assert!(head.contains(&format!("nightwatt-answer: {answer}")), "{head}");
            assert!(body == page, "{answer}: the body is not what the server said");
        }
        let seen = stage.origin.only();
        assert_eq!(seen.field("x-forwarded-proto"), Some("https"));
        assert!(seen.field("via").is_some_and(|it| it.starts_with("2.0 nightwatt (")));
        let host = seen.field("host").unwrap();
        assert_eq!(host, format!("blog:{}", stage.tls_address().port()));

        let mut head = curl(stage, &chain, "/page");
        head.args(["--http2", "--head"]);
        let got = succeeded(&run(head).await);
        let length = format!("content-length: {}\r\n", page.len());
        assert!(got.starts_with("HTTP/2 200") && got.contains(&length), "{got}");
    });
}

#[test]
fn a_server_without_http2_speaks_the_old_one() {
    let Some((_dir, chain, setup)) = with_tls(awake()).filter(|_| has("curl")) else { return };
    let without = setup.with(|config| config.tls.as_mut().unwrap().http2 = false);
    without.play(async |stage| {
        let mut curl = curl(stage, &chain, "/");
        curl.arg("--http2");
        let got = succeeded(&run(curl).await);
        assert!(got.starts_with("HTTP/1.1 200"), "{got}");
    });
}

#[test]
fn bodies_trailers_and_cookies_reach_the_server_as_by_http1() {
    let Some((_dir, chain, setup)) = with_tls(awake()) else { return };
    setup.play(async |stage| {
        let mut client = connect(stage, &chain, 65_535).await;
        let long = "0123456789".repeat(50_000);
        let whole = Full::from(long.clone()).boxed();
        let request = Request::post("https://blog/whole").body(whole).unwrap();
        assert_eq!(read(answer(&mut client, request).await).await.0, 200);

        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "42".parse().unwrap());
        let parts = ["one, ", "two"].map(|part| Frame::data(Bytes::from(part)));
        let parts = parts.into_iter().chain([Frame::trailers(trailers)]);
        let body = Frames { frames: parts.collect(), ends: true }.boxed();
        let request = Request::post("https://blog/parts")
            .header("trailer", "x-sum")
            .header("cookie", "a=1")
            .header("cookie", "b=2")
            .body(body)
            .unwrap();
        assert_eq!(read(answer(&mut client, request).await).await.0, 200);

        let seen = stage.origin.seen();
        assert_eq!(seen[0].field("content-length"), Some("500000"));
        assert!(seen[0].text() == long && seen[0].field("transfer-encoding").is_none());
        assert_eq!(seen[1].text(), "one, two");
        assert_eq!(seen[1].field("cookie"), Some("a=1; b=2"));
        assert_eq!(seen[1].trailers, ["x-sum: 42"]);
    });
}

#[test]
fn a_hundred_who_come_at_once_wake_the_server_once_and_are_all_answered() {
    let Some((_dir, chain, setup)) = with_tls(asleep()) else { return };
    setup.play(async |stage| {
        let client = connect(stage, &chain, 65_535).await;
        let asked = (0..100).map(|number| {
            let mut client = client.clone();
            let request = get(&format!("/{number}")).body(nothing()).unwrap();
            tokio::spawn(async move { read(answer(&mut client, request).await).await })
        });
        for answered in asked.collect::<Vec<_>>() {
            let (status, how, _) = answered.await.unwrap();
            assert_eq!((status, &*how), (200, "held"));
        }
        assert_eq!(stage.origin.lines().len(), 100);
        assert_eq!(stage.commands().0, 1, "it was woken once");
    });
}

#[test]
fn people_see_that_the_server_wakes_up_for_them() {
    let Some((_dir, chain, setup)) = with_tls(asleep()) else { return };
    setup.play(async |stage| {
        let mut client = connect(stage, &chain, 65_535).await;
        let request = get("/page").header("user-agent", BROWSER).header("accept", "text/html");
        let response = answer(&mut client, request.body(nothing()).unwrap()).await;
        assert!(response.headers().contains_key("retry-after"));
        let (status, _, page) = read(response).await;
        assert!(status == 503 && page.contains("It is waking up for you"), "{status}: {page}");
    });
}

#[test]
fn who_names_two_hosts_is_refused() {
    let Some((_dir, chain, setup)) = with_tls(awake()) else { return };
    setup.play(async |stage| {
        let mut client = connect(stage, &chain, 65_535).await;
        let request = get("/").header("host", "other").body(nothing()).unwrap();
        assert_eq!(read(answer(&mut client, request).await).await.0, 400);
        let request = get("/").header("host", "BLOG").body(nothing()).unwrap();
        assert_eq!(read(answer(&mut client, request).await).await.0, 200);
        let many = (0..300).fold(get("/"), |request, at| request.header(format!("x-{at}"), "1"));
        let refused = read(answer(&mut client, many.body(nothing()).unwrap()).await).await;
        assert_eq!(refused.0, 431);
        // Browsers send each cookie in a field of its own.
        let cookies = (0..150)
            .fold(get("/cookies"), |request, at| request.header("cookie", format!("{at}=1")));
        assert_eq!(read(answer(&mut client, cookies.body(nothing()).unwrap()).await).await.0, 200);
        assert_eq!(stage.origin.lines(), ["GET /", "GET /cookies"]);
    });
}

#[test]
fn who_takes_nothing_of_an_answer_loses_that_one_and_no_other() {
    let Some((_dir, chain, setup)) = with_tls(awake()) else { return };
    let hasty = setup.with(|config| {
        config.limits.send_timeout = Duration::from_millis(500);
        config.limits.idle_timeout = secs(600);
    });
    hasty.play(async |stage| {
        let gate = Gate::shut();
        let late = gate.clone();
        stage.origin.script(move |seen| match &*seen.target {
            "/late" => vec![Act::Body, Act::Await(late.clone()), Act::Say(ok("late").bytes())],
            _ => ok(&"x".repeat(1 << 20)).acts(),
        });
        let mut client = connect(stage, &chain, 1000).await;
        let mut waits = client.clone();
        let waiting = get("/late").body(nothing()).unwrap();
        let waiting = tokio::spawn(async move { read(answer(&mut waits, waiting).await).await });
        // Its window is full, and it takes nothing more: twice, from the server and from the cache.
        for _ in 0..2 {
            let mut response = answer(&mut client, get("/").body(nothing()).unwrap()).await;
            // Longer than it may stand still.
            stage.clock.sleep(Duration::from_millis(700)).await;
            let broken = watched("its body", async {
                while let Some(frame) = response.frame().await {
                    if frame.is_err() {
                        return true;
                    }
                }
                false
            });
            assert!(broken.await, "what was not sent is not taken for the end");
        }
        gate.open();
        assert_eq!(waiting.await.unwrap().2, "late");
    });
}

#[test]
fn who_takes_an_answer_slowly_gets_all_of_it() {
    let Some((_dir, chain, setup)) = with_tls(awake()) else { return };
    let hasty = setup.with(|config| {
        config.limits.send_timeout = secs(3);
        config.limits.idle_timeout = secs(3);
    });
    hasty.play(async |stage| {
        let page = "0123456789".repeat(40_000);
        stage.origin.says(ok(&page).field("Cache-Control", "max-age=600"));
        for how in ["server", "cache"] {
            let mut client = connect(stage, &chain, 20_000).await;
            let mut response = answer(&mut client, get("/").body(nothing()).unwrap()).await;
            assert_eq!(response.headers()["nightwatt-answer"], how);
            let (mut got, mut pauses) = (Vec::new(), 0);
            while let Some(frame) = watched("a part", response.frame()).await {
                got.extend_from_slice(frame.unwrap().data_ref().unwrap());
                // In all 3.6 s, longer than it may stand still; each is far shorter, also on a busy machine.
                if got.len() >> 14 > pauses {
                    pauses += 1;
                    stage.clock.sleep(Duration::from_millis(150)).await;
                }
            }
            assert!(got == page.as_bytes(), "{how}: {} of {}", got.len(), page.len());
        }
    });
}

#[test]
fn an_answer_that_breaks_off_is_not_taken_for_whole() {
    let Some((_dir, chain, setup)) = with_tls(awake()) else { return };
    setup.play(async |stage| {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
        stage.origin.script(|_| vec![Act::Say(head.as_bytes().to_vec()), Act::Close]);
        let mut client = connect(stage, &chain, 65_535).await;
        let response = answer(&mut client, get("/").body(nothing()).unwrap()).await;
        assert!(watched("a body", response.into_body().collect()).await.is_err());
        stage.origin.says(ok("whole"));
        let request = get("/next").body(nothing()).unwrap();
        assert_eq!(read(answer(&mut client, request).await).await.2, "whole", "others go on");
    });
}

#[test]
fn who_leaves_before_the_answer_is_in_the_books() {
    let Some((_dir, chain, setup)) = with_tls(asleep()) else { return };
    setup.power(|power| power.wake_time = secs(600)).play(async |stage| {
        let mut client = connect(stage, &chain, 65_535).await;
        watched("its turn", client.ready()).await.unwrap();
        let asked = client.send_request(get("/").body(nothing()).unwrap());
        let asked = tokio::spawn(asked);
        stage.until("it is held", |site| site.held == 1).await;
        asked.abort();
        stage.until("it is gone", |site| site.held == 0).await;
        stage.until("it is counted", |site| site.answers.get("gone") == Some(&1)).await;
    });
}

#[test]
fn idle_connections_are_closed_after_a_while_and_by_saying_so() {
    let Some((_dir, chain, setup)) = with_tls(awake()) else { return };
    // Longer than a busy machine may need from the connection to its first request.
    let hasty = setup.with(|config| config.limits.idle_timeout = secs(3));
    hasty.play(async |stage| {
        let mut client = connect(stage, &chain, 65_535).await;
        let request = get("/").body(nothing()).unwrap();
        assert_eq!(read(answer(&mut client, request).await).await.0, 200);
        watched("the end", async {
            while !client.is_closed() {
                stage.clock.sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    });
}

#[test]
fn what_is_under_way_when_the_proxy_stops_is_answered() {
    let Some((_dir, chain, setup)) = with_tls(awake()) else { return };
    setup.play(async |stage| {
        let gate = Gate::shut();
        let late = gate.clone();
        stage.origin.script(move |_| {
            vec![Act::Body, Act::Await(late.clone()), Act::Say(ok("late").bytes())]
        });
        let mut client = connect(stage, &chain, 65_535).await;
        let waiting = get("/late").body(nothing()).unwrap();
        let waiting = tokio::spawn(async move { read(answer(&mut client, waiting).await).await });
        stage.origin.saw(1).await;
        let (clock, address) = (stage.clock.clone(), stage.tls_address());
        let opened = async {
            // No new connection is accepted any more.
            while TcpStream::connect(address).await.is_ok() {
                clock.sleep(Duration::from_millis(10)).await;
            }
            gate.open();
        };
        tokio::join!(opened, stage.stop());
        assert_eq!(waiting.await.unwrap(), (200, "server".to_owned(), "late".to_owned()));
    });
}

#[test]
fn a_server_that_refuses_an_upload_is_heard_by_its_client() {
    let Some((_dir, chain, setup)) = with_tls(awake()) else { return };
    setup.play(async |stage| {
        refuses(stage);
        let mut client = connect(stage, &chain, 65_535).await;
        for bytes in [200_000, 30_000_000] {
            for _ in 0..5 {
                let body = Full::from(vec![b'x'; bytes]).boxed();
                let request = Request::post("https://blog/up").body(body).unwrap();
                let (status, _, text) = read(answer(&mut client, request).await).await;
                assert_eq!((status, text.as_str()), (413, "too large"), "{bytes}");
            }
        }
    });
}

#[test]
fn a_body_that_stalls_is_not_waited_for_for_ever() {
    stalls(awake());
    // While it is held, and then again on its way to the server.
    stalls(asleep().power(|power| power.wake_time = secs(1)));
}

fn stalls(setup: Setup) {
    let Some((_dir, chain, setup)) = with_tls(setup) else { return };
    let hasty = setup.with(|config| config.limits.body_timeout = Duration::from_millis(300));
    hasty.play(async |stage| {
        let mut client = connect(stage, &chain, 65_535).await;
        let frames = [Frame::data(Bytes::from("the beginning"))].into();
        let body = Frames { frames, ends: false }.boxed();
        let request = Request::post("https://blog/").body(body).unwrap();
        assert_eq!(read(answer(&mut client, request).await).await.0, 408);
        let request = get("/").body(nothing()).unwrap();
        let next = read(answer(&mut client, request).await).await;
        assert_eq!(next.0, 200, "others go on");
    });
}

/// The checks of RFC 9113 and RFC 7541 that others have written.
#[test]
fn h2spec_finds_nothing() {
    let place = std::env::var_os("H2SPEC").map(PathBuf::from);
    if place.is_none() && !has("h2spec") {
        return;
    }
    let program = place.map_or("h2spec".into(), |place| place.join("h2spec"));
    let Some((_dir, _, setup)) = with_tls(awake()) else { return };
    // It names the host that it connects to.
    setup.with(|config| config.site[0].hosts = vec!["127.0.0.1".to_owned()]).play(async |stage| {
        // Some of its checks send frames to a stream after its end, and take an answer that came before these
        // for one to them. RFC 9113 (5.1) lets servers do either.
        let page = ok("It is a page.").field("Cache-Control", "no-store").bytes();
        let slow = [Act::Take(Duration::from_millis(50)), Act::Body, Act::Say(page)];
        stage.origin.script(move |_| slow.to_vec());
        let mut h2spec = Command::new(program);
        let port = stage.tls_address().port().to_string();
        h2spec.args(["-t", "-k", "-h", "127.0.0.1", "-o", "5", "-p", &port]);
        let said = succeeded(&run(h2spec).await);
        let last = said.lines().rev().find(|line| line.contains("tests")).unwrap_or_default();
        println!("{last}");
        assert!(said.contains(" 0 failed"), "{said}");
    });
}
