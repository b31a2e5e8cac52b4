//! Segments of the disk cache: any files are opened in bounded time, what is read of them is whole, and
//! the log can be written on and opened again.

#![no_main]

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use nightwatt_gateway::disk_cache::log::{Bounds, Log, New};
use nightwatt_gateway::disk_cache::record::{Day, Kind, Name, Said, body_sum};
use nightwatt_gateway::disk_cache::storage::Storage;

/// Files in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<BTreeMap<u64, Vec<u8>>>>);

impl Memory {
    fn with<T>(&self, segment: u64, work: impl FnOnce(&mut Vec<u8>) -> Option<T>) -> io::Result<T> {
        let mut files = self.0.lock().unwrap();
        let file = files.get_mut(&segment).ok_or(io::ErrorKind::NotFound)?;
        work(file).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl Storage for Memory {
    fn list(&self) -> io::Result<Vec<(u64, u64)>> {
        Ok(self
            .0
            .lock()
            .unwrap()
            .iter()
            .map(|(number, file)| (*number, file.len() as u64))
            .collect())
    }

    fn create(&self, segment: u64) -> io::Result<()> {
        assert!(self.0.lock().unwrap().insert(segment, Vec::new()).is_none());
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
        self.0.lock().unwrap().remove(&segment).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }
}

fn names(log: &Log<Memory>) -> Vec<Name> {
    log.shared().index().names().map(|(name, _)| name.clone()).collect()
}

fuzz_target!(|input: &[u8]| {
    // Metas by themselves: sums keep chance from getting at them.
    if let Some((kind, meta)) = input.split_first() {
        let kinds = [Kind::Object, Kind::Renewed, Kind::Forget, Kind::Day];
        if let Some(kind) = kinds.get(usize::from(*kind)) {
            if let Some(said) = Said::read(*kind, meta) {
                let (kind, again) = said.write().expect("it is no longer than it was");
                assert_eq!(Said::read(kind, &again), Some(said));
            }
        }
    }
    // Two segments, and both as a third.
    let disk = Memory::default();
    let half = input.len() / 2;
    for (number, file) in [(1, &input[..half]), (2, &input[half..]), (3, input)] {
        disk.0.lock().unwrap().insert(number, file.to_vec());
    }
    let bounds = Bounds { bytes: 1 << 20, segment: 1 << 16, records: 64 };
    let (mut log, _) = Log::open(disk.clone(), bounds, 1, &|| false).expect("memory does not fail");
    let mut last = None;
    for name in names(&log) {
        for (meta, body, variant) in log.shared().fetch(&name).0 {
            assert_eq!((&meta.name, body_sum(&body)), (&name, variant.body.sum));
            last = Some((meta, body));
        }
    }
    if let Some((meta, body)) = last {
        let name = meta.name.clone();
        let new = New { meta, body: body.clone(), known: None, is_meant: Box::new(|| true) };
        let written = log.write(vec![new], u64::MAX, Day::default()).unwrap();
        let (log, _) = Log::open(disk, bounds, 2, &|| false).unwrap();
        let found: Vec<Bytes> = log.shared().fetch(&name).0.into_iter().map(|it| it.1).collect();
        assert!(written.records == 0 || found.contains(&body));
    }
});
