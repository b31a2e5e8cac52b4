//! Who may come in: decides by the network and the password of a client, before anything else happens for it.

mod login;

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderMap, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use nightwatt_clock::Clock;
use nightwatt_policy::rate::{Rate, RateLimiter};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

pub use self::login::Login;
use crate::answers;
use crate::body::Answer;
use crate::config::{AccessConfig, SiteConfig};
use crate::facts::Facts;

/// How many wrong passwords a client may show: ten at once, and one every ten seconds after that.
const WRONG: Rate = Rate::per_minute(6, 10);

/// Log-ins that are remembered, so that their passwords are hashed once.
const MOST_KNOWN: usize = 1024;

/// Requests that wait for the hash of their password. One is computed at a time: it is meant to be slow, and this
/// machine is small.
const MOST_WAITING: usize = 32;

// What clients are told.
const OUTSIDE: &str = "This site is not for clients of this network.";
const LOG_IN: &str = "This site needs a password.";
const WRONG_PASSWORD: &str = "This user does not exist, or has another password.";
const TOO_MANY: &str = "Too many wrong passwords. Please wait.";
const BUSY: &str = "Too many clients log in at the same time. Please try again.";
pub(crate) const NO_WAKE: &str = "The server sleeps, and clients of this network do not wake it. Please come back when it is awake.";

/// When a client that may not wake the server can look again whether it is awake.
pub(crate) const ASK_AGAIN: Duration = Duration::from_mins(1);

/// The rule in the access log for a client that may come in, but not wake the server.
pub(crate) const NEVER_WAKE: &str = "access-wake";

/// Why a client does not come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denial {
    /// Its network may not, or a proxy named it in a form that cannot be parsed.
    Network,
    /// It shows no password.
    NoPassword,
    /// It shows a wrong one.
    WrongPassword,
    /// It has shown too many wrong ones: none is checked before this time has passed.
    Attempts(Duration),
    /// Too many clients show passwords.
    Busy,
}

impl Denial {
    /// Its rule in the access log.
    pub(crate) const fn rule(self) -> &'static str {
        match self {
            Self::Network => "access-network",
            Self::NoPassword => "access-log-in",
            Self::WrongPassword => "access-password",
            Self::Attempts(_) => "access-attempts",
            Self::Busy => "access-busy",
        }
    }
}

/// Lets the clients of a site in, or not.
pub(crate) struct Admittance {
    config: AccessConfig,
    /// The challenge for clients without a password.
    challenge: HeaderValue,
    /// Mixed into what is remembered of passwords.
    key: [u8; 32],
    memory: Mutex<Memory>,
    hashing: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

struct Memory {
    /// Hashes of users with their right passwords.
    known: HashSet<[u8; 32]>,
    /// Clients with wrong passwords.
    wrong: RateLimiter,
}

/// The client that asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comer {
    pub(crate) ip: IpAddr,
    /// Whose attempts count together.
    pub(crate) budget: u64,
    /// A proxy named it in a form that cannot be parsed: `ip` is that proxy's.
    pub(crate) is_unreadable: bool,
}

impl Comer {
    pub(crate) fn of(facts: &Facts) -> Self {
        Self { ip: facts.client, budget: facts.budget, is_unreadable: facts.is_unreadable }
    }
}

/// What is left of a request's head after its credentials were removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shown {
    Nothing,
    /// Several fields, or a `Basic` one that cannot be read.
    Rubbish,
    Password(Login),
}

/// Whether credentials are a password. Tokens of applications, such as `Bearer`, are not.
fn is_basic(value: &HeaderValue) -> bool {
    let scheme = value.as_bytes().split(|byte| *byte == b' ').next().unwrap_or_default();
    scheme.eq_ignore_ascii_case(b"basic")
}

impl Admittance {
    /// For a site that has rules of access.
    pub(crate) fn of(site: &SiteConfig) -> Option<Arc<Self>> {
        let config = site.access.clone()?;
        let realm = config.realm.as_deref().unwrap_or(&site.name);
        let challenge = format!("Basic realm=\"{realm}\", charset=\"UTF-8\"");
        let mut key = [0; 32];
        // Without random bytes nothing is remembered: each password is hashed each time.
        let is_random = getrandom::fill(&mut key).is_ok();
        let known = HashSet::with_capacity(if is_random { MOST_KNOWN } else { 0 });
        Some(Arc::new(Self {
            challenge: HeaderValue::from_str(&challenge).ok()?,
            config,
            key,
            memory: Mutex::new(Memory { known, wrong: RateLimiter::new(WRONG) }),
            hashing: Arc::new(Semaphore::new(1)),
            waiting: Arc::new(Semaphore::new(MOST_WAITING)),
        }))
    }

