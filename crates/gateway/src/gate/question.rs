//! Reads from a proxy's question which request it is about.
//!
//! One set of field names, those that Caddy and Traefik send by default; other proxies are configured to set them. A
//! second set would let clients set the fields that their proxy does not set.

use http::header::HOST;
use http::request::Parts;
use http::{HeaderName, Method, Request, StatusCode, Uri};
use nightwatt_traffic::address;

use crate::authority::host_name;
use crate::facts::REQUEST_ID;
use crate::forwarded::FORWARDED_FOR;

const METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
const URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

pub(super) const NO_SITE: &str = "No such site here.";

/// The status for refusals, from `/ask/403`. It is not in the query, since Caddy adds the client's query to the path.
pub(super) fn status(behind: &str) -> Result<Option<StatusCode>, &'static str> {
    if behind.is_empty() {
        return Ok(None);
    }
    let code = behind.strip_prefix('/').and_then(|code| code.parse::<StatusCode>().ok());
    match code.filter(|code| code.is_client_error() || code.is_server_error()) {
        Some(code) => Ok(Some(code)),
        None => Err("Ask by `/ask`, or by `/ask/403` with a status of 400 to 599."),
    }
}

/// The host for which a proxy asks.
pub(super) fn host(asked: &Parts) -> String {
    let host = text(asked, &FORWARDED_HOST).or_else(|| text(asked, &HOST)).unwrap_or_default();
    host_name(host)
}

