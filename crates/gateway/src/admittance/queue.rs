//! Passwords that wait for the computation of their hash: how many of them may, and those that are shown twice.

use std::collections::HashMap;

use tokio::sync::watch;

use super::{Comer, Mark};
use crate::places::{Place, Places};

/// Passwords that are being checked at the same time, or wait for it: of all clients, of a network, of one client. One
/// hash is computed at a time: it is meant to be slow, and this machine is small.
const MOST: usize = 32;
const MOST_OF_NETWORK: usize = 8;
const MOST_OF_CLIENT: usize = 2;

/// The checks under way.
#[derive(Debug, Default)]
pub(super) struct Queue {
    all: Places,
    networks: Places,
    clients: Places,
    checks: HashMap<Mark, watch::Receiver<Option<bool>>>,
}

/// A place among them.
#[derive(Debug)]
pub(super) struct Turn {
    _places: [Place; 3],
    result: watch::Sender<Option<bool>>,
}

impl Turn {
    /// Passes the result on to those that wait for the same check.
    pub(super) fn is_over(&self, is_right: bool) {
        self.result.send_replace(Some(is_right));
    }
}

impl Queue {
    /// The check of this password that is under way. Its result never comes if its client leaves before its turn.
    pub(super) fn check_of(&self, mark: &Mark) -> Option<watch::Receiver<Option<bool>>> {
        self.checks.get(mark).cloned()
    }

    /// Begins to wait for a check; nothing if too many wait. [`Queue::leave`] is to follow.
    pub(super) fn enter(&mut self, mark: Mark, comer: Comer) -> Option<Turn> {
        let client = self.clients.take(comer.budget, MOST_OF_CLIENT)?;
        let network = self.networks.take(comer.network, MOST_OF_NETWORK)?;
        let places = [client, network, self.all.take(0, MOST)?];
        let (result, check) = watch::channel(None);
        self.checks.insert(mark, check);
        Some(Turn { _places: places, result })
    }

    /// The check of this password is over.
    pub(super) fn leave(&mut self, mark: &Mark) {
        self.checks.remove(mark);
    }
}
