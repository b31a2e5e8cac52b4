//! What format a log is in, by its first lines; and where it differs from all of them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use memchr::{memchr, memmem};

use crate::clf::{self, Memo};
use crate::client::{self, ClientFrom};
use crate::counts::shown;
use crate::error::{Error, format_names};
use crate::formats::Format;
use crate::json::{self, keys};
use crate::line_parser::LAYOUTS;
use crate::record::MAX_LINE;
use crate::spans::Spans;
use crate::template::Pattern;

/// Lines that tell a format.
const VOTES: usize = 100;

/// What the first lines of a log tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DetectedFormat {
    Format(Format),
    Misfit(Misfit),
}

/// Nearly a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// With the agents where it has none: how to describe it.
    Agents(String),
    /// With this word in the place of most clients.
    Client(String),
}

impl Misfit {
    pub(crate) fn into_error(self, name: String) -> Error {
        match self {
            Self::Agents(format) => Error::Misfit { name, format },
            Self::Client(word) => Error::NoClient { name, word },
        }
    }
}

/// The format that most of the first hundred lines are in that are in any, and of two the one that
/// comes first; what stands between them is passed over. `None` where no line is in any.
pub(crate) fn detect(text: &[u8]) -> Option<DetectedFormat> {
    let mut votes: Vec<(Format, usize)> = Vec::new();
    let (mut misfits, mut words, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
    let told = |line| detect_line(line).map(|format| (format, line));
    for (format, line) in text.split(|&byte| byte == b'\n').filter_map(told).take(VOTES) {
        if format == Format::W3c {
            // It says so itself, and says it once.
            return Some(DetectedFormat::Format(format));
        }
        match votes.iter_mut().find(|(voted, _)| *voted == format) {
            Some((_, count)) => *count += 1,
            None => votes.push((format, 1)),
        }
        if format.is_common() {
            misfits.extend(misfit(line));
            words.extend(bare_client(line));
            pairs.extend(two_in_front(line));
        }
    }
    let all: usize = votes.iter().map(|(_, count)| count).sum();
    if 2 * misfits.len() > all {
        let first = misfits.into_iter().next();
        return first.map(|description| DetectedFormat::Misfit(Misfit::Agents(description)));
    }
    let times = |word: &&[u8]| words.iter().filter(|it| *it == word).count();
    if let Some(word) = words.iter().find(|word| times(word) >= FEWEST.max(all / 2 + 1)) {
        let word = String::from_utf8_lossy(word).into_owned();
        return Some(DetectedFormat::Misfit(Misfit::Client(word)));
    }
    // Of equal ones the last is taken: here, the first.
    let (most, count) = votes.into_iter().rev().max_by_key(|&(_, count)| count)?;
    let is_plain = matches!(most, Format::Common | Format::Combined);
    let is_vhost = is_plain && 2 * pairs.len() > count && varies_more(&pairs);
    Some(DetectedFormat::Format(if is_vhost { Format::VhostCombined } else { most }))
}

/// The two words in front of `- user [`: the client and its virtual host, or the other way round.
fn two_in_front(line: &[u8]) -> Option<[&[u8]; 2]> {
    let mut words = line.split(|&byte| byte == b' ');
    let [first, second, ident] = [words.next()?, words.next()?, words.next()?];
    let is_one = |word| word != b"-" && client::is_client(client::entry(word));
    (ident == b"-" && is_one(first) && is_one(second)).then_some([first, second])
}

/// Whether the second words differ more than the first ones do: a log has few hosts and many clients.
fn varies_more(pairs: &[[&[u8]; 2]]) -> bool {
    let distinct = |place: usize| pairs.iter().map(|pair| pair[place]).collect::<BTreeSet<_>>();
    distinct(1).len() > distinct(0).len()
}

/// The format of a line without its end; `None` where it is in none, or too long to be parsed.
pub(crate) fn detect_line(line: &[u8]) -> Option<Format> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() > MAX_LINE || line.trim_ascii().is_empty() {
        return None;
    }
    if line.starts_with(b"#Fields:") {
        return Some(Format::W3c);
    }
    if line.starts_with(b"{") {
        return json::detect(line);
    }
    let memo = &mut Memo::default();
    if let Ok(spans) = clf::find(line, memo)
        && client::is_client(spans.client.of(line))
    {
        return Some(match spans.has_agent() {
            _ if is_behind_host(line, &spans) => Format::VhostCombined,
            true => Format::Combined,
            false => Format::Common,
        });
    }
    let others = LAYOUTS.iter().filter(|(format, _)| !format.is_common());
    let mut fitting = others.filter(|(_, layouts)| {
        layouts.iter().any(|layout| layout.find(line, memo).is_ok_and(|spans| spans.is_request()))
    });
    fitting.next().map(|(format, _)| *format)
}

