//! The client for which a trusted proxy speaks: `X-Forwarded-For`, and `Forwarded` (RFC 7239).
//!
//! Only one of the two fields counts. A proxy that sets one may pass on what its client wrote into the other, so
//! `Forwarded` counts only without `X-Forwarded-For`, unless `client_field` of the configuration selects one. If both
//! are there, and `client_field` selects none, it is not certain which client it is, unless both name the same.
//!
//! Both are read from their end, which the trusted proxy has written. What precedes an address that is not a trusted
//! proxy, or an element without an address, may be forged.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::FORWARDED;
use http::{HeaderMap, HeaderName, HeaderValue};
use nightwatt_traffic::address;

use crate::config::{ClientField, Network};

pub(crate) const FORWARDED_FOR_NAME: &str = "x-forwarded-for";
pub(crate) const FORWARDED_FOR: HeaderName = HeaderName::from_static(FORWARDED_FOR_NAME);

/// What trusted proxies report about a request's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpokenFor {
    /// The last address that is not a trusted proxy's, or that of the trusted proxy beyond which nothing is known.
    pub(crate) client: IpAddr,
    /// Whether that client used TLS to its proxy, if `Forwarded` says so.
    pub(crate) secure: Option<bool>,
    /// An element that counts names no client in a form that can be parsed.
    pub(crate) is_unreadable: bool,
    /// The client is named, and by one address.
    pub(crate) is_certain: bool,
}

impl SpokenFor {
    /// The peer speaks for itself.
    pub(crate) fn itself(peer: IpAddr) -> Self {
        let client = peer.to_canonical();
        Self { client, secure: None, is_unreadable: false, is_certain: true }
    }

    /// What a trusted proxy reports, by the values of the two fields. `field` is the one that counts.
    pub(crate) fn by_proxy<'a>(
        trusted: &[Network],
        field: Option<ClientField>,
        peer: IpAddr,
        x_forwarded_for: impl Iterator<Item = &'a [u8]>,
        forwarded: impl Iterator<Item = &'a [u8]>,
    ) -> Self {
        let unnamed = Self { is_certain: false, ..Self::itself(peer) };
        let mut spoken = unnamed;
        let listed = x_forwarded_for.filter(|_| field != Some(ClientField::Forwarded));
        let listed: Vec<&[u8]> =
            listed.flat_map(|value| value.split(|byte| *byte == b',')).collect();
        let is_blank = |it: &&&[u8]| it.trim_ascii().is_empty();
        if listed.iter().any(|it| !is_blank(&it)) {
            let elements = listed.iter().rev().filter(|it| !is_blank(it));
            spoken
                .follow(trusted, elements.map(|it| Element { node: Node::read(it), secure: None }));
            let other: Vec<Element> =
                forwarded.filter(|_| field.is_none()).flat_map(elements_of).collect();
            if !other.is_empty() {
                let mut second = unnamed;
                second.follow(trusted, other.into_iter().rev());
                let is_same = second.client.to_canonical() == spoken.client.to_canonical();
                spoken.is_certain &= second.is_certain && is_same;
            }
        } else if field != Some(ClientField::XForwardedFor) {
            let elements: Vec<Element> = forwarded.flat_map(elements_of).collect();
            spoken.follow(trusted, elements.into_iter().rev());
        }
        spoken.client = spoken.client.to_canonical();
        spoken
    }

    /// The same from the fields of a request.
    pub(crate) fn of(
        trusted: &[Network],
        field: Option<ClientField>,
        peer: IpAddr,
        headers: &HeaderMap,
    ) -> Self {
        let values = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes);
        Self::by_proxy(trusted, field, peer, values(FORWARDED_FOR), values(FORWARDED))
    }

    /// Follows the proxies, the last one first.
    fn follow(&mut self, trusted: &[Network], elements: impl Iterator<Item = Element>) {
        let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
        for Element { node, secure } in elements {
            match node {
                Node::Address(address) => {
                    (self.client, self.secure, self.is_certain) = (address, secure, true);
                    if !is_trusted(address) {
                        return;
                    }
                }
                Node::Unnamed => {
                    (self.secure, self.is_certain) = (secure, false);
                    return;
                }
                Node::Unreadable => {
                    (self.is_unreadable, self.is_certain) = (true, false);
                    return;
                }
            }
        }
    }
}

