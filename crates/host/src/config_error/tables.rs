//! The tables that a type reads, with their keys: found by asking its parser for a key that no table has.

use std::collections::VecDeque;

/// No table has this key.
const NO_KEY: &str = "no_such_key_0";

/// Tables further down are not looked at.
const DEEPEST: usize = 4;

/// Parses a text, and returns the message of the error if there is one.
pub(super) type Parser<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A table, with its keys.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// Keys from the top of the file, each with whether it is a list of tables.
    path: Vec<(String, bool)>,
    keys: Vec<String>,
}

impl Known {
    /// The table at the top of the file.
    fn top(parse: Parser<'_>) -> Self {
        let keys = keys_of(parse, &[]).unwrap_or_default();
        Self { path: Vec::new(), keys }
    }

    /// The table or list of tables of a key in this one.
    pub(super) fn within(&self, key: &str, parse: Parser<'_>) -> Option<Self> {
        [false, true].into_iter().find_map(|is_list| {
            let mut path = self.path.clone();
            path.push((key.to_owned(), is_list));
            let keys = keys_of(parse, &path)?;
            Some(Self { path, keys })
        })
    }

    /// The table with these keys from the top of the file.
    pub(super) fn find(keys: &[String], parse: Parser<'_>) -> Option<Self> {
        keys.iter().try_fold(Self::top(parse), |table, key| table.within(key, parse))
    }

    /// The tables that know a key. If a table below `from` does, only those; the nearest to `from` or to the top of the
    /// file, which may be several.
    pub(super) fn with_key(key: &str, from: &[String], parse: Parser<'_>) -> Vec<Self> {
        let below = Self::find(from, parse).map_or_else(Vec::new, |it| it.nearest(key, parse));
        if below.is_empty() { Self::top(parse).nearest(key, parse) } else { below }
    }

    /// The tables that know a key, as near as there is one: in this table, in those in it, and so on.
    fn nearest(self, key: &str, parse: Parser<'_>) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        let mut waiting = VecDeque::from([self]);
        while let Some(table) = waiting.pop_front() {
            if found.first().is_some_and(|it| it.path.len() < table.path.len()) {
                break;
            }
            if table.path.len() < DEEPEST {
                waiting.extend(table.keys.iter().filter_map(|key| table.within(key, parse)));
            }
            if table.keys.iter().any(|known| known == key) {
                found.push(table);
            }
        }
        found
    }

    /// The table, as its heading is written.
    pub(super) fn heading(&self) -> String {
        let path: Vec<&str> = self.path.iter().map(|(key, _)| key.as_str()).collect();
        let path = path.join(".");
        match self.path.last() {
            None => "the first lines, before any `[table]`".to_owned(),
            Some((_, true)) => format!("`[[{path}]]`"),
            Some((_, false)) => format!("`[{path}]`"),
        }
    }

    /// Whether it is in the table with these keys.
    pub(super) fn is_below(&self, keys: &[String]) -> bool {
        let begins = self.path.iter().map(|(key, _)| key).zip(keys).all(|(own, key)| own == key);
        begins && self.path.len() > keys.len()
    }

    pub(super) fn is_list(&self) -> bool {
        self.path.last().is_some_and(|(_, is_list)| *is_list)
    }
}

/// The keys of a table; nothing if there is none.
fn keys_of(parse: Parser<'_>, path: &[(String, bool)]) -> Option<Vec<String>> {
    let table = path.iter().rev().fold(format!("{NO_KEY} = 0"), |inner, (key, is_list)| {
        if *is_list {
            format!("{key:?} = [{{ {inner} }}]")
        } else {
            format!("{key:?} = {{ {inner} }}")
        }
    });
    let message = parse(&table)?;
    let (_, listed) = message.split_once(&format!("unknown field `{NO_KEY}`, expected "))?;
    Some(listed.split('`').skip(1).step_by(2).map(str::to_owned).collect())
}
