//! The same figures for a collector of OpenTelemetry: OTLP by HTTP, in JSON.
//! <https://opentelemetry.io/docs/specs/otlp/#otlphttp>
//!
//! Sums are cumulative, so a message that does not arrive loses nothing: the next one has it all.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Uri};
use nightwatt_clock::Elapsed;
use nightwatt_host::http::{Ask, Blocking, Client, HttpError, Server};
use nightwatt_meters::Channel;
use nightwatt_meters::sampler::Measured;
use serde_json::{Value, json};

use super::Figures;
use crate::error::Error;

/// A collector gets this long to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of the longest answer.
const LONGEST: usize = 1 << 20;

/// `aggregationTemporality`: since the start.
const CUMULATIVE: u32 = 2;

/// Where to: a URL with `http`. Without a path it is the one that collectors listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint(String);

impl std::str::FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|error| format!("`{text}` is no URL: {error}"))?;
        match (uri.scheme_str(), uri.host()) {
            (Some("http"), Some(_)) => {}
            (Some("https"), _) => {
                return Err(
                    "nightwatt speaks OTLP without TLS: send to a collector on this machine \
                            or network, and let that send it on"
                        .to_owned(),
                );
            }
            _ => return Err(format!("`{text}` is no URL like http://127.0.0.1:4318")),
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            // Never repeated: it would be in logs.
            return Err("a password in a URL can be read by everybody on this machine".to_owned());
        }
        let base = text.trim_end_matches('/');
        Ok(Self(if uri.path() == "/" { format!("{base}/v1/metrics") } else { text.to_owned() }))
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Sends figures to a collector.
pub struct Exporter {
    endpoint: Endpoint,
}

impl Exporter {
    /// Sends nothing yet.
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }

    /// Sends all figures; ends when the collector has taken them.
    pub fn send(&self, figures: &Figures) -> Result<(), Error> {
        let failed = |why: String| Error::Collector { endpoint: self.endpoint.to_string(), why };
        let status = self.post(message(figures).to_string()).map_err(failed)?;
        // A redirect is not followed, and takes nothing.
        if (200..300).contains(&status) {
            Ok(())
        } else {
            Err(failed(format!("it answered {status}")))
        }
    }

    /// The status of the answer.
    fn post(&self, body: String) -> Result<u16, String> {
        let uri: Uri = self.endpoint.0.parse().map_err(|error| format!("{error}"))?;
        let authority = uri.authority().cloned().ok_or_else(|| HttpError::NoHost.to_string())?;
        let headers = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let ask = Ask { method: Method::POST, path, headers: &headers, body: body.into() };
        let mut client = Client::new(Server::new(authority, None), LONGEST);
        let blocking = Blocking::new().map_err(|error| error.to_string())?;
        match blocking.within(TIMEOUT, client.ask(&ask)) {
            Ok(answer) => answer.map(|it| it.status).map_err(|error| error.to_string()),
            Err(Elapsed) => Err(format!("no answer within {TIMEOUT:?}")),
        }
    }
}

/// An `ExportMetricsServiceRequest`.
fn message(figures: &Figures) -> Value {
    let energy = each_channel(figures, |it, at| Some(it.totals[at].joules.get()));
    let covered = each_channel(figures, |it, at| Some(it.totals[at].covered.as_secs_f64()));
    let mut metrics = vec![
        sum("nightwatt.energy", "J", "Energy since the start, of the time covered.", &energy),
        sum("nightwatt.energy.covered", "s", "Time of which that energy is known.", &covered),
        json!({
            "name": "nightwatt.power", "unit": "W", "description": "Power as the meter last said.",
            "gauge": {"dataPoints": each_channel(figures, |it, at| figures.power(it, at))},
        }),
    ];
    let mut shares = Vec::new();
    for shared in &figures.shares {
        for (process, joules) in shared.attribution.named() {
            let attributes = attributes(&[
                ("nightwatt.meter", &shared.meter),
                ("nightwatt.channel", &shared.channel),
                ("process.command", process),
                ("nightwatt.provenance", "modelled"),
            ]);
            shares.push(point(figures, &attributes, joules.get()));
        }
    }
    if !shares.is_empty() {
        let about = "Energy of the machine by share of CPU time.";
        metrics.push(sum("nightwatt.process.energy", "J", about, &shares));
    }
    json!({"resourceMetrics": [{
        "resource": {"attributes": attributes(&[
            ("service.name", "nightwatt"),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("host.name", &figures.host),
        ])},
        "scopeMetrics": [{
            "scope": {"name": "nightwatt", "version": env!("CARGO_PKG_VERSION")},
            "metrics": metrics,
        }],
    }]})
}

fn sum(name: &str, unit: &str, about: &str, points: &[Value]) -> Value {
    json!({"name": name, "unit": unit, "description": about, "sum": {
        "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": points,
    }})
}

fn each_channel(figures: &Figures, value: impl Fn(&Measured, usize) -> Option<f64>) -> Vec<Value> {
    let mut points = Vec::new();
    for it in &figures.measured {
        for (at, channel) in it.channels.iter().enumerate() {
            if let Some(value) = value(it, at).filter(|value| value.is_finite()) {
                points.push(point(figures, &of_channel(&it.meter, channel), value));
            }
        }
    }
    points
}

fn of_channel(meter: &str, channel: &Channel) -> Value {
    attributes(&[
        ("nightwatt.meter", meter),
        ("nightwatt.channel", &channel.name),
        ("nightwatt.scope", channel.scope.as_str()),
        ("nightwatt.provenance", if channel.is_modelled { "modelled" } else { "measured" }),
    ])
}

fn attributes(pairs: &[(&str, &str)]) -> Value {
    let pair = |(key, value): &(&str, &str)| json!({"key": key, "value": {"stringValue": value}});
    pairs.iter().map(pair).collect()
}

/// 64-bit integers are texts in the JSON of protocol buffers.
fn point(figures: &Figures, attributes: &Value, value: f64) -> Value {
    json!({
        "attributes": attributes,
        "startTimeUnixNano": figures.begun_ns.to_string(),
        "timeUnixNano": figures.now_ns.to_string(),
        "asDouble": value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_named_as_its_own_documentation_does() {
        let parse = |text: &str| text.parse::<Endpoint>().map(|it| it.to_string());
        assert_eq!(parse("http://c:4318"), Ok("http://c:4318/v1/metrics".to_owned()));
        assert_eq!(parse("http://c:4318/"), Ok("http://c:4318/v1/metrics".to_owned()));
        assert_eq!(parse("http://c/otlp/v1/metrics"), Ok("http://c/otlp/v1/metrics".to_owned()));
        assert!(parse("https://c").unwrap_err().contains("without TLS"));
        assert!(parse("c:4318").is_err() && parse("").is_err());
    }
}
