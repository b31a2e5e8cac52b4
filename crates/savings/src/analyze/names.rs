//! Names of a log by their hashes: of URLs, clients and crawlers.

use std::collections::HashMap;

use foldhash::fast::FixedState;

/// Names remembered, of URLs, clients and crawlers each.
pub(super) const MOST: usize = 1 << 17;

/// Names by hash, the first [`MOST`] of them.
pub(super) type Names = HashMap<u64, Box<str>, FixedState>;

/// Remembers a name if there is room for it.
pub(super) fn remember(names: &mut Names, key: u64, name: &str) {
    if names.len() < MOST {
        names.entry(key).or_insert_with(|| name.into());
    }
}
