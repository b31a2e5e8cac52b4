//! What a file imports and defines, as it is written.

use std::collections::{BTreeMap, BTreeSet};

use crate::tokens::{Token, group, tokens};

/// A path in the code, `crate::a::b` or `super::c`, in a `use` or elsewhere.
#[derive(Debug, PartialEq)]
pub(super) struct Mention {
    /// The inline modules around it, outermost first.
    pub(super) within: Vec<String>,
    pub(super) path: Vec<String>,
    /// From 1.
    pub(super) line: usize,
}

/// A module of a file: the file itself, or an inline one.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Names {
    pub(super) defined: BTreeSet<String>,
    /// What `use` has brought in, and from where.
    pub(super) used: BTreeMap<String, Vec<String>>,
    /// Paths before `::*`.
    pub(super) globs: Vec<Vec<String>>,
}

#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) mentions: Vec<Mention>,
    /// By the inline modules: the file itself is `[]`.
    pub(super) modules: BTreeMap<Vec<String>, Names>,
}

/// Reads code without tests, comments and literals.
pub(super) fn read(code: &str) -> Written {
    let tokens = tokens(code);
    let mut reader = Reader { tokens: &tokens, within: Vec::new(), written: Written::default() };
    reader.written.modules.entry(Vec::new()).or_default();
    reader.read(0..tokens.len());
    reader.written
}

struct Reader<'a> {
    tokens: &'a [Token<'a>],
    within: Vec<String>,
    written: Written,
}

impl Reader<'_> {
    fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    fn is_name(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(Token::is_name)
    }

    fn names(&mut self) -> &mut Names {
        self.written.modules.entry(self.within.clone()).or_default()
    }

    fn read(&mut self, range: std::ops::Range<usize>) {
        let mut at = range.start;
        while at < range.end {
            at = match self.text(at) {
                "use" => self.uses(at + 1, &[]) + 1,
                "mod" if self.is_name(at + 1) && self.text(at + 2) == "{" => {
                    let end = at + 2 + group(&self.tokens[at + 2..]);
                    let name = self.text(at + 1).to_owned();
                    self.within.push(name);
                    self.names();
                    self.read(at + 3..end - 1);
                    self.within.pop();
                    end
                }
                "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union"
                    if self.is_name(at + 1) =>
                {
                    let name = self.text(at + 1).to_owned();
                    self.names().defined.insert(name);
                    at + 1
                }
                "macro_rules" => {
                    let name = self.text(at + 2).to_owned();
                    self.names().defined.insert(name);
                    at + 3
                }
                _ if self.begins_path(at) => self.path(at),
                _ => at + 1,
            };
        }
    }

    fn begins_path(&self, at: usize) -> bool {
        let before = at.checked_sub(1).map_or("", |before| self.text(before));
        let is_visibility = before == "in" && at > 2 && self.text(at - 3) == "pub";
        self.is_name(at)
            && self.text(at + 1) == "::"
            && !matches!(before, "::" | ".")
            && !is_visibility
    }

    /// Reads a path outside `use`, and returns where it ends.
    fn path(&mut self, start: usize) -> usize {
        let mut at = start;
        let mut path = vec![self.text(at).to_owned()];
        while self.text(at + 1) == "::" && self.is_name(at + 2) {
            at += 2;
            path.push(self.text(at).to_owned());
        }
        self.mention(path, start);
        at + 1
    }

    fn mention(&mut self, path: Vec<String>, at: usize) {
        let (within, line) = (self.within.clone(), self.tokens[at].line + 1);
        self.written.mentions.push(Mention { within, path, line });
    }

    /// Reads a tree of `use` below a path, and returns where it ends: at `;`, `,` or `}`.
    fn uses(&mut self, start: usize, above: &[String]) -> usize {
        let mut path = above.to_vec();
        let mut at = start;
        loop {
            match self.text(at) {
                "::" => at += 1,
                "{" => {
                    at += 1;
                    while !matches!(self.text(at), "}" | "") {
                        at = self.uses(at, &path);
                        at += usize::from(self.text(at) == ",");
                    }
                    return at + 1;
                }
                "*" => {
                    self.mention(path.clone(), at);
                    self.names().globs.push(path);
                    return at + 1;
                }
                // `a::{self}` is `a`.
                "self" if !path.is_empty() => at += 1,
                _ if self.is_name(at) && self.text(at) != "as" => {
                    path.push(self.text(at).to_owned());
                    at += 1;
                }
                _ => break,
            }
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if self.text(at) == "as" {
            self.text(at + 1).clone_into(&mut name);
            at += 2;
        }
        self.mention(path.clone(), start);
        self.names().used.insert(name, path);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(code: &str) -> Vec<String> {
        read(code).mentions.iter().map(|mention| mention.path.join("::")).collect()
    }

    #[test]
    fn trees_of_use_are_taken_apart() {
        let code = "use crate::{a, b::c, d::{self, E as F}, g::*};\npub(crate) use super::h::I;\n";
        let expected = ["crate::a", "crate::b::c", "crate::d", "crate::d::E", "crate::g"];
        assert_eq!(paths(code), [&expected[..], &["super::h::I"]].concat());
        let names = &read(code).modules[&Vec::new()];
        assert_eq!(names.used["F"].join("::"), "crate::d::E");
        assert_eq!(names.globs[0].join("::"), "crate::g");
        assert_eq!(names.used.len(), 5);
    }

    #[test]
    fn paths_outside_use_are_seen() {
        let code = "pub(in crate::z) fn f(x: &super::A) { crate::b::c::<D>(x.e::<F>()); ..G::H }";
        assert_eq!(paths(code), ["super::A", "crate::b::c", "G::H"]);
    }

    #[test]
    fn inline_modules_have_names_of_their_own() {
        let written = read("struct A;\nmod b {\n    use super::A;\n    fn c() {}\n}\nuse d::E;\n");
        let [inner, outer] = &written.mentions[..] else { panic!("{written:?}") };
        assert_eq!((inner.within.join("::"), inner.line), ("b".to_owned(), 3));
        assert_eq!((outer.within.len(), outer.line), (0, 6));
        assert!(written.modules[&vec!["b".to_owned()]].defined.contains("c"));
        assert!(written.modules[&Vec::new()].defined.contains("A"));
    }
}
