//! Errors when the gateway starts.

mod certificate;
mod webhook;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

pub use nightwatt_host::ConfigError;

pub use self::certificate::BadCertificate;
pub use self::webhook::UnusableWebhook;
use crate::hand_over_error::HandOverError;

/// Why the gateway could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It cannot listen on an address.
    #[error("`{key}`: cannot listen on {address}: {source}")]
    Listen {
        /// The key of the configuration that names the address.
        key: &'static str,
        /// Which one.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Another gateway is running.
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
        /// Who owns it.
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
    /// A probe of use cannot be asked.
    #[error("`in_use` of site `{site}`: the probe `{probe}` cannot be asked: {why}")]
    InUse {
        /// The site.
        site: String,
        /// The probe.
        probe: String,
        /// Why.
        why: String,
        /// This user may not read one of its files.
        denied: bool,
    },
    /// The waiting page of a site.
    #[error("`waiting_page_file` of site `{site}`: cannot read {path}: {source}")]
    Page {
        /// The site.
        site: String,
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A page for errors of a site.
    #[error("`error_pages` of site `{site}`: cannot read {path}: {source}")]
    ErrorPage {
        /// The site.
        site: String,
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The realm of a site's passwords cannot be written into an answer.
    #[error("site `{site}`: `{realm}` cannot be the realm of its passwords")]
    Realm {
        /// The site.
        site: String,
        /// Its realm.
        realm: String,
    },
    /// The service that decides who may come in cannot be asked.
    #[error("`access.forward.ca` of site `{site}`: {source}")]
    ForwardAuth {
        /// The site.
        site: String,
        /// Why.
        source: nightwatt_host::tls::TlsError,
    },
    /// A controller cannot be built.
    #[error("site `{site}`: {source}")]
    Power {
        /// The site.
        site: String,
        /// Why.
        source: nightwatt_power::ConfigError,
    },
    /// A pool that is not valid.
    #[error("site `{site}`: {source}")]
    Pool {
        /// The site.
        site: String,
        /// Why.
        source: nightwatt_policy::fleet::FleetError,
    },
    /// A certificate cannot be used.
    #[error(transparent)]
    Certificate(#[from] BadCertificate),
    /// A webhook cannot be used.
    #[error(transparent)]
    Webhook(#[from] UnusableWebhook),
    /// The password of the dashboard cannot be used.
    #[error("`admin.password_file`: the dashboard's password in {path}: {why}")]
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
    /// The running process does not hand over.
    #[error("cannot take over: {source}")]
    HandOver {
        /// Why.
        source: HandOverError,
    },
    /// The thread for a meter cannot be started.
    #[error("cannot begin to read a meter: {source}")]
    Meter {
        /// Why.
        source: std::io::Error,
    },
}

impl StartError {
    /// Wraps an I/O error with the path of this file.
    pub(crate) fn file(path: &Path) -> impl Fn(std::io::Error) -> Self + '_ {
        |source| Self::File { path: path.to_owned(), source }
    }

    /// Whether it would start for a user with more permissions.
    pub fn is_of_this_user(&self) -> bool {
        if let Self::Password { path, .. } = self {
            let opened = std::fs::File::open(path);
            return opened.is_err_and(|it| it.kind() == ErrorKind::PermissionDenied);
        }
        if let Self::InUse { denied, .. } = self {
            return *denied;
        }
        let (Self::File { source, .. }
        | Self::Page { source, .. }
        | Self::Certificate(BadCertificate::Unreadable { source, .. })
        | Self::Power { source: nightwatt_power::ConfigError::File { source, .. }, .. }
        | Self::Webhook(UnusableWebhook::Secret { source, .. })) = self
        else {
            return false;
        };
        source.kind() == ErrorKind::PermissionDenied
    }

    /// What to try next.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Listen { key, source, .. } => listen_hint(key, source.kind()),
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
            Self::ErrorPage { .. } => {
                Some("check that the file is there and that this user may read it")
            }
            Self::Realm { .. } => Some("set `access.realm` to printable ASCII characters"),
            Self::ForwardAuth { .. } => Some(
                "check that `ca` of `[site.access.forward]` is a file of certificates in PEM that this user may read",
            ),
            Self::InUse { .. } => Some(
                "check that the files it names are there and that this user may read them, or leave the probe out",
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
            Self::Pool { .. } => None,
        }
    }
}

/// What to try if an address cannot be had, by its key.
fn listen_hint(key: &str, kind: ErrorKind) -> Option<&'static str> {
    Some(match (kind, key) {
        (ErrorKind::AddrInUse, "udp.listen") => {
            "another program listens there: `ss -lunp` shows which; stop it, or write another port at that key"
        }
        (ErrorKind::AddrInUse, _) => {
            "another program listens there: `ss -ltnp` shows which; stop it, or write another port at that key"
        }
        (ErrorKind::PermissionDenied, _) => {
            "ports below 1024 need root or CAP_NET_BIND_SERVICE; write a higher one at that key"
        }
        (ErrorKind::AddrNotAvailable, _) => {
            "this machine has no such address: `ip address` shows those that it has; write one of them at that key"
        }
        _ => return None,
    })
}

fn disk_cache_words(error: &std::io::Error) -> String {
    if error.kind() == ErrorKind::WouldBlock {
        return "another gateway has it open".to_owned();
    }
    error.to_string()
}
