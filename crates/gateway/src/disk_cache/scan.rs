//! The scan at the start: finds what is on the disk by the heads of its records. Bodies are not read.
//!
//! Segments are scanned from the newest to the oldest, and within each the last record counts first: what a newer
//! record has superseded or forgotten is skipped. After a gap (blocks that were lost in a power cut) the scan looks for
//! the next whole record, since it may forget names. If something was lost that had been on the disk, it may have
//! forgotten names too: everything older is dropped.

use std::collections::HashSet;
use std::io;

use super::index::{Index, Segment, Spot, Variant};
use super::record::{
    Body, Content, Day, HEAD, Head, MAGIC, MAGIC_AT, Name, PAGE, RecordKind, SEGMENT_HEAD,
    is_earlier, salt_of,
};
use super::storage::Storage;

/// Bytes per read: most heads fit into it.
const PIECE: u64 = 4 << 10;

/// Limit of bytes read while looking for whole records after gaps of a segment: otherwise crafted bodies could make
/// that take forever.
const SEARCHED: u64 = 64 << 20;

/// The result of the scan.
#[derive(Debug, Default)]
pub struct Found {
    /// What is to be used.
    pub index: Index,
    /// The last record of a day's writes.
    pub day: Option<Day>,
    /// Bytes that were truncated as torn.
    pub torn: u64,
    /// Segments that were dropped: there was no time to read them, or they were unreadable.
    pub dropped: usize,
    /// Some of them were written by an earlier version.
    pub has_earlier: bool,
}

struct Scan<'a, S> {
    storage: &'a S,
    records: usize,
    is_late: &'a dyn Fn() -> bool,
    found: Found,
    /// Variants that newer records have superseded.
    superseded: HashSet<(Name, u64)>,
    forgotten: HashSet<Name>,
}

/// A record that was found, without its body.
struct Event {
    at: u64,
    head: Head,
    said: Content,
}

/// What is at an offset.
enum There {
    Record(Box<Event>),
    /// A record whose body extends past the end: nothing can follow it.
    Torn,
    /// Zeros to the end of the page, as after a batch.
    Padding,
    /// No complete record; this many bytes were read to find out.
    Nothing(u64),
}

/// The content of a segment.
#[derive(Default)]
struct Events {
    all: Vec<Event>,
    /// Where the last of them ends.
    end: u64,
    /// Something was lost that had been on the disk: nothing older can be trusted.
    damaged: bool,
}

/// Scans all segments, up to `records` variants, while there is time. Truncates what is torn.
pub(super) fn scan<S: Storage>(
    storage: &S,
    records: usize,
    is_late: &dyn Fn() -> bool,
) -> io::Result<Found> {
    let mut all = storage.list()?;
    all.sort_unstable_by(|one, other| other.cmp(one));
    let found = Found::default();
    let (superseded, forgotten) = (HashSet::new(), HashSet::new());
    let mut scan = Scan { storage, records, is_late, found, superseded, forgotten };
    let mut read = 0;
    for &(number, length) in &all {
        if is_late() {
            break;
        }
        match scan.read(number, length) {
            Ok(Some(damaged)) => {
                read += 1;
                if !damaged {
                    continue;
                }
                tracing::warn!(
                    segment = number,
                    "the disk cache is damaged: what is older is dropped"
                );
            }
            Ok(None) if scan.found.has_earlier => tracing::warn!(
                segment = number,
                "an earlier version of nightwatt wrote this segment of the disk cache. It did not know who had \
                 asked for what it kept: the segment and what is older is dropped, and the cache fills again"
            ),
            Ok(None) => tracing::warn!(
                segment = number,
                "a segment of the disk cache is not what was written: it and what is older is dropped"
            ),
            Err(error) => tracing::warn!(
                segment = number, %error,
                "a segment of the disk cache cannot be read: it and what is older is dropped"
            ),
        }
        break;
    }
    // The oldest first, each synced before the next: what a segment forgets is in older ones.
    for (number, _) in all[read..].iter().rev() {
        storage.remove(*number)?;
        storage.sync_names()?;
        scan.found.dropped += 1;
    }
    scan.found.index.drop_lost_bodies();
    Ok(scan.found)
}

