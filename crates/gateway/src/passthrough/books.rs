//! Accounting of a connection at its end.

use std::net::SocketAddr;

use nightwatt_energy::time::{Mono, Now};
use nightwatt_policy::admission::ClientClass;
use nightwatt_traffic::clf;

use super::Outcome;
use crate::access::{Answered, Part};
use crate::config::UNKNOWN;
use crate::facts::RequestId;
use crate::serving::Serving;

/// A connection at its end.
pub(super) struct Ended<'a> {
    pub(super) number: u64,
    pub(super) client: SocketAddr,
    pub(super) arrived: Now,
    /// Name of the service, and of the site or machine that it is on.
    pub(super) service: (&'a str, &'a str),
    /// The name that it requested.
    pub(super) name: Option<&'a str>,
    pub(super) outcome: Outcome,
    /// When it was put through, or rejected.
    pub(super) settled: Mono,
    /// How it was put through, if it was.
    pub(super) through: Option<Answered>,
    /// Bytes to the client.
    pub(super) bytes: u64,
    /// In shadow mode: how it would have been answered.
    pub(super) would: Option<&'static str>,
}

impl Ended<'_> {
    /// Writes a line to the access log.
    pub(super) fn write_down(&self, serving: &Serving) {
        let (service, on) = self.service;
        let client = self.client.ip().to_canonical().to_string();
        let outcome = self.outcome.as_str();
        tracing::debug!(service, client, name = self.name, outcome, "a connection ended");
        let Some(log) = &serving.access_log else { return };
        let target = target(service, self.name);
        let (status, answered) = self.through.map_or(self.outcome.in_log(), |it| (200, it));
        let entry = clf::Entry {
            at: self.arrived.wall,
            utc_offset: self.arrived.utc_offset,
            client: &client,
            method: "TCP",
            target: &target,
            status,
            bytes: self.bytes,
            referer: None,
            agent: None,
        };
        let part = Part {
            site: on,
            class: ClientClass::Api,
            answered,
            delay: self.settled.since(self.arrived.mono),
            needs_server: service != UNKNOWN,
            from_cache: false,
            would: self.would,
            rule: (answered == Answered::Budget).then_some("wakes-per-client"),
            outcome: Some(outcome),
        };
        log.add(&entry, &RequestId { at: self.arrived.wall, number: self.number }, &part);
    }
}

/// The target of a connection for the log: the service, and the requested name.
pub(super) fn target(service: &str, name: Option<&str>) -> String {
    name.map_or_else(|| service.to_owned(), |name| format!("{service}/{name}"))
}
