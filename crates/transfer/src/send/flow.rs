//! What is on the way to the receiver.

use std::collections::VecDeque;
use std::time::Duration;

use nightwatt_energy::time::Mono;

use crate::pure::policy::Acknowledged;
use crate::wire::Ack;

/// Blocks that are on the way at once. What must be sent again after a failure is at most this and one block.
const WINDOW: usize = 4;
/// Blocks that the link carried for less than this together, or a single one for less than some empty ones need there and
/// back, show nothing of the link alone: what the two programs did meanwhile counts as much.
const CARRIED: Duration = Duration::from_millis(20);
const ROUND_TRIPS: u32 = 4;
/// Rates that are kept: the last ones. Fewer than the other show nothing.
const RATES: usize = 1024;
const FEWEST_RATES: usize = 8;
/// A link that carries for a smaller share of the time is not what the sender waits for, and its rate is not known.
const BUSY: f64 = 0.5;
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
    /// When the last block arrived, by the receiver's clock.
    last_arrival: Option<Duration>,
    /// Shortest time from a block to its acknowledgement, without the time for which the receiver held it.
    round_trip: Option<Duration>,
    /// Of the blocks that were too quick to be counted alone.
    bytes: f64,
    seconds: f64,
    /// Of blocks that the link carried for long enough, bytes per second.
    rates: VecDeque<f64>,
    /// Bytes and seconds since the last of them: quick blocks count with the slow ones that follow.
    carried: (f64, f64),
    /// For how long the link was busy, s.
    busy: f64,
    /// When the first block was sent, and when the last acknowledgement came.
    span: Option<(Mono, Mono)>,
}

impl Flow {
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

    /// The acknowledgement of a block came `at` this time: which block, and what that shows of the link, if it shows
    /// anything.
    pub fn arrived(&mut self, ack: &Ack, at: Mono) -> Option<(InFlight, Option<Acknowledged>)> {
        let block = self.refused(ack.id)?;
        let arrived = Duration::from_nanos(ack.arrived_nanos);
        let held = Duration::from_nanos(ack.held_nanos);
        let way = at.since(block.sent).saturating_sub(held);
        let round_trip = self.round_trip.map_or(way, |least| least.min(way));
        self.round_trip = Some(round_trip);
        let before = self.last_arrival.replace(arrived);
        self.span = Some((self.span.map_or(block.sent, |(first, _)| first), at));
        // From one arrival to the next the link carried this block. If it was sent after the first of them, the link was
        // idle until then: it was busy only for the block's own way, less the way of an empty block.
        let own = way.saturating_sub(round_trip);
        let busy = before.map_or(own, |before| own.min(arrived.saturating_sub(before)));
        // What was quick as no block before shows nothing, except that there and back is quicker than was known.
        if busy.is_zero() || block.packed == 0 {
            return Some((block, None));
        }
        self.busy += busy.as_secs_f64();
        // Where blocks follow each other, how long there and back takes does not matter.
        if busy < own || busy >= CARRIED.max(round_trip * ROUND_TRIPS) {
            self.carried.0 += block.packed as f64;
            self.carried.1 += busy.as_secs_f64();
        }
        if self.carried.1 >= CARRIED.as_secs_f64() {
            let (bytes, seconds) = std::mem::take(&mut self.carried);
            self.rates.truncate(RATES - 1);
            self.rates.push_front(bytes / seconds);
        }
        self.bytes += block.packed as f64;
        self.seconds += busy.as_secs_f64();
        if self.seconds < LEAST {
            return Some((block, None));
        }
        let acknowledged = Acknowledged { bytes: self.bytes, seconds: self.seconds };
        (self.bytes, self.seconds) = (0.0, 0.0);
        Some((block, Some(acknowledged)))
    }

    /// Half of the rates of blocks that the link carried for long were between these, if there were enough of them, and
    /// the link was what the sender waited for.
    pub fn rates(&self) -> Option<[f64; 2]> {
        let (first, last) = self.span?;
        if self.rates.len() < FEWEST_RATES || self.busy < BUSY * last.since(first).as_secs_f64() {
            return None;
        }
        let mut rates: Vec<f64> = self.rates.iter().copied().collect();
        rates.sort_by(f64::total_cmp);
        let quarter = rates.len() / 4;
        Some([rates[quarter], rates[rates.len() - 1 - quarter]])
    }

