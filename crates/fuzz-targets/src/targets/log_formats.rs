//! Logs of any bytes, read as each format: every line is counted once, and what comes out can be
//! written as Combined and read again.

use std::io::Cursor;

use nightwatt_traffic::{Format, Line, LogReader, clf};

/// Runs the target on one input.
pub fn run(log: &[u8]) {
    for name in Format::names() {
        let format = name.parse::<Format>().expect("a name of its own");
        let Ok(reader) = LogReader::new("fuzz", Cursor::new(log.to_vec())) else { return };
        let mut reader = reader.with_format(format);
        while let Ok(Some(record)) = reader.next_record() {
            let arrival = record.to_arrival();
            assert!(!arrival.client.is_empty() && arrival.client.is_ascii());
            assert!(arrival.status < 1000, "{arrival:?}");
            // Where a field is what Combined cannot hold as it is, it is another one afterwards.
            if let Ok(Line::Request(again)) = clf::parse(clf::format(&arrival).as_bytes()) {
                assert_eq!(again.to_arrival().at.secs(), arrival.at.secs());
            }
        }
        let counts = reader.counts();
        let sorts = [counts.requests, counts.bad_requests, counts.malformed, counts.directives];
        assert_eq!(counts.lines, sorts.iter().sum::<u64>(), "{format}: {counts:?}");
    }
}
