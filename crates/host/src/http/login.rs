//! Passwords over HTTP: the schemes Basic (RFC 7617) and Digest with SHA-256 (RFC 7616).

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::secret::Secret;
use crate::text::hex;

/// Devices with one password only call its user so.
const USUAL_USER: &str = "admin";

/// Who we are, and how the device wants to hear it.
pub struct Login {
    user: String,
    password: Secret,
    scheme: Scheme,
}

enum Scheme {
    /// It has not asked.
    Unasked,
    Basic,
    Digest {
        challenge: Challenge,
        asked: u32,
    },
    /// It asked for what we do not know.
    Unknown(String),
}

/// What a device wants a password to be hashed with.
pub struct Challenge {
    realm: String,
    nonce: String,
    opaque: Option<String>,
}

impl Login {
    /// Logs in as this user, or as the one that devices with a password only have.
    pub fn new(user: Option<&str>, password: Secret) -> Self {
        let user = user.unwrap_or(USUAL_USER).to_owned();
        Self { user, password, scheme: Scheme::Unasked }
    }

    /// The device asks for a password. Does another try make sense?
    pub(super) fn challenged<'a>(&mut self, challenges: impl Iterator<Item = &'a str>) -> bool {
        let challenges: Vec<&str> = challenges.collect();
        let before = std::mem::replace(&mut self.scheme, Scheme::Unasked);
        if let Some(challenge) = challenges.iter().find_map(|text| Challenge::read(text)) {
            // A nonce gets old. One that is new again and again is a wrong password.
            self.scheme = Scheme::Digest { challenge, asked: 0 };
            return true;
        }
        if challenges.iter().any(|text| scheme_of(text).eq_ignore_ascii_case("basic")) {
            self.scheme = Scheme::Basic;
            return !matches!(before, Scheme::Basic);
        }
        if let Some(asked) = challenges.first() {
            self.scheme = Scheme::Unknown(scheme_of(asked).chars().take(20).collect());
        }
        false
    }

    /// What `Authorization` says for a request.
    pub(super) fn answer(&mut self, method: &str, path: &str) -> Option<String> {
        match &mut self.scheme {
            Scheme::Unasked | Scheme::Unknown(_) => None,
            Scheme::Basic => {
                let pair = format!("{}:{}", self.user, self.password.reveal());
                Some(format!("Basic {}", STANDARD.encode(pair)))
            }
            Scheme::Digest { challenge, asked } => {
                *asked = asked.wrapping_add(1);
                let mut own = [0; 8];
                getrandom::fill(&mut own).ok()?;
                let (user, password) = (self.user.as_str(), self.password.reveal());
                Some(challenge.answer(user, password, method, path, *asked, &hex(&own)))
            }
        }
    }

    /// What to try after a refusal.
    pub fn hint(&self) -> String {
        match &self.scheme {
            Scheme::Unknown(asked) => format!(
                "it wants a password by `{asked}`, and nightwatt knows Basic and Digest with SHA-256"
            ),
            _ => format!(
                "the password for `{}` is not the device's; is its user another?",
                self.user
            ),
        }
    }
}

fn scheme_of(challenge: &str) -> &str {
    challenge.split_whitespace().next().unwrap_or_default()
}

impl Challenge {
    /// Digest with SHA-256 and `qop=auth`; `None` for any other.
    pub fn read(text: &str) -> Option<Self> {
        let (scheme, fields) = text.trim().split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("digest") {
            return None;
        }
        let field = |wanted: &str| {
            fields.split(',').find_map(|field| {
                let (name, value) = field.trim().split_once('=')?;
                let value = value.trim().trim_matches('"');
                name.trim().eq_ignore_ascii_case(wanted).then(|| value.to_owned())
            })
        };
        let known = field("algorithm").is_some_and(|it| it.eq_ignore_ascii_case("SHA-256"));
        let challenge =
            Self { realm: field("realm")?, nonce: field("nonce")?, opaque: field("opaque") };
        known.then_some(challenge)
    }

    /// RFC 7616, section 3.4, with `qop=auth`.
    fn answer(
        &self,
        user: &str,
        password: &str,
        method: &str,
        path: &str,
        count: u32,
        own: &str,
    ) -> String {
        let Self { realm, nonce, opaque } = self;
        let who = sha256(&format!("{user}:{realm}:{password}"));
        let what = sha256(&format!("{method}:{path}"));
        let response = sha256(&format!("{who}:{nonce}:{count:08x}:{own}:auth:{what}"));
        let mut answer = format!(
            "Digest username=\"{user}\", realm=\"{realm}\", uri=\"{path}\", algorithm=SHA-256, \
             nonce=\"{nonce}\", nc={count:08x}, cnonce=\"{own}\", qop=auth, response=\"{response}\""
        );
        if let Some(opaque) = opaque {
            let _ = write!(answer, ", opaque=\"{opaque}\"");
        }
        answer
    }
}

fn sha256(text: &str) -> String {
    hex(&Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_that_of_rfc_7616() {
        // RFC 7616, section 3.9.1.
        let text = "Digest realm=\"http-auth@example.org\", qop=\"auth\", algorithm=SHA-256, \
                    nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", \
                    opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"";
        let challenge = Challenge::read(text).unwrap();
        let own = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
        let answer = challenge.answer("Mufasa", "Circle of Life", "GET", "/dir/index.html", 1, own);
        let response = "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1";
        assert!(answer.contains(&format!("response=\"{response}\"")), "{answer}");
        assert!(answer.contains("nc=00000001"), "{answer}");
        assert!(answer.contains("opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""));
    }

    #[test]
    fn other_challenges_are_not_taken_for_it() {
        for text in [
            "Basic realm=\"x\"",
            "Digest realm=\"x\", nonce=\"y\"",
            "Digest realm=\"x\", nonce=\"y\", algorithm=MD5",
            "Digest algorithm=SHA-256",
            "Digest",
            "",
        ] {
            assert!(Challenge::read(text).is_none(), "{text}");
        }
    }
}
