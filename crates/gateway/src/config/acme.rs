//! `[tls.acme]`: certificates that nightwatt obtains and renews by itself (RFC 8555).

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{Config, DnsConfig, Wrong, wrong};

/// The paths at which an authority requests a proof over plain HTTP (RFC 8555, 8.3).
pub(crate) const CHALLENGE_PATH: &str = "/.well-known/acme-challenge/";

/// URLs of `letsencrypt` and `letsencrypt-staging`.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

/// A certificate authority that issues certificates by ACME.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcmeConfig {
    /// `letsencrypt`, `letsencrypt-staging`, or the URL of an authority's directory.
    #[serde(default = "letsencrypt")]
    pub directory: String,
    /// The operator agrees to the authority's terms of service.
    pub terms_agreed: bool,
    /// Contact address for the authority.
    pub email: Option<String>,
    /// How to prove that the names are ours; default: `http-01` if there is a listener for plain HTTP, else
    /// `tls-alpn-01`.
    pub proof: Option<Proof>,
    /// How records in DNS are changed, for `dns-01`.
    pub dns: Option<DnsConfig>,
    /// Root certificates for the authority's own server instead of the system's, in PEM.
    pub ca: Option<PathBuf>,
}

/// How to prove that a name is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Proof {
    /// By a file that the authority fetches by plain HTTP, from port 80.
    #[serde(rename = "http-01")]
    Http,
    /// By a certificate that the authority requests at port 443 (RFC 8737).
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn,
    /// By a record in DNS, also for names with a star.
    #[serde(rename = "dns-01")]
    Dns,
}

/// A short hash of a text.
pub(crate) fn tag(text: &str) -> String {
    let digest = Sha256::digest(text);
    let first = digest.first_chunk().map_or(0, |first| u64::from_be_bytes(*first));
    format!("{first:016x}")
}

fn letsencrypt() -> String {
    "letsencrypt".to_owned()
}

impl AcmeConfig {
    /// The name of the file for a certificate of these names.
    pub fn file(&self, names: &[String]) -> PathBuf {
        let mut names: Vec<String> = names.iter().map(|it| it.to_ascii_lowercase()).collect();
        let first = names.first().map(|it| it.replace('*', "_")).unwrap_or_default();
        names.sort();
        let whole = format!("{}\n{}", self.url(), names.join("\n"));
        format!("{first}-{}.pem", tag(&whole)).into()
    }

    /// The URL of the directory.
    pub(crate) fn url(&self) -> &str {
        match self.directory.as_str() {
            "letsencrypt" => LETS_ENCRYPT,
            "letsencrypt-staging" => LETS_ENCRYPT_STAGING,
            url => url,
        }
    }

    pub(super) fn check(&self, plain: &[SocketAddr]) -> Result<(), Wrong> {
        if !self.terms_agreed {
            let text = "an authority gives certificates to those who agree to its terms only: read them, and \
                        write `terms_agreed = true`";
            return wrong("tls.acme.terms_agreed", text);
        }
        if !self.url().starts_with("https://") {
            let text = format!(
                "`{}` is no directory: write `letsencrypt`, `letsencrypt-staging` or an authority's \
                 `https://` address",
                self.directory
            );
            return wrong("tls.acme.directory", text);
        }
        if self.email.as_ref().is_some_and(|it| !it.contains('@')) {
            return wrong("tls.acme.email", "`email` is no address: `you@example.org`");
        }
        if (self.proof == Some(Proof::Dns)) != self.dns.is_some() && self.proof.is_some() {
            let text = "`dns-01` and `[tls.acme.dns]` belong together: write both, or none of them";
            return wrong("tls.acme.proof", text);
        }
        self.dns.as_ref().map_or(Ok(()), DnsConfig::check)?;
        if self.proof == Some(Proof::Http) && plain.is_empty() {
            let text = "`http-01` needs plain HTTP: add `listen = [\"0.0.0.0:80\"]`, or take `tls-alpn-01`";
            return wrong("tls.acme.proof", text);
        }
        Ok(())
    }
}

impl Config {
    /// Sets the file of each certificate by ACME: chain and key in one file, so that both change at once. Another
    /// authority, or other names, have another file.
    pub(super) fn place_acme(&mut self) {
        let dir = self.state_dir.join("acme");
        let Some((tls, acme)) =
            self.tls.as_mut().and_then(|tls| tls.acme.clone().map(|acme| (tls, acme)))
        else {
            return;
        };
        for certificate in tls.certificate.iter_mut().filter(|it| !it.acme.is_empty()) {
            let file = dir.join(acme.file(&certificate.acme));
            (certificate.chain, certificate.key) = (file.clone(), file);
        }
    }

