//! The Common and the Combined log format; nginx's default is Combined.
//!
//! `client ident user [day/Mon/year:hour:minute:second zone] "request" status bytes`, and in
//! Combined ` "referer" "agent"`. What follows is left alone, so formats that only append fields
//! read as well; so do lines with words before the client, and those with fields without quotes
//! between size and referer. A chain of forwarded addresses right behind the agent counts for the client.

use std::fmt::Write as _;
use std::ops::Range;

use memchr::{memchr, memchr2, memmem, memrchr};
use nightwatt_energy::time::Wall;

use crate::arrival::Arrival;
use crate::clf_time::{self, TimeMemo};
use crate::client::{self, ClientFrom};
use crate::record::{Escapes, Line, Reason};
use crate::spans::{self, Span, Spans};

/// Parses one line, without its line end.
pub fn parse(line: &[u8]) -> Result<Line<'_>, Reason> {
    find(line, &mut Memo::default()).map(|spans| spans.cut(line))
}

/// What the lines of a log have in common: the time of the line before, and which entry of a chain
/// of addresses is the client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memo {
    pub(crate) times: TimeMemo,
    pub(crate) client_from: ClientFrom,
}

/// Parses lines one after the other: quicker than [`parse`], since most have the time of the line
/// before or one close to it.
#[derive(Debug, Clone, Default)]
pub struct Lines {
    memo: Memo,
}

impl Lines {
    /// As [`parse`].
    pub fn parse<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Reason> {
        find(line, &mut self.memo).map(|spans| spans.cut(line))
    }
}

/// Writes one line of Combined, without a line end: what [`parse`] reads back.
///
/// Time is cut to whole seconds and the offset to whole minutes, as the format has it; an empty
/// field reads back as none.
pub fn format(arrival: &Arrival) -> String {
    let mut out = String::with_capacity(200);
    write(&mut out, &Entry::from(arrival));
    out
}

/// What a line says, borrowed: for callers that write many lines.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// When, UTC.
    pub at: Wall,
    /// Local time minus UTC, in seconds.
    pub utc_offset: i32,
    /// Address or name of the client.
    pub client: &'a str,
    /// `GET`.
    pub method: &'a str,
    /// `/index.html?a=b`.
    pub target: &'a str,
    /// Of the answer.
    pub status: u16,
    /// Of the answer's body.
    pub bytes: u64,
    /// `Referer`, as it came.
    pub referer: Option<&'a [u8]>,
    /// `User-Agent`, as it came.
    pub agent: Option<&'a [u8]>,
}

impl<'a> From<&'a Arrival> for Entry<'a> {
    fn from(arrival: &'a Arrival) -> Self {
        Self {
            at: arrival.at,
            utc_offset: arrival.utc_offset,
            client: &arrival.client,
            method: &arrival.method,
            target: &arrival.target,
            status: arrival.status,
            bytes: arrival.bytes,
            referer: arrival.referer.as_deref().map(str::as_bytes),
            agent: arrival.agent.as_deref().map(str::as_bytes),
        }
    }
}

impl Entry<'_> {
    /// The same, to be kept.
    pub fn to_arrival(&self) -> Arrival {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Arrival {
            at: self.at,
            utc_offset: self.utc_offset,
            client: self.client.to_owned(),
            method: self.method.to_owned(),
            target: self.target.to_owned(),
            status: self.status,
            bytes: self.bytes,
            referer: self.referer.map(text),
            agent: self.agent.map(text),
        }
    }
}

/// As [`format()`], appended to `out`.
pub fn write(out: &mut String, entry: &Entry<'_>) {
    out.push_str(entry.client);
    out.push_str(" - - [");
    clf_time::write(out, entry.at, entry.utc_offset);
    out.push_str("] \"");
    escape(out, entry.method.as_bytes());
    out.push(' ');
    escape(out, entry.target.as_bytes());
    // Writing to a String cannot fail.
    let _ = write!(out, " HTTP/1.1\" {:03} {} \"", entry.status, entry.bytes);
    escape(out, entry.referer.unwrap_or(b"-"));
    out.push_str("\" \"");
    escape(out, entry.agent.unwrap_or(b"-"));
    out.push('"');
}

/// Escapes text of clients as [`write()`] does, for any other place where people read it.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape(&mut out, text.as_bytes());
    out
}

