//! What a cache holds: a plain list for as long as all of it fits, then a table that evicts.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use nightwatt_energy::time::Mono;
use quick_cache::Weighter;
use quick_cache::unsync::{Cache, DefaultLifecycle};

/// What an entry costs beside the body: what the gateway's store reckons for tables and fields.
const OVERHEAD: u64 = 2 * 1024;

/// Of the bytes, how much the plain list takes: the evicting table treats all entries alike up to 97 %.
const PLAIN: (u64, u64) = (9, 10);

/// How often an entry was asked for, as far as the evicting table counts it.
const MOST_REQUESTS: u8 = 2;

/// Resources that are numbered, some 2 MB of numbers.
const SLOTS: usize = 1 << 17;

/// The number of a resource among those of a log: what is kept of it has room in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(u32);

impl Slot {
    /// It has no number.
    pub const NONE: Self = Self(u32::MAX);

    /// As a number, which is small; none for [`Slot::NONE`].
    pub fn number(self) -> Option<usize> {
        (self != Self::NONE).then(|| self.index())
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The numbers of resources, once for any number of caches: the first 131,072 (2^17) that may be stored
/// have one.
#[derive(Debug, Default)]
pub struct Slots(HashMap<u64, Slot, FixedState>);

impl Slots {
    /// The number of the resource with this key, a new one where it `may_be_stored`.
    pub fn of(&mut self, key: u64, may_be_stored: bool) -> Slot {
        let next = Slot(self.0.len() as u32);
        if may_be_stored && next.index() < SLOTS {
            return *self.0.entry(key).or_insert(next);
        }
        self.0.get(&key).copied().unwrap_or(Slot::NONE)
    }
}

/// A stored answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// When it was fetched.
    pub(crate) fetched: Mono,
    /// Bytes of its body.
    pub(crate) bytes: u64,
}

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<u64, Entry> for ByBytes {
    fn weight(&self, _: &u64, entry: &Entry) -> u64 {
        weight(entry.bytes)
    }
}

const fn weight(bytes: u64) -> u64 {
    bytes + OVERHEAD
}

type Evicting = Cache<u64, Entry, ByBytes, FixedState, DefaultLifecycle<u64, Entry>>;

/// The entries, bounded in bytes, with the eviction of the gateway's store.
///
/// Most logs ask for less than a cache holds, and then nothing is ever evicted. Until something could
/// be, or something without a [`Slot`] comes, a list by slot says the same in a fraction of the time.
/// Then all goes over into a table that evicts, in the order in which it came and as often asked for:
/// from there on it is as if the list had never been (tested).
pub(crate) struct Entries {
    bytes: u64,
    kept: Kept,
}

enum Kept {
    Plain(Plain),
    Evicting(Box<Evicting>),
}

impl Entries {
    /// None, in a cache of this many bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        Self { bytes, kept: Kept::Plain(Plain::default()) }
    }

    #[inline]
    pub(crate) fn get(&mut self, key: u64, slot: Slot) -> Option<Entry> {
        match &mut self.kept {
            Kept::Plain(plain) => plain.get(slot),
            Kept::Evicting(evicting) => evicting.get(&key).copied(),
        }
    }

    /// No entry may be larger than half of the cache.
    pub(crate) fn insert(&mut self, key: u64, slot: Slot, entry: Entry) {
        if let Kept::Plain(plain) = &mut self.kept {
            let most = self.bytes / PLAIN.1 * PLAIN.0;
            if slot != Slot::NONE && plain.weight + weight(entry.bytes) <= most {
                return plain.insert(key, slot, entry);
            }
            self.kept = Kept::Evicting(Box::new(plain.evicting(self.bytes)));
        }
        if let Kept::Evicting(evicting) = &mut self.kept {
            evicting.insert(key, entry);
        }
    }

