//! Formats that a string describes: nginx's `log_format` and Apache's `LogFormat`, as they stand in
//! a configuration.

mod syntax;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use memchr::{memchr2, memmem};
use nightwatt_energy::time::Wall;

use crate::clf::Memo;
use crate::clf_time;
use crate::error::Error;
use crate::fields::{Found, Kind, Manner};
use crate::record::{Escapes, Reason};
use crate::spans::{Span, Spans};
use crate::when::{self, Clock, Unit};

/// A log format of the operator's own.
///
/// ```
/// # use nightwatt_traffic::Pattern;
/// let apache: Pattern = r#"%h %l %u %t "%r" %>s %b"#.parse()?;
/// let nginx: Pattern = "log_format main '$remote_addr [$time_local] \"$request\" $status';".parse()?;
/// # Ok::<(), nightwatt_traffic::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(pub(crate) Arc<Template>);

impl FromStr for Pattern {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        syntax::compile(text)
            .map(|template| Self(Arc::new(template)))
            .map_err(|why| Error::Pattern { text: text.to_owned(), why })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.text)
    }
}

/// How a time is written.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// `03/Mar/2012:06:26:37 -0800`.
    Common,
    /// The same in brackets.
    Bracketed,
    /// Told by its looks.
    Any,
    /// A format of `strftime`.
    Strftime(Box<[u8]>),
    Number(Unit),
    /// When the answer ended, beside when the request began: it says nothing more of the request.
    Passed(Box<Form>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(Box<[u8]>),
    /// One blank or more.
    Blanks,
    Field(Kind),
    Time(Form),
}

/// A compiled format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    text: String,
    pieces: Vec<Piece>,
    escapes: Escapes,
    /// Times come in several parts.
    has_parts: bool,
    /// Of the built-in table: targets may be whole URLs, and few fields hold blanks.
    is_built_in: bool,
}

/// What was found so far in a line.
#[derive(Default)]
struct Parsed {
    found: Found,
    /// A time that comes in parts.
    clock: Clock,
}

/// Where a line leaves a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Miss {
    pub(crate) reason: Reason,
    /// Byte of the line, from 0.
    pub(crate) at: usize,
    piece: usize,
}

impl Template {
    /// A format of the built-in table; that it compiles is tested.
    pub(crate) fn built_in(text: &str) -> Option<Self> {
        syntax::compile(text).ok().map(|template| Self { is_built_in: true, ..template })
    }

    /// Parses a line.
    pub(crate) fn find(&self, line: &[u8], memo: &mut Memo) -> Result<Spans, Miss> {
        let line = line.trim_ascii_end();
        let miss = |reason, at, piece| Miss { reason, at, piece };
        if line.is_empty() {
            return Err(miss(Reason::Empty, 0, 0));
        }
        let (mut parsed, mut at) = (Parsed::default(), 0);
        for (number, piece) in self.pieces.iter().enumerate() {
            let rest = &line[at..];
            match piece {
                Piece::Literal(text) => {
                    // What ends a line may have been trimmed away.
                    let ends = rest.is_empty() && text.iter().all(u8::is_ascii_whitespace);
                    if !rest.starts_with(text) && !ends {
                        let same = rest.iter().zip(text).take_while(|(one, other)| one == other);
                        return Err(miss(Reason::Pattern, at + same.count(), number));
                    }
                    at += if ends { 0 } else { text.len() };
                }
                Piece::Blanks => {
                    let blanks = rest.iter().take_while(|&&byte| byte == b' ').count();
                    if blanks == 0 && !rest.is_empty() {
                        return Err(miss(Reason::Pattern, at, number));
                    }
                    at += blanks;
                }
                Piece::Field(kind) => {
                    let end = at
                        + self.field_end(number, rest).ok_or(miss(Reason::Pattern, at, number))?;
                    if let Some(reason) = kind.objection(&line[at..end]) {
                        return Err(miss(reason, at, number));
                    }
                    parsed.found.take(*kind, Span::new(at, end), line);
                    at = end;
                }
                Piece::Time(form) => {
                    let used = self.time(form, number, rest, memo, &mut parsed);
                    at += used.ok_or(miss(Reason::BadTime, at, number))?;
                }
            }
        }
        // Log formats are often longer in the log than in the operator's copy of the format string.
        if !matches!(line.get(at), None | Some(b' ' | b'\t' | b',' | b'|' | b'}')) {
            return Err(miss(Reason::Pattern, at, self.pieces.len()));
        }
        if self.has_parts {
            parsed.found.time = Some(parsed.clock.time().ok_or(miss(Reason::BadTime, 0, 0))?);
        }
        let manner = Manner {
            escapes: self.escapes,
            client_from: memo.client_from,
            has_urls: self.is_built_in,
        };
        parsed
            .found
            .place(line, manner)
            .map_err(|(reason, at)| miss(reason, at, self.piece_of(reason)))
    }

