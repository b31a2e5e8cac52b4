//! The cache's memory: limited in bytes, with an eviction policy that a scan cannot flush.
//!
//! It also tracks requests to the server: an answer to a request that was sent before its resource was forgotten is too
//! old to be stored.

mod collecting;
mod from_disk;
mod popularity;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::HeaderName;
use nightwatt_clock::Clock;
use nightwatt_httpcache::vary::PlainMatch;
use nightwatt_httpcache::{
    CacheKey, Filler, Purge, RequestDirectives, RequestHead, Rules, Sender, Stored, Timestamp,
    Usability,
};
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, OptionsBuilder, Weighter};

pub(crate) use self::collecting::Collecting;
pub(crate) use self::popularity::{Popularity, Requester};
use crate::disk_cache::record::{Body, variant};
use crate::disk_cache::{Forgotten, SiteDisk};

/// Now, as the cache counts it.
pub(crate) fn timestamp(clock: &Clock) -> Timestamp {
    Timestamp::from_millis(u64::try_from(clock.now().wall.0).unwrap_or(0))
}

/// Variants of one resource kept at once; the oldest goes first.
const VARIANTS: usize = 8;

/// The variants of a resource use at most this part of the cache (1/8).
const LARGEST: u64 = 8;

/// All pinned resources together use at most this part (1/8).
const PINNED: u64 = 8;

/// Answers being collected use at most this part of the cache's size (1/4), besides what is stored.
const COLLECTED: u64 = 4;

/// Number of shards, each with a lock. Each has its share of the bytes, so that it must have room for the largest
/// resource and all pinned ones at once.
const SHARDS: usize = 4;

/// Memory that an object uses besides its bytes: tables, and values computed from its fields.
const OVERHEAD: u64 = 1024;

/// Memory that a field uses besides its text.
const FIELD: u64 = 128;

/// A stored response.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) stored: Stored,
    pub(crate) body: Bytes,
    weight: u64,
    pub(crate) popularity: Popularity,
    /// When its last renewal was tried, in milliseconds since 1970; 0: never.
    pub(crate) tried: AtomicU64,
    /// Where its body is on the disk, if it is.
    pub(crate) body_on_disk: Option<Body>,
    /// The answer to a plain request as sent, and the second for which it is valid.
    prepared: Mutex<Option<(u64, Bytes)>>,
}

impl Object {
    pub(crate) fn new(stored: Stored, body: Bytes) -> Self {
        let weight = weight(&stored, &body);
        let (popularity, tried) = (Popularity::default(), AtomicU64::new(0));
        let (body_on_disk, prepared) = (None, Mutex::new(None));
        Self { stored, body, weight, popularity, tried, body_on_disk, prepared }
    }

    /// The head of the answer to a plain request, made by `make`; kept until the second is over, since `Age` changes
    /// then.
    pub(crate) fn prepared(&self, now: Timestamp, make: impl FnOnce() -> Bytes) -> Bytes {
        let second = now.as_millis() / 1000;
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        match &*prepared {
            Some((then, head)) if *then == second => head.clone(),
            _ => prepared.insert((second, make())).1.clone(),
        }
    }
}

/// Memory that a response uses, approximately.
fn weight(stored: &Stored, body: &Bytes) -> u64 {
    let fields = stored.headers().iter();
    let text: usize = fields.map(|(name, value)| name.as_str().len() + value.len()).sum();
    let selecting: usize =
        stored.selecting().iter().map(|(_, value)| value.map_or(0, <[u8]>::len)).sum();
    // The text counts twice: the prepared head is kept as well.
    let bytes = body.len() + 2 * text + selecting;
    bytes as u64 + FIELD * stored.headers().len() as u64 + OVERHEAD
}

/// The responses stored for one resource, which differ by `Vary`.
#[derive(Debug, Clone)]
struct Entry {
    variants: Arc<[Arc<Object>]>,
    /// Never evicted.
    pinned: bool,
}

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<CacheKey, Entry> for ByBytes {
    fn weight(&self, key: &CacheKey, entry: &Entry) -> u64 {
        let objects: u64 = entry.variants.iter().map(|object| object.weight).sum();
        objects + key.as_str().len() as u64
    }
}

#[derive(Debug, Clone)]
struct Pins;

impl Lifecycle<CacheKey, Entry> for Pins {
    type RequestState = ();

    fn is_pinned(&self, _: &CacheKey, entry: &Entry) -> bool {
        entry.pinned
    }
}

/// Stored responses by key.
pub(crate) struct Store {
    objects: Cache<CacheKey, Entry, ByBytes, DefaultHashBuilder, Pins>,
    bytes: u64,
    /// Locked whenever something is stored or forgotten, so that the two never overtake each other.
    state: Mutex<StoreState>,
    /// Bytes of answers that are being collected.
    collected: AtomicU64,
    /// The disk behind it.
    disk: Option<SiteDisk>,
}

