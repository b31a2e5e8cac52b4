//! The rule of what is shared: which requests may get each other's answers.
//!
//! A shared cache gives one client's answer to another. That is safe only where the server said so, or
//! where nothing in the two requests could have made a difference. So every name of a request field or
//! cookie has a class, from a list (`data/request-fields.tsv`, `data/harmless-cookies.tsv`), and **a name
//! that is not listed counts as naming its sender**.
//!
//! * A stored answer is [`Basis::Marked`] if its server gave it a lifetime or said `public`. Everything
//!   else is assumed, kept only where the operator allows assumptions ([`Rules::assumes`]), filled only by
//!   the proxy's own requests (unless [`Fill::Clients`]), and given only to anonymous requests.
//! * A request is anonymous if it has no content, and nothing in it names its sender, another place, or
//!   a fragment of the page.
//!
//! Storing ([`crate::storing`]) and reuse ([`crate::reuse`]) ask here, and so do all parts of the gateway
//! that collapse, refresh or prefetch.

use std::sync::LazyLock;

use http::header::{AUTHORIZATION, CONTENT_LENGTH, COOKIE, FORWARDED, FROM, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::actions::{is_action, is_action_by_query};
use crate::key::{SECURE, matches_name, normal_authority, without_escapes};
use crate::names::{Names, rows};
use crate::operator_rules::{CookieRule, CookieRules, Fill, Rules};
use crate::request::RequestHead;

const FIELDS: &str = include_str!("../data/request-fields.tsv");
const COOKIES: &str = include_str!("../data/harmless-cookies.tsv");

/// What a request field says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldClass {
    /// Nothing that an answer should depend on.
    Neutral,
    /// What its sender prefers: counts where `Vary` names it.
    Selecting,
    /// That a part of the page is wanted, or another form of it: counts always, and `Vary` must name it.
    Fragment,
    /// Under which name, port or path the client asked, or which method it means.
    Routing,
    /// The sender's identity or rights.
    Identity,
}

/// From whom the server gets a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PassedFrom {
    /// From every client.
    Anybody,
    /// From trusted proxies only: from anyone else it is a forgery.
    TrustedProxies,
    /// From no one: the proxy sets it, or it does harm.
    Nowhere,
}

impl PassedFrom {
    const fn includes(self, trusted_proxy: bool) -> bool {
        match self {
            Self::Anybody => true,
            Self::TrustedProxies => trusted_proxy,
            Self::Nowhere => false,
        }
    }
}

/// What the list says of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldRule {
    /// What it says.
    pub class: FieldClass,
    /// Whether the server gets it.
    pub passed_from: PassedFrom,
}

static FIELD_RULES: LazyLock<Names<FieldRule>> = LazyLock::new(|| {
    let rules = rows::<4>(FIELDS).flat_map(|[name, class, passed, _]| {
        let class = match class {
            "neutral" => FieldClass::Neutral,
            "selecting" => FieldClass::Selecting,
            "fragment" => FieldClass::Fragment,
            "routing" => FieldClass::Routing,
            // What cannot be read is the strictest: a test reads every line.
            _ => FieldClass::Identity,
        };
        let passed_from = match passed {
            "pass" => PassedFrom::Anybody,
            "drop" => PassedFrom::TrustedProxies,
            _ => PassedFrom::Nowhere,
        };
        // A name with underscores is the same with hyphens, where servers have a CGI interface.
        let folded = name.contains('_').then(|| &*name.replace('_', "-").leak());
        let rule = FieldRule { class, passed_from };
        std::iter::once((name, rule)).chain(folded.map(|name| (name, rule)))
    });
    Names::new(rules, true)
});

static HARMLESS_COOKIES: LazyLock<Names<()>> =
    LazyLock::new(|| Names::new(rows::<2>(COOKIES).map(|[name, _]| (name, ())), false));

/// The rule for a field name in any case; `None` if the name is not listed, and so counts as
/// [`FieldClass::Identity`].
pub fn field_rule(name: &[u8]) -> Option<FieldRule> {
    FIELD_RULES.find(name)
}

