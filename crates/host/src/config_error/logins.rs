//! Users and passwords in addresses (`http://me:secret@host/`), which an error does not repeat: errors go to logs and
//! bug reports.

use std::ops::Range;

/// Stands for a user and a password.
const HIDDEN: &str = "...";

/// The text without them.
pub(super) fn hide(text: &str) -> String {
    let (mut shown, mut end) = (String::new(), 0);
    for login in logins(text) {
        shown.push_str(&text[end..login.start]);
        shown.push_str(HIDDEN);
        end = login.end;
    }
    shown.push_str(&text[end..]);
    shown
}

/// Where a column of a text is in what [`hide`] makes of it.
pub(super) fn column(text: &str, column: usize) -> usize {
    let mut moved = column;
    for login in logins(text) {
        if column >= login.end {
            moved = moved + HIDDEN.len() - login.len();
        } else if column > login.start {
            moved -= column - login.start;
        }
    }
    moved
}

/// Where they are in a text.
fn logins(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, mark) in text.match_indices("://") {
        let start = at + mark.len();
        if found.last().is_some_and(|it| it.end > start) {
            continue;
        }
        let rest = &text[start..];
        let address = &rest[..rest.find(['"', '\'', '`', '\n']).unwrap_or(rest.len())];
        let is_web = ["http", "https"].iter().any(|scheme| text[..at].ends_with(scheme));
        if let Some(length) = login(address, is_web) {
            found.push(start..start + length);
        }
    }
    found
}

/// The length of the user and the password before the host of an address. A user alone is a secret in the addresses of
/// the web (a token), but not in `ssh://git@host`.
fn login(address: &str, is_web: bool) -> Option<usize> {
    let length = address.rfind('@')?;
    let authority = &address[..address.find(['/', '?', '#']).unwrap_or(address.len())];
    // A password with a slash ends what would be the host: then no port is behind the colon.
    let is_port = |text: &str| text.ends_with(']') || text.bytes().all(|it| it.is_ascii_digit());
    let has_port = authority.rsplit_once(':').is_none_or(|(_, port)| is_port(port));
    let is_login = authority.contains('@') || !has_port;
    (is_login && (is_web || address[..length].contains(':'))).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_passwords_in_addresses_are_hidden() {
        for (text, shown) in [
            ("`http://me:secret@nas/x` is wrong", "`http://...@nas/x` is wrong"),
            ("url = \"https://me:se@cret@nas\"", "url = \"https://...@nas\""),
            ("url = 'http://me:se/cret@nas'", "url = 'http://...@nas'"),
            ("https://t0ken@nas", "https://...@nas"),
            ("[\"http://a:b@c\", \"http://d:e@f\"]", "[\"http://...@c\", \"http://...@f\"]"),
            ("`qemu+ssh://me:secret@nas/system`", "`qemu+ssh://...@nas/system`"),
        ] {
            assert_eq!(hide(text), shown);
        }
        for plain in [
            "https://social.example/@ann",
            "https://social.example:8443/@ann",
            "http://[fd00::5]/@ann",
            "http://[fd00::5]:80/?to=me@example.org",
            "ssh://git@nas/notes.git",
            "write it as `http://HOST[:PORT][/PATH]`, or ask `me@example.org`",
            "email = \"me@example.org\"",
        ] {
            assert_eq!(hide(plain), plain);
        }
    }

    #[test]
    fn a_mark_stays_below_its_value() {
        let line = "a = \"http://me:secret@nas\", b = 1";
        let shown = hide(line);
        for value in ["a =", "@nas", "b = 1"] {
            let (before, after) = (line.find(value).unwrap(), shown.find(value).unwrap());
            assert_eq!(column(line, before), after, "{value}");
        }
        let inside = column(line, line.find("secret").unwrap());
        assert_eq!(inside, shown.find("...").unwrap());
    }
}
