//! Segments of the disk cache: any files are opened in bounded time, what is read of them is whole, and
//! the log can be written on and opened again.

use bytes::Bytes;
use nightwatt_gateway::disk_cache::for_tests::Memory;
use nightwatt_gateway::disk_cache::log::{Bounds, Log, New};
use nightwatt_gateway::disk_cache::record::{Content, Day, Name, RecordKind, body_sum};

fn names(log: &Log<Memory>) -> Vec<Name> {
    log.shared().index().names().map(|(name, _)| name.clone()).collect()
}

/// Runs the target on one input.
pub fn run(input: &[u8]) {
    // Metas by themselves: sums keep chance from getting at them.
    if let Some((kind, meta)) = input.split_first() {
        let kinds = [RecordKind::Object, RecordKind::Renewed, RecordKind::Forget, RecordKind::Day];
        if let Some(kind) = kinds.get(usize::from(*kind))
            && let Some(said) = Content::read(*kind, meta)
        {
            let (kind, again) = said.write().expect("it is no longer than it was");
            assert_eq!(Content::read(kind, &again), Some(said));
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
}