/// Escapes as nginx does: quote, backslash and each byte that is not printable ASCII as `\xHH`. So no text of a
/// client can command a terminal, or show itself in another order than it has.
fn escape(out: &mut String, text: &[u8]) {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    // Looks at all bytes, and so at many at once: hardly any text has others.
    if text.iter().fold(true, |are_plain, byte| are_plain & is_plain(byte))
        && let Ok(text) = std::str::from_utf8(text)
    {
        out.push_str(text);
        return;
    }
    for byte in text {
        if is_plain(byte) {
            out.push(char::from(*byte));
        } else {
            let _ = write!(out, "\\x{byte:02X}");
        }
    }
}

/// Parses.
#[inline]
pub(crate) fn find(line: &[u8], memo: &mut Memo) -> Result<Spans, Reason> {
    let line = line.trim_ascii_end();
    if line.is_empty() {
        return Err(Reason::Empty);
    }
    let Some(first) = word(line) else { return behind_blanks(line, memo) };
    // What nearly every server writes, and what else there may be.
    let usual = line[first.len..].starts_with(b" - - [");
    let known = if usual {
        line.get(first.len + 6..).and_then(|text| memo.times.parse(text))
    } else {
        None
    };
    let (open, at, utc_offset) = match known {
        Some((at, utc_offset)) => (first.len + 5, at, utc_offset),
        None => find_time(line, first.len, &mut memo.times)?,
    };
    let (client, user, leads) = match known {
        Some(_) if first.is_plain => (Span::new(0, first.len), Span::default(), false),
        Some(_) => {
            let word = &line[..first.len];
            (cleaned(line, word, memo.client_from)?, Span::default(), client::is_chain(word))
        }
        None => {
            let (client, user) = client_and_user(line, first.len, open, memo.client_from)?;
            (client, user, client::is_chain(&line[..open]))
        }
    };
    let mut escaped = 0;
    let behind_time = open + clf_time::LEN + 2;
    let request = quoted(line, behind_time, Reason::NoRequest)
        .or_else(|reason| quoted(line, behind_parentheses(line, behind_time, reason)?, reason))?;
    escaped |= if request.escaped { spans::TARGET } else { 0 };
    let (status, after) = status(line, request.end + 1)?;
    let (bytes, after) = size(line, after)?;
    let (referer, agent) = referer_and_agent(line, after)?;
    let behind = chain_behind(line, agent.end);
    let client = match behind {
        Some(chain) => {
            let client = client::of(client.of(line), chain, memo.client_from);
            Span::within(line, client.ok_or(Reason::Client)?)
        }
        None => client,
    };
    escaped |= if client.from as usize > open { spans::APART } else { 0 };
    escaped |= if referer.escaped { spans::REFERER } else { 0 };
    escaped |= if agent.escaped { spans::AGENT } else { 0 };
    Ok(Spans {
        at,
        utc_offset,
        client,
        user,
        request: request.span(),
        http: http_request(line, request.start..request.end, status),
        query: Span::default(),
        status,
        bytes,
        referer: referer.span(),
        agent: agent.span(),
        escaped,
        escapes: Escapes::Clf,
        agent_escapes: Escapes::Clf,
        has_chain: leads || behind.is_some(),
    })
}

/// As [`find`], of a line that does not begin with a word.
#[cold]
fn behind_blanks(line: &[u8], memo: &mut Memo) -> Result<Spans, Reason> {
    let rest = line.trim_ascii_start();
    let blanks = line.len() - rest.len();
    if blanks == 0 { Err(Reason::Client) } else { find(rest, memo).map(|it| it.moved(blanks)) }
}

/// The first word of a line.
#[derive(Clone, Copy)]
struct Word {
    len: usize,
    /// Nothing but digits and dots, or nothing but hexadecimal digits and colons.
    is_plain: bool,
}

/// Sorts of bytes in a client: bits that are collected over a word.
const DOT: u8 = 1;
const COLON: u8 = 1 << 1;
const HEX: u8 = 1 << 2;
const OTHER: u8 = 1 << 3;
const END: u8 = 1 << 4;

const SORTS: [u8; 256] = {
    let mut sorts = [END; 256];
    let mut byte = 0;
    while byte < 128 {
        sorts[byte] = match byte as u8 {
            b' ' => END,
            b'0'..=b'9' => 0,
            b'.' => DOT,
            b':' => COLON,
            b'a'..=b'f' | b'A'..=b'F' => HEX,
            _ => OTHER,
        };
        byte += 1;
    }
    sorts
};

