//! Places in a cache: which resources fit into its memory.

use foldhash::fast::FixedState;
use quick_cache::unsync::Cache;
use quick_cache::{Lifecycle, Weighter};

/// What an entry costs beside the body: what the gateway's store reckons for tables and fields.
const OVERHEAD: u64 = 2 * 1024;

/// A resource takes no more than this part of the cache, as in the gateway's store.
const LARGEST: u64 = 8;

/// Where a resource stands, if anywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(u32);

impl Place {
    /// Of what is not stored.
    pub const NONE: Self = Self(u32::MAX);

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, Clone, Copy)]
struct Placed {
    place: Place,
    bytes: u64,
}

#[derive(Debug, Clone)]
struct ByBytes;

impl Weighter<u64, Placed> for ByBytes {
    fn weight(&self, _: &u64, placed: &Placed) -> u64 {
        placed.bytes + OVERHEAD
    }
}

/// Collects the places that become free.
#[derive(Debug, Clone)]
struct Freed;

impl Lifecycle<u64, Placed> for Freed {
    type RequestState = Vec<Place>;

    fn on_evict(&self, freed: &mut Vec<Place>, _: u64, placed: Placed) {
        freed.push(placed.place);
    }
}

/// Gives every resource that may be stored a place, as long as the memory of a cache has room for
/// it, with the eviction that the gateway's store has.
///
/// One shelf serves all [`CacheModel`](crate::CacheModel)s that are asked the same: what they have
/// of a resource differs in age only. So a resource takes room from the moment it is first asked
/// for, which under a sleeping server is a little earlier than it would.
pub struct Shelf {
    placed: Cache<u64, Placed, ByBytes, FixedState, Freed>,
    largest: u64,
    free: Vec<Place>,
    used: u32,
}

impl std::fmt::Debug for Shelf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shelf").field("placed", &self.placed.len()).finish_non_exhaustive()
    }
}

impl Shelf {
    /// An empty shelf of so many bytes.
    pub fn new(bytes: u64) -> Self {
        let items = usize::try_from(bytes / (16 << 10)).unwrap_or(usize::MAX);
        let placed =
            Cache::with(items.clamp(64, 1 << 20), bytes, ByBytes, FixedState::default(), Freed);
        Self { placed, largest: bytes / LARGEST, free: Vec::new(), used: 0 }
    }

    /// The place of the resource `key`, whose answer was that long. With `may_store`, it is given one.
    pub fn place(&mut self, key: u64, bytes: u64, may_store: bool) -> Place {
        let known = self.placed.get(&key).copied();
        match known {
            Some(known) if !may_store || known.bytes == bytes => return known.place,
            None if !may_store => return Place::NONE,
            _ if bytes > self.largest => return known.map_or(Place::NONE, |known| known.place),
            _ => {}
        }
        let place = known.map_or_else(|| self.next(), |known| known.place);
        let mut freed = Vec::new();
        self.placed.insert_with_lifecycle(key, Placed { place, bytes }, &mut freed);
        // The value that was replaced counts as evicted too.
        freed.retain(|&freed| freed != place);
        self.free.append(&mut freed);
        if self.placed.peek(&key).is_some() {
            return place;
        }
        self.free.push(place);
        Place::NONE
    }

    fn next(&mut self) -> Place {
        self.free.pop().unwrap_or_else(|| {
            self.used += 1;
            Place(self.used - 1)
        })
    }

    /// Resources that have a place.
    pub fn resources(&self) -> usize {
        self.placed.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn memory_is_bounded_and_places_are_used_again() {
        let mut shelf = Shelf::new(1 << 20);
        let most = (1 << 20) / (1000 + 2048);
        for key in 0..100_000 {
            let place = shelf.place(key, 1000, true);
            assert!(place == Place::NONE || place.index() <= most, "{place:?}");
        }
        assert!(shelf.resources() <= most, "{}", shelf.resources());
    }

    #[test]
    fn what_may_not_be_stored_or_is_too_large_gets_no_place() {
        let mut shelf = Shelf::new(1 << 20);
        assert_eq!(shelf.place(1, 1000, false), Place::NONE);
        assert_eq!(shelf.place(2, (1 << 20) / 8 + 1, true), Place::NONE);
        let place = shelf.place(1, 1000, true);
        assert_eq!(shelf.place(1, 1000, false), place, "a change is told where to forget");
    }

    proptest! {
        #[test]
        fn no_two_resources_share_a_place(
            asked in proptest::collection::vec((0_u64..200, 0_u64..20_000), 1..400),
        ) {
            let mut shelf = Shelf::new(1 << 18);
            for (key, bytes) in asked {
                let place = shelf.place(key, bytes, true);
                let placed = shelf.placed.peek(&key).map(|placed| placed.place);
                prop_assert_eq!(placed.unwrap_or(Place::NONE), place);
                let mut places: Vec<u32> =
                    shelf.placed.iter().map(|(_, placed)| placed.place.0).collect();
                places.extend(shelf.free.iter().map(|place| place.0));
                places.sort_unstable();
                let all: Vec<u32> = (0..shelf.used).collect();
                prop_assert_eq!(places, all, "each place is somebody's or free");
            }
        }
    }
}
