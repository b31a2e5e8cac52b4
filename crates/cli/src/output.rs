//! Writes to stdout and stderr, whose readers may go away: `nightwatt demo | head` is not an error.

use std::borrow::Cow;
use std::io::{self, Write};

use nightwatt_energy::display;
use rustix::termios::tcgetwinsize;
use serde::Serialize;

use crate::errors::Failure;

/// Writes one or more lines to stdout. A reader that went away has read enough.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{}", printable(text.trim_end_matches('\n')))
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::because("cannot write the result", &error)
                .hint("is the disk full that stdout goes to?"))
        }
        _ => Ok(()),
    }
}

/// Writes one JSON object to stdout, in one line.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value)
        .map_err(|error| Failure::because("cannot write the result as JSON", &error))?;
    print(&text)
}

/// Writes a result to stdout, as JSON or in words, and its warnings to stderr.
pub(crate) fn print_result(
    result: &impl Serialize,
    json: bool,
    words: impl FnOnce() -> String,
    warnings: &[String],
) -> Result<(), Failure> {
    if json {
        print_json(result)?;
    } else {
        print(&words())?;
    }
    for warning in warnings {
        complain(&format!("warning: {warning}"));
    }
    Ok(())
}

/// Writes to stderr. If even that fails, the error cannot be reported anywhere. On a terminal, lines are no wider than it;
/// in a file or a pipe they stay whole, for programs that look for words.
pub(crate) fn complain(text: &str) {
    let text = match tcgetwinsize(io::stderr()) {
        Ok(size) if size.ws_col > 0 => {
            Cow::Owned(wrapped(text, usize::from(size.ws_col).clamp(NARROWEST, WIDEST)))
        }
        _ => Cow::Borrowed(text),
    };
    let _ = writeln!(io::stderr(), "{}", printable(&text));
}

/// The text with lines of at most `width` columns. Lines of a file that are shown stay whole, with the mark under them.
fn wrapped(text: &str, width: usize) -> String {
    let is_of_file = |line: &str| {
        let rest = line.trim_start().trim_start_matches(|it: char| it.is_ascii_digit());
        rest.trim_start().starts_with('|')
    };
    let wrapped = |line: &str| {
        if is_of_file(line) { line.to_owned() } else { nightwatt_report::folded(line, width) }
    };
    text.split('\n').map(wrapped).collect::<Vec<_>>().join("\n")
}

/// Lines are no wider than this, also on a wider terminal.
const WIDEST: usize = 80;

/// Lines are not made narrower than this.
const NARROWEST: usize = 40;

/// Text for people, whose lines are no wider than the terminal and than 80 columns.
pub(crate) fn folded(text: &str) -> String {
    let columns = tcgetwinsize(io::stdout()).or_else(|_| tcgetwinsize(io::stderr()));
    let columns = columns.map_or(WIDEST, |size| usize::from(size.ws_col));
    // A terminal that does not report its size reports 0.
    let columns = if columns == 0 { WIDEST } else { columns };
    nightwatt_report::folded(text, columns.clamp(NARROWEST, WIDEST))
}

/// Writes a result to stdout, as JSON or in words whose lines are folded, and its warnings to stderr.
pub(crate) fn print_folded(
    result: &impl Serialize,
    json: bool,
    words: impl FnOnce() -> String,
    warnings: &[String],
) -> Result<(), Failure> {
    print_result(result, json, || folded(&words()), &[])?;
    for warning in warnings {
        complain(&folded(&format!("warning: {warning}")));
    }
    Ok(())
}

/// Removes control characters: names come from files, devices and the command line, and must not control the terminal.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let steers = |c: char| display::steers(c) && c != '\n' && c != '\t';
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    text.chars().map(|c| if steers(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_wrapped_but_not_the_line_of_a_file_in_it() {
        let line = format!("12 | key = \"{}\"", "x ".repeat(30));
        let mark = format!("   | {}^^^", " ".repeat(40));
        let text =
            format!("error: a.toml:12:1: this is not a number\n   |\n{line}\n{mark}\nhint: no");
        let shown =
            format!("error: a.toml:12:1: this is not\n  a number\n   |\n{line}\n{mark}\nhint: no");
        assert_eq!(wrapped(&text, 32), shown);
    }
}
