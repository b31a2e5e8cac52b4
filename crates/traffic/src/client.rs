//! Which part of a log line names the client, whatever stands around it.
//!
//! Every format uses these functions, so an address reads the same with a port, in brackets, with
//! a zone, or within a chain of forwarded addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU8;
use std::str::FromStr;

use crate::address::quick_ipv4;
use crate::error::Error;

/// Which entry of a chain of addresses (`X-Forwarded-For`) is the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientFrom {
    /// The left-most address that is not private, loopback, link-local or shared (RFC 6598); if all are, the
    /// left-most address.
    #[default]
    Public,
    /// The left-most entry.
    First,
    /// The right-most entry.
    Last,
    /// The entry with this number from the left; the right-most where the chain is shorter.
    Nth(NonZeroU8),
}

impl fmt::Display for ClientFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Public => f.pad("public"),
            Self::First => f.pad("first"),
            Self::Last => f.pad("last"),
            Self::Nth(number) => write!(f, "{number}"),
        }
    }
}

impl FromStr for ClientFrom {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "public" => Ok(Self::Public),
            "first" => Ok(Self::First),
            "last" => Ok(Self::Last),
            number => number
                .parse()
                .map(Self::Nth)
                .map_err(|_| Error::NoSuchEntry { text: number.to_owned() }),
        }
    }
}

/// An address or host name without what may stand around it: spaces, quotes, parentheses,
/// brackets, a port, the zone of an IPv6 address, the `for=` of a `Forwarded` field.
pub(crate) fn entry(text: &[u8]) -> &[u8] {
    let mut text = trim(text);
    if let Some(at) = find_for(text) {
        let rest = &text[at..];
        let end = rest.iter().position(|&byte| byte == b';').unwrap_or(rest.len());
        text = trim(&rest[..end]);
    }
    text = in_brackets(text).unwrap_or_else(|| without_port(text));
    if let Some(zone) = text.iter().position(|&byte| byte == b'%') {
        text = &text[..zone];
    }
    match text.get(..7) {
        Some(mapped) if mapped.eq_ignore_ascii_case(b"::ffff:") && text.contains(&b'.') => {
            &text[7..]
        }
        _ => text,
    }
}

/// Where the value of `for=` begins.
fn find_for(text: &[u8]) -> Option<usize> {
    let at = text.windows(4).position(|four| four.eq_ignore_ascii_case(b"for="))?;
    (at == 0 || matches!(text[at - 1], b';' | b' ')).then_some(at + 4)
}

fn trim(text: &[u8]) -> &[u8] {
    let is_around = |byte: &u8| matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'(' | b')' | b',');
    let start = text.iter().position(|byte| !is_around(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_around(byte)).map_or(start, |last| last + 1);
    &text[start..end]
}

/// The address in `[2001:db8::1]:443`.
fn in_brackets(text: &[u8]) -> Option<&[u8]> {
    let rest = text.strip_prefix(b"[")?;
    let inner = &rest[..rest.iter().position(|&byte| byte == b']')?];
    (inner.contains(&b':') || address(inner).is_some()).then_some(inner)
}

/// A colon with nothing or digits behind it is a port's, unless the whole is an IPv6 address.
fn without_port(text: &[u8]) -> &[u8] {
    let Some(colon) = text.iter().rposition(|&byte| byte == b':') else { return text };
    let port = &text[colon + 1..];
    let is_port = port.len() <= 5 && port.iter().all(u8::is_ascii_digit);
    let host = &text[..colon];
    let is_v6 = host.contains(&b':');
    if !is_port || (is_v6 && (address(text).is_some() || address(host).is_none())) {
        return text;
    }
    host
}

/// The address that a cleaned entry is.
pub(crate) fn address(entry: &[u8]) -> Option<IpAddr> {
    if let Some(v4) = quick_ipv4(entry) {
        return Some(IpAddr::V4(v4));
    }
    std::str::from_utf8(entry).ok()?.parse().ok()
}

/// Whether an address may be a client's on the internet. Documentation ranges count as such, since
/// examples and anonymised logs use them.
pub(crate) fn is_public(address: IpAddr) -> bool {
    const SHARED: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 0);
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let is_shared = v4.to_bits() & 0xffc0_0000 == SHARED.to_bits();
            !(v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_unspecified()
                || is_shared)
        }
        IpAddr::V6(v6) => {
            !(v6.is_loopback()
                || v6 == Ipv6Addr::UNSPECIFIED
                || v6.is_unicast_link_local()
                || v6.is_unique_local())
        }
    }
}

/// The client in a chain of entries with commas between them, or in a single entry, cleaned.
/// `None` where nothing in it is an address, a host name or the `-` of a missing one.
pub(crate) fn pick(chain: &[u8], from: ClientFrom) -> Option<&[u8]> {
    // Nothing stands around most clients.
    if quick_ipv4(chain).is_some() {
        return Some(chain);
    }
    if !chain.contains(&b',') {
        return Some(entry(chain)).filter(|entry| is_client(entry));
    }
    let entries = || chain.split(|&byte| byte == b',').map(entry).filter(|it| is_client(it));
    let is_address = |entry: &&[u8]| address(entry).is_some();
    match from {
        ClientFrom::Public => entries()
            .find(|entry| address(entry).is_some_and(is_public))
            .or_else(|| entries().find(is_address))
            .or_else(|| entries().next()),
        ClientFrom::First => entries().next(),
        ClientFrom::Last => entries().next_back(),
        ClientFrom::Nth(number) => entries().take(usize::from(number.get())).last(),
    }
}

/// Whether a text is a chain: entries with commas between them, or one in parentheses behind another.
pub(crate) fn is_chain(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b',' | b'('))
}

