//! Errors of webhooks.

use std::io;
use std::path::PathBuf;

/// Why a webhook cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UnusableWebhook {
    /// The secret cannot be read.
    #[error("the secret of a webhook cannot be read from {path}: {source}")]
    Secret {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The receiver's certificate cannot be checked.
    #[error("a webhook: {0}")]
    Trust(#[from] nightwatt_host::tls::TlsError),
}
