//! Who may come in: decides by the network and the password of a client, before anything else happens for it.

mod forward;
mod login;
mod pass;
mod queue;
mod turns;

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::header::{AUTHORIZATION, FORWARDED, HeaderMap, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use nightwatt_clock::Clock;
use nightwatt_policy::awake_budget::UNLIMITED;
use nightwatt_policy::rate::{Rate, RateLimiter};
use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, watch};

use self::forward::ForwardAuth;
pub(crate) use self::forward::Refused;
pub use self::login::Login;
pub(crate) use self::pass::Pass;
use self::queue::{Queue, Turn};
use crate::answers;
use crate::body::Answer;
use crate::config::{AccessConfig, SiteConfig};
use crate::error::StartError;
use crate::facts::Facts;
use crate::forwarded::FORWARDED_FOR;

/// How many wrong passwords a client may show: ten at once, and one every ten seconds after that.
const WRONG: Rate = Rate::per_minute(6, 10);

/// How many all clients of a public network (of IPv6, a /48) may show: as many as four of them.
const WRONG_OF_NETWORK: Rate = Rate::per_minute(24, 40);

/// Log-ins that are remembered, so that their passwords are hashed once.
const MOST_KNOWN: usize = 1024;

// What clients are told.
const OUTSIDE: &str = "This site is not for clients of this network.";
const LOG_IN: &str = "This site needs a password.";
const WRONG_PASSWORD: &str = "This user does not exist, or has another password.";
const TOO_MANY: &str = "Too many wrong passwords. Please wait.";
const NO_CERTIFICATE: &str = "This site needs a certificate of the client, by TLS.";
const NOT_ASKED: &str =
    "The service that decides who may come in does not answer. Please try again.";
const BUSY: &str = "Too many clients log in at the same time. Please try again.";
pub(crate) const NO_WAKE: &str = "The server sleeps, and clients of this network do not wake it. Please come back when it is awake.";

/// When a client that may not wake the server can look again whether it is awake.
pub(crate) const ASK_AGAIN: Duration = Duration::from_mins(1);

/// The rule in the access log for a client that may come in, but not wake the server.
pub(crate) const NEVER_WAKE: &str = "access-wake";

/// The rule for a client that left before its password was checked.
pub(crate) const LEFT: &str = "access-left";

/// Why a client does not come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denial {
    /// Its network may not.
    Network,
    /// Networks decide, and it is not certain which client it is.
    Unnamed,
    /// It shows no password.
    NoPassword,
    /// It shows a wrong one.
    WrongPassword,
    /// It has shown too many wrong ones: none is checked before this time has passed.
    Attempts(Duration),
    /// Too many clients show passwords.
    Busy,
    /// It shows no certificate that opens the site.
    NoCertificate,
    /// The service that decides does not answer.
    NotAsked,
    /// That service has its own answer.
    Forward,
}

impl Denial {
    /// Its rule in the access log.
    pub(crate) const fn rule(self) -> &'static str {
        match self {
            Self::Network => "access-network",
            Self::Unnamed => "access-unnamed",
            Self::NoPassword => "access-log-in",
            Self::WrongPassword => "access-password",
            Self::Attempts(_) => "access-attempts",
            Self::Busy => "access-busy",
            Self::NoCertificate => "access-certificate",
            Self::NotAsked => "access-service",
            Self::Forward => "access-forward",
        }
    }
}

/// Lets the clients of a site in, or not.
pub(crate) struct Admittance {
    site: String,
    config: AccessConfig,
    /// The challenge for clients without a password.
    challenge: HeaderValue,
    /// Mixed into what is remembered of passwords.
    key: [u8; 32],
    memory: Mutex<Memory>,
    hashing: Arc<Semaphore>,
    /// The service that decides instead of passwords.
    forward: Option<Arc<ForwardAuth>>,
    /// A client that comes in by its network speaks for others, and the operator has been warned.
    is_warned: AtomicBool,
}

/// The keyed hash of a user with a password.
type Mark = [u8; 32];

struct Memory {
    /// Users with their right passwords.
    known: HashSet<Mark>,
    /// Clients with wrong passwords.
    wrong: RateLimiter,
    /// Their networks.
    wrong_of_networks: RateLimiter,
    queue: Queue,
}

impl Memory {
    fn may_attempt(&self, comer: Comer, clock: &Clock) -> Result<(), Denial> {
        let now = clock.now().mono;
        let of_client = self.wrong.may(now, comer.budget);
        let of_network = self.wrong_of_networks.may(now, comer.network);
        of_client.and(of_network).map_err(Denial::Attempts)
    }

