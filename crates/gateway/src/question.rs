//! Requests in the form in which the server gets them.

pub(crate) mod plain;

use std::borrow::Cow;
use std::sync::Arc;

use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VIA,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use nightwatt_http1::Interim;
use nightwatt_httpcache::sharing::FieldNames;
use nightwatt_httpcache::{fields, normal_authority, update};

use crate::facts::{FORWARDED_PROTO, Facts, REQUEST_ID};
use crate::forwarded::FORWARDED_FOR;
use crate::hit::Found;
use crate::hold::Spool;
use crate::request_body::{Question, Sending, listed, trailer_names};
use crate::request_rules::{may_be_of_the_connection, may_be_trailer};
use crate::site::Site;

const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED: HeaderName = HeaderName::from_static("forwarded");

/// A request to a server, with context.
pub(crate) struct Asking<'a> {
    pub(crate) site: &'a Site,
    pub(crate) facts: &'a Facts,
    pub(crate) parts: &'a Parts,
    /// The stored answer for it.
    pub(crate) found: Option<&'a Found>,
}

impl Asking<'_> {
    /// The request for the server. Also returns whether it asks the server to confirm what is stored.
    pub(crate) fn question(
        &self,
        spool: Spool,
        validate: bool,
        sending: &Arc<Sending>,
    ) -> (Request<Question>, bool) {
        let mut headers = self.parts.headers.clone();
        let length = headers.get(CONTENT_LENGTH).cloned();
        let chunked = headers.contains_key(TRANSFER_ENCODING);
        let admittance = self.site.admittance.as_deref();
        let path = self.site.path_rule(self.facts.path());
        let withheld = |name: &HeaderName| {
            admittance.is_some_and(|it| it.withholds(name))
                || path.is_some_and(|it| it.withholds(name))
        };
        let announced = announced(&headers, withheld).filter(|_| chunked);
        let takes_trailers = takes_trailers(&headers);
        // What `Connection` names has been dropped.
        fields::remove_hop_by_hop(&mut headers);
        headers.remove(EXPECT);
        let site = self.site;
        let host = if self.facts.authority.is_empty() {
            &site.config.origin.authority
        } else {
            &self.facts.authority
        };
        insert(&mut headers, HOST, host);
        insert(&mut headers, REQUEST_ID, &self.facts.id);
        forwarded(&mut headers, self.facts);
        let is_http2 = self.parts.version == http::Version::HTTP_2;
        headers.append(VIA, site.mark.via[usize::from(is_http2)].clone());
        let validating = validate
            && self
                .found
                .is_some_and(|found| update::add_validators(&mut headers, &[&found.object.stored]));
        if chunked {
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        if let Some(announced) = announced {
            // Trailers that are not announced are not sent.
            headers.insert(TRAILER, announced);
        }
        let offered = offered(self.parts);
        let is_handshake = offered.is_some() && self.parts.method == Method::GET;
        for_this_connection(&mut headers, offered, takes_trailers);
        let limit = path.map_or(&self.site.limits, |it| &it.limits).largest_body();
        let rest = spool.rest.filter(|_| length.is_some() || chunked);
        let body = Question::new(spool.kept, rest, limit, sending);
        match length {
            // A length of 0 means no body, and some servers reject a handshake with a length.
            Some(none) if is_handshake && none == "0" => drop(headers.remove(CONTENT_LENGTH)),
            Some(length) => drop(headers.insert(CONTENT_LENGTH, length)),
            None => {}
        }
        let mut target = Cow::Borrowed(self.facts.target.as_str());
        if let Some(path) = path {
            path.change_request(&mut headers);
            target = path.target(&target).into_owned().into();
        }
        let mut request = Request::new(body);
        *request.method_mut() = self.parts.method.clone();
        *request.uri_mut() = target.parse().unwrap_or_default();
        *request.headers_mut() = headers;
        if let Some(interim) = self.parts.extensions.get::<Interim>() {
            request.extensions_mut().insert(interim.clone());
        }
        (request, validating)
    }
}

