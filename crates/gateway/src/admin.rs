//! The admin listener: `/metrics` for Prometheus, `/healthz` for monitors, and the dashboard with its
//! API for people. Every client that reaches it may read; orders need the password.

mod api;
mod frontier;
mod guard;
mod history;
mod page;
mod places;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, RETRY_AFTER, VARY};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use nightwatt_traffic::ClientKey;
use serde::Serialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use self::api::Asker;
pub(crate) use self::guard::Guard;
use self::places::{Places, Timely};
use crate::accept::Accept;
use crate::gateway::Gateway;
use crate::live::Live;

/// Time for a request's head to arrive, and for an idle connection: longer than Prometheus's usual scrape interval of
/// one minute.
const HEAD_TIMEOUT: Duration = Duration::from_secs(90);

/// Time for a client to read a whole answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
/// The content type that Prometheus requests.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

const INDEX: &str = "nightwatt\n\n/              the dashboard, in a browser\n/api/v1/status  what it shows, as \
                     `nightwatt status --json`\n/metrics       for Prometheus\n/healthz       the service as a \
                     whole: 200, also while servers sleep; 503 if one does not wake\n\
                     /healthz/NAME  one site or machine\n";

/// Answers until the task is aborted; connections end with it.
pub(crate) fn serve(
    live: &Live<Gateway>,
    guard: Arc<Guard>,
    listener: TcpListener,
) -> JoinHandle<()> {
    tokio::spawn(accept(live.clone(), guard, listener))
}

async fn accept(live: Live<Gateway>, guard: Arc<Guard>, listener: TcpListener) {
    let mut places = Places::default();
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                let talk = converse(live.clone(), Arc::clone(&guard), stream, from.ip());
                let client = ClientKey::from(from.ip()).number();
                places.add(client, connections.spawn(talk));
            }
            Err(error) => {
                live.clone().now().serving.cannot_accept("admin", error).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn converse(mut live: Live<Gateway>, guard: Arc<Guard>, stream: TcpStream, client: IpAddr) {
    let clock = live.now().serving.clock.clone();
    let mut builder = http1::Builder::new();
    // As for clients: under a virtual clock no client is slow.
    let limit = if clock.is_virtual() {
        builder.header_read_timeout(None);
        None
    } else {
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        Some(ANSWER_TIMEOUT)
    };
    let guard = &*guard;
    let service = service_fn(move |request: Request<Incoming>| {
        let gateway = live.clone().now();
        async move {
            let asker = Asker { gateway: &gateway, guard, client };
            Ok::<_, Infallible>(route(asker, request).await)
        }
    });
    let stream = TokioIo::new(Timely::new(stream, &clock, limit));
    if let Err(error) = builder.serve_connection(stream, service).await {
        tracing::debug!(%error, "an admin connection ended");
    }
}

/// The dashboard and its API are for browsers, which DNS rebinding can mislead: browsers get them only by an address,
/// or by a name that is ours.
async fn route(asker: Asker<'_>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    let api = path.strip_prefix("/api/v1/");
    let shows =
        path == "/" && accepted(request.headers()).html() || path.starts_with("/dashboard/");
    if api.is_none() && !shows {
        return answer(asker.gateway, request.method(), &path, request.headers());
    }
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    if !host.is_some_and(|host| asker.guard.is_ours(host)) {
        let text = "This address is asked for by a name that it does not know: use the address itself, or \
                    put the name into `admin.hosts` of the configuration.";
        return page::guarded(api::problem(StatusCode::MISDIRECTED_REQUEST, text));
    }
    if let Some(rest) = api {
        return page::guarded(api::answer(asker, request, rest).await);
    }
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let file = page::answer(&path, request.headers()).filter(|_| reads);
    let mut response =
        file.unwrap_or_else(|| answer(asker.gateway, request.method(), &path, request.headers()));
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    response
}

fn accepted(headers: &HeaderMap) -> Accept {
    let text = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    text.map(Accept::read).unwrap_or_default()
}

fn answer(
    gateway: &Gateway,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Response<Full<Bytes>> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut response = respond(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "Only GET and HEAD.\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match path {
        "/" => respond(StatusCode::OK, PLAIN, INDEX),
        "/metrics" => respond(StatusCode::OK, EXPOSITION, gateway.metrics()),
        "/healthz" => {
            let health = gateway.health();
            health_answer(headers, &health, health.text(), health.retry_after())
        }
        _ => {
            let name = path.strip_prefix("/healthz/");
            let Some(health) = name.and_then(|name| gateway.health_of(name)) else {
                return respond(StatusCode::NOT_FOUND, PLAIN, format!("Nothing here.\n\n{INDEX}"));
            };
            health_answer(headers, &health, format!("{}\n", health.text), health.retry_after())
        }
    }
}

/// As JSON for clients that ask for it, else as text.
fn health_answer(
    headers: &HeaderMap,
    health: &impl Serialize,
    text: String,
    retry_after: Option<Duration>,
) -> Response<Full<Bytes>> {
    let status = retry_after.map_or(StatusCode::OK, |_| StatusCode::SERVICE_UNAVAILABLE);
    let mut response = if accepted(headers).json_at_all() {
        respond(status, JSON, serde_json::to_vec(health).unwrap_or_default())
    } else {
        respond(status, PLAIN, text)
    };
    if let Some(after) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, after.as_secs().into());
    }
    response
}

fn respond(
    status: StatusCode,
    kind: &'static str,
    body: impl Into<Bytes>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
