//! What is wrong with a configuration file: the place, the line, and a mark under it.

mod logins;
mod parser;
mod place;
mod tables;

use std::ops::Range;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("{place}: {message}{excerpt}")]
    Invalid {
        /// File, line and column: `nightwatt.toml:7:3`.
        place: String,
        /// What is wrong, and what would be right.
        message: String,
        /// The line, with a mark under the place; starts with a line break.
        excerpt: String,
    },
}

impl ConfigError {
    /// An error of the parser in a file of this name and text, which was to be read as a `T`.
    pub fn syntax<T: DeserializeOwned>(name: &str, text: &str, error: &toml::de::Error) -> Self {
        let parse = |text: &str| toml::from_str::<T>(text).err().map(|it| it.message().to_owned());
        let message = parser::explain(text, error.message(), error.span().as_ref(), &parse);
        Self::at(name, text, error.span(), &message)
    }

    /// A value that has the right type and is wrong: looks for the line of its `key`, which names tables
    /// with dots and elements of arrays by their number: `site.1.scenario.server.on_w`.
    pub fn value(name: &str, text: &str, key: &str, message: String) -> Self {
        // An empty value does not show which key it is of.
        let message = match message.strip_prefix("``") {
            Some(_) => format!("`{}`: {message}", without_numbers(key)),
            None => with_full_key(message, text, key),
        };
        Self::at(name, text, find_key(text, key), &message)
    }

    /// As [`value`](Self::value), for two values that do not go together: shows the line of the other as
    /// well.
    pub fn clash(name: &str, text: &str, [key, other]: &[String; 2], message: String) -> Self {
        let mut error = Self::value(name, text, key, message);
        if let Self::Invalid { excerpt, .. } = &mut error
            && let Some((.., shown)) = find_key(text, other).and_then(|span| shown(text, span))
        {
            excerpt.push_str(&shown);
        }
        error
    }

    fn at(name: &str, text: &str, span: Option<Range<usize>>, message: &str) -> Self {
        let message = logins::hide(message);
        match span.and_then(|span| shown(text, span)) {
            Some((line, column, excerpt)) => {
                Self::Invalid { place: format!("{name}:{line}:{column}"), message, excerpt }
            }
            None => Self::Invalid { place: name.to_owned(), message, excerpt: String::new() },
        }
    }
}

/// The key as users write it: `site.name` for `site.1.name`.
fn without_numbers(key: &str) -> String {
    let parts = key.split('.').filter(|part| part.parse::<usize>().is_err());
    parts.collect::<Vec<_>>().join(".")
}

/// The message, which may begin with the last words of the key, with all of them and the name of the table that it is
/// in: `` `site.scenario.sla.share` of site `wiki` is 10 ``.
fn with_full_key(message: String, text: &str, key: &str) -> String {
    let full = without_numbers(key);
    let begin = message.strip_prefix('`').and_then(|rest| rest.split_once('`'));
    match begin {
        Some((short, rest)) if full == short || full.ends_with(&format!(".{short}")) => {
            let of = table_name(text, key).map_or_else(String::new, |name| format!(" of {name}"));
            format!("`{full}`{of}{rest}")
        }
        _ => message,
    }
}

/// The name of a table that is one of several: ``site `wiki` `` for `site.1.name`.
fn table_name(text: &str, key: &str) -> Option<String> {
    let mut parts = key.split('.');
    let (list, index) = (parts.next()?, parts.next()?.parse::<usize>().ok()?);
    let file: toml::Table = text.parse().ok()?;
    let tables = file.get(list)?.as_array().filter(|it| it.len() > 1)?;
    let name = tables.get(index)?.get("name")?.as_str()?;
    Some(format!("{list} `{name}`"))
}

/// Line and column of a place, and the line itself with a mark under it, after a line break. Passwords in addresses are
/// not shown.
fn shown(text: &str, span: Range<usize>) -> Option<(usize, usize, String)> {
    let before = text.get(..span.start)?;
    let line = before.matches('\n').count() + 1;
    let column = before.len() - before.rfind('\n').map_or(0, |at| at + 1);
    let shown = text.lines().nth(line - 1).unwrap_or_default();
    let indent = " ".repeat(line.to_string().len());
    let marks = span.len().clamp(1, shown.len().saturating_sub(column).max(1));
    let [first, end] = [column, column + marks].map(|it| logins::column(shown, it));
    let excerpt = format!(
        "\n{indent} |\n{line} | {}\n{indent} | {}{}",
        logins::hide(shown),
        " ".repeat(first),
        "^".repeat(end.saturating_sub(first).max(1))
    );
    Some((line, column + 1, excerpt))
}

