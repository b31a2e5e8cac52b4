//! Which addresses are never fetched, by their words alone.
//!
//! `analyze`, `demo` and `serve` ask the same functions.

use nightwatt_httpcache::actions::{FILES, is_action, is_action_by_query};
use nightwatt_httpcache::sharing::may_be_prefetched;

use super::address::{Address, plain, unescaped};
use super::reason::Reason;
use crate::discover::is_random;

/// How the mirror learned of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The operator or the program itself names it.
    Seed,
    /// A sitemap or a feed of the site lists it.
    Listed,
    /// A page of the site links to it.
    Linked,
    /// Clients request it.
    Requested,
}

/// What the operator says about addresses. `*` in a pattern stands for any text.
///
/// A server may take `/%64rafts/b`, `/drafts%2Fb` and `//drafts/b` for `/drafts/b`. So an address is excluded if it, or
/// what a server may take it for, is as a pattern says. It is included only if all of that is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatternRules {
    /// Addresses that are never fetched.
    pub exclude: Vec<String>,
    /// Addresses that are fetched although the built-in lists exclude them.
    pub include: Vec<String>,
}

impl PatternRules {
    /// Whether the operator keeps nightwatt from an address.
    pub fn excludes(&self, address: &Address) -> bool {
        if self.exclude.is_empty() {
            return false;
        }
        let spellings = spellings(address);
        self.exclude.iter().any(|pattern| {
            let plain = unescaped(pattern);
            matches(pattern, address.as_str())
                || spellings.iter().any(|it| matches(pattern, it) || matches(&plain, it))
        })
    }

    /// Whether the operator names an address that the built-in lists may exclude.
    pub fn includes(&self, address: &Address) -> bool {
        names(&self.include, address)
    }
}

/// What servers behind none, one and two proxies may take an address for.
fn spellings(address: &Address) -> [String; 3] {
    let once = unescaped(address.as_str());
    let twice = unescaped(&once);
    let thrice = unescaped(&twice);
    [once, twice, thrice]
}

/// Whether one of these patterns names an address, whatever a server takes it for.
pub(crate) fn names(patterns: &[String], address: &Address) -> bool {
    if patterns.is_empty() {
        return false;
    }
    let spellings = spellings(address);
    patterns.iter().any(|pattern| {
        let pattern = unescaped(pattern);
        spellings.iter().all(|it| matches(&pattern, it))
    })
}

/// Why an address is never fetched, if it is not.
pub fn refusal(address: &Address, origin: Origin, rules: &PatternRules) -> Option<Reason> {
    if rules.excludes(address) {
        return Some(Reason::Operator);
    }
    if rules.includes(address) {
        return None;
    }
    by_path(address).or_else(|| by_query(address)).or_else(|| by_origin(address, origin))
}

/// What clients request is stricter than what pages link to: a link is made for everyone, and crawlers
/// follow it anyway.
fn by_origin(address: &Address, origin: Origin) -> Option<Reason> {
    if origin != Origin::Requested {
        return None;
    }
    if !may_be_prefetched(address.as_str()) {
        return Some(Reason::OneTime);
    }
    let is_further_page = page_of(address).is_some();
    (address.query().is_some() || is_further_page).then_some(Reason::NotLinked)
}

/// Segments of a path that change something, whatever stands before or behind them. (Of other words, the place in the
/// path decides: [`is_action`].)
const ACTIONS: [&str; 36] = [
    "logout",
    "log-out",
    "log_out",
    "logoff",
    "log-off",
    "signout",
    "sign-out",
    "sign_out",
    "delete",
    "remove",
    "destroy",
    "trash",
    "purge",
    "edit",
    "update",
    "upload",
    "cart",
    "basket",
    "warenkorb",
    "checkout",
    "kasse",
    "panier",
    "add-to-cart",
    "unsubscribe",
    "subscribe",
    "opt-out",
    "optout",
    "vote",
    "like",
    "toggle",
    "follow",
    "unfollow",
    "report",
    "confirm",
    "activate",
    "wp-trackback",
];

/// Path segments for the site's administrators and for users with an account.
const PERSONAL: [&str; 20] = [
    "login",
    "log-in",
    "log_in",
    "signin",
    "sign-in",
    "sign_in",
    "wp-login",
    "wp-admin",
    "admin",
    "administrator",
    "account",
    "my-account",
    "register",
    "signup",
    "sign-up",
    "password",
    "lost-password",
    "xmlrpc",
    "wp-cron",
    "oauth",
];

/// Names of parameters that change something, or open an editor.
const ACTION_PARAMETERS: [&str; 24] = [
    "action",
    "do",
    "logout",
    "delete",
    "remove",
    "edit",
    "veaction",
    "oldid",
    "diff",
    "returnto",
    "undo",
    "add-to-cart",
    "add_to_cart",
    "remove_item",
    "add_to_wishlist",
    "replytocom",
    "share",
    "like",
    "vote",
    "cmd",
    "op",
    "task",
    "preview",
    "print",
];

/// Names of parameters that search.
const SEARCH_PARAMETERS: [&str; 10] =
    ["s", "q", "query", "search", "searchword", "keyword", "keywords", "term", "filter", "suche"];