/// Whether a pattern, as an operator writes it, covers a listed name that is not neutral or selecting.
pub fn covers_what_counts(pattern: &str) -> bool {
    let pattern = pattern.to_ascii_lowercase();
    rows::<4>(FIELDS).any(|[name, class, ..]| {
        let start = name.strip_suffix('*').unwrap_or(name);
        let counts = !matches!(class, "neutral" | "selecting");
        let is_below = name.ends_with('*') && pattern.trim_end_matches('*').starts_with(start);
        counts && (is_below || matches_name(&pattern, start))
    })
}

/// Whether the server gets a field of this name from a client.
///
/// Servers with a CGI interface do not tell a hyphen from an underscore, and some of them no other sign either. A
/// name that reads there like a field that a proxy sets, or that caches and servers go by, is refused from
/// everyone: nothing sends it so in good faith. What reads like a credential passes, and counts as one.
pub fn is_passed_on(name: &[u8], from_trusted_proxy: bool) -> bool {
    passed_on(name, from_trusted_proxy).is_some()
}

/// What an unlisted name counts as.
const UNLISTED: FieldRule =
    FieldRule { class: FieldClass::Identity, passed_from: PassedFrom::Anybody };

/// The rule for a field that the server gets; `None` for one that it does not get.
fn passed_on(name: &[u8], from_trusted_proxy: bool) -> Option<FieldRule> {
    if let Some(rule) = field_rule(name) {
        return rule.passed_from.includes(from_trusted_proxy).then_some(rule);
    }
    if name.iter().any(|byte| !byte.is_ascii_alphanumeric() && *byte != b'-') {
        let is_clients_own = |rule: FieldRule| {
            rule.passed_from == PassedFrom::Anybody && rule.class == FieldClass::Identity
        };
        if field_rule(&folded(name)).is_some_and(|rule| !is_clients_own(rule)) {
            return None;
        }
    }
    Some(UNLISTED)
}

/// Whether a server may go by a field of this name, or one that it reads alike, instead of the method, path or host of
/// the request.
pub fn is_routing(name: &[u8]) -> bool {
    field_rule(&folded(name)).is_some_and(|rule| rule.class == FieldClass::Routing)
}

/// A name as servers with a CGI interface read it: all signs are the same.
fn folded(name: &[u8]) -> Vec<u8> {
    let letter = |byte: &u8| if byte.is_ascii_alphanumeric() { *byte } else { b'-' };
    name.iter().map(letter).collect()
}

/// What a request says of its sender: a set of findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sender(u8);

impl Sender {
    /// Nothing in the request makes a difference to others.
    pub const ANONYMOUS: Self = Self(0);
    /// A field that is not known to be harmless.
    pub const FIELD: Self = Self(1);
    /// A cookie that is not known to be harmless.
    pub const COOKIE: Self = Self(2);
    /// A field that asks for a fragment.
    pub const FRAGMENT: Self = Self(4);
    /// It asks under another name than its key has, or means another method.
    pub const ROUTED: Self = Self(8);
    /// It has content.
    pub const CONTENT: Self = Self(16);

    /// Whether the request is anonymous.
    pub const fn is_anonymous(self) -> bool {
        self.0 == 0
    }

    /// Whether one of these findings holds.
    pub const fn has(self, findings: Self) -> bool {
        self.0 & findings.0 != 0
    }

    /// Both sets of findings.
    #[must_use]
    pub const fn with(self, findings: Self) -> Self {
        Self(self.0 | findings.0)
    }

    /// Whether the request must neither get a stored answer nor fill the cache.
    pub const fn bypasses_cache(self) -> bool {
        self.has(Self::ROUTED.with(Self::CONTENT))
    }

    /// What a field adds by its name, as the list has it. The value of a cookie, a length or the name of a
    /// host says more: see [`Sender::of`].
    pub fn of_name(name: &[u8]) -> Self {
        Self::of_rule(field_rule(name).unwrap_or(UNLISTED))
    }

    /// The same for a field that the server gets; `None` for one that [`is_passed_on`] refuses.
    pub fn of_name_passed_on(name: &[u8], from_trusted_proxy: bool) -> Option<Self> {
        passed_on(name, from_trusted_proxy).map(Self::of_rule)
    }

