//! Where in a file an error of the parser is.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value is shown if it is no longer than this.
const SHOWN: usize = 60;

/// A key of the file, with what it is set to.
#[derive(Debug, Default, Clone)]
pub(super) struct Place {
    /// Keys from the top of the file.
    pub(super) keys: Vec<String>,
    /// Number of the element in a list, from 1.
    element: Option<usize>,
    /// The value as it is written, if it is short and on one line.
    pub(super) written: String,
    pub(super) form: Form,
    /// It is an element of a list of tables.
    pub(super) is_list_of_tables: bool,
    /// The error is about the key, rather than about its value.
    pub(super) is_key: bool,
    /// It is about a value of this table, and which one is not known.
    pub(super) is_some_value: bool,
}

/// What a value is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    #[default]
    File,
    Table,
    List,
    Text,
    Other,
}

impl Place {
    /// The smallest part of the file that has this place in it.
    pub(super) fn find(text: &str, table: &DeTable<'_>, span: &Range<usize>) -> Self {
        let mut search = Search { text, span, found: None };
        search.table(table, &Self::default());
        search.found.map(|(_, place)| place).unwrap_or_default()
    }

    /// A value within it, which one is not known.
    pub(super) fn of_some_value(self) -> Self {
        Self { is_some_value: self.form == Form::Table && !self.is_key, ..self }
    }

    /// `` `site.power` ``, or ``element 2 of `listen` ``.
    pub(super) fn name(&self) -> String {
        let path = self.keys.join(".");
        match self.element {
            _ if self.keys.is_empty() => "the file".to_owned(),
            _ if self.is_some_value => format!("a value of `{path}`"),
            Some(number) if !self.is_list_of_tables => format!("element {number} of `{path}`"),
            _ => format!("`{path}`"),
        }
    }

    /// The table, as its heading is written.
    pub(super) fn heading(&self) -> String {
        let path = self.keys.join(".");
        match (self.keys.is_empty(), self.is_list_of_tables) {
            (true, _) => "the first lines, before any `[table]`".to_owned(),
            (false, true) => format!("`[[{path}]]`"),
            (false, false) => format!("`[{path}]`"),
        }
    }

    /// The full name of a key in this table. If the error is about a key, that is the one.
    pub(super) fn key_in(&self, key: &str) -> String {
        let mut keys = self.keys.clone();
        if !self.is_key || keys.last().is_none_or(|last| last != key) {
            keys.push(key.to_owned());
        }
        keys.join(".")
    }

    /// The keys down to one that no table knows. The parser's place is that key, or the table that a dotted key or a
    /// heading makes of it, or the table around it.
    pub(super) fn path_to(&self, unknown: &str) -> Vec<String> {
        let mut keys = self.keys.clone();
        if keys.last().is_none_or(|last| last != unknown) {
            keys.push(unknown.to_owned());
        }
        keys
    }

    /// What it is now; `found` is what the parser says, for a value that is not in the file's text.
    pub(super) fn value(&self, found: &str) -> String {
        match self.form {
            Form::List => "a list".to_owned(),
            Form::Text | Form::Other if !self.written.is_empty() => format!("`{}`", self.written),
            Form::Table if found.is_empty() => "a table".to_owned(),
            _ if found.is_empty() => "something else".to_owned(),
            _ => found.to_owned(),
        }
    }
}

/// A walk over all values.
struct Search<'a> {
    text: &'a str,
    span: &'a Range<usize>,
    /// The best so far, with its length.
    found: Option<(usize, Place)>,
}

impl Search<'_> {
    fn table(&mut self, table: &DeTable<'_>, above: &Place) {
        for (key, value) in table {
            let mut place = Place { keys: above.keys.clone(), ..Place::default() };
            place.keys.push(key.get_ref().to_string());
            self.take(&key.span(), &Place { is_key: true, ..self.filled(&place, value) });
            self.value(value, &place);
        }
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, place: &Place) {
        let place = self.filled(place, value);
        self.take(&value.span(), &place);
        match value.get_ref() {
            DeValue::Table(table) => self.table(table, &place),
            DeValue::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    let is_list_of_tables = matches!(element.get_ref(), DeValue::Table(_));
                    let element_of = Place {
                        element: Some(index + 1),
                        is_list_of_tables,
                        keys: place.keys.clone(),
                        ..Place::default()
                    };
                    self.value(element, &element_of);
                }
            }
            _ => {}
        }
    }

    /// With what is written there.
    fn filled(&self, place: &Place, value: &Spanned<DeValue<'_>>) -> Place {
        let form = match value.get_ref() {
            DeValue::Table(_) => Form::Table,
            DeValue::Array(_) => Form::List,
            DeValue::String(_) => Form::Text,
            _ => Form::Other,
        };
        let written = self.text.get(value.span()).unwrap_or_default();
        let is_short = written.len() <= SHOWN && !written.contains('\n');
        let written = if is_short { written.to_owned() } else { String::new() };
        Place { written, form, ..place.clone() }
    }

    fn take(&mut self, at: &Range<usize>, place: &Place) {
        let has_it = at.start <= self.span.start && self.span.end <= at.end;
        if has_it && self.found.as_ref().is_none_or(|(length, _)| at.len() <= *length) {
            self.found = Some((at.len(), place.clone()));
        }
    }
}
