//! What a request reveals about its client besides its agent: how a browser came to send it (`Sec-Fetch-*`), and its
//! credentials. And what the answer to a log-in reveals.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::LazyLock;

use http::header::{CONTENT_TYPE, COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderName, HeaderValue};
use nightwatt_traffic::Fetch;

/// Fields that authenticate a client. Cookies are not among them: every visitor is given some.
const CREDENTIALS: [&str; 14] = [
    "authorization",
    "api-key",
    "deploy-token",
    "job-token",
    "private-token",
    "x-access-token",
    "x-api-key",
    "x-auth-token",
    "x-emby-authorization",
    "x-emby-token",
    "x-gotify-key",
    "x-mediabrowser-token",
    "x-plex-token",
    "x-vault-token",
];

/// The key for the hashes of this process (SipHash): without it, a credential cannot be found from its hash.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A number for the credentials of a request; never 0. Nothing if it has none.
pub(crate) fn credential<'a>(fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> Option<u64> {
    // Compares the first letter first: most fields that browsers send are not in the list.
    let is_one = |name: &str| {
        matches!(
            name.as_bytes().first().map(|it| it | 0x20),
            Some(b'a' | b'd' | b'j' | b'p' | b'x')
        ) && CREDENTIALS.iter().any(|it| it.eq_ignore_ascii_case(name))
    };
    let mut shown = fields.filter(|(name, value)| is_one(name) && !value.is_empty());
    shown.next().map(|(name, value)| KEY.hash_one((name.to_ascii_lowercase(), value)).max(1))
}

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
pub(crate) const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
pub(crate) const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The values of `Sec-Fetch-Site`, `-Mode` and `-Dest`.
pub(crate) fn fetch<'a>(field: impl Fn(&HeaderName) -> Option<&'a [u8]>) -> Fetch {
    let is_document = field(&FETCH_DEST) == Some(b"document");
    if is_document && field(&FETCH_MODE) == Some(b"navigate") {
        Fetch::Navigation
    } else if !is_document && field(&FETCH_SITE) == Some(b"cross-site") {
        Fetch::PartOfAnotherSite
    } else {
        Fetch::Unknown
    }
}

/// Facts of a POST that determine how to interpret its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Posted {
    is_json: bool,
    has_cookies: bool,
}

impl Posted {
    pub(crate) fn of(fields: &HeaderMap) -> Self {
        Self { is_json: is_of_type(fields, "json"), has_cookies: fields.contains_key(COOKIE) }
    }
}

/// Whether `Content-Type` has this subtype, or one built on it (`application/problem+json`).
fn is_of_type(fields: &HeaderMap, subtype: &str) -> bool {
    let value = fields.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let full = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    full.rsplit(['/', '+']).next() == Some(subtype)
}

/// Parts of names of cookies that forms set, whether a log-in succeeds or not. `WordPress` sets its test cookie with
/// each answer, Django and Laravel their token.
const SET_BY_FORMS: [&str; 3] = ["csrf", "xsrf", "wordpress_test_cookie"];

/// Parts of names of session cookies. A client that sends no cookies gets a new session with each answer.
const SESSIONS: [&str; 2] = ["sess", "sid"];

/// Whether the answer to a POST shows a form again: a page, and no cookie that only a log-in sets.
pub(crate) fn shows_form(posted: Posted, answer: &HeaderMap) -> bool {
    let is_page = is_of_type(answer, "html");
    let says_nothing = |cookie: &HeaderValue| {
        let name = cookie.as_bytes().split(|&byte| byte == b'=').next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
        has(&SET_BY_FORMS) || !posted.has_cookies && has(&SESSIONS)
    };
    is_page && !posted.is_json && answer.get_all(SET_COOKIE).iter().all(says_nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_the_same_in_any_case_of_its_name_and_another_by_its_value() {
        let shown = |name: &'static str, value: &'static str| {
            credential([("accept", &b"x"[..]), (name, value.as_bytes())].into_iter())
        };
        assert!(shown("authorization", "Bearer a").is_some());
        assert_eq!(shown("Authorization", "Bearer a"), shown("authorization", "Bearer a"));
        assert_ne!(shown("authorization", "Bearer a"), shown("authorization", "Bearer b"));
        assert_ne!(shown("x-api-key", "a"), shown("private-token", "a"));
        for (name, value) in [("cookie", "session=1"), ("authorization", "")] {
            assert_eq!(shown(name, value), None, "{name}");
        }
    }

    /// `Set-Cookie` as `WordPress` 6.6 (wp-login.php), Django 5 and PHP's `session_start` send it.
    #[test]
    fn a_form_is_shown_again_by_a_page_without_a_cookie_of_a_log_in() {
        const HTML: &str = "text/html; charset=UTF-8";
        let form = Posted { is_json: false, has_cookies: true };
        let bare = Posted { has_cookies: false, ..form };
        let json = Posted { is_json: true, ..form };
        for (posted, content_type, cookies, expected) in [
            (form, HTML, &[][..], true),
            (form, "application/json", &[], false),
            (form, "", &[], false),
            (json, HTML, &[], false),
            (form, HTML, &["wordpress_test_cookie=WP%20Cookie%20check; path=/"], true),
            (form, HTML, &["csrftoken=abc; Path=/; SameSite=Lax"], true),
            (form, HTML, &["csrftoken=abc", "auth=1"], false),
            (form, HTML, &["PHPSESSID=new; path=/"], false),
            (bare, HTML, &["PHPSESSID=new; path=/"], true),
            (bare, HTML, &["remember_me=1"], false),
        ] {
            let mut answer = HeaderMap::new();
            answer.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            for cookie in cookies {
                answer.append(SET_COOKIE, HeaderValue::from_static(cookie));
            }
            let got = shows_form(posted, &answer);
            assert_eq!(got, expected, "{posted:?} {content_type} {cookies:?}");
        }
        let mut fields = HeaderMap::new();
        for (value, expected) in [
            ("application/json; charset=utf-8", true),
            ("application/vnd.api+JSON", true),
            ("application/x-www-form-urlencoded", false),
        ] {
            fields.insert(CONTENT_TYPE, HeaderValue::from_static(value));
            assert_eq!(Posted::of(&fields), Posted { is_json: expected, has_cookies: false });
        }
    }

    #[test]
    fn a_browser_says_how_it_came_to_ask() {
        for (site, mode, dest, expected) in [
            ("none", "navigate", "document", Fetch::Navigation),
            ("cross-site", "navigate", "document", Fetch::Navigation),
            ("cross-site", "no-cors", "image", Fetch::PartOfAnotherSite),
            ("cross-site", "navigate", "iframe", Fetch::PartOfAnotherSite),
            ("cross-site", "cors", "empty", Fetch::PartOfAnotherSite),
            ("same-origin", "no-cors", "image", Fetch::Unknown),
            ("", "", "", Fetch::Unknown),
        ] {
            let said = fetch(|name| {
                let value = match name.as_str() {
                    "sec-fetch-site" => site,
                    "sec-fetch-mode" => mode,
                    _ => dest,
                };
                (!value.is_empty()).then_some(value.as_bytes())
            });
            assert_eq!(said, expected, "{site} {mode} {dest}");
        }
    }
}
