//! Links and instructions in the fields of an answer: `Link` (RFC 8288), `X-Robots-Tag`, `Refresh`.

use http::HeaderMap;
use http::header::{LINK, REFRESH};

use super::html::{has_word, kind_of_relation, refresh_target};
use super::{Found, LinkKind};

/// Adds what `Link` and `Refresh` lead to.
pub(super) fn add_links(headers: &HeaderMap, found: &mut Found) {
    for line in headers.get_all(LINK) {
        let line = String::from_utf8_lossy(line.as_bytes());
        for link in parse(&line) {
            if let Some(kind) = kind_of_relation(&link.rel, &link.media) {
                found.add(link.reference, kind);
            }
        }
    }
    if let Some(line) = headers.get(REFRESH)
        && let Some(target) = refresh_target(&String::from_utf8_lossy(line.as_bytes()))
    {
        found.add(target, LinkKind::Page);
    }
}

/// Whether `X-Robots-Tag` says to us that links are not to be followed.
pub(super) fn has_nofollow(headers: &HeaderMap) -> bool {
    headers.get_all("x-robots-tag").iter().any(|line| {
        let line = String::from_utf8_lossy(line.as_bytes()).to_ascii_lowercase();
        // Before a colon stands to whom it speaks; `unavailable_after` has one too.
        let addressee = line.split_once(':').map(|(name, _)| name.trim().to_owned());
        let is_for_us = addressee.is_none_or(|name| {
            name == "nightwatt" || name.contains([',', ' ']) || name == "unavailable_after"
        });
        is_for_us && has_word(&line, &["nofollow", "none"])
    })
}

/// One member of `Link`.
struct Member<'a> {
    reference: &'a str,
    rel: String,
    media: String,
}

fn parse(line: &str) -> Vec<Member<'_>> {
    let (mut members, mut rest) = (Vec::new(), line);
    while let Some(start) = rest.find('<') {
        let Some(end) = rest[start..].find('>').map(|end| start + end) else { break };
        let mut member =
            Member { reference: &rest[start + 1..end], rel: String::new(), media: String::new() };
        rest = parameters(&rest[end + 1..], &mut member);
        members.push(member);
        if members.len() >= 1000 {
            break;
        }
    }
    members
}

/// Reads the parameters of a member, and returns what follows its comma.
fn parameters<'a>(text: &'a str, member: &mut Member<'_>) -> &'a str {
    let mut rest = text.trim_start();
    while let Some(behind) = rest.strip_prefix(';') {
        let behind = behind.trim_start();
        let end = behind.find(['=', ';', ',']).unwrap_or(behind.len());
        let name = behind[..end].trim().to_ascii_lowercase();
        let (value, next) = match behind[end..].strip_prefix('=') {
            Some(value) => value_of(value.trim_start()),
            None => (String::new(), &behind[end..]),
        };
        match name.as_str() {
            // Of two the first counts (RFC 8288, 3.3).
            "rel" if member.rel.is_empty() => member.rel = value,
            "type" => member.media = value.to_ascii_lowercase(),
            _ => {}
        }
        rest = next.trim_start();
    }
    rest.find(',').map_or("", |comma| &rest[comma + 1..])
}

/// A token or a quoted string, and what follows it.
fn value_of(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([';', ',']).unwrap_or(text.len());
        return (text[..end].trim().to_owned(), &text[end..]);
    };
    let (mut value, mut letters) = (String::new(), quoted.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
            _ => value.push(letter),
        }
    }
    (value, "")
}
