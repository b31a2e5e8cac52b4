//! Accounting of a connection at its end.

use std::net::SocketAddr;

use nightwatt_energy::time::{Mono, Now};
use nightwatt_policy::admission::ClientClass;
use nightwatt_traffic::clf;

use crate::access_log::{Answered, Part};
use crate::admittance::Denial;
use crate::config::UNKNOWN;
use crate::facts::RequestId;
use crate::serving::Serving;

/// A connection at its end.
pub(crate) struct Ended<'a> {
    /// Its place in the line of a request: `TCP` or `UDP`.
    pub(crate) method: &'static str,
    pub(crate) number: u64,
    pub(crate) client: SocketAddr,
    pub(crate) arrived: Now,
    /// Name of the service, and of the site or machine that it is on.
    pub(crate) service: (&'a str, &'a str),
    /// The name that it requested.
    pub(crate) name: Option<&'a str>,
    pub(crate) outcome: &'static str,
    /// Status and answer, if it was not put through.
    pub(crate) refused: (u16, Answered),
    /// When it was put through, or rejected.
    pub(crate) settled: Mono,
    /// How it was put through, if it was.
    pub(crate) through: Option<Answered>,
    /// Bytes to the client.
    pub(crate) bytes: u64,
    /// In shadow mode: how it would have been answered.
    pub(crate) would: Option<&'static str>,
}

impl Ended<'_> {
    /// Writes a line to the access log.
    pub(crate) fn write_down(&self, serving: &Serving) {
        let (service, on) = self.service;
        let client = self.client.ip().to_canonical().to_string();
        let outcome = self.outcome;
        tracing::debug!(service, client, name = self.name, outcome, "a connection ended");
        let Some(log) = &serving.access_log else { return };
        let target = target(service, self.name);
        let (status, answered) = self.through.map_or(self.refused, |it| (200, it));
        let entry = clf::Entry {
            at: self.arrived.wall,
            utc_offset: self.arrived.utc_offset,
            client: &client,
            method: self.method,
            target: &target,
            status,
            bytes: self.bytes,
            referer: None,
            agent: None,
        };
        let rule = match answered {
            Answered::Budget => Some("wakes-per-client"),
            Answered::Denied => Some(Denial::Network.rule()),
            _ => None,
        };
        let part = Part {
            site: on,
            class: ClientClass::Api,
            answered,
            delay: self.settled.since(self.arrived.mono),
            needs_server: service != UNKNOWN,
            from_cache: false,
            would: self.would,
            rule,
            outcome: Some(outcome),
        };
        log.add(&entry, &RequestId { at: self.arrived.wall, number: self.number }, &part);
    }
}

/// The target of a connection for the log: the service, and the requested name.
pub(crate) fn target(service: &str, name: Option<&str>) -> String {
    name.map_or_else(|| service.to_owned(), |name| format!("{service}/{name}"))
}
