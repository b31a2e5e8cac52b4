//! `[[webhook]]`: who is told when something needs a person.

use std::path::PathBuf;

use http::Uri;
use serde::Deserialize;

use super::{Wrong, wrong};

/// Who is told, and of what.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookConfig {
    /// What is told is sent there: `https://…` or `http://…`.
    pub url: String,
    /// Of what; default: of everything.
    pub events: Option<Vec<EventKind>>,
    /// A file whose content is known to the receiver as well: what is sent is signed with it.
    pub secret_file: Option<PathBuf>,
    /// Who vouches for the receiver instead of the system's authorities, in PEM.
    pub ca: Option<PathBuf>,
}

/// What may need a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// A server does not wake, and was given up.
    ServerFailed,
    /// It is well again.
    ServerRecovered,
    /// A server is woken again and again without serving a request.
    WakeLoop,
    /// More requests are delayed than the SLA allows.
    #[serde(rename = "promise-broken")]
    SlaBroken,
    /// No longer.
    #[serde(rename = "promise-kept")]
    SlaKept,
    /// A certificate ends soon, or clients will not accept it.
    Certificate,
}

impl EventKind {
    /// Its name.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::ServerFailed => "server-failed",
            Self::ServerRecovered => "server-recovered",
            Self::WakeLoop => "wake-loop",
            Self::SlaBroken => "promise-broken",
            Self::SlaKept => "promise-kept",
            Self::Certificate => "certificate",
        }
    }
}

impl WebhookConfig {
    /// Is this one told of that?
    pub(crate) fn wants(&self, kind: EventKind) -> bool {
        self.events.as_ref().is_none_or(|events| events.contains(&kind))
    }

    /// For people and logs, without its path: that may be all that keeps others from using it.
    pub fn shown(&self) -> String {
        let target = self.target().unwrap_or_default();
        let scheme = target.scheme_str().unwrap_or_default();
        format!("{scheme}://{}/…", target.authority().map_or("", |it| it.as_str()))
    }

    /// Where to, taken apart.
    pub(crate) fn target(&self) -> Option<Uri> {
        let uri: Uri = self.url.parse().ok()?;
        let authority = uri.authority()?.as_str();
        let is_known = matches!(uri.scheme_str(), Some("http" | "https"));
        (is_known && !authority.contains('@')).then_some(uri)
    }

    pub(super) fn check(&self) -> Result<(), Wrong> {
        let Some(target) = self.target() else {
            // Not what it says: that may be a secret, and this goes to a log.
            let text = "this is no address for a webhook: `https://hooks.example.org/nightwatt`";
            return wrong("url", text);
        };
        if self.events.as_ref().is_some_and(Vec::is_empty) {
            return wrong(
                "events",
                "it is empty, so nothing would be sent: name some, or leave it out for all",
            );
        }
        if self.ca.is_some() && target.scheme_str() == Some("http") {
            return wrong("ca", "`url` is plain HTTP: write `https://` there, or leave this out");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::EventKind;

    fn parse(hook: &str) -> Result<Config, String> {
        let text = format!(
            "listen = [\"127.0.0.1:80\"]\n[[site]]\nname = \"blog\"\norigin = \"http://a:1\"\n\
             power.simulated = {{}}\n[[webhook]]\n{hook}"
        );
        Config::parse(&text, "x").map_err(|error| error.to_string())
    }

    #[test]
    fn one_without_events_is_told_of_everything() {
        let config = parse("url = \"https://hooks.example/abc?d=e\"").unwrap();
        assert!(config.webhook[0].wants(EventKind::WakeLoop));
        let config = parse("url = \"http://a:8\"\nevents = [\"server-failed\"]").unwrap();
        let wants = |kind| config.webhook[0].wants(kind);
        assert!(wants(EventKind::ServerFailed) && !wants(EventKind::WakeLoop));
    }

    #[test]
    fn what_cannot_be_told_to_anybody_is_said_with_its_line() {
        for (hook, line, says) in [
            ("url = \"hooks.example\"", 7, "no address for a webhook"),
            ("url = \"ftp://hooks.example\"", 7, "no address for a webhook"),
            ("url = \"https://me:secret@hooks.example\"", 7, "no address for a webhook"),
            ("url = \"http://a\"\nevents = []", 8, "nothing would be sent"),
            ("url = \"http://a\"\nca = \"/x\"", 8, "plain HTTP"),
            ("url = \"http://a\"\nevents = [\"fire\"]", 8, "server-failed"),
        ] {
            let said = parse(hook).unwrap_err();
            assert!(said.starts_with(&format!("x:{line}:")) && said.contains(says), "{said}");
        }
    }
}
