//! The validity of certificates, and what they are known by: whatever is in a file, it is read or refused, and what
//! follows the certificate changes nothing.

use nightwatt_gateway::tls::identity::Identity;
use nightwatt_gateway::tls::validity::Validity;

/// Runs the target on one input.
pub fn run(bytes: &[u8]) {
    let more = [bytes, b"more"].concat();
    if let Some(it) = Identity::read(bytes) {
        let has = |part: &[u8]| part.is_empty() || bytes.windows(part.len()).any(|it| it == part);
        assert!(has(&it.authority_key) && has(&it.serial), "{it:?}");
        assert_eq!(Identity::read(&more), Some(it));
    }
    let Some(read) = Validity::read(bytes) else { return };
    // Four digits of a year: from 0000 to 9999.
    for time in [read.from, read.until] {
        assert!((-62_167_219_200..=253_402_300_799).contains(&time), "{read:?}");
    }
    assert_eq!(Validity::read(&more), Some(read));
}
