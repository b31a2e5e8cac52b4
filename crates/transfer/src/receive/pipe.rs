//! One file, to another program: its contents are written in order, as they arrive.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use super::session::{Options, Outcome, Standing, Store, StoreError};
use crate::pure::ranges::Ranges;
use crate::wire::{Change, Entry, EntryKind, What};

/// Bytes that may wait for those before them: what a sender has on the way.
const MOST_WAITING: usize = 32 << 20;
/// Bytes of a hole that are written at once.
const ZEROS: usize = 64 << 10;

/// Writes to a pipe, or to anything else that is read in order.
#[derive(Debug)]
pub struct Pipe<W> {
    writer: W,
    position: u64,
    waiting: BTreeMap<u64, Vec<u8>>,
    held: usize,
}

impl<W: Write> Pipe<W> {
    /// To this.
    pub fn new(writer: W) -> Self {
        Self { writer, position: 0, waiting: BTreeMap::new(), held: 0 }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.writer.write_all(bytes).map_err(|error| {
            let what = match error.kind() {
                io::ErrorKind::BrokenPipe => "the program that reads what arrives has ended",
                _ => "cannot write to stdout",
            };
            io::Error::new(error.kind(), format!("{what}: {error}"))
        })?;
        self.position += bytes.len() as u64;
        Ok(())
    }
}

/// The only entry, if it has contents.
fn only(entries: &[Entry]) -> Result<&Entry, StoreError> {
    if let [entry @ Entry { kind: EntryKind::File(_) | EntryKind::Stream, .. }] = entries {
        return Ok(entry);
    }
    let text = "the receiver writes to stdout, and takes one file or stream: send a folder with \
                `tar -c FOLDER | nightwatt send - ...`";
    Err(io::Error::new(io::ErrorKind::InvalidInput, text).into())
}

impl<W: Write> Store for Pipe<W> {
    fn keeps_parts(&self) -> bool {
        false
    }

    fn begin(&mut self, _: [u8; 16]) -> Result<(), StoreError> {
        Ok(())
    }

    fn prepare(&mut self, entries: Arc<[Entry]>, _: &Options) -> Result<Vec<Standing>, StoreError> {
        only(&entries)?;
        Ok(vec![Standing::Parts(Ranges::default())])
    }

    fn compared(&mut self, entries: &[Entry], _: &Options) -> Result<Vec<Change>, StoreError> {
        let path = only(entries)?.path.clone();
        Ok(vec![Change { what: What::Write, path, reason: String::new() }])
    }

    fn ended(&mut self, _: usize, _: u64) -> Result<(), StoreError> {
        Ok(())
    }

    fn write(&mut self, _: usize, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        if offset == self.position {
            self.put(bytes)?;
        } else if offset > self.position {
            self.held += bytes.len();
            self.waiting.insert(offset, bytes.to_vec());
        }
        while let Some(next) = self.waiting.remove(&self.position) {
            self.held -= next.len();
            self.put(&next)?;
        }
        if self.held > MOST_WAITING {
            let text = "the sender sends out of order, more than can wait";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text).into());
        }
        Ok(())
    }

    fn zero(&mut self, place: usize, offset: u64, bytes: u64) -> Result<(), StoreError> {
        let zeros = vec![0; ZEROS];
        let (mut at, end) = (offset, offset.saturating_add(bytes));
        while at < end {
            let count = usize::try_from(end - at).unwrap_or(ZEROS).min(ZEROS);
            self.write(place, at, &zeros[..count])?;
            at += count as u64;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn complete(&mut self, _: usize) -> Result<(), StoreError> {
        Ok(self.writer.flush()?)
    }

    /// What was written cannot be taken back: the program that reads it must not take it for whole.
    fn abandon(&mut self, _: usize) -> Result<(), StoreError> {
        let text = "the file changed while it was sent, and a part of it is written already";
        Err(io::Error::new(io::ErrorKind::InvalidData, text).into())
    }

    fn remove_others(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn end(&mut self) -> Result<Outcome, StoreError> {
        Ok(Outcome::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_come_out_in_order_however_they_arrive() {
        let mut out = Vec::new();
        let mut pipe = Pipe::new(&mut out);
        pipe.write(0, 3, b"def").unwrap();
        pipe.zero(0, 6, 2).unwrap();
        pipe.write(0, 0, b"abc").unwrap();
        pipe.write(0, 8, b"g").unwrap();
        assert_eq!(out, b"abcdef\0\0g");
    }

    /// The fault of a review: it ended the receiver.
    #[test]
    fn a_dry_run_names_the_file_and_writes_nothing() {
        let modified = crate::wire::Stamp { seconds: 0, nanos: 0 };
        let path = b"a.tar".to_vec();
        let entry = Entry {
            path: path.clone(),
            kind: EntryKind::File(3),
            mode: 0o644,
            modified,
            attributes: Vec::new(),
        };
        let mut out = Vec::new();
        let mut pipe = Pipe::new(&mut out);
        let changes = pipe.compared(std::slice::from_ref(&entry), &Options::default()).unwrap();
        assert_eq!(changes, [Change { what: What::Write, path, reason: String::new() }]);
        let two = [entry.clone(), entry];
        assert!(pipe.compared(&two, &Options::default()).unwrap_err().to_string().contains("tar"));
        assert!(out.is_empty());
    }

    /// Fails in one way.
    struct Failing(io::ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_no_program_that_has_ended() {
        let text = |kind| Pipe::new(Failing(kind)).write(0, 0, b"a").unwrap_err().to_string();
        assert!(text(io::ErrorKind::BrokenPipe).contains("has ended"));
        let full = text(io::ErrorKind::StorageFull);
        assert!(full.starts_with("cannot write to stdout"), "{full}");
    }

    #[test]
    fn it_keeps_no_more_than_a_sender_has_on_the_way() {
        let mut pipe = Pipe::new(io::sink());
        let block = vec![0; 4 << 20];
        let mut write = |number: u64| pipe.write(0, 1 + (number << 22), &block);
        assert!((0..8).all(|number| write(number).is_ok()));
        assert!(write(8).is_err());
    }
}