    /// How it is proved that names are ours.
    pub(crate) fn proof(&self) -> Proof {
        let acme = self.tls.as_ref().and_then(|tls| tls.acme.as_ref());
        if acme.is_some_and(|it| it.dns.is_some()) {
            return Proof::Dns;
        }
        acme.and_then(|it| it.proof).unwrap_or(if self.listen.is_empty() {
            Proof::TlsAlpn
        } else {
            Proof::Http
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(acme: &str, certificate: &str) -> Result<Config, String> {
        let text = format!(
            "listen = [\"0.0.0.0:80\"]\nstate_dir = \"/s\"\n[tls]\nlisten = [\"0.0.0.0:443\"]\n{acme}\n\
             [[tls.certificate]]\n{certificate}\n[[site]]\nname = \"blog\"\norigin = \"http://a:1\"\n\
             power.simulated = {{}}\n"
        );
        Config::parse(&text, "x").map_err(|error| error.to_string())
    }

    #[test]
    fn chain_and_key_are_one_file_under_the_state_directory() {
        let config =
            parse("acme.terms_agreed = true", "acme = [\"Blog.example\", \"b.example\"]").unwrap();
        assert_eq!(config.proof(), Proof::Http);
        let tls = config.tls.unwrap();
        assert_eq!(tls.acme.unwrap().url(), LETS_ENCRYPT);
        let certificate = &tls.certificate[0];
        let file = certificate.chain.strip_prefix("/s/acme").unwrap();
        let (stem, extension) = (file.file_stem().unwrap(), file.extension().unwrap());
        assert!(stem.to_str().unwrap().starts_with("blog.example-"), "{stem:?}");
        assert_eq!(extension, "pem");
        assert_eq!(certificate.chain, certificate.key);
    }

    #[test]
    fn other_names_and_other_authorities_have_other_files() {
        let file = |acme: &str, names: &str| {
            let acme = format!("acme = {{ terms_agreed = true, {acme} }}");
            let config = parse(&acme, &format!("acme = {names}")).unwrap();
            config.tls.unwrap().certificate[0].chain.clone()
        };
        let staging = "directory = \"letsencrypt-staging\"";
        let both = "[\"a.example\", \"b.example\"]";
        let one = file("", both);
        assert_eq!(one, file("email = \"me@a\"", "[\"A.example\", \"B.example\"]"));
        assert_ne!(one, file("", "[\"a.example\"]"));
        assert_ne!(one, file(staging, both));
    }

    #[test]
    fn what_cannot_be_got_is_said_with_its_line() {
        let agreed = "acme.terms_agreed = true";
        let name = "acme = [\"blog.example\"]";
        for (acme, certificate, says) in [
            ("acme.terms_agreed = false", name, "x:5:"),
            ("acme = { terms_agreed = true, directory = \"http://a\" }", name, "is no directory"),
            ("acme = { terms_agreed = true, email = \"me\" }", name, "is no address"),
            (agreed, "acme = [\"*.example.org\"]", "x:7:"),
            (agreed, "acme = [\"localhost\"]", "is no name"),
            (agreed, "acme = [\"10.0.0.5\"]", "is no name"),
            (agreed, "acme = [\"a.example\", \"A.example\"]", "is got already"),
            (agreed, "chain = \"c\"", "both files in PEM"),
            (agreed, "chain = \"c\"\nkey = \"k\"\nacme = [\"a.example\"]", "leave one out"),
            ("", name, "whose certificates"),
            ("acme = { terms_agreed = true, proof = \"dns-01\" }", name, "belong together"),
            ("acme = { terms_agreed = true, dns = {} }", name, "one of the two"),
            (
                "acme = { terms_agreed = true, dns.server = \"a\" }",
                name,
                "both `server` and `key_file`",
            ),
            (
                "acme = { terms_agreed = true, dns = { hook = [\"h\"], check = [\"a b\"] } }",
                name,
                "a server can be",
            ),
            (
                "acme = { terms_agreed = true, dns.hook = [\"h\"] }",
                "acme = [\"*.*.org\"]",
                "is no name",
            ),
        ] {
            let said = parse(acme, certificate).unwrap_err();
            assert!(said.contains(says), "{acme} {certificate}: {said}");
        }
    }
}