/// The client by what a server logged of the other end of the connection and of the chain that
/// proxies wrote. A chain without a public address counts less than another end on the internet.
pub(crate) fn of<'a>(peer: &'a [u8], chain: &'a [u8], from: ClientFrom) -> Option<&'a [u8]> {
    if chain.is_empty() && quick_ipv4(peer).is_some() {
        return Some(peer);
    }
    let given =
        |text: &'a [u8]| pick(text, from).filter(|entry| entry.is_ascii() && *entry != b"-");
    let is_chosen =
        |entry: &&[u8]| from != ClientFrom::Public || address(entry).is_some_and(is_public);
    let is_far = |entry: &&[u8]| address(entry).map_or(entry.contains(&b'.'), is_public);
    let is_near = |entry: &&[u8]| address(entry).is_some();
    let (peer, chain) = (given(peer), given(chain));
    let chosen = chain.filter(is_chosen).or(peer.filter(is_far));
    chosen.or(chain.filter(is_near)).or(peer).or(chain)
}

/// Whether a cleaned entry can be a client: an address, a host name, or the `-` of a missing one.
pub(crate) fn is_client(entry: &[u8]) -> bool {
    entry == b"-" || is_host(entry) || address(entry).is_some()
}

/// Letters, digits and what names of hosts and sockets hold besides; digits alone are no name.
pub(crate) fn is_host(entry: &[u8]) -> bool {
    entry.iter().any(u8::is_ascii_alphabetic)
        && entry
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
}

/// The client among the words in front of ` ident user [`, where it is not simply the first one.
///
/// A host name before the `-` of `ident` wins, then the public address nearest to `ident`, then
/// the left-most of the addresses in front of it; a chain with commas counts as one word. Without
/// an address it is the host name nearest to `ident`, if the word before it shows that it is not a
/// part of the user's name, else the first word.
pub(crate) fn in_front(front: &[u8], from: ClientFrom) -> Option<&[u8]> {
    let words: Vec<&[u8]> = units(front);
    let first = *words.first()?;
    let names = match words.len() {
        0..=3 => &words[..1],
        len => &words[..len - 2],
    };
    if let Some(name) = name_before_dash(&words) {
        return Some(name);
    }
    let is_address = |word: &&[u8]| picked(word, from).is_some();
    let leading = picked(first, from).filter(|_| words.get(1) == Some(&&b"-"[..]));
    // With a port, and another address behind it, it is the server's own.
    let names = match names {
        [host, rest @ ..] if has_port(host) && rest.last().is_some_and(is_address) => rest,
        names => names,
    };
    let mut addresses =
        leading.into_iter().chain(names.iter().rev().filter_map(|word| picked(word, from)));
    let nearest = addresses.clone().find(|it| address(it).is_some_and(is_public));
    let nearest = nearest.or_else(|| left_most(names, from)).or_else(|| addresses.next());
    if nearest.is_some() {
        return nearest;
    }
    let [.., before, last] = names else { return pick(first, from) };
    let marks_a_name = |word: &[u8]| word.contains(&b':');
    let name = entry(last);
    let is_name =
        is_host(name) && (name.contains(&b'.') || marks_a_name(before) || marks_a_name(first));
    if is_name { Some(name) } else { pick(first, from) }
}

/// The host name before the `-` of `ident`, behind the virtual host or what else stands in front.
/// Behind an address that begins the line and has no port it is not the client's, but the virtual host.
fn name_before_dash<'a>(words: &[&'a [u8]]) -> Option<&'a [u8]> {
    let [first, rest @ ..] = words else { return None };
    let [before @ .., name] = &rest[..rest.iter().position(|word| *word == b"-")?] else {
        return None;
    };
    let is_client = picked(first, ClientFrom::First).is_some() && !has_port(first);
    // `host ident -` has as many words in front of the time as `vhost host -`.
    let is_whole = before.len() + 3 < words.len();
    let name = entry(name);
    (is_whole && !is_client && is_host(name) && address(name).is_none()).then_some(name)
}

/// Among addresses in front of `ident` with nothing else between them: the one in a chain or in
/// parentheses, else the left-most.
fn left_most<'a>(names: &[&'a [u8]], from: ClientFrom) -> Option<&'a [u8]> {
    let is_one = |word: &&&[u8]| **word == b"-" || picked(word, from).is_some();
    let run = &names[names.len() - names.iter().rev().take_while(is_one).count()..];
    let forwarded = run.iter().find(|word| word.starts_with(b"(") || word.contains(&b','));
    let first = || run.iter().find(|word| **word != b"-");
    picked(forwarded.or_else(first)?, from)
}

/// Whether an entry ends in a port.
pub(crate) fn has_port(text: &[u8]) -> bool {
    let text = trim(text);
    let is_in_brackets = text.starts_with(b"[") && !text.ends_with(b"]");
    is_in_brackets || without_port(text).len() < text.len()
}

/// An address in a word.
fn picked(word: &[u8], from: ClientFrom) -> Option<&[u8]> {
    pick(word, from).filter(|entry| address(entry).is_some())
}

/// Words, those that a comma joins as one.
fn units(front: &[u8]) -> Vec<&[u8]> {
    let mut units = Vec::new();
    let (mut start, mut at) = (None, 0);
    for word in front.split(|&byte| byte == b' ') {
        let end = at + word.len();
        if !word.is_empty() {
            let begin = *start.get_or_insert(at);
            if !word.ends_with(b",") {
                units.push(&front[begin..end]);
                start = None;
            }
        }
        at = end + 1;
    }
    units.extend(start.map(|begin| front[begin..].trim_ascii_end()));
    units
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
