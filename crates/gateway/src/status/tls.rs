//! TLS to clients.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// TLS to clients, as `[tls]` says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TlsStatus {
    /// Where it is listened for.
    pub listen: Vec<String>,
    /// Handshakes since the start that succeeded.
    pub handshakes: u64,
    /// Handshakes since the start that failed, by why.
    pub failures: BTreeMap<String, u64>,
    /// Its certificates.
    pub certificates: Vec<CertificateStatus>,
}

/// A certificate.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CertificateStatus {
    /// Its file.
    pub chain: String,
    /// Names of hosts that it is for.
    pub names: Vec<String>,
    /// The last second in which it is valid, in seconds since 1970; nothing if it cannot be read.
    pub not_after: Option<i64>,
    /// The same for people.
    pub until: Option<String>,
    /// Why clients will not accept it, or why what is in its files now is not used.
    pub problem: Option<String>,
}
