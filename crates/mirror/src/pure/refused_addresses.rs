//! Which addresses are never fetched, by their words alone.
//!
//! `analyze`, `demo` and `serve` ask the same functions.

use nightwatt_httpcache::actions::{FILES, is_action};
use nightwatt_httpcache::sharing::may_be_prefetched;

use super::address::{Address, plain};
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
        self.exclude.iter().any(|pattern| matches(pattern, address.as_str()))
    }

    /// Whether the operator names an address that the built-in lists may exclude.
    pub fn includes(&self, address: &Address) -> bool {
        self.include.iter().any(|pattern| matches(pattern, address.as_str()))
    }
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
const ACTIONS: [&str; 35] = [
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
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
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
mod tests {
    use super::*;

    fn why(address: &str, origin: Origin) -> Option<Reason> {
        refusal(&Address::new(address).unwrap(), origin, &PatternRules::default())
    }

    #[test]
    fn what_changes_something_is_never_fetched() {
        for (address, reason) in [
            ("/logout", Reason::Action),
            ("/user/Log%2Dout/", Reason::Action),
            ("/posts/12/delete", Reason::Action),
            ("/cart/", Reason::Action),
            ("/shop/?add-to-cart=17", Reason::Action),
            ("/index.php?title=Main_Page&action=edit", Reason::Action),
            ("/doku.php?id=start&do=edit", Reason::Action),
            ("/wiki/Page?oldid=3", Reason::Action),
            ("/2024/05/post/?replytocom=99", Reason::Action),
            ("/remove.php", Reason::Action),
            ("/reboot", Reason::Action),
            ("/deletePost/5", Reason::Action),
            ("/items/5/approve", Reason::Action),
            ("/light/on", Reason::Action),
            ("/wp-admin/post.php", Reason::Personal),
            ("/wp-login.php", Reason::Personal),
            ("/?s=cats", Reason::Search),
            ("/search/cats", Reason::Search),
            ("/events?month=2031-05", Reason::Calendar),
            ("/calendar/2031/05", Reason::Calendar),
            ("/f?token=abc", Reason::OneTime),
            ("/f?X-Amz-Signature=abc", Reason::OneTime),
            ("/list?confirm=1", Reason::OneTime),
            ("/page;JSESSIONID=0F", Reason::OneTime),
            ("/(S(lit3py55))/orders.aspx", Reason::OneTime),
            ("/a?tok%65n=8f3a", Reason::OneTime),
            ("/callback?code=8f3a", Reason::OneTime),
            ("/callback?state=8f3a", Reason::OneTime),
            ("/a?api_key=8f3a", Reason::OneTime),
            ("/unsubscribe/8f3a", Reason::Action),
            ("/confirm/8f3a", Reason::Action),
            ("/list?page=2&q=word", Reason::Search),
            ("/page?sid=0f", Reason::OneTime),
        ] {
            assert_eq!(why(address, Origin::Linked), Some(reason), "{address}");
        }
    }

    #[test]
    fn pages_about_such_things_are_pages() {
        for address in [
            "/",
            "/docs/delete.html",
            "/blog/how-to-edit-a-file/",
            "/calendar",
            "/keyboards/",
            "/2024/05/",
            "/wiki/Logout_(album)",
            "/style.css?ver=6.4.2",
            "/list?page=3",
            "/session.html",
            "/feed",
            "/img/a%20photo.JPG",
            "/statement.pdf",
            "/docs/install/",
            "/blog/how-to-reset-your-router.html",
            "/news/run-for-charity-2024",
            "/about/opening-hours",
            "/download",
        ] {
            assert_eq!(why(address, Origin::Linked), None, "{address}");
        }
    }

    #[test]
    fn what_only_clients_know_is_stricter() {
        for (address, reason) in [
            ("/list?sort=name", Some(Reason::NotLinked)),
            ("/blog/page/3/", Some(Reason::NotLinked)),
            ("/download/token-abc", Some(Reason::OneTime)),
            ("/share/key/8f3a", Some(Reason::OneTime)),
            ("/state/8f3a", Some(Reason::OneTime)),
            ("/confirm-email/8f3a", Some(Reason::Action)),
            ("/newsletter/unsubscribed/8f3a", Some(Reason::OneTime)),
            ("/invitation/x", Some(Reason::OneTime)),
            ("/about", None),
        ] {
            assert_eq!(why(address, Origin::Requested), reason, "{address}");
        }
        assert_eq!(why("/list?sort=name", Origin::Linked), None);
    }

    #[test]
    fn the_operator_has_the_last_word() {
        let rules = PatternRules {
            exclude: vec!["/private/*".to_owned(), "*.iso".to_owned()],
            include: vec![
                "/docs/edit/*".to_owned(),
                "/private/x".to_owned(),
                "/garden/open".to_owned(),
            ],
        };
        let of = |text| refusal(&Address::new(text).unwrap(), Origin::Linked, &rules);
        assert_eq!(of("/private/x"), Some(Reason::Operator));
        assert_eq!(of("/files/a.iso"), Some(Reason::Operator));
        assert_eq!(of("/docs/edit/page"), None);
        assert_eq!(of("/other/edit/page"), Some(Reason::Action));
        assert_eq!(of("/garden/open"), None);
        assert_eq!(of("/gate/open"), Some(Reason::Action));
    }

    #[test]
    fn further_pages_belong_to_their_list() {
        let list = |text| page_of(&Address::new(text).unwrap());
        assert_eq!(list("/blog/page/7/").as_deref(), Some("/blog"));
        assert_eq!(list("/list?start=20&sort=x").as_deref(), Some("/list"));
        assert_eq!(list("/?paged=2").as_deref(), Some("/"));
        assert_eq!(list("/list?p=about"), None);
        assert_eq!(list("/page/about"), None);
    }

    #[test]
    fn references_that_may_name_a_session_are_known_by_their_form() {
        for reference in [
            "/shop;jsessionid=1A2B",
            "https://shop.example/x;JSESSIONID=1A2B?y",
            "/(S(lit3py55t21z5v55vlm25s55))/orders.aspx",
            "page?PHPSESSID=5f0c11eebe56",
            "?x=1&sid=9f8a7c6b5d4e",
            "/a?token=q83vEjRWeJASNFZ4kBI",
        ] {
            assert!(may_name_session(reference), "{reference}");
        }
        for reference in [
            "/",
            "/session.html",
            "?page=2",
            "/news(s)/",
            "/style.css?ver=6.4.2",
            "/app.js?v=9f8a7c6b5d4e",
            "/index.php?title=Design_of_keys&oldid=12",
        ] {
            assert!(!may_name_session(reference), "{reference}");
        }
    }

    #[test]
    fn stars_stand_for_any_text() {
        for (pattern, text, is_so) in [
            ("/a*", "/abc", true),
            ("*.html", "/a/b.html", true),
            ("/a*c*e", "/abcde", true),
            ("/a*c*e", "/abcd", false),
            ("/a", "/ab", false),
            ("*", "", true),
            ("/a**b", "/ab", true),
            ("/ab*b", "/ab", false),
        ] {
            assert_eq!(matches(pattern, text), is_so, "{pattern} {text}");
        }
    }

    #[test]
    fn redirects_to_a_log_in_are_known_by_their_words() {
        for target in [
            "/wp-login.php?redirect_to=x",
            "/users/sign_in",
            "https://sso.example.org/saml/x",
            "/index.php/Special:UserLogin",
            "/login",
            "/oauth2/start",
            "https://authelia.example.net/?x",
            "https://id.example.net/realms/home?redirect_uri=https%3A%2F%2Fexample.org%2F",
        ] {
            assert!(leads_to_log_in(target), "{target}");
        }
        for target in ["/author/", "/blogindex", "/", "/new-login-page-design", "/x?next=/login"] {
            assert!(!leads_to_log_in(target), "{target}");
        }
    }
}
