//! The clients that have exchanges with a server under way.

use std::collections::HashMap;

use foldhash::fast::FixedState;

/// Counts the exchanges under way of each client, in constant time. One client at a time, which is the
/// usual case, needs no table.
#[derive(Debug, Clone, Default)]
pub(super) struct Users {
    one: Option<User>,
    /// Empty unless several clients have had exchanges under way at once.
    others: HashMap<u64, u32, FixedState>,
    /// The clients in `others`, combined by exclusive or: the client itself if there is only one.
    combined: u64,
}

#[derive(Debug, Clone, Copy)]
struct User {
    client: u64,
    exchanges: u32,
}

impl Users {
    /// An exchange begins.
    pub(super) fn add(&mut self, client: u64) {
        match &mut self.one {
            Some(one) if one.client == client => one.exchanges += 1,
            None if self.others.is_empty() => self.one = Some(User { client, exchanges: 1 }),
            _ => {
                let exchanges = self.others.entry(client).or_insert(0);
                if *exchanges == 0 {
                    self.combined ^= client;
                }
                *exchanges += 1;
            }
        }
    }

    /// An exchange is over.
    pub(super) fn remove(&mut self, client: u64) {
        if let Some(one) = self.one.as_mut().filter(|one| one.client == client) {
            one.exchanges -= 1;
            if one.exchanges == 0 {
                self.one = None;
            }
        } else if let Some(exchanges) = self.others.get_mut(&client) {
            *exchanges -= 1;
            if *exchanges == 0 {
                self.others.remove(&client);
                self.combined ^= client;
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.one.is_none() && self.others.is_empty()
    }

    /// The client that alone has exchanges under way, if there is one.
    pub(super) fn only(&self) -> Option<u64> {
        match (self.one, self.others.len()) {
            (Some(one), 0) => Some(one.client),
            (None, 1) => Some(self.combined),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    proptest::proptest! {
        /// The expected values come from a plain count.
        #[test]
        fn the_only_client_is_known_however_exchanges_begin_and_end(
            steps in proptest::collection::vec((0_u64..4, proptest::bool::ANY), 0..60),
        ) {
            let mut users = Users::default();
            let mut counts = BTreeMap::<u64, u32>::new();
            for (client, begins) in steps {
                if begins {
                    users.add(client);
                    *counts.entry(client).or_default() += 1;
                } else {
                    users.remove(client);
                    let left = counts.get(&client).copied().unwrap_or(0).saturating_sub(1);
                    counts.insert(client, left);
                }
                counts.retain(|_, count| *count > 0);
                let only = counts.keys().next().copied().filter(|_| counts.len() == 1);
                proptest::prop_assert_eq!(users.only(), only);
                proptest::prop_assert_eq!(users.is_empty(), counts.is_empty());
            }
        }
    }
}
