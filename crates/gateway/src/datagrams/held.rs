//! Datagrams that are held, and sessions that wait.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::tally::Tally;

/// A datagram of a client, in memory until it is forwarded.
#[derive(Debug)]
pub(super) struct Datagram {
    pub(super) bytes: Box<[u8]>,
    /// The address that it was sent to.
    pub(super) here: Option<IpAddr>,
    pub(super) place: Place,
}

/// The place of a datagram among those that are held.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) tally: Arc<Tally>,
    pub(super) length: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.tally.releases(self.length);
    }
}

/// Marks a session as that of a stranger that waits, as long as it exists.
pub(super) struct Waiting<'a>(&'a AtomicBool);

impl<'a> Waiting<'a> {
    pub(super) fn new(waits: &'a AtomicBool) -> Self {
        waits.store(true, Ordering::Relaxed);
        Self(waits)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
