//! A value that is wrong, and the tables that it is in.

use std::fmt::Display;

use nightwatt_policy::scenario::BadValue;

/// A wrong value.
#[derive(Debug)]
pub(super) struct Wrong {
    /// Its dotted key; empty for a table as a whole.
    pub(super) key: String,
    /// What is wrong and what would be right.
    pub(super) text: String,
}

impl Wrong {
    pub(super) fn new(key: impl Into<String>, text: impl Into<String>) -> Self {
        Self { key: key.into(), text: text.into() }
    }

    /// The same with the key that it has outside this table.
    pub(super) fn within(mut self, table: impl Display) -> Self {
        let dot = if self.key.is_empty() { "" } else { "." };
        self.key = format!("{table}{dot}{}", self.key);
        self
    }
}

impl From<BadValue> for Wrong {
    fn from(bad: BadValue) -> Self {
        Self::new(bad.key, bad.to_string())
    }
}

/// The error for a wrong value.
pub(super) fn wrong(key: impl Into<String>, text: impl Into<String>) -> Result<(), Wrong> {
    Err(Wrong::new(key, text))
}