/// The word that the line begins with, ASCII only, up to a space.
#[inline]
fn word(line: &[u8]) -> Option<Word> {
    let mut seen = 0;
    let len = line.iter().position(|&byte| {
        let sort = SORTS[usize::from(byte)];
        seen |= sort;
        sort == END
    })?;
    let is_plain = matches!(seen & !END, DOT) || (seen & !(END | HEX)) == COLON;
    (len > 0 && line[len] == b' ').then_some(Word { len, is_plain })
}

/// The client in a word that is not simply an address.
fn cleaned(line: &[u8], word: &[u8], from: ClientFrom) -> Result<Span, Reason> {
    client::pick(word, from).map(|part| Span::within(line, part)).ok_or(Reason::Client)
}

/// Of a line with more between the first word and the time than ` - - `.
fn client_and_user(
    line: &[u8],
    first: usize,
    open: usize,
    from: ClientFrom,
) -> Result<(Span, Span), Reason> {
    let front = line[..open].trim_ascii_end();
    let client = client::in_front(front, from).ok_or(Reason::Client)?;
    if !client.is_ascii() {
        return Err(Reason::Client);
    }
    let client = Span::within(line, client);
    let user = if client.to as usize <= first {
        user(line, first, open)
    } else {
        let last = memrchr(b' ', front).map_or(front.len(), |space| space + 1);
        (last, front.len())
    };
    Ok((client, Span::new(user.0, user.1)))
}

/// The first bracket that holds a time: names of users may hold brackets too.
fn find_time(line: &[u8], from: usize, times: &mut TimeMemo) -> Result<(usize, Wall, i32), Reason> {
    let mut start = from;
    let mut reason = Reason::NoTime;
    while let Some(offset) = memchr(b'[', &line[start..]) {
        let open = start + offset;
        if let Some((at, utc_offset)) = line.get(open + 1..).and_then(|text| times.parse(text)) {
            return Ok((open, at, utc_offset));
        }
        reason = Reason::BadTime;
        start = open + 1;
    }
    Err(reason)
}

/// The text between `ident`, which is no longer in use, and the time; may hold spaces.
fn user(line: &[u8], from: usize, to: usize) -> (usize, usize) {
    let start = line[from..to].iter().position(|&byte| byte != b' ').map_or(to, |skip| from + skip);
    match memchr(b' ', &line[start..to]) {
        Some(ident) => {
            let text = line[start + ident..to].trim_ascii_start();
            (to - text.len(), to - text.len() + text.trim_ascii_end().len())
        }
        None => (to, to),
    }
}

/// A field without its quotes.
#[derive(Clone, Copy)]
struct Quoted {
    start: usize,
    end: usize,
    /// Whether it has a backslash.
    escaped: bool,
}

impl Quoted {
    const fn none(at: usize) -> Self {
        Self { start: at, end: at, escaped: false }
    }

    const fn span(self) -> Span {
        Span::new(self.start, self.end)
    }
}

/// The field in quotes at `from`, or the error `missing` if no quote begins there.
#[inline]
fn quoted(line: &[u8], from: usize, missing: Reason) -> Result<Quoted, Reason> {
    let open = skip_spaces(line, from);
    if line.get(open) == Some(&b'"') { field(line, open + 1) } else { Err(missing) }
}

/// The field behind the quote in front of `start`: nearly always up to the next quote.
#[inline]
fn field(line: &[u8], start: usize) -> Result<Quoted, Reason> {
    let rest = line.get(start..).unwrap_or_default();
    match memchr2(b'"', b'\\', rest) {
        Some(len) if rest[len] == b'"' && matches!(rest.get(len + 1), None | Some(b' ')) => {
            Ok(Quoted { start, end: start + len, escaped: false })
        }
        Some(len) => unusual_field(line, start, start + len),
        None => Err(Reason::OpenQuote),
    }
}

/// As [`field`], with a quote or a backslash in it, the first at `at`.
#[cold]
fn unusual_field(line: &[u8], start: usize, mut at: usize) -> Result<Quoted, Reason> {
    let mut escaped = false;
    // The last escaped quote that ends the field if the server escapes nothing.
    let mut backslash_ends = None;
    while let Some(offset) = memchr2(b'"', b'\\', line.get(at..).unwrap_or_default()) {
        let stop = at + offset;
        if line[stop] == b'\\' {
            escaped = true;
            at = stop + 2;
            if line.get(stop + 1) == Some(&b'"') && matches!(line.get(at), None | Some(b' ')) {
                backslash_ends = Some(stop + 1);
            }
        } else if matches!(line.get(stop + 1), None | Some(b' ')) {
            return Ok(Quoted { start, end: stop, escaped });
        } else if let Some(end) = backslash_ends.filter(|_| line[stop - 1] == b' ') {
            // This quote begins a field, so the one behind a backslash ended this one.
            return Ok(Quoted { start, end, escaped });
        } else {
            // Some servers escape nothing: a quote that ends no field belongs to it.
            at = stop + 1;
        }
    }
    let end = backslash_ends.filter(|end| end + 1 == line.len()).ok_or(Reason::OpenQuote)?;
    Ok(Quoted { start, end, escaped })
}

