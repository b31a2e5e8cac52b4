//! What is mirrored after some batch of changes.

use std::collections::HashMap;
use std::sync::Arc;

use crate::pure::address::Address;
use crate::pure::entry::{BodyHash, Entry};

/// Entries are in this many parts, of which a batch copies those that it changes.
const PARTS: usize = 64;

/// All entries at one moment.
#[derive(Clone, Debug)]
pub struct Generation {
    pub(super) number: u64,
    parts: Vec<Arc<HashMap<Address, Arc<Entry>>>>,
    length: usize,
}

impl Generation {
    pub(super) fn new(number: u64) -> Self {
        Self { number, parts: vec![Arc::default(); PARTS], length: 0 }
    }

    /// Counts batches.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How many addresses are mirrored.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// What is mirrored under an address.
    pub fn find(&self, address: &Address) -> Option<&Arc<Entry>> {
        self.find_str(address.as_str())
    }

    /// The same for path and query as a request has them.
    pub fn find_str(&self, path_and_query: &str) -> Option<&Arc<Entry>> {
        self.parts[part_of(path_and_query)].get(path_and_query)
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.parts.iter().flat_map(|part| part.values())
    }

    /// The addresses that have a body.
    pub(super) fn with_body(&self, hash: &BodyHash) -> Vec<Address> {
        let has_it = |entry: &&Arc<Entry>| entry.body.is_some_and(|body| body.hash == *hash);
        self.iter().filter(has_it).map(|entry| entry.address.clone()).collect()
    }

    /// Puts an entry, and returns the one before.
    pub(super) fn put(&mut self, entry: Entry) -> Option<Arc<Entry>> {
        let part = &mut self.parts[part_of(entry.address.as_str())];
        let before = Arc::make_mut(part).insert(entry.address.clone(), Arc::new(entry));
        self.length += usize::from(before.is_none());
        before
    }

    pub(super) fn remove(&mut self, address: &Address) -> Option<Arc<Entry>> {
        let part = &mut self.parts[part_of(address.as_str())];
        if !part.contains_key(address) {
            return None;
        }
        let before = Arc::make_mut(part).remove(address);
        self.length -= usize::from(before.is_some());
        before
    }
}

fn part_of(address: &str) -> usize {
    (twox_hash::XxHash3_64::oneshot(address.as_bytes()) % PARTS as u64) as usize
}
