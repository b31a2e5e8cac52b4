//! A scan in pieces of any size gives what the reader gives, packed or not; and little room to
//! sort in loses nothing. The first two bytes are the size of the pieces.

use std::io::Cursor;
use std::ops::ControlFlow;

use nightwatt_traffic::classifier::ClassifierConfig;
use nightwatt_traffic::scan::{Hold, Options};
use nightwatt_traffic::{Error, LogReader, Rules, arrivals, scan};

/// Runs the target on one input.
pub fn run(input: &[u8]) {
    let Some((size, log)) = input.split_first_chunk() else { return };
    let piece = usize::from(u16::from_le_bytes(*size));
    let Ok(mut reader) = LogReader::new("fuzz", Cursor::new(log.to_vec())) else { return };
    let expected = arrivals(&mut reader, None);
    let folder = tempfile::tempdir().expect("a folder for a file");
    let path = folder.path().join("log");
    std::fs::write(&path, log).expect("a file in it");
    let rules = Rules::new(ClassifierConfig::default());
    for hold in [Hold::default(), Hold { requests: 3, bytes: 1 << 12 }] {
        let options = Options { piece, hold, workers: Some(2), ..Options::default() };
        let mut all = Vec::new();
        let logs = [path.clone()];
        let found = scan(
            &logs,
            &rules,
            &options,
            |_| {},
            |logged| {
                all.push((logged.at, logged.target.to_owned()));
                ControlFlow::Continue(())
            },
        );
        assert!(all.is_sorted_by_key(|of| of.0));
        if matches!(
            found.failures[..],
            [Error::NoFormat { .. } | Error::NotText { .. } | Error::Blank { .. }]
        ) {
            return;
        }
        // The format is told by more of the log here, so that may differ.
        if found.logs[0].format != reader.format() {
            return;
        }
        assert_eq!(&found.counts, &placed(reader.counts(), &path.display().to_string()));
        assert_eq!(found.counts.requests, all.len() as u64);
        assert_eq!(found.failures.is_empty(), expected.is_ok());
        if let (Ok(expected), 0) = (&expected, found.late) {
            let expected = expected.iter().map(|of| (of.at, of.target.clone()));
            assert!(expected.eq(all), "{piece}");
        }
    }
}

/// The same of a log of another name.
fn placed(counts: &nightwatt_traffic::Counts, name: &str) -> nightwatt_traffic::Counts {
    let mut counts = counts.clone();
    let samples = counts.malformed_samples.iter_mut().chain(&mut counts.bad_request_samples);
    for sample in samples {
        name.clone_into(&mut sample.file);
    }
    counts
}
