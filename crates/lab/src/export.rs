//! `nightwatt export`: what meters say, for Prometheus.
//!
//! The number of series is that of the meters' channels: nothing that a client or a process can
//! choose is a label.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use nightwatt_clock::Clock;
use nightwatt_meters::sampler::{Measured, Sampler};
use nightwatt_report::exposition::{Exposition, Family, Kind, Samples};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Connections at once; further ones wait in the kernel.
const CONNECTIONS: usize = 64;

/// Time for a request's head to arrive, and for an idle connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// What Prometheus asks for.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

const CHANNEL: &[&str] = &["meter", "channel", "scope", "provenance"];
const METER: &[&str] = &["meter"];

const fn of_channel(name: &'static str, kind: Kind, help: &'static str) -> Family {
    Family { name, kind, labels: CHANNEL, help }
}

const fn of_meter(name: &'static str, kind: Kind, help: &'static str) -> Family {
    Family { name, kind, labels: METER, help }
}

const ENERGY: Family = of_channel(
    "nightwatt_energy_joules_total",
    Kind::Counter,
    "Energy since the start, of the time that is covered. Channels contain each other: never sum them.",
);
const COVERED: Family = of_channel(
    "nightwatt_energy_covered_seconds_total",
    Kind::Counter,
    "Time of which that energy is known.",
);
const POWER: Family = of_channel(
    "nightwatt_power_watts",
    Kind::Gauge,
    "Power as the meter last said. Missing while it says nothing.",
);
const ACCURACY: Family = of_channel(
    "nightwatt_meter_accuracy_ratio",
    Kind::Gauge,
    "How far off a reading may be, as a share of it, at 95 %.",
);
const GAPS: Family = of_channel(
    "nightwatt_meter_gaps_total",
    Kind::Counter,
    "Times of which nothing is known, between two readings.",
);
const READINGS: Family =
    of_channel("nightwatt_meter_readings_total", Kind::Counter, "Readings taken.");
const ERRORS: Family =
    of_meter("nightwatt_meter_errors_total", Kind::Counter, "Readings that failed.");
const MISSED: Family = of_meter(
    "nightwatt_meter_missed_deadlines_total",
    Kind::Counter,
    "Readings left out since the one before came too late.",
);

/// A power that is older than so many intervals is not told any more.
const STALE_AFTER: u32 = 3;

/// The page: all that there is at `now`.
pub fn page(measured: &[Measured], now: nightwatt_model::time::Mono) -> String {
    let mut page = Exposition::default();
    each_channel(&mut page, ENERGY, measured, |it, at| Some(it.totals[at].joules.get()));
    each_channel(&mut page, COVERED, measured, |it, at| Some(it.totals[at].covered.as_secs_f64()));
    each_channel(&mut page, POWER, measured, |it, at| {
        let (said, watts) = it.latest[at]?;
        let fresh = now.since(said) <= it.interval * STALE_AFTER + Duration::from_secs(1);
        fresh.then_some(watts.get())
    });
    each_channel(&mut page, ACCURACY, measured, |it, at| Some(it.channels[at].accuracy.relative));
    each_channel(&mut page, GAPS, measured, |it, at| Some(it.totals[at].gaps as f64));
    each_channel(&mut page, READINGS, measured, |it, at| Some(it.totals[at].readings as f64));
    each_meter(&mut page, ERRORS, measured, |it| it.errors);
    each_meter(&mut page, MISSED, measured, |it| it.missed);
    page.into_text()
}

fn each_channel(
    page: &mut Exposition,
    family: Family,
    measured: &[Measured],
    value: impl Fn(&Measured, usize) -> Option<f64>,
) {
    page.family(family, |samples: &mut Samples<'_>| {
        for it in measured {
            for (at, channel) in it.channels.iter().enumerate() {
                let kind = if channel.is_modelled { "modelled" } else { "measured" };
                if let Some(value) = value(it, at).filter(|value| value.is_finite()) {
                    let labels = [&it.meter, channel.name.as_str(), channel.scope.as_str(), kind];
                    samples.add(&labels, value);
                }
            }
        }
    });
}

fn each_meter(
    page: &mut Exposition,
    family: Family,
    measured: &[Measured],
    value: impl Fn(&Measured) -> u64,
) {
    page.family(family, |samples: &mut Samples<'_>| {
        for it in measured {
            samples.add(&[&it.meter], value(it));
        }
    });
}

/// Answers until it is dropped.
pub async fn serve(listener: TcpListener, sampler: Arc<Sampler>, clock: Clock) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let sampler = Arc::clone(&sampler);
                tokio::spawn(async move {
                    converse(stream, &sampler).await;
                    drop(place);
                });
            }
            // Out of descriptors, most likely: others end first.
            Err(_) => clock.sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn converse(stream: TcpStream, sampler: &Sampler) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let service = service_fn(|request: Request<Incoming>| {
        let response = answer(request.method(), request.uri().path(), sampler);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    // Whoever broke the connection knows.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

fn answer(method: &Method, path: &str, sampler: &Sampler) -> Response<Full<Bytes>> {
    let (status, body) = match (method, path) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let now = nightwatt_clock::meter::monotonic();
            (StatusCode::OK, page(&sampler.so_far(), now))
        }
        (&Method::GET | &Method::HEAD, "/") => {
            (StatusCode::OK, "nightwatt export\n\n/metrics  for Prometheus\n".to_owned())
        }
        (&Method::GET | &Method::HEAD, _) => {
            (StatusCode::NOT_FOUND, "Nothing here. The figures are under /metrics.\n".to_owned())
        }
        _ => (StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD.\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(EXPOSITION));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}
