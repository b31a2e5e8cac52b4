//! What of a Rust file is code, and where its functions are.

use std::iter::repeat_n;

/// The code, the comments and the literals of a Rust file. Each is as long as the file, line by line, with everything
/// else blanked.
pub(crate) struct Parts {
    /// Keeps the quotes of literals, or a blanked literal would look like an argument left out.
    pub(crate) code: String,
    pub(crate) comments: String,
    pub(crate) literals: String,
}

impl Parts {
    pub(crate) fn of(text: &str) -> Self {
        let text: Vec<char> = text.chars().collect();
        let empty = || String::with_capacity(text.len());
        let mut parts = Self { code: empty(), comments: empty(), literals: empty() };
        let mut at = 0;
        while at < text.len() {
            let end = literal_or_comment(&text, at).filter(|end| *end > at + 1);
            let end = end.unwrap_or(at + 1);
            let part = &text[at..end];
            let is_comment = part.len() > 1 && part[0] == '/';
            let is_literal = part.len() > 1 && !is_comment;
            parts.comments.extend(part.iter().map(|c| if is_comment { *c } else { blank(*c) }));
            parts.literals.extend(part.iter().map(|c| if is_literal { *c } else { blank(*c) }));
            match part {
                [only] => parts.code.push(*only),
                [_, inside @ .., last] if is_literal => {
                    parts.code.push('"');
                    parts.code.extend(inside.iter().map(|c| blank(*c)));
                    parts.code.push(if *last == '\n' { '\n' } else { '"' });
                }
                _ => parts.code.extend(part.iter().map(|c| blank(*c))),
            }
            at = end;
        }
        parts
    }
}

fn blank(c: char) -> char {
    if c == '\n' { '\n' } else { ' ' }
}

/// The text with the insides of comments and literals blanked, line by line as long as before.
pub(crate) fn code_of(text: &str) -> String {
    Parts::of(text).code
}

/// The end of the literal or comment that begins here, if one does.
fn literal_or_comment(text: &[char], at: usize) -> Option<usize> {
    let rest = &text[at..];
    let in_word = at > 0 && is_word(text[at - 1]);
    let length = match rest {
        ['/', '/', ..] => rest.iter().position(|&c| c == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => block_comment(rest),
        ['"', ..] => quoted(rest, '"'),
        // Else a lifetime.
        ['\'', '\\', ..] | ['\'', _, '\'', ..] => quoted(rest, '\''),
        ['b' | 'c', 'r', '"' | '#', ..] if !in_word => 1 + raw(&rest[1..])?,
        ['r', '"' | '#', ..] if !in_word => raw(rest)?,
        _ => return None,
    };
    Some(at + length)
}

fn block_comment(text: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at + 1 < text.len() {
        match (text[at], text[at + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

fn quoted(text: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            '\\' => at += 1,
            c if c == quote => return at + 1,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// `r"..."`, `r#"..."#`; not the name `r#type`.
fn raw(text: &[char]) -> Option<usize> {
    let hashes = text[1..].iter().take_while(|&&c| c == '#').count();
    let start = hashes + 2;
    if text.get(start - 1) != Some(&'"') {
        return None;
    }
    let end: Vec<char> = std::iter::once('"').chain(repeat_n('#', hashes)).collect();
    let found = text[start..].windows(end.len()).position(|window| window == end);
    Some(found.map_or(text.len(), |found| start + found + end.len()))
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The names in a line.
pub(crate) fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c| !is_word(c)).filter(|word| !word.is_empty())
}

/// A function with a body of several lines.
#[derive(Debug, PartialEq)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    /// Index of the line with `fn`.
    pub(crate) start: usize,
    /// From there to the closing brace.
    pub(crate) lines: usize,
}

/// The functions of a file whose literals are blanked. A function ends at the next closing brace
/// that is indented as its `fn` is.
pub(crate) fn functions(code: &str) -> Vec<Function<'_>> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let head =
            lines[start..].iter().position(|line| line.trim_end().ends_with(['{', ';', '}']));
        let Some(head) = head.filter(|head| lines[start + head].trim_end().ends_with('{')) else {
            continue;
        };
        let brace = format!("{}}}", " ".repeat(indent(line)));
        let body = &lines[start + head..];
        if let Some(end) = body.iter().position(|line| line.starts_with(&brace)) {
            found.push(Function { name, start, lines: head + end + 1 });
        }
    }
    found
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The name in a line that begins a function.
fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let is_qualifier = |word: &str| {
        matches!(word, "const" | "async" | "unsafe" | "extern")
            || word.starts_with("pub")
            || word.starts_with('"')
    };
    before.split_whitespace().all(is_qualifier).then(|| words(after).next()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let pairs = [
            ("a // b", "a     "),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("a \" {", x)"#, r#"f("      ", x)"#),
            ("r#\"a\n}\" b\"# c", "\"   \n     \" c"),
            ("br\"a\" c", "\"   \" c"),
            ("r#type", "r#type"),
            ("'{' + '\\'' + b'}'", "\" \" + \"  \" + b\" \""),
            ("&'a str, 'a: 'b", "&'a str, 'a: 'b"),
        ];
        for (text, code) in pairs {
            assert_eq!(code_of(text), code, "{text}");
            assert_eq!(code.chars().count(), text.chars().count());
        }
    }

    #[test]
    fn comments_and_literals_stand_where_they_stood() {
        let parts = Parts::of("a(\"b\"); // c\n");
        assert_eq!(parts.literals, "  \"b\"       \n");
        assert_eq!(parts.comments, "        // c\n");
    }

    #[test]
    fn functions_end_at_their_own_brace() {
        let code = "\
trait A {
    fn declared(&self) -> u8;
    fn short(&self) {}
    pub(crate) async fn long<T>(
        &self,
    ) -> T
    where
        T: B,
    {
        match self {
            _ => {
            }
        }
    }
}
let f: fn (u8) = {
";
        let long = Function { name: "long", start: 3, lines: 11 };
        assert_eq!(functions(code), [long]);
    }
}
