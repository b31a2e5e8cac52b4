//! The stage: arrivals made by hand, the log-backed origin, a stub of a sleeping proxy.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use nightwatt_clock::Clock;
use nightwatt_energy::time::{Mono, Wall};
use nightwatt_load::{
    CsvWriter, Options, OriginOptions, Outcome, Run, Target, replay, serve_origin,
};
use nightwatt_policy::admission::ClientClass;
use nightwatt_traffic::Arrival;
use socket2::{Domain, Socket, Type};
use tokio::net::TcpListener;

pub(crate) const BROWSER: &str =
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";
pub(crate) const CRAWLER: &str =
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";

/// Sunday, 1 March 2026, noon: when all the logs of these tests begin.
pub(crate) const NOON: Wall = Wall::from_secs(1_772_366_400);

pub(crate) fn get(second: u64, target: &str) -> Arrival {
    Arrival {
        at: NOON + Duration::from_secs(second),
        utc_offset: 0,
        client: "192.0.2.7".into(),
        method: "GET".into(),
        target: target.into(),
        status: 200,
        bytes: 1234,
        referer: None,
        agent: Some(BROWSER.into()),
    }
}

pub(crate) fn virtual_clock() -> Clock {
    Clock::virtual_at(NOON, 0)
}

pub(crate) fn options() -> Options {
    let class_of = |arrival: &Arrival| {
        let agent = arrival.agent.as_deref().unwrap_or("");
        if agent.contains("Googlebot") { ClientClass::Crawler } else { ClientClass::Human }
    };
    Options { class_of: Arc::new(class_of), ..Options::default() }
}

/// Replays against the log-backed origin; gives the run and the origin's record, line by line.
pub(crate) fn against_origin(
    clock: &Clock,
    arrivals: &[Arrival],
    options: &Options,
    origin: OriginOptions,
) -> (Run, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let record: PathBuf = folder.path().join("record.tsv");
    let origin = OriginOptions { record: Some(record.clone()), clock: clock.clone(), ..origin };
    let run = clock.runtime().unwrap().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = Target::at(listener.local_addr().unwrap());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serving =
            tokio::spawn(serve_origin(listener, origin, async { stopped.await.unwrap() }));
        let run = replay(arrivals, &target, options, clock, |_| {}).await.unwrap();
        stop.send(()).unwrap();
        serving.await.unwrap().unwrap();
        run
    });
    let record = std::fs::read_to_string(record).unwrap();
    (run, record.lines().map(str::to_owned).collect())
}

/// What the stub saw, in order: when, and `METHOD target id`.
pub(crate) type RequestLog = Arc<Mutex<Vec<(Mono, String)>>>;

pub(crate) type FullResponse = Response<Full<Bytes>>;

/// Replays against a proxy that answers as `answer` says.
pub(crate) fn against_stub<F, R>(
    clock: &Clock,
    arrivals: &[Arrival],
    options: &Options,
    answer: F,
) -> (Run, Vec<(Mono, String)>)
where
    F: Fn(Clock, Request<Incoming>) -> R + Clone + Send + 'static,
    R: Future<Output = FullResponse> + Send + 'static,
{
    let seen = RequestLog::default();
    let run = clock.runtime().unwrap().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stub = tokio::spawn(serve_stub(listener, clock.clone(), Arc::clone(&seen), answer));
        // As a task among others, which is harder on virtual time than the runtime's main future.
        let (arrivals, options, clock) = (arrivals.to_vec(), options.clone(), clock.clone());
        let replaying = tokio::spawn(async move {
            replay(&arrivals, &Target::at(address), &options, &clock, |_| {}).await
        });
        let run = replaying.await.unwrap().unwrap();
        stub.abort();
        run
    });
    let seen = seen.lock().unwrap().clone();
    (run, seen)
}

async fn serve_stub<F, R>(listener: TcpListener, clock: Clock, seen: RequestLog, answer: F)
where
    F: Fn(Clock, Request<Incoming>) -> R + Clone + Send + 'static,
    R: Future<Output = FullResponse> + Send + 'static,
{
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (clock, seen, answer) = (clock.clone(), Arc::clone(&seen), answer.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let id = request.headers()["x-request-id"].to_str().unwrap();
            let line = format!("{} {} {id}", request.method(), request.uri());
            seen.lock().unwrap().push((clock.now().mono, line));
            let answering = answer(clock.clone(), request);
            async move { Ok::<_, Infallible>(answering.await) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move { connection.await.ok() });
    }
}

/// A stub's answer.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> FullResponse {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap()
}

/// An address on which nothing listens. Its port stays bound, so that no other test is given it.
pub(crate) fn deserted_address() -> SocketAddr {
    static HELD: LazyLock<Socket> = LazyLock::new(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        socket
    });
    HELD.local_addr().unwrap().as_socket().unwrap()
}

pub(crate) fn at(second: u64) -> Mono {
    Mono::from_secs(second)
}

pub(crate) fn csv(arrivals: &[Arrival], outcomes: &[Outcome]) -> String {
    let mut csv = CsvWriter::new(Vec::new(), Mono::ZERO).unwrap();
    for outcome in outcomes {
        let outcome = Outcome { real_time: Duration::ZERO, ..outcome.clone() };
        csv.write(&arrivals[outcome.arrival], &outcome).unwrap();
    }
    String::from_utf8(csv.finish().unwrap()).unwrap()
}
