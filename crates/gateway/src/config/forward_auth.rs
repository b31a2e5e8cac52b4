//! `[site.access.forward]`: a service that decides who may come in, such as Authelia or oauth2-proxy.

use std::path::PathBuf;
use std::time::Duration;

use http::uri::{Authority, PathAndQuery};
use http::{HeaderName, Uri};
use nightwatt_energy::duration_text;
use nightwatt_httpcache::sharing::{FieldClass, field_rule};
use serde::Deserialize;

use super::field_names::is_free;
use super::{Wrong, wrong};
use crate::authority;

/// Marks in `sign_in` where the address that the client asked for is to be.
pub(crate) const ADDRESS: &str = "{url}";

/// A service that is asked about each request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForwardAuthConfig {
    /// Where it is asked: `http://127.0.0.1:9091/api/authz/forward-auth`.
    pub url: AuthUrl,
    /// Who vouches for its certificate instead of the system's authorities: certificates, in PEM.
    pub ca: Option<PathBuf>,
    /// Fields of its answer that the server gets. Clients cannot send them.
    #[serde(default = "default_headers")]
    pub headers: Vec<String>,
    /// Where browsers are sent that are to log in, if it answers 401 without a place of its own; `{url}` stands for the
    /// address that they asked for.
    pub sign_in: Option<String>,
    /// It has to answer within this time.
    #[serde(default = "default_timeout", with = "duration_text")]
    pub timeout: Duration,
}

/// The address of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthUrl {
    /// Whether it is asked by TLS.
    pub by_tls: bool,
    /// Its host, with the port.
    pub authority: Authority,
    /// What is requested there.
    pub target: PathAndQuery,
}

impl std::fmt::Display for AuthUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.by_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.target)
    }
}

/// Why a text is no address.
pub(super) enum BadUrl {
    /// It has a user, and perhaps a password, before its host.
    Login,
    /// It has no known scheme, or no host.
    Other,
}

impl AuthUrl {
    /// Reads scheme, host and path.
    pub(super) fn parse(text: &str) -> Result<Self, BadUrl> {
        let uri: Uri = text.parse().map_err(|_| BadUrl::of(text))?;
        let by_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(BadUrl::Other),
        };
        let authority = uri.authority().ok_or(BadUrl::Other)?;
        if authority.as_str().contains('@') {
            return Err(BadUrl::Login);
        }
        // A password with a slash looks like a port and a path.
        if authority::Authority::parse(authority.as_str()).is_none() {
            return Err(BadUrl::of(text));
        }
        let target = uri.path_and_query().cloned().ok_or(BadUrl::Other)?;
        Ok(Self { by_tls, authority: authority.clone(), target })
    }
}

impl BadUrl {
    fn of(text: &str) -> Self {
        if text.contains('@') { Self::Login } else { Self::Other }
    }
}

impl<'de> Deserialize<'de> for AuthUrl {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let next = |bad: BadUrl| match bad {
            BadUrl::Login => {
                "leave out the user and the password before `@`, since the service gets what clients send"
            }
            BadUrl::Other => {
                "write `http://` or `https://`, host and path, as in `http://127.0.0.1:9091/api/authz/forward-auth`"
            }
        };
        Self::parse(&text).map_err(|bad| {
            let next = next(bad);
            serde::de::Error::custom(format!("`{text}` is no address of a service: {next}"))
        })
    }
}

/// Those of Authelia. (oauth2-proxy has others, which its options name.)
fn default_headers() -> Vec<String> {
    ["Remote-User", "Remote-Groups", "Remote-Name", "Remote-Email"].map(str::to_owned).to_vec()
}

fn default_timeout() -> Duration {
    Duration::from_secs(5)
}

impl ForwardAuthConfig {
    /// The fields that the server gets from the service, in lower case.
    pub(crate) fn names(&self) -> Vec<HeaderName> {
        self.headers.iter().filter_map(|name| name.parse().ok()).collect()
    }

    pub(super) fn check(&self) -> Result<(), Wrong> {
        for name in &self.headers {
            if let Some(why) = why_not_of_a_person(name) {
                return wrong("headers", format!("`{name}` {why}"));
            }
        }
        if let Some(address) = &self.sign_in {
            let plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`".contains(&byte);
            let is_address = ["http://", "https://", "/"].iter().any(|it| address.starts_with(it))
                && !address.starts_with("//")
                && address.bytes().all(plain);
            if !is_address {
                let text = format!(
                    "`sign_in` is `{address}`: write an address, as in `https://auth.example.org/?rd={ADDRESS}`"
                );
                return wrong("sign_in", text);
            }
        }
        if self.timeout.is_zero() || self.timeout > Duration::from_mins(1) {
            let text = format!(
                "`timeout` is {}: write more than 0, and a minute at most, since clients wait for it",
                duration_text::format(self.timeout)
            );
            return wrong("timeout", text);
        }
        if self.ca.is_some() && !self.url.by_tls {
            return wrong(
                "ca",
                "`ca` has no effect, since `url` is plain HTTP: write `https://` there",
            );
        }
        Ok(())
    }
}

