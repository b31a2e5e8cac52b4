//! TLS to clients.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// TLS to clients, of `[tls]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TlsStatus {
    /// The addresses where it listens.
    pub listen: Vec<String>,
    /// Handshakes since the start that succeeded.
    pub handshakes: u64,
    /// Handshakes since the start that failed, by reason.
    pub failures: BTreeMap<String, u64>,
    /// Its certificates.
    pub certificates: Vec<CertificateStatus>,
}

/// A certificate.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CertificateStatus {
    /// Its file.
    pub chain: String,
    /// Where it comes from: `file` (others write its files), `acme` (an authority issued it to nightwatt), `stand-in`
    /// (what is served until its authority issues it).
    #[serde(default)]
    pub kind: String,
    /// Host names that it is valid for.
    pub names: Vec<String>,
    /// The first second in which it is valid, in seconds since 1970; nothing if it cannot be read.
    #[serde(default)]
    pub not_before: Option<i64>,
    /// The last second in which it is valid, in seconds since 1970; nothing if it cannot be read.
    pub not_after: Option<i64>,
    /// The same as text; nothing for one that nightwatt made itself, since that is valid for ever.
    pub until: Option<String>,
    /// It is a temporary one, until its authority issues the real one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_awaited: bool,
    /// Clients do not accept the certificate that they get.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_faulty: bool,
    /// The next one was not issued by its authority, or cannot be used: the previous one is still served.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub renewal_failed: bool,
    /// When it will be renewed, if an authority issues it by ACME.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewal: Option<RenewalStatus>,
    /// Why clients will not accept it, why what is in its files now is not used, or why its authority issued no other
    /// one.
    pub problem: Option<String>,
}

/// When a certificate will be renewed, in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewalStatus {
    /// When it will be renewed.
    pub at: i64,
    /// The same as text.
    pub at_text: String,
    /// The begin of the time in which its authority wants it renewed (ARI, RFC 9773), if the authority says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<i64>,
    /// The end of that time; `at` is a random moment in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
    /// Where the authority explains its suggestion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
}