/// What is wrong with a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum QuestionError {
    /// The proxy asks in a wrong way, and will for every request.
    Proxy(&'static str),
    /// The client's request is not valid.
    Client(&'static str),
}

/// The head of the request that a question is about.
pub(super) fn read(asked: &Parts) -> Result<Parts, QuestionError> {
    let bytes = |name: &HeaderName, text| match asked.headers.get(name) {
        Some(value) => Ok(value.as_bytes()),
        None => Err(QuestionError::Proxy(text)),
    };
    let uri = bytes(
        &URI,
        "Asked without X-Forwarded-Uri, the target of the request: have the proxy set it (docs/gates.md).",
    )?;
    let method = bytes(
        &METHOD,
        "Asked without X-Forwarded-Method, the method of the request: have the proxy set it \
         (docs/gates.md).",
    )?;
    // Without the client's address, all clients would share one wake budget.
    bytes(
        &FORWARDED_FOR,
        "Asked without X-Forwarded-For, the address of the client: have the proxy set it \
         (docs/gates.md).",
    )?;
    // Earlier values may be the client's own.
    let last = asked.headers.get_all(FORWARDED_FOR).iter().next_back();
    let last = last.and_then(|value| value.as_bytes().rsplit(|byte| *byte == b',').next());
    let last = last.and_then(|it| std::str::from_utf8(it).ok());
    if last.and_then(address::read).is_none() {
        return Err(QuestionError::Proxy(
            "X-Forwarded-For does not end with an address: have the proxy set it (docs/gates.md).",
        ));
    }
    let method = Method::from_bytes(method)
        .map_err(|_| QuestionError::Client("X-Forwarded-Method is no method of HTTP."))?;
    let target = Uri::try_from(uri).ok().and_then(|uri| uri.path_and_query().cloned());
    let target = target.filter(|target| target.as_str().starts_with('/'));
    let target = target.ok_or(QuestionError::Client(
        "X-Forwarded-Uri is no target of a request: it begins with a slash.",
    ))?;
    let (mut told, ()) = Request::new(()).into_parts();
    told.method = method;
    told.uri = Uri::from(target);
    told.headers = asked.headers.clone();
    let host = told.headers.remove(FORWARDED_HOST);
    if let Some(host) = host {
        told.headers.insert(HOST, host);
    }
    // This may well be the client's own.
    told.headers.remove(REQUEST_ID);
    Ok(told)
}

fn text<'a>(asked: &'a Parts, name: &HeaderName) -> Option<&'a str> {
    asked.headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn asked(fields: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().uri("/ask");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    const TRAEFIK: [(&str, &str); 6] = [
        ("Host", "127.0.0.1:9181"),
        ("X-Forwarded-For", "203.0.113.9"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Method", "POST"),
        ("X-Forwarded-Host", "Blog.example:8443"),
        ("X-Forwarded-Uri", "/api/items?all=1"),
    ];

    #[test]
    fn the_request_is_the_one_that_is_asked_about() {
        let parts = asked(&TRAEFIK);
        let told = read(&parts).unwrap();
        assert_eq!((told.method.as_str(), told.uri.to_string()), ("POST", TRAEFIK[5].1.to_owned()));
        assert_eq!(told.headers[HOST], "Blog.example:8443");
        assert_eq!(host(&parts), "blog.example");
        assert_eq!(host(&asked(&[("X-Forwarded-Host", "Blog.example.:80")])), "blog.example");
    }

    #[test]
    fn what_is_missing_is_named() {
        for missing in ["X-Forwarded-For", "X-Forwarded-Method", "X-Forwarded-Uri"] {
            let rest: Vec<_> = TRAEFIK.into_iter().filter(|(name, _)| *name != missing).collect();
            let Err(QuestionError::Proxy(text)) = read(&asked(&rest)) else { panic!("{missing}") };
            assert!(text.contains(&format!("without {missing}")), "{text}");
        }
    }

    #[test]
    fn an_absolute_target_is_asked_about_by_its_path() {
        let mut fields = TRAEFIK;
        fields[5].1 = "http://elsewhere/x?y";
        assert_eq!(read(&asked(&fields)).unwrap().uri.to_string(), "/x?y");
        fields[5].1 = "*";
        let Err(QuestionError::Client(text)) = read(&asked(&fields)) else {
            panic!("it is no path")
        };
        assert!(text.contains("begins with a slash"));
    }

    #[test]
    fn bytes_that_a_client_sends_are_not_what_the_proxy_has_forgotten() {
        let with = |name: &str, value: &[u8]| {
            let mut parts = asked(&TRAEFIK);
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            parts.headers.insert(name, HeaderValue::from_bytes(value).unwrap());
            read(&parts)
        };
        let umlaut = with("x-forwarded-uri", "/ä?ö".as_bytes()).unwrap();
        assert_eq!(umlaut.uri.path_and_query().unwrap().as_str(), "/ä?ö");
        for (name, value) in [("x-forwarded-uri", &b"/\xff"[..]), ("x-forwarded-method", b"G\xffT")]
        {
            assert!(matches!(with(name, value), Err(QuestionError::Client(_))), "{name}");
        }
    }

    #[test]
    fn the_last_address_is_the_proxys_word() {
        let with = |values: &[&[u8]]| {
            let mut parts = asked(&TRAEFIK);
            parts.headers.remove(FORWARDED_FOR);
            for value in values {
                parts.headers.append(FORWARDED_FOR, HeaderValue::from_bytes(value).unwrap());
            }
            read(&parts)
        };
        for good in [
            &[&b"\xff, 203.0.113.9"[..]][..],
            &[b"x", b"2001:db8::1"],
            &[b"203.0.113.9:51008"],
            &[b"[2001:db8::1]:443"],
        ] {
            assert!(with(good).is_ok(), "{good:?}");
        }
        for bad in [&[&b"203.0.113.9, unknown"[..]][..], &[b"203.0.113.9", b"\xff"], &[b""]] {
            assert!(matches!(with(bad), Err(QuestionError::Proxy(_))), "{bad:?}");
        }
    }

    #[test]
    fn a_status_is_one_of_errors() {
        assert_eq!(status(""), Ok(None));
        assert_eq!(status("/403"), Ok(Some(StatusCode::FORBIDDEN)));
        for wrong in ["/204", "/", "/1000", "403", "/403/"] {
            assert!(status(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_said_what_is_read_has_a_path(uri in "[ -~]{0,40}", method in "[ -~]{0,12}") {
            let mut fields = TRAEFIK;
            (fields[3].1, fields[5].1) = (&method, &uri);
            if let Ok(told) = read(&asked(&fields)) {
                prop_assert!(told.uri.path().starts_with('/'));
            }
        }
    }
}
