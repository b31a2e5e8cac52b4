//! What meters on the network answer: any bytes give figures that are numbers, or an error that is
//! short and safe to print; and packets mean the same however they are cut into pieces.

use nightwatt_meters::answers;

/// Of the seeds: an APC strip's power.
const OID: [u64; 13] = [1, 3, 6, 1, 4, 1, 318, 1, 1, 12, 1, 16, 0];

fn checked<T>(result: Result<T, String>) -> Option<T> {
    result
        .inspect_err(|error| {
            assert!(!error.is_empty() && error.len() < 1_500, "{error}");
            assert!(!error.contains(|c: char| c.is_control()), "{error:?}");
        })
        .ok()
}

/// Runs the target on one input.
pub fn run(bytes: &[u8]) {
    let (pointer, answer) = match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => (str::from_utf8(&bytes[..end]).unwrap_or_default(), &bytes[end + 1..]),
        None => ("", bytes),
    };
    // Pointers are the user's own, and are repeated as they are.
    let is_said = pointer.len() < 200 && !pointer.contains(|c: char| c.is_control());
    for pointer in [if is_said { pointer } else { "/a" }, "", "/a/0/b"] {
        if let Some(number) = checked(answers::number(answer, pointer)) {
            assert!(number.is_finite());
        }
    }
    for all in [answers::shelly(answer), answers::tasmota(answer)] {
        for power in checked(all).unwrap_or_default() {
            assert!(power.get().is_finite());
        }
    }
    checked(answers::redfish(answer));
    if let Ok(text) = str::from_utf8(bytes) {
        if let Some(power) = checked(answers::ipmi(text)) {
            assert!((0.0..=65_535.0).contains(&power.get()), "DCMI has sixteen bits: {power}");
        }
        answers::is_challenge(text);
    }
    if let Some(number) = checked(answers::snmp(bytes, &OID)) {
        assert!(number.is_finite());
    }
    let mut whole = bytes.to_vec();
    let at_once = checked(answers::mqtt(&mut whole));
    let mut inbox = Vec::new();
    let mut in_pieces = Some(Vec::new());
    for piece in bytes.chunks(3) {
        inbox.extend_from_slice(piece);
        in_pieces = in_pieces.and_then(|mut all| {
            all.extend(answers::mqtt(&mut inbox).ok()?);
            Some(all)
        });
    }
    assert_eq!(at_once, in_pieces);
}