#[derive(Debug, Default)]
struct StoreState {
    /// Requests at the server whose answers may be stored.
    in_flight: HashMap<CacheKey, InFlight>,
    last: u64,
    /// Weights of pinned resources. They are never evicted, so all of them are in the cache.
    pinned: HashMap<CacheKey, u64>,
}

/// The requests for one resource that are under way.
#[derive(Debug, Default)]
struct InFlight {
    count: usize,
    /// Requests up to this number were sent before the resource was forgotten: their answers are too old.
    too_late: u64,
    /// Except this one, whose answer revealed the change.
    spared: Option<u64>,
}

impl InFlight {
    fn is_too_late(&self, number: u64) -> bool {
        number <= self.too_late && self.spared != Some(number)
    }

    /// The resource is forgotten; `last` is the number of the last request that was sent.
    fn forget(&mut self, last: u64, but: Option<u64>) {
        self.spared = but.filter(|number| !self.is_too_late(*number));
        self.too_late = last;
    }
}

/// Permission to store the answer to a request that goes to the server now.
pub(crate) struct Ticket {
    store: Arc<Store>,
    key: CacheKey,
    number: u64,
    requester: Requester,
    filler: Filler,
}

impl Store {
    pub(crate) fn new(bytes: u64, disk: Option<SiteDisk>) -> Self {
        // The estimate only sizes tables: a typical object of 16 KiB.
        let items = usize::try_from(bytes / (16 << 10)).unwrap_or(usize::MAX).clamp(64, 1 << 20);
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity(items)
            .weight_capacity(bytes)
            .build()
            .expect("both capacities are given");
        let objects = Cache::with_options(options, ByBytes, DefaultHashBuilder::default(), Pins);
        Self { objects, bytes, state: Mutex::default(), collected: AtomicU64::new(0), disk }
    }

    fn state(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The largest body worth collecting.
    pub(crate) fn largest(&self) -> u64 {
        self.bytes / LARGEST
    }

    /// The best stored response for a request: a fresh one first, then the latest that may be used at all.
    pub(crate) fn find(
        &self,
        key: &CacheKey,
        sender: Sender,
        request: &RequestHead<'_>,
        asked: &RequestDirectives,
        now: Timestamp,
        rules: &Rules,
    ) -> Option<(Arc<Object>, Usability)> {
        let entry = self.objects.get(key)?;
        let variants = entry.variants.iter();
        variants
            .map(|object| (object, object.stored.usability_for(sender, request, asked, now, rules)))
            .filter(|(_, usability)| !matches!(usability, Usability::Unusable(_)))
            .max_by_key(|(object, usability)| {
                (matches!(usability, Usability::Fresh { .. }), object.stored.date())
            })
            .map(|(object, usability)| (Arc::clone(object), usability))
    }

    /// A stored response that answers a plain request (without conditions, ranges and directives) unchanged, if there
    /// is one. `values` returns the request's fields with a name; only literal equality counts here.
    pub(crate) fn find_plain<'a, V: Iterator<Item = &'a [u8]>>(
        &self,
        key: &str,
        sender: Sender,
        now: Timestamp,
        rules: &Rules,
        values: impl Fn(&HeaderName) -> V,
    ) -> Option<Arc<Object>> {
        let entry = self.objects.get(key)?;
        let mut best: Option<&Arc<Object>> = None;
        let [mut is_exact, mut is_unclear] = [false; 2];
        for object in entry.variants.iter() {
            match object.stored.selecting().compare_plainly(&values) {
                PlainMatch::None => continue,
                PlainMatch::Unknown => {
                    is_unclear = true;
                    continue;
                }
                PlainMatch::Exact => is_exact = true,
                PlainMatch::ByEncoding => {}
            }
            if best.is_none_or(|best| best.stored.date() <= object.stored.date()) {
                best = Some(object);
            }
        }
        // No two variants have the same normal form: beside an equal one there is no other.
        let object = best.filter(|_| is_exact || !is_unclear)?;
        object.stored.answers_plainly(sender, now, rules).then(|| Arc::clone(object))
    }

    /// Whether anything is stored under this key, here or on the disk.
    pub(crate) fn knows(&self, key: &CacheKey, now: Timestamp) -> bool {
        self.objects.peek(key).is_some() || self.is_on_disk_only(key, now)
    }

    /// Whether what is stored under this key is worth more than `answer`: anything but an error if that is an error,
    /// and a page if that is a redirect.
    fn has_a_page_before(&self, key: &CacheKey, answer: &Stored) -> bool {
        let status = answer.status();
        let is_error = status.is_client_error() || status.is_server_error();
        if !is_error && !status.is_redirection() {
            return false;
        }
        let is_worth_more = |object: &Arc<Object>| {
            let known = object.stored.status();
            is_error && known.is_redirection()
                || known.is_success()
                    && (is_error || object.stored.selecting() == answer.selecting())
        };
        let is_there = |entry: Entry| entry.variants.iter().any(is_worth_more);
        self.objects.peek(key).map_or_else(
            || is_error && self.is_on_disk_only(key, answer.times().received),
            is_there,
        )
    }

    /// Every stored response with its key, in no order. What is stored or forgotten meanwhile may be included or not.
    /// Being listed does not count as use.
    pub(crate) fn all(&self) -> impl Iterator<Item = (CacheKey, Arc<Object>)> + Send + '_ {
        let variants = |entry: Entry| -> Vec<_> { entry.variants.iter().map(Arc::clone).collect() };
        self.objects.iter().flat_map(move |(key, entry)| {
            variants(entry).into_iter().map(move |object| (key.clone(), object))
        })
    }

