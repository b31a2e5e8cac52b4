//! Log-ins: which requests are attempts, and which clients try one password after the other.
//!
//! Only a POST can be an attempt, and only these are:
//! - one to a path of log-in forms, or of log-ins by an API ([`LogIn`]). There 401, 403 and 422 are failures,
//!   302 and 303 a success. Anywhere else 403 and 422 say that a form is filled in badly, or that a
//!   signature is wrong. 2xx at a form is a failure if the form is shown again, as `WordPress`, Django and
//!   Drupal do ([`Reply::shows_form`]); a log does not know, and takes it for one.
//! - one to `xmlrpc.php`, which answers wrong passwords with 200 too.
//! - one to any other path, if it shows a credential: 401 is a failure, but not again for the same
//!   credential. A program repeats one that has expired; a guesser has a new one each time.
//!
//! Guessers change their agent with each attempt, so what counts is the address. They also spell paths in
//! several ways, so what counts is the path as servers read it ([`normal`]).

use std::borrow::Cow;
use std::time::Duration;

use nightwatt_energy::time::Mono;

use crate::client_state::{Recent, within};
use crate::hash;

/// Failures in a row after which further attempts are guesses: a typo is corrected by then.
const FAILURES: u32 = 3;

/// Failures count together if no more than this lies between two.
const WINDOW: Duration = Duration::from_hours(24);

/// The same for `xmlrpc.php`, where a success looks no different.
const WINDOW_OF_XML_RPC: Duration = Duration::from_mins(10);

/// A person among guessers has one try in this time.
const SPARED_ONCE_IN: Duration = Duration::from_hours(1);

/// Addresses and paths remembered.
const REMEMBERED: usize = 3584;

/// Agents remembered for each of these: the latest that failed.
const AGENTS: usize = 4;

/// Last segments of the paths that log-in forms are sent to.
const FORMS: [&str; 17] = [
    "wp-login.php",
    "login",
    "login.php",
    "log-in",
    "log_in",
    "logon",
    "signin",
    "sign-in",
    "sign_in",
    "login.html",
    "login.aspx",
    "login.jsp",
    "login.do",
    "login.cgi",
    "dologin",
    "do_login",
    "authenticate",
];

/// Last segments of the paths of log-ins without a form, beside [`FORMS`] below `api`: that of Emby and Jellyfin.
const APIS: [&str; 1] = ["authenticatebyname"];

const XML_RPC: &str = "xmlrpc.php";

/// Those that are programs of PHP.
const SCRIPTS: [&str; 3] = [XML_RPC, "wp-login.php", "login.php"];

/// What a path is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogIn {
    /// Log-in forms are sent there.
    Form,
    /// Programs log in there.
    Api,
    /// `WordPress` takes commands there, each with a password.
    XmlRpc,
}

impl LogIn {
    /// By a path in [`normal`] form.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let (before, last) = path.rsplit_once('/').unwrap_or(("", path));
        let is_joomla = before.ends_with("/administrator") && last == "index.php";
        if last == XML_RPC {
            Some(Self::XmlRpc)
        } else if APIS.contains(&last) {
            Some(Self::Api)
        } else if is_joomla || FORMS.contains(&last) {
            let is_api = before.split('/').any(|segment| segment == "api");
            Some(if is_api { Self::Api } else { Self::Form })
        } else {
            None
        }
    }
}

/// A path as servers read it, so that all its spellings count as one: percent-decoded, in lower case, without
/// empty and dot segments, parameters (`;...`) and what follows the name of a log-in script.
pub(crate) fn normal(path: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() && !byte.is_ascii_uppercase();
    let bytes = path.as_bytes();
    let may_stay = bytes.iter().enumerate().all(|(at, &byte)| match byte {
        b'/' => bytes.get(at + 1).is_some_and(|&next| is_plain(next)),
        b'-' | b'_' | b'.' => true,
        _ => is_plain(byte),
    });
    let has_script = [XML_RPC, ".php/"].iter().any(|part| path.contains(part));
    if may_stay && !has_script {
        return Cow::Borrowed(path);
    }
    let decoded = percent_decoded(bytes).to_ascii_lowercase();
    let decoded = String::from_utf8_lossy(&decoded);
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split(['/', '\\']) {
        match segment.split(';').next().unwrap_or_default() {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => {
                segments.push(segment);
                // PHP runs it whatever path follows.
                if SCRIPTS.contains(&segment) {
                    break;
                }
            }
        }
    }
    Cow::Owned(format!("/{}", segments.join("/")))
}