/// Behind a field in parentheses between time and request: Gandi has the seconds that the answer took there. If there
/// is no such field, the error is `missing`.
#[cold]
fn behind_parentheses(line: &[u8], from: usize, missing: Reason) -> Result<usize, Reason> {
    let open = skip_spaces(line, from);
    let end =
        line.get(open..).filter(|rest| rest.starts_with(b"(")).and_then(|it| memchr(b')', it));
    end.map(|len| open + len + 1).ok_or(missing)
}

#[inline]
fn skip_spaces(line: &[u8], from: usize) -> usize {
    let rest = line.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|&&byte| byte == b' ').count()
}

#[inline]
fn status(line: &[u8], from: usize) -> Result<(u16, usize), Reason> {
    let start = skip_spaces(line, from);
    let end = start + 3;
    let ends = |end| matches!(line.get(end), None | Some(b' '));
    if let Some(digits) = line.get(start..end).and_then(clf_time::number).filter(|_| ends(end)) {
        return Ok((digits as u16, end));
    }
    // Traefik's and Apache's, where the client went before there was an answer.
    let unanswered = matches!(line.get(start), Some(b'0' | b'-')) && ends(start + 1);
    if unanswered { Ok((0, start + 1)) } else { Err(Reason::Status) }
}

#[inline]
fn size(line: &[u8], from: usize) -> Result<(u64, usize), Reason> {
    // No number of so many digits overflows.
    const MOST: usize = 18;
    let start = skip_spaces(line, from);
    let rest = line.get(start..).unwrap_or_default();
    let (mut bytes, mut len) = (0, 0);
    while let Some(digit @ b'0'..=b'9') = rest.get(len).filter(|_| len < MOST) {
        bytes = bytes * 10 + u64::from(digit - b'0');
        len += 1;
    }
    if len > 0 && matches!(rest.get(len), None | Some(b' ')) {
        return Ok((bytes, start + len));
    }
    let len = memchr(b' ', rest).unwrap_or(rest.len());
    let text = &rest[..len];
    let bytes = if text == b"-" { Some(0) } else { clf_time::number(text) };
    Ok((bytes.ok_or(Reason::Size)?, start + len))
}

/// Empty where the line is Common.
#[inline]
fn referer_and_agent(line: &[u8], from: usize) -> Result<(Quoted, Quoted), Reason> {
    let none = Quoted::none(line.len());
    let start = skip_spaces(line, from);
    if line.get(start) != Some(&b'"') {
        return if start >= line.len() { Ok((none, none)) } else { Ok(behind_more(line, start)) };
    }
    let referer = field(line, start + 1)?;
    let next = skip_spaces(line, referer.end + 1);
    if line.get(next) != Some(&b'"') {
        return Ok((referer, none));
    }
    let agent = field(line, next + 1)?;
    Ok((referer, agent))
}

/// Behind fields without quotes that stand between size and referer: a duration, a host's name.
/// The first two quoted fields are referer and agent if one of them looks like it, and the other
/// does not look like something else.
#[cold]
fn behind_more(line: &[u8], from: usize) -> (Quoted, Quoted) {
    let none = Quoted::none(line.len());
    let find = || {
        let open = from + memmem::find(&line[from..], b" \"")? + 1;
        let referer = quoted(line, open, Reason::OpenQuote).ok()?;
        let agent = quoted(line, referer.end + 1, Reason::OpenQuote).ok()?;
        let of = |field: Quoted| &line[field.start..field.end];
        let is_link = matches!(of(referer), b"" | b"-") || looks_like_link(of(referer));
        let is_agent = looks_like_agent(of(agent)) || (is_link && !looks_like_figure(of(agent)));
        is_agent.then_some((referer, agent))
    };
    find().unwrap_or((none, none))
}

