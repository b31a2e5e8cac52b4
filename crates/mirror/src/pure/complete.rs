//! `complete = true`: the operator says that the mirror has everything. We check it.
//!
//! Then a path that is not mirrored is answered with 404 while the server sleeps. That is right only if a
//! whole pass found everything, nothing has changed since, and no page links to the path.

use std::collections::HashSet;

use nightwatt_httpcache::Timestamp;
use serde::{Deserialize, Serialize};

use super::address::{Address, plain};

/// Why a path that is not mirrored is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum NotComplete {
    /// The operator has not said so.
    #[error("`complete` is not set")]
    NotWanted,
    /// There was no pass yet.
    #[error("no whole pass has ended yet")]
    NoPass,
    /// The last pass had errors.
    #[error("the server failed during the last whole pass")]
    Errors,
    /// The last pass reached a bound.
    #[error("the last whole pass reached a bound, so there may be more pages")]
    Bounds,
    /// Something may have been added since.
    #[error("a client has changed something since the last whole pass")]
    Changed,
    /// A path that no page links to exists after all.
    #[error("a path exists that no page links to, so the mirror cannot know all of them")]
    Refuted,
}

/// What a whole pass was like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassQuality {
    /// The server failed, or the pass was ended early.
    pub had_errors: bool,
    /// A bound kept something out.
    pub reached_bound: bool,
}

/// Whether the mirror is complete, and the paths that exist for all it knows.
#[derive(Clone, Debug, Default)]
pub struct Completeness {
    wanted: bool,
    not_complete: Option<NotComplete>,
    /// Paths that exist after all.
    refuted_by: Vec<Address>,
    /// There are more of them than are kept.
    refuted_by_more: bool,
    /// An unsafe request came while a pass was running.
    changed_during_pass: bool,
    /// Paths that exist or may exist, folded.
    known: HashSet<u64>,
    /// Pages that were not read, folded: what lies below them may exist.
    unread: HashSet<u64>,
}

impl Completeness {
    /// More paths that refute it are not kept: then it is not complete before the operator says so again.
    const MOST_REFUTED: usize = 64;

    /// Before any pass.
    pub fn new(wanted: bool) -> Self {
        Self { wanted, not_complete: Some(NotComplete::NoPass), ..Self::default() }
    }

    /// Notes an address that is mirrored, or that a page links to, whatever becomes of it.
    pub fn knows(&mut self, address: &Address) {
        if !self.wanted {
            return;
        }
        let folded = folded(address.path());
        // A folder exists where something in it does.
        let mut end = folded.len();
        loop {
            self.known.insert(hash(&folded[..end]));
            match folded[..end].rfind('/') {
                Some(slash) => end = slash,
                None => break,
            }
        }
    }

    /// Notes a page that is refused, and whose links are not known.
    pub fn is_unread(&mut self, address: &Address) {
        // Another query of a page that was read hides nothing below it.
        if self.wanted && address.query().is_none() {
            self.unread.insert(hash(folded(address.path()).trim_end_matches('/')));
        }
    }