fn percent_decoded(path: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|&byte| char::from(byte).to_digit(16));
    let (mut decoded, mut at) = (Vec::with_capacity(path.len()), 0);
    while let Some(&byte) = path.get(at) {
        let digits = (digit(path.get(at + 1)), digit(path.get(at + 2)));
        if let (b'%', (Some(high), Some(low))) = (byte, digits) {
            decoded.push((high << 4 | low) as u8);
            at += 3;
        } else {
            decoded.push(byte);
            at += 1;
        }
    }
    decoded
}

/// How the server answered, as far as the classifier cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Status code.
    pub status: u16,
    /// Whether the answer to a POST is a page like the one that sent it: HTML, without a new cookie, to a form.
    /// Logs do not know.
    pub shows_form: Option<bool>,
}

impl From<u16> for Reply {
    /// As a log has it.
    fn from(status: u16) -> Self {
        Self { status, shows_form: None }
    }
}

/// A POST that may be an attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Posted {
    pub(crate) address: u64,
    /// By hash.
    pub(crate) agent: u64,
    /// In [`normal`] form, by hash.
    pub(crate) path: u64,
    pub(crate) log_in: Option<LogIn>,
    /// 0 for none.
    pub(crate) credential: u64,
    /// A browser that says that it opens a page.
    pub(crate) is_navigation: bool,
}

impl Posted {
    fn key(&self) -> u64 {
        let by_path = hash::pair(self.address, self.path);
        // What needs no credential at the same path is no attempt.
        if self.log_in.is_some() { by_path } else { hash::pair(by_path, 1) }
    }

    fn is_attempt(&self) -> bool {
        self.log_in.is_some() || self.credential != 0
    }

    const fn window(&self) -> Duration {
        if matches!(self.log_in, Some(LogIn::XmlRpc)) { WINDOW_OF_XML_RPC } else { WINDOW }
    }

    fn outcome(&self, reply: Reply) -> Outcome {
        match (self.log_in, reply.status) {
            (_, 401) | (Some(_), 403 | 422) | (Some(LogIn::XmlRpc), 200..=299) => Outcome::Failure,
            (Some(LogIn::Form), 200..=299) if reply.shows_form != Some(false) => Outcome::Failure,
            (_, 200..=299 | 302 | 303) => Outcome::Success,
            _ => Outcome::Neither,
        }
    }
}

/// What an answer to a POST says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Success,
    Failure,
    Neither,
}

/// The attempts of one address at one path.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Attempts {
    pub(crate) address: u64,
    /// Since the last success.
    pub(crate) failures: u32,
    pub(crate) first: Mono,
    pub(crate) latest: Mono,
    /// The credential that failed last.
    credential: u64,
    /// Those that failed last, by hash.
    agents: [u64; AGENTS],
    /// When a person among them last had a try.
    spared: Option<Mono>,
}

impl Attempts {
    pub(crate) fn are_guesses(&self, now: Mono) -> bool {
        self.failures >= FAILURES && within(now, self.latest, WINDOW)
    }

    /// When they are forgotten.
    pub(crate) fn end(&self) -> Mono {
        self.latest + WINDOW
    }

    /// A browser that has not failed itself has a try, one in an hour: any program can claim to navigate.
    fn spares(&mut self, now: Mono, posted: &Posted) -> bool {
        let may = self.spared.is_none_or(|then| !within(now, then, SPARED_ONCE_IN));
        let spares = may && posted.is_navigation && !self.agents.contains(&posted.agent);
        if spares {
            self.spared = Some(now);
        }
        spares
    }

    fn fail(&mut self, now: Mono, posted: &Posted) {
        // Once they are guesses, they are so for a day.
        let window = if self.failures >= FAILURES { WINDOW } else { posted.window() };
        if self.failures == 0 || !within(now, self.latest, window) {
            *self = Self { address: posted.address, first: now, ..Self::default() };
        } else if posted.log_in.is_none() && posted.credential == self.credential {
            return;
        }
        self.failures = self.failures.saturating_add(1);
        (self.latest, self.credential) = (now, posted.credential);
        self.agents.rotate_right(1);
        self.agents[0] = posted.agent;
    }
}

