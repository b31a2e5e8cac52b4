//! References in style sheets: `url()`, `src()`, `@import` and `image-set()`.
//!
//! A tokenizer of our own for the part of CSS Syntax Level 3 that tells a reference from what only looks
//! like one: comments, strings, escapes, and `url` tokens.

use super::{Found, LinkKind};

/// Functions within functions, deeper than which no reference is looked for.
const DEEPEST: usize = 32;

/// Finds the references of a style sheet, or of the value of a `style` attribute.
pub fn links(sheet: &[u8]) -> Found {
    let mut found = Found::default();
    let mut sheet = Sheet { text: sheet, at: 0 };
    let mut state = State::default();
    while let Some(byte) = sheet.peek(0) {
        match byte {
            b'/' if sheet.peek(1) == Some(b'*') => sheet.skip_comment(),
            b'"' | b'\'' => {
                let text = sheet.string();
                if state.takes_string() {
                    add(&mut found, &text);
                }
                state.rule = Rule::Other;
            }
            b'@' => {
                sheet.at += 1;
                state.rule = match sheet.name().to_ascii_lowercase().as_slice() {
                    b"import" => Rule::Import,
                    b"namespace" => Rule::Namespace,
                    _ => Rule::Other,
                };
            }
            b'(' => {
                sheet.at += 1;
                state.open(Function::Other);
            }
            b')' => {
                sheet.at += 1;
                state.functions.pop();
            }
            b';' | b'{' | b'}' => {
                sheet.at += 1;
                state = State::default();
            }
            _ if sheet.starts_name() => {
                let name = sheet.name();
                if sheet.peek(0) == Some(b'(') {
                    sheet.at += 1;
                    function(&name, &mut sheet, &mut state, &mut found);
                }
            }
            _ => sheet.at += 1,
        }
    }
    found
}

fn function(name: &[u8], sheet: &mut Sheet<'_>, state: &mut State, found: &mut Found) {
    let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
    if is("url") {
        sheet.skip_space();
        if matches!(sheet.peek(0), Some(b'"' | b'\'')) {
            return state.open(Function::Url);
        }
        if let Some(reference) = sheet.bare_url()
            && state.rule != Rule::Namespace
        {
            add(found, &reference);
        }
        state.rule = Rule::Other;
    } else if is("src") {
        state.open(Function::Url);
    } else if is("image-set") || is("-webkit-image-set") {
        state.open(Function::ImageSet);
    } else {
        state.open(Function::Other);
    }
}

fn add(found: &mut Found, reference: &[u8]) {
    found.add(&String::from_utf8_lossy(reference), LinkKind::Part);
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Rule {
    #[default]
    Other,
    Import,
    Namespace,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Function {
    /// `url("..")` and `src("..")`.
    Url,
    /// Whose strings are references.
    ImageSet,
    /// `type("..")` and all others.
    Other,
}

/// What the tokens before the present one say.
#[derive(Default)]
struct State {
    rule: Rule,
    functions: Vec<Function>,
}

impl State {
    fn open(&mut self, function: Function) {
        if self.functions.len() < DEEPEST {
            self.functions.push(function);
        }
    }

    /// Whether a string is a reference here.
    fn takes_string(&self) -> bool {
        match self.functions.last() {
            Some(Function::Url) => self.rule != Rule::Namespace,
            Some(Function::ImageSet) => true,
            Some(Function::Other) => false,
            None => self.rule == Rule::Import,
        }
    }
}

struct Sheet<'a> {
    text: &'a [u8],
    at: usize,
}

impl Sheet<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    fn skip_space(&mut self) {
        while self.peek(0).is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn skip_comment(&mut self) {
        let rest = &self.text[self.at + 2..];
        let end = rest.windows(2).position(|pair| pair == b"*/");
        self.at = end.map_or(self.text.len(), |end| self.at + 2 + end + 2);
    }

    fn starts_name(&self) -> bool {
        match self.peek(0) {
            Some(b'\\') => self.peek(1).is_some_and(|byte| byte != b'\n'),
            Some(byte) => is_of_name(byte),
            None => false,
        }
    }

    /// A name from here on, its escapes undone. What a number begins counts as one: no function does.
    fn name(&mut self) -> Vec<u8> {
        let mut name = Vec::new();
        while let Some(byte) = self.peek(0) {
            if byte == b'\\' && self.peek(1).is_some_and(|next| next != b'\n') {
                self.at += 1;
                self.escape(&mut name);
            } else if is_of_name(byte) {
                name.push(byte);
                self.at += 1;
            } else {
                break;
            }
        }
        name
    }

    /// A string, from its opening quote on. An end of line ends a string that is not closed.
    fn string(&mut self) -> Vec<u8> {
        let quote = self.peek(0);
        self.at += 1;
        let mut text = Vec::new();
        while let Some(byte) = self.peek(0) {
            self.at += 1;
            match byte {
                _ if Some(byte) == quote => break,
                b'\n' => return Vec::new(),
                b'\\' if self.peek(0) == Some(b'\n') => self.at += 1,
                b'\\' if self.peek(0).is_none() => {}
                b'\\' => self.escape(&mut text),
                _ => text.push(byte),
            }
        }
        text
    }

    /// What stands between `url(` and `)` without quotes; `None` if it is not a URL.
    fn bare_url(&mut self) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        while let Some(byte) = self.peek(0) {
            self.at += 1;
            match byte {
                b')' => return Some(text),
                b'\\' if self.peek(0).is_some_and(|next| next != b'\n') => self.escape(&mut text),
                _ if byte.is_ascii_whitespace() => {
                    self.skip_space();
                    if self.peek(0).is_none_or(|next| next == b')') {
                        self.at += 1;
                        return Some(text);
                    }
                    break;
                }
                b'"' | b'\'' | b'(' | b'\\' => break,
                _ if byte.is_ascii_control() => break,
                _ => text.push(byte),
            }
        }
        if self.at >= self.text.len() {
            return (!text.is_empty()).then_some(text);
        }
        self.skip_bad_url();
        None
    }

    fn skip_bad_url(&mut self) {
        while let Some(byte) = self.peek(0) {
            self.at += 1;
            match byte {
                b')' => return,
                b'\\' => self.at += 1,
                _ => {}
            }
        }
    }

    /// What an escape stands for, from behind its backslash on.
    fn escape(&mut self, out: &mut Vec<u8>) {
        let digits = self.text[self.at..].iter().take(6).take_while(|it| it.is_ascii_hexdigit());
        let count = digits.count();
        if count == 0 {
            out.extend(self.peek(0));
            self.at += 1;
            return;
        }
        let digits = std::str::from_utf8(&self.text[self.at..self.at + count]).unwrap_or_default();
        let number = u32::from_str_radix(digits, 16).unwrap_or(0);
        let letter = char::from_u32(number).filter(|it| *it != '\0').unwrap_or('\u{fffd}');
        out.extend(letter.to_string().as_bytes());
        self.at += count;
        if self.peek(0).is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || !byte.is_ascii()
}
