//! At the start: what is on the disk is found by the heads of its records. Bodies are not read.
//!
//! Segments are read from the newest to the oldest, and within each the last record counts first: what a
//! newer record has superseded or forgotten is passed over. Behind a gap (blocks that were lost when the
//! power was cut) the next whole record is looked for, since it may say what is to be forgotten. Where
//! that cannot be known, all that is older is dropped as well.

use std::collections::HashSet;
use std::io;

use super::index::{Index, Segment, Spot, Variant};
use super::record::{
    Body, Day, HEAD, Head, Kind, MAGIC, MAGIC_AT, Name, SEGMENT_HEAD, Said, salt_of,
};
use super::storage::Storage;

/// Read in one go: most heads lie within it.
const PIECE: u64 = 4 << 10;

/// When looking for whole records behind a gap, no more is summed up than this: else somebody's bodies
/// could make it take for ever.
const SUMMED: u64 = 64 << 20;

/// What was found at the start.
#[derive(Debug, Default)]
pub struct Found {
    /// What is to be used.
    pub index: Index,
    /// What was last said about a day's writes.
    pub day: Option<Day>,
    /// Bytes cut off as torn.
    pub torn: u64,
    /// Segments that were dropped: no time to read them, or no telling what they say.
    pub dropped: usize,
}

struct Scan<'a, S> {
    storage: &'a S,
    records: usize,
    found: Found,
    /// Said by newer records.
    superseded: HashSet<(Name, u64)>,
    forgotten: HashSet<Name>,
}

/// A record that was found, without its body.
struct Event {
    at: u64,
    head: Head,
    said: Said,
}

/// Reads all segments, `records` variants at most, as long as there is time. What is torn is cut off.
pub(super) fn scan<S: Storage>(
    storage: &S,
    records: usize,
    is_late: &dyn Fn() -> bool,
) -> io::Result<Found> {
    let mut all = storage.list()?;
    all.sort_unstable_by(|one, other| other.cmp(one));
    let found = Found::default();
    let (superseded, forgotten) = (HashSet::new(), HashSet::new());
    let mut scan = Scan { storage, records, found, superseded, forgotten };
    let mut newest = true;
    while let Some(&(number, length)) = all.first() {
        if is_late() || !scan.read(number, length, newest)? {
            break;
        }
        newest = false;
        all.remove(0);
    }
    // The oldest first, each for good before the next: what a segment forgets lies in older ones.
    for (number, _) in all.iter().rev() {
        storage.remove(*number)?;
        storage.sync_names()?;
        scan.found.dropped += 1;
    }
    scan.found.index.drop_lost_bodies();
    Ok(scan.found)
}

impl<S: Storage> Scan<'_, S> {
    /// False if nothing older can be trusted.
    fn read(&mut self, number: u64, length: u64, newest: bool) -> io::Result<bool> {
        let Some(salt) = self.salt(number, length)? else {
            if newest {
                // It had just been made when the power was cut.
                self.storage.remove(number)?;
                self.storage.sync_names()?;
                self.found.torn += length;
                return Ok(true);
            }
            return Ok(false);
        };
        let (events, end, trusted) = self.events(number, salt, length)?;
        if end < length {
            self.found.torn += length - end;
            self.storage.cut(number, end)?;
            self.storage.sync(number)?;
        }
        self.found.index.segments.insert(number, Segment { salt, length: end });
        for event in events.into_iter().rev() {
            self.take(number, event);
        }
        if !trusted {
            tracing::warn!(
                segment = number,
                "a damaged segment of the disk cache: what is older is dropped"
            );
        }
        Ok(trusted)
    }

    fn salt(&self, number: u64, length: u64) -> io::Result<Option<u64>> {
        if length < SEGMENT_HEAD {
            return Ok(None);
        }
        let mut head = [0; SEGMENT_HEAD as usize];
        self.storage.read(number, 0, &mut head)?;
        Ok(salt_of(number, &head))
    }

    /// All whole records of a segment, where the last of them ends, and whether that is all that there
    /// was.
    fn events(&self, number: u64, salt: u64, length: u64) -> io::Result<(Vec<Event>, u64, bool)> {
        let (mut events, mut at, mut end) = (Vec::new(), SEGMENT_HEAD, SEGMENT_HEAD);
        let mut summed = 0;
        while at < length {
            if let Some(event) = self.event(number, salt, (at, length), &mut summed)? {
                at += event.head.length();
                end = at;
                events.push(event);
                continue;
            }
            let Some(next) = self.next_magic(number, at + 1, length)? else { break };
            at = next;
            if summed > SUMMED {
                return Ok((events, end, false));
            }
        }
        Ok((events, end, true))
    }

    /// The record at this place, if there is a whole one.
    fn event(
        &self,
        number: u64,
        salt: u64,
        (at, length): (u64, u64),
        summed: &mut u64,
    ) -> io::Result<Option<Event>> {
        let mut bytes = vec![0; (length - at).min(PIECE) as usize];
        self.storage.read(number, at, &mut bytes)?;
        let Some(head) = bytes.first_chunk::<HEAD>().and_then(Head::read) else { return Ok(None) };
        if head.length() > length - at {
            return Ok(None);
        }
        let both = HEAD + head.meta as usize;
        let known = bytes.len().min(both);
        bytes.resize(both, 0);
        if known < both {
            self.storage.read(number, at + known as u64, &mut bytes[known..])?;
        }
        *summed += both as u64;
        if !head.is_whole(&bytes, salt, at) {
            return Ok(None);
        }
        let said = Said::read(head.kind, &bytes[HEAD..]);
        Ok(said.map(|said| Event { at, head, said }))
    }

    /// Where the next record may begin.
    fn next_magic(&self, number: u64, from: u64, length: u64) -> io::Result<Option<u64>> {
        let mut at = from + MAGIC_AT as u64;
        while at + MAGIC.len() as u64 <= length {
            let mut bytes = vec![0; (length - at).min(16 * PIECE) as usize];
            self.storage.read(number, at, &mut bytes)?;
            if let Some(place) = memchr::memmem::find(&bytes, MAGIC) {
                return Ok(Some(at + place as u64 - MAGIC_AT as u64));
            }
            // It may lie across the end of the piece.
            at += (bytes.len() - (MAGIC.len() - 1)) as u64;
        }
        Ok(None)
    }

    fn take(&mut self, segment: u64, Event { at, head, said }: Event) {
        let record = Spot { segment, at, length: HEAD as u32 + head.meta };
        let (meta, body) = match said {
            Said::Object(meta) => {
                let at = at + u64::from(record.length);
                (meta, Body { segment, at, length: head.body, sum: head.body_sum })
            }
            Said::Renewed(meta, body) => (meta, body),
            Said::Forget(name) => {
                self.forgotten.insert(name);
                return;
            }
            Said::Day(day) => {
                self.found.day.get_or_insert(day);
                return;
            }
        };
        debug_assert!(matches!(head.kind, Kind::Object | Kind::Renewed));
        let (id, name) = (meta.variant(), meta.name);
        let is_first = self.superseded.insert((name.clone(), id));
        let index = &mut self.found.index;
        if is_first && !self.forgotten.contains(&name) && index.count() < self.records {
            index.newest = index.newest.max(meta.times.received);
            let popularity = meta.popularity;
            index.add(&name, Variant { id, record, body, popularity, used: false });
        }
    }
}
