//! What is remembered of each client: how much it asked for in vain, and whether it read
//! `robots.txt`.

use std::time::Duration;

use nightwatt_model::time::Mono;

use crate::hash::ByHash;

/// Misses are counted over this many spans of [`SPAN_S`]: so over the last 8 to 10 minutes.
const SPANS: usize = 5;

/// Seconds of one span.
const SPAN_S: u64 = 120;

/// Targets of the latest misses, by hash: asking for one of them again is no further miss.
const REMEMBERED: usize = 4;

/// Requests and misses of one span, by weight.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    requests: u32,
    misses: u32,
}

/// One client.
#[derive(Debug, Default)]
pub(crate) struct Client {
    /// Number of the latest touch, for the order of eviction.
    touched: u64,
    /// A scanner until then.
    pub(crate) scanner_until: Mono,
    /// When which agent of this client (by hash) asked for `robots.txt`: several clients may share
    /// an address, and only that agent is a robot.
    pub(crate) robots: Option<(Mono, u64)>,
    /// Number of the span that `spans[0]` counts, from the origin of time.
    latest: u64,
    spans: [Span; SPANS],
    missed: [u64; REMEMBERED],
}

impl Client {
    /// Counts a request of some weight that was answered.
    pub(crate) fn hit(&mut self, now: Mono) {
        let span = self.span(now);
        span.requests = span.requests.saturating_add(1);
    }

    /// Counts a miss, unless it repeats a recent one: a reader that polls a feed which is gone is
    /// no scanner.
    pub(crate) fn miss(&mut self, now: Mono, target: u64, weight: u32) {
        if self.missed.contains(&target) {
            return;
        }
        self.missed.rotate_right(1);
        self.missed[0] = target;
        let span = self.span(now);
        span.requests = span.requests.saturating_add(weight);
        span.misses = span.misses.saturating_add(weight);
    }

    /// Weight of misses in the last minutes, and their share of all that was asked, 0 ..= 1.
    pub(crate) fn misses(&self) -> (u32, f64) {
        let sum = |part: fn(&Span) -> u32| self.spans.iter().map(part).fold(0, u32::saturating_add);
        let (requests, misses) = (sum(|span| span.requests), sum(|span| span.misses));
        (misses, f64::from(misses) / f64::from(requests.max(1)))
    }

    fn span(&mut self, now: Mono) -> &mut Span {
        let number = now.0.as_secs() / SPAN_S;
        // Lines of a log may be a little out of order: what is late counts as now.
        let passed = number.saturating_sub(self.latest);
        if passed > 0 {
            let kept = SPANS.saturating_sub(usize::try_from(passed).unwrap_or(SPANS));
            self.spans.copy_within(..kept, SPANS - kept);
            self.spans[..SPANS - kept].fill(Span::default());
            self.latest = number;
        }
        &mut self.spans[0]
    }
}

/// The clients seen of late, a bounded number of them.
///
/// When the table is full, the eighth of it that was seen longest ago goes: so what is known of a
/// client is lost only after seven eighths of the table's size of others were seen since.
#[derive(Debug)]
pub(crate) struct Clients {
    /// By [`ClientKey::number`](crate::classes::ClientKey::number).
    table: ByHash<Client>,
    capacity: usize,
    touches: u64,
}

impl Clients {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { table: ByHash::default(), capacity: capacity.max(8), touches: 0 }
    }

    /// A client, if something is known of it.
    pub(crate) fn known(&self, key: u64) -> Option<&Client> {
        self.table.get(&key)
    }

    /// A client that was seen now.
    pub(crate) fn touch(&mut self, key: u64) -> &mut Client {
        if self.table.len() >= self.capacity && !self.table.contains_key(&key) {
            self.evict();
        }
        self.touches += 1;
        let client = self.table.entry(key).or_default();
        client.touched = self.touches;
        client
    }

    fn evict(&mut self) {
        let mut touches: Vec<u64> = self.table.values().map(|client| client.touched).collect();
        let (_, &mut last, _) = touches.select_nth_unstable(self.capacity / 8);
        self.table.retain(|_, client| client.touched > last);
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }
}

/// Whether less than `span` has passed since `then`.
pub(crate) fn within(now: Mono, then: Mono, span: Duration) -> bool {
    now.since(then) < span
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::ClientKey;

    #[test]
    fn misses_are_forgotten_after_ten_minutes() {
        let mut client = Client::default();
        for second in 0..8 {
            client.miss(Mono::from_secs(1000 + second), second + 1, 1);
        }
        assert_eq!(client.misses(), (8, 1.0));
        client.hit(Mono::from_secs(1400));
        assert_eq!(client.misses().0, 8);
        client.hit(Mono::from_secs(1700));
        assert_eq!(client.misses(), (0, 0.0));
    }

    #[test]
    fn what_is_missed_again_is_missed_once() {
        let mut client = Client::default();
        for second in 0..100 {
            client.miss(Mono::from_secs(second), 1 + second % 3, 1);
        }
        assert_eq!(client.misses().0, 3);
    }

    #[test]
    fn a_full_table_forgets_who_was_seen_longest_ago() {
        let key = |address| ClientKey::V4(address).number();
        let mut clients = Clients::new(16);
        for name in 0..1000 {
            clients.touch(key(name)).scanner_until = Mono::NEVER;
            clients.touch(key(0));
            assert!(clients.len() <= 16);
        }
        // Seen all the time, so never forgotten; likewise the latest seven eighths.
        assert!(clients.known(key(0)).is_some());
        for name in 988..1000 {
            assert!(clients.known(key(name)).is_some(), "{name}");
        }
        assert!(clients.known(key(900)).is_none());
    }
}
