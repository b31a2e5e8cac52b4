//! `nightwatt export`: the meters' figures, for Prometheus.
//!
//! The number of series is that of the meters' channels, and of as many names of processes as the user asks
//! for: no client can add series.

pub mod otlp;
mod shares;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
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
use nightwatt_clock::meter::{Stamp, Stop, Woken, monotonic};
use nightwatt_energy::time::Mono;
use nightwatt_meters::Host;
use nightwatt_meters::sampler::{Measured, Sampler};
use nightwatt_report::exposition::{Exposition, Family, MetricKind, Samples};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

pub use shares::{LOOK_EVERY, Shared, Shares};

/// Connections at once; further ones wait in the kernel.
const CONNECTIONS: usize = 64;

/// Time for a request's head to arrive, and for an idle connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// What Prometheus asks for.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

const CHANNEL: &[&str] = &["meter", "channel", "scope", "provenance"];
const METER: &[&str] = &["meter"];

const fn of_channel(name: &'static str, kind: MetricKind, help: &'static str) -> Family {
    Family { name, kind, labels: CHANNEL, help }
}

const fn of_meter(name: &'static str, kind: MetricKind, help: &'static str) -> Family {
    Family { name, kind, labels: METER, help }
}

const ENERGY: Family = of_channel(
    "nightwatt_energy_joules_total",
    MetricKind::Counter,
    "Energy since the start, of the time that is covered. Channels contain each other: never sum them.",
);
const COVERED: Family = of_channel(
    "nightwatt_energy_covered_seconds_total",
    MetricKind::Counter,
    "Time of which that energy is known.",
);
const POWER: Family = of_channel(
    "nightwatt_power_watts",
    MetricKind::Gauge,
    "Power as the meter last said. Missing while it says nothing.",
);
const ACCURACY: Family = of_channel(
    "nightwatt_meter_accuracy_ratio",
    MetricKind::Gauge,
    "How far off a reading may be, as a share of it, at 95 %.",
);
const OFFSET: Family = of_channel(
    "nightwatt_meter_accuracy_watts",
    MetricKind::Gauge,
    "How far off it may be beside that, whatever the reading, at 95 %.",
);
const GAPS: Family = of_channel(
    "nightwatt_meter_gaps_total",
    MetricKind::Counter,
    "Times of which nothing is known, between two readings.",
);
const READINGS: Family =
    of_channel("nightwatt_meter_readings_total", MetricKind::Counter, "Readings taken.");
const ERRORS: Family =
    of_meter("nightwatt_meter_errors_total", MetricKind::Counter, "Readings that failed.");
const MISSED: Family = of_meter(
    "nightwatt_meter_missed_deadlines_total",
    MetricKind::Counter,
    "Readings left out since the one before came too late.",
);

const PROCESS: Family = Family {
    name: "nightwatt_process_energy_joules_total",
    kind: MetricKind::Counter,
    labels: &["meter", "channel", "process", "provenance"],
    help: "Energy of the channel by share of CPU time, of the processes of that name.",
};
const UNNAMED: Family = Family {
    name: "nightwatt_unnamed_process_energy_joules_total",
    kind: MetricKind::Counter,
    labels: &["meter", "channel", "of", "provenance"],
    help: "The rest of that energy: of processes that are not named, and of named ones that have gone.",
};

/// A power that is older than this many intervals is no longer exported.
const STALE_AFTER: u32 = 3;

/// Meters that are read, and what is made of them.
pub struct Source {
    sampler: Sampler,
    begun: Stamp,
    host: String,
    shares: Option<Mutex<Shares>>,
}

/// All that there is at a moment.
#[derive(Debug)]
pub struct Figures {
    /// Of each meter.
    pub measured: Vec<Measured>,
    /// By process.
    pub shares: Vec<Shared>,
    /// The machine's name.
    pub host: String,
    /// When it began: nanoseconds since 1970, UTC.
    pub begun_ns: i64,
    /// The moment, likewise.
    pub now_ns: i64,
    /// The moment, on the monotonic clock.
    pub now: Mono,
}

