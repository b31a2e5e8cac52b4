//! Looks up the name of a service, and warns if that fails or is late.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::lookup_host;

use super::Service;
use super::names::{Limits, Place};
use crate::serving::Serving;

/// The address of a service; nothing if its name leads nowhere.
pub(super) async fn address(service: &Service, serving: &Serving) -> Option<SocketAddr> {
    let times = &serving.config.limits;
    let limits = Limits { late: times.connect_timeout, longest: times.hold };
    let place = service.names.find(&serving.clock, limits, |authority| {
        let (tally, clock) = (Arc::clone(&service.tally), serving.clock.clone());
        async move {
            // The name server lives in real time.
            let _debt = clock.owe();
            let found = lookup_host(authority).await.ok().and_then(|mut all| all.next());
            tally.looks_up(found.is_some());
            found
        }
    });
    let place = place.await;
    if let Some(Place::Known(at)) = place {
        return Some(at);
    }
    let (name, origin) = (service.config.name.clone(), service.names.authority().to_owned());
    serving.warn("look-up", &service.config.name, move |count| {
        let hint = "look at the name server, or write an address into `origin`";
        let what = match place {
            Some(Place::Earlier(at)) => format!("is late: the last address, {at}, is used"),
            _ => "finds no address: its datagrams are dropped".to_owned(),
        };
        tracing::warn!(service = name, origin, count, hint, "the look-up of `origin` {what}");
    });
    match place {
        Some(Place::Earlier(at) | Place::Known(at)) => Some(at),
        None => None,
    }
}