    /// The blocks that are on the way.
    pub fn in_flight(&self) -> impl Iterator<Item = &InFlight> {
        self.in_flight.iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A link, and a receiver that does one thing after the other.
    #[derive(Debug, Default)]
    struct World {
        /// Bytes per second.
        rate: f64,
        /// One way, s.
        way: f64,
        link_free: f64,
        receiver_free: f64,
        /// Acknowledgements on their way, with the time at which they arrive.
        acks: VecDeque<(f64, Ack)>,
    }

    fn mono(seconds: f64) -> Mono {
        Mono(Duration::from_secs_f64(seconds))
    }

    fn nanos(seconds: f64) -> u64 {
        Duration::from_secs_f64(seconds).as_nanos() as u64
    }

    impl World {
        /// The receiver's clock is an hour ahead. It holds the block for this long after those before it.
        fn carry(&mut self, block: &InFlight, now: f64, hold: f64) {
            self.link_free = self.link_free.max(now) + block.packed as f64 / self.rate;
            let arrived = self.link_free + self.way;
            self.receiver_free = self.receiver_free.max(arrived) + hold;
            let ack = Ack {
                id: block.id,
                arrived_nanos: nanos(arrived + 3600.0),
                held_nanos: nanos(self.receiver_free - arrived),
                cpu_nanos: 0,
                joules: None,
            };
            self.acks.push_back((self.receiver_free + self.way, ack));
        }
    }

    /// A block: bytes on the wire, seconds in which it is packed, seconds for which the receiver holds it.
    type Planned = (u64, f64, f64);

    /// Sends an empty block and then these, and gives the link's bytes and seconds as the sender sees them.
    fn seen(rate: f64, way: f64, blocks: &[Planned]) -> [f64; 2] {
        let (sum, _) = carried(rate, way, blocks);
        sum
    }

    /// The same, and the rates of single blocks.
    fn carried(rate: f64, way: f64, blocks: &[Planned]) -> ([f64; 2], Option<[f64; 2]>) {
        let mut world = World { rate, way, ..World::default() };
        let mut flow = Flow::default();
        let (mut now, mut sum) = (0.0, [0.0; 2]);
        let mut planned = std::iter::once(&(0, 0.0, 0.0)).chain(blocks).enumerate();
        let mut next = planned.next();
        while next.is_some() || !world.acks.is_empty() {
            if let Some((id, (packed, pack, hold))) = next.filter(|_| flow.is_open()) {
                now += pack;
                let id = id as u64;
                let (start, length) = (0, *packed);
                let block = InFlight {
                    id,
                    start,
                    length,
                    packed: *packed,
                    arm: None,
                    sum: 0,
                    sent: mono(now),
                };
                world.carry(&block, now, *hold);
                flow.sent(block);
                next = planned.next();
            } else if let Some((at, _)) = world.acks.front() {
                now = now.max(*at);
            }
            while let Some((at, ack)) = world.acks.pop_front_if(|(at, _)| *at <= now) {
                let (_, shown) = flow.arrived(&ack, mono(at)).unwrap();
                if let Some(shown) = shown {
                    sum = [sum[0] + shown.bytes, sum[1] + shown.seconds];
                }
            }
        }
        assert!(flow.is_empty());
        (sum, flow.rates())
    }

    proptest! {
        /// Packing that is slower than the link, a receiver that syncs its disk, closed windows and long ways change
        /// nothing: the rate is that of the link while it carries something.
        #[test]
        fn only_the_link_counts(
            rate in 4.0..8.0, way in 0.0..0.3,
            blocks in proptest::collection::vec(
                (1000_u64..1_000_000, prop_oneof![Just(0.0), 0.0..5.0], prop_oneof![Just(0.0), 0.0..20.0]), 5..60,
            ),
        ) {
            let rate = 10_f64.powf(rate);
            let [bytes, seconds] = seen(rate, way, &blocks);
            let all: u64 = blocks.iter().map(|(packed, ..)| packed).sum();
            // What is left at the end was too quick to be counted.
            prop_assert!(bytes + rate * LEAST >= all as f64 * 0.999, "{bytes} of {all}");
            prop_assert!(bytes == 0.0 || (bytes / seconds / rate - 1.0).abs() < 1e-3, "{bytes} in {seconds} s, {rate}");
        }
    }

    /// The fault of 26,334 J: the last block waited 11 s for the receiver's disk, and the link seemed to be that slow.
    #[test]
    fn a_receiver_that_syncs_at_the_end_is_not_a_slow_link() {
        let mut blocks = vec![(65_536, 0.001, 0.0002); 40];
        blocks.push((65_536, 0.001, 11.0));
        let [bytes, seconds] = seen(1e7, 0.0005, &blocks);
        assert!((bytes / seconds / 1e7 - 1.0).abs() < 1e-3, "{bytes} {seconds}");
    }

    /// Blocks that are packed so well that the link has them at once show how quick the programs are, and not the link.
    #[test]
    fn only_blocks_that_fill_the_link_show_its_rate() {
        let blocks = vec![(100_000, 0.001, 0.0); 40];
        let (_, rates) = carried(1e6, 0.005, &blocks);
        let [slow, fast] = rates.unwrap();
        assert!((slow / 1e6 - 1.0).abs() < 1e-3 && (fast / 1e6 - 1.0).abs() < 1e-3, "{rates:?}");
        // At 100 MB/s each takes a millisecond.
        assert_eq!(carried(1e8, 0.005, &blocks).1, None);
        // The sender packs for four fifths of the time.
        let slowly_packed = vec![(100_000, 0.5, 0.0); 40];
        assert_eq!(carried(1e6, 0.005, &slowly_packed).1, None);
        assert_eq!(carried(1e6, 0.005, &blocks[..7]).1, None, "too few");
    }

    /// Two blocks at once in each 200 ms: 1 MB/s, and not the rate of the block that had to wait.
    #[test]
    fn bursts_count_with_the_pauses_between_them() {
        let mut flow = Flow::default();
        for id in 0..41 {
            let packed = if id == 0 { 0 } else { 100_000 };
            let (start, length, sum) = (0, packed, 0);
            let sent = Mono::ZERO;
            flow.sent(InFlight { id, start, length, packed, arm: None, sum, sent });
            let at = 0.001 + 0.2 * id.div_ceil(2) as f64 - 0.0005 * (id % 2) as f64;
            let arrived_nanos = nanos(at + 3600.0);
            let ack = Ack { id, arrived_nanos, held_nanos: 0, cpu_nanos: 0, joules: None };
            flow.arrived(&ack, mono(at)).unwrap();
        }
        let [slow, fast] = flow.rates().unwrap();
        assert!(slow > 0.99e6 && fast < 1.01e6, "{slow} {fast}");
    }

    #[test]
    fn a_refused_block_is_no_longer_on_the_way() {
        let mut flow = Flow::default();
        let block =
            InFlight { id: 3, start: 0, length: 1, packed: 1, arm: None, sum: 0, sent: Mono::ZERO };
        flow.sent(block);
        assert_eq!(flow.refused(3).map(|block| block.id), Some(3));
        assert!(flow.is_empty() && flow.refused(3).is_none());
    }
}
