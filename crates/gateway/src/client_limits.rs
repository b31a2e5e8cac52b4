//! Limits per client: connections and held requests at once, and requests per time. Rejecting a request here costs next
//! to nothing.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nightwatt_energy::time::Mono;
use nightwatt_host::lock;
use nightwatt_policy::rate::RateLimiter;
use nightwatt_traffic::ClientKey;
use tokio::sync::Semaphore;

use crate::config::{Config, Network, SPOOL_BLOCK};
use crate::places::{Place, Places};

/// The limits of clients, and how much of them each client uses.
#[derive(Debug)]
pub(crate) struct ClientLimits {
    requests: Option<Mutex<RateLimiter>>,
    connections: Share,
    held: Share,
    /// Memory for the bodies of all held requests together, in blocks of [`SPOOL_BLOCK`] bytes.
    spool: Arc<Semaphore>,
    spool_blocks: usize,
    /// Proxies that speak for many clients: the limits per client do not apply to them.
    exempt: Vec<Network>,
}

/// The places of one kind that each client may have at once.
#[derive(Debug)]
struct Share {
    /// Limit per client; `0`: none.
    most: usize,
    places: Places,
}

impl ClientLimits {
    pub(crate) fn new(config: &Config) -> Self {
        let limits = &config.limits;
        let spool_blocks = limits.spool_total_bytes / SPOOL_BLOCK;
        let share = |most| Share { most, places: Places::default() };
        Self {
            requests: limits.requests_per_client.map(|rate| Mutex::new(RateLimiter::new(rate))),
            connections: share(limits.connections_per_client),
            held: share(limits.held_per_client),
            spool: Arc::new(Semaphore::new(spool_blocks)),
            spool_blocks,
            exempt: config.trusted_proxies.clone(),
        }
    }

    pub(crate) fn is_exempt(&self, address: IpAddr) -> bool {
        self.exempt.iter().any(|network| network.contains(address))
    }

    /// Counts a request of `client` at `address`. If it exceeds the rate, returns how long it comes too early.
    pub(crate) fn too_early(&self, now: Mono, address: IpAddr, client: u64) -> Option<Duration> {
        let requests = self.requests.as_ref()?;
        if self.is_exempt(address) {
            return None;
        }
        lock(requests).admit(now, client).err()
    }

    /// Whether a request of `client` at `address` may come now, without counting it.
    pub(crate) fn may(&self, now: Mono, address: IpAddr, client: u64) -> bool {
        let requests = self.requests.as_ref().filter(|_| !self.is_exempt(address));
        requests.is_none_or(|requests| lock(requests).may(now, client).is_ok())
    }

    /// Counts a request that came when it [`may`](Self::may).
    pub(crate) fn count(&self, now: Mono, address: IpAddr, client: u64) {
        let _ = self.too_early(now, address, client);
    }

    /// A connection from `address`: returns a permit to keep as long as it is open, or none at the limit of that
    /// client.
    pub(crate) fn connect(&self, address: IpAddr) -> Option<Place> {
        self.place(&self.connections, address, ClientKey::from(address).number())
    }

    /// A request of `client` at `address` that has to wait for a server: returns a permit to keep as long as it waits,
    /// or none at the limit of that client.
    pub(crate) fn wait(&self, address: IpAddr, client: u64) -> Option<Place> {
        self.place(&self.held, address, client)
    }

    fn place(&self, share: &Share, address: IpAddr, client: u64) -> Option<Place> {
        if share.most == 0 || self.is_exempt(address) {
            return Some(Place::unbounded());
        }
        share.places.take(client, share.most)
    }

    /// Memory for the bodies of held requests.
    pub(crate) fn spool(&self) -> &Arc<Semaphore> {
        &self.spool
    }

    /// Bytes of that memory in use.
    pub(crate) fn spooled(&self) -> usize {
        (self.spool_blocks - self.spool.available_permits()) * SPOOL_BLOCK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(lines: &str) -> Arc<ClientLimits> {
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\ntrusted_proxies = [\"10.0.0.0/8\"]\n[limits]\n{lines}\n\
             [[site]]\nname = \"blog\"\norigin = \"http://127.0.0.1:1\"\npower.simulated = {{}}\n"
        );
        Arc::new(ClientLimits::new(&Config::parse(&text, "test").unwrap()))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_client_has_its_connections_and_a_place_comes_free_with_each_that_ends() {
        let limits = limits("connections_per_client = 2");
        let connect = |address: &str| limits.connect(ip(address));
        let first = connect("192.0.2.1").expect("room");
        let _second = connect("::ffff:192.0.2.1").expect("room");
        assert!(connect("192.0.2.1").is_none());
        assert!(connect("192.0.2.2").is_some(), "others are not concerned");
        drop(first);
        assert!(connect("192.0.2.1").is_some());
    }

    #[test]
    fn waiting_requests_have_a_bound_of_their_own_that_trusted_proxies_do_not_have() {
        let limits = limits("held_per_client = 1\nconnections_per_client = 1");
        let _open = limits.connect(ip("192.0.2.1")).expect("room");
        let wait = |address: &str, client| limits.wait(ip(address), client);
        let first = wait("192.0.2.1", 7).expect("room");
        assert!(wait("192.0.2.1", 7).is_none());
        assert!(wait("192.0.2.2", 8).is_some(), "others are not concerned");
        assert!((0..5).all(|_| wait("10.1.2.3", 9).is_some()), "a trusted proxy");
        drop(first);
        assert!(wait("192.0.2.1", 7).is_some());
    }

    #[test]
    fn a_network_of_64_bits_is_one_client() {
        let limits = limits("connections_per_client = 1");
        let _first = limits.connect(ip("2001:db8:0:1::1")).expect("room");
        assert!(limits.connect(ip("2001:db8:0:1:ffff::2")).is_none());
        assert!(limits.connect(ip("2001:db8:0:2::1")).is_some());
    }

    #[test]
    fn proxies_that_are_believed_and_no_limit_at_all_let_everything_through() {
        for (limits, address) in [
            (limits("connections_per_client = 1"), "10.1.2.3"),
            (limits("connections_per_client = 0"), "192.0.2.1"),
        ] {
            let places: Vec<_> = (0..5).map(|_| limits.connect(ip(address))).collect();
            assert!(places.iter().all(Option::is_some));
        }
        let limited = limits("requests_per_client = \"1/s\"");
        let asks = |address: &str| limited.too_early(Mono::ZERO, ip(address), 7);
        assert_eq!((asks("10.1.2.3"), asks("10.1.2.3")), (None, None));
        assert_eq!(asks("192.0.2.1"), None);
        assert_eq!(asks("192.0.2.1"), Some(Duration::from_secs(1)));
        assert_eq!(limits("").too_early(Mono::ZERO, ip("192.0.2.1"), 7), None, "off by default");
    }
}