    /// The size limit of the cache, in bytes.
    pub(crate) const fn room(&self) -> u64 {
        self.bytes
    }

    /// Must be called before a request for this resource goes to the server.
    pub(crate) fn ask(self: &Arc<Self>, key: CacheKey, requester: Requester) -> Ticket {
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        if let Some(requests) = state.in_flight.get_mut(&key) {
            requests.count += 1;
        } else {
            state.in_flight.insert(key.clone(), InFlight { count: 1, ..InFlight::default() });
        }
        drop(state);
        Ticket { store: Arc::clone(self), key, number, requester, filler: Filler::Client }
    }

    /// Forgets resources that have changed. Answers to all earlier requests are too old now, except `but`, the one that
    /// revealed the change. If a client's request caused it, wait for the result before answering the client.
    pub(crate) fn forget(&self, keys: &[CacheKey], but: Option<&Ticket>) -> Forgotten {
        if keys.is_empty() {
            return Forgotten::nothing();
        }
        let mut state = self.state();
        for key in keys {
            state.too_late(key, but);
            state.pinned.remove(key);
            self.objects.remove(key);
        }
        self.disk.as_ref().map_or(Forgotten::nothing(), |disk| disk.forget(keys))
    }

    /// Forgets what the operator purges, stored or being fetched; returns how many resources were stored, in memory or
    /// on the disk.
    pub(crate) fn purge(&self, purge: &Purge) -> (usize, Forgotten) {
        self.purge_both(purge, |disk| disk.purge(purge))
    }

    /// Forgets everything as [`Store::purge`] does, but does not record it on the disk.
    pub(crate) fn purge_untold(&self) -> usize {
        self.purge_both(&Purge::All, SiteDisk::purge_untold).0
    }

    fn purge_both(
        &self,
        purge: &Purge,
        on_disk: impl FnOnce(&SiteDisk) -> (Vec<String>, Forgotten),
    ) -> (usize, Forgotten) {
        let mut state = self.state();
        let last = state.last;
        for (_, requests) in state.in_flight.iter_mut().filter(|(key, _)| purge.covers(key)) {
            requests.forget(last, None);
        }
        state.pinned.retain(|key, _| !purge.covers(key));
        let covered = self.objects.iter().map(|(key, _)| key).filter(|key| purge.covers(key));
        let covered: HashSet<CacheKey> = covered.collect();
        // First in memory: the writer may put what is there on the disk at any moment.
        self.objects.retain(|key, _| !purge.covers(key));
        let (keys, forgotten) = match &self.disk {
            Some(disk) => on_disk(disk),
            None => (Vec::new(), Forgotten::nothing()),
        };
        let only_there = keys.iter().filter(|key| !covered.contains(key.as_str()));
        (covered.len() + only_there.count(), forgotten)
    }

