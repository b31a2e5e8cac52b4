//! What may be looked at, by the rules of the operator, of robots.txt and of the built-in lists. What may not be
//! looked at is not judged either: the mirror cannot know whether it exists.

use nightwatt_httpcache::Timestamp;

use super::pages::{Page, PageState};
use super::{Meeting, PlanRules, Planner};
use crate::pure::address::Address;
use crate::pure::complete::folded;
use crate::pure::reason::Reason;
use crate::pure::refused_addresses::{Origin, refusal};
use crate::pure::robots::{Permission, Robots};

/// Why nightwatt may not request an address, whatever leads to it.
pub(super) fn forbidden(
    address: &Address,
    robots: Option<&Robots>,
    rules: &PlanRules,
) -> Option<Reason> {
    if permission(robots, address.as_str()) == Permission::Never {
        return Some(Reason::Robots);
    }
    // As a link: how it was found may not be known any more.
    refusal(address, Origin::Linked, &rules.patterns)
}

fn permission(robots: Option<&Robots>, path_and_query: &str) -> Permission {
    robots.map_or(Permission::Fetch, |robots| robots.permission(path_and_query))
}

impl Planner {
    /// Why an address that came up is not fetched. What is fetched already was judged before: only robots.txt may
    /// have changed.
    pub(super) fn refusal(
        &mut self,
        address: &Address,
        meeting: &Meeting,
        is_new: bool,
        now: Timestamp,
    ) -> Option<Reason> {
        match permission(self.robots.as_ref(), address.as_str()) {
            Permission::Never => return Some(Reason::Robots),
            Permission::DoNotDiscover if is_new && meeting.origin == Origin::Linked => {
                return Some(Reason::Robots);
            }
            _ => {}
        }
        if !is_new {
            return None;
        }
        if meeting.is_not_followed {
            return Some(Reason::NotFollowed);
        }
        refusal(address, meeting.origin, &self.rules.patterns)
            .or_else(|| (meeting.depth > self.rules.limits.depth).then_some(Reason::TooDeep))
            // Before it is counted by its form: it comes up again in each pass.
            .or_else(|| self.by_bound())
            .or_else(|| self.by_form(address, now))
    }

    fn by_bound(&self) -> Option<Reason> {
        (self.pages.fetched() >= self.rules.limits.pages).then_some(Reason::PagesBound)
    }

    /// Counts an address by its form. One that the operator includes is in no trap.
    fn by_form(&mut self, address: &Address, now: Timestamp) -> Option<Reason> {
        if self.rules.patterns.includes(address) {
            return None;
        }
        self.pages.count(address, now).err()
    }

    /// Why nightwatt may not request an address of this site, for any purpose.
    pub fn forbidden(&self, address: &Address) -> Option<Reason> {
        forbidden(address, self.robots.as_ref(), &self.rules)
    }

    /// Whether the operator or robots.txt keeps nightwatt from an address. The built-in lists are for the mirror alone.
    pub fn is_closed_to_us(&self, address: &Address) -> bool {
        let permission = permission(self.robots.as_ref(), address.as_str());
        permission == Permission::Never || self.rules.patterns.excludes(address)
    }

    /// Takes over a page of a saved plan. The rules may be others now.
    pub(super) fn restore_page(&mut self, address: Address, mut page: Page, now: Timestamp) {
        self.completeness.knows(&address);
        let was_refused = page.refused();
        page.modified_ms = page.modified_ms.map(|modified| modified.min(now.as_millis()));
        // Unless the store has it.
        page.was_good |= page.is_there();
        page.state = self.judged_again(&address, &page, now);
        // What is mirrored or was tried counts. A form that is full keeps out only what was kept out before.
        if !page.refused().is_some_and(Reason::is_before_fetch) {
            let refused = self.by_form(&address, now).or_else(|| self.by_bound());
            if let Some(reason) = refused.filter(|_| was_refused.is_some_and(Reason::is_by_rules)) {
                page.state = PageState::Refused { reason, at_ms: now.as_millis() };
            }
        }
        self.pages.restore(address, page);
    }

    /// What has become of a page, by the present rules.
    fn judged_again(&self, address: &Address, page: &Page, now: Timestamp) -> PageState {
        if let Some(reason) = self.forbidden(address) {
            return PageState::Refused { reason, at_ms: now.as_millis() };
        }
        let Some(reason) = page.refused() else { return PageState::New };
        let is_overridden = matches!(reason, Reason::Private | Reason::Revalidate)
            && self.rules.admit.may_override(address);
        if reason.is_by_rules() || is_overridden { PageState::New } else { page.state }
    }

    /// Whether a path does not exist for all the mirror knows. Only for addresses that are not mirrored.
    pub fn is_absent(&mut self, address: &Address) -> bool {
        if !self.would_be_absent(address) {
            return false;
        }
        self.samples.add(address);
        self.completeness.not_complete().is_none()
    }

    pub(super) fn would_be_absent(&self, address: &Address) -> bool {
        self.completeness.would_be_absent(address) && self.may_judge(address)
    }

    /// Whether the mirror would look at a path if a page linked to it, in each spelling in which a server may take it.
    fn may_judge(&self, address: &Address) -> bool {
        // Without robots.txt it is not known what it forbids.
        let Some(robots) = &self.robots else { return false };
        let as_file = folded(address.path());
        let as_folder = format!("{as_file}/");
        let mut spellings = [address.as_str(), &as_file, &as_folder].into_iter();
        spellings.all(|spelling| {
            let is_open = robots.permission(spelling) == Permission::Fetch;
            let is_refused = |it: Address| refusal(&it, Origin::Linked, &self.rules.patterns);
            is_open && Address::new(spelling).and_then(is_refused).is_none()
        })
    }

    /// Notes which pages were not read.
    pub(super) fn note_unread(&mut self) {
        let hides_links = |page: &Page| page.refused().is_some_and(Reason::hides_links);
        let unread = self.pages.iter().filter(|(_, page)| hides_links(page));
        let read = self.pages.iter().filter(|(_, page)| page.is_good());
        self.completeness.set_unread(unread.map(|(it, _)| it), read.map(|(it, _)| it));
    }
}
