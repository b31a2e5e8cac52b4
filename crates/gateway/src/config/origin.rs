//! `origin` and `[site.origin_tls]`: where a server is, and how it is known to be the right one.

use std::path::PathBuf;
use std::sync::Arc;

use nightwatt_host::tls::{self, TlsError};
use nightwatt_power::{Fingerprint, probe};
use rustls::ClientConfig;
use serde::Deserialize;

use super::{SiteConfig, Wrong, wrong};
use crate::authority::Authority;

/// `http://host:port`, `https://host:port` or `h2c://host:port`, nothing behind it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// It speaks TLS.
    pub by_tls: bool,
    /// It speaks HTTP/2 without TLS, and is asked by that at once (RFC 9113, 3.3).
    pub by_h2c: bool,
    /// Name or address, with port: for connecting and for `Host`, if the client sent none.
    pub authority: String,
    /// Whom it is asked for by TLS, if not for its host.
    pub name: Option<String>,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = match (self.by_tls, self.by_h2c) {
            (true, _) => "https",
            (false, true) => "h2c",
            (false, false) => "http",
        };
        write!(f, "{scheme}://{}", self.authority)
    }
}

impl<'de> Deserialize<'de> for Origin {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || {
            serde::de::Error::custom(format!(
                "`{text}` is not an origin: write `http://`, `https://` or `h2c://` and host and port, as in \
                 `http://10.0.0.5:8080`"
            ))
        };
        let uri: http::Uri = text.parse().map_err(|_| wrong())?;
        let (by_tls, by_h2c) = match uri.scheme_str() {
            Some("http") => (false, false),
            Some("https") => (true, false),
            Some("h2c") => (false, true),
            _ => return Err(wrong()),
        };
        let is_bare = uri.path() == "/" && uri.query().is_none();
        if let Some(path) = uri.path_and_query().filter(|_| !is_bare) {
            let text = format!("`{text}` is not an origin: leave out the path `{path}`");
            return Err(serde::de::Error::custom(text));
        }
        let authority = uri.authority().filter(|_| is_bare).map_or("", |it| it.as_str());
        let Authority { host, port } = Authority::parse(authority).ok_or_else(wrong)?;
        let port = port.unwrap_or(if by_tls { 443 } else { 80 });
        if port == 0 {
            return Err(wrong());
        }
        Ok(Self { by_tls, by_h2c, authority: format!("{host}:{port}"), name: None })
    }
}

impl Origin {
    /// Up with any answer to `GET /` but 502, 503 and 504; with HTTP/2 alone, if it accepts connections.
    pub(crate) fn probe(&self) -> probe::Config {
        // The probe speaks HTTP/1.1.
        if self.by_h2c {
            return probe::Config::tcp(&self.authority);
        }
        match probe::Config::http(&format!("{self}/")) {
            Ok(probe::Config::Http(http)) => {
                probe::Config::Http(probe::Http { name: self.name.clone(), ..http })
            }
            _ => probe::Config::tcp(&self.authority),
        }
    }

    /// The name or address, without brackets.
    pub(crate) fn host(&self) -> &str {
        let host = self.authority.rsplit_once(':').map_or(&*self.authority, |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }
}

/// How a server that speaks TLS is known to be the right one. By default one of the system's authorities
/// vouches for its certificate, which is for the host of `origin`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OriginTls {
    /// Who vouches for it instead of the system's authorities: certificates, in PEM.
    pub ca: Option<PathBuf>,
    /// It has this certificate, whichever authority signed it, for whatever name and time: SHA-256, as
    /// `openssl x509 -fingerprint -sha256` prints it.
    pub fingerprint: Option<Fingerprint>,
    /// Its certificate is for this name, and it is asked for by it (SNI), instead of the host of `origin`.
    pub name: Option<String>,
    /// May it be asked by HTTP/2, if it offers that?
    #[serde(default)]
    pub http2: bool,
    /// False: every certificate is accepted. A third party on the way can then read and change everything.
    #[serde(default = "super::yes")]
    pub verify: bool,
}

