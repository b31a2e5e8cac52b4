//! The log: segments of limited size, each written from start to end and never changed. The oldest is removed when
//! there is no more room.
//!
//! What is written at one time is one batch, on pages of its own, and on the disk when the write returns. Segments are
//! removed strictly by age, so that a `forget` record outlives everything that it applies to.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

pub use crate::config::DiskBounds as Bounds;

use super::index::{Index, Segment, Spot, Variant};
use super::record::{
    Body, Content, Day, HEAD, Head, Meta, Name, PAGE, RecordKind, RecordPlace, body_sum,
    head_and_meta, segment_head,
};
use super::scan::{Found, scan};
use super::storage::Storage;

/// An answer to write.
pub struct New {
    /// The answer without its body.
    pub meta: Meta,
    /// Its body.
    pub body: Bytes,
    /// Where the body is already stored, if it is.
    pub known: Option<Body>,
    /// Checked as late as possible: whether it still has to be written.
    pub is_meant: Box<dyn Fn() -> bool + Send>,
}

/// The result of a batch.
#[derive(Debug, Default)]
pub struct Written {
    /// Bytes written to the disk, in whole pages.
    pub bytes: u64,
    /// Answers written.
    pub records: usize,
    /// Answers left out because the budget was spent.
    pub left_out: usize,
    /// Names of answers left out because they are too long to be stored at all.
    pub too_long: Vec<Name>,
    /// Answers of the oldest segments that were rewritten because they had been used.
    pub carried: usize,
}

/// State shared by readers and the writer.
#[derive(Debug)]
pub struct Shared<S> {
    storage: S,
    index: Mutex<Index>,
}

impl<S: Storage> Shared<S> {
    /// For segments that have not been scanned yet.
    pub(super) fn new(storage: S) -> Arc<Self> {
        Arc::new(Self { storage, index: Mutex::default() })
    }

    pub(super) const fn storage(&self) -> &S {
        &self.storage
    }

    /// The index.
    pub fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads all variants of a name. Leaves out and counts what is not as it was written.
    pub fn fetch(&self, name: &Name) -> (Vec<(Meta, Bytes, Variant)>, usize) {
        let known = self.index().get(name).to_vec();
        let (mut all, mut spoilt) = (Vec::new(), 0);
        for variant in known {
            if let Ok(Some((meta, body))) = self.read(name, &variant) {
                all.push((meta, body, variant));
                continue;
            }
            let mut index = self.index();
            // Unless its segment was removed just now.
            spoilt += usize::from(index.segments.contains_key(&variant.body.segment));
            index.spoilt(name, variant.record);
        }
        self.index().was_read(name);
        (all, spoilt)
    }

    fn read(&self, name: &Name, variant: &Variant) -> io::Result<Option<(Meta, Bytes)>> {
        let Spot { segment, at, length } = variant.record;
        let Some(salt) = self.index().segments.get(&segment).map(|it| it.salt) else {
            return Ok(None);
        };
        let mut bytes = vec![0; length as usize];
        self.storage.read(segment, at, &mut bytes)?;
        let head = bytes.first_chunk::<HEAD>().and_then(Head::read);
        let Some(head) = head.filter(|it| it.is_whole(&bytes, salt, at)) else { return Ok(None) };
        let meta = match Content::read(head.kind, &bytes[HEAD..]) {
            Some(Content::Object(meta) | Content::Renewed(meta, _)) if meta.name == *name => meta,
            _ => return Ok(None),
        };
        let mut body = vec![0; variant.body.length as usize];
        self.storage.read(variant.body.segment, variant.body.at, &mut body)?;
        Ok((body_sum(&body) == variant.body.sum).then(|| (meta, Bytes::from(body))))
    }
}

/// A record to write.
struct Record {
    kind: RecordKind,
    meta: Vec<u8>,
    body: Bytes,
    /// Where its body is, if the record does not contain it.
    known: Option<Body>,
}

/// The segment that is being written.
#[derive(Debug, Clone, Copy)]
struct Current {
    number: u64,
    salt: u64,
    end: u64,
    /// Everything before this offset is on the disk.
    synced: u64,
    /// Where the current batch begins, and the first page that has not been counted.
    batch: u64,
    counted: u64,
}

