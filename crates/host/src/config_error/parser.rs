//! The parser's messages as sentences: which key, what it is, and what it should be.

use std::ops::Range;

use toml::de::DeTable;

use super::place::{Form, Place};
use super::tables::{Known, Parser};

/// A word is the nearest if at most a third of its letters differ.
const MOST_WRONG_LETTERS: usize = 3;

/// More keys than this are listed only if nothing is known of what was meant.
const FEW: usize = 8;

/// More keys than this are not listed.
const MOST_LISTED: usize = 20;

/// Tables that know a key are named up to this number.
const MOST_TABLES: usize = 3;

/// What the parser writes of a type, and what users write for it.
const WANTED: [(&str, &str); 24] = [
    ("a string", "text in quotes"),
    ("string", "text in quotes"),
    ("path string", "a path in quotes"),
    ("a character", "one letter in quotes"),
    ("a boolean", "`true` or `false`"),
    ("a sequence", "a list, as in `[\"a\", \"b\"]`"),
    ("a map", "a table"),
    ("map", "a table"),
    ("unit", "nothing"),
    ("f64", "a number"),
    ("f32", "a number"),
    ("i64", "a whole number"),
    ("i32", "a whole number from -2147483648 to 2147483647"),
    ("i16", "a whole number from -32768 to 32767"),
    ("i8", "a whole number from -128 to 127"),
    ("u64", "a whole number of 0 or more"),
    ("usize", "a whole number of 0 or more"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u16", "a whole number from 0 to 65535"),
    ("u8", "a whole number from 0 to 255"),
    ("a nonzero u64", "a whole number of 1 or more"),
    ("a nonzero usize", "a whole number of 1 or more"),
    ("a nonzero u32", "a whole number from 1 to 4294967295"),
    ("a nonzero u16", "a whole number from 1 to 65535"),
];

/// What the standard library writes of a text that it cannot read, and what users write instead.
const UNREADABLE: [(&str, &str); 10] = [
    ("invalid socket address syntax", SOCKET),
    ("socket address", SOCKET),
    ("invalid IP address syntax", IP),
    ("IP address", IP),
    ("invalid IPv4 address syntax", "an IPv4 address, as `192.168.1.20`"),
    ("invalid IPv6 address syntax", "an IPv6 address, as `fd00::20`"),
    ("invalid digit found in string", "a whole number"),
    ("invalid float literal", "a number"),
    ("cannot parse integer from empty string", "a whole number"),
    ("provided string was not `true` or `false`", "`true` or `false`"),
];

const SOCKET: &str = "an address with a port, as `127.0.0.1:8080`";
const IP: &str = "an IP address, as `192.168.1.20`";

/// How the parser's own messages begin.
const PARSERS: [&str; 6] = [
    "unknown field `",
    "unknown variant `",
    "missing field `",
    "invalid type: ",
    "invalid value: ",
    "invalid length ",
];

/// What the parser writes of text that is not TOML, by its beginning, and what users can do.
const NOT_TOML: [(&str, &str); 17] = [
    ("string values must be quoted", NO_VALUE),
    ("invalid float", NO_NUMBER),
    ("invalid integer", NO_NUMBER),
    ("invalid datetime", NO_NUMBER),
    ("key with no value", "a key needs a value: `key = 5`, `key = \"text\"`"),
    ("missing value", "a key needs a value: `key = 5`, `key = \"text\"`"),
    ("extra `=`", "there is one `=` too many; text is written in quotes: `key = \"a = b\"`"),
    ("invalid basic string", "the text does not end: a quote (`\"`) is missing"),
    ("invalid literal string", "the text does not end: a quote (`'`) is missing"),
    ("unclosed table", "the heading of a table does not end: write `[table]`"),
    ("unclosed array table", "the heading of a list of tables does not end: write `[[table]]`"),
    ("unclosed array", "the list does not end: a `]` is missing"),
    ("unclosed inline table", "the table does not end: a `}` is missing"),
    ("missing comma between array elements", "a list needs `,` or its final `]` before this"),
    ("missing comma between key-value pairs", "a table needs `,` or its final `}` before this"),
    ("duplicate key", "this key or table is in the file twice: keep one"),
    ("cannot extend value", "this table is in the file already, and has a value there: keep one"),
];

const NO_VALUE: &str = "a value is missing, or is text without quotes: write `key = \"text\"`";
const NO_NUMBER: &str = "this is not a number; text is written in quotes: `key = \"text\"`";

/// A message with its place. `text` is the file, and `parse` its parser.
pub(super) fn explain(
    text: &str,
    message: &str,
    span: Option<&Range<usize>>,
    parse: Parser<'_>,
) -> String {
    let Ok(table) = DeTable::parse(text) else {
        let twice = span.and_then(|span| list_twice(text, message, span, parse));
        return twice.unwrap_or_else(|| not_toml(message));
    };
    let place = span.map(|span| Place::find(text, table.get_ref(), span)).unwrap_or_default();
    // A type that reads its table by itself puts words of its own before those of the parser.
    let begins = PARSERS.iter().filter_map(|begin| message.find(begin)).min().unwrap_or(0);
    let (before, message) = message.split_at(begins);
    let place = if before.is_empty() { place } else { place.of_some_value() };
    if let Some(text) = unknown_name(&place, message, parse) {
        return before.to_owned() + &text;
    }
    let classes = [missing_key, wrong_type, wrong_length, unreadable, other_form];
    let found = classes.iter().find_map(|class| class(&place, message));
    before.to_owned() + &found.unwrap_or_else(|| place.named(message))
}

/// Text that is not TOML, which has no keys yet.
fn not_toml(message: &str) -> String {
    let known = NOT_TOML.iter().filter(|(begin, _)| message.starts_with(begin));
    match known.max_by_key(|(begin, _)| begin.len()) {
        Some((_, advice)) => (*advice).to_owned(),
        None => format!("this is not TOML: {message}"),
    }
}

/// `[site]` twice, where it is a list of tables.
fn list_twice(text: &str, message: &str, span: &Range<usize>, parse: Parser<'_>) -> Option<String> {
    if !["duplicate key", "cannot extend value"].iter().any(|it| message.starts_with(it)) {
        return None;
    }
    let begins = text.get(..span.start)?.rfind('\n').map_or(0, |at| at + 1);
    let line = text.get(begins..)?.lines().next()?;
    let (heading, _) = line.trim().strip_prefix('[')?.split_once(']')?;
    let keys = heading.trim_start_matches('[').split('.');
    let keys: Vec<String> =
        keys.map(|key| key.trim().trim_matches(['"', '\'']).to_owned()).collect();
    let table = Known::find(&keys, parse).filter(Known::is_list)?;
    let heading = table.heading();
    Some(format!("`{}` is a list of tables: write {heading} for each", keys.join(".")))
}

/// `` unknown field `hodl`, expected one of `hold`, `headers` ``: of a table's keys, or of words.
fn unknown_name(place: &Place, message: &str, parse: Parser<'_>) -> Option<String> {
    let rest = message.strip_prefix("unknown ")?;
    let (is_key, rest) = if let Some(rest) = rest.strip_prefix("field ") {
        (true, rest)
    } else {
        let is_table = place.form == Form::Table && !place.is_some_value;
        (is_table || place.is_key, rest.strip_prefix("variant ")?)
    };
    let (name, rest) = rest.strip_prefix('`')?.split_once('`')?;
    let (listed, more) = rest.split_once(" (").map_or((rest, ""), |(listed, more)| (listed, more));
    let known: Vec<&str> = listed.split('`').skip(1).step_by(2).collect();
    let near = nearest(name, &known).map(|near| format!(": did you mean `{near}`?"));
    let mut list = known.iter().map(|known| format!("`{known}`")).collect::<Vec<_>>().join(", ");
    if !more.is_empty() {
        list = format!("{list} ({more}");
    }
    if !is_key {
        let near = near.unwrap_or_default();
        return Some(format!("{} is `{name}`, but must be one of {list}{near}", place.name()));
    }
    let path = place.path_to(name);
    let key = path.join(".");
    if let Some(tables) = elsewhere(name, &path, near.is_some() || known.len() <= FEW, parse) {
        return Some(format!("unknown key `{key}`: write it below {tables}"));
    }
    Some(match (near, known.len()) {
        (None, 0) => format!("unknown key `{key}`. There are none here"),
        (None, count) if count > MOST_LISTED => {
            format!("unknown key `{key}`. None of the {count} keys that are known here is like it")
        }
        (None, _) => format!("unknown key `{key}`. Known here: {list}"),
        (Some(near), count) if count > FEW => format!("unknown key `{key}`{near}"),
        (Some(near), _) => format!("unknown key `{key}`{near} Known here: {list}"),
    })
}

/// The tables that know a key which this one does not: those in it, and those that it is in. A table beside it means
/// something else by the same key. If there is better advice, only those below this table.
fn elsewhere(name: &str, path: &[String], has_better: bool, parse: Parser<'_>) -> Option<String> {
    let (_, from) = path.split_last()?;
    let mut tables = Known::with_key(name, from, parse);
    tables.retain(|it| it.is_below(from) || it.is_above(from));
    let is_below = !from.is_empty() && tables.first().is_some_and(|it| it.is_below(from));
    if tables.is_empty() || has_better && !is_below {
        return None;
    }
    let headings: Vec<String> = tables.iter().take(MOST_TABLES).map(Known::heading).collect();
    let own = tables.iter().find_map(|table| table.within(name, parse));
    let or_as = match own {
        Some(own) if tables.len() == 1 => format!(", or as {}", own.heading()),
        _ => String::new(),
    };
    Some(headings.join(" or ") + &or_as)
}

/// `` missing field `mac` ``.
fn missing_key(place: &Place, message: &str) -> Option<String> {
    let key = message.strip_prefix("missing field `")?.strip_suffix('`')?;
    let full = place.key_in(key);
    Some(format!("`{full}` is missing: write `{key} = …` in {}", place.heading()))
}

/// `` invalid type: integer `5`, expected a string ``, or `invalid value: …`.
fn wrong_type(place: &Place, message: &str) -> Option<String> {
    let rest = message.strip_prefix("invalid type: ");
    let rest = rest.or_else(|| message.strip_prefix("invalid value: "))?;
    let (found, wanted) = rest.rsplit_once(", expected ")?;
    if place.is_list_of_tables && found == "map" && !is_table(wanted) {
        return Some(place.is_one_table());
    }
    if found == "sequence" && is_table(wanted) && place.written.starts_with("[[") {
        return Some(place.is_one_table());
    }
    if wanted == "a sequence" && place.form == Form::Table {
        let key = place.keys.join(".");
        return Some(format!("`{key}` is a list of tables: write `[[{key}]]`"));
    }
    Some(place.wants(&found_words(found), &wanted_words(wanted)))
}

fn is_table(wanted: &str) -> bool {
    ["struct ", "a map", "map", "a table"].iter().any(|it| wanted.starts_with(it))
}

/// `invalid length 3, expected …`.
fn wrong_length(place: &Place, message: &str) -> Option<String> {
    let (length, wanted) = message.strip_prefix("invalid length ")?.split_once(", expected ")?;
    if wanted.starts_with("struct ") {
        return Some(place.is_one_table());
    }
    let elements = if length == "1" { "element" } else { "elements" };
    let wanted = wanted_words(wanted);
    Some(format!("{} has {length} {elements}, but must be {wanted}", place.name()))
}

/// What the standard library's own types write.
fn unreadable(place: &Place, message: &str) -> Option<String> {
    let (_, wanted) = UNREADABLE.iter().find(|(from, _)| *from == message)?;
    Some(place.wants("", wanted))
}

/// What has one of several forms, and has none of them.
fn other_form(place: &Place, message: &str) -> Option<String> {
    if message.starts_with("data did not match any variant") {
        return Some(format!("{} is {}, which cannot be used here", place.name(), place.value("")));
    }
    if message.starts_with("wanted string or table") {
        return Some(place.wants("", "a word in quotes, or a table"));
    }
    if message.starts_with("wanted exactly 1 element") {
        return Some(format!("{} is a table that needs exactly one key", place.name()));
    }
    let wanted = message.strip_prefix("expected ")?;
    let wanted = wanted.split_once(", found ").map_or(wanted, |(wanted, _)| wanted);
    Some(place.wants("", &wanted_words(wanted)))
}

impl Place {
    /// What is here is not what is expected.
    fn wants(&self, found: &str, wanted: &str) -> String {
        let text = format!("{} is {}, but must be {wanted}", self.name(), self.value(found));
        match self.advice(wanted) {
            Some(advice) => format!("{text}: write {advice}"),
            None => text,
        }
    }

    /// The value in the form that is expected, where that is easy to see.
    fn advice(&self, wanted: &str) -> Option<String> {
        let written = self.written.as_str();
        let inner = written.trim_matches(['"', '\'']);
        if wanted == "a table" {
            return Some(format!("`[{}]`, and its keys below it", self.keys.join(".")));
        }
        match self.form {
            Form::Other if wanted.ends_with(" in quotes") => Some(format!("`\"{written}\"`")),
            Form::Text if wanted.starts_with("a list") => Some(format!("`[{written}]`")),
            Form::Text if wanted.contains(" number") && inner.parse::<f64>().is_ok() => {
                Some(format!("`{inner}` without quotes"))
            }
            Form::Text if ["true", "false"].contains(&inner) => {
                Some(format!("`{inner}` without quotes"))
            }
            _ => None,
        }
    }

    /// `[[key]]` was written for a table that is there once.
    fn is_one_table(&self) -> String {
        let key = self.keys.join(".");
        format!("`[[{key}]]` makes a list of tables, and `{key}` is not one: write `[{key}]`, once")
    }

    /// A sentence of our own types, with the key that it is about.
    fn named(&self, message: &str) -> String {
        let key = self.keys.last().map(|key| format!("`{key}`"));
        match key {
            Some(key) if !message.contains(&key) && !message.contains(&self.keys.join(".")) => {
                format!("{}: {message}", self.name())
            }
            _ => message.to_owned(),
        }
    }
}

/// A type in the parser's words.
fn wanted_words(wanted: &str) -> String {
    let known = WANTED.iter().chain(&UNREADABLE).find(|(from, _)| *from == wanted);
    match known {
        Some((_, words)) => (*words).to_owned(),
        None if is_table(wanted) => "a table".to_owned(),
        None => wanted.to_owned(),
    }
}

/// What was found, where the file has no text of it: `` integer `5` ``.
fn found_words(found: &str) -> String {
    let words = [("map", "a table"), ("sequence", "a list"), ("unit value", "nothing")];
    let known = words.iter().find(|(from, _)| *from == found);
    let value = || found.split_once(' ').map_or(found, |(_, value)| value).to_owned();
    known.map_or_else(value, |(_, words)| (*words).to_owned())
}

/// The word that is spelled most like it.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let wrong = |known: &&&str| strsim::damerau_levenshtein(&lower, &known.to_lowercase());
    // Among equals one that begins alike: a letter is left out more often than it is another.
    let alike = |known: &&&str| strsim::jaro_winkler(&lower, &known.to_lowercase());
    let order = |one: &&&str, other: &&&str| {
        wrong(one).cmp(&wrong(other)).then(alike(other).total_cmp(&alike(one)))
    };
    let best = known.iter().min_by(order)?;
    let letters = name.chars().count().max(best.chars().count());
    (wrong(&best) * MOST_WRONG_LETTERS <= letters.max(MOST_WRONG_LETTERS)).then_some(*best)
}
