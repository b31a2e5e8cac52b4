//! Decides which requests deserve a wake-up, and what all others are answered.

use std::collections::HashMap;
use std::time::Duration;

use foldhash::fast::FixedState;
use serde::{Deserialize, Serialize};

use super::lifecycle::Phase;
use nightwatt_energy::time::Mono;

/// What kind of client sent a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientClass {
    /// A person with a browser.
    Human,
    /// A program that works for a user: curl, an app, a feed of another service.
    Api,
    /// A robot that reads sites on its own account: search engines, archives, AI training.
    Crawler,
    /// A client that keeps asking for what does not exist.
    Scanner,
    /// A health check.
    Monitor,
}

impl ClientClass {
    /// Every class.
    pub const ALL: [Self; 5] =
        [Self::Human, Self::Api, Self::Crawler, Self::Scanner, Self::Monitor];

    /// People and programs that work for them: they may wake the server, and the SLA counts them.
    pub const fn is_admitted(self) -> bool {
        matches!(self, Self::Human | Self::Api)
    }

    /// The name used in logs, metrics and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Api => "api",
            Self::Crawler => "crawler",
            Self::Scanner => "scanner",
            Self::Monitor => "monitor",
        }
    }
}

/// What the cache has for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cached {
    /// An answer that may be given without asking the server.
    Fresh,
    /// An answer that may be given only as long as the server cannot be asked (within grace).
    Stale,
    /// Nothing that may be given.
    Nothing,
}

/// What a request asks for, as far as the decision cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// A browser opens a page: it can be shown a waiting page.
    Page,
    /// A small thing browsers ask for on their own account (`favicon.ico`): no user waits for it.
    Icon,
    /// A health check of the service as a whole: it must not depend on whether the server sleeps.
    Health,
    /// `/robots.txt`: a crawler that cannot read it stays away from the whole site.
    Robots,
    /// A proof for an authority of certificates ([`is_proof`]): wake-ups for it have a budget of their own.
    Proof,
    /// Anything else.
    Other,
}

/// What admission knows of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The kind of client.
    pub class: ClientClass,
    /// What it asks for.
    pub want: Want,
    /// What the cache has.
    pub cached: Cached,
}

impl Request {
    /// Would this request wake a sleeping server?
    pub const fn wakes(&self) -> bool {
        self.class.is_admitted()
            && matches!(self.cached, Cached::Nothing)
            && !matches!(self.want, Want::Icon | Want::Health)
    }
}

/// Whether a path is that of a file by which the owner of the site proves it: to certificate authorities (RFC
/// 8555, 8.3; Baseline Requirements of the CA/Browser Forum, 3.2.2.4.18), and to search engines (`IndexNow`'s key
/// as its generators write it, site verification of Google, Bing and Yandex).
pub fn is_proof(path: &str) -> bool {
    let are = |name: &str, marks: &[u8]| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || marks.contains(&byte);
        !name.is_empty() && name.bytes().all(fits)
    };
    if let Some(rest) = path.strip_prefix("/.well-known/") {
        return rest.strip_prefix("acme-challenge/").is_some_and(|token| are(token, b"-_"))
            || rest.strip_prefix("pki-validation/").is_some_and(|file| are(file, b"-_."));
    }
    let is_key = |prefix: &str, length: usize, kind: &str| {
        let key = path.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(kind));
        key.is_some_and(|key| {
            key.len() == length && key.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    match path.len() {
        17 => path == "/BingSiteAuth.xml",
        28 => is_key("/google", 16, ".html"),
        29 => is_key("/yandex_", 16, ".html"),
        37 => is_key("/", 32, ".txt"),
        _ => false,
    }
}

/// What bounds the wake-ups that clients cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// Wake-ups of one client.
    Client,
    /// Wake-ups of a network of many clients.
    Network,
    /// Time for which the clients of one network alone keep the server awake.
    AwakeTime,
    /// Wake-ups of all clients together that are not recognised.
    Unrecognised,
    /// The part of those that one network may use.
    UnrecognisedOfNetwork,
    /// Wake-ups for [`Want::Proof`] of all clients together that are not recognised.
    Proofs,
}

impl Budget {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Client,
        Self::Network,
        Self::AwakeTime,
        Self::Unrecognised,
        Self::UnrecognisedOfNetwork,
        Self::Proofs,
    ];

    /// The name of its rule, in logs and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Client => "wakes-per-client",
            Self::Network => "wakes-per-network",
            Self::AwakeTime => "awake-per-client",
            Self::Unrecognised => "unrecognised-wakes",
            Self::UnrecognisedOfNetwork => "unrecognised-wakes-per-client",
            Self::Proofs => "certificate-proofs",
        }
    }

    /// Do all clients share it, that are not recognised?
    pub const fn is_of_all(self) -> bool {
        matches!(self, Self::Unrecognised | Self::Proofs)
    }
}