/// Where a value is: `key` names it with dots, and elements of an array by their number, as in
/// `site.1.scenario.server.on_w`. If it is not there, as far as there is something.
fn find_key(text: &str, key: &str) -> Option<Range<usize>> {
    let table = DeTable::parse(text).ok()?;
    let mut found = None;
    let mut current: Option<&DeValue<'_>> = None;
    for part in key.split('.') {
        let (place, value) = match current {
            None => entry(table.get_ref(), part)?,
            Some(DeValue::Table(table)) => match entry(table, part) {
                Some(entry) => entry,
                None => break,
            },
            Some(DeValue::Array(array)) => {
                let element = array.get(part.parse::<usize>().ok()?)?;
                (element.span(), element)
            }
            Some(_) => break,
        };
        found = Some(place);
        current = Some(value.get_ref());
    }
    found
}

/// A table's entry, with the place from its key to the end of its value (if that is on one line).
fn entry<'a, 'i>(
    table: &'a DeTable<'i>,
    key: &str,
) -> Option<(Range<usize>, &'a Spanned<DeValue<'i>>)> {
    let (key, value) = table.get_key_value(key)?;
    Some((key.span().start..value.span().end.max(key.span().end), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"a\"\n\n[[site]]\nport = 1\n[[site]]\nport = 70000\n";

    #[test]
    fn a_wrong_value_is_shown_with_its_line_and_a_mark() {
        let error = ConfigError::value("x.toml", TEXT, "site.1.port", "too large".to_owned());
        let expected = "x.toml:6:1: too large\n  |\n6 | port = 70000\n  | ^^^^^^^^^^^^";
        assert_eq!(error.to_string(), expected);
        // What is not there is looked for as far as there is something.
        let error = ConfigError::value("x.toml", TEXT, "site.0.host", "missing".to_owned());
        assert!(error.to_string().starts_with("x.toml:3:1: missing"), "{error}");
    }

    #[test]
    fn two_values_that_do_not_go_together_are_both_shown() {
        let keys = ["site.0.port", "site.1.port"].map(str::to_owned);
        let error = ConfigError::clash("x.toml", TEXT, &keys, "one is enough".to_owned());
        let text = error.to_string();
        assert!(text.contains("4 | port = 1") && text.contains("6 | port = 70000"), "{text}");
    }

    #[test]
    fn a_password_in_an_address_is_neither_in_the_message_nor_in_the_line() {
        let text = "url = \"http://me:secret@nas\" # read by all\n";
        let message = "`http://me:secret@nas` is no address".to_owned();
        let error = ConfigError::value("x.toml", text, "url", message).to_string();
        let expected = "x.toml:1:1: `http://...@nas` is no address\n  |\n1 | url = \"http://...@nas\" # read by \
                        all\n  | ^^^^^^^^^^^^^^^^^^^^^^";
        assert_eq!(error, expected);
    }

    #[test]
    fn a_key_has_its_full_name_and_one_of_several_tables_its_own() {
        let said = |text: &str, key: &str, message: &str| {
            let error = ConfigError::value("x.toml", text, key, message.to_owned()).to_string();
            error.lines().next().unwrap_or_default().split_once(": ").unwrap().1.to_owned()
        };
        let two = "[[site]]\nname = \"blog\"\n[[site]]\nname = \"wiki\"\nsla.share = 10\n";
        let message = "`sla.share` is 10, but a share must lie between 0 and 1";
        assert_eq!(
            said(two, "site.1.sla.share", message),
            "`site.sla.share` of site `wiki` is 10, but a share must lie between 0 and 1"
        );
        let one = "[[site]]\nname = \"wiki\"\nsla.share = 10\n";
        assert!(said(one, "site.0.sla.share", message).starts_with("`site.sla.share` is 10"));
        // What is not the key stays.
        assert_eq!(said(two, "site.1.name", "`wiki` is long"), "`wiki` is long");
        assert_eq!(said(two, "site.1.sla.share", "`share_` is 10"), "`share_` is 10");
    }

    #[test]
    fn words_before_those_of_the_parser_stay() {
        let text = "[[environment]]\nname = \"a\"\nimag = \"x\"\n";
        let span = text.find("[[").map(|at| at..at + 15);
        let said = |message: &str| parser::explain(text, message, span.as_ref(), &|_| None);
        assert_eq!(
            said(
                "environment `a`: `lxc`: unknown field `imag`, expected `image` or `within` (or `pin`, as for all)"
            ),
            "environment `a`: `lxc`: unknown key `environment.imag`: did you mean `image`? Known here: `image`, \
             `within` (or `pin`, as for all)"
        );
        assert_eq!(
            said("environment `a`: invalid type: integer `5`, expected a string"),
            "environment `a`: a value of `environment` is `5`, but must be text in quotes"
        );
    }

    #[test]
    fn an_error_of_the_parser_has_its_place() {
        let error = toml::from_str::<toml::Table>("a = \n").unwrap_err();
        let error = ConfigError::syntax::<toml::Table>("x.toml", "a = \n", &error).to_string();
        assert!(error.starts_with("x.toml:1:"), "{error}");
    }
}
