//! Outputs as errors quote them.

use crate::output::Output;

/// So many characters of an output are quoted in an error.
const QUOTED: usize = 100;

/// The last line of the errors that says something, else of the output: what a person would look at.
pub(crate) fn last_words(output: &Output<'_>) -> String {
    let last =
        |text: &str| text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(short);
    last(output.stderr).or_else(|| last(output.stdout)).unwrap_or_default()
}

/// The beginning of a text, safe to print.
pub(crate) fn short(text: &str) -> String {
    let text = text.trim();
    let mut short: String =
        text.chars().take(QUOTED).map(|it| if it.is_control() { ' ' } else { it }).collect();
    if text.chars().nth(QUOTED).is_some() {
        short.push_str("..");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_short_and_harmless() {
        assert_eq!(short(" a\x07b "), "a b");
        assert_eq!(short(&"ä".repeat(101)).chars().count(), 102);
        let output = Output { stdout: "out\n\n", stderr: "first\nlast\n \n", files: &[] };
        assert_eq!(last_words(&output), "last");
        assert_eq!(last_words(&Output::of("out\n\n")), "out");
    }
}