    const fn of_rule(rule: FieldRule) -> Self {
        match rule.class {
            FieldClass::Neutral | FieldClass::Selecting => Self::ANONYMOUS,
            FieldClass::Fragment => Self::FRAGMENT,
            FieldClass::Routing => Self::ROUTED,
            FieldClass::Identity => Self::FIELD,
        }
    }

    /// What a `Cookie` field adds.
    pub fn of_cookies(value: &[u8], rules: &CookieRules) -> Self {
        let is_personal =
            rules.rule != CookieRule::Ignored && personal_cookies(value, rules).next().is_some();
        if is_personal { Self::COOKIE } else { Self::ANONYMOUS }
    }

    /// What a request says of its sender. Its fields are those that the server gets: what
    /// [`is_passed_on`] refuses has been dropped before.
    pub fn of(request: &RequestHead<'_>, rules: &Rules) -> Self {
        Self::beyond(&[], request, rules)
    }

    /// The same, where it is known what the names of its fields say.
    pub fn of_named(names: FieldNames, request: &RequestHead<'_>, rules: &Rules) -> Self {
        if names.are_anonymous() { Self::ANONYMOUS } else { Self::of(request, rules) }
    }

    /// What a request says of its sender, without the fields that `varies` names: an answer that varies on a field goes only to
    /// requests that have it alike. Credentials and cookies are not excused so (RFC 9111, 3.5).
    /// Nor is what makes a request bypass the cache.
    pub(crate) fn beyond(varies: &[HeaderName], request: &RequestHead<'_>, rules: &Rules) -> Self {
        let counts =
            |name: &HeaderName| *name == AUTHORIZATION || *name == COOKIE || !varies.contains(name);
        request.headers.iter().fold(Self::ANONYMOUS, |found, (name, value)| {
            let said = Self::of_field(name, value, request.authority, rules);
            let is_taken = counts(name) || said.bypasses_cache();
            if is_taken { found.with(said) } else { found }
        })
    }

    fn of_field(name: &HeaderName, value: &HeaderValue, authority: &str, rules: &Rules) -> Self {
        if *name == FROM && CRAWLERS.iter().any(|crawler| crawler.as_bytes() == value.as_bytes()) {
            return Self::ANONYMOUS;
        }
        if *name == COOKIE {
            return Self::of_cookies(value.as_bytes(), &rules.cookies);
        }
        if *name == CONTENT_LENGTH {
            let is_zero = value.as_bytes().iter().all(|digit| *digit == b'0');
            return if is_zero { Self::ANONYMOUS } else { Self::CONTENT };
        }
        if *name == TRANSFER_ENCODING {
            return Self::CONTENT;
        }
        let found = Self::of_name(name.as_str().as_bytes());
        if found == Self::ANONYMOUS || rules.is_harmless_header(name.as_str().as_bytes()) {
            return Self::ANONYMOUS;
        }
        if found == Self::ROUTED && names_the_same_place(name, value, authority) {
            return Self::ANONYMOUS;
        }
        found
    }
}

/// What the names of a request's fields say, each looked up once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldNames {
    /// One of them may say something of the sender; its value may tell that it does not.
    count: bool,
}

impl FieldNames {
    /// With one more name; `None` for one that [`is_passed_on`] refuses.
    #[must_use]
    pub fn with(self, name: &HeaderName, from_trusted_proxy: bool) -> Option<Self> {
        let found = Sender::of_name_passed_on(name.as_str().as_bytes(), from_trusted_proxy)?;
        let by_value = *name == CONTENT_LENGTH || *name == TRANSFER_ENCODING;
        Some(Self { count: self.count || by_value || !found.is_anonymous() })
    }

    /// Whether the request is anonymous, whatever the values of its fields are.
    pub const fn are_anonymous(self) -> bool {
        !self.count
    }
}

/// Cookies of a `Cookie` field that are not known to be harmless.
fn personal_cookies<'a>(value: &'a [u8], rules: &'a CookieRules) -> impl Iterator<Item = &'a [u8]> {
    let cookies = value.split(|&b| b == b';').map(<[u8]>::trim_ascii);
    cookies.filter(|cookie| !cookie.is_empty() && !is_harmless_cookie(cookie, rules))
}

