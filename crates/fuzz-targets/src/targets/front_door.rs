//! What clients send to choose a coding or a path: a coding that is chosen is one that was named, and the readings of a
//! path are plain.

use nightwatt_gateway::compress::accepted::{Coding, best};
use nightwatt_gateway::config::{Vouchers, readings};

/// Runs the target on one input.
pub fn run(input: &[u8]) {
    if let Some(coding) = best(std::iter::once(input)) {
        let text = input.to_ascii_lowercase();
        let names = |name: &str| text.windows(name.len()).any(|it| it == name.as_bytes());
        assert!(names(coding.as_str()) || names("*"), "{coding:?}");
        assert!(Coding::ALL.contains(&coding));
    }
    let text = String::from_utf8_lossy(input);
    let all = readings(&text);
    assert_eq!(all[0], text);
    for reading in &all[1..] {
        assert!(reading.starts_with('/'), "{reading}");
        assert!(!reading.contains("//") && !reading.contains('\\'), "{reading}");
        let has_steps = reading.split('/').any(|step| step == "." || step == "..");
        assert!(!has_steps, "{reading}");
    }
    if let Ok(vouchers) = Vouchers::parse(input) {
        assert!(vouchers.count() > 0);
    }
}
