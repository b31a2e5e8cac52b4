//! The cache's memory: bounded in bytes, with an eviction that a scan cannot flush.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::HeaderName;
use nightwatt_httpcache::{
    CacheKey, RequestDirectives, RequestHead, Rules, Stored, Timestamp, Usability,
};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Variants of one resource kept at once; the oldest goes first.
const VARIANTS: usize = 8;

/// An object larger than this part of the cache is not stored.
const LARGEST: u64 = 8;

/// What an entry costs beside its bytes (headers, tables).
const OVERHEAD: u64 = 1024;

/// A stored response.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) stored: Stored,
    pub(crate) body: Bytes,
    /// The answer to a plain request as it goes out, and the second for which it holds.
    prepared: Mutex<Option<(u64, Bytes)>>,
}

impl Object {
    pub(crate) fn new(stored: Stored, body: Bytes) -> Self {
        Self { stored, body, prepared: Mutex::new(None) }
    }

    /// The head of the answer to a plain request, which `make` makes; kept until the second is over,
    /// since `Age` changes then.
    pub(crate) fn prepared(&self, now: Timestamp, make: impl FnOnce() -> Bytes) -> Bytes {
        let second = now.as_millis() / 1000;
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        match &*prepared {
            Some((then, head)) if *then == second => head.clone(),
            _ => prepared.insert((second, make())).1.clone(),
        }
    }
}

/// The responses stored for one resource, which differ by `Vary`.
type Variants = Arc<[Arc<Object>]>;

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<CacheKey, Variants> for ByBytes {
    fn weight(&self, key: &CacheKey, variants: &Variants) -> u64 {
        let bytes: usize = variants.iter().map(|object| object.body.len()).sum();
        (bytes + key.as_str().len()) as u64 + OVERHEAD * variants.len() as u64
    }
}

/// Stored responses by key.
pub(crate) struct Store {
    objects: Cache<CacheKey, Variants, ByBytes>,
    bytes: u64,
}

impl Store {
    pub(crate) fn new(bytes: u64) -> Self {
        // The estimate only sizes tables: a typical object of 16 KiB.
        let items = usize::try_from(bytes / (16 << 10)).unwrap_or(usize::MAX).clamp(64, 1 << 20);
        Self { objects: Cache::with_weighter(items, bytes, ByBytes), bytes }
    }

    /// The largest body worth collecting.
    pub(crate) fn largest(&self) -> u64 {
        self.bytes / LARGEST
    }

    /// The best stored response for a request: a fresh one first, then the latest that may be used
    /// at all.
    pub(crate) fn find(
        &self,
        key: &CacheKey,
        request: &RequestHead<'_>,
        asked: &RequestDirectives,
        now: Timestamp,
        rules: &Rules,
    ) -> Option<(Arc<Object>, Usability)> {
        let variants = self.objects.get(key)?;
        variants
            .iter()
            .map(|object| (object, object.stored.usability(request, asked, now, rules)))
            .filter(|(_, usability)| !matches!(usability, Usability::Unusable(_)))
            .max_by_key(|(object, usability)| {
                (matches!(usability, Usability::Fresh { .. }), object.stored.date())
            })
            .map(|(object, usability)| (Arc::clone(object), usability))
    }

    /// A stored response that answers a plain request (without conditions, ranges and directives) as
    /// it is, if there is one. `values` gives the request's fields of a name; only what is the same to
    /// the letter counts here.
    pub(crate) fn find_plain<'a, V: Iterator<Item = &'a [u8]>>(
        &self,
        key: &str,
        now: Timestamp,
        values: impl Fn(&HeaderName) -> V,
    ) -> Option<Arc<Object>> {
        let variants = self.objects.get(key)?;
        let is_meant = |object: &&Arc<Object>| {
            object.stored.selecting().iter().all(|(name, selected)| {
                let mut values = values(name);
                values.next() == selected && values.next().is_none()
            })
        };
        let object = variants.iter().find(is_meant)?;
        object.stored.answers_plainly(now).then(|| Arc::clone(object))
    }

    /// Stores a response in the place of one with equal selecting fields.
    pub(crate) fn insert(&self, key: CacheKey, object: Object) {
        if object.body.len() as u64 > self.largest() {
            self.remove(&key);
            return;
        }
        let known = self.objects.get(&key);
        let others = known.iter().flat_map(|variants| variants.iter());
        let mut kept: Vec<Arc<Object>> = others
            .filter(|other| other.stored.selecting() != object.stored.selecting())
            .map(Arc::clone)
            .collect();
        if kept.len() >= VARIANTS {
            kept.remove(0);
        }
        kept.push(Arc::new(object));
        self.objects.insert(key, kept.into());
    }

    /// Forgets a resource.
    pub(crate) fn remove(&self, key: &CacheKey) {
        self.objects.remove(key);
    }

    /// Resources stored, and their bytes.
    pub(crate) fn size(&self) -> (usize, u64) {
        (self.objects.len(), self.objects.weight())
    }
}