/// Clients that try one password after the other.
#[derive(Debug)]
pub(crate) struct Guesses(Recent<Attempts>);

impl Default for Guesses {
    fn default() -> Self {
        Self(Recent::new(REMEMBERED))
    }
}

impl Guesses {
    /// When a POST is no guess any more, if it is one.
    pub(crate) fn end(&mut self, now: Mono, posted: &Posted) -> Option<Mono> {
        let attempts = self.0.known_mut(posted.key()).filter(|_| posted.is_attempt())?;
        (attempts.are_guesses(now) && !attempts.spares(now, posted)).then(|| attempts.end())
    }

    /// All guesses of this address.
    pub(crate) fn of(&self, now: Mono, address: u64) -> Option<&Attempts> {
        let theirs = self.0.all().filter(|it| it.address == address && it.are_guesses(now));
        theirs.max_by_key(|attempts| attempts.failures)
    }

    /// Takes in the answer to a POST.
    pub(crate) fn answered(&mut self, now: Mono, posted: &Posted, reply: Reply) {
        if !posted.is_attempt() {
            return;
        }
        match posted.outcome(reply) {
            Outcome::Success => self.0.remove(posted.key()),
            Outcome::Failure => self.0.touch(posted.key()).fail(now, posted),
            Outcome::Neither => {}
        }
    }

