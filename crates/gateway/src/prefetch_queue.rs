//! Pages that crawlers did not get while the server slept: they are fetched when it is awake, so that crawlers and
//! later visitors find them in the cache.

use std::sync::{Mutex, MutexGuard, PoisonError};

use http::HeaderMap;
use http::header::ACCEPT_ENCODING;
use nightwatt_httpcache::vary::own_encoding;
use nightwatt_httpcache::{CacheKey, SECURE};
use nightwatt_policy::admission::ClientClass;

use crate::authority::Authority;
use crate::store::Popularity;

/// Maximum number of entries per site. The least popular is dropped first, and of these the oldest.
const MOST: usize = 1024;

/// Maximum number of entries of one client: a client that requests everything does not displace the others.
const MOST_OF_ONE: usize = 128;

/// Maximum length of an address in the queue.
const LONGEST: usize = 1024;

/// A page that a client did not get.
#[derive(Debug, Clone)]
pub(crate) struct Prefetch {
    pub(crate) key: CacheKey,
    /// The coding that suits the first client.
    pub(crate) encoding: &'static str,
    client: u64,
    times: u64,
}

impl Prefetch {
    /// The popularity that it would have if all clients had got the page.
    pub(crate) const fn popularity(&self) -> u64 {
        self.times * Popularity::worth(ClientClass::Crawler)
    }
}

/// Number of hosts remembered under which a site is requested.
const HOSTS: usize = 8;

/// What keys begin with: scheme and host.
#[derive(Debug)]
struct Base {
    text: String,
    /// Bases with a port are rare: such a base never replaces one without.
    has_port: bool,
    /// How many more requests used it than those that it competes with (the algorithm of Misra and Gries, 1982): bases
    /// of visitors stay, whatever others a stranger uses.
    lead: u32,
}

/// The prefetch queue of one site.
#[derive(Debug, Default)]
pub(crate) struct PrefetchQueue {
    /// Oldest first.
    pages: Mutex<Vec<Prefetch>>,
    bases: Mutex<Vec<Base>>,
}

impl PrefetchQueue {
    fn lock(&self) -> MutexGuard<'_, Vec<Prefetch>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the site is requested under this base.
    pub(crate) fn note_base(&self, base: &str) {
        let mut bases = self.bases.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = bases.iter_mut().find(|known| known.text == base) {
            known.lead = known.lead.saturating_add(1);
            return;
        }
        let new = Base { text: base.to_owned(), has_port: has_port(base), lead: 1 };
        if bases.len() >= HOSTS {
            let Some(place) = place_for(&new, &mut bases) else { return };
            bases.remove(place);
        }
        bases.push(new);
    }

    /// The bases of the site's keys.
    pub(crate) fn bases(&self) -> Vec<String> {
        let bases = self.bases.lock().unwrap_or_else(PoisonError::into_inner);
        bases.iter().map(|base| base.text.clone()).collect()
    }

    /// Notes that this client (a hash of its address) did not get the page.
    pub(crate) fn add(&self, key: &CacheKey, headers: &HeaderMap, client: u64) {
        let accepted = headers.get_all(ACCEPT_ENCODING).iter().map(http::HeaderValue::as_bytes);
        let Some(encoding) = own_encoding(accepted) else { return };
        if key.as_str().len() > LONGEST {
            return;
        }
        let mut queue = self.lock();
        if let Some(known) = queue.iter_mut().find(|wish| wish.key == *key) {
            known.times = known.times.saturating_add(1);
            return;
        }
        let of_client = queue.iter().filter(|wish| wish.client == client).count();
        if of_client >= MOST_OF_ONE {
            drop_least(&mut queue, |wish| wish.client == client);
        } else if queue.len() >= MOST {
            drop_least(&mut queue, |_| true);
        }
        queue.push(Prefetch { key: key.clone(), encoding, client, times: 1 });
    }

    /// The entries, newest first.
    pub(crate) fn all(&self) -> Vec<Prefetch> {
        self.lock().iter().rev().cloned().collect()
    }

    /// Removes an entry: it is being fetched, or need not be.
    pub(crate) fn remove(&self, key: &CacheKey) {
        self.lock().retain(|wish| wish.key != *key);
    }
}