impl<S: Storage> Scan<'_, S> {
    /// Adds the content of a segment. True if the segment is damaged, so that nothing older can be trusted; nothing if
    /// the segment itself cannot be trusted either.
    fn read(&mut self, number: u64, length: u64) -> io::Result<Option<bool>> {
        if length <= PAGE {
            // It never had a record: the power was cut when it was created, or the disk was full.
            self.storage.remove(number)?;
            self.storage.sync_names()?;
            self.found.torn += length;
            return Ok(Some(false));
        }
        let mut head = [0; SEGMENT_HEAD as usize];
        self.storage.read(number, 0, &mut head)?;
        let Some(salt) = salt_of(number, &head) else {
            self.found.has_earlier |= is_earlier(&head);
            return Ok(None);
        };
        let Some(Events { all, end, damaged }) = self.events(number, salt, length)? else {
            return Ok(None);
        };
        if end < length {
            self.storage.cut(number, end)?;
            self.storage.sync(number)?;
            self.found.torn += length - end;
        }
        self.found.index.segments.insert(number, Segment { salt, length: end });
        for event in all.into_iter().rev() {
            self.take(number, event);
        }
        Ok(Some(damaged))
    }

    /// The content of a segment; nothing if it is unreadable.
    fn events(&self, number: u64, salt: u64, length: u64) -> io::Result<Option<Events>> {
        let mut events = Events { end: PAGE, ..Events::default() };
        let (mut at, mut searched) = (PAGE, 0);
        while at < length {
            match self.there(number, salt, at, length)? {
                There::Record(event) => {
                    if u64::from(event.head.synced) > events.end {
                        // The lost records before it may have forgotten names.
                        events.damaged = true;
                        events.all.clear();
                    }
                    at += event.head.length();
                    events.end = at;
                    events.all.push(*event);
                    continue;
                }
                There::Torn => break,
                There::Padding => {
                    at = at.next_multiple_of(PAGE);
                    continue;
                }
                There::Nothing(read) => searched += read,
            }
            let Some(next) = self.next_magic(number, at + 1, length, &mut searched)? else { break };
            at = next;
            if searched > SEARCHED || (self.is_late)() {
                return Ok(None);
            }
        }
        Ok(Some(events))
    }

    /// Reads what is at an offset.
    fn there(&self, number: u64, salt: u64, at: u64, length: u64) -> io::Result<There> {
        let mut bytes = vec![0; (length - at).min(PIECE) as usize];
        self.storage.read(number, at, &mut bytes)?;
        let rest_of_page = (at.next_multiple_of(PAGE) - at).min(length - at) as usize;
        if rest_of_page > 0 && bytes[..rest_of_page] == [0; PAGE as usize][..rest_of_page] {
            return Ok(There::Padding);
        }
        let nothing = There::Nothing(bytes.len() as u64);
        let Some(head) = bytes.first_chunk::<HEAD>().and_then(Head::read) else {
            return Ok(nothing);
        };
        let both = HEAD + head.meta as usize;
        if both as u64 > length - at {
            return Ok(nothing);
        }
        let known = bytes.len().min(both);
        bytes.resize(both, 0);
        if known < both {
            self.storage.read(number, at + known as u64, &mut bytes[known..])?;
        }
        if !head.is_whole(&bytes, salt, at) {
            return Ok(There::Nothing(bytes.len() as u64));
        }
        if head.length() > length - at {
            return Ok(There::Torn);
        }
        let said = Content::read(head.kind, &bytes[HEAD..]);
        Ok(said.map_or(nothing, |said| There::Record(Box::new(Event { at, head, said }))))
    }

    /// Where the next record may begin. Adds the bytes read to `searched`.
    fn next_magic(
        &self,
        number: u64,
        from: u64,
        length: u64,
        searched: &mut u64,
    ) -> io::Result<Option<u64>> {
        let mut at = from + MAGIC_AT as u64;
        while at + MAGIC.len() as u64 <= length {
            let mut bytes = vec![0; (length - at).min(PIECE) as usize];
            self.storage.read(number, at, &mut bytes)?;
            *searched += bytes.len() as u64;
            if let Some(place) = memchr::memmem::find(&bytes, MAGIC) {
                return Ok(Some(at + place as u64 - MAGIC_AT as u64));
            }
            // The magic may cross the end of the piece.
            at += (bytes.len() - (MAGIC.len() - 1)) as u64;
        }
        Ok(None)
    }

    fn take(&mut self, segment: u64, Event { at, head, said }: Event) {
        let record = Spot { segment, at, length: HEAD as u32 + head.meta };
        let (meta, body) = match said {
            Content::Object(meta) => {
                let at = at + u64::from(record.length);
                (meta, Body { segment, at, length: head.body, sum: head.body_sum })
            }
            Content::Renewed(meta, body) => (meta, body),
            Content::Forget(name) => {
                self.forgotten.insert(name);
                return;
            }
            Content::Day(day) => {
                self.found.day.get_or_insert(day);
                return;
            }
        };
        debug_assert!(matches!(head.kind, RecordKind::Object | RecordKind::Renewed));
        let (id, name) = (meta.variant(), meta.name);
        let is_first = self.superseded.insert((name.clone(), id));
        let (popularity, received) = (meta.popularity, meta.times.received);
        let index = &mut self.found.index;
        if is_first && !self.forgotten.contains(&name) && index.count() < self.records {
            index.add_older(&name, Variant { id, record, body, received, popularity, used: false });
        }
    }
}
