//! Functions that take a tuple: often arguments that have nothing to do with each other, bundled to be fewer.
//!
//! What counts is a `fn` outside tests with a parameter whose type is a tuple of two or more, or whose pattern is one.
//! References, `Option` and names of types (`type Pair = (A, B)`) do not hide it. A tuple inside another type
//! (`&[(A, B)]`, `impl Fn((A, B))`) does not count, nor do closures.

use std::collections::BTreeSet;

use crate::imports::Crates;
use crate::sources::Source;
use crate::tokens::{Token, group, tokens};

/// Whether a path in the code means a tuple by another name.
type IsAlias<'a> = dyn Fn(&[String]) -> bool + 'a;

/// Names of tuples: each with the file that defines it.
pub(super) struct Aliases<'a> {
    crates: &'a Crates<'a>,
    found: BTreeSet<(&'a str, String)>,
}

impl<'a> Aliases<'a> {
    pub(super) fn of(crates: &'a Crates<'a>, sources: &'a [Source]) -> Self {
        let mut aliases = Self { crates, found: BTreeSet::new() };
        let with_names = sources.iter().filter(|it| !it.is_test && it.code.contains("type "));
        let with_names: Vec<_> = with_names.map(|it| (it, tokens(&it.code))).collect();
        // A name may stand for another one, which is found first.
        let mut known = usize::MAX;
        while known != aliases.found.len() {
            known = aliases.found.len();
            for (source, tokens) in &with_names {
                let is_alias = |path: &[String]| aliases.has(source, path);
                let names: Vec<_> = named_tuples(tokens, &is_alias).map(str::to_owned).collect();
                aliases.found.extend(names.into_iter().map(|name| (source.path.as_str(), name)));
            }
        }
        aliases
    }

    /// Whether a path at the top of a file means a tuple.
    pub(super) fn has(&self, source: &Source, path: &[String]) -> bool {
        let own = path.last().filter(|_| path.len() == 1);
        let is_own = own.is_some_and(|name| self.names(&source.path, name));
        let definition = || self.crates.definition(source, path);
        is_own || definition().is_some_and(|(file, name)| self.names(&file.path, &name))
    }

    fn names(&self, path: &str, name: &str) -> bool {
        self.found.iter().any(|(file, found)| *file == path && found == name)
    }
}

/// The names that this code gives to tuples: `type Pair = (A, B);`.
fn named_tuples<'t>(
    tokens: &'t [Token<'_>],
    is_alias: &'t IsAlias<'_>,
) -> impl Iterator<Item = &'t str> {
    let kinds = tokens.iter().enumerate().filter(|(_, token)| token.text == "type");
    kinds.filter_map(move |(at, _)| {
        let rest = &tokens[at + 1..];
        let end = rest.iter().position(|token| token.text == ";")?;
        let begin = rest[..end].iter().position(|token| token.text == "=")?;
        is_tuple_type(&rest[begin + 1..end], is_alias).then_some(rest[0].text)
    })
}

/// A function with such a parameter.
#[derive(Debug, PartialEq)]
pub(super) struct Bundler {
    pub(super) name: String,
    /// From 1.
    pub(super) line: usize,
}

/// Finds them in code without tests, comments and literals.
pub(super) fn bundlers(code: &str, is_alias: &IsAlias<'_>) -> Vec<Bundler> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        let [Token { text: "fn", .. }, name] = pair else { continue };
        let Some(parameters) = parameters(&tokens[at + 2..]).filter(|_| name.is_name()) else {
            continue;
        };
        if split(parameters).any(|parameter| is_tuple(parameter, is_alias)) {
            found.push(Bundler { name: name.text.to_owned(), line: name.line + 1 });
        }
    }
    found
}

/// What is in a function's brackets, from what follows its name.
fn parameters<'a, 't>(tokens: &'a [Token<'t>]) -> Option<&'a [Token<'t>]> {
    let mut depth = 0_i32;
    let open = tokens.iter().position(|token| {
        depth += angle(token);
        depth == 0 && token.text != ">"
    })?;
    let inside = group(&tokens[open..]);
    (tokens[open].text == "(").then(|| &tokens[open + 1..open + inside - 1])
}

fn angle(token: &Token<'_>) -> i32 {
    match token.text {
        "<" => 1,
        ">" => -1,
        _ => 0,
    }
}

/// The parts between commas that are in no brackets.
fn split<'a, 't>(tokens: &'a [Token<'t>]) -> impl Iterator<Item = &'a [Token<'t>]> {
    let mut depth = 0_i32;
    tokens.split(move |token| {
        depth += angle(token);
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        depth == 0 && token.text == ","
    })
}

