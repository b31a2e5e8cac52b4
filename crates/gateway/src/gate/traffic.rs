//! Whether a request that was let through is still at the server, judged by this machine's connections to the server.
//! Requests of guests, which may not keep the server awake, use the same connections.

use std::collections::HashMap;
use std::time::Duration;

/// Number of checks remembered: this many happen in the time for which a request counts.
pub(super) const LOOKS: u32 = 8;

/// A connection to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Connection {
    /// Identifies the connection, also against a later one between the same ports.
    pub(super) cookie: u64,
    /// How long ago the last byte was sent on it.
    pub(super) sent: Duration,
    /// How long ago the last byte was received.
    pub(super) received: Duration,
    /// How long ago the peer last acknowledged data.
    pub(super) confirmed: Duration,
    /// Data was sent, and nothing was ever received.
    pub(super) unanswered: bool,
}

/// The resolution of the kernel's times: steps of up to 10 ms.
const STEP: Duration = Duration::from_millis(10);

/// Longest delay of an acknowledgement by a peer that has nothing to answer yet.
const CONFIRMS: Duration = Duration::from_millis(100);

impl Connection {
    /// Whether data was sent, and nothing has been received since; nothing if that is unknown.
    fn owes_an_answer(&self, look: Duration) -> Option<bool> {
        if self.unanswered || self.sent != self.received {
            return Some(self.unanswered || self.sent < self.received);
        }
        // Both in the same step: a request that was sent after the answer to an earlier one was acknowledged without an
        // answer. Later, acknowledgements of the kernel's keep-alive probes count too.
        (self.received < look + CONFIRMS).then(|| self.confirmed + STEP <= self.received)
    }
}

/// What connections did at the last checks, by cookie.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    known: HashMap<u64, Known>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// One bit per check: whether data moved since the previous one.
    looks: u8,
    /// A request that was let through has not been answered yet.
    is_owed: bool,
}

/// Times of a check.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ago {
    /// Since the previous check.
    pub(super) look: Duration,
    /// Since the last request was let through.
    pub(super) let_through: Duration,
}

