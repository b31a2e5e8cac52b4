//! Durations as people write them: whatever is read can be written and read again.

use std::time::Duration;

use nightwatt_energy::duration_text::{format, parse};

use crate::typed;

/// `format` counts milliseconds in 64 bits, `parse` in the 53 bits of a float.
const LONGEST: Duration = Duration::from_millis(1 << 53);

/// Runs the target on one input.
pub fn run(bytes: &[u8]) {
    let Some(text) = typed::<&str>(bytes) else { return };
    let Ok(duration) = parse(text) else { return };
    if duration >= LONGEST {
        return;
    }
    let written = format(duration);
    let again = parse(&written).expect("what was written can be read");
    assert_eq!(format(again), written, "{text:?} was read as {duration:?}");
    // Only what is finer than a millisecond may be lost.
    assert_eq!(again.as_millis(), duration.as_millis(), "{text:?} was written as {written:?}");
}