    /// Stores a response in place of one with equal selecting fields.
    fn insert(
        &self,
        state: &mut StoreState,
        key: &CacheKey,
        mut object: Object,
        requester: Requester,
    ) {
        let largest = self.largest();
        if object.weight > largest || !object.stored.is_whole_with(object.body.len() as u64) {
            state.pinned.remove(key);
            self.objects.remove(key);
            // No client was notified of a change: do not wait for the disk.
            drop(self.disk.as_ref().map(|disk| disk.forget(std::slice::from_ref(key))));
            return;
        }
        let known = self.objects.peek(key);
        let known = known.iter().flat_map(|entry| entry.variants.iter()).map(Arc::clone);
        let (replaced, mut kept): (Vec<_>, Vec<_>) =
            known.partition(|other| other.stored.selecting() == object.stored.selecting());
        object.popularity = Popularity::of(replaced.first().map(|it| &it.popularity), requester);
        let id = variant(object.stored.selecting().iter());
        if let Some(disk) = &self.disk {
            // A confirmed answer has the body that it had, which may have been written since.
            let has_it = |it: &&Arc<Object>| it.body.as_ptr() == object.body.as_ptr();
            let confirmed = replaced.iter().find(has_it);
            object.body_on_disk = confirmed.and_then(|it| disk.body(key, id).or(it.body_on_disk));
        }
        kept.push(Arc::new(object));
        self.keep(state, key, kept);
        // Only now: until here the older one could be written as the one in memory.
        if let Some(disk) = &self.disk {
            disk.outdate(key, id);
        }
    }

    /// Keeps these variants of a resource, the latest ones if there are too many.
    fn keep(&self, state: &mut StoreState, key: &CacheKey, mut kept: Vec<Arc<Object>>) {
        let largest = self.largest();
        let pins = kept.last().is_some_and(|object| object.stored.is_pinned());
        let mut weight: u64 = kept.iter().map(|object| object.weight).sum();
        while kept.len() > VARIANTS || weight > largest {
            weight -= kept.remove(0).weight;
        }
        let pinned = pins && state.pin(key, weight, self.bytes / PINNED);
        self.objects.insert(key.clone(), Entry { variants: kept.into(), pinned });
    }

    /// Resources stored, and their bytes.
    pub(crate) fn size(&self) -> (usize, u64) {
        (self.objects.len(), self.objects.weight())
    }

    /// Reserves room for more bytes of answers being collected; false if there is no room.
    fn reserve(&self, bytes: u64) -> bool {
        let most = self.bytes / COLLECTED;
        let more = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= most);
        self.collected.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn release(&self, bytes: u64) {
        self.collected.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl StoreState {
    /// Answers to earlier requests for this resource are too old now, except the one that revealed the change.
    fn too_late(&mut self, key: &CacheKey, but: Option<&Ticket>) {
        let (last, but) = (self.last, but.map(|but| but.number));
        if let Some(requests) = self.in_flight.get_mut(key) {
            requests.forget(last, but);
        }
    }

    /// Whether the answer to this request may still be stored.
    fn is_in_time(&self, ticket: &Ticket) -> bool {
        self.in_flight.get(&ticket.key).is_some_and(|requests| !requests.is_too_late(ticket.number))
    }

    /// Notes a resource as pinned, unless all of them would then use more than `most`.
    fn pin(&mut self, key: &CacheKey, weight: u64, most: u64) -> bool {
        self.pinned.remove(key);
        let fits = self.pinned.values().sum::<u64>() + weight <= most;
        if fits {
            self.pinned.insert(key.clone(), weight);
        }
        fits
    }
}

impl Ticket {
    /// The same, for a request that this one sends.
    pub(crate) const fn filled_by(mut self, filler: Filler) -> Self {
        self.filler = filler;
        self
    }

    /// Stores the answer, unless its resource was forgotten since the request. An error that a client gets never
    /// replaces a page, nor does a redirect: the proxy requests the page by itself.
    pub(crate) fn store(&self, object: Object) {
        let mut state = self.store.state();
        if self.filler == Filler::Client && self.store.has_a_page_before(&self.key, &object.stored)
        {
            return;
        }
        if state.is_in_time(self) {
            self.store.insert(&mut state, &self.key, object, self.requester);
        }
    }

    /// The answer says that the resource must not be cached, and nothing of it is stored: answers to earlier requests
    /// of others are too old.
    pub(crate) fn condemns_others(&self) {
        self.store.state().too_late(&self.key, Some(self));
    }

    /// Whether the same is being fetched for another client.
    pub(crate) fn has_company(&self) -> bool {
        self.store.state().in_flight.get(&self.key).is_some_and(|requests| requests.count > 1)
    }

    /// Forgets the resource, since the answer says so.
    pub(crate) fn forget(&self) {
        // No client relies on it: do not wait for the disk.
        drop(self.store.forget(std::slice::from_ref(&self.key), Some(self)));
    }

    /// Collects the answer's body, to store it when it is complete. `bytes` is its known length.
    pub(crate) fn collect(self, stored: Stored, bytes: u64) -> Option<Collecting> {
        (bytes <= self.store.largest()).then(|| Collecting::new(self, stored, bytes))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.store.state();
        if let Some(requests) = state.in_flight.get_mut(&self.key) {
            requests.count -= 1;
            if requests.count == 0 {
                state.in_flight.remove(&self.key);
            }
        }
    }
}