/// Segments of a path that search.
const SEARCHES: [&str; 4] = ["search", "suche", "recherche", "buscar"];

/// Names of parameters that choose a day or a month.
const CALENDAR_PARAMETERS: [&str; 12] = [
    "month",
    "year",
    "day",
    "date",
    "week",
    "ical",
    "outlook-ical",
    "eventdisplay",
    "tribe-bar-date",
    "cal_date",
    "monat",
    "jahr",
];

/// Segments behind which each further segment chooses a day or a month.
const CALENDARS: [&str; 4] = ["calendar", "kalender", "calendrier", "calendario"];

fn by_path(address: &Address) -> Option<Reason> {
    if may_name_session(address.path()) {
        return Some(Reason::OneTime);
    }
    let mut below_calendar = false;
    for segment in address.segments() {
        let segment = plain(segment);
        if below_calendar {
            return Some(Reason::Calendar);
        }
        let (stem, kind) = segment.rsplit_once('.').unwrap_or((&segment, ""));
        if FILES.contains(&kind) {
            continue;
        }
        if ACTIONS.contains(&stem) {
            return Some(Reason::Action);
        }
        if PERSONAL.contains(&stem) {
            return Some(Reason::Personal);
        }
        if SEARCHES.contains(&stem) {
            return Some(Reason::Search);
        }
        below_calendar = CALENDARS.contains(&stem);
    }
    is_action(address.path()).then_some(Reason::Action)
}

fn by_query(address: &Address) -> Option<Reason> {
    let query = address.query()?;
    if is_action_by_query(address.as_str()) {
        return Some(Reason::Action);
    }
    for parameter in address.parameters() {
        let name = plain(parameter.name);
        let is = |names: &[&str]| names.contains(&name.as_str());
        if is(&ACTION_PARAMETERS) {
            return Some(Reason::Action);
        }
        if is(&SEARCH_PARAMETERS) {
            return Some(Reason::Search);
        }
        if is(&CALENDAR_PARAMETERS) {
            return Some(Reason::Calendar);
        }
    }
    (!may_be_prefetched(&format!("/?{query}"))).then_some(Reason::OneTime)
}

/// Names of parameters that choose one page of several.
const PAGE_PARAMETERS: [&str; 5] = ["page", "p", "paged", "start", "offset"];

/// The list of which an address is a further page: its path, and the rest of its query. Nothing for an
/// address that is not one of several pages.
pub fn page_of(address: &Address) -> Option<String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let by_query = address
        .parameters()
        .any(|it| PAGE_PARAMETERS.contains(&plain(it.name).as_str()) && is_number(it.value));
    if by_query {
        return Some(address.path().to_owned());
    }
    // `/blog/page/7/`, as WordPress has it.
    let segments: Vec<&str> = address.segments().collect();
    let at = segments.windows(2).position(|pair| pair[0] == "page" && is_number(pair[1]))?;
    Some(format!("/{}", segments[..at].join("/")))
}

/// Whether a text is as a pattern says, in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

/// Whether a reference may name a session: `;jsessionid=`, `/(S(…))/`, or a parameter for keys with a random value.
pub fn may_name_session(reference: &str) -> bool {
    const PARTS: [&str; 6] = ["sess", "token", "auth", "nonce", "signature", "api_key"];
    let (path, query) = reference.split_once('?').unwrap_or((reference, ""));
    let path = plain(path);
    let is_key = |name: &str| {
        matches!(name, "sid" | "key" | "sig") || PARTS.iter().any(|part| name.contains(part))
    };
    let mut pairs = query.split(['&', ';']).filter_map(|pair| pair.split_once('='));
    path.contains("sessionid=")
        || path.contains(";sid=")
        || path.contains("/(s(")
        || pairs.any(|(name, value)| is_key(&plain(name)) && is_random(value))
}

/// Whether the target of a redirect is a page to log in: a word of its path or host says so, or it is told where
/// to lead back to.
pub fn leads_to_log_in(target: &str) -> bool {
    const WORDS: [&str; 17] = [
        "login",
        "log-in",
        "log_in",
        "signin",
        "sign-in",
        "sign_in",
        "sso",
        "oauth",
        "oauth2",
        "saml",
        "auth",
        "authelia",
        "authentik",
        "keycloak",
        "idp",
        "cas",
        "wp-login",
    ];
    const LEADS_BACK: [&str; 10] = [
        "rd",
        "rurl",
        "redirect_to",
        "redirect_uri",
        "returnto",
        "return_to",
        "returnurl",
        "return_url",
        "continue",
        "goto",
    ];
    let target = plain(target);
    let (place, query) = target.split_once('?').unwrap_or((&target, ""));
    let says_so = place.split('/').any(|segment| {
        let stem = segment.split('.').next().unwrap_or_default();
        WORDS.contains(&stem) || segment.starts_with("special:userlogin")
    });
    let mut names = query.split('&').map(|it| it.split('=').next().unwrap_or_default());
    says_so || names.any(|name| LEADS_BACK.contains(&name))
}

#[cfg(test)]
mod tests;
