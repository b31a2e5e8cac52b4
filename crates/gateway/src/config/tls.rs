//! `[tls]`: where clients speak TLS, and by which certificates; and what sites say of it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use nightwatt_energy::duration_text;
use rustls::pki_types::CertificateDer;
use serde::Deserialize;

use super::{AcmeConfig, CHALLENGE_PATH, Config, SiteConfig, Wrong, wrong};
use crate::authority::is_name;

/// TLS to clients.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// Addresses to listen on: `["0.0.0.0:443", "[::]:443"]`.
    pub listen: Vec<SocketAddr>,
    /// The port that clients reach them at, for redirects; default: that of the first of them.
    pub port: Option<u16>,
    /// Is HTTP/2 offered beside HTTP/1.1?
    #[serde(default = "super::yes")]
    pub http2: bool,
    /// Certificates. Clients that ask for a name that none has, or for none, get the first.
    #[serde(default)]
    pub certificate: Vec<CertificateConfig>,
    /// Who gives out those that nightwatt gets by itself.
    pub acme: Option<AcmeConfig>,
    /// The authorities that vouch for clients of some site.
    #[serde(skip)]
    pub client_authorities: Vec<CertificateDer<'static>>,
}

/// A certificate: two files in PEM, or the names for which nightwatt gets one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateConfig {
    /// The certificate, and behind it those that lead from it to an authority.
    #[serde(default)]
    pub chain: PathBuf,
    /// Its private key.
    #[serde(default)]
    pub key: PathBuf,
    /// Instead of both: names for which it is got by ACME.
    #[serde(default)]
    pub acme: Vec<String>,
}

/// `Strict-Transport-Security` (RFC 6797): browsers will speak nothing but TLS to the site.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hsts {
    /// For how long.
    #[serde(with = "duration_text")]
    pub max_age: Duration,
    /// To its subdomains neither.
    #[serde(default)]
    pub include_subdomains: bool,
    /// May browsers know that before their first visit?
    #[serde(default)]
    pub preload: bool,
}

impl Hsts {
    /// The value of the field.
    pub(crate) fn text(&self) -> String {
        let subdomains = if self.include_subdomains { "; includeSubDomains" } else { "" };
        let preload = if self.preload { "; preload" } else { "" };
        format!("max-age={}{subdomains}{preload}", self.max_age.as_secs())
    }
}

/// Where certificate authorities look for a proof by plain HTTP (RFC 8555, 8.3).
pub(super) fn default_exempt() -> Vec<String> {
    vec![CHALLENGE_PATH.to_owned()]
}

impl TlsConfig {
    /// The port in addresses that clients are redirected to.
    pub(crate) fn port(&self) -> u16 {
        self.port.or_else(|| self.listen.first().map(SocketAddr::port)).unwrap_or(443)
    }

    pub(super) fn check(&self, plain: &[SocketAddr]) -> Result<(), Wrong> {
        if self.listen.is_empty() {
            return wrong(
                "tls.listen",
                "at least one address is needed: `listen = [\"0.0.0.0:443\"]`",
            );
        }
        if self.port == Some(0) {
            return wrong("tls.port", "`port` is 0, to which no client can connect");
        }
        if self.certificate.is_empty() {
            return wrong(
                "tls",
                "no certificate: write a `[[tls.certificate]]` with `chain` and `key`, both files in PEM; or \
                 with `acme = [\"NAME\"]`, and nightwatt gets it",
            );
        }
        self.acme.as_ref().map_or(Ok(()), |acme| acme.check(plain))?;
        (0..self.certificate.len()).try_for_each(|at| self.check_certificate(at))
    }
}

impl CertificateConfig {
    /// Files in which certificates may be that were got for the same first name in another way.
    pub(crate) fn before(&self) -> Vec<PathBuf> {
        let (Some(first), Some(dir)) = (self.acme.first(), self.chain.parent()) else {
            return Vec::new();
        };
        let start = format!("{}-", first.to_ascii_lowercase().replace('*', "_"));
        let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let is_it = |path: &PathBuf| {
            let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
            let tag = name.strip_prefix(&start).and_then(|it| it.strip_suffix(".pem"));
            tag.is_some_and(|it| it.len() == 16 && it.bytes().all(|it| it.is_ascii_hexdigit()))
        };
        files.map(|file| file.path()).filter(is_it).collect()
    }
}

impl TlsConfig {
    fn check_certificate(&self, at: usize) -> Result<(), Wrong> {
        let CertificateConfig { chain, key, acme } = &self.certificate[at];
        let key_of = |name: &str| format!("tls.certificate.{at}{name}");
        let has = |path: &PathBuf| !path.as_os_str().is_empty();
        if acme.is_empty() {
            return if has(chain) && has(key) {
                Ok(())
            } else {
                wrong(
                    key_of(""),
                    "write `chain` and `key`, both files in PEM; or `acme = [\"NAME\"]`",
                )
            };
        }
        if has(chain) || has(key) {
            let text = "`chain` and `key` are files of yours; with `acme` nightwatt has its own: leave one out";
            return wrong(key_of(".acme"), text);
        }
        if self.acme.is_none() {
            let text = "whose certificates? Add `[tls.acme]` with `terms_agreed = true`";
            return wrong(key_of(".acme"), text);
        }
        let by_dns = self.acme.as_ref().is_some_and(|it| it.dns.is_some());
        let bare =
            |name: &str| name.strip_prefix("*.").filter(|_| by_dns).unwrap_or(name).to_owned();
        let is_good = |name: &&String| is_name(&bare(name)) && bare(name).contains('.');
        if let Some(name) = acme.iter().find(|name| !is_good(name)) {
            let text = format!(
                "`{name}` is no name that an authority gives certificates for: `blog.example.org`, or with \
                 `[tls.acme.dns]` also `*.example.org`"
            );
            return wrong(key_of(".acme"), text);
        }
        let earlier = self.certificate[..at].iter().flat_map(|it| &it.acme).chain(&[]);
        let twice = acme.iter().enumerate().find(|(index, name)| {
            let same = |it: &&String| it.eq_ignore_ascii_case(name);
            earlier.clone().any(|it| same(&it)) || acme[..*index].iter().any(|it| same(&it))
        });
        if let Some((_, name)) = twice {
            return wrong(key_of(".acme"), format!("a certificate for `{name}` is got already"));
        }
        Ok(())
    }
}

