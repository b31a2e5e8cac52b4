//! `docs/configuration.md` beside the configuration: every key is there, and no key that would be refused.
//!
//! There is no list of the keys: a table that gets one it does not know says which ones it knows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::super::Config;

/// The keys of a meter. It refuses none, since any other is an option of its driver.
const METER: [&str; 4] = ["driver", "address", "every", "pick"];

/// The file itself, which is the first of all tables.
const FILE: usize = 0;

/// The heading of what is in the file outside of other tables.
const FILES: &str = "The gateway";

/// What of `docs/tls.md` belongs to the reference: the one table that is described there.
const ACME: &str = "\n## Certificates that nightwatt gets by itself\n";

/// Where a value stands: keys from the top of the file, and whether there is a list of it.
type Place = Vec<(String, bool)>;

/// A key, and the table that it is in.
type Key = (usize, String);

/// What the configuration says when it gets this value there.
fn complaint(place: &[(String, bool)], value: &str) -> Option<String> {
    let file = place.iter().rev().fold(value.to_owned(), |value, (key, is_list)| {
        if *is_list { format!("{{ {key} = [{value}] }}") } else { format!("{{ {key} = {value} }}") }
    });
    // The file itself has no braces around it.
    let error = toml::from_str::<Config>(&file[1..file.len() - 1]).err()?;
    Some(error.message().to_owned())
}

/// What it would have expected there instead of `nonsense`, if it says so.
fn expected(place: &[(String, bool)], value: &str) -> Option<BTreeSet<String>> {
    let said = complaint(place, value)?;
    if said == "missing field `driver`" {
        return Some(METER.map(str::to_owned).into());
    }
    let names = ["field", "variant"].iter().find_map(|what| {
        let words = said.strip_prefix("unknown ")?.strip_prefix(what)?;
        words.strip_prefix(" `nonsense`, ")
    })?;
    Some(names.split('`').skip(1).step_by(2).map(str::to_owned).collect())
}

/// The keys of the table that stands there; none, if no table does.
fn keys(place: &[(String, bool)]) -> Option<BTreeSet<String>> {
    // What takes one of several words, as `cookies`, lists those when another is written. (And what is in a
    // meter never gets its turn without the driver, a table or not.)
    match expected(place, "\"nonsense\"") {
        Some(_) => None,
        None => expected(place, "{ nonsense = 1 }"),
    }
}

/// All that the configuration takes.
#[derive(Default)]
struct Accepted {
    /// The keys of each table, with the tables that they hold.
    tables: Vec<BTreeMap<String, Option<usize>>>,
    /// Where each of them is, for people: somewhere, if it is in several places.
    names: Vec<String>,
}

impl Accepted {
    fn all() -> Self {
        let mut all = Self::default();
        assert_eq!(all.add(&mut Vec::new()), Some(FILE), "it says which keys it knows");
        all
    }

    /// Takes up the table that stands there, with all within it; none, if no table does.
    fn add(&mut self, place: &mut Place) -> Option<usize> {
        let keys = keys(place)?;
        // Sites and machines have the same `power`, and below its `wake` it is there once more.
        if let Some(same) = self.tables.iter().position(|table| table.keys().eq(&keys)) {
            return Some(same);
        }
        let here = self.tables.len();
        let path: Vec<&str> = place.iter().map(|(key, _)| key.as_str()).collect();
        self.names.push(if path.is_empty() {
            "the file".to_owned()
        } else {
            format!("[{}]", path.join("."))
        });
        self.tables.push(keys.iter().map(|key| (key.clone(), None)).collect());
        for key in keys {
            // First one alone: a table can also be read from a list of its values.
            let held = [false, true].into_iter().find_map(|is_list| {
                place.push((key.clone(), is_list));
                let held = self.add(place);
                place.pop();
                held
            });
            self.tables[here].insert(key, held);
        }
        Some(here)
    }

    /// The keys along a path with dots, and the table that it ends at, if it ends at one; nothing, if
    /// a key is not known.
    fn follow(&self, table: usize, path: &str) -> Option<(Vec<Key>, Option<usize>)> {
        let (mut keys, mut next) = (Vec::new(), Some(table));
        for key in path.split('.') {
            let here = next?;
            next = *self.tables[here].get(key)?;
            keys.push((here, key.to_owned()));
        }
        Some((keys, next))
    }
}

/// What is between backticks.
fn codes(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The name of a table as TOML writes it: `[site.cache]`, `[[site]]`, or all below `[site.power.…]`.
fn table_name(code: &str) -> Option<&str> {
    let name = code.strip_prefix('[')?.strip_suffix(']')?;
    let name = name.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(name);
    let name = name.trim_end_matches(".…");
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._".contains(letter);
    (!name.is_empty() && name.chars().all(is_plain)).then_some(name)
}

/// What the reference has.
struct Documented<'a> {
    accepted: &'a Accepted,
    keys: BTreeSet<Key>,
    /// Keys that have a row.
    rows: BTreeSet<Key>,
    /// What would be refused.
    refused: Vec<String>,
}

impl<'a> Documented<'a> {
    fn all(accepted: &'a Accepted) -> Self {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let page = |name: &str| std::fs::read_to_string(docs.join(name)).unwrap();
        let (keys, rows) = (BTreeSet::new(), BTreeSet::new());
        let mut all = Self { accepted, keys, rows, refused: Vec::new() };
        all.read(&page("configuration.md"));
        let tls = page("tls.md");
        let (_, acme) = tls.split_once(ACME).unwrap();
        let (acme, _) = acme.split_once("\n## ").unwrap();
        all.read(acme);
        all
    }

