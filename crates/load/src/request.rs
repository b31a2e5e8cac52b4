//! What is sent for one arrival.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Uri};
use http_body_util::Full;
use nightwatt_traffic::Arrival;

use crate::agreed::{REPLAY_HEADER, etag_of, fingerprint};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// What browsers send when a user follows a link.
const ACCEPT_PAGE: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// What a page loads, rather than what a person opens. Documents and archives (pdf, zip) are not
/// here: a browser navigates to them.
const ASSETS: [&str; 30] = [
    "atom",
    "avif",
    "bmp",
    "css",
    "csv",
    "eot",
    "gif",
    "ico",
    "jpeg",
    "jpg",
    "js",
    "json",
    "map",
    "mjs",
    "mp3",
    "mp4",
    "ogg",
    "otf",
    "png",
    "rss",
    "svg",
    "ttf",
    "txt",
    "wasm",
    "webm",
    "webmanifest",
    "webp",
    "woff",
    "woff2",
    "xml",
];

/// How requests are to be dressed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestOptions {
    /// Say in `X-Forwarded-For` which client the log names.
    pub(crate) forwarded_for: bool,
    /// Leave out what only the log-backed origin understands.
    pub(crate) plain: bool,
    /// No answer is asked to be larger than this.
    pub(crate) body_limit: Option<u64>,
}

/// One request, ready to be sent under any id, as often as its client likes.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    /// A browser opens a page.
    pub(crate) navigation: bool,
    /// A logged header held bytes that HTTP does not allow; they were replaced.
    pub(crate) altered: bool,
}

impl Plan {
    /// The request that a log entry stands for, or why HTTP cannot say it. `whole_size` is the
    /// size of the resource, for an entry that was answered without it (304).
    pub(crate) fn new(
        arrival: &Arrival,
        host: &HeaderValue,
        whole_size: u64,
        dress: RequestOptions,
    ) -> Result<Self, &'static str> {
        let method = Method::from_bytes(arrival.method.as_bytes())
            .map_err(|_| "the method is not an HTTP token")?;
        let uri = uri_of(&method, &arrival.target)?;
        let body = body_of(&method, &arrival.target);
        let navigation = method == Method::GET
            && arrival.agent.as_deref().is_some_and(is_browser)
            && looks_like_page(uri.path());
        let mut headers = Headers { map: HeaderMap::with_capacity(10), altered: false };
        headers.map.insert(header::HOST, host.clone());
        if let Some(agent) = &arrival.agent {
            headers.put(header::USER_AGENT, agent);
        }
        headers.put(header::ACCEPT, if navigation { ACCEPT_PAGE } else { "*/*" });
        if let Some(referer) = &arrival.referer {
            headers.put(header::REFERER, referer);
        }
        if navigation {
            headers.put(HeaderName::from_static("sec-fetch-mode"), "navigate");
            headers.put(HeaderName::from_static("sec-fetch-dest"), "document");
        }
        if dress.forwarded_for {
            headers.put(FORWARDED_FOR, &arrival.client);
        }
        if !body.is_empty() {
            headers.put(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        }
        if arrival.status == 206 && arrival.bytes > 0 && method == Method::GET {
            headers.put(header::RANGE, &format!("bytes=0-{}", arrival.bytes - 1));
        }
        if !dress.plain {
            let bytes = if arrival.status == 304 { whole_size } else { arrival.bytes };
            let bytes = bytes.min(dress.body_limit.unwrap_or(u64::MAX));
            headers.put(REPLAY_HEADER, &format!("status={}; bytes={bytes}", arrival.status));
            if arrival.status == 304 && [Method::GET, Method::HEAD].contains(&method) {
                headers.put(header::IF_NONE_MATCH, &etag_of(&arrival.target));
            }
        }
        let Headers { map: headers, altered } = headers;
        Ok(Self { method, uri, headers, body, navigation, altered })
    }