    /// The rules.
    pub(crate) const fn config(&self) -> &AccessConfig {
        &self.config
    }

    /// Removes the credentials from a head, if this proxy reads them: the server does not get them.
    pub(crate) fn take(&self, fields: &mut HeaderMap) -> Shown {
        if self.config.htpasswd.is_none() {
            return Shown::Nothing;
        }
        let mut values = fields.get_all(AUTHORIZATION).iter();
        let shown = match (values.next(), values.next()) {
            (None, _) => Shown::Nothing,
            (Some(value), None) if !is_basic(value) => Shown::Nothing,
            (Some(value), None) => {
                Login::read(value.as_bytes()).map_or(Shown::Rubbish, Shown::Password)
            }
            (Some(_), Some(_)) => Shown::Rubbish,
        };
        fields.remove(AUTHORIZATION);
        shown
    }

    /// Whether the network of a client may come in.
    pub(crate) fn by_network(&self, comer: Comer) -> Result<(), Denial> {
        let comes_in = !comer.is_unreadable && self.config.lets_in(comer.ip);
        if comes_in { Ok(()) } else { Err(Denial::Network) }
    }

    /// Whether a client may come in with what it shows.
    pub(crate) async fn by_password(
        self: &Arc<Self>,
        comer: Comer,
        shown: Shown,
        clock: &Clock,
    ) -> Result<(), Denial> {
        if !self.config.needs_password(comer.ip) {
            return Ok(());
        }
        let login = match shown {
            Shown::Nothing => return Err(Denial::NoPassword),
            Shown::Rubbish => {
                self.attempt(comer, clock)?;
                return Err(Denial::WrongPassword);
            }
            Shown::Password(login) => login,
        };
        let mark = self.mark(&login);
        if self.lock().known.contains(&mark) {
            return Ok(());
        }
        self.may_attempt(comer, clock)?;
        let waiting = Arc::clone(&self.waiting).try_acquire_owned().map_err(|_| Denial::Busy)?;
        let hashing = Arc::clone(&self.hashing).acquire_owned().await;
        // Other requests may have shown the same, or wrong ones, meanwhile.
        if self.lock().known.contains(&mark) {
            return Ok(());
        }
        self.may_attempt(comer, clock)?;
        let (this, clock) = (Arc::clone(self), clock.clone());
        // A client that leaves stops neither the hash nor the count, and frees no turn.
        let check = move || {
            let _turn = (waiting, hashing);
            let is_right = this.config.users.check(&login.user, &login.password);
            if is_right {
                this.remember(mark);
            } else {
                let _ = this.attempt(comer, &clock);
            }
            is_right
        };
        match tokio::task::spawn_blocking(check).await {
            Ok(true) => Ok(()),
            _ => Err(Denial::WrongPassword),
        }
    }

    fn remember(&self, mark: [u8; 32]) {
        let mut memory = self.lock();
        if memory.known.len() >= MOST_KNOWN {
            memory.known.clear();
        }
        if memory.known.capacity() > 0 {
            memory.known.insert(mark);
        }
    }

    fn may_attempt(&self, comer: Comer, clock: &Clock) -> Result<(), Denial> {
        let now = clock.now().mono;
        self.lock().wrong.may(now, comer.budget).map_err(Denial::Attempts)
    }

    fn attempt(&self, comer: Comer, clock: &Clock) -> Result<(), Denial> {
        let now = clock.now().mono;
        self.lock().wrong.admit(now, comer.budget).map_err(Denial::Attempts)
    }

    fn mark(&self, login: &Login) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.key);
        hash.update((login.user.len() as u64).to_le_bytes());
        hash.update(login.user.as_bytes());
        hash.update(&login.password);
        hash.finalize().into()
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a client that does not come in.
    pub(crate) fn answer(&self, denial: Denial) -> Response<Answer> {
        let mut response = match denial {
            Denial::Network => return answers::sentence(StatusCode::FORBIDDEN, OUTSIDE),
            Denial::Attempts(wait) => {
                return answers::later(StatusCode::TOO_MANY_REQUESTS, wait, TOO_MANY);
            }
            Denial::Busy => {
                let wait = Duration::from_secs(1);
                return answers::later(StatusCode::SERVICE_UNAVAILABLE, wait, BUSY);
            }
            Denial::NoPassword => answers::sentence(StatusCode::UNAUTHORIZED, LOG_IN),
            Denial::WrongPassword => answers::sentence(StatusCode::UNAUTHORIZED, WRONG_PASSWORD),
        };
        response.headers_mut().insert(WWW_AUTHENTICATE, self.challenge.clone());
        response
    }
}