/// A cookie with a byte that RFC 6265, 4.1.1 does not allow is not harmless: servers end cookies at white space,
/// commas or quotes, each at others, and another cookie may stand behind it.
fn is_harmless_cookie(cookie: &[u8], rules: &CookieRules) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_graphic() && !b"\",;\\".contains(byte);
    if !cookie.iter().all(is_allowed) {
        return false;
    }
    let name = cookie.split(|&b| b == b'=').next().unwrap_or_default();
    if HARMLESS_COOKIES.find(name).is_some() {
        return true;
    }
    let Ok(name) = std::str::from_utf8(name) else { return false };
    rules.harmless.iter().any(|pattern| matches_name(pattern, name))
}

/// The cookies of a request that count, as one text; `None` if none does.
pub(crate) fn counting_cookies(headers: &HeaderMap, rules: &CookieRules) -> Option<Box<[u8]>> {
    let lines = headers.get_all(COOKIE).iter();
    let cookies = lines.flat_map(|line| personal_cookies(line.as_bytes(), rules));
    let cookies: Vec<&[u8]> = cookies.collect();
    (!cookies.is_empty()).then(|| cookies.join(&b"; "[..]).into_boxed_slice())
}

/// Whether a field by which a proxy says how it was asked says what the cache key says: then it makes no
/// difference. (`X-Forwarded-Host` is sent on in normal form.)
fn names_the_same_place(name: &HeaderName, value: &HeaderValue, authority: &str) -> bool {
    let Ok(value) = value.to_str() else { return false };
    let (secure, own) = match authority.strip_prefix(SECURE) {
        Some(own) => (true, own),
        None => (false, authority),
    };
    let own = normal_authority(secure, own);
    let is_own_host = |host: &str| normal_authority(secure, host.trim()) == own;
    if *name == FORWARDED {
        return value.split([',', ';']).all(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = value.trim().trim_matches('"');
            match key.trim() {
                // It goes to the server as it is.
                key if key.eq_ignore_ascii_case("host") => value == own,
                key if key.eq_ignore_ascii_case("proto") => {
                    value.eq_ignore_ascii_case(if secure { "https" } else { "http" })
                }
                key => ["for", "by", ""].iter().any(|known| key.eq_ignore_ascii_case(known)),
            }
        });
    }
    match name.as_str() {
        "x-forwarded-host" => is_own_host(value),
        "x-forwarded-port" => {
            let default = if secure { "443" } else { "80" };
            let port = own.rsplit_once(':').map(|(_, port)| port);
            let port = port.filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
            value.trim() == port.unwrap_or(default)
        }
        _ => false,
    }
}

/// Why a stored answer may be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Basis {
    /// Its server gave it a lifetime, or said `public`.
    Marked,
    /// It is assumed to be the same for everyone; the proxy itself asked for it, anonymously.
    OwnRequest,
    /// It is assumed, and the answer to a client ([`Fill::Clients`]).
    ClientRequest,
    /// Crawlers look for it first, and the proxy itself asked for it, anonymously
    /// ([`Rules::crawler_files`]).
    ForCrawlers,
}

impl Basis {
    /// As caches on disk write it.
    pub const fn number(self) -> u8 {
        match self {
            Self::Marked => 0,
            Self::OwnRequest => 1,
            Self::ClientRequest => 2,
            Self::ForCrawlers => 3,
        }
    }

    /// What [`Basis::number`] wrote.
    pub const fn of_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Marked),
            1 => Some(Self::OwnRequest),
            2 => Some(Self::ClientRequest),
            3 => Some(Self::ForCrawlers),
            _ => None,
        }
    }

    /// Whether answers on this basis are given at all.
    pub fn is_allowed(self, rules: &Rules) -> bool {
        match self {
            Self::Marked => true,
            Self::OwnRequest => rules.assumes,
            Self::ClientRequest => rules.assumes && rules.fill == Fill::Clients,
            Self::ForCrawlers => rules.crawler_files,
        }
    }

    /// Whether an answer on this basis may be given to this sender. Fragments are looked at elsewhere:
    /// they depend on `Vary`.
    pub fn is_for(self, sender: Sender, rules: &Rules) -> bool {
        if sender.bypasses_cache() || !self.is_allowed(rules) {
            return false;
        }
        match self {
            Self::Marked => rules.cookies.rule != CookieRule::Bypass || !sender.has(Sender::COOKIE),
            Self::OwnRequest | Self::ClientRequest | Self::ForCrawlers => sender.is_anonymous(),
        }
    }
}

