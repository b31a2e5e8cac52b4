//! `Cache-Control`, in requests and in responses (RFC 9111, 5.2), and `Pragma` (5.4).
//!
//! One habit runs through it: **what restricts is honoured however badly it is written, what permits
//! must be well formed.** A lifetime that cannot be read is zero.

use http::HeaderMap;
use http::header::{CACHE_CONTROL, HeaderName, PRAGMA};
use std::time::Duration;

/// Where delta-seconds end: anything longer is "for ever" (RFC 9111, 1.2.2).
pub const LONGEST_DELTA: Duration = Duration::from_secs(1 << 31);

/// What a response asks of caches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "one per directive of the protocol")]
pub struct ResponseDirectives {
    /// `no-store`.
    pub no_store: bool,
    /// `no-cache` without field names: validate before every use.
    pub no_cache: bool,
    /// `private` without field names: not for a shared cache.
    pub private: bool,
    /// `public`.
    pub public: bool,
    /// `must-revalidate`.
    pub must_revalidate: bool,
    /// `proxy-revalidate`.
    pub proxy_revalidate: bool,
    /// `must-understand`.
    pub must_understand: bool,
    /// `max-age`.
    pub max_age: Option<Duration>,
    /// `s-maxage`.
    pub s_maxage: Option<Duration>,
    /// `stale-while-revalidate` (RFC 5861).
    pub stale_while_revalidate: Option<Duration>,
    /// `stale-if-error` (RFC 5861).
    pub stale_if_error: Option<Duration>,
    /// Fields named by `no-cache="..."` or `private="..."`: the rest may be stored without them.
    pub withheld: Vec<HeaderName>,
}

impl ResponseDirectives {
    /// Reads `Cache-Control`, and `Pragma: no-cache` if that is absent.
    ///
    /// `Pragma` means nothing in a response by the RFC; the servers that send it alone mean
    /// `no-cache`, and validating too often does no harm.
    pub fn parse(headers: &HeaderMap) -> Self {
        let mut found = Self::default();
        for line in headers.get_all(CACHE_CONTROL) {
            for_each_directive(line.as_bytes(), |name, argument| found.take(name, argument));
        }
        found.no_cache |= pragma_no_cache(headers);
        found
    }

    /// Whether a stale response must not be used without the origin's consent. `s-maxage` implies
    /// it for shared caches (RFC 9111, 5.2.2.10).
    pub fn forbids_stale(&self) -> bool {
        self.must_revalidate || self.proxy_revalidate || self.s_maxage.is_some()
    }

    fn take(&mut self, name: &[u8], argument: Argument<'_>) {
        let lifetime = || Some(argument.delta().unwrap_or(Duration::ZERO));
        match Name::of(name) {
            Name::NoStore => self.no_store = true,
            Name::NoCache => self.no_cache |= !self.withhold(argument),
            Name::Private => self.private |= !self.withhold(argument),
            Name::MustRevalidate => self.must_revalidate = true,
            Name::ProxyRevalidate => self.proxy_revalidate = true,
            Name::MustUnderstand => self.must_understand = true,
            Name::Public => self.public |= argument != Argument::Malformed,
            // Of several the first counts (RFC 9111, 4.2.1).
            Name::MaxAge if self.max_age.is_none() => self.max_age = lifetime(),
            Name::SMaxage if self.s_maxage.is_none() => self.s_maxage = lifetime(),
            Name::StaleWhileRevalidate if self.stale_while_revalidate.is_none() => {
                self.stale_while_revalidate = argument.delta();
            }
            Name::StaleIfError if self.stale_if_error.is_none() => {
                self.stale_if_error = argument.delta();
            }
            _ => {}
        }
    }

    /// Notes the fields that an argument names; false if it names none, or something that is not a
    /// field name, and the directive therefore covers the whole response.
    fn withhold(&mut self, argument: Argument<'_>) -> bool {
        let (Argument::Token(list) | Argument::Quoted(list)) = argument else { return false };
        let names: Option<Vec<HeaderName>> = list
            .split(|&b| b == b',')
            .map(<[u8]>::trim_ascii)
            .filter(|name| !name.is_empty())
            .map(|name| HeaderName::from_bytes(name).ok())
            .collect();
        match names {
            Some(names) if !names.is_empty() => {
                self.withheld.extend(names);
                true
            }
            _ => false,
        }
    }
}