/// One hop.
struct Element {
    node: Node,
    secure: Option<bool>,
}

/// The client of a hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Address(IpAddr),
    /// The proxy does not name it, or only by an identifier of its own (RFC 7239, 6.2 and 6.3).
    Unnamed,
    Unreadable,
}

impl Node {
    fn read(text: &[u8]) -> Self {
        let Ok(text) = std::str::from_utf8(text) else { return Self::Unreadable };
        if let Some(address) = address::read(text) {
            return Self::Address(address);
        }
        let bare = address::unquoted(text.trim());
        let name = bare.split_once(':').map_or(bare, |(name, _)| name);
        let is_hidden = |it: &str| {
            !it.is_empty()
                && it.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        };
        if name.eq_ignore_ascii_case("unknown") || name.strip_prefix('_').is_some_and(is_hidden) {
            Self::Unnamed
        } else {
            Self::Unreadable
        }
    }
}

/// The elements of one `Forwarded` field. If its quotes do not match, no part of it can be parsed.
fn elements_of(value: &[u8]) -> Vec<Element> {
    let Some(elements) = split_unquoted(value, b',') else {
        return vec![Element { node: Node::Unreadable, secure: None }];
    };
    let elements = elements.into_iter().filter(|it| !it.trim_ascii().is_empty());
    elements.map(element).collect()
}

fn element(text: &[u8]) -> Element {
    let mut element = Element { node: Node::Unnamed, secure: None };
    // Quotes match in the whole, so they match here.
    for pair in split_unquoted(text, b';').unwrap_or_default() {
        let mut parts = pair.splitn(2, |byte| *byte == b'=');
        let name = parts.next().unwrap_or_default().trim_ascii();
        let value = parts.next().unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"for") {
            element.node = Node::read(value);
        } else if name.eq_ignore_ascii_case(b"proto") {
            let value =
                value.strip_prefix(b"\"").and_then(|it| it.strip_suffix(b"\"")).unwrap_or(value);
            element.secure = Some(value.eq_ignore_ascii_case(b"https"));
        }
    }
    element
}

/// Splits at a separator outside of quotes; nothing if a quote is left open.
fn split_unquoted(text: &[u8], separator: u8) -> Option<Vec<&[u8]>> {
    let (mut parts, mut start, mut at) = (Vec::new(), 0, 0);
    let mut is_quoted = false;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\\' if is_quoted => at += 1,
            byte if *byte == separator && !is_quoted => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    parts.push(&text[start..]);
    (!is_quoted).then_some(parts)
}

/// Requests for which a trusted proxy named no client in a form that can be parsed.
#[derive(Debug, Default)]
pub(crate) struct Unreadable(AtomicU64);