    /// What this client's waiting page asks while it waits.
    pub(crate) fn poll(&self) -> Self {
        let mut headers = self.headers.clone();
        for name in [header::IF_NONE_MATCH, header::RANGE, REPLAY_HEADER] {
            headers.remove(name);
        }
        headers.remove("sec-fetch-dest");
        headers.insert("sec-fetch-mode", HeaderValue::from_static("cors"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        Self {
            method: Method::GET,
            uri: Uri::from_static("/.nightwatt/state"),
            headers,
            body: Bytes::new(),
            navigation: false,
            altered: false,
        }
    }

    /// May it be sent twice without harm if it's unknown whether it arrived?
    pub(crate) fn is_repeatable(&self) -> bool {
        self.method.is_safe()
    }

    /// The request, under this id.
    pub(crate) fn request(&self, id: &str) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        request.method_mut().clone_from(&self.method);
        request.uri_mut().clone_from(&self.uri);
        request.headers_mut().clone_from(&self.headers);
        if let Ok(id) = HeaderValue::from_str(id) {
            request.headers_mut().insert(REQUEST_ID, id);
        }
        request
    }
}

/// Headers under construction.
struct Headers {
    map: HeaderMap,
    altered: bool,
}

impl Headers {
    fn put(&mut self, name: HeaderName, value: &str) {
        let value = HeaderValue::from_str(value).unwrap_or_else(|_| {
            self.altered = true;
            let clean = value.bytes().map(|b| if b.is_ascii_control() { b'?' } else { b });
            HeaderValue::from_bytes(&clean.collect::<Vec<_>>())
                .unwrap_or_else(|_| HeaderValue::from_static("?"))
        });
        self.map.insert(name, value);
    }
}

fn uri_of(method: &Method, target: &str) -> Result<Uri, &'static str> {
    if method == Method::CONNECT {
        return Err("CONNECT asks for a tunnel, not for a resource");
    }
    if target == "*" && method == Method::OPTIONS {
        return Ok(Uri::from_static("*"));
    }
    if !target.starts_with('/') {
        return Err("the target is not a path");
    }
    let path = PathAndQuery::try_from(target)
        .map_err(|_| "the target holds bytes that are not allowed in it")?;
    // A fragment would be cut off, and another resource asked for than the log says.
    if path.as_str() != target {
        return Err("the target holds a fragment (#)");
    }
    Ok(Uri::from(path))
}

/// A log says nothing of bodies; their length depends on the target only, so that two runs agree.
fn body_of(method: &Method, target: &str) -> Bytes {
    if ![Method::POST, Method::PUT, Method::PATCH].contains(method) {
        return Bytes::new();
    }
    let length = 16 + (fingerprint(target) % 240) as usize;
    let mut body = b"nightwatt=".to_vec();
    body.resize(length, b'x');
    body.into()
}

/// Does it call itself a browser, and nothing else besides?
fn is_browser(agent: &str) -> bool {
    let agent = agent.to_ascii_lowercase();
    let robots = ["bot", "crawl", "spider", "slurp", "http://", "https://"];
    (agent.starts_with("mozilla/") || agent.starts_with("opera/"))
        && !robots.iter().any(|sign| agent.contains(sign))
}

/// Is it something that a person opens, by its name?
pub(crate) fn looks_like_page(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    let Some((_, extension)) = file.rsplit_once('.') else { return true };
    let extension = extension.to_ascii_lowercase();
    !ASSETS.contains(&extension.as_str())
}

#[cfg(test)]
mod tests {
    use nightwatt_energy::time::Wall;

    use super::*;

