//! What is asked for, and how often: URLs with weights, as requests that are ready to be sent.

use std::net::ToSocketAddrs;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, Method, Uri};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Endpoint;
use crate::error::Error;

/// Numbers of the seed's own for URLs: they do not shift the times.
const STREAM: u64 = 16;

/// Fields that say where a message ends or what becomes of the connection.
const OURS: [&str; 3] = ["content-length", "transfer-encoding", "connection"];

/// One thing that is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct MixEntry {
    /// How often, beside the others: any number, 0 or more.
    pub weight: f64,
    /// `GET`.
    pub method: String,
    /// `http://host[:port]/path?query`.
    pub url: String,
}

impl MixEntry {
    /// A page, as often as any other.
    pub fn page(url: impl Into<String>) -> Self {
        Self { weight: 1.0, method: "GET".into(), url: url.into() }
    }
}

/// What all requests have in common.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestDefaults {
    /// Fields to send besides, or instead, of `Host`, `User-Agent` and `Accept`: name and value.
    pub fields: Vec<(String, String)>,
    /// Body of every request, empty for none.
    pub body: Vec<u8>,
    /// Say that the connection is not to be kept.
    pub close: bool,
}

/// A request as it is sent.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) url: String,
    pub(super) method: Method,
    pub(super) bytes: Arc<[u8]>,
    /// Which of the places.
    pub(super) place: usize,
}

impl Request {
    /// May it be sent again if it's unknown whether the server has processed it? (RFC 9110, 9.2.2)
    pub(super) fn may_be_sent_again(&self) -> bool {
        self.method.is_idempotent()
    }
}

/// All that may be asked for.
#[derive(Debug, Clone)]
pub struct Mix {
    pub(super) requests: Arc<[Request]>,
    pub(super) endpoints: Vec<Endpoint>,
    choice: Choice,
}

#[derive(Debug, Clone)]
enum Choice {
    /// Sums of the weights up to each.
    Weighted(Arc<[f64]>),
    /// One after the other.
    Listed(Arc<[u32]>),
}

impl Mix {
    /// At random by weight.
    pub fn weighted(wanted: &[MixEntry], defaults: &RequestDefaults) -> Result<Self, Error> {
        let mut sum = 0.0;
        let mut sums = Vec::with_capacity(wanted.len());
        for one in wanted {
            if !(one.weight.is_finite() && one.weight >= 0.0) {
                return Err(refuse(&one.url, "its weight is no number of 0 or more"));
            }
            sum += one.weight;
            sums.push(sum);
        }
        if sum <= 0.0 {
            return Err(Error::NothingToAsk);
        }
        Self::new(wanted, defaults, Choice::Weighted(sums.into()))
    }

    /// The first request is for `order[0]` of `wanted`, and so on; after the last there are no more.
    pub fn in_order(
        wanted: &[MixEntry],
        order: Vec<u32>,
        defaults: &RequestDefaults,
    ) -> Result<Self, Error> {
        let is_known = |index: &u32| (*index as usize) < wanted.len();
        if order.is_empty() || !order.iter().all(is_known) {
            return Err(Error::NothingToAsk);
        }
        Self::new(wanted, defaults, Choice::Listed(order.into()))
    }

    fn new(wanted: &[MixEntry], defaults: &RequestDefaults, choice: Choice) -> Result<Self, Error> {
        let mut endpoints = Vec::new();
        let requests = wanted.iter().map(|one| ready(one, defaults, &mut endpoints));
        let requests = requests.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { requests: requests.into(), endpoints, choice })
    }

    /// How many different requests there are.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Never: there is always something to ask for.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Where they go.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// The method and URL of one of them.
    pub fn wanted(&self, index: u32) -> (&str, &str) {
        let request = &self.requests[index as usize];
        (request.method.as_str(), &request.url)
    }

    /// Which is asked for by the first request, the second, and so on.
    pub(super) fn choices(&self, seed: u64) -> Choices {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(STREAM);
        Choices { choice: self.choice.clone(), random, next: 0 }
    }
}

/// One thing after the other.
#[derive(Debug, Clone)]
pub(super) struct Choices {
    choice: Choice,
    random: ChaCha8Rng,
    next: usize,
}