/// Why a field cannot tell the server who a client is.
fn why_not_of_a_person(name: &str) -> Option<&'static str> {
    if name.parse::<HeaderName>().is_err() {
        return Some("is no name of a field");
    }
    if name.contains('_') {
        return Some(
            "has an underscore, which some servers read as a hyphen: clients could send the other form",
        );
    }
    let is_taken = !is_free(name)
        || field_rule(name.as_bytes()).is_some_and(|rule| rule.class != FieldClass::Identity);
    is_taken.then_some(
        "is a field that nightwatt, caches or servers use for something else: name fields that tell who a client is, \
         as `Remote-User`",
    )
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn parse(lines: &str) -> Result<Config, String> {
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"blog\"\nhosts = [\"blog\"]\norigin = \"http://127.0.0.1:1\"\n\
             power.simulated = {{}}\n[site.access.forward]\n{lines}\n"
        );
        Config::parse(&text, "test.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn the_addresses_of_known_services_are_read() {
        for url in [
            "http://127.0.0.1:9091/api/authz/forward-auth",
            "http://127.0.0.1:4180/oauth2/auth?allowed_groups=family",
            "https://auth.example.org/outpost.goauthentik.io/auth/nginx",
        ] {
            let config = parse(&format!("url = \"{url}\"")).unwrap();
            let access = config.site[0].access.clone().unwrap();
            assert_eq!(access.forward.unwrap().url.to_string(), url);
        }
    }

    #[test]
    fn what_would_let_others_in_or_does_nothing_is_refused_with_its_line() {
        let url = "url = \"http://127.0.0.1:1/x\"\n";
        for (lines, place, why) in [
            ("url = \"ftp://a/x\"", "test.toml:8:", "is no address of a service"),
            ("url = \"http://ann:x@a/x\"", "test.toml:8:", "is no address of a service"),
            ("url = \"/auth\"", "test.toml:8:", "is no address of a service"),
            ("url = \"http://ann:s3cret@a/x\"", "test.toml:8:", "before `@`"),
            (&format!("{url}headers = [\"Remote_User\"]"), "test.toml:9:", "underscore"),
            (&format!("{url}headers = [\"Host\"]"), "test.toml:9:", "something else"),
            (&format!("{url}headers = [\"Content-Length\"]"), "test.toml:9:", "something else"),
            (&format!("{url}headers = [\"X-Forwarded-For\"]"), "test.toml:9:", "something else"),
            (&format!("{url}headers = [\"Accept-Language\"]"), "test.toml:9:", "something else"),
            (&format!("{url}headers = [\"a b\"]"), "test.toml:9:", "no name of a field"),
            (&format!("{url}sign_in = \"//evil.example\""), "test.toml:9:", "write an address"),
            (&format!("{url}sign_in = \"javascript:x\""), "test.toml:9:", "write an address"),
            (&format!("{url}timeout = \"0s\""), "test.toml:9:", "more than 0"),
            (&format!("{url}ca = \"x\""), "test.toml:9:", "plain HTTP"),
        ] {
            let said = parse(lines).unwrap_err();
            assert!(said.starts_with(place) && said.contains(why), "{lines}: {said}");
            assert!(!said.contains("s3cret"), "{said}");
        }
        assert!(parse(&format!("{url}headers = [\"X-Auth-Request-User\", \"X-My-Name\"]")).is_ok());
    }

    #[test]
    fn a_site_that_takes_any_name_is_not_left_to_a_service_that_decides_by_name() {
        let text = "listen = [\"127.0.0.1:0\"]\n[[site]]\nname = \"blog\"\norigin = \"http://127.0.0.1:1\"\n\
                    power.simulated = {}\n[site.access.forward]\nurl = \"http://127.0.0.1:1/x\"\n";
        let said = Config::parse(text, "test.toml").map(drop).unwrap_err().to_string();
        assert!(
            said.starts_with("test.toml:6:14:")
                && said.contains("`site.access.forward` needs `hosts`"),
            "{said}"
        );
    }
}
