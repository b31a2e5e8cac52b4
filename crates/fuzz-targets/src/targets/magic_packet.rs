//! Datagrams at the ports of magic packets: what is read is exactly what was sent, and nothing else is read.

use nightwatt_power::wol::heard;

/// Runs the target on one input.
pub fn run(bytes: &[u8]) {
    let Some(it) = heard(bytes) else { return };
    let again = [&[0xff; 6][..], &it.mac.0.repeat(16), it.password].concat();
    assert_eq!(again, bytes);
    assert!(matches!(it.password.len(), 0 | 4 | 6), "{it:?}");
    // One byte more or less is another packet, or none.
    assert_ne!(heard(&bytes[1..]).map(|it| it.mac), Some(it.mac));
}