    /// Replaces what was noted by [`Completeness::is_unread`]. A page that was read under another of its names
    /// (`/index.html`, as the target of a form) hides nothing.
    pub fn set_unread<'a>(
        &mut self,
        unread: impl Iterator<Item = &'a Address>,
        read: impl Iterator<Item = &'a Address>,
    ) {
        self.unread.clear();
        unread.for_each(|address| self.is_unread(address));
        for address in read.filter(|it| it.query().is_none()) {
            self.unread.remove(&hash(folded(address.path()).trim_end_matches('/')));
        }
    }

    /// Whether a path lies below a page that was not read.
    fn is_below_unread(&self, folded: &str) -> bool {
        let mut above = folded;
        while let Some(slash) = above.rfind('/') {
            above = &above[..slash];
            if self.unread.contains(&hash(above)) {
                return true;
            }
        }
        false
    }

    /// A whole pass begins.
    pub fn pass_begins(&mut self) {
        self.changed_during_pass = false;
    }

    /// A whole pass has ended. To those of the paths that refuted `complete` that it has found, a page now links.
    pub fn pass_ended(&mut self, quality: PassQuality) {
        let is_known = |it: &Address| self.known.contains(&hash(&folded(it.path())));
        self.refuted_by.retain(|address| !is_known(address));
        self.not_complete = match quality {
            PassQuality { had_errors: true, .. } => Some(NotComplete::Errors),
            PassQuality { reached_bound: true, .. } => Some(NotComplete::Bounds),
            _ if self.changed_during_pass => Some(NotComplete::Changed),
            _ => None,
        };
    }

    /// A client has changed something.
    pub fn changed(&mut self) {
        self.changed_during_pass = true;
        if self.not_complete.is_none() {
            self.not_complete = Some(NotComplete::Changed);
        }
    }

    /// The server, awake, was asked about a path for which the mirror would have answered 404, and it exists.
    pub fn refuted(&mut self, address: &Address) {
        if self.refuted_by.contains(address) {
            return;
        }
        if self.refuted_by.len() < Self::MOST_REFUTED {
            self.refuted_by.push(address.clone());
        } else {
            self.refuted_by_more = true;
        }
    }

    /// The paths that refute `complete`, or some of them.
    pub fn refuted_by(&self) -> &[Address] {
        &self.refuted_by
    }

    /// Why a path that is not mirrored is not answered with 404, if it is not.
    pub fn not_complete(&self) -> Option<NotComplete> {
        if !self.wanted {
            return Some(NotComplete::NotWanted);
        }
        let is_refuted = !self.refuted_by.is_empty() || self.refuted_by_more;
        is_refuted.then_some(NotComplete::Refuted).or(self.not_complete)
    }

    /// Whether an address is one that does not exist for all the mirror knows. Ask this only of an address
    /// that is not mirrored.
    pub fn is_absent(&self, address: &Address) -> bool {
        self.not_complete().is_none() && self.would_be_absent(address)
    }

    /// The same without the reason why not: what is worth a sample while the server is awake.
    pub fn would_be_absent(&self, address: &Address) -> bool {
        let path = address.path();
        let is_ours_to_judge = self.wanted && !path.starts_with("/.well-known/");
        let folded = folded(path);
        is_ours_to_judge && !self.known.contains(&hash(&folded)) && !self.is_below_unread(&folded)
    }

    /// What holds across a restart: why it is not complete, and what refuted it.
    pub fn saved(&self) -> SavedCompleteness {
        let mut refuted = self.refuted_by.iter().cloned();
        SavedCompleteness {
            not_complete: self.not_complete,
            refuted_by: refuted.next(),
            also_refuted_by: refuted.collect(),
            refuted_by_more: self.refuted_by_more,
        }
    }

    /// Takes over what was saved. The known paths are not in it: [`Completeness::knows`] is told them again.
    ///
    /// An operator who takes back `complete` starts from nothing the next time.
    pub fn restore(&mut self, saved: SavedCompleteness) {
        self.not_complete = saved.not_complete;
        if self.wanted {
            self.refuted_by = saved.refuted_by.into_iter().chain(saved.also_refuted_by).collect();
            self.refuted_by.truncate(Self::MOST_REFUTED);
            self.refuted_by_more = saved.refuted_by_more;
        }
    }
}

/// What is saved of a [`Completeness`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedCompleteness {
    #[serde(rename = "hindrance")]
    not_complete: Option<NotComplete>,
    refuted_by: Option<Address>,
    /// Earlier versions know one path alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    also_refuted_by: Vec<Address>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    refuted_by_more: bool,
}

impl Default for SavedCompleteness {
    fn default() -> Self {
        Self {
            not_complete: Some(NotComplete::NoPass),
            refuted_by: None,
            also_refuted_by: Vec::new(),
            refuted_by_more: false,
        }
    }
}

/// A path in the form in which servers may take it for another: without escapes, in lower case, without
/// doubled slashes, without `index.html`, without an ending slash.
pub(super) fn folded(path: &str) -> String {
    let path = plain(path);
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let segments = match segments.as_slice() {
        [folder @ .., last] if last.starts_with("index.") => folder,
        all => all,
    };
    let mut folded = segments.join("/");
    // With content negotiation, `/about` is `/about.html`.
    for ending in [".html", ".htm", ".php"] {
        if let Some(bare) = folded.strip_suffix(ending) {
            folded = bare.to_owned();
            break;
        }
    }
    format!("/{folded}")
}

fn hash(text: &str) -> u64 {
    twox_hash::XxHash3_64::oneshot(text.as_bytes())
}

