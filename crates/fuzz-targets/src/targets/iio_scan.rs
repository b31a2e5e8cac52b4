//! Records of an IIO buffer, of any types: they are as long as they say, and values fit their types.
//! The input is types, a line each, an empty line, and bytes.

use nightwatt_meters::iio::scan::{Element, Scan};

/// Runs the target on one input.
pub fn run(input: &[u8]) {
    let Some(end) = input.windows(2).position(|two| two == b"\n\n") else { return };
    let Ok(types) = std::str::from_utf8(&input[..end]) else { return };
    let elements: Vec<Element> = types.lines().filter_map(|line| line.parse().ok()).collect();
    let bytes = &input[end + 2..];
    let records = |cut: usize| {
        let (mut scan, mut records) = (Scan::new(&elements), Vec::new());
        for chunk in bytes.chunks(cut) {
            scan.feed(chunk, |values| records.push(values.to_vec()));
        }
        (records, scan.length())
    };
    let (whole, length) = records(bytes.len().max(1));
    assert_eq!(whole.len(), bytes.len().checked_div(length).unwrap_or(0));
    assert!(whole.iter().all(|values| values.len() == elements.len()));
    assert_eq!(records(3).0, whole);
}
