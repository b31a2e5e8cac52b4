//! Authorises orders on the admin address: clients need the password of the configuration.
//!
//! The page exchanges the password once for a token, which it keeps and sends with each order. Not a cookie: a browser
//! sends cookies to every port of a host, and here the host's other ports are the sites.

use std::collections::VecDeque;
use std::io::Read;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nightwatt_energy::time::Mono;
use nightwatt_host::text::hex;
use nightwatt_policy::rate::{Rate, RateLimiter};
use nightwatt_traffic::ClientKey;
use sha2::{Digest, Sha256};

use crate::config::AdminConfig;
use crate::error::StartError;

/// Minimum length of a password.
const SHORTEST: usize = 12;

/// Maximum length of a password file: a longer one holds something else.
const LONGEST: u64 = 1024;

/// Lifetime of a token.
pub(super) const SESSION: Duration = Duration::from_hours(12);

/// Valid tokens at once; the oldest is dropped first.
const MOST_SESSIONS: usize = 32;

/// How many wrong attempts a client may make: ten at once, and one every ten seconds after that. A client that shares
/// an address with one that is wrong now and then is not locked out, and 8,650 guesses a day find no password.
const WRONG: Rate = Rate::per_minute(6, 10);

/// Prefix of every token: an expired token does not count as a wrong password.
const TOKEN: &str = "nightwatt-";

/// Why a client is not authorised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No password is configured.
    NoOrders,
    /// Neither password nor token.
    Unknown,
    /// The password is wrong.
    Wrong,
    /// Too many wrong passwords: no attempt is checked before this time has passed, right or wrong.
    Wait(Duration),
}

/// Keeps the password and the tokens of clients that have shown it.
pub(crate) struct Guard {
    config: Option<AdminConfig>,
    memory: Mutex<Memory>,
}

/// A hash of the password, or nothing if none is configured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Password(Option<[u8; 32]>);

struct Memory {
    password: Password,
    /// Hashes of tokens, and when they expire; the oldest first.
    sessions: VecDeque<([u8; 32], Mono)>,
    /// Clients with wrong attempts.
    wrong: RateLimiter,
}

impl Guard {
    /// Reads the password, if there is one.
    pub(crate) fn open(config: Option<&AdminConfig>) -> Result<Self, StartError> {
        let password = Password::read(config)?;
        let memory = Memory { password, sessions: VecDeque::new(), wrong: RateLimiter::new(WRONG) };
        Ok(Self { config: config.cloned(), memory: Mutex::new(memory) })
    }

    /// Reads the password file again, for [`turn_to`](Self::turn_to).
    pub(crate) fn reread(&self) -> Result<Password, StartError> {
        Password::read(self.config.as_ref())
    }

    /// Uses this password from now on. If it is a different one, all clients are signed out: it may have been changed
    /// because it had leaked. Wrong attempts are remembered.
    pub(crate) fn turn_to(&self, password: Password) {
        let mut memory = self.lock();
        if memory.password != password {
            memory.password = password;
            memory.sessions.clear();
        }
    }

    /// Whether a password is configured.
    pub(super) fn takes_orders(&self) -> bool {
        self.lock().password.0.is_some()
    }

    /// Whether a browser may use this `Host`.
    pub(super) fn is_ours(&self, host: &str) -> bool {
        self.config.as_ref().is_some_and(|config| config.is_ours(host))
    }

    /// Returns a token for a password.
    pub(super) fn sign_in(
        &self,
        client: IpAddr,
        password: &str,
        now: Mono,
    ) -> Result<String, Refusal> {
        let mut bytes = [0; 24];
        getrandom::fill(&mut bytes).map_err(|_| Refusal::Unknown)?;
        let token = format!("{TOKEN}{}", hex(&bytes));
        // Held until the end: otherwise a token for a password that is changed meanwhile would outlive it.
        let mut memory = self.lock();
        memory.compare(client, password, now)?;
        if memory.sessions.len() >= MOST_SESSIONS {
            memory.sessions.pop_front();
        }
        memory.sessions.push_back((hash(&token), now + SESSION));
        Ok(token)
    }

    /// Revokes a token.
    pub(super) fn sign_out(&self, token: &str) {
        let hash = hash(token);
        self.lock().sessions.retain(|(known, _)| !same(known, &hash));
    }

    /// Whether this is a valid token.
    pub(super) fn knows(&self, token: &str, now: Mono) -> bool {
        let hash = hash(token);
        let mut memory = self.lock();
        memory.sessions.retain(|(_, until)| now < *until);
        memory.sessions.iter().any(|(known, _)| same(known, &hash))
    }

