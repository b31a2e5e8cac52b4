//! What people read when the parser refuses a file: sentences, with the key's full path.

use super::GOOD;
use crate::config::Config;

/// Words of the parser that no user has to know.
const JARGON: [&str; 14] = [
    "invalid ",
    "unknown field",
    "unknown variant",
    "missing field",
    "untagged",
    "did not match",
    "expected",
    "struct ",
    "sequence",
    "usize",
    "u64",
    "u32",
    "f64",
    "i64",
];

/// Lines that are replaced in the file, those instead, the line that the error names, and how its message begins.
const CASES: &str = include_str!("wrong.txt");

#[test]
fn the_parser_speaks_in_sentences() {
    let cases: Vec<&str> = CASES.split("\n\n").collect();
    assert!(cases.len() > 80, "{}", cases.len());
    let mut others = Vec::new();
    for case in cases {
        let lines = |key: &str| -> String {
            let lines = case.lines().filter_map(|line| line.strip_prefix(key));
            lines.collect::<Vec<_>>().join("\n")
        };
        let (good, bad, wanted) = (lines("replace "), lines("by "), lines("line "));
        let (line, says) = wanted.split_once(": ").unwrap();
        assert_eq!(GOOD.matches(&good).count(), 1, "`{good}` is there once");
        let error = match Config::parse(&GOOD.replace(&good, &bad), "x.toml") {
            Err(error) => error.to_string(),
            Ok(_) => panic!("accepted: {bad}"),
        };
        let (place, message) = error.lines().next().unwrap().split_once(": ").unwrap();
        let is_right = place.starts_with(&format!("x.toml:{line}:")) && message.starts_with(says);
        // Words for programmers.
        let has_jargon = JARGON.iter().any(|word| message.contains(word));
        if !is_right || has_jargon {
            others.push(format!("{bad}: {error}\nwanted: {wanted}"));
        }
    }
    assert!(others.is_empty(), "{}", others.join("\n\n"));
}
