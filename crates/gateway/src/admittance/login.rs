//! User and password of a request (RFC 7617).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Longer ones are no passwords.
const LONGEST: usize = 1024;

/// A user with a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The password, as it was sent.
    pub password: Vec<u8>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Login({})", self.user)
    }
}

impl Login {
    /// Reads the value of `Authorization`; nothing if it is no `Basic`, or not well-formed.
    pub fn read(value: &[u8]) -> Option<Self> {
        if value.len() > LONGEST {
            return None;
        }
        let space = value.iter().position(|byte| *byte == b' ')?;
        let (scheme, token) = value.split_at(space);
        if !scheme.eq_ignore_ascii_case(b"basic") {
            return None;
        }
        let text = STANDARD.decode(token.trim_ascii()).ok()?;
        let colon = text.iter().position(|byte| *byte == b':')?;
        // RFC 7617, 2: neither may have control characters.
        if text.iter().any(u8::is_ascii_control) {
            return None;
        }
        let user = String::from_utf8(text[..colon].to_vec()).ok()?;
        Some(Self { user, password: text[colon + 1..].to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Option<(String, String)> {
        let Login { user, password } = Login::read(value.as_bytes())?;
        Some((user, String::from_utf8_lossy(&password).into_owned()))
    }

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        let pair = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        // RFC 7617, 2 and 2.1.
        assert_eq!(read("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), pair("Aladdin", "open sesame"));
        assert_eq!(read("basic dGVzdDoxMjPCow=="), pair("test", "123\u{a3}"));
        assert_eq!(read("BASIC   YTpiOmM="), pair("a", "b:c"), "the first colon ends the user");
        assert_eq!(read("Basic Og=="), pair("", ""));
    }

    #[test]
    fn anything_else_is_no_log_in() {
        let long = format!("Basic {}", STANDARD.encode("a:".repeat(500)));
        for value in [
            "",
            "Basic",
            "Basic ",
            "Basic QWxhZGRpbg==",
            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ",
            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==, Basic QTpC",
            "Basic Q WxhZGRpbjpvcGVuIHNlc2FtZQ==",
            "Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
            "BasicQWxhZGRpbjpvcGVuIHNlc2FtZQ==",
            "Basic\tQWxhZGRpbjpvcGVuIHNlc2FtZQ==",
            "Basic YQA6Yg==",
            "Basic YTpiCg==",
            "Basic /zpi",
            &long,
        ] {
            assert_eq!(read(value), None, "{value}");
        }
    }
}