    const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0";
    const GOOGLEBOT: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot)";
    const DRESS: RequestOptions =
        RequestOptions { forwarded_for: true, plain: false, body_limit: None };

    fn arrival(method: &str, target: &str, agent: &str) -> Arrival {
        Arrival {
            at: Wall::from_secs(0),
            utc_offset: 0,
            client: "192.0.2.7".into(),
            method: method.into(),
            target: target.into(),
            status: 200,
            bytes: 1234,
            referer: None,
            agent: Some(agent.into()),
        }
    }

    fn plan(arrival: &Arrival, dress: RequestOptions) -> Result<Plan, &'static str> {
        Plan::new(arrival, &HeaderValue::from_static("example.org"), 77, dress)
    }

    fn header(plan: &Plan, name: &str) -> Option<String> {
        let request = plan.request("r-1");
        request.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn a_browser_navigates_to_pages_and_not_to_images_and_a_crawler_never() {
        let navigates = |method: &str, target: &str, agent: &str| {
            let plan = plan(&arrival(method, target, agent), DRESS).unwrap();
            let says_so = header(&plan, "sec-fetch-mode").as_deref() == Some("navigate")
                && header(&plan, "accept").unwrap().starts_with("text/html");
            assert_eq!(plan.navigation, says_so);
            plan.navigation
        };
        assert!(navigates("GET", "/", FIREFOX));
        assert!(navigates("GET", "/a.php?file=b.png", FIREFOX));
        assert!(navigates("GET", "/paper.pdf", FIREFOX));
        assert!(!navigates("GET", "/logo.PNG?v=2", FIREFOX));
        assert!(!navigates("POST", "/", FIREFOX));
        assert!(!navigates("GET", "/", GOOGLEBOT));
        assert!(!navigates("GET", "/", "curl/8.5.0"));
    }

    #[test]
    fn what_http_cannot_say_is_refused_with_a_reason() {
        let sendable = |method, target| plan(&arrival(method, target, "x"), DRESS);
        for (method, target) in [
            ("G\u{1}T", "/"),
            ("GET", "http://other.example/"),
            ("CONNECT", "example.org:443"),
            ("GET", "*"),
            ("GET", "/a b"),
            ("GET", "/?q=\"x\""),
            ("GET", "/a#b"),
            ("GET", "/\u{0}"),
            ("GET", ""),
        ] {
            assert!(sendable(method, target).is_err(), "{method} {target}");
        }
        for (method, target) in [
            ("OPTIONS", "*"),
            ("PROPFIND", "/dav/"),
            ("GET", "//double//"),
            ("GET", "/%zz%00%"),
            ("GET", "/?q={a}|b"),
        ] {
            let plan = sendable(method, target).unwrap_or_else(|why| panic!("{target}: {why}"));
            assert_eq!(plan.request("r").uri(), target);
        }
    }

    #[test]
    fn the_log_backed_origin_is_told_what_to_answer_and_a_real_server_is_not() {
        let mut logged = arrival("GET", "/a?b", FIREFOX);
        assert_eq!(
            header(&plan(&logged, DRESS).unwrap(), "nightwatt-replay").unwrap(),
            "status=200; bytes=1234"
        );
        logged.status = 304;
        logged.bytes = 0;
        let conditional = plan(&logged, DRESS).unwrap();
        assert_eq!(header(&conditional, "nightwatt-replay").unwrap(), "status=304; bytes=77");
        assert_eq!(header(&conditional, "if-none-match").unwrap(), etag_of("/a"));
        assert_eq!(header(&conditional.poll(), "if-none-match"), None);
        let plain =
            plan(&logged, RequestOptions { plain: true, forwarded_for: false, ..DRESS }).unwrap();
        for name in ["nightwatt-replay", "if-none-match", "x-forwarded-for"] {
            assert_eq!(header(&plain, name), None, "{name}");
        }
        let limited =
            plan(&arrival("GET", "/", "x"), RequestOptions { body_limit: Some(10), ..DRESS });
        assert_eq!(header(&limited.unwrap(), "nightwatt-replay").unwrap(), "status=200; bytes=10");
    }

    #[test]
    fn bytes_that_no_header_may_hold_are_replaced_and_counted() {
        let odd = plan(&arrival("GET", "/", "a\r\nX-Evil: 1"), DRESS).unwrap();
        assert!(odd.altered);
        assert_eq!(header(&odd, "user-agent").unwrap(), "a??X-Evil: 1");
    }

    #[test]
    fn bodies_have_the_same_length_every_time() {
        let post = || plan(&arrival("POST", "/form", "x"), DRESS).unwrap().body;
        assert_eq!(post(), post());
        assert!((16..256).contains(&post().len()));
        assert!(plan(&arrival("GET", "/form", "x"), DRESS).unwrap().body.is_empty());
    }
}
