//! Sites and TLS: redirects to TLS, and `Strict-Transport-Security`.

use http::{HeaderValue, Response, StatusCode};

use crate::answers;
use crate::authority::Authority;
use crate::body::Answer;
use crate::config::{Config, SiteConfig, TlsConfig};
use crate::facts::Facts;

/// The redirect for a request without TLS that should use it; none for any other request.
pub(crate) fn redirect(
    config: &Config,
    site: &SiteConfig,
    facts: &Facts,
) -> Option<Response<Answer>> {
    if facts.secure || !site.redirects(facts.path()) {
        return None;
    }
    // Without a Host field there is no place to redirect a client to.
    let host = Authority::parse(&facts.authority)?.host;
    let port = match config.tls.as_ref().map_or(443, TlsConfig::port) {
        443 => String::new(),
        port => format!(":{port}"),
    };
    let location = format!("https://{host}{port}{}", facts.target);
    // This status keeps method and body.
    let status = StatusCode::PERMANENT_REDIRECT;
    let mut response = answers::sentence(status, &format!("This site is at {location}."));
    let location = HeaderValue::from_str(&location).ok()?;
    response.headers_mut().insert(http::header::LOCATION, location);
    Some(response)
}

/// `Strict-Transport-Security` of a site, if configured.
pub(crate) fn hsts(site: &SiteConfig) -> Option<HeaderValue> {
    let text = site.hsts.as_ref()?.text();
    HeaderValue::from_str(&text).ok()
}