    /// Takes in a time, or a part of one; its length.
    fn time(
        &self,
        form: &Form,
        number: usize,
        rest: &[u8],
        memo: &mut Memo,
        parsed: &mut Parsed,
    ) -> Option<usize> {
        let mut set = |time: Option<(Wall, i32)>, used: usize| {
            parsed.found.time = Some(time?);
            Some(used)
        };
        match form {
            Form::Common if rest.get(clf_time::LEN) == Some(&b']') => {
                set(memo.times.parse(rest), clf_time::LEN)
            }
            Form::Bracketed if rest.first() == Some(&b'[') => {
                set(memo.times.parse(&rest[1..]), clf_time::LEN + 2)
            }
            Form::Common => set(when::any(rest.get(..clf_time::LEN)?), clf_time::LEN),
            Form::Bracketed => None,
            Form::Any => {
                let end = self.field_end(number, rest)?;
                set(when::any(&rest[..end]), end)
            }
            Form::Strftime(text) => parsed.clock.take(text, rest),
            Form::Passed(form) => self.time(form, number, rest, memo, &mut Parsed::default()),
            Form::Number(unit) => {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                parsed.clock.number(*unit, &rest[..digits]).map(|()| digits)
            }
        }
    }

    /// Where a field ends: at what follows it in the format, a quote only where none is escaped.
    fn field_end(&self, number: usize, rest: &[u8]) -> Option<usize> {
        let next = self.pieces.get(number + 1);
        let before = number.checked_sub(1).and_then(|before| self.pieces.get(before));
        let is_chain = matches!(self.pieces[number], Piece::Field(Kind::Client | Kind::Forwarded));
        let word_end = |rest: &[u8]| rest.iter().position(|&byte| byte == b' ');
        match next {
            None => Some(self.last_end(number, rest)),
            Some(Piece::Literal(literal)) => {
                let opens = |piece: &Piece| matches!(piece, Piece::Literal(it) if it.last() == literal.first());
                let is_quoted = literal[0] == b'"' && before.is_some_and(opens);
                let is_last = number + 2 == self.pieces.len();
                let is_word = self.is_built_in
                    && literal[0] == b' '
                    && !matches!(self.pieces[number], Piece::Field(Kind::Captures | Kind::User));
                if is_quoted {
                    self.quote_end(rest, literal, is_last)
                } else if is_word {
                    Some(word_end(rest).unwrap_or(rest.len()))
                } else if is_chain && literal[0] == b' ' {
                    chain_end(rest, |rest| end_at(rest, literal))
                } else {
                    end_at(rest, literal)
                }
            }
            Some(Piece::Blanks) if is_chain => {
                Some(chain_end(rest, word_end).unwrap_or(rest.len()))
            }
            Some(Piece::Blanks) => Some(word_end(rest).unwrap_or(rest.len())),
            // A host in front of the target: `$host$request_uri`.
            Some(_) => rest.iter().position(|&byte| byte == b'/'),
        }
    }