/// Do these lines of a response's `Cache-Control` keep it out of shared caches, whatever else it says? They
/// do by `no-store` or `private`; where `must-understand` might overrule that, the answer is no.
pub fn forbid_storing<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> bool {
    let (mut forbidden, mut overruled) = (false, false);
    for line in lines {
        for_each_directive(line, |name, argument| match Name::of(name) {
            Name::NoStore => forbidden = true,
            Name::Private => forbidden |= argument == Argument::None,
            Name::MustUnderstand => overruled = true,
            _ => {}
        });
    }
    forbidden && !overruled
}

/// What a request asks of caches (RFC 9111, 5.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// `no-cache`, or `Pragma: no-cache` without `Cache-Control`: validate before use.
    pub no_cache: bool,
    /// `no-store`: store neither the request nor its response.
    pub no_store: bool,
    /// `only-if-cached`: answer from the cache or with 504.
    pub only_if_cached: bool,
    /// `max-age`: no older than this.
    pub max_age: Option<Duration>,
    /// `min-fresh`: fresh for at least this long.
    pub min_fresh: Option<Duration>,
    /// `max-stale`: stale by up to this ([`Duration::MAX`] if it names no limit).
    pub max_stale: Option<Duration>,
}

impl RequestDirectives {
    /// Reads `Cache-Control`, and `Pragma` if that is absent. Allocates nothing.
    pub fn parse(headers: &HeaderMap) -> Self {
        let mut found = Self::default();
        for line in headers.get_all(CACHE_CONTROL) {
            for_each_directive(line.as_bytes(), |name, argument| found.take(name, argument));
        }
        found.no_cache |= pragma_no_cache(headers);
        found
    }

    fn take(&mut self, name: &[u8], argument: Argument<'_>) {
        match Name::of(name) {
            Name::NoCache => self.no_cache = true,
            Name::NoStore => self.no_store = true,
            Name::OnlyIfCached => self.only_if_cached = true,
            Name::MaxAge if self.max_age.is_none() => {
                self.max_age = Some(argument.delta().unwrap_or(Duration::ZERO));
            }
            Name::MinFresh if self.min_fresh.is_none() => self.min_fresh = argument.delta(),
            Name::MaxStale if self.max_stale.is_none() => {
                self.max_stale = match argument {
                    Argument::None => Some(Duration::MAX),
                    given => given.delta(),
                };
            }
            _ => {}
        }
    }
}

/// The directives this cache knows.
#[derive(Clone, Copy)]
enum Name {
    NoStore,
    NoCache,
    Private,
    Public,
    MustRevalidate,
    ProxyRevalidate,
    MustUnderstand,
    MaxAge,
    SMaxage,
    MinFresh,
    MaxStale,
    OnlyIfCached,
    StaleWhileRevalidate,
    StaleIfError,
    Unknown,
}

impl Name {
    fn of(name: &[u8]) -> Self {
        const KNOWN: [(&str, Name); 14] = [
            ("no-store", Name::NoStore),
            ("no-cache", Name::NoCache),
            ("private", Name::Private),
            ("public", Name::Public),
            ("must-revalidate", Name::MustRevalidate),
            ("proxy-revalidate", Name::ProxyRevalidate),
            ("must-understand", Name::MustUnderstand),
            ("max-age", Name::MaxAge),
            ("s-maxage", Name::SMaxage),
            ("min-fresh", Name::MinFresh),
            ("max-stale", Name::MaxStale),
            ("only-if-cached", Name::OnlyIfCached),
            ("stale-while-revalidate", Name::StaleWhileRevalidate),
            ("stale-if-error", Name::StaleIfError),
        ];
        let known = KNOWN.iter().find(|(text, _)| text.as_bytes().eq_ignore_ascii_case(name));
        known.map_or(Name::Unknown, |&(_, name)| name)
    }
}

/// What follows a directive's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Argument<'a> {
    /// Nothing.
    None,
    /// `=` and a bare word.
    Token(&'a [u8]),
    /// `=` and a quoted string, without its quotes; escapes are left in, since nothing that this
    /// cache reads needs one.
    Quoted(&'a [u8]),
    /// Space around `=`, text after a quoted string, a quote that never ends.
    Malformed,
}

impl Argument<'_> {
    /// As delta-seconds; `None` if it is anything but digits. The quoted form should not be sent, and
    /// is read all the same (RFC 9111, 5.2).
    fn delta(self) -> Option<Duration> {
        match self {
            Self::Token(digits) | Self::Quoted(digits) => delta_seconds(digits),
            Self::None | Self::Malformed => None,
        }
    }
}

