//! The rules that the fast path (`fast_path`) and the slow path (`slow_path`) share: which paths the proxy answers by
//! itself, and how it treats the fields of a request.
//!
//! Both paths read these tables, so a rule is written once. The test `both_paths` compares the results of the two for
//! generated requests.

use http::{HeaderMap, HeaderName, Method};
use nightwatt_httpcache::sharing;
use nightwatt_policy::admission::{self, ClientClass, Want};

use crate::answers;
use crate::client_facts::{FETCH_DEST, FETCH_MODE};
use crate::config::{CHALLENGE_PATH, SiteConfig};

/// Where rules for crawlers are (RFC 9309).
pub(crate) const ROBOTS: &str = "/robots.txt";

/// A path that the proxy answers by itself, or may have to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnPath {
    /// The proof that a certificate authority requests. The server may have one of its own.
    Challenge,
    /// The waiting page asks for the server's state.
    State,
    /// A health check.
    Health,
    /// An icon: answered by the proxy only while the server sleeps and nothing is stored.
    Icon,
}

impl OwnPath {
    /// The proxy's own path that this is, if any. The query is not part of a path.
    pub(crate) fn of(site: &SiteConfig, path: &str) -> Option<Self> {
        if path == answers::STATE_PATH {
            return Some(Self::State);
        }
        if path.starts_with(CHALLENGE_PATH) {
            return Some(Self::Challenge);
        }
        if site.clients.is_health_check(path) {
            return Some(Self::Health);
        }
        site.icons.iter().any(|icon| icon == path).then_some(Self::Icon)
    }

    /// Whether a stored answer may be sent without consulting the proxy's own answers.
    pub(crate) const fn may_be_cached(self) -> bool {
        matches!(self, Self::Icon)
    }
}

/// Whether a server with a CGI interface may read a name as another: it sees all signs as underscores.
pub(crate) fn reads_alike(own: &HeaderName, name: &HeaderName) -> bool {
    let folded = |byte: u8| if byte.is_ascii_alphanumeric() { byte } else { b'-' };
    let (own, name) = (own.as_str().bytes(), name.as_str().bytes());
    own.len() == name.len() && own.map(folded).eq(name.map(folded))
}

/// Removes the fields whose names a server may read as one of these.
pub(crate) fn remove_alike(fields: &mut HeaderMap, is_meant: impl Fn(&HeaderName) -> bool) {
    let meant: Vec<HeaderName> = fields.keys().filter(|name| is_meant(name)).cloned().collect();
    for name in meant {
        fields.remove(name);
    }
}

/// The path of a target: everything before the query.
pub(crate) fn path_of(target: &str) -> &str {
    target.split_once('?').map_or(target, |(path, _)| path)
}

/// Facts that determine what a request wants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanting<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    /// `Accept` prefers a page to anything else.
    pub(crate) accepts_html: bool,
    pub(crate) class: ClientClass,
}

/// What a request wants, for admission. `field` returns the first value of a field of the request.
pub(crate) fn want<'f>(
    site: &SiteConfig,
    request: Wanting<'_>,
    field: impl Fn(&HeaderName) -> Option<&'f [u8]>,
) -> Want {
    let Wanting { method, path, accepts_html, class } = request;
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    match OwnPath::of(site, path) {
        Some(OwnPath::Health) if is_read => return Want::Health,
        Some(OwnPath::Icon) => return Want::Icon,
        Some(OwnPath::Health | OwnPath::State | OwnPath::Challenge) | None => {}
    }
    if path == ROBOTS {
        return Want::Robots;
    }
    if admission::is_proof(path) {
        return Want::Proof;
    }
    let opens = *method == Method::GET && accepts_html && class == ClientClass::Human;
    if opens && navigates(field) { Want::Page } else { Want::Other }
}