    fn attempt(&mut self, comer: Comer, clock: &Clock) -> Result<(), Denial> {
        self.may_attempt(comer, clock)?;
        let now = clock.now().mono;
        let of_client = self.wrong.admit(now, comer.budget);
        let of_network = self.wrong_of_networks.admit(now, comer.network);
        of_client.and(of_network).map_err(Denial::Attempts)
    }
}

/// What is to be done for a password.
enum Step {
    Nothing,
    /// Another request shows the same.
    WaitFor(watch::Receiver<Option<bool>>),
    Check(Check),
}

/// A password that waits for its check, or is checked.
struct Check {
    admittance: Arc<Admittance>,
    mark: Mark,
    turn: Turn,
}

impl Drop for Check {
    fn drop(&mut self) {
        self.admittance.lock().queue.leave(&self.mark);
    }
}

/// The client that asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comer {
    /// Its address, if that is certain.
    pub(crate) ip: Option<IpAddr>,
    /// Whose attempts count together.
    pub(crate) budget: u64,
    /// The same for its network; of a private one, the client itself.
    pub(crate) network: u64,
    /// A proxy named it in a form that cannot be parsed.
    pub(crate) is_unreadable: bool,
}

impl Comer {
    pub(crate) fn of(facts: &Facts) -> Self {
        let Facts { budget, network, is_unreadable, .. } = *facts;
        let network = if network == UNLIMITED { budget } else { network };
        Self { ip: facts.certain_client(), budget, network, is_unreadable }
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
    ///
    /// # Errors
    ///
    /// If passwords cannot be asked for, or the service that decides cannot be asked.
    pub(crate) fn of(site: &SiteConfig) -> Result<Option<Arc<Self>>, StartError> {
        let Some(config) = site.access.clone() else { return Ok(None) };
        let realm = config.realm.as_deref().unwrap_or(&site.name);
        let challenge = format!("Basic realm=\"{realm}\", charset=\"UTF-8\"");
        let challenge = HeaderValue::from_str(&challenge)
            .map_err(|_| StartError::Realm { site: site.name.clone(), realm: realm.to_owned() })?;
        let opened = config.forward.as_ref().map(ForwardAuth::open).transpose();
        let wrong = |source| StartError::ForwardAuth { site: site.name.clone(), source };
        let forward = opened.map_err(wrong)?.map(Arc::new);
        let mut key = [0; 32];
        // Without random bytes nothing is remembered: each password is hashed each time.
        let is_random = getrandom::fill(&mut key).is_ok();
        let memory = Memory {
            known: HashSet::with_capacity(if is_random { MOST_KNOWN } else { 0 }),
            wrong: RateLimiter::new(WRONG),
            wrong_of_networks: RateLimiter::new(WRONG_OF_NETWORK),
            queue: Queue::default(),
        };
        Ok(Some(Arc::new(Self {
            site: site.name.clone(),
            challenge,
            config,
            key,
            memory: Mutex::new(memory),
            hashing: Arc::new(Semaphore::new(1)),
            forward,
            is_warned: AtomicBool::new(false),
        })))
    }

    /// The rules.
    pub(crate) const fn config(&self) -> &AccessConfig {
        &self.config
    }

    /// Removes the credentials from a head, if they are for this proxy: then the server does not get them.
    pub(crate) fn take(&self, facts: &Facts, fields: &mut HeaderMap) -> Shown {
        self.look_for_proxies(facts, fields);
        self.strip(fields);
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
        // A client that needs no password shows what is for the server, or what it is used to show elsewhere.
        let is_for_server = !self.config.needs_password(facts.certain_client())
            && !matches!(&shown, Shown::Password(login) if self.knows(login));
        if !is_for_server {
            fields.remove(AUTHORIZATION);
        }
        shown
    }

    /// Warns of a client that comes in by its network and speaks for others: all of them come in.
    fn look_for_proxies(&self, facts: &Facts, fields: &HeaderMap) {
        let speaks_for_others =
            fields.contains_key(FORWARDED_FOR) || fields.contains_key(FORWARDED);
        if facts.trusted
            || !speaks_for_others
            || !self.config.favours(facts.client)
            || self.is_warned.swap(true, Ordering::Relaxed)
        {
            return;
        }
        tracing::warn!(
            site = %self.site,
            client = %facts.client,
            "a client that comes in by its network speaks for others (X-Forwarded-For, Forwarded): if it is a proxy, \
             all of its clients come in. Add it to `trusted_proxies` (docs/access.md, Networks). This is logged once"
        );
    }

    /// Whether the network of a client may come in.
    pub(crate) fn by_network(&self, comer: Comer) -> Result<(), Denial> {
        if !comer.is_unreadable && self.config.lets_in(comer.ip) {
            return Ok(());
        }
        Err(if comer.ip.is_some() { Denial::Network } else { Denial::Unnamed })
    }

    /// Whether a client may come in with what it shows. If its password is checked, `found` gets the result, also after
    /// the client has left.
    pub(crate) async fn by_password(
        self: &Arc<Self>,
        comer: Comer,
        shown: Shown,
        clock: &Clock,
        found: impl FnOnce(bool) + Send + 'static,
    ) -> Result<(), Denial> {
        if !self.config.needs_password(comer.ip) {
            return Ok(());
        }
        let login = match shown {
            Shown::Nothing => return Err(Denial::NoPassword),
            Shown::Rubbish => {
                self.lock().attempt(comer, clock)?;
                return Err(Denial::WrongPassword);
            }
            Shown::Password(login) => login,
        };
        let mark = self.mark(&login);
        let check = loop {
            let mut other = match self.step(mark, comer, clock)? {
                Step::Nothing => return Ok(()),
                Step::WaitFor(other) => other,
                Step::Check(check) => break check,
            };
            let result = other.wait_for(Option::is_some).await.map(|result| *result);
            match result {
                Ok(Some(true)) => return Ok(()),
                Ok(_) => {
                    self.lock().attempt(comer, clock)?;
                    return Err(Denial::WrongPassword);
                }
                // Its client has left before its turn.
                Err(_) => {}
            }
        };
        let hashing = Arc::clone(&self.hashing).acquire_owned().await;
        // Other requests may have shown wrong ones meanwhile.
        self.lock().may_attempt(comer, clock)?;
        let (this, clock) = (Arc::clone(self), clock.clone());
        // A client that leaves stops neither the hash nor the count, and frees no turn.
        let work = move || {
            let _hashing = hashing;
            let is_right = this.config.users.check(&login.user, &login.password);
            if is_right {
                this.remember(mark);
            } else {
                let _ = this.lock().attempt(comer, &clock);
            }
            found(is_right);
            check.turn.is_over(is_right);
            is_right
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(true) => Ok(()),
            _ => Err(Denial::WrongPassword),
        }
    }

    /// What is to be done next for a password.
    fn step(self: &Arc<Self>, mark: Mark, comer: Comer, clock: &Clock) -> Result<Step, Denial> {
        let mut memory = self.lock();
        if memory.known.contains(&mark) {
            return Ok(Step::Nothing);
        }
        memory.may_attempt(comer, clock)?;
        if let Some(other) = memory.queue.check_of(&mark) {
            return Ok(Step::WaitFor(other));
        }
        let turn = memory.queue.enter(mark, comer).ok_or(Denial::Busy)?;
        Ok(Step::Check(Check { admittance: Arc::clone(self), mark, turn }))
    }

    fn remember(&self, mark: Mark) {
        let mut memory = self.lock();
        if memory.known.len() >= MOST_KNOWN {
            memory.known.clear();
        }
        if memory.known.capacity() > 0 {
            memory.known.insert(mark);
        }
    }

    fn knows(&self, login: &Login) -> bool {
        let mark = self.mark(login);
        self.lock().known.contains(&mark)
    }

    fn mark(&self, login: &Login) -> Mark {
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
            Denial::Network | Denial::Unnamed => {
                return answers::sentence(StatusCode::FORBIDDEN, OUTSIDE);
            }
            Denial::Attempts(wait) => {
                return answers::later(StatusCode::TOO_MANY_REQUESTS, wait, TOO_MANY);
            }
            Denial::NoCertificate => {
                return answers::sentence(StatusCode::FORBIDDEN, NO_CERTIFICATE);
            }
            Denial::NotAsked | Denial::Forward => {
                let wait = Duration::from_secs(5);
                return answers::later(StatusCode::SERVICE_UNAVAILABLE, wait, NOT_ASKED);
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

/// Returns when, after a reload, a client may not come in any more with what it had shown.
pub(crate) async fn shut_out(
    mut rules: watch::Receiver<Option<Arc<Admittance>>>,
    comer: Comer,
    vouchers: Option<Arc<[u64]>>,
    pass: Pass,
) {
    let is_out = |it: &Option<Arc<Admittance>>| {
        it.as_ref().is_some_and(|rules| {
            rules
                .by_network(comer)
                .and_then(|()| rules.by_certificate(vouchers.as_deref()))
                .is_err()
                || !rules.still_opens_to(comer, &pass)
        })
    };
    if rules.wait_for(is_out).await.is_err() {
        // The site is gone, and what becomes of its connections is decided elsewhere.
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests;
