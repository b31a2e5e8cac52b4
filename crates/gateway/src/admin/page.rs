//! The dashboard's files, from `web/dashboard`.

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use nightwatt_host::text::hex;
use sha2::{Digest, Sha256};

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// Path, kind, content.
const FILES: [(&str, &str, &str); 13] = [
    ("/", HTML, include_str!("../../../../web/dashboard/index.html")),
    ("/dashboard/style.css", STYLE, include_str!("../../../../web/dashboard/style.css")),
    ("/dashboard/app.js", SCRIPT, include_str!("../../../../web/dashboard/app.js")),
    ("/dashboard/api.js", SCRIPT, include_str!("../../../../web/dashboard/api.js")),
    ("/dashboard/charts.js", SCRIPT, include_str!("../../../../web/dashboard/charts.js")),
    ("/dashboard/format.js", SCRIPT, include_str!("../../../../web/dashboard/format.js")),
    ("/dashboard/figures.js", SCRIPT, include_str!("../../../../web/dashboard/figures.js")),
    (
        "/dashboard/certificates.js",
        SCRIPT,
        include_str!("../../../../web/dashboard/certificates.js"),
    ),
    ("/dashboard/containers.js", SCRIPT, include_str!("../../../../web/dashboard/containers.js")),
    ("/dashboard/jobs.js", SCRIPT, include_str!("../../../../web/dashboard/jobs.js")),
    ("/dashboard/packets.js", SCRIPT, include_str!("../../../../web/dashboard/packets.js")),
    ("/dashboard/servers.js", SCRIPT, include_str!("../../../../web/dashboard/servers.js")),
    (
        "/dashboard/chart.umd.min.js",
        SCRIPT,
        include_str!("../../../../web/vendor/chart.js-4.6.1/chart.umd.min.js"),
    ),
];

/// Allows scripts, style and data from here alone, and forbids other pages to embed this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of every page.
const HEADERS: [(HeaderName, &str); 6] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Adds them to an answer.
pub(super) fn guarded(mut response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The file of this path, if there is one.
pub(super) fn answer(path: &str, headers: &HeaderMap) -> Option<Response<Full<Bytes>>> {
    let (_, kind, text) = FILES.into_iter().find(|(name, ..)| *name == path)?;
    // The last line of the library names a source map that is not here.
    let text = text.split("\n//# sourceMappingURL=").next().unwrap_or(text);
    let hash = hex(&Sha256::digest(text.as_bytes())[..12]);
    let tag = format!("\"{hash}\"");
    let known = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let body = if known { "" } else { text };
    let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    // Never cached: after an update no browser mixes old and new files.
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        fields.insert(ETAG, tag);
    }
    Some(guarded(response))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_asks_nobody_else_and_holds_no_script_or_style_of_its_own() {
        for (name, _, text) in FILES {
            if name.ends_with(".min.js") {
                continue;
            }
            for outside in ["http://", "https://", "//cdn", "@import", "url(", "eval(", "innerHTML"]
            {
                assert!(!text.contains(outside), "{name}: {outside}");
            }
        }
        let html = FILES[0].2;
        assert!(!html.contains("style=") && !html.contains("onclick") && !html.contains("<style"));
        for script in html.split("<script").skip(1) {
            let tag = script.split('>').next().unwrap();
            assert!(tag.contains("src=\"/dashboard/"), "{tag}");
        }
    }

    #[test]
    fn what_the_page_names_is_there() {
        let known = |path: &str| FILES.iter().any(|(name, ..)| *name == path);
        for (name, _, text) in FILES {
            let imports = text.split("from \"./").skip(1).map(|it| it.split('"').next().unwrap());
            for import in imports {
                assert!(known(&format!("/dashboard/{import}")), "{name} imports {import}");
            }
            for part in text.split("=\"/dashboard/").skip(1) {
                let path = format!("/dashboard/{}", part.split('"').next().unwrap());
                assert!(known(&path), "{name} names {path}");
            }
        }
    }
}
