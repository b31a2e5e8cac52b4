//! First messages of TLS: whatever comes is taken or refused, and what is decided does not depend on
//! how much has come when it is looked at.

use nightwatt_gateway::client_hello::{Hello, LONGEST, is_name, read};

/// Runs the target on one input.
pub fn run(bytes: &[u8]) {
    let all = read(bytes);
    if let Ok(Hello::Whole(Some(name))) = &all {
        assert!(is_name(name) && *name == name.to_ascii_lowercase(), "{name:?}");
    }
    if bytes.len() >= LONGEST {
        assert_ne!(all, Ok(Hello::Incomplete), "waited for without end");
    }
    // The first decision on the way is the last one.
    for end in 0..bytes.len().min(2048) {
        let part = read(&bytes[..end]);
        if part != Ok(Hello::Incomplete) {
            assert_eq!(part, all, "decided after {end} bytes");
            break;
        }
    }
}
