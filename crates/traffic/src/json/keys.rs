//! JSON access logs by the names of their keys: nginx's `escape=json` with the keys in use,
//! Cloudflare's Logpush, the Elastic Common Schema, and others of one flat or nested object a line.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use foldhash::fast::FixedState;
use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::text;
use crate::client::ClientFrom;
use crate::fields::{Found, Kind, Manner};
use crate::record::{Escapes, Reason};
use crate::spans::{Span, Spans};
use crate::when;

/// What a key says; `None` is the time.
type Says = Option<Kind>;

/// Keys, best first, without case and punctuation; those of nested objects joined.
const KEYS: [(Says, &[&str]); 14] = [
    (
        None,
        &[
            "timeiso8601",
            "timestamp",
            "timelocal",
            "time",
            "msec",
            "edgestarttimestamp",
            "starttime",
            "datetime",
            "date",
            "ts",
            "eventtime",
            "logtime",
            "requesttime",
            "requesttimestamp",
            "receivetimestamp",
            "accesstime",
            "t",
        ],
    ),
    (
        Some(Kind::Client),
        &[
            "clientip",
            "remoteaddr",
            "remoteip",
            "clientaddr",
            "clientaddress",
            "sourceip",
            "sourceaddress",
            "remoteaddress",
            "remotehost",
            "clienthost",
            "httprequestremoteip",
            "downstreamremoteaddress",
            "srcip",
            "ip",
            "client",
        ],
    ),
    (
        Some(Kind::Forwarded),
        &[
            "httpxforwardedfor",
            "xforwardedfor",
            "proxyaddxforwardedfor",
            "forwardedfor",
            "xff",
            "httpxrealip",
            "xrealip",
            "realip",
            "httpcfconnectingip",
            "cfconnectingip",
            "httptrueclientip",
            "requestheadersxforwardedfor",
            "httpforwarded",
            "forwarded",
        ],
    ),
    (Some(Kind::User), &["remoteuser", "username", "user", "userid", "authuser"]),
    (Some(Kind::Request), &["request", "requestline", "requestfirstline", "req"]),
    (
        Some(Kind::Method),
        &[
            "requestmethod",
            "httprequestmethod",
            "clientrequestmethod",
            "method",
            "httpmethod",
            "verb",
            "reqmethod",
            "httprequestrequestmethod",
        ],
    ),
    (
        Some(Kind::Target),
        &[
            "requesturi",
            "clientrequesturi",
            "urloriginal",
            "requestpath",
            "httptarget",
            "uri",
            "requesturl",
            "httprequestrequesturl",
            "urlfull",
            "url",
            "httpurl",
            "fullpath",
        ],
    ),
    (Some(Kind::Path), &["urlpath", "path", "clientrequestpath", "documenturi", "pathname"]),
    (Some(Kind::Query), &["args", "querystring", "urlquery", "query", "requestquery"]),
    (
        Some(Kind::Protocol),
        &[
            "serverprotocol",
            "clientrequestprotocol",
            "requestprotocol",
            "protocol",
            "httpversion",
            "proto",
        ],
    ),
    (
        Some(Kind::Status),
        &[
            "status",
            "edgeresponsestatus",
            "httpresponsestatuscode",
            "responsestatuscode",
            "statuscode",
            "responsecode",
            "responsestatus",
            "httpstatus",
            "httpstatuscode",
            "httprequeststatus",
            "code",
        ],
    ),
    (
        Some(Kind::Bytes),
        &[
            "bodybytessent",
            "bytessent",
            "edgeresponsebytes",
            "httpresponsebodybytes",
            "httpresponsebytes",
            "responsesize",
            "responsebytes",
            "responselength",
            "bytesout",
            "httprequestresponsesize",
            "bytes",
            "size",
            "contentlength",
            "length",
        ],
    ),
    (
        Some(Kind::Referer),
        &[
            "httpreferer",
            "httprequestreferrer",
            "clientrequestreferer",
            "httpreferrer",
            "referer",
            "referrer",
            "requestreferer",
            "requestheadersreferer",
            "httprequestreferer",
        ],
    ),
    (
        Some(Kind::Agent),
        &[
            "httpuseragent",
            "useragentoriginal",
            "clientrequestuseragent",
            "useragent",
            "requestuseragent",
            "requestheadersuseragent",
            "httprequestuseragent",
            "agent",
            "ua",
        ],
    ),
];

/// Objects that speak of something other than the client's request.
const ELSEWHERE: [&str; 8] = [
    "upstream",
    "origin",
    "server",
    "destination",
    "responseheaders",
    "respheaders",
    "host",
    "tls",
];

/// How deep objects are looked into.
const DEPTH: usize = 4;

/// A key of a nested object counts by its own name, too, but after all whole names.
const OWN_NAME: u8 = 100;

static RANKS: LazyLock<HashMap<&'static str, (Says, u8), FixedState>> = LazyLock::new(|| {
    let ranked = |&(says, names): &(Says, &'static [&'static str])| {
        names.iter().zip(0..).map(move |(name, rank)| (*name, (says, rank)))
    };
    KEYS.iter().flat_map(ranked).collect()
});

