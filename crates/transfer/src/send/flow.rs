//! What is on the way to the receiver.

use std::collections::VecDeque;

use nightwatt_energy::time::Mono;

use crate::pure::policy::Acknowledged;

/// Blocks that are on the way at once. What must be sent again after a failure is at most this and one block.
const WINDOW: usize = 4;
/// Times shorter than this are put together with the next: they would be mostly those of the two programs, s.
const LEAST: f64 = 2e-3;

/// A block that is on the way.
#[derive(Debug, Clone, PartialEq)]
pub struct InFlight {
    /// Counts up.
    pub id: u64,
    /// Where it begins.
    pub start: u64,
    /// Its length.
    pub length: u64,
    /// Its length on the wire.
    pub packed: u64,
    /// The place of its arm; none for a hole.
    pub arm: Option<usize>,
    /// What it adds to the sum over all blocks.
    pub sum: u64,
    /// When it was sent.
    pub sent: Mono,
}

/// The blocks on the way, and what their acknowledgements show of the link.
#[derive(Debug, Clone, Default)]
pub struct Flow {
    in_flight: VecDeque<InFlight>,
    last_ack: Option<Mono>,
    /// Shortest time from an unhindered message to its answer, s.
    round_trip: Option<f64>,
    bytes: f64,
    seconds: f64,
}

impl Flow {
    /// An answer came to a message that waited for nothing else.
    pub fn round_trip(&mut self, seconds: f64) {
        if seconds.is_finite() && seconds >= 0.0 {
            self.round_trip = Some(self.round_trip.map_or(seconds, |least| least.min(seconds)));
        }
    }

    /// Whether another block may be sent.
    pub fn is_open(&self) -> bool {
        self.in_flight.len() < WINDOW
    }

    /// Whether all that was sent has arrived.
    pub fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// A block is sent.
    pub fn sent(&mut self, block: InFlight) {
        self.in_flight.push_back(block);
    }

    /// A block is refused: it is no longer on the way.
    pub fn refused(&mut self, id: u64) -> Option<InFlight> {
        let place = self.in_flight.iter().position(|block| block.id == id)?;
        self.in_flight.remove(place)
    }

    /// A block has arrived: which, and what that shows of the link, if it shows anything.
    pub fn arrived(&mut self, id: u64, now: Mono) -> Option<(InFlight, Option<Acknowledged>)> {
        let block = self.refused(id)?;
        // Between two acknowledgements the link carried this block. If it was sent after the first of them, the link
        // waited for it, and then it was on its way and its answer on the way back.
        let since = now.since(block.sent).as_secs_f64() - self.round_trip.unwrap_or(0.0);
        let busy = match self.last_ack.replace(now) {
            Some(last) => now.since(last).as_secs_f64().min(since.max(0.0)),
            None if since > 0.0 => since,
            // The way there and back was thought to be longer than it is, so nothing can be said yet.
            None => return Some((block, None)),
        };
        self.bytes += block.packed as f64;
        self.seconds += busy;
        if self.seconds < LEAST || self.bytes <= 0.0 {
            return Some((block, None));
        }
        let acknowledged = Acknowledged { bytes: self.bytes, seconds: self.seconds };
        (self.bytes, self.seconds) = (0.0, 0.0);
        Some((block, Some(acknowledged)))
    }

    /// The blocks that are on the way.
    pub fn in_flight(&self) -> impl Iterator<Item = &InFlight> {
        self.in_flight.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(millis: u64) -> Mono {
        Mono(Duration::from_millis(millis))
    }

    fn block(id: u64, sent: u64) -> InFlight {
        InFlight {
            id,
            start: id * 1000,
            length: 1000,
            packed: 1000,
            arm: Some(0),
            sum: 0,
            sent: at(sent),
        }
    }

    /// A link of 100 kB/s: 1000 bytes take 10 ms; the way there and back 40 ms.
    #[test]
    fn the_rate_is_that_of_the_link_while_it_is_busy() {
        let mut flow = Flow::default();
        flow.round_trip(0.040);
        flow.round_trip(0.050);
        for id in 0..4 {
            assert!(flow.is_open());
            flow.sent(block(id, 0));
        }
        assert!(!flow.is_open());
        for id in 0..4 {
            let (_, shown) = flow.arrived(id, at(50 + id * 10)).unwrap();
            let shown = shown.unwrap();
            assert!((shown.bytes / shown.seconds / 1e5 - 1.0).abs() < 1e-6, "{id}: {shown:?}");
        }
        assert!(flow.is_empty());
    }

    #[test]
    fn waiting_for_the_packer_is_not_the_links_time() {
        let mut flow = Flow::default();
        flow.round_trip(0.040);
        flow.sent(block(0, 0));
        flow.arrived(0, at(50));
        // The next block is ready only after a second.
        flow.sent(block(1, 1000));
        let (_, shown) = flow.arrived(1, at(1050)).unwrap();
        assert!((shown.unwrap().seconds - 0.010).abs() < 1e-6);
        assert!(flow.arrived(1, at(1060)).is_none(), "it has arrived once");
    }

    #[test]
    fn acknowledgements_that_come_together_count_together() {
        let mut flow = Flow::default();
        for id in 0..3 {
            flow.sent(block(id, 0));
        }
        assert!(flow.arrived(0, at(20)).unwrap().1.is_some());
        assert!(flow.arrived(1, at(20)).unwrap().1.is_none());
        let shown = flow.arrived(2, at(40)).unwrap().1.unwrap();
        assert!((shown.bytes - 2000.0).abs() < 1e-9 && (shown.seconds - 0.020).abs() < 1e-9);
        flow.sent(block(3, 40));
        assert_eq!(flow.refused(3).map(|block| block.id), Some(3));
        assert!(flow.is_empty() && flow.refused(3).is_none());
    }
}