    /// Whether a client that shows this (a token, or the password itself) may give orders.
    pub(super) fn admit(
        &self,
        client: IpAddr,
        shown: Option<&str>,
        now: Mono,
    ) -> Result<(), Refusal> {
        if !self.takes_orders() {
            return Err(Refusal::NoOrders);
        }
        match shown {
            None => Err(Refusal::Unknown),
            Some(token) if self.knows(token, now) => Ok(()),
            Some(token) if token.starts_with(TOKEN) => Err(Refusal::Unknown),
            Some(password) => self.lock().compare(client, password, now),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn compare(&mut self, client: IpAddr, password: &str, now: Mono) -> Result<(), Refusal> {
        let ours = self.password.0.ok_or(Refusal::NoOrders)?;
        let client = ClientKey::from(client).number();
        self.wrong.may(now, client).map_err(Refusal::Wait)?;
        // The right password does not reset the limit: otherwise a script that uses it would buy new guesses for a
        // client that shares its address.
        if same(&ours, &hash(password)) {
            return Ok(());
        }
        self.wrong.admit(now, client).map_err(Refusal::Wait)?;
        Err(Refusal::Wrong)
    }
}

impl Password {
    fn read(config: Option<&AdminConfig>) -> Result<Self, StartError> {
        let file = config.and_then(|config| config.password_file.as_deref());
        file.map(read).transpose().map(Self)
    }
}

fn read(path: &Path) -> Result<[u8; 32], StartError> {
    let failed = |why: String| StartError::Password { path: path.to_owned(), why };
    let file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    let mode = file.metadata().map_err(|error| failed(error.to_string()))?.mode();
    if mode & 0o007 != 0 {
        let why = format!(
            "everybody on this machine can read it (mode {:03o}): `chmod 600` it",
            mode & 0o777
        );
        return Err(failed(why));
    }
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(|error| failed(error.to_string()))?;
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() < SHORTEST || text.len() as u64 > LONGEST {
        let why = format!("its first line must have at least {SHORTEST} characters");
        return Err(failed(why));
    }
    Ok(hash(line))
}

fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// Whether two secrets are the same: takes equally long for every wrong one.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    same(&hash(one), &hash(other))
}

/// Compares in constant time.
fn same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.iter().zip(other).fold(0, |differ, (one, other)| differ | (one ^ other)) == 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const PASSWORD: &str = "correct horse battery";

