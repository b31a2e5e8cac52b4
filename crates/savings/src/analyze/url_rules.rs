//! What the rules of the mirror say about the requests of a log. Each URL is checked once.
//!
//! The rules are those of `serve`, in `nightwatt_mirror::pure`: `refused_addresses` by the words of an address, `traps`
//! and `Limits` by the number of addresses, `admit` by the status of the answer. A log does not show the
//! rest: robots.txt, fields, bodies.

use nightwatt_energy::time::Wall;
use nightwatt_mirror::pure::Timestamp;
use nightwatt_mirror::pure::address::Address;
use nightwatt_mirror::pure::admit::{PAGE_SIZE, StatusKind};
use nightwatt_mirror::pure::plan::Limits;
use nightwatt_mirror::pure::reason::Reason;
use nightwatt_mirror::pure::refused_addresses::{Origin, PatternRules, refusal};
use nightwatt_mirror::pure::traps::TrapCounters;
use nightwatt_sim::{Mirrorable, Shows, Slot};
use nightwatt_traffic::scan::Logged;

/// The answers, by the number of the URL, and how many addresses the mirror fetches by now.
#[derive(Debug, Default)]
pub(super) struct UrlRules {
    known: Vec<Option<KnownUrl>>,
    traps: TrapCounters,
    fetched: usize,
}

/// What the mirror may do with a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct UrlRule {
    /// If it was asked for before.
    if_asked: bool,
    /// If it exists and was not asked for before.
    if_linked: bool,
    /// If nothing is known of it.
    if_new: bool,
}

/// A URL that the log has shown.
#[derive(Debug, Clone, Copy)]
struct KnownUrl {
    rule: UrlRule,
    /// It exists, and was compared with the bounds of the mirror.
    is_counted: bool,
}

impl UrlRules {
    /// What a mirror may do with a request for the URL with this number, and what its answer shows.
    pub(super) fn of(&mut self, logged: &Logged<'_>, slot: Slot) -> Mirrorable {
        if logged.traits.is_unsafe() && matches!(logged.status, 200..=399) {
            return Mirrorable { shows: Shows::Change, ..Mirrorable::NOTHING };
        }
        let is_get = logged.method == "GET";
        let Some(index) = slot.number().filter(|_| is_get || logged.method == "HEAD") else {
            return Mirrorable::NOTHING;
        };
        let holds = holds(logged);
        let exists = matches!(holds, Some(StatusKind::Page | StatusKind::Redirect));
        let KnownUrl { mut rule, is_counted } = *self.known(index, logged.target);
        if exists && !is_counted {
            rule = self.counted(rule, logged.target, logged.at);
            *self.known(index, logged.target) = KnownUrl { rule, is_counted: true };
        }
        Mirrorable {
            if_requested_before: rule.if_asked,
            if_crawled: rule.if_linked && exists,
            if_gone: rule.if_new && holds == Some(StatusKind::Gone),
            shows: if is_get && rule.if_asked { shows(logged, holds) } else { Shows::Nothing },
        }
    }

    fn known(&mut self, index: usize, target: &str) -> &mut KnownUrl {
        if index >= self.known.len() {
            self.known.resize((index + 1).next_power_of_two(), None);
        }
        let new = || KnownUrl { rule: UrlRule::of(target), is_counted: false };
        self.known[index].get_or_insert_with(new)
    }

    /// The rule of a URL of which the log now shows that it exists, as far as the bounds of the mirror permit.
    fn counted(&mut self, rule: UrlRule, target: &str, at: Wall) -> UrlRule {
        let excluded = UrlRule::default();
        let Some(address) = Address::new(target) else { return excluded };
        if !(rule.if_asked || rule.if_linked) {
            return excluded;
        }
        let has_room = self.fetched < Limits::default().pages;
        if !has_room || self.traps.count(&address, timestamp(at)).is_err() {
            return excluded;
        }
        self.fetched += 1;
        rule
    }
}

