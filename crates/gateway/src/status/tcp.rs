//! Services that are passed through.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A service of `[[tcp]]`, whose connections are passed through; or, with the name `unknown`, connections that were
/// rejected before it was known which service they want.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TcpStatus {
    /// Its name.
    pub name: String,
    /// The site or machine that it runs on; empty for `unknown`.
    pub on: String,
    /// The addresses where it listens.
    pub listen: Vec<String>,
    /// Its names in TLS; none: without TLS.
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
    /// Connections since the start that have ended, by outcome.
    pub outcomes: BTreeMap<String, u64>,
}
