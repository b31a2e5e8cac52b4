//! Functions that take a tuple: often arguments that have nothing to do with each other, bundled to be fewer.
//!
//! What counts is a `fn` outside tests with a parameter whose type is a tuple of two or more, or a reference to one, or
//! whose pattern is a tuple. A tuple inside another type (`&[(A, B)]`, `impl Fn((A, B))`) does not, nor do closures.

use crate::tokens::{Token, group, tokens};

/// A function with such a parameter.
#[derive(Debug, PartialEq)]
pub(super) struct Bundler {
    pub(super) name: String,
    /// From 1.
    pub(super) line: usize,
}

/// Finds them in code without tests, comments and literals.
pub(super) fn bundlers(code: &str) -> Vec<Bundler> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        let [Token { text: "fn", .. }, name] = pair else { continue };
        let Some(parameters) = parameters(&tokens[at + 2..]).filter(|_| name.is_name()) else {
            continue;
        };
        if split(parameters).any(is_tuple) {
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

fn is_tuple(parameter: &[Token<'_>]) -> bool {
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
    pattern.first().is_some_and(|token| token.text == "(") || is_tuple_type(kind)
}

fn is_tuple_type(kind: &[Token<'_>]) -> bool {
    let is_reference =
        |token: &&Token<'_>| matches!(token.text, "&" | "mut") || token.text.starts_with('\'');
    let kind = &kind[kind.iter().take_while(is_reference).count()..];
    let is_whole = kind.first().is_some_and(|token| token.text == "(") && group(kind) == kind.len();
    is_whole && split(&kind[1..kind.len() - 1]).filter(|part| !part.is_empty()).count() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(code: &str) -> usize {
        bundlers(code).len()
    }

    #[test]
    fn tuples_as_parameters_are_found() {
        assert_eq!(count("fn f((a, b): (A, B)) {}"), 1);
        assert_eq!(count("fn f(x: u8, at: (&str, Vec<(A, B)>), y: u8) {}"), 1);
        assert_eq!(count("pub(crate) async fn f<F: Fn(A) -> B>(&self, at: &'a mut (A, B)) {}"), 1);
        assert_eq!(count("trait T { fn f(self, #[x] p: (A, B), q: (C, D)) -> E; }"), 1);
        assert_eq!(count("fn f((a, b): Pair) {}"), 1);
        let found = bundlers("\nfn first(a: A) {}\nfn second(\n    a: (A, B),\n) {}\n");
        assert_eq!(found, [Bundler { name: "second".to_owned(), line: 3 }]);
    }

    #[test]
    fn tuples_elsewhere_are_none() {
        assert_eq!(count("fn f(x: &[(A, B)], y: Option<(A, B)>) -> (A, B) { |(a, b)| a }"), 0);
        assert_eq!(count("fn f(g: impl Fn((A, B)) -> C, h: fn((A, B)), unit: ()) {}"), 0);
        assert_eq!(count("fn f(x: &(dyn A + Send), Point(a, b): Point, [c, d]: [u8; 2]) {}"), 0);
        assert_eq!(count("fn f<const N: usize, T: Into<(A, B)>>(self, x: HashMap<A, B>) {}"), 0);
    }
}