impl Traffic {
    /// Checks all connections; returns whether a request is under way.
    ///
    /// Data that was last sent when the last request was let through, or before, may be such a request: it is under way
    /// while it is sent, while its answer is outstanding, and while the answer arrives. Data that was sent later may
    /// belong to a guest or a WebSocket: it counts only if it moves again and again, which occasional guests do not
    /// cause.
    pub(super) fn look(&mut self, all: &[Connection], ago: Ago, quiet: Duration) -> bool {
        let before = std::mem::take(&mut self.known);
        // Time for the other proxy to pass the request on.
        let slack = quiet / 4;
        let mut is_busy = false;
        for connection in all {
            let known = before.get(&connection.cookie).copied().unwrap_or_default();
            let moved = connection.sent.min(connection.received) < ago.look;
            let looks = known.looks << 1 | u8::from(moved);
            let was_let_through = connection.sent + slack >= ago.let_through;
            let owes = connection.owes_an_answer(ago.look).unwrap_or(known.is_owed);
            let is_sent = known.is_owed && connection.received >= ago.look;
            let is_owed = owes && (was_let_through || is_sent);
            self.known.insert(connection.cookie, Known { looks, is_owed });
            let comes = was_let_through && connection.received < quiet;
            is_busy |= is_owed || comes || looks.count_ones() > LOOKS / 2;
        }
        is_busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_secs(64);

    /// Checks every eight seconds. `what` returns what a connection did by a given second: how long ago it sent, and
    /// received. Returns the first second at which nothing is under way if that comes within an hour; the only request
    /// was let through one quiet time before the start.
    fn ends(what: impl Fn(u64) -> (u64, u64)) -> Option<u64> {
        let mut traffic = Traffic::default();
        (8..3600).step_by(8).find(|second| {
            let [sent, received] = <[u64; 2]>::from(what(*second)).map(Duration::from_secs);
            let connection =
                Connection { cookie: 1, sent, received, confirmed: received, unanswered: false };
            let ago = Ago { look: QUIET / LOOKS, let_through: Duration::from_secs(*second) };
            let is_busy = traffic.look(&[connection], ago, QUIET);
            *second >= QUIET.as_secs() && !is_busy
        })
    }

    #[test]
    fn what_was_answered_at_once_is_over_after_the_quiet_time() {
        assert_eq!(ends(|second| (second, second)), Some(64));
    }

    #[test]
    fn a_download_counts_while_it_comes_and_as_long_again_as_it_is_quiet() {
        let last = |second: u64| second.saturating_sub(600);
        assert_eq!(ends(|second| (second, last(second))), Some(664));
        // In bursts with less than a quiet time between them.
        assert_eq!(ends(|second| (second, second % 60)), None);
    }

    #[test]
    fn an_answer_that_is_long_in_coming_is_waited_for() {
        assert_eq!(ends(|second| (second, second + 5)), None);
        let mut traffic = Traffic::default();
        let age = Duration::from_secs(1000);
        let fresh =
            Connection { cookie: 1, sent: age, received: age, confirmed: age, unanswered: true };
        let ago = Ago { look: QUIET / LOOKS, let_through: age };
        assert!(traffic.look(&[fresh], ago, QUIET), "sent as soon as it was connected");
    }

    #[test]
    fn what_is_asked_as_soon_as_something_else_was_answered_is_seen_by_its_confirmation() {
        for (confirmed, is_busy) in [(60, true), (100, false)] {
            let mut traffic = Traffic::default();
            for look in 0..100 {
                let age = Duration::from_millis(100) + look * QUIET / LOOKS;
                // Later ones are keep-alive acknowledgements.
                let confirmed = if look == 0 { confirmed } else { 0 };
                let confirmed = Duration::from_millis(confirmed);
                let connection = Connection {
                    cookie: 1,
                    sent: age,
                    received: age,
                    confirmed,
                    unanswered: false,
                };
                let ago = Ago { look: QUIET / LOOKS, let_through: age };
                let seen = traffic.look(&[connection], ago, QUIET);
                assert_eq!(seen, is_busy || look < LOOKS, "look {look}, confirmed {confirmed:?}");
            }
        }
    }

    #[test]
    fn guests_that_come_now_and_then_count_for_nothing() {
        // Every 20 s, on a connection that is kept: always within the quiet time. Each is answered.
        assert_eq!(ends(|second| (second % 20, second % 20)), Some(64));
        // A request that is never answered.
        let unanswered =
            |second| if second < 40 { (second, second) } else { (second - 40, second) };
        assert_eq!(ends(unanswered), Some(64));
    }

    #[test]
    fn uploads_and_websockets_count_while_something_moves() {
        assert_eq!(ends(|second| (0, second)), None);
        // In bursts until it is answered, after any time.
        assert_eq!(ends(|second| (second % 50, second + 1)), None);
        assert_eq!(ends(|second| (second % 10, second % 7)), None);
        // Answered after ten minutes.
        let last = |second: u64| second.saturating_sub(600);
        let upload =
            ends(|second| (last(second), if second < 600 { second } else { last(second) }));
        assert!(upload.is_some_and(|end| (600..=664).contains(&end)), "{upload:?}");
    }

    #[test]
    fn many_guests_together_are_no_more_than_each_of_them() {
        let mut traffic = Traffic::default();
        for look in 1..100_u64 {
            // Eight kept connections, of which a different one is used each time.
            let guests: Vec<_> = (0..8)
                .map(|cookie| {
                    let age = Duration::from_secs((look + cookie) % 8 * 8);
                    Connection {
                        cookie,
                        sent: age,
                        received: age,
                        confirmed: age,
                        unanswered: false,
                    }
                })
                .collect();
            let ago =
                Ago { look: QUIET / LOOKS, let_through: Duration::from_secs(1000 + look * 8) };
            assert!(!traffic.look(&guests, ago, QUIET), "look {look}");
        }
    }
}