/// Paths to ask the server about while it is awake: requested, not mirrored, and absent for all we know.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    waiting: Vec<Address>,
    asked_at: Timestamp,
}

impl Samples {
    /// More are not kept.
    const MOST: usize = 64;

    /// Notes a path for which the mirror answered 404, or would have.
    pub fn add(&mut self, address: &Address) {
        if self.waiting.len() < Self::MOST && !self.waiting.contains(address) {
            self.waiting.push(address.clone());
        }
    }

    /// The next path to ask about: at most one a second.
    pub fn next(&mut self, now: Timestamp) -> Option<Address> {
        if now.since(self.asked_at).as_millis() < 1000 {
            return None;
        }
        let next = self.waiting.pop()?;
        self.asked_at = now;
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: PassQuality = PassQuality { had_errors: false, reached_bound: false };

    fn at(text: &str) -> Address {
        Address::new(text).unwrap()
    }

    fn complete(known: &[&str]) -> Completeness {
        let mut completeness = Completeness::new(true);
        completeness.pass_begins();
        for path in known {
            completeness.knows(&at(path));
        }
        completeness.pass_ended(GOOD);
        completeness
    }

    #[test]
    fn only_after_a_whole_pass_without_errors_or_bounds() {
        let mut completeness = Completeness::new(true);
        assert_eq!(completeness.not_complete(), Some(NotComplete::NoPass));
        completeness.pass_ended(PassQuality { had_errors: true, ..GOOD });
        assert_eq!(completeness.not_complete(), Some(NotComplete::Errors));
        completeness.pass_ended(PassQuality { reached_bound: true, ..GOOD });
        assert_eq!(completeness.not_complete(), Some(NotComplete::Bounds));
        assert!(!completeness.is_absent(&at("/x")));
        completeness.pass_ended(GOOD);
        assert!(completeness.is_absent(&at("/x")));
        let mut unwanted = Completeness::new(false);
        unwanted.pass_ended(GOOD);
        assert_eq!(unwanted.not_complete(), Some(NotComplete::NotWanted));
        assert!(!unwanted.is_absent(&at("/x")));
    }

    #[test]
    fn a_change_ends_it_until_the_next_pass_that_began_after_it() {
        let mut completeness = complete(&["/"]);
        completeness.changed();
        assert_eq!(completeness.not_complete(), Some(NotComplete::Changed));
        completeness.pass_begins();
        completeness.changed();
        completeness.pass_ended(GOOD);
        assert_eq!(
            completeness.not_complete(),
            Some(NotComplete::Changed),
            "it came during the pass"
        );
        completeness.pass_begins();
        completeness.pass_ended(GOOD);
        assert_eq!(completeness.not_complete(), None);
    }

    #[test]
    fn what_a_page_links_to_is_never_absent_in_any_spelling() {
        let completeness = complete(&["/", "/docs/guide.html", "/a%20b/", "/x?y=1"]);
        for known in [
            "/docs/guide.html",
            "/docs/guide",
            "/docs/guide.html?x",
            "/docs/",
            "/docs",
            "/docs/index.html",
            "/Docs/Guide.HTML",
            "//docs//guide.html",
            "/a%20b",
            "/a%20B/index.php",
            "/x",
            "/index.html",
            "/.well-known/acme-challenge/x",
        ] {
            assert!(!completeness.is_absent(&at(known)), "{known}");
        }
        for absent in ["/docs/guide2.html", "/wp-login.php", "/doc", "/docs/guide.html/x"] {
            assert!(completeness.is_absent(&at(absent)), "{absent}");
        }
    }

    #[test]
    fn a_path_that_exists_after_all_suspends_it_until_a_page_links_to_it() {
        let mut completeness = complete(&["/"]);
        let hidden = at("/hidden");
        assert!(completeness.is_absent(&hidden));
        completeness.refuted(&hidden);
        assert_eq!(completeness.not_complete(), Some(NotComplete::Refuted));
        completeness.pass_begins();
        completeness.pass_ended(GOOD);
        assert_eq!(completeness.not_complete(), Some(NotComplete::Refuted));
        completeness.knows(&hidden);
        completeness.pass_ended(GOOD);
        assert_eq!(completeness.not_complete(), None);
    }

    #[test]
    fn each_path_that_exists_after_all_suspends_it_until_a_page_links_to_that_path() {
        let mut completeness = complete(&["/"]);
        for hidden in ["/one", "/two", "/one"] {
            completeness.refuted(&at(hidden));
        }
        completeness.knows(&at("/two"));
        completeness.pass_ended(GOOD);
        assert_eq!(completeness.not_complete(), Some(NotComplete::Refuted));
        assert_eq!(completeness.refuted_by(), [at("/one")]);
        completeness.knows(&at("/one"));
        completeness.pass_ended(GOOD);
        assert_eq!(completeness.not_complete(), None);
    }

    #[test]
    fn with_more_such_paths_than_are_kept_it_stays_suspended() {
        let mut completeness = complete(&["/"]);
        let hidden: Vec<Address> = (0..70).map(|number| at(&format!("/{number}"))).collect();
        for address in &hidden {
            completeness.refuted(address);
        }
        assert_eq!(completeness.refuted_by().len(), 64);
        for address in &hidden {
            completeness.knows(address);
        }
        completeness.pass_ended(GOOD);
        assert!(completeness.refuted_by().is_empty());
        assert_eq!(completeness.not_complete(), Some(NotComplete::Refuted));
        let restored = |completeness: &Completeness, wanted: bool| {
            let mut after = Completeness::new(wanted);
            after.restore(completeness.saved());
            after
        };
        let after = restored(&completeness, true);
        assert_eq!(after.not_complete(), Some(NotComplete::Refuted));
        let after = restored(&restored(&after, false), true);
        assert_eq!(after.not_complete(), None, "the operator took `complete` back");
    }

    #[test]
    fn what_an_earlier_version_has_saved_still_holds() {
        let saved = r#"{"hindrance": null, "refuted_by": "/hidden"}"#;
        let mut completeness = Completeness::new(true);
        completeness.restore(serde_json::from_str(saved).unwrap());
        assert_eq!(completeness.not_complete(), Some(NotComplete::Refuted));
        completeness.refuted(&at("/other"));
        let json = serde_json::to_string(&completeness.saved()).unwrap();
        let mut after = Completeness::new(true);
        after.restore(serde_json::from_str(&json).unwrap());
        assert_eq!(after.refuted_by(), [at("/hidden"), at("/other")]);
    }

    #[test]
    fn below_a_page_that_was_not_read_anything_may_exist() {
        let mut completeness = complete(&["/", "/admin/", "/list"]);
        completeness.is_unread(&at("/admin/"));
        completeness.is_unread(&at("/list?q=x"));
        for unknown in ["/admin/users", "/Admin/a/b.html", "/admin/index.html"] {
            assert!(!completeness.is_absent(&at(unknown)), "{unknown}");
        }
        assert!(completeness.is_absent(&at("/administration")));
        assert!(completeness.is_absent(&at("/list/x")), "only a query of it was not read");
        completeness.is_unread(&at("/index.html"));
        assert!(!completeness.is_absent(&at("/other")), "the start page was not read");
        let unread = [at("/admin"), at("/index.html")];
        completeness.set_unread(unread.iter(), [at("/")].iter());
        assert!(completeness.is_absent(&at("/other")) && !completeness.is_absent(&at("/admin/x")));
    }

    #[test]
    fn it_holds_across_a_restart() {
        let mut before = complete(&["/"]);
        before.refuted(&at("/hidden"));
        let json = serde_json::to_string(&before.saved()).unwrap();
        let mut after = Completeness::new(true);
        after.restore(serde_json::from_str(&json).unwrap());
        assert_eq!(after.not_complete(), Some(NotComplete::Refuted));
        after.pass_begins();
        after.knows(&at("/hidden"));
        after.pass_ended(GOOD);
        assert_eq!(after.not_complete(), None);
    }

    #[test]
    fn samples_are_few_and_far_between() {
        let (mut samples, now) = (Samples::default(), Timestamp::from_secs(1_780_000_000));
        for number in 0..1000 {
            samples.add(&at(&format!("/{number}")));
        }
        assert!(samples.next(now).is_some());
        assert!(samples.next(now).is_none());
        let later = |secs: u64| Timestamp::from_secs(1_780_000_000 + secs);
        assert_eq!((1..1000).filter(|it| samples.next(later(*it)).is_some()).count(), 63);
    }
}
