//! Why a request is refused, by which rule, and for how long.

use std::time::Duration;

use http::StatusCode;
use http::request::Parts;
use nightwatt_energy::time::Mono;
use nightwatt_policy::admission::{Route, Want};
use nightwatt_traffic::Verdict;

use crate::config::{decoded, readings};
use crate::facts::Facts;
use crate::paths::climbs;
use crate::serving::Serving;

/// The rule in the access log for a client that sends too many requests.
pub(crate) const TOO_MANY_REQUESTS: &str = "requests-per-client";

/// The rule for a client that has the maximum number of waiting requests.
pub(crate) const HELD_PER_CLIENT: &str = "held-per-client";

/// For how long a scanner is rejected if its rule does not expire.
const SCANNERS_WAIT: Duration = Duration::from_hours(1);

/// The rule by which a request does not reach the server, for the access log; nothing for one that does.
pub(crate) const fn rule(route: Route, want: Want, verdict: &Verdict) -> Option<&'static str> {
    match (route, want) {
        (Route::State, Want::Icon) => Some("icons"),
        (Route::Later(_) | Route::Refuse | Route::State, _) => Some(verdict.rule.as_str()),
        (Route::OverBudget { budget, .. }, _) => Some(budget.as_str()),
        _ => None,
    }
}

/// When a client that is refused as a scanner may be accepted again.
pub(crate) fn scanner_waits(verdict: &Verdict, now: Mono) -> Duration {
    let ends = verdict.until.map_or(SCANNERS_WAIT, |until| until.since(now));
    ends.max(Duration::from_secs(1))
}

/// The answer to a request for an unknown site.
pub(crate) fn no_site(facts: &Facts) -> (StatusCode, &'static str) {
    if facts.authority.is_empty() {
        let text = "The request has no Host field, and every site here has `hosts`: send the name of one as \
                    Host. (Or leave `hosts` out in one site: it gets all that no other one claims.)";
        return (StatusCode::BAD_REQUEST, text);
    }
    (StatusCode::MISDIRECTED_REQUEST, "No such site here.")
}

/// Why a request is rejected, by itself or by the settings of its site.
pub(crate) fn refusal(
    serving: &Serving,
    site: Option<usize>,
    facts: &Facts,
    parts: &Parts,
) -> Option<(StatusCode, &'static str)> {
    if site.is_some_and(|site| asks_service(serving, site)) && may_be_another(facts.path()) {
        let text = "The service that decides about this site may read this path in another way than the server: write \
                    it without `.` and `..` steps, `//`, `;` and `\\`, also as escapes, and without escaped slashes \
                    and letters.";
        return Some((StatusCode::BAD_REQUEST, text));
    }
    let mut limits = site.map_or(&serving.config.limits, |site| &serving.sites[site].limits);
    if let Some(paths) = site.and_then(|site| serving.sites[site].paths.as_ref()) {
        let Ok(rule) = paths.find(facts.path()) else {
            let text = "Servers read this path in several ways: write it without `..`, `//`, `;` and escapes that \
                        need none.";
            return Some((StatusCode::BAD_REQUEST, text));
        };
        limits = rule.map_or(limits, |it| &it.limits);
    }
    facts.refusal(parts, limits.largest_body()).or_else(|| {
        // It would loop forever.
        let text = "This proxy has passed the request on already: its server is the proxy itself, or passes \
                    what it is asked back to it. Look at the site's `origin`.";
        let mark = &serving.sites.get(site?)?.mark;
        mark.is_on(&parts.headers).then_some((StatusCode::LOOP_DETECTED, text))
    })
}

/// Whether a service decides about the requests of a site.
fn asks_service(serving: &Serving, site: usize) -> bool {
    serving.sites[site].admittance.as_ref().is_some_and(|it| it.config().forward.is_some())
}

/// Whether servers could take a path for another one than its bytes name, as it is or decoded once or twice. Escapes pass
/// that leave its steps as they are (`%20`).
fn may_be_another(path: &str) -> bool {
    // `OPTIONS *` is about the server as a whole.
    path != "*" && (climbs(path) || has_hidden_letters(path) || !is_plain(path))
}

/// Whether the steps of a path are what they seem, also decoded once and twice.
fn is_plain(path: &str) -> bool {
    let once = decoded(path);
    let twice = decoded(&once);
    let steps = |text: &str| text.matches(['/', '\\']).count();
    [path, &once, &twice].iter().all(|it| readings(it)[1] == **it && steps(it) == steps(path))
}

/// Whether letters or digits are escaped. No program has a reason for that, and rules for `/admin` do not see `/%61dmin`.
fn has_hidden_letters(path: &str) -> bool {
    let once = decoded(path);
    [path, &once].iter().any(|text| {
        text.split('%').skip(1).any(|behind| {
            let code = behind.get(..2).and_then(|code| u8::from_str_radix(code, 16).ok());
            code.is_some_and(|byte| byte.is_ascii_alphanumeric())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_some_server_takes_for_admin_is_none_about_which_a_service_can_decide() {
        for path in [
            "/%2e/admin",
            "/%2E%2e/admin",
            "/%5cadmin",
            "/%3b/admin",
            "/%2f/admin",
            "/a%2fadmin",
            "/admin%2f",
            "/admin%3bx",
            "/%252e/admin",
            "/a%252fadmin",
            "/%61dmin",
            "/%2561dmin",
            "//admin",
            "/admin;x",
            "/admin\\",
            "/a%00/admin",
        ] {
            assert!(may_be_another(path), "{path}");
        }
        for path in [
            "*",
            "/",
            "/a/",
            "/a%20b",
            "/100%25",
            "/%C3%A4",
            "/a..b",
            "/~ann/x.y",
            "/a%2Bb",
            "/%zz",
        ] {
            assert!(!may_be_another(path), "{path}");
        }
    }
}
