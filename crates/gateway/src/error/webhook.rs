//! Errors of webhooks.

use std::io;
use std::path::PathBuf;

/// Why a webhook cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UnusableWebhook {
    /// The secret cannot be read.
    #[error("`webhook.secret_file` of {webhook}: the secret cannot be read from {path}: {source}")]
    Secret {
        /// The receiver, without what may be secret in its address.
        webhook: String,
        /// Its file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The receiver's certificate cannot be checked.
    #[error("`webhook.ca` of {webhook}: {source}")]
    Trust {
        /// The receiver, without what may be secret in its address.
        webhook: String,
        /// Why.
        source: nightwatt_host::tls::TlsError,
    },
}