/// How a request is to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// From the cache, fresh.
    Cache,
    /// From the cache, stale: the server sleeps, and grace allows it.
    Stale,
    /// Pass it to the server, which is awake.
    Forward,
    /// The server is (being) woken: show a page that waits.
    WaitingPage,
    /// The server is (being) woken: keep the request until it answers.
    Hold,
    /// A crawler: 503 with `Retry-After` that long from now.
    Later(Duration),
    /// A scanner: refuse.
    Refuse,
    /// A health check or an icon: answer from what the proxy knows.
    State,
    /// A budget that the client draws on is spent: 503 with `Retry-After`.
    OverBudget {
        /// Which.
        budget: Budget,
        /// In how long it allows a wake-up again.
        wait: Duration,
    },
    /// The server would not wake: 503 with `Retry-After` until the next attempt is allowed.
    Unavailable(Duration),
}

/// The route of a request while the server is in `phase`, before budgets are looked at; `Hold` and
/// `WaitingPage` mean that it is worth a wake-up.
///
/// `waiting_page` says whether the operator wants waiting pages; `retry_crawlers` in how long
/// crawlers will be welcome.
pub fn route(
    request: &Request,
    phase: Phase,
    waiting_page: bool,
    retry_crawlers: Duration,
) -> Route {
    if request.want == Want::Health {
        return Route::State;
    }
    if request.cached == Cached::Fresh {
        return Route::Cache;
    }
    if phase == Phase::Awake {
        return Route::Forward;
    }
    if request.cached == Cached::Stale {
        return Route::Stale;
    }
    match request.class {
        ClientClass::Crawler => Route::Later(retry_crawlers),
        ClientClass::Scanner => Route::Refuse,
        ClientClass::Monitor => Route::State,
        ClientClass::Human | ClientClass::Api => match request.want {
            Want::Icon | Want::Health => Route::State,
            Want::Page if waiting_page => Route::WaitingPage,
            Want::Page | Want::Robots | Want::Proof | Want::Other => Route::Hold,
        },
    }
}

/// How many times a client may wake the server: requests can neither keep it awake nor wear it out.
#[derive(Debug, Clone)]
pub struct WakeBudget {
    wakes: u32,
    per: Duration,
    spent: HashMap<u64, WakeBucket, FixedState>,
}

#[derive(Debug, Clone, Copy)]
struct WakeBucket {
    /// When the bucket would be full again: each wake-up moves it on by `per / wakes`.
    full_at: Mono,
}

/// Clients remembered at once. The least indebted are forgotten first: they get a full budget back.
const CLIENTS: usize = 4096;

impl WakeBudget {
    /// `wakes` in a row at most, and as many `per` that time in the long run (a token bucket).
    pub fn new(wakes: u32, per: Duration) -> Self {
        Self { wakes, per, spent: HashMap::default() }
    }

    fn price(&self) -> Duration {
        self.per / self.wakes.max(1)
    }

    /// When the bucket would be full again after one more wake-up, or how long to wait for one.
    fn after_one_more(&self, now: Mono, client: u64) -> Result<Mono, Duration> {
        let full_at = self.spent.get(&client).map_or(now, |spent| spent.full_at.max(now));
        let after = full_at + self.price();
        let over = after.since(now + self.per);
        if self.wakes == 0 || !over.is_zero() {
            return Err(over.max(Duration::from_secs(1)));
        }
        Ok(after)
    }

    /// Whether `client` may wake the server now, or how long it has to wait.
    pub fn may(&self, now: Mono, client: u64) -> Result<(), Duration> {
        self.after_one_more(now, client).map(|_| ())
    }

    /// How many wake-ups `client` may cause now, in a row.
    pub fn left(&self, now: Mono, client: u64) -> u32 {
        let Some(spent) = self.spent.get(&client) else { return self.wakes };
        let debt = spent.full_at.since(now).as_secs_f64() / self.price().as_secs_f64();
        self.wakes.saturating_sub(debt.ceil() as u32)
    }

    /// Gives `client` its whole budget back.
    pub fn forgive(&mut self, client: u64) {
        self.spent.remove(&client);
    }

    /// Charges `client` one wake-up, or returns how long it has to wait for one.
    pub fn spend(&mut self, now: Mono, client: u64) -> Result<(), Duration> {
        let after = self.after_one_more(now, client)?;
        if self.spent.len() >= CLIENTS && !self.spent.contains_key(&client) {
            self.forget(now);
        }
        self.spent.insert(client, WakeBucket { full_at: after });
        Ok(())
    }

