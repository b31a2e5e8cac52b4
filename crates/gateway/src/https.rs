//! Sites and TLS: who is sent on to it, and what browsers are told of it.

use http::{HeaderValue, Response, StatusCode};

use crate::answers;
use crate::authority::Authority;
use crate::body::Answer;
use crate::config::{Config, SiteConfig, TlsConfig};
use crate::facts::Facts;

/// The answer to a request that came without TLS and should not have; none to any other.
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
    // Method and body stay as they are.
    let status = StatusCode::PERMANENT_REDIRECT;
    let mut response = answers::sentence(status, &format!("This site is at {location}."));
    let location = HeaderValue::from_str(&location).ok()?;
    response.headers_mut().insert(http::header::LOCATION, location);
    Some(response)
}

/// `Strict-Transport-Security` of a site, if it says so.
pub(crate) fn hsts(site: &SiteConfig) -> Option<HeaderValue> {
    let text = site.hsts.as_ref()?.text();
    HeaderValue::from_str(&text).ok()
}