/// Which base makes room for a new one, if one does.
fn place_for(new: &Base, bases: &mut [Base]) -> Option<usize> {
    let with_port = bases.iter().enumerate().filter(|(_, known)| known.has_port);
    if !new.has_port
        && let Some((place, _)) = with_port.min_by_key(|(_, known)| known.lead)
    {
        return Some(place);
    }
    let rivals = bases.iter_mut().filter(|known| known.has_port == new.has_port);
    rivals.for_each(|known| known.lead = known.lead.saturating_sub(1));
    bases.iter().position(|known| known.has_port == new.has_port && known.lead == 0)
}

/// Whether a base names a port.
fn has_port(base: &str) -> bool {
    let host = base.strip_prefix(SECURE).unwrap_or(base);
    Authority::parse(host).is_some_and(|it| it.port.is_some())
}

fn drop_least(queue: &mut Vec<Prefetch>, is_meant: impl Fn(&Prefetch) -> bool) {
    let meant = queue.iter().enumerate().filter(|(_, wish)| is_meant(wish));
    // The first of the least: the oldest.
    if let Some((place, _)) = meant.min_by_key(|(_, wish)| wish.times) {
        queue.remove(place);
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_httpcache::KeyRules;

    use super::*;

    fn key(path: &str) -> CacheKey {
        KeyRules::default().key("example.org", path).unwrap()
    }

    fn wish(queue: &PrefetchQueue, path: &str, client: u64) {
        queue.add(&key(path), &HeaderMap::new(), client);
    }

    fn paths(queue: &PrefetchQueue) -> Vec<String> {
        let path =
            |wish: Prefetch| wish.key.as_str().strip_prefix("example.org").unwrap().to_owned();
        queue.all().into_iter().map(path).collect()
    }

    #[test]
    fn the_newest_are_kept_and_those_wished_for_twice() {
        let queue = PrefetchQueue::default();
        for number in 0..MOST {
            wish(&queue, &format!("/{number}"), number as u64);
        }
        wish(&queue, "/0", 7);
        wish(&queue, "/new", 8);
        let paths = paths(&queue);
        assert_eq!(paths.len(), MOST);
        assert_eq!(paths[0], "/new");
        // The second oldest made room: the oldest was requested again.
        assert_eq!(paths[MOST - 2..], ["/2", "/0"]);
    }

    #[test]
    fn one_client_pushes_out_nobodys_wishes_but_its_own() {
        let queue = PrefetchQueue::default();
        wish(&queue, "/wanted", 1);
        for number in 0..10_000 {
            wish(&queue, &format!("/{number}"), 2);
        }
        let paths = paths(&queue);
        assert_eq!(paths.len(), 1 + MOST_OF_ONE);
        assert_eq!((paths[0].as_str(), paths.last().unwrap().as_str()), ("/9999", "/wanted"));
    }

    #[test]
    fn only_the_coding_is_kept_of_a_request() {
        let queue = PrefetchQueue::default();
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("accept-language", "de"),
            ("accept-encoding", "br, gzip"),
            ("cookie", "session=1"),
            ("user-agent", "Bot"),
            ("x-api-key", "k"),
            ("from", "me@example.org"),
        ] {
            headers.insert(name, http::HeaderValue::from_static(value));
        }
        queue.add(&key("/a"), &headers, 1);
        assert_eq!(queue.all().remove(0).encoding, "gzip");
    }

    #[test]
    fn hosts_that_visitors_use_stay_whatever_strangers_ask_by() {
        let queue = PrefetchQueue::default();
        for port in 1..100 {
            queue.note_base(&format!("x.test:{port}"));
        }
        queue.note_base("x.test");
        queue.note_base("https://x.test");
        for number in 0..100 {
            queue.note_base(&format!("x.test:{number}"));
            queue.note_base(&format!("e{number}.test"));
            queue.note_base("x.test");
            queue.note_base("https://x.test");
        }
        let bases = queue.bases();
        assert!(bases.len() <= HOSTS);
        assert!(["x.test", "https://x.test"].iter().all(|it| bases.iter().any(|base| base == it)));
    }

    #[test]
    fn what_is_too_long_is_not_wished_for() {
        let queue = PrefetchQueue::default();
        wish(&queue, &format!("/{}", "x".repeat(LONGEST)), 1);
        assert!(queue.all().is_empty());
    }
}
