//! What can go wrong with a configuration, and when the gateway starts.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;

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
    Wrong {
        /// File, line and column: `nightwatt.toml:7:3`.
        place: String,
        /// What is wrong, and what would be right.
        message: String,
        /// The line, with a mark under the place; starts with a line break.
        excerpt: String,
    },
}

impl ConfigError {
    pub(crate) fn syntax(name: &str, text: &str, error: &toml::de::Error) -> Self {
        Self::at(name, text, error.span(), error.message().to_owned())
    }

    /// A value that is of the right type and wrong all the same: looks for the line of its key.
    pub(crate) fn value(name: &str, text: &str, key: &str, message: String) -> Self {
        Self::at(name, text, find_key(text, key), message)
    }

    fn at(name: &str, text: &str, span: Option<Range<usize>>, message: String) -> Self {
        let Some(span) = span.filter(|span| text.is_char_boundary(span.start)) else {
            return Self::Wrong { place: name.to_owned(), message, excerpt: String::new() };
        };
        let before = &text[..span.start];
        let line = before.matches('\n').count() + 1;
        let column = before.len() - before.rfind('\n').map_or(0, |at| at + 1);
        let shown = text.lines().nth(line - 1).unwrap_or_default();
        let indent = " ".repeat(line.to_string().len());
        let marks = span.len().clamp(1, shown.len().saturating_sub(column).max(1));
        let excerpt = format!(
            "\n{indent} |\n{line} | {shown}\n{indent} | {}{}",
            " ".repeat(column),
            "^".repeat(marks)
        );
        Self::Wrong { place: format!("{name}:{line}:{}", column + 1), message, excerpt }
    }
}

/// Where the last part of a dotted key is set, under the table that the parts before it name. A
/// search in text: good enough for pointing, as the value itself is known to be there.
fn find_key(text: &str, key: &str) -> Option<Range<usize>> {
    let (table, key) = key.rsplit_once('.').unwrap_or(("", key));
    let mut current = String::new();
    let mut at = 0;
    let mut found = None;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if trimmed.starts_with('[') {
            let header = trimmed.trim_start_matches('[').split(']').next();
            header.unwrap_or_default().trim().clone_into(&mut current);
        }
        let name = trimmed.split('=').next().unwrap_or_default().trim();
        let full = [current.as_str(), name].join(".");
        let wanted = [table, key].join(".");
        if trimmed.contains('=') && full.trim_matches('.') == wanted.trim_matches('.') {
            let start = at + line.find(name).unwrap_or(0);
            found = Some(start..start + line.trim_end().len() - line.find(name).unwrap_or(0));
        }
        at += line.len();
    }
    found
}

/// Why the gateway could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Which one.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A file or folder that the gateway needs.
    #[error("cannot use {path}: {source}")]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A controller cannot be built.
    #[error("site `{site}`: {source}")]
    Power {
        /// Of which site.
        site: String,
        /// Why.
        source: nightwatt_power::ConfigError,
    },
}

impl StartError {
    /// What to try next.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Listen { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => Some(
                "another program listens there: `ss -ltnp` shows which; stop it or change `listen`",
            ),
            Self::Listen { source, .. }
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                Some(
                    "ports below 1024 need root or CAP_NET_BIND_SERVICE; choose a higher one in `listen`",
                )
            }
            Self::File { .. } => {
                Some("check that it exists and that this user may write it, or set `state_dir`")
            }
            Self::Listen { .. } | Self::Power { .. } => None,
        }
    }
}