/// Fields by which script libraries announce that they fetch a part of a page. (Browsers send `Sec-Fetch-*` over TLS
/// only.)
static SCRIPTS: [HeaderName; 6] = [
    HeaderName::from_static("x-requested-with"),
    HeaderName::from_static("hx-request"),
    HeaderName::from_static("turbo-frame"),
    HeaderName::from_static("x-inertia"),
    HeaderName::from_static("x-pjax"),
    HeaderName::from_static("x-fragment"),
];

/// Whether a browser opens a page. No script can set `Sec-Fetch-Dest` (Fetch, 2.2.2); without it, scripts that fetch
/// HTML fragments set other fields, and a request without any of these comes from an old browser.
fn navigates<'f>(field: impl Fn(&HeaderName) -> Option<&'f [u8]>) -> bool {
    match field(&FETCH_DEST) {
        Some(b"document" | b"iframe") => field(&FETCH_MODE).is_none_or(|mode| mode == b"navigate"),
        Some(_) => false,
        None => {
            field(&FETCH_MODE).is_none_or(|mode| mode == b"navigate")
                && SCRIPTS.iter().all(|name| field(name).is_none())
        }
    }
}

/// Only the slow path reads it: the request is not for a whole stored answer.
const SLOW: u8 = 1;
/// The server does not get it unchanged: it belongs to the connection, or the proxy sets it.
const CHANGED: u8 = 2;
/// It names the client, or determines framing, parsing or routing: never a trailer (RFC 9110, 6.5.1).
const HEAD: u8 = 4;
/// `Connection` cannot remove it: the proxy itself uses it.
const OURS: u8 = 8;

/// How one request field is treated. Fields that are not in the table are passed on unchanged, if [`is_passed_on`]
/// allows.
struct Treatment {
    name: &'static str,
    marks: u8,
}

const fn treat(name: &'static str, marks: u8) -> Treatment {
    Treatment { name, marks }
}

/// In lower case. (`Host` and `Connection` are read by both paths, and by name.)
const TREATMENTS: [Treatment; 34] = [
    treat("authorization", HEAD),
    treat("cache-control", SLOW | HEAD),
    treat("connection", HEAD | OURS),
    treat("content-encoding", HEAD),
    treat("content-length", SLOW | HEAD | OURS),
    treat("content-range", HEAD),
    treat("content-type", HEAD),
    treat("cookie", HEAD),
    treat("expect", SLOW | HEAD | OURS),
    treat("forwarded", SLOW | OURS),
    treat("host", HEAD | OURS),
    treat("if-match", SLOW),
    treat("if-modified-since", SLOW),
    treat("if-none-match", SLOW),
    treat("if-range", SLOW),
    treat("if-unmodified-since", SLOW),
    treat("keep-alive", CHANGED | HEAD),
    treat("max-forwards", HEAD),
    treat("pragma", SLOW),
    treat("proxy-authenticate", CHANGED),
    treat("proxy-authentication-info", CHANGED),
    treat("proxy-authorization", CHANGED),
    treat("proxy-connection", CHANGED | HEAD),
    treat("range", SLOW),
    treat("set-cookie", HEAD),
    treat("te", SLOW | CHANGED | HEAD | OURS),
    treat("trailer", CHANGED | HEAD | OURS),
    treat("transfer-encoding", SLOW | CHANGED | HEAD | OURS),
    treat("upgrade", SLOW | HEAD | OURS),
    treat("via", CHANGED | HEAD),
    treat("x-forwarded-for", OURS),
    treat("x-forwarded-host", OURS),
    treat("x-forwarded-proto", OURS),
    treat("x-request-id", CHANGED | HEAD | OURS),
];

const fn count(mark: u8) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < TREATMENTS.len() {
        count += (TREATMENTS[at].marks & mark != 0) as usize;
        at += 1;
    }
    count
}