    fn forget(&mut self, now: Mono) {
        self.spent.retain(|_, spent| spent.full_at > now);
        if self.spent.len() >= CLIENTS {
            let least =
                self.spent.iter().min_by_key(|(_, spent)| spent.full_at).map(|(key, _)| *key);
            least.map(|key| self.spent.remove(&key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Duration = Duration::from_hours(1);

    fn ask(class: ClientClass, want: Want, cached: Cached, phase: Phase) -> Route {
        route(&Request { class, want, cached }, phase, true, RETRY)
    }

    #[test]
    fn a_fresh_answer_needs_no_server() {
        for class in ClientClass::ALL {
            for phase in [Phase::Awake, Phase::Asleep, Phase::Failed] {
                assert_eq!(ask(class, Want::Page, Cached::Fresh, phase), Route::Cache);
            }
        }
    }

    #[test]
    fn a_stale_answer_is_given_only_while_the_server_cannot_be_asked() {
        let at = |phase| ask(ClientClass::Human, Want::Page, Cached::Stale, phase);
        assert_eq!(at(Phase::Awake), Route::Forward);
        for phase in [Phase::FallingAsleep, Phase::Asleep, Phase::Waking, Phase::Failed] {
            assert_eq!(at(phase), Route::Stale);
        }
    }

    #[test]
    fn only_people_and_their_programs_wake_it() {
        let at = |class, want| ask(class, want, Cached::Nothing, Phase::Asleep);
        assert_eq!(at(ClientClass::Human, Want::Page), Route::WaitingPage);
        assert_eq!(at(ClientClass::Human, Want::Other), Route::Hold);
        assert_eq!(at(ClientClass::Human, Want::Icon), Route::State);
        assert_eq!(at(ClientClass::Api, Want::Other), Route::Hold);
        assert_eq!(at(ClientClass::Crawler, Want::Page), Route::Later(RETRY));
        assert_eq!(at(ClientClass::Scanner, Want::Page), Route::Refuse);
        assert_eq!(at(ClientClass::Monitor, Want::Other), Route::State);
    }

    #[test]
    fn a_health_check_is_answered_from_what_is_known_whoever_asks_and_whatever_the_server_does() {
        for class in ClientClass::ALL {
            for cached in [Cached::Fresh, Cached::Stale, Cached::Nothing] {
                for phase in [Phase::Unknown, Phase::Awake, Phase::Asleep, Phase::Failed] {
                    assert_eq!(ask(class, Want::Health, cached, phase), Route::State);
                }
            }
        }
    }

    #[test]
    fn what_wakes_is_what_is_held_or_shown_a_waiting_page() {
        for class in ClientClass::ALL {
            for want in [Want::Page, Want::Icon, Want::Health, Want::Proof, Want::Other] {
                for cached in [Cached::Fresh, Cached::Stale, Cached::Nothing] {
                    let request = Request { class, want, cached };
                    let route = route(&request, Phase::Asleep, true, RETRY);
                    let waits = matches!(route, Route::Hold | Route::WaitingPage);
                    assert_eq!(request.wakes(), waits, "{request:?}");
                }
            }
        }
    }

    #[test]
    fn a_client_gets_its_wakes_and_then_has_to_wait() {
        let mut budget = WakeBudget::new(3, Duration::from_hours(1));
        let mut now = Mono::from_secs(10);
        for _ in 0..3 {
            assert_eq!(budget.spend(now, 1), Ok(()));
        }
        assert_eq!(budget.spend(now, 1), Err(Duration::from_mins(20)));
        assert_eq!(budget.spend(now, 2), Ok(()), "others are not concerned");
        now = now + Duration::from_mins(20);
        assert_eq!(budget.spend(now, 1), Ok(()));
        assert!(budget.spend(now, 1).is_err());
    }

    #[test]
    fn what_is_left_of_a_budget_is_what_can_be_spent_of_it() {
        let mut budget = WakeBudget::new(3, Duration::from_hours(1));
        for minute in [0, 1, 25, 26, 27, 50, 200] {
            let now = Mono::from_secs(60 * minute);
            let (left, mut spent) = (budget.left(now, 1), 0);
            let mut trial = budget.clone();
            while trial.spend(now, 1).is_ok() {
                spent += 1;
            }
            assert_eq!(left, spent, "minute {minute}");
            assert_eq!(budget.may(now, 1).is_ok(), left > 0);
            let _ = budget.spend(now, 1);
        }
        budget.forgive(1);
        assert_eq!(budget.left(Mono::from_secs(12_001), 1), 3);
    }

    #[test]
    fn many_clients_do_not_fill_the_memory_and_do_not_hide_who_is_in_debt() {
        let mut budget = WakeBudget::new(3, Duration::from_hours(1));
        let greedy = u64::MAX;
        while budget.spend(Mono::from_secs(1), greedy).is_ok() {}
        for client in 0..20_000 {
            assert_eq!(budget.spend(Mono::from_secs(1), client), Ok(()));
        }
        assert!(budget.spent.len() <= CLIENTS);
        assert!(budget.spend(Mono::from_secs(1), greedy).is_err(), "it was forgotten");
    }
}
