//! Lines of a plan, and the placeholders in them.
//!
//! `{threads}` is the value of a factor; `{address}`, `{port:5432}`, `{copy}`, `{scratch}` and
//! `{environment}` are what they are where the line is run. `{{word}}` is `{word}` itself; braces around
//! anything else (`${HOME}`, `{ a; b; }`, `{print $1}`) are the shell's.

use std::fmt::Write as _;

/// Names that factors cannot have: placeholders of our own, and `compare`'s other axis.
pub(crate) const RESERVED: [&str; 5] = ["address", "copy", "environment", "port", "scratch"];

/// What may stand in braces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names<'a> {
    /// Factors that apply.
    pub(crate) factors: &'a [&'a str],
}

/// What stands for placeholders, where a line is run.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    /// Of factors.
    pub(crate) levels: &'a [(&'a str, &'a str)],
    /// By which a server in the environment is reached from where the line is run.
    pub(crate) address: &'a str,
    /// What a port of the plan is there.
    pub(crate) port: &'a dyn Fn(u16) -> u16,
    /// From 0.
    pub(crate) copy: u32,
    /// A folder in the environment.
    pub(crate) scratch: &'a str,
    /// Its name.
    pub(crate) environment: &'a str,
}

/// A word in braces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Placeholder<'a> {
    Word(&'a str),
    Port(u16),
}

/// A piece of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    /// And as it is written.
    Placeholder(Placeholder<'a>, &'a str),
}

/// A lower-case word: letters, digits, `_` and `-`, from a letter on.
pub(crate) fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase())
        && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c))
}

fn placeholder(inside: &str) -> Option<Placeholder<'_>> {
    match inside.split_once(':') {
        // An invalid port becomes an unknown word, which is then reported.
        Some(("port", number)) => {
            let port = number.parse().ok().filter(|it| *it > 0);
            Some(port.map_or(Placeholder::Word(inside), Placeholder::Port))
        }
        Some(_) => None,
        None => is_name(inside).then_some(Placeholder::Word(inside)),
    }
}

/// The pieces of a line, in order.
fn pieces(line: &str) -> Vec<Piece<'_>> {
    let mut all = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(open) = line[at..].find('{').map(|open| at + open) {
        let rest = &line[open..];
        let Some(length) = rest.find('}').map(|end| end + 1) else { break };
        let is_shells = line[..open].ends_with('$');
        // Doubled: once of it stays.
        if !is_shells && rest.starts_with("{{") && rest[length..].starts_with('}') {
            all.push(Piece::Text(&line[from..open]));
            all.push(Piece::Text(&rest[1..length]));
            at = open + length + 1;
            from = at;
            continue;
        }
        match placeholder(&rest[1..length - 1]).filter(|_| !is_shells) {
            Some(found) => {
                all.push(Piece::Text(&line[from..open]));
                all.push(Piece::Placeholder(found, &rest[..length]));
                at = open + length;
                from = at;
            }
            // Another brace may open within these.
            None => at = open + 1,
        }
    }
    all.push(Piece::Text(&line[from..]));
    all
}

/// Are all placeholders known?
pub(crate) fn check(line: &str, names: &Names<'_>) -> Result<(), String> {
    for piece in pieces(line) {
        let Piece::Placeholder(Placeholder::Word(word), text) = piece else { continue };
        let is_known =
            word != "port" && (RESERVED.contains(&word) || names.factors.contains(&word));
        if !is_known {
            let mut known: Vec<String> =
                names.factors.iter().map(|it| format!("`{{{it}}}`")).collect();
            known.extend(
                ["address", "copy", "environment", "port:NUMBER", "scratch"]
                    .map(|it| format!("`{{{it}}}`")),
            );
            return Err(format!(
                "`{text}` stands for nothing here: there are {}; `{{{text}}}` is the text itself",
                known.join(", ")
            ));
        }
    }
    Ok(())
}

/// Does a line have the placeholder of this name?
pub(crate) fn has(line: &str, name: &str) -> bool {
    let is_it = |piece: &Piece<'_>| matches!(piece, Piece::Placeholder(Placeholder::Word(word), _) if *word == name);
    pieces(line).iter().any(is_it)
}

/// The ports that a line names.
pub(crate) fn ports(line: &str) -> Vec<u16> {
    let port = |piece: Piece<'_>| match piece {
        Piece::Placeholder(Placeholder::Port(port), _) => Some(port),
        Piece::Placeholder(Placeholder::Word(_), _) | Piece::Text(_) => None,
    };
    pieces(line).into_iter().filter_map(port).collect()
}

/// The line with what stands for its placeholders.
pub(crate) fn fill(line: &str, values: &Values<'_>) -> String {
    let mut filled = String::new();
    for piece in pieces(line) {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Placeholder(Placeholder::Port(port), _) => {
                // Writing to a string cannot fail.
                let _ = write!(filled, "{}", (values.port)(port));
            }
            Piece::Placeholder(Placeholder::Word(word), text) => match word {
                "address" => filled.push_str(values.address),
                "copy" => {
                    let _ = write!(filled, "{}", values.copy);
                }
                "scratch" => filled.push_str(values.scratch),
                "environment" => filled.push_str(values.environment),
                // A plan with any other was refused.
                _ => {
                    let level = values.levels.iter().find(|(name, _)| *name == word);
                    filled.push_str(level.map_or(text, |(_, value)| value));
                }
            },
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(line: &str) -> String {
        let values = Values {
            levels: &[("threads", "16")],
            address: "10.0.0.2",
            port: &|port| port + 1,
            copy: 2,
            scratch: "/scratch",
            environment: "host",
        };
        fill(line, &values)
    }

    #[test]
    fn placeholders_are_filled_and_what_is_the_shells_stays() {
        for (line, expected) in [
            ("pgbench -j {threads} -h {address}", "pgbench -j 16 -h 10.0.0.2"),
            ("-p {port:5432} {copy} {scratch}/x", "-p 5433 2 /scratch/x"),
            ("echo ${HOME} ${threads}", "echo ${HOME} ${threads}"),
            ("awk '{print $1}' {scratch}/a", "awk '{print $1}' /scratch/a"),
            ("{ a; b {threads}; }", "{ a; b 16; }"),
            ("awk '{{print}}' {{threads}}", "awk '{print}' {threads}"),
            ("{environment}{", "host{"),
            ("", ""),
        ] {
            assert_eq!(filled(line), expected, "{line}");
        }
    }

    #[test]
    fn a_placeholder_that_nobody_fills_is_refused_with_those_there_are() {
        let names = Names { factors: &["threads"] };
        assert_eq!(check("a {threads} {port:80} {copy} ${x} {{y}}", &names), Ok(()));
        let error = check("a {thread}", &names).unwrap_err();
        assert!(error.starts_with("`{thread}` stands for nothing here"), "{error}");
        assert!(error.contains("`{threads}`") && error.contains("`{{thread}}`"), "{error}");
        assert!(check("{port}", &names).is_err(), "a port has a number");
    }

    #[test]
    fn ports_are_found_where_they_are_placeholders() {
        assert_eq!(ports("x -p {port:80} {port:8080} {{port:9}} 7 {threads}"), [80, 8080]);
    }

    #[test]
    fn only_the_placeholder_itself_makes_a_line_have_it() {
        assert!(has("x {threads}", "threads"));
        assert!(!has("x {{threads}} ${threads} threads", "threads"));
    }
}