/// The names with a mark. Each mark has a table of its own, which the fast path searches for each field.
const fn names<const COUNT: usize>(mark: u8) -> [&'static str; COUNT] {
    let (mut names, mut filled, mut at) = ([""; COUNT], 0, 0);
    while at < TREATMENTS.len() {
        if TREATMENTS[at].marks & mark != 0 {
            names[filled] = TREATMENTS[at].name;
            filled += 1;
        }
        at += 1;
    }
    names
}

static SLOW_FIELDS: [&str; count(SLOW)] = names(SLOW);
static CHANGED_FIELDS: [&str; count(CHANGED)] = names(CHANGED);
static HEAD_FIELDS: [&str; count(HEAD)] = names(HEAD);
static OUR_FIELDS: [&str; count(OURS)] = names(OURS);

fn is_one_of(names: &[&str], name: &str) -> bool {
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Whether a request with this field is answered on the slow path only.
pub(crate) fn needs_slow_path(name: &str) -> bool {
    // Compares the first letter first: most fields that browsers send are not in the list.
    let may_be = matches!(
        name.as_bytes().first().map(|byte| byte | 0x20),
        Some(b'c' | b'e' | b'f' | b'i' | b'p' | b'r' | b't' | b'u')
    );
    may_be && is_one_of(&SLOW_FIELDS, name)
}

/// Whether the server gets this field of a client unchanged.
pub(crate) fn is_passed_unchanged(name: &str) -> bool {
    !is_one_of(&CHANGED_FIELDS, name) && is_passed_on(name, false)
}

/// Whether the server gets a field of this name at all, unless the proxy sets it.
pub(crate) fn is_passed_on(name: &str, from_trusted_proxy: bool) -> bool {
    sharing::is_passed_on(name.as_bytes(), from_trusted_proxy)
}

/// Whether this may be a trailer of a request. Servers that merge trailers into the head would trust others.
pub(crate) fn may_be_trailer(name: &str) -> bool {
    !is_one_of(&HEAD_FIELDS, name) && is_passed_on(name, false)
}

/// Whether `Connection` can name this field, so that the proxy does not pass it on.
pub(crate) fn may_be_of_the_connection(name: &str) -> bool {
    !is_one_of(&OUR_FIELDS, name)
}

#[cfg(test)]
mod tests {
    use nightwatt_httpcache::fields;

    use super::*;

    #[test]
    fn the_first_letters_leave_out_no_field_of_the_slow_path() {
        for name in SLOW_FIELDS {
            assert!(needs_slow_path(name), "{name}");
            assert!(needs_slow_path(&name.to_ascii_uppercase()), "{name}");
        }
        for name in ["host", "cookie", "accept", "connection", "content-type", "x-request-id"] {
            assert!(!needs_slow_path(name), "{name}");
        }
    }

    #[test]
    fn no_configuration_sets_what_frames_or_routes_a_request() {
        for name in HEAD_FIELDS.iter().chain(&OUR_FIELDS) {
            assert!(!crate::config::is_free(name), "{name}");
        }
    }

    #[test]
    fn the_table_is_sorted_and_in_lower_case() {
        let names: Vec<&str> = TREATMENTS.iter().map(|it| it.name).collect();
        assert!(names.is_sorted());
        assert!(names.iter().all(|name| name.bytes().all(|it| !it.is_ascii_uppercase())));
    }

    /// `Connection` with anything but `keep-alive`, and `Upgrade`, are read on the slow path only.
    #[test]
    fn what_belongs_to_the_connection_is_never_passed_on_as_it_came() {
        for Treatment { name, .. } in TREATMENTS {
            let is_read = name == "connection" || needs_slow_path(name);
            assert!(
                !fields::is_hop_by_hop(name) || is_read || !is_passed_unchanged(name),
                "{name}"
            );
        }
        for name in ["keep-alive", "proxy-connection", "proxy-authorization", "trailer", "te"] {
            assert!(fields::is_hop_by_hop(name) && !is_passed_unchanged(name), "{name}");
        }
    }
}
