//! The admin listener: `/metrics` for Prometheus, `/healthz` for monitors. It only tells, and wakes
//! nobody.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use crate::gateway::Gateway;

/// Connections at once; further ones wait in the kernel.
const CONNECTIONS: usize = 32;

/// Time for a request's head to arrive, and for an idle connection: longer than the minute that
/// Prometheus lets pass between two looks as a rule.
const HEAD_TIMEOUT: Duration = Duration::from_secs(90);

const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
/// What Prometheus asks for.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

const INDEX: &str = "nightwatt\n\n/metrics       for Prometheus\n/healthz       the service as a \
                     whole: 200, also while servers sleep; 503 if one does not wake\n\
                     /healthz/NAME  one site\n";

/// Answers until the task is aborted; connections end with it.
pub(crate) fn serve(gateway: &Arc<Gateway>, listener: TcpListener) -> JoinHandle<()> {
    tokio::spawn(accept(Arc::clone(gateway), listener))
}

async fn accept(gateway: Arc<Gateway>, listener: TcpListener) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let gateway = Arc::clone(&gateway);
                connections.spawn(async move {
                    converse(gateway, stream).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept an admin connection");
                gateway.clock.sleep(Duration::from_millis(100)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn converse(gateway: Arc<Gateway>, stream: TcpStream) {
    let mut builder = http1::Builder::new();
    // As for clients: under a virtual clock nobody is slow.
    if gateway.clock.is_virtual() {
        builder.header_read_timeout(None);
    } else {
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    }
    let service = service_fn(move |request: Request<Incoming>| {
        let response = answer(&gateway, request.method(), request.uri().path(), request.headers());
        std::future::ready(Ok::<_, Infallible>(response))
    });
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "an admin connection ended");
    }
}

fn answer(
    gateway: &Gateway,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Response<Full<Bytes>> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut response = told(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "Only GET and HEAD.\n");
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match path {
        "/" => told(StatusCode::OK, PLAIN, INDEX),
        "/metrics" => told(StatusCode::OK, EXPOSITION, gateway.metrics()),
        "/healthz" => {
            let health = gateway.health();
            health_answer(headers, &health, health.text(), health.retry_after())
        }
        _ => {
            let name = path.strip_prefix("/healthz/");
            let site = name.and_then(|name| gateway.sites.iter().find(|it| *it.name == *name));
            let Some(site) = site else {
                return told(StatusCode::NOT_FOUND, PLAIN, format!("Nothing here.\n\n{INDEX}"));
            };
            let health = site.health(gateway.observe);
            health_answer(headers, &health, format!("{}\n", health.text), health.retry_after())
        }
    }
}

/// In JSON for whoever asks for that, else in words.
fn health_answer(
    headers: &HeaderMap,
    health: &impl Serialize,
    text: String,
    retry_after: Option<Duration>,
) -> Response<Full<Bytes>> {
    let status = retry_after.map_or(StatusCode::OK, |_| StatusCode::SERVICE_UNAVAILABLE);
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let mut response = if accept.is_some_and(|accept| accept.contains(JSON)) {
        told(status, JSON, serde_json::to_vec(health).unwrap_or_default())
    } else {
        told(status, PLAIN, text)
    };
    if let Some(after) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, after.as_secs().into());
    }
    response
}

fn told(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