/// Whether a line is in a format: the operator's own, or a known one.
pub(crate) fn is_known(line: &[u8], pattern: Option<&Pattern>) -> bool {
    match pattern {
        Some(pattern) => pattern.0.find(line, &mut Memo::default()).is_ok(),
        None => detect_line(line).is_some(),
    }
}

/// Whether a text has several lines in a format, or one that names its fields.
pub(crate) fn has_lines(text: &[u8], pattern: Option<&Pattern>) -> bool {
    let lines = text.split(|&byte| byte == b'\n');
    let known = lines.clone().filter(|line| is_known(line, pattern)).take(2).count();
    known == 2 || lines.clone().any(|line| line.starts_with(b"#Fields:"))
}

/// Whether the client is the second word, and the first is the name of a host.
fn is_behind_host(line: &[u8], spans: &Spans) -> bool {
    let host = &line[..memchr(b' ', line).unwrap_or(line.len())];
    let name = client::entry(host);
    let is_host = client::is_client(name) && name != b"-" && name != b"unknown";
    spans.client.from as usize == host.len() + 1 && is_host && !host.ends_with(b",")
}

/// Lines with the same word for the client that are no accident.
const FEWEST: usize = 10;

/// The client of a line, if it looks neither like an address nor like the full name of a host: a
/// level or a tag of the program that wrote the line looks like that.
fn bare_client(line: &[u8]) -> Option<&[u8]> {
    const HOSTS: [&[u8]; 4] = [b"-", b"localhost", b"unix", b"unknown"];
    let spans = clf::find(line, &mut Memo::default()).ok()?;
    let client = spans.client.of(line);
    let is_bare = |byte: &u8| !byte.is_ascii_digit() && !matches!(byte, b'.' | b':');
    (client.iter().all(is_bare) && !HOSTS.contains(&client)).then_some(client)
}

/// A field behind the size.
struct Field<'a> {
    text: &'a [u8],
    is_quoted: bool,
}

/// How to describe a line whose agent does not stand where Combined has it.
fn misfit(line: &[u8]) -> Option<String> {
    let spans = clf::find(line, &mut Memo::default()).ok()?;
    if clf::looks_like_agent(spans.agent.of(line)) {
        return None;
    }
    let fields = behind_size(line, &spans);
    let is_agent = |field: &Field<'_>| {
        let is_browser = || memmem::find(field.text, b"Mozilla/").is_some();
        if field.is_quoted { clf::looks_like_agent(field.text) } else { is_browser() }
    };
    let place = fields.iter().position(is_agent)?;
    let mut format = String::from(if is_behind_host(line, &spans) { "$host " } else { "" });
    format.push_str(
        r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent"#,
    );
    let has_url = |field: &Field<'_>| clf::looks_like_link(field.text);
    let referer = fields.iter().position(has_url).or_else(|| place.checked_sub(1));
    let is_chain = |field: &Field<'_>| {
        let address = client::pick(field.text, ClientFrom::Public).and_then(client::address);
        address.is_some() && field.is_quoted && !client::has_port(field.text)
    };
    let chain = fields.iter().position(is_chain);
    for (number, field) in fields.iter().enumerate().take(place.max(referer.unwrap_or(0)) + 1) {
        let name = match number {
            _ if number == place => "http_user_agent".to_owned(),
            _ if Some(number) == chain => "http_x_forwarded_for".to_owned(),
            _ if Some(number) == referer => "http_referer".to_owned(),
            _ => format!("field{}", number + 1),
        };
        let quote = if field.is_quoted { "\"" } else { "" };
        let _ = write!(format, " {quote}${name}{quote}");
    }
    Some(format)
}