fn is_tuple(parameter: &[Token<'_>], is_alias: &IsAlias<'_>) -> bool {
    let mut at = 0;
    while parameter.get(at).is_some_and(|token| token.text == "#") {
        at += 1 + group(&parameter[at + 1..]);
    }
    let mut depth = 0;
    let colon = parameter[at..].iter().position(|token| {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        depth == 0 && token.text == ":"
    });
    // Else `self`.
    let Some(colon) = colon else { return false };
    let (pattern, kind) = (&parameter[at..at + colon], &parameter[at + colon + 1..]);
    pattern.first().is_some_and(|token| token.text == "(") || is_tuple_type(kind, is_alias)
}

fn is_tuple_type(kind: &[Token<'_>], is_alias: &IsAlias<'_>) -> bool {
    let is_reference =
        |token: &&Token<'_>| matches!(token.text, "&" | "mut") || token.text.starts_with('\'');
    let kind = &kind[kind.iter().take_while(is_reference).count()..];
    if kind.first().is_some_and(|token| token.text == "(") {
        let parts = || split(&kind[1..kind.len() - 1]).filter(|part| !part.is_empty());
        return group(kind) == kind.len() && parts().count() > 1;
    }
    let end = kind.iter().position(|token| token.text == "<").unwrap_or(kind.len());
    let (path, arguments) = kind.split_at(end);
    let is_path = path.iter().all(|token| token.is_name() || token.text == "::");
    let names = path.iter().filter(|token| token.is_name()).map(|token| token.text.to_owned());
    let names: Vec<String> = names.collect();
    match (names.last().map(String::as_str), arguments) {
        (Some("Option"), [_, inside @ .., _]) => {
            split(inside).next().is_some_and(|inside| is_tuple_type(inside, is_alias))
        }
        (Some(_), _) => is_path && is_alias(&names),
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::{File, sources};

    fn count(code: &str) -> usize {
        bundlers(code, &|_| false).len()
    }

    #[test]
    fn tuples_as_parameters_are_found() {
        assert_eq!(count("fn f((a, b): (A, B)) {}"), 1);
        assert_eq!(count("fn f(x: u8, at: (&str, Vec<(A, B)>), y: u8) {}"), 1);
        assert_eq!(count("pub(crate) async fn f<F: Fn(A) -> B>(&self, at: &'a mut (A, B)) {}"), 1);
        assert_eq!(count("trait T { fn f(self, #[x] p: (A, B), q: (C, D)) -> E; }"), 1);
        assert_eq!(count("fn f((a, b): Pair) {}"), 1);
        let code = "\nfn first(a: A) {}\nfn second(\n    a: (A, B),\n) {}\n";
        let found = bundlers(code, &|_| false);
        assert_eq!(found, [Bundler { name: "second".to_owned(), line: 3 }]);
    }

    #[test]
    fn tuples_elsewhere_are_none() {
        assert_eq!(count("fn f(x: &[(A, B)], y: Vec<(A, B)>) -> (A, B) { |(a, b)| a }"), 0);
        assert_eq!(count("fn f(g: impl Fn((A, B)) -> C, h: fn((A, B)), unit: ()) {}"), 0);
        assert_eq!(count("fn f(x: &(dyn A + Send), Point(a, b): Point, [c, d]: [u8; 2]) {}"), 0);
        assert_eq!(count("fn f<const N: usize, T: Into<(A, B)>>(self, x: HashMap<A, B>) {}"), 0);
    }
    #[test]
    fn an_option_hides_no_tuple() {
        assert_eq!(count("fn f(x: Option<(A, B)>) {}"), 1);
        assert_eq!(count("fn f(x: Option<&'a (A, Vec<B>)>) {}"), 1);
        assert_eq!(count("fn f(x: &mut std::option::Option<Option<(A, B)>>) {}"), 1);
        assert_eq!(count("fn f(x: Option<A>, y: Option<Vec<(A, B)>>, z: Option<()>) {}"), 0);
        assert_eq!(count("fn f(x: Option<[(A, B); 2]>, y: Result<(A, B), E>) {}"), 0);
    }

    #[test]
    fn a_name_hides_no_tuple() {
        let file = |(path, text): (&str, &str)| File { path: path.into(), text: text.into() };
        let files = [
            ("crates/a/src/lib.rs", "pub mod b;\nmod c;\npub type One<'a> = (&'a str, u8);\n"),
            ("crates/a/src/b.rs", "pub type Pair = (A, B);\npub type Other = Option<Pair>;\n"),
            (
                "crates/a/src/c.rs",
                "use super::b::{self, Other, Pair as P};\nstruct Pair;\ntype Unit = ();\n\
                 fn f(x: P) {}\nfn g(x: &b::Pair) {}\nfn h(x: Other) {}\nfn i(x: Pair) {}\n\
                 fn j(x: Vec<P>) {}\nfn k(x: Unit) {}\nfn l(x: crate::One<'_>) {}\n",
            ),
            ("crates/z/src/lib.rs", "use nightwatt_a::b::Pair;\nfn m(x: Option<&Pair>) {}\n"),
        ];
        let sources = sources(&files.map(file));
        let crates = Crates::read(&sources);
        let aliases = Aliases::of(&crates, &sources);
        let bundlers = sources.iter().flat_map(|source| {
            bundlers(&source.code, &|path: &[String]| aliases.has(source, path))
        });
        let names: Vec<String> = bundlers.map(|bundler| bundler.name).collect();
        assert_eq!(names, ["f", "g", "h", "l", "m"]);
    }
}