/// The writer's side of the log.
#[derive(Debug)]
pub struct Log<S> {
    shared: Arc<Shared<S>>,
    bounds: Bounds,
    secret: u64,
    current: Option<Current>,
    /// No segment has had a higher number.
    last: u64,
    /// A warning was logged that forgotten names cannot be recorded.
    warned: bool,
}

impl<S: Storage> Log<S> {
    /// Scans the disk. `secret` is a random number that never leaves the process.
    pub fn open(
        storage: S,
        bounds: Bounds,
        secret: u64,
        is_late: &dyn Fn() -> bool,
    ) -> io::Result<(Self, Found)> {
        Self::look(Shared::new(storage), bounds, secret, is_late)
    }

    /// The same for existing readers: another process may have written meanwhile.
    pub(super) fn look(
        shared: Arc<Shared<S>>,
        bounds: Bounds,
        secret: u64,
        is_late: &dyn Fn() -> bool,
    ) -> io::Result<(Self, Found)> {
        let mut found = scan(&shared.storage, bounds.records, is_late)?;
        *shared.index() = std::mem::take(&mut found.index);
        let last = shared.index().segments.keys().next_back().copied().unwrap_or(0);
        let mut log = Self { shared, bounds, secret, current: None, last, warned: false };
        // The limit may be lower than before.
        while log.shared.index().bytes() > bounds.bytes {
            log.remove_oldest()?;
        }
        Ok((log, found))
    }

    /// For readers.
    pub fn shared(&self) -> &Arc<Shared<S>> {
        &self.shared
    }

    /// Writes a batch of at most `allowed` bytes. Leaves out what is not wanted any more, and what would exceed the
    /// limit.
    pub fn write(&mut self, batch: Vec<New>, allowed: u64, day: Day) -> io::Result<Written> {
        let mut written = Written::default();
        let names: Vec<Name> = batch.iter().map(|new| new.meta.name.clone()).collect();
        for name in &names {
            self.shared.index().begin(name);
        }
        let done = batch.into_iter().try_for_each(|new| {
            if (new.is_meant)() { self.put(&new, allowed, &mut written) } else { Ok(()) }
        });
        let day = Day { cache: day.cache.saturating_add(written.bytes), ..day };
        let done = done.and_then(|()| match written.records + written.carried {
            0 => Ok(0),
            _ => self.write_record(&Content::Day(day)).and_then(|()| self.sync()),
        });
        self.shared.index().all_written();
        written.bytes += done.inspect_err(|_| self.current = None)?;
        Ok(written)
    }

    /// Records that these names are forgotten; they have left the index already. The record is on the disk when this
    /// returns; returns its bytes.
    ///
    /// # Errors
    ///
    /// If neither the record could be written nor everything be removed.
    pub fn forget(&mut self, names: &[Name]) -> io::Result<u64> {
        let mut bytes = 0;
        let told = names.iter().try_for_each(|name| {
            bytes += self.write_record_with_room(&Content::Forget(name.clone()))?;
            Ok(())
        });
        match told.and_then(|()| self.sync()) {
            Ok(synced) => {
                self.warned = false;
                Ok(bytes + synced)
            }
            Err(error) => {
                if !std::mem::replace(&mut self.warned, true) {
                    tracing::warn!(%error, "cannot write what is forgotten: the disk cache is emptied");
                }
                self.clear()?;
                Ok(bytes)
            }
        }
    }

    /// Removes everything, except the record of what was written today. Returns the bytes written.
    ///
    /// # Errors
    ///
    /// If not everything could be removed.
    pub fn clear_but(&mut self, day: Day) -> io::Result<u64> {
        if self.shared.index().segments.is_empty() {
            return Ok(0);
        }
        self.clear()?;
        Ok(self.note(day).unwrap_or_else(|error| {
            tracing::warn!(%error, "the disk cache could not be written");
            0
        }))
    }

    /// Records what was written on a day. Returns the bytes written.
    pub fn note(&mut self, day: Day) -> io::Result<u64> {
        let noted = self
            .write_record_with_room(&Content::Day(day))
            .and_then(|bytes| Ok(bytes + self.sync()?));
        noted.inspect_err(|_| self.current = None)
    }

    /// Removes everything.
    pub fn clear(&mut self) -> io::Result<()> {
        self.current = None;
        while !self.shared.index().segments.is_empty() {
            self.remove_oldest()?;
        }
        Ok(())
    }

