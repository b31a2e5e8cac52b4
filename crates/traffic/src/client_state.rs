//! What is remembered of each client: how much it asked for in vain, whether it read `robots.txt`,
//! whether the server ever answered it with success.

use std::time::Duration;

use nightwatt_energy::time::Mono;

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

/// What a client is because of what it did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Marks {
    /// When it became a scanner.
    pub(crate) scanner_since: Mono,
    /// A scanner until then.
    pub(crate) scanner_until: Mono,
    /// When a navigation last ended that it was one.
    pub(crate) cleared: Option<Mono>,
    /// When it last opened a scanners' path and was believed.
    pub(crate) opened: Option<Mono>,
    /// When it asked for `robots.txt`.
    pub(crate) robots: Option<Mono>,
}

/// One client: an address with an agent. Several clients may share an address.
#[derive(Debug, Default)]
pub(crate) struct Client {
    /// Number of its address.
    pub(crate) address: u64,
    /// Its agent, by hash.
    pub(crate) agent: u64,
    pub(crate) marks: Marks,
    /// The server has answered it with success.
    pub(crate) succeeded: bool,
    /// The server has let it change something, by another method than POST.
    pub(crate) writes: bool,
    /// It has missed a path that scanners ask for.
    pub(crate) scans: bool,
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
        misses_of(&self.spans)
    }

    /// The same as of now.
    pub(crate) fn misses_at(&self, now: Mono) -> (u32, f64) {
        let passed = (now.0.as_secs() / SPAN_S).saturating_sub(self.latest);
        let kept = SPANS.saturating_sub(usize::try_from(passed).unwrap_or(SPANS));
        misses_of(&self.spans[..kept])
    }

    /// Whether there is something to forgive.
    pub(crate) fn has_erred(&self) -> bool {
        self.marks.scanner_until > Mono::ZERO || self.marks.robots.is_some() || self.misses().0 > 0
    }

    /// Forgets what it did wrong.
    pub(crate) fn forgive(&mut self) {
        self.marks.scanner_until = Mono::ZERO;
        self.marks.robots = None;
        self.scans = false;
        self.spans = [Span::default(); SPANS];
        self.missed = [0; REMEMBERED];
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

fn misses_of(spans: &[Span]) -> (u32, f64) {
    let sum = |part: fn(&Span) -> u32| spans.iter().map(part).fold(0, u32::saturating_add);
    let (requests, misses) = (sum(|span| span.requests), sum(|span| span.misses));
    (misses, f64::from(misses) / f64::from(requests.max(1)))
}

/// What was seen lately, a bounded number of things by their hashes.
///
/// When the table is full, the eighth of it that was seen longest ago goes: so what is known of a
/// client is lost only after seven eighths of the table's size of others were seen since.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    table: ByHash<Seen<T>>,
    capacity: usize,
    touches: u64,
}

#[derive(Debug, Default)]
struct Seen<T> {
    /// Number of the latest touch, for the order of eviction.
    touched: u64,
    what: T,
}

impl<T: Default> Recent<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { table: ByHash::default(), capacity: capacity.max(8), touches: 0 }
    }

    /// What is known, if something is.
    pub(crate) fn known(&self, key: u64) -> Option<&T> {
        self.table.get(&key).map(|seen| &seen.what)
    }

    /// The same, to change it; it does not count as seen.
    pub(crate) fn known_mut(&mut self, key: u64) -> Option<&mut T> {
        self.table.get_mut(&key).map(|seen| &mut seen.what)
    }

    /// What was seen now.
    pub(crate) fn touch(&mut self, key: u64) -> &mut T {
        if self.table.len() >= self.capacity && !self.table.contains_key(&key) {
            self.evict();
        }
        self.touches += 1;
        let seen = self.table.entry(key).or_default();
        seen.touched = self.touches;
        &mut seen.what
    }

    pub(crate) fn remove(&mut self, key: u64) {
        self.table.remove(&key);
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        self.table.values().map(|seen| &seen.what)
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.table.values_mut().map(|seen| &mut seen.what)
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.table.retain(|_, seen| keep(&seen.what));
    }

    fn evict(&mut self) {
        let mut touches: Vec<u64> = self.table.values().map(|seen| seen.touched).collect();
        let (_, &mut last, _) = touches.select_nth_unstable(self.capacity / 8);
        self.table.retain(|_, seen| seen.touched > last);
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
    use crate::classifier::ClientKey;

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
    fn who_is_forgiven_has_missed_nothing() {
        let mut client = Client::default();
        client.miss(Mono::from_secs(1), 1, 8);
        client.marks.robots = Some(Mono::ZERO);
        client.marks.scanner_until = Mono::NEVER;
        assert!(client.has_erred());
        client.forgive();
        assert!(!client.has_erred());
        let Marks { robots, scanner_until, .. } = client.marks;
        assert_eq!((client.misses(), robots, scanner_until), ((0, 0.0), None, Mono::ZERO));
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
        let mut clients: Recent<Client> = Recent::new(16);
        for name in 0..1000 {
            clients.touch(key(name)).marks.scanner_until = Mono::NEVER;
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
