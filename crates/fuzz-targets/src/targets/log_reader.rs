//! Logs of any bytes, plain or gzipped: every line is counted once, and packing changes nothing. As
//! counts per second they are read or refused.

use std::io::{Cursor, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use nightwatt_traffic::reader::Counts;
use nightwatt_traffic::{Error, LogReader, PerSecond};

/// Runs the target on one input.
pub fn run(log: &[u8]) {
    count(log);
    let Some((plain, whole)) = read(log.to_vec()) else { return };
    let sorts = [plain.requests, plain.bad_requests, plain.malformed, plain.directives];
    assert_eq!(plain.lines, sorts.iter().sum::<u64>(), "{plain:?}");
    if is_packed(log) {
        return;
    }
    assert!(whole, "what is in memory can be read to its end");
    let ends = log.split(|byte| *byte == b'\n').count() - 1;
    let open = log.last().is_some_and(|&byte| byte != b'\n');
    assert_eq!(plain.lines, ends as u64 + u64::from(open));
    assert_eq!(read(gzipped(log)), Some((plain, true)));
}

/// As a file of counts, and second by second as a log.
fn count(log: &[u8]) {
    let mut counts = PerSecond::default();
    if counts.add_counts("fuzz", Cursor::new(log.to_vec())).is_ok() && !is_packed(log) {
        assert!(counts.counts.len() <= log.len().div_ceil(2));
    }
    if let Ok(mut reader) = LogReader::new("fuzz", Cursor::new(log.to_vec())) {
        let mut seconds = PerSecond::default();
        if seconds.add_log(&mut reader).is_ok() {
            assert_eq!(seconds.requests(), reader.counts().requests);
        }
    }
}

/// What was met, and whether it was read to its end; none where the format is not for us.
fn read(log: Vec<u8>) -> Option<(Counts, bool)> {
    let mut reader = LogReader::new("fuzz", Cursor::new(log)).ok()?;
    loop {
        match reader.next_record() {
            Ok(Some(record)) => drop(record.to_arrival()),
            Ok(None) => return Some((reader.counts().clone(), true)),
            Err(Error::Misfit { .. }) => return None,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return Some((reader.counts().clone(), false));
            }
        }
    }
}

/// Whether it begins like something packed, or is changed before it is cut into lines: UTF-16, NULs,
/// lines in containers, of which some are parts.
fn is_packed(log: &[u8]) -> bool {
    let magics: [&[u8]; 6] =
        [&[0x1f, 0x8b], &[0x28, 0xb5, 0x2f, 0xfd], b"BZh", b"\xfd7zXZ", b"\xff\xfe", b"\xfe\xff"];
    let has_containers = || {
        let mut reader = LogReader::new("fuzz", Cursor::new(log.to_vec())).ok()?;
        let _ = reader.next_record();
        Some(!reader.containers().is_empty())
    };
    magics.iter().any(|magic| log.starts_with(magic))
        || log.get(1..4) == Some(&[0x2a, 0x4d, 0x18])
        || log.contains(&0)
        || has_containers() == Some(true)
}

fn gzipped(log: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(log).and_then(|()| encoder.finish()).expect("memory takes all")
}
