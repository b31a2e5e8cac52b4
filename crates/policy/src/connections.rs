//! How many connections, or other places, a client may have at once.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

/// Counts the open connections of each client. It remembers only clients that have any open, so its memory is
/// bounded by the number of connections.
#[derive(Debug, Clone, Default)]
pub struct ConnectionCounts {
    open: HashMap<u64, usize, BuildHasherDefault<DefaultHasher>>,
}

impl ConnectionCounts {
    /// A client connects that may have `most` at once: is there room? If so, [`closed`](Self::closed) is
    /// to follow.
    pub fn open(&mut self, client: u64, most: usize) -> bool {
        let count = self.open.entry(client).or_insert(0);
        let room = *count < most;
        *count += usize::from(room);
        if *count == 0 {
            self.open.remove(&client);
        }
        room
    }

    /// How many a client has.
    pub fn of(&self, client: u64) -> usize {
        self.open.get(&client).copied().unwrap_or(0)
    }

    /// A connection that there was room for has ended.
    pub fn closed(&mut self, client: u64) {
        if let Some(count) = self.open.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&client);
            }
        }
    }

    /// Clients that have any open.
    pub fn clients(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_client_gets_as_many_as_it_may_and_one_again_for_each_that_ends() {
        let mut counts = ConnectionCounts::default();
        assert!(counts.open(1, 2) && counts.open(1, 2));
        assert!(!counts.open(1, 2));
        assert!(counts.open(2, 2), "others are not concerned");
        counts.closed(1);
        assert!(counts.open(1, 2));
        assert!(!counts.open(1, 2));
    }

    #[test]
    fn nobody_is_remembered_who_has_none_open() {
        let mut counts = ConnectionCounts::default();
        for client in 0..1000 {
            assert!(counts.open(client, 1));
            assert!(!counts.open(client, 1));
            counts.closed(client);
            // One close too many closes no other client's connection.
            counts.closed(client);
        }
        assert_eq!(counts.clients(), 0);
        let mut none = ConnectionCounts::default();
        assert!(!none.open(1, 0));
        assert_eq!(none.clients(), 0);
    }

    proptest! {
        #[test]
        fn it_counts_like_a_list(moves in prop::collection::vec((0_u64..4, any::<bool>()), 0..200)) {
            let mut counts = ConnectionCounts::default();
            let mut open: Vec<u64> = Vec::new();
            for (client, comes) in moves {
                if comes {
                    let room = open.iter().filter(|it| **it == client).count() < 3;
                    prop_assert_eq!(counts.open(client, 3), room);
                    if room {
                        open.push(client);
                    }
                } else if let Some(at) = open.iter().position(|it| *it == client) {
                    open.swap_remove(at);
                    counts.closed(client);
                }
            }
            open.sort_unstable();
            open.dedup();
            prop_assert_eq!(counts.clients(), open.len());
        }
    }
}
