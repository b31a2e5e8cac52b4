use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, StatusCode};

use super::*;
use crate::Stored;
use crate::directives::RequestDirectives;
use crate::reuse::Usability;
use crate::storing::NotStorable;
use crate::time::{Times, Timestamp};

mod own_requests;
mod properties;

const APPLICATIONS: &str = include_str!("../../tests/data/applications.tsv");

const NOW: Timestamp = Timestamp::from_secs(1_795_435_200);

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

fn at<'a>(authority: &'a str, headers: &'a HeaderMap) -> RequestHead<'a> {
    RequestHead { method: &Method::GET, authority, path_and_query: "/page", headers }
}

fn sender_of(fields: &[(&str, &str)]) -> Sender {
    Sender::of(&at("example.org", &headers(fields)), &Rules::default())
}

/// Every way in which answers are assumed to be the same for all.
fn assuming() -> [Rules; 2] {
    let rules = Rules {
        assumes: true,
        default_ttl: Some(std::time::Duration::from_mins(2)),
        ..Rules::default()
    };
    [Rules { fill: Fill::Clients, ..rules.clone() }, rules]
}

fn usability(stored: &Stored, fields: &HeaderMap, rules: &Rules) -> Usability {
    let asked = RequestDirectives::parse(fields);
    stored.usability(&at("example.org", fields), &asked, NOW, rules)
}

#[test]
fn every_line_of_the_lists_can_be_read() {
    let mut seen = std::collections::HashSet::new();
    for line in FIELDS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [name, class, passed, source] = columns[..] else { panic!("four columns: {line}") };
        assert!(seen.insert(name), "{name} twice");
        assert_eq!(name, name.to_ascii_lowercase());
        assert!(
            ["neutral", "selecting", "fragment", "routing", "identity"].contains(&class),
            "{line}"
        );
        assert!(["pass", "drop", "never"].contains(&passed), "{line}");
        assert!(!source.is_empty(), "{line}");
        let bare = name.strip_suffix('*').unwrap_or(name);
        assert!(!bare.contains('*') && HeaderName::from_bytes(bare.as_bytes()).is_ok(), "{line}");
        let is_prefix = name.ends_with('*');
        assert!(!is_prefix || bare.len() >= 3, "a prefix is looked up by three letters: {line}");
        // A field of proxies that a stranger may send is no proxy's word.
        assert!(class != "routing" || passed != "pass" || name.contains("method"), "{line}");
        let found = field_rule(name.as_bytes()).unwrap();
        assert_eq!(format!("{:?}", found.class).to_lowercase(), class, "{line}");
    }
    for line in COOKIES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [name, source] = columns[..] else { panic!("two columns: {line}") };
        assert!(seen.insert(name), "{name} twice");
        assert!(!source.is_empty(), "{line}");
        let bare = name.strip_suffix('*').unwrap_or(name);
        assert!(bare.len() >= 3 && !bare.contains(['*', ';', '=', ' ']), "{line}");
    }
}

#[test]
fn the_users_of_a_hundred_applications_are_never_taken_for_anonymous() {
    let mut applications = std::collections::HashSet::new();
    for [application, place, name, value, source] in rows::<5>(APPLICATIONS) {
        applications.insert(application);
        let cookie = format!("{name}={value}");
        let fields = match place {
            "field" => [(name, value)],
            "cookie" => [("cookie", cookie.as_str())],
            _ => panic!("{application}: {place}"),
        };
        let known = headers(&fields);
        let sender = Sender::of(&at("example.org", &known), &Rules::default());
        assert!(!sender.is_anonymous(), "{application}: {name} ({source})");
        let nothing = HeaderMap::new();
        for rules in assuming() {
            for filler in [Filler::Client, Filler::Proxy] {
                let answer = |asked: &HeaderMap, says: &[(&str, &str)]| {
                    let asked = at("example.org", asked);
                    Stored::new(
                        &asked,
                        filler,
                        StatusCode::OK,
                        &headers(says),
                        Times::at(NOW),
                        &rules,
                    )
                };
                // What that user got is not kept: neither unmarked nor with a bare lifetime.
                for says in [&[][..], &[("cache-control", "max-age=60")], &[("etag", "\"1\"")]] {
                    if filler == Filler::Client {
                        assert!(answer(&known, says).is_err(), "{application}: {name} {says:?}");
                    }
                }
                // Nor does that user get what was assumed for all.
                if let Ok(stored) = answer(&nothing, &[]) {
                    assert!(
                        matches!(usability(&stored, &known, &rules), Usability::Unusable(_)),
                        "{application}: {name}"
                    );
                    assert!(!stored.answers_plainly(sender, NOW, &rules), "{application}: {name}");
                }
            }
        }
    }
    assert!(applications.len() >= 100, "{}", applications.len());
}

