//! Why a scenario cannot be.

/// A value that no scenario can have. `key` names it as the TOML file does: `server.on_w`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` is {value}, but {rule}")]
pub struct BadValue {
    /// Dotted name.
    pub key: &'static str,
    /// What it was set to.
    pub value: String,
    /// What would be right.
    pub rule: &'static str,
}
