//! What the mirror knows about the answers of the caches beside it.

use nightwatt_httpcache::{Stored, Timestamp};

use super::Planner;
use crate::discover::Document;
use crate::pure::address::Address;

impl Planner {
    /// Content has changed: what caches requested before counts no more, unless its server says how long it is fresh.
    pub fn content_changed(&mut self, now: Timestamp) {
        self.changed = self.changed.max(Some(now));
    }

    /// When content last changed, as far as that is known.
    pub fn last_change(&self) -> Option<Timestamp> {
        self.changed
    }

    /// Whether a cache may give this answer, which is stale or was only assumed to be fresh: nothing says that the
    /// content has changed since it was requested.
    ///
    /// An unsafe request may have changed every page, and what was missing. What a page refers to has another address
    /// if it changes.
    pub fn is_current(&self, address: &Address, stored: &Stored) -> bool {
        let requested = stored.times().requested;
        let is_before_change = self.changed.is_some_and(|changed| requested <= changed);
        let is_page = !stored.status().is_success()
            || Document::of(stored.headers(), address.path()) == Document::Html;
        if is_before_change && is_page {
            return false;
        }
        self.pages.get(address).is_none_or(|page| {
            let modified = page.modified_ms.map(Timestamp::from_millis);
            let is_outdated = page.is_outdated && (is_before_change || self.changed.is_none());
            !is_outdated && modified.is_none_or(|modified| requested >= modified)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderMap, HeaderValue, Method, StatusCode};
    use nightwatt_httpcache::{Filler, RequestHead, Rules, Times};

    use super::*;
    use crate::pure::address::Site;
    use crate::pure::admit::AdmitRules;
    use crate::pure::plan::{Limits, Meeting, PlanRules};
    use crate::pure::refresh::RefreshRules;
    use crate::pure::refused_addresses::PatternRules;
    use crate::pure::traps::TrapRules;

    const START: Timestamp = Timestamp::from_secs(1_782_086_400);

    fn after(seconds: u64) -> Timestamp {
        START.plus(Duration::from_secs(seconds))
    }

    fn planner() -> Planner {
        let rules = PlanRules {
            limits: Limits::default(),
            patterns: PatternRules::default(),
            traps: TrapRules::default(),
            admit: AdmitRules::new(&Rules::default(), 1_000_000, Vec::new()),
            refresh: RefreshRules::default(),
            seeds: Vec::new(),
            complete: false,
        };
        Planner::new(Site::new("http://example.org").unwrap(), rules)
    }

    /// Requested at this time, and received a minute later.
    fn stored(status: StatusCode, kind: &'static str, requested: Timestamp) -> Stored {
        let (asked, mut headers) = (HeaderMap::new(), HeaderMap::new());
        headers.insert("content-type", HeaderValue::from_static(kind));
        let request = RequestHead {
            method: &Method::GET,
            authority: "example.org",
            path_and_query: "/a",
            headers: &asked,
        };
        let times = Times { requested, received: requested.plus(Duration::from_mins(1)) };
        let rules = AdmitRules::new(&Rules::default(), 0, Vec::new()).cache;
        Stored::new(&request, Filler::Proxy, status, &headers, times, &rules).unwrap()
    }

    #[test]
    fn after_a_change_pages_and_errors_from_before_count_no_more() {
        let mut planner = planner();
        let address = Address::new("/a").unwrap();
        let is_current = |planner: &Planner, status, kind, requested| {
            planner.is_current(&address, &stored(status, kind, requested))
        };
        let (ok, gone) = (StatusCode::OK, StatusCode::NOT_FOUND);
        assert!(is_current(&planner, ok, "text/html", after(0)));
        planner.content_changed(after(100));
        assert!(!is_current(&planner, ok, "text/html; charset=utf-8", after(0)));
        // Requested before the change, though it was received after it.
        assert!(!is_current(&planner, ok, "text/html", after(99)));
        assert!(!is_current(&planner, gone, "text/plain", after(0)));
        assert!(is_current(&planner, ok, "text/css", after(0)));
        assert!(is_current(&planner, ok, "text/html", after(101)));
        // A clock that is set back does not make it forget the change.
        planner.content_changed(after(50));
        assert!(!is_current(&planner, ok, "text/html", after(99)));
    }

    #[test]
    fn what_is_to_be_confirmed_counts_no_more_whatever_it_is() {
        let mut planner = planner();
        let address = Address::new("/a").unwrap();
        planner.meet(address.clone(), &Meeting::default(), after(0));
        let style = |requested| stored(StatusCode::OK, "text/css", requested);
        assert!(planner.is_current(&address, &style(after(0))));
        planner.outdate("/a");
        assert!(!planner.is_current(&address, &style(after(0))), "it is not known since when");
        planner.content_changed(after(100));
        assert!(!planner.is_current(&address, &style(after(100))));
        assert!(planner.is_current(&address, &style(after(101))));
    }

    #[test]
    fn a_sitemap_says_since_when_a_copy_is_old() {
        let mut planner = planner();
        let address = Address::new("/a").unwrap();
        let meeting = Meeting { modified: Some(after(100)), ..Meeting::default() };
        planner.meet(address.clone(), &meeting, after(100));
        for (requested, is_current) in [(99, false), (100, true)] {
            let copy = stored(StatusCode::OK, "text/html", after(requested));
            assert_eq!(planner.is_current(&address, &copy), is_current, "{requested}");
        }
    }
}