/// Parses a line.
pub(crate) fn find(line: &[u8], client_from: ClientFrom) -> Result<Spans, Reason> {
    if line.trim_ascii().is_empty() {
        return Err(Reason::Empty);
    }
    let fields = fields(line).ok_or(Reason::Json)?;
    let is_none = |kind| !fields.found.has(kind);
    if [Kind::Request, Kind::Method, Kind::Target, Kind::Path].into_iter().all(is_none) {
        return Err(Reason::NoRequest);
    }
    let manner = Manner { escapes: Escapes::Json, client_from, has_urls: true };
    fields.found.place(line, manner).map_err(|(reason, _)| reason)
}

/// What no key of a line says, for people.
pub(crate) fn missing(line: &[u8]) -> Option<String> {
    let fields = fields(line)?;
    let has = |kinds: &[Kind]| kinds.iter().any(|kind| fields.found.has(*kind));
    let needs = [
        (fields.found.time.is_some(), "the time"),
        (has(&[Kind::Client, Kind::Forwarded]), "the client"),
        (has(&[Kind::Request, Kind::Target, Kind::Path]), "the path"),
        (has(&[Kind::Status]), "the status"),
    ];
    let missing: Vec<&str> =
        needs.into_iter().filter(|(is_there, _)| !is_there).map(|(_, what)| what).collect();
    (!missing.is_empty()).then(|| missing.join(", "))
}

/// An earlier time is a duration: some day of 1976.
const EARLIEST_MS: i64 = 200_000_000_000;

/// What the keys of a line say, each by the best of its names.
struct Fields<'a> {
    line: &'a [u8],
    found: Found,
    /// Rank of what was found; of the time, the last.
    ranks: [u8; Kind::Other as usize + 1],
}

fn fields(line: &[u8]) -> Option<Fields<'_>> {
    let mut fields =
        Fields { line, found: Found::default(), ranks: [u8::MAX; Kind::Other as usize + 1] };
    let text = std::str::from_utf8(line).ok()?;
    Walk { fields: &mut fields, path: &mut String::new(), depth: 0 }.object(text)?;
    Some(fields)
}

impl<'a> Fields<'a> {
    fn value(&mut self, path: &str, own: usize, value: &'a RawValue) {
        let ranked = |name: &str, after: u8| {
            RANKS.get(name).map(|&(says, rank)| (says, rank.saturating_add(after)))
        };
        let by_own_name = || {
            let elsewhere = ELSEWHERE.iter().any(|part| path[..own].contains(part));
            if own == 0 || elsewhere { None } else { ranked(&path[own..], OWN_NAME) }
        };
        let Some((says, rank)) = ranked(path, 0).or_else(by_own_name) else { return };
        let place = says.unwrap_or(Kind::Other) as usize;
        if rank >= self.ranks[place] {
            return;
        }
        // The first of several values of a header.
        let raw = value.get().trim_start_matches('[').trim_end_matches(']').trim();
        let quoted = raw.strip_prefix('"').and_then(|rest| Some(&rest[..rest.find('"')?]));
        let text = text(Some(value)).or(quoted).unwrap_or(raw);
        match says {
            Some(kind) if Self::fits(kind, text) => {
                self.found.set(kind, Span::within(self.line, text.as_bytes()));
            }
            Some(_) => return,
            None => match when::any(text.as_bytes()).filter(|(at, _)| at.0 > EARLIEST_MS) {
                Some(time) => self.found.time = Some(time),
                None => return,
            },
        }
        self.ranks[place] = rank;
    }

    /// Names are used for this and that: a value that cannot be what its key says is passed over.
    fn fits(kind: Kind, text: &str) -> bool {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_url = ["http://", "https://", "/"].iter().any(|start| text.starts_with(start));
        match kind {
            Kind::Status => is_number && text.len() <= 3 || text == "-1",
            Kind::Bytes => is_number,
            Kind::Request => text.contains(' ') || matches!(text, "" | "-"),
            Kind::Target | Kind::Path => is_url || matches!(text, "*" | "-" | ""),
            Kind::Client => crate::client::pick(text.as_bytes(), ClientFrom::First).is_some(),
            _ => !matches!(text, "null" | "true" | "false"),
        }
    }
}

/// A walk over an object and those within it.
struct Walk<'a, 'w> {
    fields: &'w mut Fields<'a>,
    path: &'w mut String,
    depth: usize,
}

impl<'a> Walk<'a, '_> {
    fn object(self, text: &'a str) -> Option<()> {
        serde_json::Deserializer::from_str(text).deserialize_map(self).ok()
    }
}

impl<'a> Visitor<'a> for Walk<'a, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let own = self.path.len();
        while let Some(Key(key)) = map.next_key::<Key<'a>>()? {
            let letters = key.bytes().filter(u8::is_ascii_alphanumeric);
            self.path.extend(letters.map(|byte| char::from(byte.to_ascii_lowercase())));
            if self.path.len() > 200 {
                map.next_value::<IgnoredAny>()?;
            } else {
                let value: &'a RawValue = map.next_value()?;
                if value.get().starts_with('{') && self.depth < DEPTH {
                    let (fields, path) = (&mut *self.fields, &mut *self.path);
                    Walk { fields, path, depth: self.depth + 1 }.object(value.get());
                } else {
                    self.fields.value(self.path, own, value);
                }
            }
            self.path.truncate(own);
        }
        Ok(())
    }
}

/// A key, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] std::borrow::Cow<'a, str>);

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
