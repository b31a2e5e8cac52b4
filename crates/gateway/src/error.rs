//! What can go wrong with a configuration, and when the gateway starts.

mod certificate;
mod webhook;

use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub use self::certificate::BadCertificate;
pub use self::webhook::UnusableWebhook;
use crate::hand_over_error::HandOverError;

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
    /// What the parser says of a file of this name and text.
    pub fn syntax(name: &str, text: &str, error: &toml::de::Error) -> Self {
        Self::at(name, text, error.span(), error.message().to_owned())
    }

    /// A value that is of the right type and wrong all the same: looks for the line of its `key`, with
    /// dots, elements of arrays by their number: `site.1.scenario.server.on_w`.
    pub fn value(name: &str, text: &str, key: &str, message: String) -> Self {
        Self::at(name, text, find_key(text, key), message)
    }

    /// As [`value`](Self::value), of two values that do not go together: shows the line of the other as
    /// well.
    pub(crate) fn clash(
        name: &str,
        text: &str,
        [key, other]: &[String; 2],
        message: String,
    ) -> Self {
        let mut error = Self::value(name, text, key, message);
        if let Self::Wrong { excerpt, .. } = &mut error
            && let Some((.., shown)) = find_key(text, other).and_then(|span| shown(text, span))
        {
            excerpt.push_str(&shown);
        }
        error
    }

    fn at(name: &str, text: &str, span: Option<Range<usize>>, message: String) -> Self {
        match span.and_then(|span| shown(text, span)) {
            Some((line, column, excerpt)) => {
                Self::Wrong { place: format!("{name}:{line}:{column}"), message, excerpt }
            }
            None => Self::Wrong { place: name.to_owned(), message, excerpt: String::new() },
        }
    }
}

/// Line and column of a place, and the line itself with a mark under it, after a line break.
fn shown(text: &str, span: Range<usize>) -> Option<(usize, usize, String)> {
    let before = text.get(..span.start)?;
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
    /// Another gateway is at work.
    #[error("another gateway runs already, and answers at {path}")]
    Taken {
        /// Its control socket.
        path: PathBuf,
    },
    /// Another gateway keeps its ledgers there.
    #[error("another gateway runs already, and keeps its ledgers in {path}")]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// Another user has put a link into the folder of ledgers.
    #[error(
        "{path} is a link that user number {user} has made: what is written there would go elsewhere"
    )]
    Planted {
        /// The link.
        path: PathBuf,
        /// Whose it is.
        user: u32,
    },
    /// A file or folder that the gateway needs.
    #[error("cannot use {path}: {source}")]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The page of a site that waits.
    #[error("`waiting_page_file` of site `{site}`: cannot read {path}: {source}")]
    Page {
        /// Of which site.
        site: String,
        /// Which file.
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
    /// A pool that cannot be.
    #[error("site `{site}`: {source}")]
    Pool {
        /// Of which site.
        site: String,
        /// Why.
        source: nightwatt_model::policy::fleet::FleetError,
    },
    /// A certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] BadCertificate),
    /// A webhook cannot be told anything.
    #[error(transparent)]
    Webhook(#[from] UnusableWebhook),
    /// The password of the dashboard cannot be used.
    #[error("the dashboard's password in {path}: {why}")]
    Password {
        /// Its file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The folder of the disk cache cannot be used.
    #[error("the disk cache in {path}: {}", disk_cache_words(.source))]
    DiskCache {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The process that runs does not let go.
    #[error("cannot take over: {source}")]
    HandOver {
        /// Why.
        source: HandOverError,
    },
    /// No thread for a meter.
    #[error("cannot begin to read a meter: {source}")]
    Meter {
        /// Why.
        source: std::io::Error,
    },
}

impl StartError {
    /// Makes an error of what went wrong with this file.
    pub(crate) fn file(path: &Path) -> impl Fn(std::io::Error) -> Self + '_ {
        |source| Self::File { path: path.to_owned(), source }
    }

    /// Would it start for a user who may read more?
    pub fn is_of_this_user(&self) -> bool {
        if let Self::Password { path, .. } = self {
            let opened = std::fs::File::open(path);
            return opened.is_err_and(|it| it.kind() == std::io::ErrorKind::PermissionDenied);
        }
        let (Self::File { source, .. }
        | Self::Page { source, .. }
        | Self::Certificate(BadCertificate::Unreadable { source, .. })
        | Self::Power { source: nightwatt_power::ConfigError::File { source, .. }, .. }
        | Self::Webhook(UnusableWebhook::Secret { source, .. })) = self
        else {
            return false;
        };
        source.kind() == std::io::ErrorKind::PermissionDenied
    }

    /// What to try next.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Listen { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => Some(
                "another program listens there: `ss -ltnp` shows which; stop it, or change `listen` (or `admin`)",
            ),
            Self::Listen { source, .. }
                if source.kind() == std::io::ErrorKind::PermissionDenied =>
            {
                Some(
                    "ports below 1024 need root or CAP_NET_BIND_SERVICE; choose a higher one in `listen`",
                )
            }
            Self::Taken { .. } | Self::Locked { .. } => Some(
                "take its place with `--replace`, stop it, or give this one another `state_dir` (and `control_socket`)",
            ),
            Self::Planted { .. } => Some(
                "remove it, and let no other user write to `state_dir`: `chown` and `chmod 700` it",
            ),
            Self::File { .. } => {
                Some("check that it exists and that this user may write it, or set `state_dir`")
            }
            Self::Page { .. } => Some(
                "check that the file is there, that it is text in UTF-8 and that this user may read it; or \
                 leave `waiting_page_file` out: then the page is the built-in one",
            ),
            Self::Certificate(bad) => Some(bad.hint()),
            Self::Webhook(_) => Some("check that the file exists and that this user may read it"),
            Self::Password { .. } => Some(
                "write one, for this user alone: `(umask 077; openssl rand -base64 18 > FILE)`, or leave \
                 `admin.password_file` out: then the dashboard gives no orders",
            ),
            Self::DiskCache { .. } => Some(
                "check that this user may write it and that no other gateway has it open, set \
                 `directory` in `[cache.disk]`, or leave that out",
            ),
            Self::HandOver { source } => Some(source.hint()),
            Self::Meter { .. } => {
                Some("the system gives no more threads or descriptors: raise their limits")
            }
            Self::Power { source, .. } => Some(source.hint()),
            Self::Listen { .. } | Self::Pool { .. } => None,
        }
    }
}

fn disk_cache_words(error: &std::io::Error) -> String {
    if error.kind() == std::io::ErrorKind::WouldBlock {
        return "another gateway has it open".to_owned();
    }
    error.to_string()
}
