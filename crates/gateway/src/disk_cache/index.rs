//! What is on the disk and where: in memory, rebuilt from the records at each start.

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
    /// By what it was chosen.
    pub id: u64,
    /// Its record.
    pub record: Spot,
    /// Its body, there or in an earlier record.
    pub body: Body,
    /// When it came in.
    pub received: Timestamp,
    /// How much it was asked for when that was last known.
    pub popularity: u64,
    /// It was asked for since it was written.
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

/// All of it.
#[derive(Debug, Default)]
pub struct Index {
    entries: HashMap<Name, Vec<Variant>>,
    variants: usize,
    pub(super) segments: BTreeMap<u64, Segment>,
    /// Newer answers have been seen than what the disk has under these names. It is not used any more,
    /// and either rewritten or forgotten on the disk too.
    outdated: HashMap<Name, Vec<u64>>,
    /// Being written just now. What is forgotten meanwhile is taken out.
    writing: HashSet<Name>,
    /// When the answer that was written last came in: it cannot be earlier now. (Not the latest of all: one that
    /// came in while the clock was ahead must not keep the others from being used until then.)
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

    /// Takes note of a variant, in the place of the one that it supersedes.
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

    /// Takes note of a variant that is older than all that is known of its name. [`Index::drop_lost_bodies`]
    /// follows when all are known.
    pub(super) fn add_older(&mut self, name: &Name, variant: Variant) {
        let known = self.entries.entry(name.clone()).or_default();
        if known.len() < VARIANTS {
            known.insert(0, variant);
            self.variants += 1;
        }
    }

    /// After some have gone.
    fn recount(&mut self) {
        self.variants = self.entries.values().map(Vec::len).sum();
        let all = self.entries.values().flatten();
        let last = all.max_by_key(|it| (it.record.segment, it.record.at));
        self.last_received = last.map(|it| it.received).unwrap_or_default();
    }

    /// The same after these have gone, where it makes a difference.
    fn recount_without(&mut self, gone: &[Variant]) {
        self.variants -= gone.len();
        if gone.iter().any(|it| it.received == self.last_received) {
            self.recount();
        }
    }

    /// Begins to write something of this name.
    pub(super) fn begin(&mut self, name: &Name) {
        self.writing.insert(name.clone());
    }

    /// It is written; takes note of it unless its name was forgotten meanwhile.
    pub(super) fn written(&mut self, name: &Name, variant: Variant) {
        if self.writing.contains(name) {
            self.add(name, variant);
        }
    }

    /// Nothing is being written any more.
    pub(super) fn all_written(&mut self) {
        self.writing.clear();
    }

    /// A newer answer has been seen than this variant; if there is one.
    /// Gives where its body lies.
    pub fn outdate(&mut self, name: &Name, id: u64) -> Option<Body> {
        let removed = self.take(name, |it| it.id == id);
        // What is being written may be this one.
        if removed.is_some() | self.writing.remove(name) {
            self.must_go(name, id);
        }
        removed.map(|it| it.body)
    }

    /// Takes a variant out of what is used.
    fn take(&mut self, name: &Name, is_meant: impl Fn(&Variant) -> bool) -> Option<Variant> {
        let place = self.get(name).iter().position(is_meant);
        let removed = place.zip(self.entries.get_mut(name)).map(|(at, all)| all.remove(at));
        if self.entries.get(name).is_some_and(Vec::is_empty) {
            self.entries.remove(name);
        }
        self.recount_without(removed.as_slice());
        removed
    }

    /// The disk has it, and it is not used any more: it is to be superseded or forgotten there too.
    fn must_go(&mut self, name: &Name, id: u64) {
        let ids = self.outdated.entry(name.clone()).or_default();
        if !ids.contains(&id) {
            ids.push(id);
        }
    }

    /// Has the disk something under this name that must not be used again?
    pub fn is_outdated(&self, name: &Name) -> bool {
        self.outdated.contains_key(name)
    }

    /// Names under which the disk has something that must not be used again.
    pub fn outdated(&self) -> Vec<Name> {
        self.outdated.keys().cloned().collect()
    }

    /// Settles what was outdated and has been rewritten. The rest of these names is forgotten; gives
    /// them, for the disk to be told.
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

    /// Forgets one name; says whether the disk has to be told.
    pub fn forget(&mut self, name: &Name) -> bool {
        let known = self.knows(name);
        let gone = self.remove(name);
        self.recount_without(&gone);
        known
    }

    /// Gives what was used; to be counted by the caller.
    fn remove(&mut self, name: &Name) -> Vec<Variant> {
        self.outdated.remove(name);
        self.writing.remove(name);
        self.entries.remove(name).unwrap_or_default()
    }

    /// Forgets all names that are meant; gives those of which the disk has to be told.
    pub fn forget_all(&mut self, is_meant: impl Fn(&Name) -> bool) -> Vec<Name> {
        let all = self.entries.keys().chain(self.outdated.keys()).chain(&self.writing);
        let meant: HashSet<Name> = all.filter(|name| is_meant(name)).cloned().collect();
        for name in &meant {
            self.remove(name);
        }
        self.recount();
        meant.into_iter().collect()
    }

    /// It was asked for.
    pub fn used(&mut self, name: &Name, id: u64, popularity: u64) {
        let known = self.entries.get_mut(name).into_iter().flatten();
        for variant in known.filter(|it| it.id == id) {
            variant.used |= popularity > variant.popularity;
            variant.popularity = popularity;
        }
    }

    /// It was read.
    pub(super) fn was_read(&mut self, name: &Name) {
        for variant in self.entries.get_mut(name).into_iter().flatten() {
            variant.used = true;
        }
    }

    /// What lies there is not what was written, or could not be read now. Its record may be whole all
    /// the same, or be so again: it is forgotten on the disk too, else it would come back.
    pub(super) fn spoilt(&mut self, name: &Name, record: Spot) {
        if let Some(spoilt) = self.take(name, |it| it.record == record) {
            self.must_go(name, spoilt.id);
        }
    }

    /// Variants that were used and go with this segment, the most popular first. They are taken to be
    /// rewritten: see [`Index::begin`].
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

    /// A segment is gone, and all that it had.
    pub(super) fn gone(&mut self, segment: u64) {
        self.segments.remove(&segment);
        self.entries.retain(|_, variants| {
            variants.retain(|it| !it.is_in(segment));
            !variants.is_empty()
        });
        self.recount();
    }

    /// Drops variants whose body cannot be where it is said to be.
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