impl SiteConfig {
    /// Is a request for this path redirected, if it came without TLS?
    pub(crate) fn redirects(&self, path: &str) -> bool {
        let is_below = |start: &String| path.starts_with(start) && !climbs(path);
        self.redirect_to_https && !self.https_exempt.iter().any(is_below)
    }

    pub(super) fn check_tls(&self, config: &Config) -> Result<(), Wrong> {
        if let Some(path) = self.https_exempt.iter().find(|path| !path.starts_with('/')) {
            let text = format!("`{path}` is not the beginning of a path: it begins with `/`");
            return wrong("https_exempt", text);
        }
        // A proxy in front may speak TLS for us.
        if config.tls.is_some() || !config.trusted_proxies.is_empty() {
            return Ok(());
        }
        let text = "TLS is not set up: add a `[tls]` table, or name the proxy that terminates TLS in \
                    `trusted_proxies`";
        match (self.redirect_to_https, &self.hsts) {
            (true, _) => wrong("redirect_to_https", text),
            (false, Some(_)) => wrong("hsts", text),
            (false, None) => Ok(()),
        }
    }
}

/// Does a path leave the folder that it begins with, as servers read it (`/a/../b`, however it is written)?
fn climbs(path: &str) -> bool {
    let path =
        path.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    let mut steps = path.split(['/', '\\']);
    // Some servers read parameters off each step: `..;a=b`.
    steps.any(|step| step.split([';', '%']).next() == Some(".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: &str = "[[site]]\nname = \"blog\"\norigin = \"http://a:1\"\npower.simulated = {}\n";

    fn wrong_in(top: &str, site: &str) -> String {
        let text = format!("{top}\n{SITE}{site}");
        Config::parse(&text, "test").expect_err("it is wrong").to_string()
    }

    #[test]
    fn tls_may_be_all_that_is_listened_for() {
        let text = format!(
            "[tls]\nlisten = [\"[::]:8443\"]\n[[tls.certificate]]\nchain = \"c\"\nkey = \"k\"\n{SITE}\
             redirect_to_https = true\nhsts = {{ max_age = \"180d\", include_subdomains = true }}\n"
        );
        let config = Config::parse(&text, "test").unwrap();
        assert_eq!(config.tls.as_ref().unwrap().port(), 8443);
        let site = &config.site[0];
        // 180 × 86,400 s.
        assert_eq!(site.hsts.as_ref().unwrap().text(), "max-age=15552000; includeSubDomains");
        assert!(site.redirects("/") && site.redirects("/.well-known/security.txt"));
        assert!(!site.redirects("/.well-known/acme-challenge/x"));
    }

    #[test]
    fn what_cannot_work_is_said_with_its_line() {
        let listen = "listen = [\"0.0.0.0:80\"]";
        let said = wrong_in(&format!("{listen}\n[tls]\nlisten = [\"0.0.0.0:443\"]"), "");
        assert!(said.starts_with("test:2") && said.contains("[[tls.certificate]]"), "{said}");
        let both =
            "[tls]\nlisten = [\"0.0.0.0:80\"]\n[[tls.certificate]]\nchain = \"c\"\nkey = \"k\"";
        let said = wrong_in(&format!("{listen}\n{both}"), "");
        assert!(said.contains("HTTP is listened for at 0.0.0.0:80"), "{said}");
        let said = wrong_in(listen, "redirect_to_https = true");
        assert!(said.starts_with("test:6:1: TLS is not set up"), "{said}");
        let said = wrong_in(listen, "hsts = { max_age = \"1d\" }");
        assert!(said.starts_with("test:6:1: TLS is not set up"), "{said}");
        let said = wrong_in(listen, "https_exempt = [\"acme\"]");
        assert!(said.starts_with("test:6:1: `acme` is not the beginning"), "{said}");
    }

    #[test]
    fn a_path_that_leaves_an_exempt_folder_is_redirected_like_any_other() {
        let lines =
            "[tls]\nlisten = [\"[::]:8443\"]\n[[tls.certificate]]\nchain = \"c\"\nkey = \"k\"\n";
        let text = format!("{lines}{SITE}redirect_to_https = true\n");
        let config = Config::parse(&text, "test").unwrap();
        let redirects = |path: &str| config.site[0].redirects(path);
        let folder = "/.well-known/acme-challenge";
        for exempt in ["/token", "/a..b", "/...", "/"] {
            assert!(!redirects(&format!("{folder}{exempt}")), "{exempt}");
        }
        for path in
            ["/../../x", "/%2e%2E/x", "/..%2fx", "/..;a=b/x", "/..\\x", "/..%5Cx", "/%2e.%00/x"]
        {
            assert!(redirects(&format!("{folder}{path}")), "{path}");
        }
        assert!(redirects("/x"));
    }
}
