//! What a limit of nightwatt for one client has refused: a replay or a load generator is one client.

/// Requests that such a limit may have refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Refusals {
    /// Their connections ended before any answer.
    pub(crate) closed: u64,
    /// They were answered that this client asks for too much.
    pub(crate) limited: u64,
}

impl Refusals {
    /// In words, each with what to try next.
    pub(crate) fn warnings(self) -> Vec<String> {
        let closed = (self.closed > 0).then(|| {
            format!(
                "{} connections were closed before any answer: nightwatt does so beyond \
                 `limits.connections_per_client` (`nightwatt status` shows how many it refused); raise it, or \
                 name this machine in `trusted_proxies`",
                self.closed
            )
        });
        let limited = (self.limited > 0).then(|| {
            format!(
                "{} requests were answered that this client asks for too much: `limits.requests_per_client`, \
                 `limits.held_per_client`, `wakes_per_client_and_hour` and `awake_per_client_and_day` bound one \
                 client, and to nightwatt this is one; raise them, or name this machine in `trusted_proxies`",
                self.limited
            )
        });
        closed.into_iter().chain(limited).collect()
    }
}
