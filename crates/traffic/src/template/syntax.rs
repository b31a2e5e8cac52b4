//! From a format string to a [`Template`].

use std::ops::Range;

use super::{Form, Piece, Template, Unit};
use crate::fields::Kind;
use crate::record::Escapes;

/// Compiles a format string, or the whole directive that it stands in; or says what is wrong.
pub(super) fn compile(text: &str) -> Result<Template, String> {
    let written = directive(text);
    let (pieces, escapes) = if is_nginx(&written.format) {
        (nginx(&written.format)?, written.escapes)
    } else if written.format.contains('%') {
        (apache(&written.format)?, Escapes::Clf)
    } else {
        return Err("it names no field; nginx writes them as `$remote_addr`, Apache as `%h`".into());
    };
    let pieces = joined(pieces)?;
    check(&pieces)?;
    let is_part = |piece: &Piece| matches!(piece, Piece::Time(Form::Strftime(_) | Form::Number(_)));
    let has_parts = pieces.iter().any(is_part);
    Ok(Template { text: written.format, pieces, escapes, has_parts, is_built_in: false })
}

/// A format as it is, out of its directive and quotes.
struct Written {
    format: String,
    escapes: Escapes,
}

/// Formats that have names of their own in the documentation of Apache.
const NICKNAMES: [(&str, &str); 4] = [
    ("common", r#"%h %l %u %t "%r" %>s %b"#),
    ("combined", r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#),
    ("vhost_combined", r#"%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i""#),
    ("combinedio", r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %I %O"#),
];

/// `log_format name [escape=json] '...' '...';`, `LogFormat "..." name`, `CustomLog path "..."`, the
/// quoted strings alone, or the format itself.
fn directive(text: &str) -> Written {
    let text = one_line(text);
    let trimmed = text.trim().trim_end_matches(';').trim_end();
    let mut words = trimmed.split_ascii_whitespace();
    let word = words.next().unwrap_or_default();
    let is_any = |names: &[&str]| names.iter().any(|name| word.eq_ignore_ascii_case(name));
    let (is_nginx, has_path) = (word == "log_format", is_any(&["CustomLog", "TransferLog"]));
    let is_apache = has_path || is_any(&["LogFormat", "ErrorLogFormat"]);
    let mut strings = strings(trimmed);
    let mut nickname = if has_path { words.nth(1) } else { Some(trimmed) };
    let begins_path = |at: &Range<usize>| trimmed[word.len()..at.start].trim().is_empty();
    if let Some((path, _)) = strings.first().filter(|(at, _)| has_path && begins_path(at)).cloned()
    {
        strings.remove(0);
        nickname = trimmed[path.end..].split_ascii_whitespace().next();
    }
    if let Some((_, format)) = NICKNAMES.iter().find(|(name, _)| Some(*name) == nickname) {
        return Written { format: (*format).to_owned(), escapes: Escapes::Clf };
    }
    if !is_nginx && !is_apache && !is_alone(trimmed, &strings) {
        strings.clear();
    }
    let head = strings.first().map_or(trimmed, |(at, _)| &trimmed[..at.start]);
    let escapes = if head.contains("escape=json") {
        Escapes::Json
    } else if head.contains("escape=none") {
        Escapes::Never
    } else {
        Escapes::Clf
    };
    let format = match strings.len() {
        0 if is_nginx => {
            let words = trimmed.split_ascii_whitespace().skip(2);
            words.filter(|word| !word.starts_with("escape=")).collect()
        }
        0 => trimmed.to_owned(),
        _ if is_apache => strings[0].1.clone(),
        _ => strings.into_iter().map(|(_, string)| string).collect(),
    };
    let escapes = if format.trim_start().starts_with('{') { Escapes::Json } else { escapes };
    Written { format: unescaped(&format), escapes }
}

/// Without comments in front, and without line breaks that a backslash escapes.
fn one_line(text: &str) -> String {
    let is_comment = |line: &str| line.trim_start().starts_with('#');
    let mut rest = text.trim_start();
    while let Some((_, behind)) = rest.split_once('\n').filter(|(line, _)| is_comment(line)) {
        rest = behind.trim_start();
    }
    rest.replace("\\\r\n", "").replace("\\\n", "")
}

/// Whether there is nothing in a text but these strings.
fn is_alone(text: &str, strings: &[(Range<usize>, String)]) -> bool {
    let mut from = 0;
    let mut is_blank_before = |at: &Range<usize>| {
        let before = &text[from..at.start];
        from = at.end;
        before.trim().is_empty()
    };
    let is_blank = strings.iter().all(|(at, _)| is_blank_before(at));
    is_blank && text[from..].trim().is_empty()
}

/// Quoted strings and where each stands; quotes within are escaped by a backslash.
fn strings(text: &str) -> Vec<(Range<usize>, String)> {
    let mut strings = Vec::new();
    let mut characters = text.char_indices();
    while let Some((at, quote)) = characters.by_ref().find(|(_, it)| matches!(it, '\'' | '"')) {
        let mut string = String::new();
        while let Some((_, character)) = characters.next().filter(|(_, it)| *it != quote) {
            string.push(character);
            if character == '\\' {
                string.extend(characters.next().map(|(_, escaped)| escaped));
            }
        }
        strings.push((at..characters.clone().next().map_or(text.len(), |(end, _)| end), string));
    }
    strings
}

/// `\"`, `\'`, `\\`, `\t` and `\n` as what they stand for.
fn unescaped(format: &str) -> String {
    let mut out = String::with_capacity(format.len());
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        match (character, characters.clone().next()) {
            ('\\', Some(escaped @ ('"' | '\'' | '\\'))) => {
                characters.next();
                out.push(escaped);
            }
            ('\\', Some('t')) => {
                characters.next();
                out.push('\t');
            }
            ('\\', Some('n' | 'r')) => drop(characters.next()),
            _ => out.push(character),
        }
    }
    out.trim_end_matches(['\n', '\r']).to_owned()
}

fn is_nginx(format: &str) -> bool {
    let begins = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '{');
    format.split('$').skip(1).any(|rest| rest.starts_with(begins))
}

/// Appends to the literal text in front, or begins a new one.
fn push_literal(pieces: &mut Vec<Piece>, text: &str) {
    if text.is_empty() {
        return;
    }
    match pieces.last_mut() {
        Some(Piece::Literal(literal)) => *literal = [literal, text.as_bytes()].concat().into(),
        _ => pieces.push(Piece::Literal(text.as_bytes().into())),
    }
}

fn nginx(format: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = format;
    while let Some(dollar) = rest.find('$') {
        push_literal(&mut pieces, &rest[..dollar]);
        let behind = &rest[dollar + 1..];
        let (name, after) = if let Some(braced) = behind.strip_prefix('{') {
            braced
                .split_once('}')
                .ok_or_else(|| format!("`${behind}` has a brace that does not close"))?
        } else {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            behind.split_at(behind.find(|c| !is_name(c)).unwrap_or(behind.len()))
        };
        if name.is_empty() {
            push_literal(&mut pieces, "$");
        } else {
            pieces.push(variable(name));
        }
        rest = after;
    }
    push_literal(&mut pieces, rest);
    Ok(pieces)
}

/// What a variable of nginx is; those that begin with `nw_` are the built-in table's own.
fn variable(name: &str) -> Piece {
    Piece::Field(match name {
        "time_local" => return Piece::Time(Form::Common),
        "time_iso8601" | "msec" | "nw_time" => return Piece::Time(Form::Any),
        "remote_addr" => Kind::Client,
        "proxy_protocol_addr" | "proxy_add_x_forwarded_for" | "the_real_ip" => Kind::Forwarded,
        "remote_user" => Kind::User,
        "request" => Kind::Request,
        "request_method" => Kind::Method,
        "request_uri" => Kind::Target,
        "uri" | "document_uri" => Kind::Path,
        "args" | "query_string" | "is_args" => Kind::Query,
        "server_protocol" => Kind::Protocol,
        "status" => Kind::Status,
        "body_bytes_sent" | "bytes_sent" => Kind::Bytes,
        "http_referer" => Kind::Referer,
        "http_user_agent" => Kind::Agent,
        "nw_captures" => Kind::Captures,
        _ if name.strip_prefix("http_").is_some_and(is_forwarded) => Kind::Forwarded,
        _ => Kind::Other,
    })
}

/// Whether a header, in small letters with `_` for `-`, names the client of a proxy.
fn is_forwarded(header: &str) -> bool {
    const HEADERS: [&str; 15] = [
        "cf_connecting_ip",
        "cf_connecting_ipv6",
        "client_ip",
        "do_connecting_ip",
        "fastly_client_ip",
        "fly_client_ip",
        "forwarded",
        "true_client_ip",
        "x_azure_clientip",
        "x_client_ip",
        "x_cluster_client_ip",
        "x_envoy_external_address",
        "x_forwarded_for",
        "x_original_forwarded_for",
        "x_real_ip",
    ];
    HEADERS.contains(&header)
}

fn apache(format: &str) -> Result<Vec<Piece>, String> {
    let has_begin = begins_too(format);
    // `%{c}a` is the other end of the connection, of which the others may be the client.
    let has_client = ["%a", "%h"].iter().any(|it| format.contains(it));
    let mut pieces = Vec::new();
    let mut rest = format;
    while let Some(percent) = rest.find('%') {
        push_literal(&mut pieces, &rest[..percent]);
        let behind = &rest[percent + 1..];
        // `%!200,304{Referer}i`, `%>s`, `%^FB`: conditions and modifiers print `-` or change nothing.
        let is_modifier = |c: char| c.is_ascii_digit() || matches!(c, '!' | ',' | '<' | '>');
        let mut after = behind.trim_start_matches(is_modifier);
        let mut argument = "";
        if let Some(braced) = after.strip_prefix('{') {
            (argument, after) = braced
                .split_once('}')
                .ok_or_else(|| format!("`%{behind}` has a brace that does not close"))?;
        }
        let wide = if after.starts_with('^') { 3 } else { 1 };
        let (name, after) =
            after.split_at_checked(wide).ok_or_else(|| format!("`%{behind}` names no field"))?;
        match name {
            "%" => push_literal(&mut pieces, "%"),
            "t" => {
                let form = time(argument);
                let form =
                    if has_begin && is_end(argument) { Form::Passed(Box::new(form)) } else { form };
                pieces.push(Piece::Time(form));
            }
            "a" if argument == "c" && has_client => pieces.push(Piece::Field(Kind::Other)),
            _ => pieces.push(Piece::Field(field(name, argument))),
        }
        rest = after;
    }
    push_literal(&mut pieces, rest);
    Ok(pieces)
}

fn field(name: &str, argument: &str) -> Kind {
    match name {
        "h" | "a" => Kind::Client,
        "u" => Kind::User,
        "r" => Kind::Request,
        "s" => Kind::Status,
        "b" | "B" | "O" => Kind::Bytes,
        "m" => Kind::Method,
        "U" => Kind::Path,
        "q" => Kind::Query,
        "H" => Kind::Protocol,
        "i" => match argument.to_ascii_lowercase().as_str() {
            "referer" => Kind::Referer,
            "user-agent" => Kind::Agent,
            header if is_forwarded(&header.replace('-', "_")) => Kind::Forwarded,
            _ => Kind::Other,
        },
        _ => Kind::Other,
    }
}

/// Whether a format has a time of the request's beginning, which every `%...t` without `end` is.
fn begins_too(format: &str) -> bool {
    format.match_indices('%').any(|(at, _)| {
        let rest = &format[at + 1..];
        let braced = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        braced.map_or(rest.starts_with('t'), |(argument, behind)| {
            behind.starts_with('t') && !is_end(argument)
        })
    })
}

/// Whether a time is that of the answer's end.
fn is_end(argument: &str) -> bool {
    argument == "end" || argument.starts_with("end:")
}

/// `%t`, and `%{...}t` in all its forms: `%{begin}t` and `%{end}t` are written as `%t` is.
fn time(argument: &str) -> Form {
    let form = ["begin", "end"].into_iter().find_map(|which| {
        let rest = argument.strip_prefix(which)?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix(':') }
    });
    let unit = match form.unwrap_or(argument) {
        "" => return Form::Bracketed,
        "sec" => Unit::Second,
        "msec" => Unit::Milli,
        "usec" => Unit::Micro,
        "msec_frac" => Unit::MilliFraction,
        "usec_frac" => Unit::MicroFraction,
        strftime => return Form::Strftime(strftime.as_bytes().into()),
    };
    Form::Number(unit)
}

/// Fields that stand side by side as one, where they can be told apart from what follows; runs of
/// blanks as what any run of blanks fits.
fn joined(pieces: Vec<Piece>) -> Result<Vec<Piece>, String> {
    const TARGET: [Kind; 3] = [Kind::Path, Kind::Query, Kind::Target];
    let mut out: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (out.last_mut(), piece) {
            (Some(Piece::Field(before)), Piece::Field(kind)) if TARGET.contains(&kind) => {
                if TARGET.contains(before) {
                    *before = Kind::Target;
                } else {
                    out.push(Piece::Field(kind));
                }
            }
            (Some(Piece::Field(_)), Piece::Field(_) | Piece::Time(Form::Any)) => {
                return Err("two of its fields have nothing between them, so that nothing says \
                            where the first one ends; put the two as one field, `$field`"
                    .into());
            }
            (_, Piece::Literal(text)) => out.extend(split_blanks(&text)),
            (_, piece) => out.push(piece),
        }
    }
    Ok(out)
}