#[test]
fn what_browsers_crawlers_and_analytics_send_names_nobody() {
    for fields in [
        &[
            ("user-agent", "Mozilla/5.0"),
            ("accept", "text/html,*/*;q=0.8"),
            ("accept-language", "de"),
            ("accept-encoding", "gzip, deflate, br, zstd"),
            ("sec-fetch-site", "none"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
            ("sec-fetch-user", "?1"),
            ("sec-ch-ua", "\"Chromium\";v=\"150\""),
            ("sec-ch-ua-mobile", "?0"),
            ("sec-ch-ua-platform", "\"Linux\""),
            ("sec-gpc", "1"),
            ("dnt", "1"),
            ("priority", "u=0, i"),
            ("te", "trailers"),
            ("upgrade-insecure-requests", "1"),
            ("cookie", "_ga=GA1.1.1.1; _ga_ABC=GS1.1; _gid=GA1.2; _fbp=fb.1; OptanonConsent=x"),
        ][..],
        &[("host", "example.org"), ("content-length", "0"), ("connection", "keep-alive")],
        &[("if-none-match", "\"a\""), ("range", "bytes=0-"), ("cache-control", "max-age=0")],
        &[("x-forwarded-for", "203.0.113.9"), ("x-forwarded-proto", "https"), ("via", "1.1 a")],
        &[("from", "googlebot(at)googlebot.com")],
        &[("x-forwarded-host", "Example.ORG:80"), ("x-forwarded-port", "80")],
        &[("cookie", "OptanonConsent=a%2Cb")],
        &[("forwarded", "for=\"[2001:db8::1]\";proto=http;host=example.org, for=10.0.0.1")],
    ] {
        assert_eq!(sender_of(fields), Sender::ANONYMOUS, "{fields:?}");
    }
}

#[test]
fn each_finding_has_its_fields() {
    for (field, value, finding) in [
        ("x-anything", "1", Sender::FIELD),
        ("sec-session-id", "1", Sender::FIELD),
        ("x-forwarded-user", "alice", Sender::FIELD),
        ("x-forwarded-made-up", "alice", Sender::FIELD),
        ("baggage", "userId=alice", Sender::FIELD),
        ("from", "a@example.org", Sender::FIELD),
        ("cf-access-jwt-assertion", "x", Sender::FIELD),
        ("cookie", "sid=1", Sender::COOKIE),
        ("cookie", "_ga=1; sid=1", Sender::COOKIE),
        ("cookie", "_GA=1", Sender::COOKIE),
        ("cookie", "_ga=1, session=alice", Sender::COOKIE),
        ("forwarded", "for=1.2.3.4;host=EXAMPLE.org", Sender::ROUTED),
        ("hx-request", "true", Sender::FRAGMENT),
        ("x-requested-with", "XMLHttpRequest", Sender::FRAGMENT),
        ("x-forwarded-host", "evil.test", Sender::ROUTED),
        ("x-forwarded-host", "example.org, evil.test", Sender::ROUTED),
        ("x-forwarded-host", "example.org:443", Sender::ROUTED),
        ("x-forwarded-port", "443", Sender::ROUTED),
        ("x-forwarded-prefix", "/evil", Sender::ROUTED),
        ("forwarded", "for=1.2.3.4;host=evil.test", Sender::ROUTED),
        ("forwarded", "for=1.2.3.4;proto=https", Sender::ROUTED),
        ("x-original-url", "/admin", Sender::ROUTED),
        ("x-http-method-override", "DELETE", Sender::ROUTED),
        ("content-length", "1", Sender::CONTENT),
        ("transfer-encoding", "chunked", Sender::CONTENT),
    ] {
        assert_eq!(sender_of(&[(field, value)]), finding, "{field}: {value}");
    }
}

#[test]
fn an_operator_may_know_more() {
    let rules = Rules {
        harmless_headers: vec!["x-app-*".into(), "x-forwarded-prefix".into()],
        cookies: CookieRules { harmless: vec!["theme".into()], ..CookieRules::default() },
        ..Rules::default()
    };
    let of = |field: (&str, &str)| Sender::of(&at("example.org", &headers(&[field])), &rules);
    for field in
        [("x-app-version", "1"), ("X-Forwarded-Prefix", "/a"), ("cookie", "theme=dark; _ga=1")]
    {
        assert_eq!(of(field), Sender::ANONYMOUS, "{field:?}");
    }
    assert_eq!(of(("x-ap", "1")), Sender::FIELD);
    assert_eq!(of(("cookie", "themes=1")), Sender::COOKIE);
}

#[test]
fn forgeries_of_proxies_fields_go_no_further() {
    for (name, stranger, proxy) in [
        ("X-Forwarded-User", false, true),
        ("x-forwarded-client-cert", false, true),
        ("x-original-url", false, true),
        ("x-rewrite-url", false, true),
        ("x-client-ip", false, true),
        ("cf-connecting-ip", false, true),
        ("remote-user", false, true),
        ("tailscale-user-login", false, true),
        ("x-forwarded-host", false, true),
        ("forwarded", false, true),
        ("x-real-ip", false, true),
        // CGI makes HTTP_REMOTE_USER and HTTP_X_FORWARDED_FOR of these too, and proxies do not send them.
        ("Remote_User", false, false),
        ("x_forwarded-for", false, false),
        ("remote.user", false, false),
        ("x.forwarded.user", false, false),
        ("sm-user", false, true),
        ("sm_user", false, true),
        ("OIDC-CLAIM-sub", false, true),
        ("wl-proxy-client-ip", false, true),
        ("https", false, false),
        ("cf-visitor", false, false),
        ("proxy", false, false),
        ("x-forwarded-server", false, false),
        ("x-forwarded-ssl", false, false),
        ("authorization", true, true),
        ("private-token", true, true),
        ("x-emby-token", true, true),
        ("x-anything", true, true),
        ("some_field", true, true),
        // What the proxy sets, or goes by itself.
        ("X_Request_Id", false, false),
        ("content_length", false, false),
        ("Transfer_Encoding", false, false),
        ("accept_language", false, false),
        ("cache.control", false, false),
        ("Sec_Fetch_Site", false, false),
        ("x_inertia", false, false),
        // Credentials pass, and count as such.
        ("X_Emby_Token", true, true),
        ("api_key", true, true),
        ("accept", true, true),
    ] {
        assert_eq!(is_passed_on(name.as_bytes(), false), stranger, "{name} from a stranger");
        assert_eq!(is_passed_on(name.as_bytes(), true), proxy, "{name} from a trusted proxy");
    }
}

/// F12: no spelling of a name that CGI maps onto one of ours reaches the server.
#[test]
fn what_cgi_reads_as_another_name_is_dropped_or_counts_as_a_credential() {
    let mut spellings = 0;
    for [name, ..] in rows::<4>(FIELDS) {
        let name = name.replace('*', "any");
        if !name.contains('-') || name.contains('_') {
            continue;
        }
        for sign in ['_', '.', '!', '~', '#', '$', '%', '&', '\'', '*', '+', '^', '`', '|'] {
            let all = name.replace('-', &sign.to_string());
            for spelling in [name.replacen('-', &sign.to_string(), 1), all] {
                let rule = field_rule(name.as_bytes()).unwrap();
                let passes = is_passed_on(spelling.as_bytes(), true);
                let is_clients_own =
                    rule.passed_from == PassedFrom::Anybody && rule.class == FieldClass::Identity;
                // A prefix of the list may cover it.
                let is_listed = field_rule(spelling.as_bytes()).is_some();
                assert!(!passes || is_clients_own || is_listed, "{spelling}");
                if passes && !is_listed {
                    assert_eq!(Sender::of_name(spelling.as_bytes()), Sender::FIELD, "{spelling}");
                }
                spellings += 1;
            }
        }
    }
    assert!(spellings > 1000, "{spellings}");
}

#[test]
fn content_in_a_request_keeps_its_answer_out() {
    let asked = headers(&[("content-length", "12")]);
    let public = headers(&[("cache-control", "public, max-age=60")]);
    for rules in assuming() {
        let stored = Stored::new(
            &at("h", &asked),
            Filler::Client,
            StatusCode::OK,
            &public,
            Times::at(NOW),
            &rules,
        );
        assert_eq!(stored, Err(NotStorable::Bypass));
        let nothing = HeaderMap::new();
        let page = Stored::new(
            &at("h", &nothing),
            Filler::Client,
            StatusCode::OK,
            &public,
            Times::at(NOW),
            &rules,
        );
        assert!(matches!(usability(&page.unwrap(), &asked, &rules), Usability::Unusable(_)));
    }
}

#[test]
fn a_fragment_is_no_page_unless_vary_tells_them_apart() {
    let rules = Rules::default();
    let (page, part) = (HeaderMap::new(), headers(&[("hx-request", "true")]));
    let says = |vary: &str| headers(&[("cache-control", "max-age=60"), ("vary", vary)]);
    let store = |asked: &HeaderMap, vary: &str| {
        Stored::new(
            &at("h", asked),
            Filler::Client,
            StatusCode::OK,
            &says(vary),
            Times::at(NOW),
            &rules,
        )
    };
    assert_eq!(store(&part, "accept"), Err(NotStorable::Fragment));
    let usable = |stored: &Stored, asked: &HeaderMap| {
        matches!(usability(stored, asked, &rules), Usability::Fresh { .. })
    };
    let whole = store(&page, "accept").unwrap();
    assert!(usable(&whole, &page) && !usable(&whole, &part));
    let told = store(&part, "HX-Request").unwrap();
    assert!(usable(&told, &part) && !usable(&told, &page));
    // Another field of the same kind is not named.
    let target = headers(&[("hx-request", "true"), ("hx-target", "list")]);
    assert!(!usable(&told, &target));
}

#[test]
fn nothing_is_assumed_unless_the_operator_says_so() {
    let nothing = HeaderMap::new();
    let store = |filler, says: &[(&str, &str)], rules: &Rules| {
        let says = headers(says);
        Stored::new(&at("h", &nothing), filler, StatusCode::OK, &says, Times::at(NOW), rules)
            .map(|stored| stored.basis())
    };
    let [clients, own] = assuming();
    let default = Rules::default();
    for says in
        [&[][..], &[("etag", "\"1\"")], &[("last-modified", "Mon, 01 Jan 2024 00:00:00 GMT")]]
    {
        assert_eq!(store(Filler::Client, says, &default), Err(NotStorable::Unmarked));
        assert_eq!(store(Filler::Proxy, says, &default), Err(NotStorable::Unmarked));
        assert_eq!(store(Filler::Client, says, &own), Err(NotStorable::NotOwnRequest));
        assert_eq!(store(Filler::Proxy, says, &own), Ok(Basis::OwnRequest));
        assert_eq!(store(Filler::Client, says, &clients), Ok(Basis::ClientRequest));
    }
    // A lifetime of nothing is no leave to share.
    for says in [("cache-control", "max-age=0"), ("cache-control", "s-maxage=0"), ("expires", "0")]
    {
        assert_eq!(
            store(Filler::Client, &[says], &default),
            Err(NotStorable::Unmarked),
            "{says:?}"
        );
    }
    for marked in ["max-age=60", "s-maxage=60", "public"] {
        let says = [("cache-control", marked)];
        assert_eq!(store(Filler::Client, &says, &default), Ok(Basis::Marked), "{marked}");
    }
}

#[test]
fn what_is_assumed_no_longer_is_given_no_longer() {
    let nothing = HeaderMap::new();
    let [_, own] = assuming();
    let page = Stored::new(
        &at("h", &nothing),
        Filler::Proxy,
        StatusCode::OK,
        &HeaderMap::new(),
        Times::at(NOW),
        &own,
    );
    let page = page.unwrap();
    assert!(matches!(usability(&page, &nothing, &own), Usability::Fresh { .. }));
    assert!(matches!(usability(&page, &nothing, &Rules::default()), Usability::Unusable(_)));
}

#[test]
fn what_is_only_to_be_revalidated_is_not_shared_where_that_is_overruled() {
    let rules = Rules { respect_must_revalidate: false, ..Rules::default() };
    for (says, fields) in [
        ("max-age=60, must-revalidate", [("x-emby-token", "alice")]),
        ("s-maxage=60", [("cookie", "sid=alice")]),
    ] {
        let (asked, says) = (headers(&fields), headers(&[("cache-control", says)]));
        let store = |rules: &Rules| {
            let asked = at("h", &asked);
            Stored::new(&asked, Filler::Client, StatusCode::OK, &says, Times::at(NOW), rules)
        };
        assert!(store(&Rules::default()).is_ok(), "{says:?}");
        assert!(store(&rules).is_err(), "{says:?}");
    }
}

#[test]
fn a_content_coding_is_for_those_who_asked_for_it() {
    let [_, own] = assuming();
    for filler in [Filler::Proxy, Filler::Client] {
        let asked = headers(&[("accept-encoding", "gzip")]);
        let says = headers(&[("content-encoding", "gzip"), ("cache-control", "max-age=60")]);
        let page =
            Stored::new(&at("h", &asked), filler, StatusCode::OK, &says, Times::at(NOW), &own);
        let page = page.unwrap();
        let usable = |fields: &[(&str, &str)]| {
            !matches!(usability(&page, &headers(fields), &own), Usability::Unusable(_))
        };
        assert!(usable(&[("accept-encoding", "gzip, br")]));
        assert!(!usable(&[]) && !usable(&[("accept-encoding", "br")]));
    }
}

#[test]
fn an_error_of_one_client_is_not_served_stale() {
    use crate::reuse::Occasion::OriginAsleep;
    let nothing = HeaderMap::new();
    let [clients, own] = assuming();
    let allowed = |filler, status: u16, says: &[(&str, &str)], rules: &Rules| {
        let (status, says) = (StatusCode::from_u16(status).unwrap(), headers(says));
        let stored = Stored::new(&at("h", &nothing), filler, status, &says, Times::at(NOW), rules);
        let later = NOW.plus(std::time::Duration::from_hours(1));
        let asked = RequestDirectives::default();
        stored.is_ok_and(|it| {
            it.usability(&at("h", &nothing), &asked, later, rules).allows(OriginAsleep)
        })
    };
    for status in [404, 405, 410, 414] {
        assert!(!allowed(Filler::Client, status, &[("etag", "\"1\"")], &clients), "{status}");
        assert!(
            !allowed(Filler::Client, status, &[("cache-control", "public")], &clients),
            "{status}"
        );
        let explicit = [("cache-control", "max-age=60")];
        assert!(allowed(Filler::Client, status, &explicit, &clients), "{status}");
        // What speaks of its request is neither kept nor served stale, whatever lifetime it has.
        for own_fault in [400, 401, 403, 406, 412, 416, 417, 431] {
            assert!(!allowed(Filler::Client, own_fault, &explicit, &own), "{own_fault}");
            assert!(!allowed(Filler::Client, own_fault, &explicit, &clients), "{own_fault}");
        }
        let negative =
            Rules { negative_ttl: Some(std::time::Duration::from_secs(9)), ..clients.clone() };
        assert!(allowed(Filler::Client, status, &[], &negative), "{status}");
    }
    // The proxy itself found out that nothing is there.
    assert!(allowed(Filler::Proxy, 404, &[], &own) && allowed(Filler::Proxy, 410, &[], &own));
    assert!(!allowed(Filler::Proxy, 405, &[], &own) && !allowed(Filler::Proxy, 414, &[], &own));
}

#[test]
fn past_its_lifetime_an_answer_is_for_anonymous_clients_unless_it_is_public() {
    use crate::reuse::Occasion::{OriginAsleep, OriginFails};
    let rules = Rules::default();
    let later = NOW.plus(std::time::Duration::from_mins(10));
    let nothing = HeaderMap::new();
    for (control, is_for_all) in [("max-age=60", false), ("public, max-age=60", true)] {
        let says = headers(&[("cache-control", control)]);
        let page = Stored::new(
            &at("h", &nothing),
            Filler::Client,
            StatusCode::OK,
            &says,
            Times::at(NOW),
            &rules,
        );
        let page = page.unwrap();
        let allows = |fields: &[(&str, &str)]| {
            let fields = headers(fields);
            let usability =
                page.usability(&at("h", &fields), &RequestDirectives::default(), later, &rules);
            [OriginAsleep, OriginFails].map(|occasion| usability.allows(occasion))
        };
        assert_eq!(allows(&[]), [true; 2], "{control}");
        for known in [("cookie", "sid=1"), ("x-emby-token", "t")] {
            assert_eq!(allows(&[known]), [is_for_all; 2], "{control} {known:?}");
        }
    }
}

#[test]
fn the_fingerprint_follows_the_settings() {
    let default = Rules::default();
    assert_eq!(fingerprint(&default), fingerprint(&Rules::default()));
    for other in [
        Rules { harmless_headers: vec!["x-a".into()], ..default.clone() },
        Rules { fill: Fill::Clients, ..default.clone() },
        Rules { store_set_cookie: true, ..default.clone() },
        Rules { respect_must_revalidate: false, ..default.clone() },
        Rules {
            key: crate::KeyRules { sort_query: true, ..crate::KeyRules::default() },
            ..default.clone()
        },
        Rules {
            cookies: CookieRules { rule: CookieRule::Ignored, ..CookieRules::default() },
            ..default.clone()
        },
    ] {
        assert_ne!(fingerprint(&default), fingerprint(&other));
    }
}

/// What users read is what the code reads.
#[test]
fn the_docs_have_every_name_of_the_lists() {
    let page = include_str!("../../../../docs/caching.md");
    let fields = rows::<4>(FIELDS).map(|[name, ..]| name);
    for name in fields.chain(rows::<2>(COOKIES).map(|[name, _]| name)) {
        assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/caching.md");
    }
}
