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

/// Where they are in a text: before an `@`.
fn logins(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (end, _) in text.match_indices('@') {
        let Some(start) = login(text, end) else { continue };
        match found.last_mut() {
            // A password with an `@`.
            Some(last) if last.start >= start || last.end > start => last.end = end,
            _ => found.push(start..end),
        }
    }
    found
}

/// Where the user and the password begin that end here, if they do. A user alone is a secret in the addresses of the web
/// (a token), but not in `ssh://git@host`.
fn login(text: &str, end: usize) -> Option<usize> {
    let word = text[..end].rfind(char::is_whitespace).map_or(0, |at| at + 1);
    if let Some(at) = text[word..end].rfind("://").map(|at| word + at)
        && let Some(scheme) = scheme_of_open_string(&text[word..end], at - word)
    {
        let start = at + 3;
        let is_web = ["http", "https"].iter().any(|it| scheme.eq_ignore_ascii_case(it));
        let is_login = is_before_host(&text[start..end]);
        return (is_login && (is_web || text[start..end].contains(':'))).then_some(start);
    }
    // Without a scheme: `me:secret@host`.
    let before = ['"', '\'', '`', '=', '(', '[', '{', ','];
    let start = text[word..end].rfind(before).map_or(word, |at| word + at + 1);
    let inner = &text[start..end];
    (inner.contains(':') && !inner.contains("://")).then_some(start)
}

/// The scheme before `://`; nothing if the string in which it is has ended.
fn scheme_of_open_string(word: &str, at: usize) -> Option<&str> {
    let is_sign = |sign: char| sign.is_ascii_alphanumeric() || "+.-".contains(sign);
    let begin = word[..at].trim_end_matches(is_sign).len();
    let rest = &word[at..];
    let has_ended = match word[..begin].chars().next_back() {
        Some('"') => rest.replace("\\\"", "").contains('"'),
        Some('\'') => rest.contains('\''),
        _ => false,
    };
    (!has_ended).then_some(&word[begin..at])
}

/// Whether what precedes an `@` in an address is before its host, not in its path.
fn is_before_host(text: &str) -> bool {
    let Some(slash) = text.find(['/', '?', '#']) else { return true };
    // A password with a slash ends what would be the host: then no port is behind the colon.
    let is_port = |text: &str| text.ends_with(']') || text.bytes().all(|it| it.is_ascii_digit());
    text[..slash].rsplit_once(':').is_some_and(|(_, port)| !is_port(port))
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
            ("url = \"http://me:it'secret@nas\"", "url = \"http://...@nas\""),
            ("url = \"http://me:it\\\"secret@nas\"", "url = \"http://...@nas\""),
            ("`http://me:it`secret@nas` is wrong", "`http://...@nas` is wrong"),
            ("url = 'http://me:it\"secret@nas'", "url = 'http://...@nas'"),
            ("url = \"HTTPS://t0ken@nas\"", "url = \"HTTPS://...@nas\""),
            ("[\"http://a:b@c\",\"http://d:e@f\"]", "[\"http://...@c\",\"http://...@f\"]"),
            ("[\"http://a\",\"http://d:e@f\"]", "[\"http://a\",\"http://...@f\"]"),
            ("address = \"me:secret@10.0.0.8\"", "address = \"...@10.0.0.8\""),
            ("url = \"http:/me:secret@nas\"", "url = \"...@nas\""),
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
            "[\"https://social.example\",\"me@example.org\"]",
            "wake = \"curl http://10.0.0.5:8080 -d a@b\"",
            "# see http://wiki:home, ask admin@example.org",
            "host = \"root@[fd00::5]\"",
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
