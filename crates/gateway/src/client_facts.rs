//! What a request says of its client beside its agent: how a browser came to ask (`Sec-Fetch-*`), and what
//! it shows to be let in.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::LazyLock;

use http::HeaderName;
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

/// The key of the hashes of this process (SipHash): without it no credential can be found that has a given hash.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A number for what a request shows to be let in, by its fields; never 0. Nothing if it shows nothing.
pub(crate) fn credential<'a>(fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> Option<u64> {
    // By the first letter: most fields of browsers are not among these.
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

/// What `Sec-Fetch-Site`, `-Mode` and `-Dest` say.
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