/// The chain of addresses behind the agent, where nginx's own `main` format has it. (A private
/// address with a port is that of the server behind.)
#[inline]
fn chain_behind(line: &[u8], agent: usize) -> Option<&[u8]> {
    match line.get(agent + 1..)? {
        [b' ', b'"', b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' | b':' | b'[' | b'u', ..] => {
            chain_in(&line[agent + 3..])
        }
        _ => None,
    }
}

/// The chain of addresses up to the next quote, if it is one.
fn chain_in(rest: &[u8]) -> Option<&[u8]> {
    let chain = &rest[..memchr(b'"', rest)?];
    let address = client::pick(chain, ClientFrom::Public).and_then(client::address)?;
    let is_behind = !client::is_public(address) && client::has_port(chain);
    (!is_behind).then_some(chain)
}

/// Whether a field holds numbers, or addresses with ports or without.
fn looks_like_figure(field: &[u8]) -> bool {
    let is_one = |part: &[u8]| {
        let part = part.trim_ascii();
        part.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'))
            || client::address(client::entry(part)).is_some()
            || (client::has_port(part) && client::is_host(client::entry(part)))
    };
    !field.is_empty() && field != b"-" && field.split(|&byte| byte == b',').all(is_one)
}

/// Whether a field looks like a `Referer`.
pub(crate) fn looks_like_link(field: &[u8]) -> bool {
    memmem::find(field, b"://").is_some() && !field.contains(&b' ')
}

/// Whether a field looks like a `User-Agent`: it begins with a product and its version.
pub(crate) fn looks_like_agent(field: &[u8]) -> bool {
    if memmem::find(field, b"Mozilla/").is_some() {
        return true;
    }
    let end = field.iter().position(|byte| matches!(byte, b' ' | b'(')).unwrap_or(field.len());
    let product = &field[..end];
    let Some(slash) = memchr(b'/', product) else { return false };
    let version = product[slash + 1..].strip_prefix(b"v").unwrap_or(&product[slash + 1..]);
    product[0].is_ascii_alphabetic()
        && !product.starts_with(b"HTTP/")
        && version.first().is_some_and(u8::is_ascii_digit)
}

/// Method, target and protocol. The target may hold spaces: clients do send such.
#[inline]
pub(crate) fn http_request(line: &[u8], range: Range<usize>, status: u16) -> Option<[Span; 3]> {
    let from = range.start;
    let request = &line[range];
    let method = if request.starts_with(b"GET ") {
        3
    } else {
        let method = request.iter().take(33).position(|&byte| byte == b' ')?;
        // nightwatt's own log has a line for each connection that was passed through, whatever was spoken on it.
        if !is_method(&request[..method]) || &request[..method] == b"TCP" {
            return None;
        }
        method
    };
    // `HTTP/1.1` nearly always.
    let last = match request.len().checked_sub(9) {
        Some(last) if request[last] == b' ' && is_protocol(&request[last + 1..]) => last,
        _ => memrchr(b' ', request)?,
    };
    let at = |start: usize, end: usize| Span::new(from + start, from + end);
    if is_protocol(&request[last + 1..]) {
        let is_blank = |target: &[u8]| target.iter().all(u8::is_ascii_whitespace);
        let target = request.get(method + 1..last).filter(|target| !is_blank(target))?;
        let end = method + 1 + target.len();
        return Some([at(0, method), at(method + 1, end), at(last + 1, request.len())]);
    }
    // HTTP/0.9 knew only this; logs of the nineties are full of it. A later server logs the same
    // for a request that it gave up on before its end: bad, timed out, too long.
    let simple = &request[..method] == b"GET"
        && last == method
        && request[last + 1..].first() == Some(&b'/')
        && !matches!(status, 400 | 408 | 414);
    let all = request.len();
    simple.then(|| [at(0, method), at(method + 1, all), at(all, all)])
}

/// Letters in upper case, `-` and `_`, 32 at most.
pub(crate) fn is_method(text: &[u8]) -> bool {
    (1..=32).contains(&text.len())
        && text.iter().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_'))
}

/// `HTTP/` and a version of one or two numbers.
pub(crate) fn is_protocol(text: &[u8]) -> bool {
    match text.strip_prefix(b"HTTP/") {
        Some([major]) => major.is_ascii_digit(),
        Some([major, b'.', minor]) => major.is_ascii_digit() && minor.is_ascii_digit(),
        _ => false,
    }
}

#[cfg(test)]
#[path = "clf_tests.rs"]
mod tests;