fn behind_size<'a>(line: &'a [u8], spans: &Spans) -> Vec<Field<'a>> {
    let mut rest = line.get(spans.request.to as usize + 1..).unwrap_or_default();
    let mut fields = Vec::new();
    while let [first, ..] = rest.trim_ascii_start() {
        rest = rest.trim_ascii_start();
        let end = if *first == b'"' {
            memmem::find(&rest[1..], b"\" ").map_or(rest.len(), |end| end + 2)
        } else {
            memchr(b' ', rest).unwrap_or(rest.len())
        };
        let is_quoted = *first == b'"';
        let text = &rest[..end];
        let text =
            if is_quoted { text[1..].strip_suffix(b"\"").unwrap_or(&text[1..]) } else { text };
        fields.push(Field { text, is_quoted });
        rest = &rest[end..];
    }
    // Status and size.
    fields.drain(..fields.len().min(2));
    fields
}

/// Formats told to people as the closest to a line.
const CLOSEST: usize = 2;

/// Which formats a line comes closest to, and at which column it leaves them.
fn closest(line: &[u8]) -> String {
    if line.starts_with(b"{") {
        return match keys::missing(line) {
            Some(missing) => {
                format!("closest is `json`, but none of its keys is known to say {missing}")
            }
            None if serde_json::from_slice::<serde_json::Value>(line).is_err() => {
                "it begins like JSON, and is no whole object".to_owned()
            }
            None => "it is JSON, but its values are not those of a request".to_owned(),
        };
    }
    let mut misses: Vec<(usize, Format, String)> = Vec::new();
    for (format, layouts) in LAYOUTS.iter() {
        for layout in &**layouts {
            if let Err(miss) = layout.find(line, &mut Memo::default()) {
                misses.push((miss.at, *format, layout.wanted(miss)));
            }
        }
    }
    misses.sort_by_key(|miss| std::cmp::Reverse(miss.0));
    let mut names: Vec<Format> = Vec::new();
    misses.retain(|(_, format, _)| {
        let is_new = !names.contains(format);
        names.push(*format);
        is_new
    });
    let told = misses.iter().take(CLOSEST).map(|(at, format, wanted)| {
        format!("`{format}`, where {wanted} is expected at column {}", at + 1)
    });
    format!("closest are {}", told.collect::<Vec<_>>().join(", and "))
}

/// Whether a line has a NUL, or several controls that no text has.
fn is_binary(line: &[u8]) -> bool {
    let is_odd = |byte: &&u8| **byte < b' ' && ![b'\t', b'\r', b'\x1b'].contains(*byte);
    line.contains(&0) || line.iter().filter(is_odd).count() > 1
}

/// A line that is in no format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unknown {
    line: u64,
    excerpt: String,
    closest: String,
    /// It has bytes that no text has.
    is_binary: bool,
}

impl Unknown {
    /// The first line of a text that is not empty, `before` lines after the log's beginning.
    pub(crate) fn first_of(text: &[u8], before: u64) -> Option<Self> {
        const EXCERPT: usize = 80;
        let mut lines = text.split(|&byte| byte == b'\n').zip(before + 1..);
        let (line, number) = lines.find(|(line, _)| !line.trim_ascii().is_empty())?;
        let line = &line[..line.len().min(MAX_LINE)];
        Some(Self {
            line: number,
            excerpt: shown(line, EXCERPT),
            is_binary: is_binary(line),
            closest: closest(line.strip_suffix(b"\r").unwrap_or(line)),
        })
    }

    /// Of a log without any such line.
    pub(crate) fn blank() -> Self {
        Self { line: 1, excerpt: String::new(), closest: String::new(), is_binary: false }
    }

    pub(crate) fn into_error(self, name: String) -> Error {
        let Self { line, excerpt, closest, is_binary } = self;
        if is_binary {
            return Error::NotText { name };
        }
        if excerpt.is_empty() {
            return Error::Blank { name };
        }
        Error::NoFormat { name, line, excerpt, closest, formats: format_names() }
    }
}

#[cfg(test)]
#[path = "detect_tests.rs"]
mod tests;