    /// Where the last field ends: what separates it from the field before ends it, too. But agents
    /// hold blanks, commas and semicolons.
    fn last_end(&self, number: usize, rest: &[u8]) -> usize {
        let before = match number.checked_sub(1).map(|before| &self.pieces[before]) {
            Some(Piece::Literal(literal)) => &**literal,
            _ => b" ",
        };
        let separators = before.trim_ascii_end().last().into_iter().chain(before.last());
        let mut separators = separators.copied();
        let is_field = |kind| self.pieces[number] == Piece::Field(kind);
        let is_end: &[u8] = match () {
            () if is_field(Kind::Agent) => b"\t|",
            () if is_field(Kind::Referer) => b"\t| ",
            () => b"\t|,; ",
        };
        let separator = separators.find(|it| *it != b' ' && is_end.contains(it));
        let separator = separator.or_else(|| is_end.contains(&b' ').then_some(b' '));
        let end = |rest: &[u8]| rest.iter().position(|byte| Some(*byte) == separator);
        let end = if is_field(Kind::Forwarded) { chain_end(rest, end) } else { end(rest) };
        end.unwrap_or(rest.len())
    }

    fn quote_end(&self, rest: &[u8], literal: &[u8], is_last: bool) -> Option<usize> {
        let ends = |at: usize| {
            rest[at..].starts_with(literal)
                && (!is_last || matches!(rest.get(at + literal.len()), None | Some(b' ')))
        };
        let (mut at, mut backslash_ends) = (0, None);
        while let Some(offset) = memchr2(b'"', b'\\', rest.get(at..)?) {
            let stop = at + offset;
            if rest[stop] == b'\\' && self.escapes != Escapes::Never {
                at = stop + 2;
                if rest.get(stop + 1) == Some(&b'"') && ends(stop + 1) {
                    backslash_ends = backslash_ends.or(Some(stop + 1));
                }
            } else if rest[stop] == b'"' && ends(stop) {
                return Some(stop);
            } else {
                at = stop + 1;
            }
        }
        backslash_ends
    }

    /// The piece that a field which could not be used came from.
    fn piece_of(&self, reason: Reason) -> usize {
        let is_it = |piece: &Piece| match piece {
            Piece::Field(Kind::Client | Kind::Forwarded) => reason == Reason::Client,
            Piece::Field(Kind::Status) => reason == Reason::Status,
            Piece::Field(Kind::Bytes) => reason == Reason::Size,
            _ => false,
        };
        self.pieces.iter().position(is_it).unwrap_or(0)
    }

    /// What the format has where a line left it.
    pub(crate) fn wanted(&self, miss: Miss) -> String {
        match self.pieces.get(miss.piece) {
            None => "the end of the line".to_owned(),
            Some(Piece::Literal(text)) => format!("`{}`", String::from_utf8_lossy(text)),
            Some(Piece::Blanks) => "a blank".to_owned(),
            Some(Piece::Time(_)) => "a time".to_owned(),
            Some(Piece::Field(kind)) => match self.pieces.get(miss.piece + 1) {
                Some(Piece::Literal(text)) if miss.reason == Reason::Pattern => {
                    format!("{} and then `{}`", kind.name(), String::from_utf8_lossy(text))
                }
                _ => kind.name().to_owned(),
            },
        }
    }
}

/// Where a chain of addresses ends, if `end` is where an address does: a blank behind a comma is
/// within it.
fn chain_end(rest: &[u8], end: impl Fn(&[u8]) -> Option<usize>) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + end(&rest[from..])?;
        if at == rest.len() || !rest[..at].trim_ascii_end().ends_with(b",") {
            return Some(at);
        }
        from = at + 1;
    }
}

/// Where a literal begins; a blank at the end of a line may have been trimmed away.
fn end_at(rest: &[u8], literal: &[u8]) -> Option<usize> {
    let found = memmem::find(rest, literal);
    found.or_else(|| literal.iter().all(u8::is_ascii_whitespace).then_some(rest.len()))
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
