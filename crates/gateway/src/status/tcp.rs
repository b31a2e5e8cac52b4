//! Services that are passed through.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A service whose connections are passed through, as `[[tcp]]` says; or, called `unknown`, connections
/// that were refused before it was known which service they want.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TcpStatus {
    /// Its name.
    pub name: String,
    /// The site or machine on whose server it is; empty for `unknown`.
    pub on: String,
    /// Where it is listened for.
    pub listen: Vec<String>,
    /// By which names in TLS; none: without.
    pub sni: Vec<String>,
    /// Connections put through now.
    pub open: u64,
    /// Of these, connections that do not keep the server awake, since nothing came through them.
    pub quiet: u64,
    /// Connections held now for the server to wake.
    pub held: u64,
    /// Connections since the start that were held.
    pub waited: u64,
    /// Bytes from clients since the start.
    pub received_bytes: u64,
    /// Bytes to clients since the start.
    pub sent_bytes: u64,
    /// Connections since the start that have ended, by what became of them.
    pub outcomes: BTreeMap<String, u64>,
}
