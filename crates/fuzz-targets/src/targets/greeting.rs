//! First bytes of clients: whatever comes is taken or refused within bounds, and what is decided does not depend on how
//! much has come when it is looked at.

use nightwatt_gateway::greeting::{Greeting, LONGEST, Protocol, ping_answer, read, status_answer};

/// Runs the target on one input.
pub fn run(bytes: &[u8]) {
    for protocol in [Protocol::Tls, Protocol::Ssh, Protocol::Rdp, Protocol::Minecraft] {
        let all = read(protocol, bytes);
        if bytes.len() >= LONGEST {
            assert_ne!(all, Greeting::Incomplete, "waited for without end");
        }
        if let Greeting::Status { version, ping } = all {
            assert!(!status_answer(version, "\"\\").is_empty());
            assert!(ping.is_none_or(|it| ping_answer(it).len() == 10));
        }
        for end in 0..bytes.len().min(2048) {
            let part = read(protocol, &bytes[..end]);
            // A ping may follow the request for a status, and be none.
            if matches!(part, Greeting::Wakes | Greeting::Alien) {
                assert_eq!(part, all, "{protocol:?}: decided after {end} bytes");
                break;
            }
        }
    }
}