/// What concerns the connection to the server alone: another protocol that is offered, or trailers that are taken.
fn for_this_connection(headers: &mut HeaderMap, offered: Option<HeaderValue>, trailers: bool) {
    if let Some(offered) = offered {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, offered);
    } else if trailers {
        headers.insert(CONNECTION, HeaderValue::from_static("te"));
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

/// Whether the client offers to switch protocols.
pub(crate) fn asks_to_upgrade(parts: &Parts) -> bool {
    offered(parts).is_some()
}

/// The protocols that a client offers to switch to (RFC 9110, 7.8), as sent to the server.
fn offered(parts: &Parts) -> Option<HeaderValue> {
    let mut options = listed(&parts.headers, CONNECTION);
    if parts.version != http::Version::HTTP_11
        || !options.any(|it| it.eq_ignore_ascii_case("upgrade"))
    {
        return None;
    }
    let offered: Vec<&str> = listed(&parts.headers, UPGRADE).filter(|it| is_opaque(it)).collect();
    HeaderValue::from_str(&offered.join(", ")).ok().filter(|_| !offered.is_empty())
}

/// Whether a protocol does not carry HTTP. Requests within a tunnel would bypass this proxy, so HTTP/2 (for which RFC
/// 9113 removed the upgrade) and TLS are not passed on.
fn is_opaque(protocol: &str) -> bool {
    let name = protocol.split('/').next().unwrap_or_default().to_ascii_lowercase();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~/".contains(&byte);
    let is_http = ["h2", "h3", "http", "tls"].iter().any(|it| name.starts_with(it));
    !name.is_empty() && !is_http && protocol.bytes().all(plain)
}

/// Whether the client offered every protocol that the server names in its 101.
pub(crate) fn is_offered(parts: &Parts, said: &HeaderMap) -> bool {
    let name = |protocol: &str| protocol.split('/').next().unwrap_or_default().to_ascii_lowercase();
    let offered = offered(parts);
    let offered = offered.as_ref().and_then(|it| it.to_str().ok());
    offered.is_some_and(|offered| {
        let names: Vec<String> = offered.split(", ").map(name).collect();
        listed(said, UPGRADE).all(|it| names.contains(&name(it)))
    })
}

/// The announced trailers, except those that a server might take for header fields. (hyper drops those over HTTP/1.1
/// only.)
fn announced(headers: &HeaderMap, withheld: impl Fn(&HeaderName) -> bool) -> Option<HeaderValue> {
    let harmless = |name: &&str| {
        HeaderName::from_bytes(name.as_bytes())
            .is_ok_and(|it| may_be_trailer(name) && !withheld(&it))
    };
    let names: Vec<&str> = trailer_names(headers).filter(harmless).collect();
    HeaderValue::from_str(&names.join(", ")).ok().filter(|_| !names.is_empty())
}

/// Removes the fields that `Connection` names, since the server will not get them: fields that it did not see must not
/// decide anything, least of all which stored answer is used. Fields about this connection itself stay for their
/// readers.
pub(crate) fn drop_what_connection_names(headers: &mut HeaderMap) {
    for name in fields::named_by_connection(headers) {
        if may_be_of_the_connection(name.as_str()) {
            headers.remove(name);
        }
    }
}

/// Removes what the server does not get from this client: fields that only trusted proxies may set, and harmful ones.
/// So forged fields affect neither the cache nor the server.
///
/// Returns what the names of the other fields reveal.
pub(crate) fn drop_what_is_not_passed_on(
    headers: &mut HeaderMap,
    from_trusted_proxy: bool,
) -> FieldNames {
    let (mut names, mut dropped) = (FieldNames::default(), Vec::new());
    for name in headers.keys() {
        match names.with(name, from_trusted_proxy) {
            Some(more) => names = more,
            None => dropped.push(name.clone()),
        }
    }
    for name in dropped {
        headers.remove(name);
    }
    names
}

fn takes_trailers(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(TE).iter();
    codings
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// Adds the fields that name the client. The client's own were removed, unless it is a trusted proxy.
fn forwarded(headers: &mut HeaderMap, facts: &Facts) {
    let (client, peer) = (facts.address.as_str(), facts.peer.to_string());
    let mut chain: Vec<&str> =
        headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok()).collect();
    if chain.is_empty() && client != peer {
        // By `Forwarded`.
        chain.push(client);
    }
    chain.push(&peer);
    let chain = chain.join(", ");
    insert(headers, FORWARDED_FOR, &chain);
    let proto = if facts.secure { "https" } else { "http" };
    if headers.contains_key(FORWARDED) {
        // Readers of this form find the last hop in it too (RFC 7239, 4).
        let node = if facts.peer.is_ipv6() { format!("\"[{peer}]\"") } else { peer };
        if let Ok(element) = HeaderValue::from_str(&format!("for={node};proto={proto}")) {
            headers.append(FORWARDED, element);
        }
    }
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static(proto));
    // Another spelling of the same name is replaced by this one, which the cache's key has.
    let is_another = |told: &HeaderValue| {
        told.to_str()
            .is_ok_and(|told| normal_authority(facts.secure, told.trim()) != facts.authority)
    };
    let names_another = headers.get_all(FORWARDED_HOST).iter().any(is_another);
    if !names_another && !facts.authority.is_empty() {
        insert(headers, FORWARDED_HOST, &facts.authority);
    }
}