    fn guard(text: &str, mode: u32) -> Result<Guard, StartError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        let mut config = AdminConfig::from("127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap());
        config.password_file = Some(file.path().to_owned());
        Guard::open(Some(&config))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn at(second: u64) -> Mono {
        Mono::from_secs(second)
    }

    #[test]
    fn who_is_wrong_ten_times_waits_and_who_is_wrong_now_and_then_keeps_nobody_out() {
        let guard = guard(&format!("{PASSWORD}\n"), 0o600).unwrap();
        let (one, other) = (ip("192.0.2.1"), ip("192.0.2.2"));
        for _ in 0..10 {
            assert!(guard.sign_in(one, PASSWORD, at(100)).is_ok());
            assert_eq!(guard.sign_in(one, "wrong", at(100)), Err(Refusal::Wrong));
        }
        let wait = Err(Refusal::Wait(Duration::from_secs(10)));
        assert_eq!(guard.sign_in(one, "wrong", at(100)), wait);
        assert_eq!(guard.sign_in(one, PASSWORD, at(100)), wait, "else guessing had no bound");
        assert!(guard.sign_in(other, PASSWORD, at(100)).is_ok());
        assert!(guard.sign_in(one, PASSWORD, at(110)).is_ok());
        // A client at the same address makes one attempt per minute for a day, always a moment before.
        for minute in 10..1450 {
            assert_eq!(guard.sign_in(one, "wrong", at(60 * minute)), Err(Refusal::Wrong));
            assert!(guard.sign_in(one, PASSWORD, at(60 * minute)).is_ok());
        }
    }

    #[test]
    fn a_day_has_room_for_so_many_guesses_as_the_docs_say() {
        let guard = guard(PASSWORD, 0o600).unwrap();
        let client = ip("192.0.2.1");
        // A script of the operator uses the right password meanwhile.
        let guesses = (0..86_400).flat_map(|second| [second; 3]).filter(|second| {
            let _ = guard.admit(client, Some(PASSWORD), at(*second));
            guard.sign_in(client, "wrong", at(*second)) == Err(Refusal::Wrong)
        });
        assert_eq!(guesses.count(), 8640 + 9);
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let guard = guard(PASSWORD, 0o600).unwrap();
        let wrong = |client: &str| guard.sign_in(ip(client), "wrong", at(0));
        for _ in 0..10 {
            assert_eq!(wrong("2001:db8::1"), Err(Refusal::Wrong));
        }
        assert!(matches!(wrong("2001:db8::2"), Err(Refusal::Wait(_))));
        assert_eq!(wrong("2001:db8:0:1::1"), Err(Refusal::Wrong));
    }

    #[test]
    fn a_token_is_good_until_it_runs_out_or_is_given_back_and_is_never_a_wrong_password() {
        let guard = guard(PASSWORD, 0o640).unwrap();
        let client = ip("192.0.2.1");
        let token = guard.sign_in(client, PASSWORD, at(0)).unwrap();
        assert_eq!(guard.admit(client, Some(&token), at(0)), Ok(()));
        assert_eq!(guard.admit(client, Some(&token), at(43_199)), Ok(()));
        assert_eq!(guard.admit(client, Some(&token), at(43_200)), Err(Refusal::Unknown));
        let token = guard.sign_in(client, PASSWORD, at(50_000)).unwrap();
        guard.sign_out(&token);
        assert_eq!(guard.admit(client, Some(&token), at(50_000)), Err(Refusal::Unknown));
        assert_eq!(guard.admit(client, Some(PASSWORD), at(50_000)), Ok(()), "for scripts");
        assert_eq!(guard.admit(client, None, at(50_000)), Err(Refusal::Unknown));
        let tokens: Vec<_> = (0..=MOST_SESSIONS)
            .map(|_| guard.sign_in(client, PASSWORD, at(50_000)).unwrap())
            .collect();
        let known = tokens.iter().filter(|token| guard.knows(token, at(50_000))).count();
        assert_eq!(known, MOST_SESSIONS);
    }

    #[test]
    fn another_password_ends_what_the_one_before_allowed_and_the_same_one_ends_nothing() {
        let guard = guard(PASSWORD, 0o600).unwrap();
        let client = ip("192.0.2.1");
        let token = guard.sign_in(client, PASSWORD, at(0)).unwrap();
        guard.turn_to(Password(Some(hash(PASSWORD))));
        assert_eq!(guard.admit(client, Some(&token), at(0)), Ok(()));
        guard.turn_to(Password(Some(hash("another horse battery"))));
        assert_eq!(guard.admit(client, Some(&token), at(0)), Err(Refusal::Unknown));
        for second in 0..9 {
            assert_eq!(guard.sign_in(client, PASSWORD, at(second)), Err(Refusal::Wrong));
        }
        assert!(guard.sign_in(client, "another horse battery", at(9)).is_ok());
        assert_eq!(guard.sign_in(client, "wrong", at(9)), Err(Refusal::Wrong));
        guard.turn_to(Password(Some(hash(PASSWORD))));
        let wait = guard.sign_in(client, "wrong", at(9));
        assert!(matches!(wait, Err(Refusal::Wait(_))), "who was wrong is remembered: {wait:?}");
    }

    #[test]
    fn a_password_that_others_can_read_or_guess_is_refused() {
        for (text, mode, why) in [
            (PASSWORD, 0o604, "everybody on this machine can read it (mode 604)"),
            ("short", 0o600, "at least 12 characters"),
            ("", 0o600, "at least 12 characters"),
        ] {
            let error = guard(text, mode).err().unwrap();
            assert!(error.to_string().contains(why), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.contains("openssl rand")));
        }
    }

    #[test]
    fn without_a_password_there_are_no_orders() {
        let guard = Guard::open(None).unwrap();
        let client = ip("127.0.0.1");
        assert_eq!(guard.admit(client, Some(""), at(0)), Err(Refusal::NoOrders));
        assert_eq!(guard.sign_in(client, "", at(0)), Err(Refusal::NoOrders));
    }

    #[test]
    fn a_name_that_somebody_else_may_have_made_is_not_ours() {
        let mut config = AdminConfig::from("127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap());
        config.hosts = vec!["nightwatt.lan".to_owned()];
        for ours in [
            "127.0.0.1:9180",
            "[::1]:9180",
            "192.168.1.2",
            "localhost:9180",
            "a.localhost",
            "Nightwatt.LAN:9180",
        ] {
            assert!(config.is_ours(ours), "{ours}");
        }
        for theirs in
            ["evil.example:9180", "127.0.0.1.evil.example", "localhost.evil.example", "", "a b"]
        {
            assert!(!config.is_ours(theirs), "{theirs}");
        }
    }
}
