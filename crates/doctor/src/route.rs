//! What the kernel knows of the way to a server, as `ip` tells it.

use std::net::IpAddr;

use serde::Deserialize;

use super::HostView;

/// The way to an address.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Route {
    /// Through a router.
    pub(super) gateway: Option<IpAddr>,
    pub(super) dev: String,
}

#[derive(Debug, Deserialize)]
struct Neighbour {
    lladdr: Option<String>,
}

/// The route to an address; `None` without the program `ip` or without a route.
pub(super) fn to(place: &HostView, address: IpAddr) -> Option<Route> {
    let text = place.ask("ip", &["-json", "route", "get", &address.to_string()])?;
    let routes: Vec<Route> = serde_json::from_str(&text).ok()?;
    routes.into_iter().next()
}

/// The address of its network card, if the kernel has spoken to it.
pub(super) fn card(place: &HostView, address: IpAddr) -> Option<String> {
    let text = place.ask("ip", &["-json", "neigh", "show", "to", &address.to_string()])?;
    let found: Vec<Neighbour> = serde_json::from_str(&text).ok()?;
    found.into_iter().find_map(|it| it.lladdr)
}
