//! Blocks, and the files that they complete.

use super::{Receiver, SessionError, Store, StoreError};
use crate::codec::CodecError;
use crate::pure::arm::Codec;
use crate::pure::layout::Slice;
use crate::wire::{Data, EntryKind, Hole, content_sum};

impl<S: Store> Receiver<S> {
    /// Puts a file in its place if all of it is there.
    pub(super) fn settle(&mut self, place: usize) -> Result<(), SessionError> {
        let [start, end] = self.layout.range(place);
        let is_file = matches!(self.manifest[place].kind, EntryKind::File(_));
        if self.is_settled[place] || !is_file || !self.there.covers(start, end) {
            return Ok(());
        }
        match self.store.complete(place) {
            Ok(()) => self.is_settled[place] = true,
            Err(StoreError::Entry(reason)) => self.drop_entry(place, reason)?,
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Writes a block. Gives the reason if it must be sent again.
    pub(super) fn data(&mut self, data: &Data) -> Result<Option<String>, SessionError> {
        let length = data.length as usize;
        let mut block = std::mem::take(&mut self.block);
        let is_plain = data.codec == Codec::None && data.packed.len() == length;
        let unpacked = if is_plain {
            Ok(())
        } else {
            self.unpacker.unpack(data.codec, &data.packed, length, &mut block)
        };
        let content = if is_plain { &data.packed } else { &block };
        let reason = match unpacked {
            Ok(()) if content_sum(data.start, content) == data.sum => None,
            Ok(()) => Some("its contents are not those that were packed".to_owned()),
            Err(error @ CodecError::TooLong(_)) => {
                return Err(SessionError::Protocol(error.to_string()));
            }
            Err(error) => Some(error.to_string()),
        };
        if reason.is_some() {
            self.block = block;
            return Ok(reason);
        }
        let end = data.start + u64::from(data.length);
        let mut at = 0;
        let parts = self.begin_block(data.start, end)?;
        for part in &parts {
            let bytes = part.bytes as usize;
            if !self.is_settled[part.entry] {
                let result = self.store.write(part.entry, part.offset, &content[at..at + bytes]);
                self.written(part.entry, result)?;
            }
            at += bytes;
        }
        self.block = block;
        self.bytes += u64::from(data.length);
        self.end_block(data.start, end, data.sum)?;
        Ok(None)
    }

    pub(super) fn hole(&mut self, hole: &Hole) -> Result<(), SessionError> {
        let end = hole.start.checked_add(hole.length);
        let end = end.ok_or_else(|| SessionError::protocol("a hole behind the last file"))?;
        for part in self.begin_block(hole.start, end)? {
            if !self.is_settled[part.entry] {
                let result = self.store.zero(part.entry, part.offset, part.bytes);
                self.written(part.entry, result)?;
            }
        }
        self.end_block(hole.start, end, content_sum(hole.start, &hole.length.to_le_bytes()))
    }

    fn begin_block(&self, start: u64, end: u64) -> Result<Vec<Slice>, SessionError> {
        if end > self.layout.bytes() {
            return Err(SessionError::protocol("a block behind the last file"));
        }
        Ok(self.layout.slices(start, end).collect())
    }

    fn written(
        &mut self,
        place: usize,
        result: Result<(), StoreError>,
    ) -> Result<(), SessionError> {
        match result {
            Ok(()) => Ok(()),
            Err(StoreError::Entry(reason)) => self.drop_entry(place, reason),
            Err(error) => Err(error.into()),
        }
    }

    fn end_block(&mut self, start: u64, end: u64, sum: u64) -> Result<(), SessionError> {
        self.there.add(start, end);
        self.store.commit()?;
        let places: Vec<usize> = self.layout.slices(start, end).map(|part| part.entry).collect();
        for place in places {
            self.settle(place)?;
        }
        self.sum = self.sum.wrapping_add(sum);
        self.blocks += 1;
        Ok(())
    }

    /// The stream, which is the only entry, has this length.
    pub(super) fn ended(&mut self, bytes: u64) -> Result<(), SessionError> {
        let is_stream = self.manifest.first().is_some_and(|it| it.kind == EntryKind::Stream);
        if !is_stream || bytes > self.layout.bytes() || !self.there.covers(0, bytes) {
            return Err(SessionError::protocol("a stream ended where it cannot"));
        }
        let mut entries = self.manifest.to_vec();
        entries[0].kind = EntryKind::File(bytes);
        self.manifest = entries.into();
        self.there.add(bytes, self.layout.bytes());
        if self.is_settled[0] {
            return Ok(());
        }
        match self.store.ended(0, bytes) {
            Ok(()) => self.settle(0),
            Err(StoreError::Entry(reason)) => self.drop_entry(0, reason),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn stale(&mut self, place: u64) -> Result<(), SessionError> {
        let place = usize::try_from(place).ok().filter(|place| *place < self.manifest.len());
        let place =
            place.ok_or_else(|| SessionError::protocol("a file that is not in the manifest"))?;
        if !matches!(self.manifest[place].kind, EntryKind::File(_) | EntryKind::Stream) {
            return Err(SessionError::protocol("a folder or a link that changed"));
        }
        if self.is_settled[place] {
            return Ok(());
        }
        self.drop_entry(place, "it changed, or went, while it was sent".to_owned())
    }
}
