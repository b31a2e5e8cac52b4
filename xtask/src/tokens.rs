//! The tokens of Rust code, as coarse as the house rules need them, and which of them are tests.

use std::ops::Range;

use crate::code::is_word;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Token<'a> {
    pub(crate) text: &'a str,
    /// From 0.
    pub(crate) line: usize,
}

impl Token<'_> {
    pub(crate) fn is_name(&self) -> bool {
        self.text.starts_with(|c: char| is_word(c) && !c.is_numeric())
    }
}

/// Punctuation of several characters that matters; all other is taken character by character.
const LONG: [&str; 4] = ["::", "->", "=>", ".."];

/// The tokens of code whose comments and literals are blanked. A literal is one token, `"`.
pub(crate) fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let (mut line, mut rest) = (0, code);
    while let Some(first) = rest.chars().next() {
        let length = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if first == '"' {
            rest[1..].find('"').map_or(rest.len(), |end| end + 2)
        } else if first == '\'' {
            // A lifetime: character literals are blanked.
            1 + rest[1..].find(|c| !is_word(c)).unwrap_or(rest.len() - 1)
        } else {
            LONG.iter()
                .find(|long| rest.starts_with(**long))
                .map_or(first.len_utf8(), |it| it.len())
        };
        let (text, after) = rest.split_at(length);
        if !first.is_whitespace() {
            found.push(Token { text: if first == '"' { "\"" } else { text }, line });
        }
        line += text.matches('\n').count();
        rest = after;
    }
    found
}

/// What of a file is only there for tests.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Tests {
    /// Lines, from 0.
    pub(crate) lines: Vec<Range<usize>>,
    /// Modules in files of their own: `#[cfg(test)] mod tests;`.
    pub(crate) modules: Vec<String>,
}

/// Finds the items that `#[cfg(test)]` and `#[test]` mark.
pub(crate) fn tests(tokens: &[Token<'_>]) -> Tests {
    let mut tests = Tests::default();
    let mut at = 0;
    while at < tokens.len() {
        let Some(attribute) = attribute(&tokens[at..]) else {
            at += 1;
            continue;
        };
        if !is_for_tests(&tokens[at..at + attribute]) {
            at += attribute;
            continue;
        }
        let is_whole_file = tokens[at + 1].text == "!";
        let length = if is_whole_file { tokens.len() - at } else { item(&tokens[at..]) };
        let item = &tokens[at..at + length];
        if let [.., Token { text: "mod", .. }, name, Token { text: ";", .. }] = item {
            tests.modules.push(name.text.to_owned());
        }
        tests.lines.push(tokens[at].line..item.last().map_or(0, |token| token.line + 1));
        at += length;
    }
    tests
}

/// How many tokens the attribute has that begins here, if one does.
fn attribute(tokens: &[Token<'_>]) -> Option<usize> {
    let open = match tokens {
        [Token { text: "#", .. }, Token { text: "[", .. }, ..] => 1,
        [Token { text: "#", .. }, Token { text: "!", .. }, Token { text: "[", .. }, ..] => 2,
        _ => return None,
    };
    Some(open + group(&tokens[open..]))
}

/// How many tokens there are from an opening bracket to the one that closes it.
pub(crate) fn group(tokens: &[Token<'_>]) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

fn is_for_tests(attribute: &[Token<'_>]) -> bool {
    let texts: Vec<&str> = attribute.iter().map(|token| token.text).collect();
    let start = texts.iter().position(|text| *text == "[").map_or(0, |open| open + 1);
    match &texts[start..] {
        ["cfg", "(", "test", ")", ..] | ["cfg", "(", "all", "(", "test", ..] => true,
        [path @ .., "]"] => path.last() == Some(&"test"),
        _ => false,
    }
}

/// How many tokens the item has that begins here, with its attributes.
fn item(tokens: &[Token<'_>]) -> usize {
    let mut at = 0;
    while let Some(length) = attribute(&tokens[at..]) {
        at += length;
    }
    let mut head = tokens[at..].iter().map(|token| token.text).skip_while(|text| {
        matches!(*text, "pub" | "(" | ")" | "crate" | "super" | "in" | "unsafe" | "async")
    });
    let (keyword, next) = (head.next().unwrap_or_default(), head.next().unwrap_or_default());
    let has_body = match keyword {
        "fn" | "mod" | "impl" | "struct" | "enum" | "trait" | "macro_rules" | "extern" => true,
        "const" => next == "fn",
        _ => false,
    };
    // Else a field, an arm or an element.
    let is_item = has_body || matches!(keyword, "use" | "const" | "static" | "type" | "let");
    while at < tokens.len() {
        match tokens[at].text {
            ";" => return at + 1,
            "," if !is_item => return at + 1,
            ")" | "]" | "}" => return at,
            open @ ("(" | "[" | "{") => {
                at += group(&tokens[at..]);
                if open == "{" && has_body {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first range of lines that is for tests.
    fn lines_of(code: &str) -> Range<usize> {
        super::tests(&tokens(code)).lines.first().cloned().unwrap_or_default()
    }

    #[test]
    fn code_is_cut_into_tokens() {
        let found = tokens("fn f<'a>(x: &'a a::B) -> \"  \" {\n0..9 }\n");
        let texts: Vec<&str> = found.iter().map(|token| token.text).collect();
        let expected = [
            "fn", "f", "<", "'a", ">", "(", "x", ":", "&", "'a", "a", "::", "B", ")", "->", "\"",
            "{", "0", "..", "9", "}",
        ];
        assert_eq!(texts, expected);
        assert_eq!(tokens("a\n\nb")[1].line, 2);
    }

    #[test]
    fn tests_are_found_whatever_they_mark() {
        assert_eq!(lines_of("a();\n#[cfg(test)]\nmod tests {\n    b();\n}\nc();\n"), 1..5);
        assert_eq!(lines_of("#[cfg(test)]\nuse a::{b, c};\nuse d;\n"), 0..2);
        assert_eq!(lines_of("#[test]\n#[ignore = \"\"]\nfn f(a: A, b: B) {\n}\nfn g() {}\n"), 0..4);
        assert_eq!(lines_of("struct A {\n#[cfg(test)]\npub x: u8,\ny: u8,\n}\n"), 1..3);
        assert_eq!(lines_of("#![cfg(test)]\n\nuse a;\n"), 0..3);
        assert!(
            lines_of("#[cfg(feature = \"test\")]\nuse a;\n#[derive(A)]\nstruct B;\n").is_empty()
        );
    }

    #[test]
    fn a_test_module_in_its_own_file_is_named() {
        let code = "#[cfg(test)]\npub(crate) mod pretend;\nmod real;\n";
        assert_eq!(super::tests(&tokens(code)).modules, ["pretend"]);
    }
}