impl UrlRule {
    /// The rule of a URL by its words.
    ///
    /// A log does not show links. So a page that exists is assumed to be linked, unless it has a query; one
    /// with a query, or a further page of a list, if it was asked for before.
    fn of(target: &str) -> Self {
        let Some(address) = Address::new(target) else { return Self::default() };
        let rules = PatternRules::default();
        let if_requested = refusal(&address, Origin::Requested, &rules);
        let if_linked = refusal(&address, Origin::Linked, &rules);
        let has_query = address.query().is_some_and(|query| !query.is_empty());
        Self {
            if_asked: matches!(if_requested, None | Some(Reason::NotLinked)),
            if_linked: if_linked.is_none() && !has_query,
            if_new: if_requested.is_none(),
        }
    }
}

fn timestamp(at: Wall) -> Timestamp {
    Timestamp::from_millis(u64::try_from(at.0).unwrap_or_default())
}

/// What a mirror that fetches this URL would hold of it; nothing if it would not. A 304 and a part of a page
/// are answers to clients that have some of it already.
pub(super) fn holds(logged: &Logged<'_>) -> Option<StatusKind> {
    if logged.bytes > PAGE_SIZE {
        return None;
    }
    match logged.status {
        206 | 304 => Some(StatusKind::Page),
        status => match StatusKind::of(status) {
            StatusKind::Refused(_) => None,
            kind => Some(kind),
        },
    }
}

fn shows(logged: &Logged<'_>, holds: Option<StatusKind>) -> Shows {
    match holds {
        Some(StatusKind::Page) if logged.traits.is_part() => Shows::Part,
        Some(StatusKind::Page | StatusKind::Redirect) => Shows::Page,
        Some(StatusKind::Gone) => Shows::Gone,
        _ if StatusKind::of(logged.status) == StatusKind::Refused(Reason::Refused) => {
            Shows::Refused
        }
        _ => Shows::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_assumed_to_be_linked_and_queries_once_they_were_requested() {
        let both = UrlRule { if_asked: true, if_linked: true, if_new: true };
        for (target, rule) in [
            ("/2012/03/a-post/", both),
            ("/list?", UrlRule { if_new: false, ..both }),
            ("/list?page=2", UrlRule { if_linked: false, if_new: false, ..both }),
            ("/blog/page/3/", UrlRule { if_new: false, ..both }),
            ("/code/8f3a", UrlRule { if_linked: true, ..UrlRule::default() }),
            ("/wp-login.php", UrlRule::default()),
            ("/?s=word", UrlRule::default()),
            ("/a?token=8f3a", UrlRule::default()),
            ("*", UrlRule::default()),
            ("/a b", UrlRule::default()),
        ] {
            assert_eq!(UrlRule::of(target), rule, "{target}");
        }
    }

    #[test]
    fn the_bounds_of_the_mirror_hold_for_what_a_log_shows() {
        let at = Wall::from_secs(1_700_000_000);
        let counted = |rules: &mut UrlRules, target: &str| {
            rules.counted(UrlRule::of(target), target, at).if_asked
        };
        let mut rules = UrlRules::default();
        let days = (0..1200).filter(|day| counted(&mut rules, &format!("/day/{day}/"))).count();
        assert_eq!(days, 1000, "more addresses of one form are a trap");
        assert!(!counted(&mut rules, "/wp-login.php") && rules.fetched == 1000);
        let folder = |number: u32| char::from(b'a' + (number % 20) as u8);
        let name = |number: u32| -> String {
            number.to_string().bytes().map(|digit| char::from(digit + 49)).collect()
        };
        for number in 0..20_000 {
            counted(&mut rules, &format!("/{}/{}", folder(number), name(number)));
        }
        assert_eq!(rules.fetched, Limits::default().pages);
        assert!(!counted(&mut rules, "/one-more"));
    }
}