impl Unreadable {
    /// Counts a request; the first one is logged.
    pub(crate) fn count(&self, peer: IpAddr, headers: &HeaderMap) {
        if self.0.fetch_add(1, Ordering::Relaxed) > 0 {
            return;
        }
        let values = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes);
        let said: Vec<_> =
            values(FORWARDED_FOR).chain(values(FORWARDED)).map(<[u8]>::escape_ascii).collect();
        let said = said.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ");
        tracing::warn!(
            %peer,
            %said,
            "a trusted proxy names its client in a way that cannot be read, so the proxy itself counts as the \
             client: have it send the client's address in X-Forwarded-For (docs/caching.md, Behind another \
             proxy). This is logged once; nightwatt_unreadable_clients_total counts on"
        );
    }

    /// So far.
    pub(crate) fn total(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const TRUSTING: &str = "listen = [\"127.0.0.1:0\"]\ntrusted_proxies = [\"10.0.0.0/8\"]\n";
    const SITE: &str = "[[site]]\nname = \"a\"\norigin = \"http://a:1\"\npower.simulated = {}\n";

    fn config(more: &str) -> Config {
        let text = format!("{TRUSTING}{more}\n{SITE}");
        Config::parse(&text, "test").unwrap_or_else(|error| panic!("{error}"))
    }

    fn spoken(config: &Config, x_forwarded_for: &[&[u8]], forwarded: &[&[u8]]) -> SpokenFor {
        let peer = "10.0.0.1".parse().unwrap();
        let (trusted, field) = (&config.trusted_proxies, config.client_field);
        let (listed, forwarded) = (x_forwarded_for.iter().copied(), forwarded.iter().copied());
        SpokenFor::by_proxy(trusted, field, peer, listed, forwarded)
    }

    #[test]
    fn the_client_is_the_last_address_that_is_no_trusted_proxy() {
        let config = config("");
        for (fields, client, is_unreadable) in [
            (&[&b"203.0.113.9"[..]][..], "203.0.113.9", false),
            (&[b"203.0.113.9:51008"], "203.0.113.9", false),
            (&[b"[2001:db8::1]:443"], "2001:db8::1", false),
            (&[b"\"[::1]\""], "::1", false),
            (&[b"198.51.100.1:80, \"[2001:db8::9]:1\" , 10.0.0.2:4711"], "2001:db8::9", false),
            (&[b"::ffff:203.0.113.9"], "203.0.113.9", false),
            (&[b"\xff, 203.0.113.9"], "203.0.113.9", false),
            (&[b"\xff", b"203.0.113.9, 10.0.0.2"], "203.0.113.9", false),
            (&[b"198.51.100.1, 203.0.113.9 , 10.0.0.2, "], "203.0.113.9", false),
            (&[b"10.0.0.3, 10.0.0.2"], "10.0.0.3", false),
            (&[b"198.51.100.1, unknown"], "10.0.0.1", false),
            (&[b"198.51.100.1, _hidden, 10.0.0.2"], "10.0.0.2", false),
            (&[b"198.51.100.1, \xff, 10.0.0.2"], "10.0.0.2", true),
            (&[b"198.51.100.1, example.org"], "10.0.0.1", true),
            (&[], "10.0.0.1", false),
            (&[b" , "], "10.0.0.1", false),
        ] {
            let found = spoken(&config, fields, &[]);
            assert_eq!(found.client.to_string(), client, "{fields:?}");
            assert_eq!((found.is_unreadable, found.secure), (is_unreadable, None), "{fields:?}");
        }
    }

    #[test]
    fn forwarded_is_read_as_rfc_7239_has_it() {
        let config = config("");
        for (fields, client, secure, is_unreadable) in [
            (&[&b"for=203.0.113.9"[..]][..], "203.0.113.9", None, false),
            (&[b"For=\"[2001:db8::1]:443\" ; Proto=https;by=10.0.0.1"], "2001:db8::1", Some(true), false),
            (&[b"for=198.51.100.1;proto=http, for=203.0.113.9;proto=https, for=10.0.0.2;proto=http"], "203.0.113.9", Some(true), false),
            (&[b"for=198.51.100.1", b"for=\"203.0.113.9:1\""], "203.0.113.9", None, false),
            (&[b"for=198.51.100.1, for=unknown;proto=https"], "10.0.0.1", Some(true), false),
            (&[b"for=198.51.100.1, for=_x"], "10.0.0.1", None, false),
            (&[b"for=198.51.100.1, for=\"_x:80\""], "10.0.0.1", None, false),
            (&[b"for=198.51.100.1, proto=https"], "10.0.0.1", Some(true), false),
            (&[b"for=198.51.100.1, for=example.org"], "10.0.0.1", None, true),
            // Text of a client in quotes names no client.
            (&[b"for=203.0.113.9;host=\"x, for=198.51.100.1;y\\\", for=198.51.100.2\""], "203.0.113.9", None, false),
            (&[b"for=\"198.51.100.1, for=203.0.113.9"], "10.0.0.1", None, true),
            (&[b"for=\"198.51.100.1", b"for=203.0.113.9"], "203.0.113.9", None, false),
        ] {
            let found = spoken(&config, &[], fields);
            let text = String::from_utf8_lossy(fields[0]);
            assert_eq!(found.client.to_string(), client, "{text}");
            assert_eq!((found.secure, found.is_unreadable), (secure, is_unreadable), "{text}");
        }
    }

    #[test]
    fn a_client_is_certain_if_it_is_named_and_by_one_address() {
        let config = config("");
        for (listed, forwarded, is_certain) in [
            (&[&b"203.0.113.9"[..]][..], &[][..], true),
            (&[b"203.0.113.9, 10.0.0.2"], &[], true),
            (&[], &[&b"for=203.0.113.9, for=10.0.0.2"[..]], true),
            // A client within the networks of the proxies.
            (&[b"10.0.0.3"], &[], true),
            (&[b"203.0.113.9"], &[b"for=203.0.113.9;proto=https"], true),
            (&[b"2001:db8::1"], &[b"for=\"[2001:DB8:0::1]:443\""], true),
            (&[b"::ffff:203.0.113.9"], &[b"for=203.0.113.9"], true),
            (&[b"198.51.100.1, 203.0.113.9"], &[b"for=198.51.100.2, for=203.0.113.9"], true),
            (&[b"203.0.113.9"], &[b"for=198.51.100.1"], false),
            (&[b"203.0.113.9"], &[b"for=203.0.113.9, for=198.51.100.1"], false),
            (&[b"203.0.113.9"], &[b"for=203.0.113.9", b"for=198.51.100.1"], false),
            (&[b"203.0.113.9"], &[b"for=_hidden"], false),
            (&[b"203.0.113.9"], &[b"for=\"203.0.113.9"], false),
            (&[b"203.0.113.9"], &[b"proto=https"], false),
            (&[b"unknown"], &[b"for=203.0.113.9"], false),
            (&[], &[], false),
            (&[b""], &[], false),
            (&[b"unknown"], &[], false),
            (&[b"203.0.113.9, _hidden, 10.0.0.2"], &[], false),
            (&[b"203.0.113.9, example.org"], &[], false),
            (&[], &[b"proto=https"], false),
        ] {
            let found = spoken(&config, listed, forwarded);
            let text = |it: &[&[u8]]| it.concat().escape_ascii().to_string();
            assert_eq!(found.is_certain, is_certain, "{} | {}", text(listed), text(forwarded));
        }
        for field in ["x-forwarded-for", "forwarded"] {
            let config = self::config(&format!("client_field = \"{field}\""));
            let found = spoken(&config, &[b"203.0.113.9"], &[b"for=198.51.100.1"]);
            assert!(found.is_certain, "{field} counts alone");
        }
    }

    /// A client may fill in the field that its proxy does not set.
    #[test]
    fn only_one_of_the_two_fields_counts() {
        let (real, forged) = ([&b"203.0.113.9"[..]], [&b"for=198.51.100.1;proto=https"[..]]);
        let found = spoken(&config(""), &real, &forged);
        assert_eq!((found.client.to_string().as_str(), found.secure), ("203.0.113.9", None));
        // Unreadable is not absent.
        let found = spoken(&config(""), &[b"example.org"], &forged);
        assert_eq!((found.client.to_string().as_str(), found.is_unreadable), ("10.0.0.1", true));
        let only = config("client_field = \"x-forwarded-for\"");
        assert_eq!(spoken(&only, &[], &forged).client.to_string(), "10.0.0.1");
        let other = config("client_field = \"forwarded\"");
        assert_eq!(spoken(&other, &real, &forged).client.to_string(), "198.51.100.1");
        assert_eq!(spoken(&other, &real, &[]).client.to_string(), "10.0.0.1");
    }
}
