//! The tables that a type reads, with their keys: found by asking its parser for a key that no table has.

use std::collections::VecDeque;

/// No table has this key.
const NO_KEY: &str = "no_such_key_0";

/// Tables further down are not looked at.
const DEEPEST: usize = 4;

/// Levels below a table in which a key may belong that was written in it.
const BELOW: usize = 2;

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

    /// The tables that know a key, the nearest first: those below `from`, down to two levels; if there are none, the
    /// nearest to the top of the file.
    pub(super) fn with_key(key: &str, from: &[String], parse: Parser<'_>) -> Vec<Self> {
        let below = Self::find(from, parse).filter(|_| !from.is_empty());
        let below = below.map_or_else(Vec::new, |it| it.knowing(key, BELOW, parse));
        if !below.is_empty() {
            return below;
        }
        let mut all = Self::top(parse).knowing(key, DEEPEST, parse);
        let nearest = all.first().map_or(0, |it| it.path.len());
        all.retain(|it| it.path.len() == nearest);
        all
    }

    /// The tables that know a key: this one, those in it, and so on for some levels.
    fn knowing(self, key: &str, levels: usize, parse: Parser<'_>) -> Vec<Self> {
        let deepest = (self.path.len() + levels).min(DEEPEST);
        let mut found: Vec<Self> = Vec::new();
        let mut waiting = VecDeque::from([self]);
        while let Some(table) = waiting.pop_front() {
            if table.path.len() < deepest {
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
        self.begins_like(keys) && self.path.len() > keys.len()
    }

    /// Whether the table with these keys is in it.
    pub(super) fn is_above(&self, keys: &[String]) -> bool {
        self.begins_like(keys) && self.path.len() < keys.len()
    }

    /// Whether its keys and these are the same, as far as both go.
    fn begins_like(&self, keys: &[String]) -> bool {
        self.path.iter().map(|(key, _)| key).zip(keys).all(|(own, key)| own == key)
    }

    pub(super) fn is_list(&self) -> bool {
        self.path.last().is_some_and(|(_, is_list)| *is_list)
    }
}

/// The keys of a table; nothing without such a table.
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

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its parser is asked")]
    struct File {
        site: Vec<Site>,
        scenario: Scenario,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its parser is asked")]
    struct Site {
        name: String,
        pool: Pool,
        scenario: Scenario,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its parser is asked")]
    struct Pool {
        min_on: String,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its parser is asked")]
    struct Scenario {
        policy: String,
        server: Pool,
    }

    fn with_key(key: &str, from: &[&str]) -> Vec<String> {
        let parse =
            |text: &str| toml::from_str::<File>(text).err().map(|it| it.message().to_owned());
        let from: Vec<String> = from.iter().map(|&key| key.to_owned()).collect();
        Known::with_key(key, &from, &parse).iter().map(Known::heading).collect()
    }

    #[test]
    fn a_key_is_looked_for_below_its_table_first() {
        assert_eq!(with_key("min_on", &["site"]), ["`[site.pool]`", "`[site.scenario.server]`"]);
        assert_eq!(with_key("policy", &["site"]), ["`[site.scenario]`"]);
        assert_eq!(with_key("name", &["scenario"]), ["`[[site]]`"]);
        assert_eq!(with_key("policy", &[]), ["`[scenario]`"]);
        assert_eq!(with_key("zebra", &["site"]), Vec::<String>::new());
    }

    #[test]
    fn a_list_of_tables_is_told_from_a_table() {
        let parse =
            |text: &str| toml::from_str::<File>(text).err().map(|it| it.message().to_owned());
        let is_list = |keys: &[&str]| {
            let keys: Vec<String> = keys.iter().map(|&key| key.to_owned()).collect();
            Known::find(&keys, &parse).map(|it| it.is_list())
        };
        assert_eq!(is_list(&["site"]), Some(true));
        assert_eq!(is_list(&["site", "pool"]), Some(false));
        assert_eq!(is_list(&["site", "name"]), None);
    }
}
