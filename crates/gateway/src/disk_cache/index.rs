//! The index: what is stored on the disk, and where. It is kept in memory, and rebuilt from the records at each start.

use std::collections::{BTreeMap, HashMap, HashSet};

use nightwatt_httpcache::Timestamp;

use super::record::{Body, Name};

/// Variants of one resource kept at once, as in memory; the oldest goes first.
const VARIANTS: usize = 8;

/// Where the head and the meta of a record lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// In which segment.
    pub segment: u64,
    /// Its first byte.
    pub at: u64,
    /// Bytes of both.
    pub length: u32,
}

/// A stored answer.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    /// Identifies the variant, by the request fields that selected it.
    pub id: u64,
    /// Its record.
    pub record: Spot,
    /// Its body, there or in an earlier record.
    pub body: Body,
    /// When the answer was received.
    pub received: Timestamp,
    /// Its popularity, as last known.
    pub popularity: u64,
    /// It was requested since it was written.
    pub used: bool,
}

impl Variant {
    fn is_in(&self, segment: u64) -> bool {
        self.record.segment == segment || self.body.segment == segment
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub(super) salt: u64,
    pub(super) length: u64,
}

/// The whole index.
#[derive(Debug, Default)]
pub struct Index {
    entries: HashMap<Name, Vec<Variant>>,
    variants: usize,
    pub(super) segments: BTreeMap<u64, Segment>,
    /// Variants on the disk that newer answers have replaced, by name. They are not used any more, and are either
    /// rewritten or forgotten on the disk too.
    outdated: HashMap<Name, Vec<u64>>,
    /// Names being written now. A name that is forgotten meanwhile is removed from here.
    writing: HashSet<Name>,
    /// When the answer that was written last was received: the time cannot be earlier than that. (Not the maximum: an
    /// answer that was received while the clock was ahead must not keep the others from being used until then.)
    pub(super) last_received: Timestamp,
}

impl Index {
    /// The variants under a name.
    pub fn get(&self, name: &Name) -> &[Variant] {
        self.entries.get(name).map_or(&[], Vec::as_slice)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = (&Name, &[Variant])> {
        self.entries.iter().map(|(name, variants)| (name, variants.as_slice()))
    }

    /// How many stored answers there are.
    pub const fn count(&self) -> usize {
        self.variants
    }

    /// Bytes of all segments.
    pub fn bytes(&self) -> u64 {
        self.segments.values().map(|it| it.length).sum()
    }

    /// Adds a variant, in place of the one that it supersedes.
    fn add(&mut self, name: &Name, variant: Variant) {
        self.last_received = variant.received;
        let known = self.entries.entry(name.clone()).or_default();
        let before = known.len();
        known.retain(|it| it.id != variant.id);
        known.push(variant);
        if known.len() > VARIANTS {
            known.remove(0);
        }
        self.variants = self.variants + known.len() - before;
    }

    /// Adds a variant that is older than all known ones of its name. Call [`Index::drop_lost_bodies`] when all are
    /// added.
    pub(super) fn add_older(&mut self, name: &Name, variant: Variant) {
        let known = self.entries.entry(name.clone()).or_default();
        if known.len() < VARIANTS {
            known.insert(0, variant);
            self.variants += 1;
        }
    }

    /// Updates the counts after variants were removed.
    fn recount(&mut self) {
        self.variants = self.entries.values().map(Vec::len).sum();
        let all = self.entries.values().flatten();
        let last = all.max_by_key(|it| (it.record.segment, it.record.at));
        self.last_received = last.map(|it| it.received).unwrap_or_default();
    }

    /// The same after these variants were removed, where it matters.
    fn recount_without(&mut self, gone: &[Variant]) {
        self.variants -= gone.len();
        if gone.iter().any(|it| it.received == self.last_received) {
            self.recount();
        }
    }

    /// Marks a name as being written.
    pub(super) fn begin(&mut self, name: &Name) {
        self.writing.insert(name.clone());
    }

    /// A variant was written: adds it, unless its name was forgotten meanwhile.
    pub(super) fn written(&mut self, name: &Name, variant: Variant) {
        if self.writing.contains(name) {
            self.add(name, variant);
        }
    }

    /// No name is being written any more.
    pub(super) fn all_written(&mut self) {
        self.writing.clear();
    }

    /// A newer answer than this variant has been seen, if the variant exists. Returns where its body is.
    pub fn outdate(&mut self, name: &Name, id: u64) -> Option<Body> {
        let removed = self.take(name, |it| it.id == id);
        // The variant may be the one that is being written.
        if removed.is_some() | self.writing.remove(name) {
            self.must_go(name, id);
        }
        removed.map(|it| it.body)
    }

    /// Removes a variant from those in use.
    fn take(&mut self, name: &Name, is_meant: impl Fn(&Variant) -> bool) -> Option<Variant> {
        let place = self.get(name).iter().position(is_meant);
        let removed = place.zip(self.entries.get_mut(name)).map(|(at, all)| all.remove(at));
        if self.entries.get(name).is_some_and(Vec::is_empty) {
            self.entries.remove(name);
        }
        self.recount_without(removed.as_slice());
        removed
    }

    /// The disk has a variant that is not used any more: it has to be superseded or forgotten there too.
    fn must_go(&mut self, name: &Name, id: u64) {
        let ids = self.outdated.entry(name.clone()).or_default();
        if !ids.contains(&id) {
            ids.push(id);
        }
    }

    /// Whether the disk has something under this name that must not be used again.
    pub fn is_outdated(&self, name: &Name) -> bool {
        self.outdated.contains_key(name)
    }

    /// Names under which the disk has something that must not be used again.
    pub fn outdated(&self) -> Vec<Name> {
        self.outdated.keys().cloned().collect()
    }

    /// Removes the names that were outdated and have been rewritten. Forgets the rest of `names`, and returns them, to
    /// be recorded on the disk.
    pub fn settle(&mut self, names: &[Name]) -> Vec<Name> {
        let superseded = |name: &Name, ids: &Vec<u64>| {
            let known = self.entries.get(name).map_or(&[][..], Vec::as_slice);
            ids.iter().all(|id| known.iter().any(|it| it.id == *id))
        };
        let known = names.iter().filter_map(|name| self.outdated.get_key_value(name));
        let known: Vec<(Name, bool)> =
            known.map(|(name, ids)| (name.clone(), superseded(name, ids))).collect();
        let mut forgotten = Vec::new();
        for (name, superseded) in known {
            if superseded {
                self.outdated.remove(&name);
            } else {
                self.forget(&name);
                forgotten.push(name);
            }
        }
        forgotten
    }

    /// Whether the disk has anything under this name, used or not.
    fn knows(&self, name: &Name) -> bool {
        self.entries.contains_key(name)
            || self.outdated.contains_key(name)
            || self.writing.contains(name)
    }

    /// Forgets one name; returns whether that has to be recorded on the disk.
    pub fn forget(&mut self, name: &Name) -> bool {
        let known = self.knows(name);
        let gone = self.remove(name);
        self.recount_without(&gone);
        known
    }

    /// Removes and returns what was in use; the caller updates the counts.
    fn remove(&mut self, name: &Name) -> Vec<Variant> {
        self.outdated.remove(name);
        self.writing.remove(name);
        self.entries.remove(name).unwrap_or_default()
    }

    /// Forgets all names that match; returns those for which that has to be recorded on the disk.
    pub fn forget_all(&mut self, is_meant: impl Fn(&Name) -> bool) -> Vec<Name> {
        let all = self.entries.keys().chain(self.outdated.keys()).chain(&self.writing);
        let meant: HashSet<Name> = all.filter(|name| is_meant(name)).cloned().collect();
        for name in &meant {
            self.remove(name);
        }
        self.recount();
        meant.into_iter().collect()
    }

    /// A variant was requested.
    pub fn used(&mut self, name: &Name, id: u64, popularity: u64) {
        let known = self.entries.get_mut(name).into_iter().flatten();
        for variant in known.filter(|it| it.id == id) {
            variant.used |= popularity > variant.popularity;
            variant.popularity = popularity;
        }
    }

    /// A variant was read.
    pub(super) fn was_read(&mut self, name: &Name) {
        for variant in self.entries.get_mut(name).into_iter().flatten() {
            variant.used = true;
        }
    }

    /// A record is not what was written, or could not be read now. It may still be whole, or be readable later: it is
    /// forgotten on the disk too, otherwise it would come back.
    pub(super) fn spoilt(&mut self, name: &Name, record: Spot) {
        if let Some(spoilt) = self.take(name, |it| it.record == record) {
            self.must_go(name, spoilt.id);
        }
    }

    /// The variants in use that are lost with this segment, the most popular first. They are marked as being rewritten:
    /// see [`Index::begin`].
    pub(super) fn used_in(&mut self, segment: u64) -> Vec<(Name, Variant)> {
        let all = self.entries.iter().flat_map(|(name, all)| all.iter().map(move |it| (name, it)));
        let used = all.filter(|(_, it)| it.used && it.is_in(segment));
        let mut used: Vec<_> = used.map(|(name, it)| (name.clone(), *it)).collect();
        used.sort_by_key(|(_, it)| std::cmp::Reverse(it.popularity));
        for (name, _) in &used {
            self.begin(name);
        }
        used
    }

    /// Removes a segment and everything in it.
    pub(super) fn gone(&mut self, segment: u64) {
        self.segments.remove(&segment);
        self.entries.retain(|_, variants| {
            variants.retain(|it| !it.is_in(segment));
            !variants.is_empty()
        });
        self.recount();
    }

    /// Drops variants whose body cannot be where their record says.
    pub(super) fn drop_lost_bodies(&mut self) {
        let segments = &self.segments;
        let has = |body: &Body| {
            let end = body.at.checked_add(u64::from(body.length));
            let length = segments.get(&body.segment).map(|it| it.length);
            end.zip(length).is_some_and(|(end, length)| end <= length)
        };
        self.entries.retain(|_, variants| {
            variants.retain(|it| has(&it.body));
            !variants.is_empty()
        });
        self.recount();
    }
}
