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
    /// The first second in which it is valid, in seconds since 1970; nothing if it cannot be read.
    #[serde(default)]
    pub not_before: Option<i64>,
    /// The last second in which it is valid, in seconds since 1970; nothing if it cannot be read.
    pub not_after: Option<i64>,
    /// The same for people.
    pub until: Option<String>,
    /// It is in the place of one that its authority has yet to give.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_awaited: bool,
    /// Clients do not accept what they get.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_faulty: bool,
    /// The next one was not given by its authority, or cannot be used: what was served before still is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub renewal_failed: bool,
    /// Why clients will not accept it, why what is in its files now is not used, or why its authority gave
    /// no other.
    pub problem: Option<String>,
}