/// The sender of the request whose answer is to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Filler {
    /// A client.
    Client,
    /// The proxy itself, with a request that has no field of a client.
    Proxy,
}

/// What decides whether stored answers may be trusted, as one number: the lists of names and the
/// operator's settings. A cache on disk keeps it with what it stores.
pub fn fingerprint(rules: &Rules) -> u64 {
    // What may be assumed is not among them: of each answer it is asked when it is restored and given.
    let Rules { harmless_headers, cookies, fill, key, .. } = rules;
    let switches = [rules.store_set_cookie, rules.cdn_cache_control, rules.respect_must_revalidate];
    let settings =
        format!("{harmless_headers:?} {cookies:?} {fill:?} {key:?} {switches:?} {CRAWLERS:?}");
    // FNV-1a: the same on every machine and in every release.
    let bytes = [FIELDS, COOKIES, &settings].into_iter().flat_map(str::bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// What search engines say in `From`, as they publish it: every request of theirs has it.
const CRAWLERS: [&str; 3] =
    ["googlebot(at)googlebot.com", "bingbot(at)microsoft.com", "support@search.yandex.ru"];

/// Parts of an address that make it one person's, or that make asking for it a second time do something a
/// second time: such an address is never asked for by the proxy itself.
const ONE_TIME: [&str; 41] = [
    "token",
    "apikey",
    "api-key",
    "api_key",
    "secret",
    "confirm",
    "unsubscribe",
    "logout",
    "log-out",
    "log_out",
    "signout",
    "sign-out",
    "sign_out",
    "logoff",
    "log-off",
    "signoff",
    "sign-off",
    "unsub",
    "checkout",
    "shutdown",
    "reboot",
    "login-link",
    "add-to-cart",
    "add_to_cart",
    "addtocart",
    "onetime",
    "one-time",
    "password",
    "session",
    "sessid",
    "activat",
    "verif",
    "optout",
    "opt-out",
    "opt_out",
    "ticket",
    "invit",
    "delete",
    "remove",
    "download-key",
    "action=",
];

/// The same as whole words of a path's segment, unless that is the title of an article, which has three words or
/// more; and anywhere in a query.
const ONE_TIME_WORDS: [&str; 23] = [
    "key",
    "keys",
    "sig",
    "code",
    "state",
    "nonce",
    "otp",
    "jwt",
    "sid",
    "vote",
    "toggle",
    "cart",
    "auth",
    "reset",
    "approve",
    "accept",
    "like",
    "rate",
    "subscribe",
    "magic",
    "burn",
    "pw",
    "pwd",
];

/// Parameters of a query that let their bearer in.
const ONE_TIME_PARAMETERS: [&str; 3] = ["access", "hash", "pass"];

/// Whether the proxy may ask for this path and query by itself.
pub fn may_be_prefetched(path_and_query: &str) -> bool {
    let plain = without_escapes(path_and_query).to_ascii_lowercase();
    // Behind two proxies, a server may see it unescaped twice.
    let plain = without_escapes(&without_escapes(&plain)).to_ascii_lowercase();
    let (path, query) = plain.split_once('?').unwrap_or((&plain, ""));
    let words_of = |segment: &'_ str| -> Vec<String> {
        let words = segment.split(|letter: char| !letter.is_ascii_alphanumeric());
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let mut words = path.split('/').map(words_of).filter(|words| words.len() <= 2).flatten();
    let is_parameter =
        |pair: &str| ONE_TIME_PARAMETERS.contains(&pair.split('=').next().unwrap_or_default());
    // Of these a word of the path may be a part: `/keyboards` is a page.
    !query.split(['&', ';']).any(is_parameter)
        && !words.any(|word| ONE_TIME_WORDS.contains(&&*word))
        && !ONE_TIME_WORDS.iter().any(|word| query.contains(word))
        && !ONE_TIME.iter().any(|part| plain.contains(part))
        && !is_action(path_and_query.split('?').next().unwrap_or_default())
        && !is_action_by_query(path_and_query)
}

#[cfg(test)]
mod tests;