impl Source {
    /// Counts from now. `places` names of processes are told; 0: none.
    pub fn new(sampler: Sampler, places: usize) -> Self {
        let begun = Stamp::now();
        sampler.begin(begun.mono);
        let shares = (places > 0).then(|| Mutex::new(Shares::new(Host::default(), places)));
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { sampler, begun, host, shares }
    }

    /// Looks at processes now and then, if they are to be told, until it is stopped.
    pub fn look(&self, stop: &Stop) {
        let Some(shares) = &self.shares else { return };
        let mut next = monotonic();
        loop {
            let measured = self.sampler.so_far();
            shares.lock().unwrap_or_else(PoisonError::into_inner).look(&measured);
            next = next + LOOK_EVERY;
            if stop.wait_until(next) == Woken::Stopped {
                return;
            }
        }
    }

    /// What there is now.
    pub fn figures(&self) -> Figures {
        let now = Stamp::now();
        let shares = self.shares.as_ref().map(|shares| {
            shares.lock().unwrap_or_else(PoisonError::into_inner).channels().to_vec()
        });
        Figures {
            measured: self.sampler.so_far(),
            shares: shares.unwrap_or_default(),
            host: self.host.clone(),
            begun_ns: self.begun.wall_ns,
            now_ns: now.wall_ns,
            now: now.mono,
        }
    }
}

impl Figures {
    /// Power as a channel last said, unless that is long ago.
    fn power(&self, it: &Measured, at: usize) -> Option<f64> {
        let (said, watts) = it.latest[at]?;
        let fresh = self.now.since(said) <= it.interval * STALE_AFTER + Duration::from_secs(1);
        fresh.then_some(watts.get())
    }

    /// The page for Prometheus.
    pub fn page(&self) -> String {
        let mut page = Exposition::default();
        let measured = &self.measured;
        each_channel(&mut page, ENERGY, measured, |it, at| Some(it.totals[at].joules.get()));
        each_channel(&mut page, COVERED, measured, |it, at| {
            Some(it.totals[at].covered.as_secs_f64())
        });
        each_channel(&mut page, POWER, measured, |it, at| self.power(it, at));
        each_channel(&mut page, ACCURACY, measured, |it, at| {
            Some(it.channels[at].accuracy.relative)
        });
        each_channel(&mut page, OFFSET, measured, |it, at| {
            Some(it.channels[at].accuracy.watts.get())
        });
        each_channel(&mut page, GAPS, measured, |it, at| Some(it.totals[at].gaps as f64));
        each_channel(&mut page, READINGS, measured, |it, at| Some(it.totals[at].readings as f64));
        each_meter(&mut page, ERRORS, measured, |it| it.errors);
        each_meter(&mut page, MISSED, measured, |it| it.missed);
        if !self.shares.is_empty() {
            self.write_shares(&mut page);
        }
        page.into_text()
    }

    fn write_shares(&self, page: &mut Exposition) {
        page.family(PROCESS, |samples| {
            for shared in &self.shares {
                for (process, joules) in shared.attribution.named() {
                    let labels = [&shared.meter, shared.channel.as_str(), process, "modelled"];
                    samples.add(&labels, joules.get());
                }
            }
        });
        page.family(UNNAMED, |samples| {
            for Shared { meter, channel, attribution, .. } in &self.shares {
                for (of, joules) in [("others", attribution.others()), ("gone", attribution.gone())]
                {
                    samples.add(&[meter, channel, of, "modelled"], joules.get());
                }
            }
        });
    }
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
pub async fn serve(listener: TcpListener, source: Arc<Source>, clock: Clock) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let source = Arc::clone(&source);
                tokio::spawn(async move {
                    converse(stream, &source).await;
                    drop(place);
                });
            }
            // Out of descriptors, most likely: others end first.
            Err(_) => clock.sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn converse(stream: TcpStream, source: &Source) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let service = service_fn(|request: Request<Incoming>| {
        let response = answer(request.method(), request.uri().path(), source);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    // A broken connection needs no report: the client knows.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

fn answer(method: &Method, path: &str, source: &Source) -> Response<Full<Bytes>> {
    let (status, body) = match (method, path) {
        (&Method::GET | &Method::HEAD, "/metrics") => (StatusCode::OK, source.figures().page()),
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
