//! A value of a plan that is wrong.

use std::fmt::Display;

/// A wrong value.
#[derive(Debug)]
pub struct Wrong {
    /// Its key, with dots.
    pub key: String,
    /// What is wrong and what would be right.
    pub text: String,
}

impl Wrong {
    /// A value, and what is wrong with it.
    pub fn new(key: impl Into<String>, text: impl Into<String>) -> Self {
        Self { key: key.into(), text: text.into() }
    }

    /// The same with the key that it has outside this table.
    #[must_use]
    pub fn within(mut self, table: impl Display) -> Self {
        self.key = format!("{table}.{}", self.key);
        self
    }
}