impl Default for OriginTls {
    fn default() -> Self {
        Self { ca: None, fingerprint: None, name: None, http2: false, verify: true }
    }
}

impl OriginTls {
    /// Whom to believe.
    pub(crate) fn trust(&self) -> Result<Arc<ClientConfig>, TlsError> {
        if self.verify {
            tls::config(self.ca.as_deref(), self.fingerprint.as_ref())
        } else {
            tls::unverified()
        }
    }
}

impl SiteConfig {
    /// Does any of its servers speak TLS?
    pub(crate) fn is_by_tls(&self) -> bool {
        self.origin.by_tls || self.server.iter().any(|server| server.origin.by_tls)
    }

    /// Servers are asked for by the name that `origin_tls` says, by probes too.
    pub(super) fn name_origins(&mut self) {
        let name = self.origin_tls.as_ref().and_then(|tls| tls.name.clone());
        let servers = self.server.iter_mut().map(|server| &mut server.origin);
        for origin in servers.chain([&mut self.origin]) {
            origin.name.clone_from(&name);
        }
    }

    pub(super) fn check_origin_tls(&self) -> Result<(), Wrong> {
        let Some(tls) = &self.origin_tls else { return Ok(()) };
        if !self.is_by_tls() {
            let text = "`origin` is plain HTTP: write `https://` there, or leave this out";
            return wrong("origin_tls", text);
        }
        let told = [tls.ca.is_some(), tls.fingerprint.is_some(), !tls.verify];
        if told.iter().filter(|it| **it).count() > 1 {
            let text = "`ca`, `fingerprint` and `verify = false` are three ways to know a server: take one";
            return wrong("origin_tls", text);
        }
        let name = tls.name.as_deref();
        if let Some(name) = name.filter(|it| rustls::pki_types::ServerName::try_from(*it).is_err())
        {
            return wrong(
                "origin_tls.name",
                format!("`{name}` is no name that a certificate can be for"),
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn parse(origin: &str, more: &str) -> Result<Config, String> {
        let text = format!(
            "listen = [\"127.0.0.1:80\"]\n[[site]]\nname = \"blog\"\norigin = \"{origin}\"\n\
             power.simulated = {{}}\n{more}"
        );
        Config::parse(&text, "x").map_err(|error| error.to_string())
    }

    #[test]
    fn an_origin_by_tls_has_port_443_and_is_probed_by_tls() {
        let site = parse("https://Server.example", "").unwrap().site.remove(0);
        assert_eq!(site.origin.to_string(), "https://Server.example:443");
        assert_eq!(site.origin.probe(), "http https://Server.example:443/".parse().unwrap());
        let site = parse("https://[fd00::5]:8443", "").unwrap().site.remove(0);
        assert_eq!((site.origin.host(), &*site.origin.authority), ("fd00::5", "[fd00::5]:8443"));
    }

    #[test]
    fn an_origin_by_http2_without_tls_is_probed_by_its_port() {
        let site = parse("h2c://10.0.0.5:50051", "").unwrap().site.remove(0);
        assert_eq!((site.origin.by_h2c, site.origin.by_tls), (true, false));
        assert_eq!(site.origin.to_string(), "h2c://10.0.0.5:50051");
        assert_eq!(site.origin.probe(), "tcp 10.0.0.5:50051".parse().unwrap());
    }

    #[test]
    fn what_does_not_go_together_is_said_with_its_line() {
        let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        for (origin, more, says) in [
            ("http://a:1", "origin_tls.ca = \"x\"", "is plain HTTP"),
            ("https://a:1", "origin_tls = { ca = \"x\", verify = false }", "take one"),
            ("https://a:1", "origin_tls.name = \"not a name\"", "no name"),
            ("https://a:1", "origin_tls.fingerprint = \"AB\"", "a fingerprint is 32 bytes"),
        ] {
            let said = parse(origin, more).unwrap_err();
            assert!(said.starts_with("x:6:") && said.contains(says), "{more}: {said}");
        }
        let both = format!("origin_tls = {{ fingerprint = \"{hex}\", name = \"b\" }}");
        assert!(parse("https://a:1", &both).is_ok());
    }
}