fn split_blanks(text: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut at = 0;
    while at < text.len() {
        let blanks = text[at..].iter().take_while(|&&byte| byte == b' ').count();
        if blanks >= 2 {
            if start < at {
                pieces.push(Piece::Literal(text[start..at].into()));
            }
            pieces.push(Piece::Blanks);
            start = at + blanks;
        }
        at += blanks.max(1);
    }
    if start < text.len() {
        pieces.push(Piece::Literal(text[start..].into()));
    }
    pieces
}

/// What a request needs.
fn check(pieces: &[Piece]) -> Result<(), String> {
    let has = |kinds: &[Kind]| {
        pieces.iter().any(|piece| matches!(piece, Piece::Field(kind) if kinds.contains(kind)))
    };
    let has_target =
        has(&[Kind::Request]) || (has(&[Kind::Method]) && has(&[Kind::Target, Kind::Path]));
    let has_time = pieces.iter().any(|piece| matches!(piece, Piece::Time(_)));
    let needs = [
        (has(&[Kind::Client, Kind::Forwarded]), "the client (`$remote_addr`, `%h`)"),
        (has_time, "the time (`$time_local`, `%t`)"),
        (has_target, "the request (`$request`, `%r`, or method and path)"),
        (has(&[Kind::Status]), "the status (`$status`, `%>s`)"),
    ];
    match needs.into_iter().find(|(is_there, _)| !is_there) {
        Some((_, missing)) => Err(format!("it lacks {missing}")),
        None => Ok(()),
    }
}
