//! The validity of certificates: whatever is in a file, it is read or refused, and what follows the
//! certificate changes nothing.

use nightwatt_gateway::tls::validity::Validity;

/// Runs the target on one input.
pub fn run(bytes: &[u8]) {
    let Some(read) = Validity::read(bytes) else { return };
    // Four digits of a year: from 0000 to 9999.
    for time in [read.from, read.until] {
        assert!((-62_167_219_200..=253_402_300_799).contains(&time), "{read:?}");
    }
    let more = [bytes, b"more"].concat();
    assert_eq!(Validity::read(&more), Some(read));
}
