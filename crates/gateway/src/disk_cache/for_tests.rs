//! A disk without a disk, for tests and for the fuzz target of the records. Nothing else uses it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use super::storage::Storage;

/// Files in memory, as a process sees them: segments by number.
#[derive(Debug, Clone, Default)]
pub struct Memory(pub Arc<Mutex<BTreeMap<u64, Vec<u8>>>>);

impl Memory {
    /// Does something with the bytes of a segment; an error if there is no such segment, or it is too short.
    pub fn with<T>(
        &self,
        segment: u64,
        work: impl FnOnce(&mut Vec<u8>) -> Option<T>,
    ) -> io::Result<T> {
        let mut files = self.0.lock().unwrap();
        let file = files.get_mut(&segment).ok_or(io::ErrorKind::NotFound)?;
        work(file).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl Storage for Memory {
    fn list(&self) -> io::Result<Vec<(u64, u64)>> {
        let files = self.0.lock().unwrap();
        Ok(files.iter().map(|(number, file)| (*number, file.len() as u64)).collect())
    }

    fn create(&self, segment: u64) -> io::Result<()> {
        let before = self.0.lock().unwrap().insert(segment, Vec::new());
        assert!(before.is_none(), "segment {segment} is there already");
        Ok(())
    }

    fn write(&self, segment: u64, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.with(segment, |file| {
            let end = at as usize + bytes.len();
            file.resize(file.len().max(end), 0);
            file[at as usize..end].copy_from_slice(bytes);
            Some(())
        })
    }

    fn read(&self, segment: u64, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.with(segment, |file| {
            into.copy_from_slice(file.get(at as usize..)?.get(..into.len())?);
            Some(())
        })
    }

    fn sync(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }

    fn cut(&self, segment: u64, length: u64) -> io::Result<()> {
        self.with(segment, |file| {
            file.truncate(length as usize);
            Some(())
        })
    }

    fn remove(&self, segment: u64) -> io::Result<()> {
        let gone = self.0.lock().unwrap().remove(&segment);
        gone.map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
