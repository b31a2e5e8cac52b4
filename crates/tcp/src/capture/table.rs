//! All connections of a capture, in bounded memory.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use serde::Serialize;

use super::connection::{At, Connection, ConnectionRow, Side};
use super::counts::Counts;
use super::flow::RoundTrips;
use super::headers::{Packet, RST};

/// Connections under way at once; of more the oldest are taken as they are.
const OPEN: usize = 65_536;
/// Connections that are over stay for what is sent again.
const OVER: usize = 8192;

/// Both ends of a connection, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    lower: SocketAddr,
    higher: SocketAddr,
}

/// Sums of all connections.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Totals {
    /// How many there were.
    pub connections: u64,
    /// Those whose SYN was captured.
    pub from_their_start: u64,
    /// Those that had an end.
    pub closed: u64,
    /// Those that were captured where the data was sent from.
    pub at_sender: u64,
    /// Those that were captured where it went to.
    pub at_receiver: u64,
    /// Those that were taken as they were, because there were too many at once.
    pub given_up: u64,
    /// Of both directions.
    pub counts: Counts,
    /// From SYN to the answer to SYN-ACK.
    pub initial_rtt: RoundTrips,
    /// Of all data.
    pub round_trips: RoundTrips,
}

/// Takes packets, and counts by connection.
#[derive(Debug)]
pub struct Table {
    given: Option<At>,
    most_rows: usize,
    begin_ns: Option<i64>,
    started: u64,
    open: HashMap<Key, Connection>,
    order: VecDeque<(Key, u64)>,
    over: VecDeque<(Key, u64)>,
    totals: Totals,
    rows: Vec<ConnectionRow>,
}

impl Table {
    /// Without any. `given`: where they were captured, if that is known; `most_rows`: how many connections are
    /// kept beside the sums.
    pub fn new(given: Option<At>, most_rows: usize) -> Self {
        Self {
            given,
            most_rows,
            begin_ns: None,
            started: 0,
            open: HashMap::new(),
            order: VecDeque::new(),
            over: VecDeque::new(),
            totals: Totals::default(),
            rows: Vec::new(),
        }
    }

    /// The next packet.
    pub fn take(&mut self, packet: &Packet) {
        self.begin_ns.get_or_insert(packet.time_ns);
        let (from, to) = (packet.from, packet.to);
        let key = Key { lower: from.min(to), higher: from.max(to) };
        if self.open.get(&key).is_some_and(|connection| connection.is_followed_by(packet)) {
            self.finish(&key);
        }
        if !self.open.contains_key(&key) {
            // The reset of an unseen connection doesn't make a connection.
            if packet.has(RST) {
                return;
            }
            self.open.insert(key, Connection::new(self.started, packet));
            self.order.push_back((key, self.started));
            self.started += 1;
            self.make_room();
        }
        let Some(connection) = self.open.get_mut(&key) else { return };
        let was_over = connection.is_over();
        connection.take(packet);
        if !was_over && connection.is_over() {
            self.over.push_back((key, connection.number));
            if self.over.len() > OVER
                && let Some((key, number)) = self.over.pop_front()
            {
                self.finish_if(&key, number);
            }
        }
    }

    fn make_room(&mut self) {
        // Those that are gone already are in the order still, and none that lives may go for them. What is
        // left is a quarter, so this is seldom.
        if self.order.len() > 4 * OPEN {
            let open = &self.open;
            let is_open = |key: &Key, number| open.get(key).is_some_and(|it| it.number == number);
            self.order.retain(|(key, number)| is_open(key, *number));
        }
        while self.open.len() > OPEN {
            let Some((key, number)) = self.order.pop_front() else { break };
            self.totals.given_up += u64::from(self.finish_if(&key, number));
        }
    }

    fn finish_if(&mut self, key: &Key, number: u64) -> bool {
        let is_it = self.open.get(key).is_some_and(|connection| connection.number == number);
        if is_it {
            self.finish(key);
        }
        is_it
    }

    fn finish(&mut self, key: &Key) {
        let Some(connection) = self.open.remove(key) else { return };
        let row = connection.row(self.begin_ns.unwrap_or(0), self.given);
        let totals = &mut self.totals;
        totals.connections += 1;
        totals.from_their_start += u64::from(row.from_its_start);
        totals.closed += u64::from(row.closed.is_some());
        totals.at_sender += u64::from(row.at == Some(At::Sender));
        totals.at_receiver += u64::from(row.at == Some(At::Receiver));
        let s = row.initial_rtt_s;
        totals.initial_rtt.add(&RoundTrips { samples: 1, min_s: s, mean_s: s, max_s: s });
        for Side { counts, round_trips } in [&row.from_client, &row.from_server] {
            totals.counts.add(counts);
            totals.round_trips.add(round_trips);
        }
        if self.rows.len() < self.most_rows {
            self.rows.push(row);
        }
    }

    /// The sums, and the connections in the order of their first packets.
    pub fn end(mut self) -> (Totals, Vec<ConnectionRow>) {
        let mut left: Vec<_> = self.open.iter().map(|(key, it)| (it.number, *key)).collect();
        left.sort_unstable();
        for (_, key) in left {
            self.finish(&key);
        }
        self.rows.sort_unstable_by_key(|row| row.number);
        (self.totals, self.rows)
    }
}
