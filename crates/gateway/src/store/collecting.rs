//! Answers being collected for the cache: their bytes count before they are stored.

use bytes::Bytes;
use nightwatt_httpcache::Stored;

use super::{Object, Ticket};

/// Minimum step for reserving room.
const STEP: usize = 4 << 10;

/// A body that is being collected. If it is dropped before its end, nothing remains.
pub(crate) struct Collecting {
    ticket: Ticket,
    stored: Stored,
    body: Vec<u8>,
    /// Its length; none if only its end will show it.
    length: usize,
    reserved: u64,
}

impl Collecting {
    pub(super) fn new(ticket: Ticket, stored: Stored, length: u64) -> Self {
        let length = usize::try_from(length).unwrap_or(0);
        Self { ticket, stored, body: Vec::new(), length, reserved: 0 }
    }

    /// Adds the next part. Returns false if the body has become too large, or if there is no room for it: then
    /// collecting is given up.
    #[must_use]
    pub(crate) fn take(&mut self, part: &[u8]) -> bool {
        let needed = self.body.len() + part.len();
        if needed as u64 > self.ticket.store.largest() {
            return false;
        }
        if needed > self.body.capacity() {
            // Grow like a vector, but not beyond the known length.
            let doubled = (self.body.capacity() * 2).max(STEP);
            let room = if self.length >= needed { doubled.min(self.length) } else { doubled };
            let room = room.max(needed);
            let more = (room - self.body.capacity()) as u64;
            if !self.ticket.store.reserve(more) {
                return false;
            }
            self.reserved += more;
            self.body.reserve_exact(room - self.body.len());
        }
        self.body.extend_from_slice(part);
        true
    }

    /// Bytes of memory allocated.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.body.capacity()
    }

    /// Stores it: it is complete.
    pub(crate) fn finish(mut self) {
        let body = Bytes::from(std::mem::take(&mut self.body).into_boxed_slice());
        self.ticket.store(Object::new(self.stored.clone(), body));
    }
}

impl Drop for Collecting {
    fn drop(&mut self) {
        self.ticket.store.release(self.reserved);
    }
}