impl Iterator for Choices {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        match &self.choice {
            Choice::Weighted(sums) if sums.len() == 1 => Some(0),
            Choice::Weighted(sums) => {
                let at = self.random.random::<f64>() * sums.last()?;
                let index = sums.partition_point(|sum| *sum <= at);
                // Rounding may reach the sum of all.
                u32::try_from(index.min(sums.len() - 1)).ok()
            }
            Choice::Listed(order) => {
                let index = order.get(self.next).copied();
                self.next += 1;
                index
            }
        }
    }
}

fn refuse(url: &str, why: &'static str) -> Error {
    Error::Url { url: url.into(), why }
}

/// The bytes of a request; its place is added if it is a new one.
fn ready(
    wanted: &MixEntry,
    defaults: &RequestDefaults,
    endpoints: &mut Vec<Endpoint>,
) -> Result<Request, Error> {
    let refuse = |why| refuse(&wanted.url, why);
    let uri: Uri = wanted.url.parse().map_err(|_| refuse("it is not a URL; try http://host/"))?;
    if uri.scheme_str() == Some("https") {
        return Err(refuse(
            "https is not spoken; ask a plain-HTTP listener of the server, or one beside it",
        ));
    }
    if uri.scheme_str() != Some("http") {
        return Err(refuse("it does not begin with http://; try http://host/"));
    }
    let authority = uri.authority().ok_or_else(|| refuse("it names no host"))?;
    if authority.as_str().contains('@') {
        return Err(refuse("a user name in it would not be sent; use `-H 'Authorization: ...'`"));
    }
    let method = Method::from_bytes(wanted.method.as_bytes());
    let method = method.map_err(|_| refuse("its method is not valid; try GET"))?;
    if method == Method::CONNECT {
        return Err(refuse("CONNECT asks for a tunnel, not for an answer; try GET"));
    }
    let target = uri.path_and_query().map_or("/", |path| path.as_str());
    let bytes = head(method.as_str(), target, authority.as_str(), defaults)?;
    let known = endpoints.iter().position(|place| place.authority == authority.as_str());
    let place = known.unwrap_or(endpoints.len());
    if known.is_none() {
        endpoints.push(Endpoint {
            authority: authority.as_str().to_owned(),
            address: resolve(authority)?,
        });
    }
    Ok(Request { url: wanted.url.clone(), method, bytes: bytes.into(), place })
}

fn resolve(authority: &http::uri::Authority) -> Result<std::net::SocketAddr, Error> {
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    let port = authority.port_u16().unwrap_or(80);
    let unknown = |source| Error::Resolve { host: name.into(), source };
    let mut found = (name, port).to_socket_addrs().map_err(unknown)?;
    found.next().ok_or_else(|| unknown(std::io::ErrorKind::NotFound.into()))
}

fn head(
    method: &str,
    target: &str,
    host: &str,
    defaults: &RequestDefaults,
) -> Result<Vec<u8>, Error> {
    let agent = concat!("nightwatt-load/", env!("CARGO_PKG_VERSION"));
    let usual = [("Host", host), ("User-Agent", agent), ("Accept", "*/*")];
    let is_given =
        |name: &str| defaults.fields.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
    let usual = usual.into_iter().filter(|(name, _)| !is_given(name));
    let mut fields: Vec<(&str, String)> =
        usual.map(|(name, value)| (name, value.to_owned())).collect();
    for (name, value) in &defaults.fields {
        let refuse = |why| Error::Field { name: name.clone(), why };
        HeaderName::try_from(name).map_err(|_| refuse("it is no name of a header field"))?;
        HeaderValue::try_from(value).map_err(|_| refuse("its value cannot be sent"))?;
        if OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
            return Err(refuse("it is set by nightwatt; see `--body` and `--no-keep-alive`"));
        }
        fields.push((name, value.clone()));
    }
    // A server should not have to look for it (RFC 9110, 7.2).
    fields.sort_by_key(|(name, _)| !name.eq_ignore_ascii_case("host"));
    if !defaults.body.is_empty() || matches!(method, "POST" | "PUT" | "PATCH") {
        fields.push(("Content-Length", defaults.body.len().to_string()));
    }
    if defaults.close {
        fields.push(("Connection", "close".into()));
    }
    let mut bytes = format!("{method} {target} HTTP/1.1\r\n").into_bytes();
    for (name, value) in fields {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&defaults.body);
    Ok(bytes)
}
