//! Requests that change things (RFC 9111, 4.4).

use crate::harness::{ask, fields};
use http::StatusCode;
use nightwatt_httpcache::KeyRules;
use nightwatt_httpcache::invalidation::invalidated;

fn outdated(method: &str, status: u16, lines: &[&str]) -> Vec<String> {
    let asked = ask(method, "/shop/cart?id=1", &[]);
    let status = StatusCode::from_u16(status).unwrap();
    let keys = invalidated(&asked.head(), status, &fields(lines), &KeyRules::default());
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    // Each of them as plain HTTP and as TLS have it: it is the same resource.
    let (plain, by_tls): (Vec<String>, Vec<String>) =
        keys.into_iter().partition(|key| !key.starts_with("https://"));
    let same: Vec<String> = plain.iter().map(|key| format!("https://{key}")).collect();
    assert_eq!(by_tls, same);
    plain
}

#[test]
fn writing_methods_outdate_their_target() {
    for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH", "MKCOL"] {
        assert_eq!(outdated(method, 200, &[]), ["example.org/shop/cart?id=1"], "{method}");
        assert_eq!(outdated(method, 303, &[]).len(), 1, "{method}");
        for status in [400, 404, 500] {
            assert!(outdated(method, status, &[]).is_empty(), "{method} {status}");
        }
    }
    for method in ["GET", "HEAD", "OPTIONS", "TRACE", "PROPFIND"] {
        assert!(outdated(method, 200, &["Location: /other"]).is_empty(), "{method}");
    }
}

#[test]
fn so_they_do_what_they_name_on_the_same_host() {
    let named = outdated("POST", 201, &["Location: ../new", "Content-Location: list"]);
    assert_eq!(named, ["example.org/shop/cart?id=1", "example.org/new", "example.org/shop/list"]);
    let absolute = outdated("PUT", 204, &["Location: https://EXAMPLE.org/x?y"]);
    assert_eq!(absolute[1..], ["example.org/x?y"]);
    let foreign = ["Location: http://example.com/x", "Content-Location: //evil/y"];
    assert_eq!(outdated("POST", 200, &foreign).len(), 1);
    assert_eq!(outdated("POST", 200, &["Location: ?id=1"]).len(), 1, "each key once");
}