    pub(crate) fn remove(&mut self, key: u64, slot: Slot) {
        match &mut self.kept {
            Kept::Plain(plain) => plain.remove(slot),
            Kept::Evicting(evicting) => drop(evicting.remove(&key)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.kept {
            Kept::Plain(plain) => plain.entries,
            Kept::Evicting(evicting) => evicting.len(),
        }
    }
}

/// Entries by slot.
#[derive(Debug, Default)]
struct Plain {
    places: Vec<Option<StoredEntry>>,
    entries: usize,
    weight: u64,
    inserted: u32,
}

#[derive(Debug, Clone, Copy)]
struct StoredEntry {
    key: u64,
    entry: Entry,
    /// The how-manieth to come.
    number: u32,
    requests: u8,
}

impl StoredEntry {
    fn count_request(&mut self) {
        self.requests = (self.requests + 1).min(MOST_REQUESTS);
    }
}

impl Plain {
    #[inline]
    fn get(&mut self, slot: Slot) -> Option<Entry> {
        let place = self.places.get_mut(slot.index())?.as_mut()?;
        place.count_request();
        Some(place.entry)
    }

    fn insert(&mut self, key: u64, slot: Slot, entry: Entry) {
        let index = slot.index();
        if index >= self.places.len() {
            self.places.resize((index + 1).next_power_of_two(), None);
        }
        self.weight += weight(entry.bytes);
        match &mut self.places[index] {
            Some(place) => {
                self.weight -= weight(place.entry.bytes);
                place.count_request();
                place.entry = entry;
            }
            empty => {
                *empty = Some(StoredEntry { key, entry, number: self.inserted, requests: 0 });
                self.inserted = self.inserted.wrapping_add(1);
                self.entries += 1;
            }
        }
    }

    fn remove(&mut self, slot: Slot) {
        let place = self.places.get_mut(slot.index());
        if let Some(place) = place.and_then(Option::take) {
            self.weight -= weight(place.entry.bytes);
            self.entries -= 1;
        }
    }

    fn evicting(&self, bytes: u64) -> Evicting {
        let items = usize::try_from(bytes / (16 << 10)).unwrap_or(usize::MAX);
        let mut evicting = Cache::with(
            items.clamp(64, 1 << 20),
            bytes,
            ByBytes,
            FixedState::default(),
            DefaultLifecycle::default(),
        );
        let mut places: Vec<&StoredEntry> = self.places.iter().flatten().collect();
        places.sort_unstable_by_key(|place| place.number);
        for place in places {
            evicting.insert(place.key, place.entry);
            for _ in 0..place.requests {
                evicting.get(&place.key);
            }
        }
        evicting
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BYTES: u64 = 64 << 10;

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Get,
        Insert(u64),
        Remove,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => Just(Step::Get),
            8 => (0_u64..4_000).prop_map(Step::Insert),
            1 => Just(Step::Remove),
        ]
    }

    proptest! {
        /// Filling up, full and evicting: the same answers as from a table that evicts from the start.
        #[test]
        fn it_is_as_if_it_had_been_the_evicting_table_from_the_start(
            steps in proptest::collection::vec((step(), 0_u64..60), 0..1_000),
        ) {
            let mut entries = Entries::new(BYTES);
            let mut evicting = Plain::default().evicting(BYTES);
            let mut slots = Slots::default();
            for (second, (step, key)) in steps.into_iter().enumerate() {
                let slot = slots.of(key, matches!(step, Step::Insert(_)));
                match step {
                    Step::Get => {
                        prop_assert_eq!(entries.get(key, slot), evicting.get(&key).copied());
                    }
                    Step::Insert(bytes) => {
                        let entry = Entry { fetched: Mono::from_secs(second as u64), bytes };
                        entries.insert(key, slot, entry);
                        evicting.insert(key, entry);
                    }
                    Step::Remove => {
                        entries.remove(key, slot);
                        evicting.remove(&key);
                    }
                }
                prop_assert_eq!(entries.len(), evicting.len());
            }
        }
    }

    #[test]
    fn the_number_of_slots_is_bounded_and_each_resource_has_its_own() {
        let mut slots = Slots::default();
        assert_eq!(slots.of(7, false), Slot::NONE);
        let first = slots.of(7, true);
        assert_ne!(slots.of(8, true), first);
        for key in 0..SLOTS as u64 {
            slots.of(key, true);
        }
        assert_eq!(slots.of(7, false), first);
        assert_eq!(slots.of(u64::MAX, true), Slot::NONE, "no room");
        assert_eq!(slots.0.len(), SLOTS);
    }
}