    /// Forgets those of this address.
    pub(crate) fn forgive(&mut self, address: u64) {
        self.0.retain(|attempts| attempts.address != address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_ins_are_known_by_the_end_of_their_paths() {
        for (path, expected) in [
            ("/wp-login.php", Some(LogIn::Form)),
            ("/blog/wp-login.php", Some(LogIn::Form)),
            ("/login", Some(LogIn::Form)),
            ("/index.php/login", Some(LogIn::Form)),
            ("/users/sign_in/", Some(LogIn::Form)),
            ("/accounts/login/", Some(LogIn::Form)),
            ("/admin/Login.aspx", Some(LogIn::Form)),
            ("/administrator/index.php", Some(LogIn::Form)),
            ("/api/login", Some(LogIn::Api)),
            ("/api/v2/auth/login", Some(LogIn::Api)),
            ("/Users/AuthenticateByName", Some(LogIn::Api)),
            ("/blog/xmlrpc.php", Some(LogIn::XmlRpc)),
            ("/", None),
            ("/index.php", None),
            ("/loginx", None),
            ("/blog/login/help", None),
        ] {
            assert_eq!(LogIn::of(&normal(path)), expected, "{path}");
        }
    }

    #[test]
    fn all_spellings_of_a_path_are_one() {
        for path in [
            "/wp-login.php",
            "//wp-login.php",
            "/./wp-login.php",
            "/wp-login.php/",
            "/wp-login.php/more",
            "/WP-LOGIN.php",
            "/wp-login.php;x",
            "/.;x/wp-login.php",
            "/blog/../wp-login.php",
            "/blog/%2E%2e/wp-login.php",
            "/../wp-login.php",
            "/%77p-login.php",
            "/wp%2dlogin.php",
            "/%2fwp-login.php",
            "\\wp-login.php",
        ] {
            assert_eq!(normal(path), "/wp-login.php", "{path}");
        }
        for (path, expected) in [
            ("/", "/"),
            ("/a/b.c", "/a/b.c"),
            ("/%", "/%"),
            ("/%4", "/%4"),
            ("/%zz", "/%zz"),
            ("/ä", "/ä"),
            ("/%ff", "/\u{fffd}"),
        ] {
            assert_eq!(normal(path), expected);
        }
    }

    const fn posted(path: u64, log_in: Option<LogIn>) -> Posted {
        Posted { address: 1, agent: 1, path, log_in, credential: 0, is_navigation: false }
    }

    const FORM: Posted = posted(2, Some(LogIn::Form));

    fn reply(status: u16, shows_form: bool) -> Reply {
        Reply { status, shows_form: Some(shows_form) }
    }

    #[test]
    fn three_failures_in_a_row_make_a_guesser_until_a_day_after_the_last_or_a_success() {
        let at = Mono::from_secs;
        let mut guesses = Guesses::default();
        for second in 0..3 {
            assert!(guesses.end(at(second), &FORM).is_none(), "{second}");
            guesses.answered(at(second), &FORM, 200.into());
        }
        assert_eq!(guesses.end(at(3), &FORM), Some(at(86_402)));
        assert!(guesses.end(at(3), &Posted { path: 3, ..FORM }).is_none(), "another path");
        assert!(guesses.end(at(3), &Posted { address: 2, ..FORM }).is_none(), "another address");
        assert!(guesses.end(at(86_401), &FORM).is_some());
        assert!(guesses.end(at(86_402), &FORM).is_none());
        guesses.answered(at(86_402), &FORM, 302.into());
        guesses.answered(at(86_403), &FORM, 200.into());
        assert!(guesses.end(at(86_404), &FORM).is_none());
    }

    /// Whether a hundred POSTs that are answered alike are guesses.
    fn are_guesses(posted: Posted, reply: Reply, credential: impl Fn(u64) -> u64) -> bool {
        let mut guesses = Guesses::default();
        for second in 0..100 {
            let posted = Posted { credential: credential(second), ..posted };
            guesses.answered(Mono::from_secs(second), &posted, reply);
        }
        let next = Posted { credential: credential(100), ..posted };
        guesses.end(Mono::from_secs(100), &next).is_some()
    }

    #[test]
    fn what_an_answer_says_depends_on_the_path() {
        let (form, api) = (FORM, posted(2, Some(LogIn::Api)));
        let (xml, other) = (posted(2, Some(LogIn::XmlRpc)), posted(2, None));
        for (posted, reply, expected) in [
            (form, 200.into(), true),
            (form, reply(200, true), true),
            (form, reply(200, false), false),
            (form, reply(401, false), true),
            (form, reply(403, true), true),
            (form, reply(422, true), true),
            (form, reply(302, false), false),
            (form, reply(503, true), false),
            (api, reply(200, true), false),
            (api, 200.into(), false),
            (api, 401.into(), true),
            (xml, 200.into(), true),
            (other, 200.into(), false),
            (other, 401.into(), false),
            (other, 403.into(), false),
            (other, 422.into(), false),
            (other, 503.into(), false),
        ] {
            assert_eq!(are_guesses(posted, reply, |_| 0), expected, "{posted:?} {reply:?}");
        }
    }

    #[test]
    fn away_from_log_ins_only_ever_new_credentials_are_guesses() {
        let other = posted(2, None);
        assert!(are_guesses(other, 401.into(), |n| n + 1));
        assert!(!are_guesses(other, 401.into(), |_| 7), "one that has expired");
        assert!(!are_guesses(other, 403.into(), |n| n + 1));
        let mut guesses = Guesses::default();
        for n in 1..9 {
            guesses.answered(Mono::ZERO, &Posted { credential: n, ..other }, 401.into());
        }
        assert!(guesses.end(Mono::ZERO, &other).is_none(), "it shows none");
    }

    #[test]
    fn commands_are_guesses_if_they_come_within_ten_minutes() {
        let xml = posted(2, Some(LogIn::XmlRpc));
        for (apart, expected) in [(601, false), (599, true)] {
            let mut guesses = Guesses::default();
            for n in 0..3 {
                guesses.answered(Mono::from_secs(n * apart), &xml, 200.into());
            }
            let later = Mono::from_secs(2 * apart + 86_399);
            assert_eq!(guesses.end(later, &xml).is_some(), expected, "{apart}");
        }
    }

    #[test]
    fn a_person_among_guessers_has_a_try_an_hour() {
        let at = Mono::from_secs;
        let mut guesses = Guesses::default();
        for second in 0..3 {
            guesses.answered(at(second), &FORM, 200.into());
        }
        let person = Posted { agent: 2, is_navigation: true, ..FORM };
        for (second, posted, expected) in [
            (3, Posted { agent: 1, ..person }, true),
            (3, Posted { is_navigation: false, ..person }, true),
            (4, person, false),
            (5, person, true),
            // One for all that share the address.
            (3603, Posted { agent: 3, ..person }, true),
            (3604, person, false),
        ] {
            let is_guess = guesses.end(at(second), &posted).is_some();
            assert_eq!(is_guess, expected, "{second} {posted:?}");
        }
    }
}