    fn put(&mut self, new: &New, allowed: u64, written: &mut Written) -> io::Result<()> {
        let Some(Record { kind, meta, body, known }) = self.record(new) else {
            written.too_long.push(new.meta.name.clone());
            return Ok(());
        };
        let bytes = (HEAD + meta.len() + body.len()) as u64;
        // Counts the pages too that it shares with others at its ends.
        if written.bytes + pages(bytes) > allowed {
            written.left_out += 1;
            return Ok(());
        }
        let carried =
            self.make_room(bytes, allowed.saturating_sub(written.bytes + bytes), written)?;
        for (meta, body) in carried {
            let Some((kind, meta_text)) = Content::Object(meta.clone()).write() else { continue };
            self.make_room((HEAD + meta_text.len() + body.len()) as u64, 0, written)?;
            self.append(kind, &meta_text, &body, &meta, None, written)?;
            written.carried += 1;
        }
        if known.is_some_and(|it| !self.shared.index().segments.contains_key(&it.segment)) {
            // Its body was removed just now to make room: write it with the record.
            return self.put(new, allowed, written);
        }
        self.append(kind, &meta, &body, &new.meta, known, written)?;
        written.records += 1;
        Ok(())
    }

    /// A record with its body, or one that refers to a stored body. Nothing if it is too long.
    fn record(&self, new: &New) -> Option<Record> {
        let length = u32::try_from(new.body.len()).ok()?;
        let is_there = |it: &Body| {
            let same = it.length == length && it.sum == body_sum(&new.body);
            same && self.shared.index().segments.contains_key(&it.segment)
        };
        let known = new.known.filter(is_there);
        let (said, body) = match known {
            Some(body) => (Content::Renewed(new.meta.clone(), body), Bytes::new()),
            None => (Content::Object(new.meta.clone()), new.body.clone()),
        };
        let (kind, meta) = said.write()?;
        let fits = (HEAD + meta.len() + body.len()) as u64 <= self.bounds.largest();
        fits.then_some(Record { kind, meta, body, known })
    }

    fn append(
        &mut self,
        kind: RecordKind,
        text: &[u8],
        body: &[u8],
        meta: &Meta,
        known: Option<Body>,
        written: &mut Written,
    ) -> io::Result<()> {
        let Current { number: segment, salt, end: at, synced, .. } = self.current()?;
        let (length, sum) = (body.len() as u32, body_sum(body));
        let of_body = if kind == RecordKind::Object { (length, sum) } else { (0, 0) };
        let place = RecordPlace { salt, at, synced };
        let head = head_and_meta(kind, text, of_body.0, of_body.1, &place);
        self.shared.storage.write(segment, at, &head)?;
        if !body.is_empty() {
            self.shared.storage.write(segment, at + head.len() as u64, body)?;
        }
        let bytes = (head.len() + body.len()) as u64;
        self.grown(bytes);
        written.bytes += bytes;
        let own = Body { segment, at: at + head.len() as u64, length, sum };
        let variant = Variant {
            id: meta.variant(),
            record: Spot { segment, at, length: head.len() as u32 },
            body: known.unwrap_or(own),
            received: meta.times.received,
            popularity: meta.popularity,
            used: false,
        };
        self.shared.index().written(&meta.name, variant);
        Ok(())
    }

    /// Writes a record without a body, if it fits.
    fn write_record(&mut self, content: &Content) -> io::Result<()> {
        // Records of names that were written, and of days, are short.
        let Some((kind, meta)) = content.write() else { return Ok(()) };
        let Current { number, salt, end, synced, .. } = self.current()?;
        let bytes = head_and_meta(kind, &meta, 0, 0, &RecordPlace { salt, at: end, synced });
        self.shared.storage.write(number, end, &bytes)?;
        self.grown(bytes.len() as u64);
        Ok(())
    }

    fn write_record_with_room(&mut self, content: &Content) -> io::Result<u64> {
        let bytes = content.write().map_or(0, |(_, meta)| (HEAD + meta.len()) as u64);
        self.make_room(bytes, 0, &mut Written::default())?;
        self.write_record(content)?;
        Ok(bytes)
    }