    fn read(&mut self, text: &str) {
        let (mut section, mut rows, mut toml) = (None, None, None);
        for line in text.lines() {
            if line.starts_with("```") {
                toml = (line == "```toml").then_some(FILE);
            } else if let Some(table) = toml {
                toml = Some(self.read_toml(table, line));
            } else if let Some(heading) = line.strip_prefix('#') {
                section = self.named(heading).or(heading.ends_with(FILES).then_some(FILE));
            } else if !line.starts_with('|') {
                rows = None;
                self.mentioned(section.into_iter().collect(), line);
            } else {
                match rows {
                    Some(Some(table)) => self.read_row(table, line),
                    Some(None) => {}
                    // The head says whether there are keys, and perhaps of which table.
                    None if line.starts_with("| key") => rows = Some(self.named(line).or(section)),
                    None => rows = Some(None),
                }
            }
        }
    }

    /// The first table that is named here.
    fn named(&mut self, text: &str) -> Option<usize> {
        let name = codes(text).find_map(table_name)?;
        self.take(FILE, name)
    }

    /// Notes the keys along a path, which must be known; gives the table that it ends at.
    fn take(&mut self, table: usize, path: &str) -> Option<usize> {
        let Some((keys, end)) = self.accepted.follow(table, path) else {
            self.refused.push(format!("`{path}` in {}", self.accepted.names[table]));
            return None;
        };
        self.keys.extend(keys);
        end
    }

    /// In the first cell are keys, and in the others perhaps what these hold.
    fn read_row(&mut self, table: usize, line: &str) {
        let first = line.split('|').nth(1).unwrap_or_default();
        self.rows.extend(codes(first).map(|key| (table, key.to_owned())));
        let held = codes(first).filter_map(|key| self.take(table, key)).collect();
        self.mentioned(held, line);
    }

    /// Is the key where people look for it? That is in a row, if the table has rows: an example for something
    /// else is not enough then. Tables within it may have a heading.
    fn has(&self, table: usize, key: &str) -> bool {
        let has_rows = self.rows.iter().any(|(it, _)| *it == table);
        let is_table = self.accepted.tables[table][key].is_some();
        let found = if has_rows && !is_table { &self.rows } else { &self.keys };
        found.contains(&(table, key.to_owned()))
    }

    /// Notes the keys of these tables that a text mentions, and of tables that it mentions before them.
    /// What is no key may be anything.
    fn mentioned(&mut self, mut tables: BTreeSet<usize>, text: &str) {
        for code in codes(text) {
            let named = table_name(code).and_then(|name| self.accepted.follow(FILE, name));
            if let Some((keys, end)) = named {
                self.keys.extend(keys);
                tables.extend(end);
            }
            for word in code.split(|it: char| !it.is_ascii_alphanumeric() && !"._".contains(it)) {
                let found: Vec<_> =
                    tables.iter().filter_map(|table| self.accepted.follow(*table, word)).collect();
                for (keys, end) in found {
                    self.keys.extend(keys);
                    tables.extend(end);
                }
            }
        }
    }

    /// A line of an example; gives the table of the next one.
    fn read_toml(&mut self, table: usize, line: &str) -> usize {
        let (code, comment) = line.split_once('#').unwrap_or((line, ""));
        if let Some(name) = table_name(code.trim()) {
            return self.take(FILE, name).unwrap_or(table);
        }
        if let Some((key, _)) = code.split_once(" = ") {
            self.take(table, key);
        }
        // There may be another way: `# or password_env = "NAME"`.
        if let Some((before, _)) = comment.split_once(" = ")
            && let Some(word) = before.split(' ').next_back()
            && let Some((keys, _)) = self.accepted.follow(table, word)
        {
            self.keys.extend(keys);
        }
        table
    }
}

#[test]
fn every_key_is_in_the_reference() {
    let accepted = Accepted::all();
    let documented = Documented::all(&accepted);
    let mut missing = Vec::new();
    for (table, keys) in accepted.tables.iter().enumerate() {
        let left = keys.keys().filter(|key| !documented.has(table, key));
        missing.extend(left.map(|key| format!("`{key}` in {}", accepted.names[table])));
    }
    assert!(missing.is_empty(), "not in docs/configuration.md:\n{}", missing.join("\n"));
}

#[test]
fn no_key_of_the_reference_would_be_refused() {
    let accepted = Accepted::all();
    let refused = Documented::all(&accepted).refused;
    assert!(refused.is_empty(), "docs/configuration.md has:\n{}", refused.join("\n"));
}

#[test]
fn tables_say_their_keys_however_they_are_read() {
    let accepted = Accepted::all();
    for path in [
        "admin.password_file",
        "cache.disk.size_mb",
        "machine.power.sleep.agent.key",
        "meter.pick",
        "scenario.electricity.currency",
        "site.hsts.max_age",
        "site.pool.kind.busy_w",
        "site.power.simulated.inner.process.command",
        "site.power.wol.mac",
        "site.probe.http.expect",
        "site.server.probe.tcp.address",
        "tls.certificate.acme",
    ] {
        assert!(accepted.follow(FILE, path).is_some(), "{path}");
    }
    for path in ["sites", "site.cache.cookies.personal", "site.power.process.env.nonsense"] {
        assert!(accepted.follow(FILE, path).is_none(), "{path}");
    }
}
