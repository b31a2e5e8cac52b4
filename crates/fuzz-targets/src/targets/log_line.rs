//! Lines of a log: what is read can be written, and is then read as the same.

use nightwatt_traffic::{Arrival, Line, clf};

/// Runs the target on one input.
pub fn run(line: &[u8]) {
    if line.contains(&b'\n') {
        return;
    }
    let Ok(Line::Request(record)) = clf::parse(line) else { return };
    let arrival = record.to_arrival();
    let written = clf::format(&arrival);
    let Ok(Line::Request(again)) = clf::parse(written.as_bytes()) else {
        panic!("{arrival:?} was written as {written}");
    };
    assert_eq!(again.to_arrival(), as_written(arrival), "{written}");
}

/// An empty field and `-` are both read as none.
fn as_written(arrival: Arrival) -> Arrival {
    let given = |field: Option<String>| field.filter(|text| !text.is_empty() && text != "-");
    Arrival { referer: given(arrival.referer), agent: given(arrival.agent), ..arrival }
}