    fn grown(&mut self, bytes: u64) {
        if let Some(current) = &mut self.current {
            current.end += bytes;
            if let Some(segment) = self.shared.index().segments.get_mut(&current.number) {
                segment.length = current.end;
            }
        }
    }

    /// Syncs what was written so far: the batch ends. Returns the bytes by which the pages exceed what was written into
    /// them.
    fn sync(&mut self) -> io::Result<u64> {
        let Some(current) = &mut self.current else { return Ok(0) };
        self.shared.storage.sync(current.number)?;
        let written = current.end - current.batch;
        if written > 0 {
            current.synced = current.end;
        }
        // The next batch does not touch these pages again: what is on the disk stays unchanged.
        current.end = current.end.next_multiple_of(PAGE);
        let whole = current.end - current.counted;
        (current.batch, current.counted) = (current.end, current.end);
        self.grown(0);
        Ok(whole - written)
    }

    /// The segment to write to; a new one if none is open.
    fn current(&mut self) -> io::Result<Current> {
        if let Some(current) = self.current {
            return Ok(current);
        }
        let number = self.last + 1;
        let salt = body_sum(&[self.secret.to_le_bytes(), number.to_le_bytes()].concat());
        // Never used again, whatever happens to the segment.
        self.last = number;
        let storage = &self.shared.storage;
        storage.create(number)?;
        let begun = storage
            .write(number, 0, &segment_head(number, salt))
            .and_then(|()| storage.sync(number))
            .and_then(|()| storage.sync_names());
        if let Err(error) = begun {
            // If that fails too: a segment without records is removed at the next start.
            let _ = storage.remove(number);
            return Err(error);
        }
        self.shared.index().segments.insert(number, Segment { salt, length: PAGE });
        let current = Current { number, salt, end: PAGE, synced: PAGE, batch: PAGE, counted: 0 };
        Ok(*self.current.insert(current))
    }

    /// Makes room for a record; returns which of the removed answers to rewrite, at most `spare` bytes.
    fn make_room(
        &mut self,
        bytes: u64,
        spare: u64,
        written: &mut Written,
    ) -> io::Result<Vec<(Meta, Bytes)>> {
        // Keep room for the record of the day.
        const DAY: u64 = 64;
        if self.current.is_some_and(|it| it.end + bytes + DAY > self.bounds.segment) {
            written.bytes += self.sync()?;
            self.current = None;
        }
        let mut carried = Vec::new();
        loop {
            let (taken, records) = {
                let index = self.shared.index();
                (index.bytes(), index.count())
            };
            let head = if self.current.is_none() { PAGE } else { 0 };
            let fits = taken + head + bytes + DAY <= self.bounds.bytes;
            if fits && records < self.bounds.records || taken == 0 {
                return Ok(carried);
            }
            carried.extend(self.worth_carrying(spare));
            self.remove_oldest()?;
        }
    }

    /// The answers of the oldest segment that were used, at most half of it.
    fn worth_carrying(&self, spare: u64) -> Vec<(Meta, Bytes)> {
        let used = {
            let mut index = self.shared.index();
            let oldest = index.segments.keys().next().copied().filter(|_| spare > 0);
            oldest.map(|oldest| index.used_in(oldest)).unwrap_or_default()
        };
        let mut room = spare.min(self.bounds.segment / 2);
        let mut carried = Vec::new();
        for (name, variant) in used {
            let bytes = u64::from(variant.record.length) + u64::from(variant.body.length);
            if bytes <= room
                && let Ok(Some((mut meta, body))) = self.shared.read(&name, &variant)
            {
                meta.popularity = variant.popularity;
                room -= bytes;
                carried.push((meta, body));
            }
        }
        carried
    }

    fn remove_oldest(&mut self) -> io::Result<()> {
        let oldest = self.shared.index().segments.keys().next().copied();
        let Some(oldest) = oldest else { return Ok(()) };
        if self.current.is_some_and(|it| it.number == oldest) {
            self.current = None;
        }
        match self.shared.storage.remove(oldest) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // Synced before any newer segment is removed: what it forgets is in older ones.
        self.shared.storage.sync_names()?;
        self.shared.index().gone(oldest);
        Ok(())
    }
}

const fn pages(bytes: u64) -> u64 {
    bytes.next_multiple_of(PAGE)
}