/// Reads delta-seconds, held at [`LONGEST_DELTA`].
pub(crate) fn delta_seconds(digits: &[u8]) -> Option<Duration> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let secs = digits.iter().fold(0_u64, |n, b| {
        n.saturating_mul(10).saturating_add(u64::from(b - b'0')).min(LONGEST_DELTA.as_secs())
    });
    Some(Duration::from_secs(secs))
}

/// Calls `take` for each directive of one field line. After a quote that never ends commas still
/// part directives, but their arguments are not to be trusted: a `no-store` counts there, a
/// `max-age` does not.
fn for_each_directive<'a>(line: &'a [u8], mut take: impl FnMut(&[u8], Argument<'a>)) {
    let (mut rest, mut sound) = (line, true);
    while !rest.is_empty() {
        let (member, tail, whole) = if sound { next_member(rest) } else { cut_at_comma(rest) };
        (rest, sound) = (tail, whole);
        let member = member.trim_ascii();
        if member.is_empty() {
            continue;
        }
        let (name, argument) = split_member(member);
        take(name, if sound { argument } else { Argument::Malformed });
        misspelled(member).for_each(|name| take(name, Argument::None));
    }
}

/// What a member restricts that is written badly: `no-store; max-age=0`, `private;`, `no-store no-cache`,
/// `no_store`.
fn misspelled(member: &[u8]) -> impl Iterator<Item = &'static [u8]> {
    const RESTRICTIONS: [&[u8]; 3] = [b"no-store", b"no-cache", b"private"];
    let is_between = |byte: &u8| matches!(byte, b';' | b'_') || byte.is_ascii_whitespace();
    // Within quotes there may be any text.
    let is_odd = member.iter().any(is_between) && !member.contains(&b'"');
    let is_in_it = move |name: &&[u8]| {
        let mut words = member.split(|byte| *byte != b'_' && (is_between(byte) || *byte == b'='));
        let is_name = |word: &[u8]| {
            let letters = word.iter().map(|byte| if *byte == b'_' { b'-' } else { *byte });
            letters.map(|byte| byte.to_ascii_lowercase()).eq(name.iter().copied())
        };
        is_odd && words.any(is_name)
    };
    RESTRICTIONS.into_iter().filter(is_in_it)
}

/// Cuts a list at its first comma outside of quotes. Where a quote never ends, cuts at the first
/// comma of all and says that the member is not whole.
pub(crate) fn next_member(list: &[u8]) -> (&[u8], &[u8], bool) {
    let (mut quoted, mut escaped) = (false, false);
    for (at, &byte) in list.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => return (&list[..at], &list[at + 1..], true),
            _ => {}
        }
    }
    if quoted { cut_at_comma(list) } else { (list, &[], true) }
}

/// Cuts a list at its first comma, quotes or not; the member is not to be trusted.
///
/// Once one quote was found not to end the rest of the list is cut by this alone: looking for its
/// end again for each member would take time by the square of the list's length.
fn cut_at_comma(list: &[u8]) -> (&[u8], &[u8], bool) {
    match list.iter().position(|&b| b == b',') {
        Some(at) => (&list[..at], &list[at + 1..], false),
        None => (list, &[], false),
    }
}

fn split_member(member: &[u8]) -> (&[u8], Argument<'_>) {
    let Some(equals) = member.iter().position(|&b| b == b'=') else {
        return (member, Argument::None);
    };
    let (name, value) = (&member[..equals], &member[equals + 1..]);
    let argument = match value {
        _ if name.trim_ascii_end() != name => Argument::Malformed,
        [b'"', inner @ .., b'"'] if !ends_early(inner) => Argument::Quoted(inner),
        [] | [b'"' | b' ' | b'\t', ..] => Argument::Malformed,
        bare => Argument::Token(bare),
    };
    (name.trim_ascii_end(), argument)
}

/// Whether an unescaped quote lies within what should be the inside of a quoted string.
fn ends_early(inner: &[u8]) -> bool {
    let mut escaped = false;
    for &byte in inner {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return true,
            _ => {}
        }
    }
    escaped
}

fn pragma_no_cache(headers: &HeaderMap) -> bool {
    !headers.contains_key(CACHE_CONTROL)
        && headers.get_all(PRAGMA).iter().any(|line| {
            let mut members = line.as_bytes().split(|&b| b == b',');
            members.any(|member| member.trim_ascii().eq_ignore_ascii_case(b"no-cache"))
        })
}
