//! Questions to a service that wait for their turn. Each client and each network has a share of those that are asked at the
//! same time, so that one that asks for much keeps only itself waiting.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Comer;

/// Questions at the same time: of all clients, of a network, of one client. The last is what a browser asks for at once.
const MOST: usize = 32;
const MOST_OF_NETWORK: usize = 8;
const MOST_OF_CLIENT: usize = 4;

/// The turns of all.
#[derive(Debug)]
pub(super) struct Turns {
    all: Arc<Semaphore>,
    networks: Shares,
    clients: Shares,
}

/// The turn of a question, until it is answered.
#[derive(Debug)]
pub(super) struct MyTurn {
    _permits: [OwnedSemaphorePermit; 3],
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(MOST)),
            networks: Shares::of(MOST_OF_NETWORK),
            clients: Shares::of(MOST_OF_CLIENT),
        }
    }
}

impl Turns {
    /// Waits for a turn: first in the line of the client, so that its other questions take no place from others.
    pub(super) async fn wait(&self, comer: Comer) -> Option<MyTurn> {
        let client = self.clients.of_this(comer.budget).acquire_owned().await.ok()?;
        let network = self.networks.of_this(comer.network).acquire_owned().await.ok()?;
        let one = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(MyTurn { _permits: [client, network, one] })
    }
}

/// Shares of the same size.
#[derive(Debug)]
struct Shares {
    size: usize,
    /// Those that are in use.
    used: Mutex<HashMap<u64, Weak<Semaphore>>>,
}

impl Shares {
    fn of(size: usize) -> Self {
        Self { size, used: Mutex::default() }
    }

    fn of_this(&self, key: u64) -> Arc<Semaphore> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = used.get(&key).and_then(Weak::upgrade) {
            return share;
        }
        // Before it grows.
        if used.len() == used.capacity() {
            used.retain(|_, share| share.strong_count() > 0);
        }
        let share = Arc::new(Semaphore::new(self.size));
        used.insert(key, Arc::downgrade(&share));
        share
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn comer(network: u64, client: u64) -> Comer {
        Comer { ip: None, budget: client, network, is_unreadable: false }
    }

    /// A turn, if there is one at once.
    fn now(turns: &Turns, comer: Comer) -> Option<MyTurn> {
        let waits = pin!(turns.wait(comer));
        match waits.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => turn,
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_client_and_a_network_take_no_more_than_their_shares() {
        let turns = Turns::default();
        let mut of_one: Vec<MyTurn> = (0..40).filter_map(|_| now(&turns, comer(1, 1))).collect();
        assert_eq!(of_one.len(), 4);
        let of_network: Vec<MyTurn> =
            (2..40).filter_map(|client| now(&turns, comer(1, client))).collect();
        assert_eq!(of_network.len(), 4, "of the eight of its network");
        let others: Vec<MyTurn> =
            (100..200).filter_map(|other| now(&turns, comer(other, other))).collect();
        assert_eq!(others.len(), 24, "of the 32 of all");
        // One is answered: another of the same client has its turn.
        of_one.pop();
        assert!(now(&turns, comer(1, 1)).is_some());
        drop((of_one, of_network, others));
        assert_eq!(
            (0..40).filter_map(|_| now(&turns, comer(1, 1)).map(std::mem::forget)).count(),
            4
        );
    }

    #[test]
    fn what_is_remembered_of_shares_does_not_grow_with_the_clients_that_have_left() {
        let turns = Turns::default();
        for client in 0..10_000 {
            assert!(now(&turns, comer(client, client)).is_some());
        }
        assert!(turns.clients.used.lock().unwrap().len() < 100);
    }
}
