//! Log-ins: which requests are attempts, and who tries one password after the other.
//!
//! Whether an attempt succeeded is read from the status alone, which is all that a log has:
//! - `302` or `303` is a success: forms send the browser on to a page.
//! - `401`, `403` and `422` are failures, whatever the path: programs are told so.
//! - `2xx` at a path of log-in forms is a failure: the form is shown again, as `WordPress`, Django and Drupal
//!   do. Anywhere else it is a success, at a path with an `api` segment too.
//!
//! Guessers change their agent with each attempt, so what counts is the address.

use std::time::Duration;

use nightwatt_model::time::Mono;

use crate::hash;
use crate::misses::{Recent, within};

/// Failures in a row after which further attempts are guesses: a typo is corrected by then.
const FAILURES: u32 = 3;

/// Failures count together if no more than this lies between two.
const WINDOW: Duration = Duration::from_hours(24);

/// Addresses and paths remembered.
const REMEMBERED: usize = 4096;

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

/// Whether log-in forms are sent there.
pub(crate) fn is_form(path: &str) -> bool {
    let path = path.strip_suffix('/').unwrap_or(path);
    let (before, last) = path.rsplit_once('/').unwrap_or(("", path));
    let is_api = before.split('/').any(|segment| segment.eq_ignore_ascii_case("api"));
    let is_joomla = before.ends_with("/administrator") && last == "index.php";
    !is_api && (is_joomla || FORMS.iter().any(|form| last.eq_ignore_ascii_case(form)))
}

/// A POST that was answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Posted {
    pub(crate) address: u64,
    /// By hash.
    pub(crate) path: u64,
    /// Log-in forms are sent there.
    pub(crate) is_form: bool,
}

/// What an answer to a POST says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Success,
    Failure,
    Neither,
}

fn outcome(is_form: bool, status: u16) -> Outcome {
    match status {
        401 | 403 | 422 => Outcome::Failure,
        200..=299 if is_form => Outcome::Failure,
        200..=299 | 302 | 303 => Outcome::Success,
        _ => Outcome::Neither,
    }
}

/// The attempts of one address at one path.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Attempts {
    pub(crate) address: u64,
    /// Since the last success.
    pub(crate) failures: u32,
    pub(crate) first: Mono,
    pub(crate) latest: Mono,
}

impl Attempts {
    pub(crate) fn are_guesses(&self, now: Mono) -> bool {
        self.failures >= FAILURES && within(now, self.latest, WINDOW)
    }

    /// When they are forgotten.
    pub(crate) fn end(&self) -> Mono {
        self.latest + WINDOW
    }
}

/// Who tries one password after the other.
#[derive(Debug)]
pub(crate) struct Guesses(Recent<Attempts>);

impl Default for Guesses {
    fn default() -> Self {
        Self(Recent::new(REMEMBERED))
    }
}

impl Guesses {
    /// The guesses of this address at this path, if there are any.
    pub(crate) fn at(&self, now: Mono, address: u64, path: u64) -> Option<&Attempts> {
        self.0.known(hash::pair(address, path)).filter(|attempts| attempts.are_guesses(now))
    }

    /// All guesses of this address.
    pub(crate) fn of(&self, now: Mono, address: u64) -> Option<&Attempts> {
        let theirs = self.0.all().filter(|it| it.address == address && it.are_guesses(now));
        theirs.max_by_key(|attempts| attempts.failures)
    }

    /// Takes in the answer to a POST.
    pub(crate) fn answered(&mut self, now: Mono, posted: Posted, status: u16) {
        let Posted { address, path, is_form } = posted;
        let key = hash::pair(address, path);
        match outcome(is_form, status) {
            Outcome::Success => self.0.remove(key),
            Outcome::Failure => {
                let attempts = self.0.touch(key);
                if attempts.failures == 0 || !within(now, attempts.latest, WINDOW) {
                    *attempts = Attempts { address, failures: 0, first: now, latest: now };
                }
                attempts.failures = attempts.failures.saturating_add(1);
                attempts.latest = now;
            }
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
    fn log_in_forms_are_known_by_the_end_of_their_paths() {
        for path in [
            "/wp-login.php",
            "/blog/wp-login.php",
            "/login",
            "/users/sign_in/",
            "/accounts/login/",
            "/admin/Login.aspx",
            "/administrator/index.php",
        ] {
            assert!(is_form(path), "{path}");
        }
        for path in
            ["/", "/index.php", "/api/login", "/api/v2/auth/login", "/loginx", "/blog/login/help"]
        {
            assert!(!is_form(path), "{path}");
        }
    }

    const fn posted(path: u64, is_form: bool) -> Posted {
        Posted { address: 1, path, is_form }
    }

    #[test]
    fn three_failures_in_a_row_make_a_guesser_until_a_day_after_the_last_or_a_success() {
        let at = Mono::from_secs;
        let mut guesses = Guesses::default();
        for second in 0..3 {
            assert!(guesses.at(at(second), 1, 2).is_none(), "{second}");
            guesses.answered(at(second), posted(2, true), 200);
        }
        assert!(guesses.at(at(3), 1, 2).is_some());
        assert!(guesses.at(at(3), 1, 3).is_none(), "another path");
        assert!(guesses.at(at(3), 2, 2).is_none(), "another address");
        assert!(guesses.at(at(86_401), 1, 2).is_some());
        assert!(guesses.at(at(86_402), 1, 2).is_none());
        guesses.answered(at(86_402), posted(2, true), 302);
        guesses.answered(at(86_403), posted(2, true), 200);
        assert!(guesses.at(at(86_404), 1, 2).is_none());
    }

    #[test]
    fn a_program_whose_posts_are_answered_is_no_guesser_and_one_that_is_refused_is() {
        let at = Mono::from_secs;
        let mut guesses = Guesses::default();
        for second in 0..100 {
            guesses.answered(at(second), posted(2, false), 200);
            guesses.answered(at(second), posted(3, false), 401);
            guesses.answered(at(second), posted(4, false), 503);
        }
        let refused = [2, 3, 4].map(|path| guesses.at(at(100), 1, path).is_some());
        assert_eq!(refused, [false, true, false]);
    }
}
