//! Datagrams to an agent and to a proxy, and the bodies of authentic ones: what is understood is what
//! would have been written so, what is not authentic is never answered. Files that an agent reads too.

use std::net::SocketAddr;
use std::time::Duration;

use nightwatt_agent::Config;
use nightwatt_agent::authentication::{Authenticator, Verdict};
use nightwatt_agent::key::Key;
use nightwatt_agent::protocol::{Body, LONGEST, Sealed, signed};
use nightwatt_host::calendar::Calendar;

/// Runs the target on one input.
pub fn run(input: &[u8]) {
    let key = Key::new(&[1; 32]).expect("32 bytes are a key");
    let from: SocketAddr = ([10, 0, 0, 1], 4000).into();
    let mut authenticator =
        Authenticator::new(vec![key.clone()], Key::new(&[2; 32]).expect("32 bytes are a key"));
    let now = Duration::from_secs(5);
    assert_eq!(authenticator.receive(now, 0, from, input), Verdict::Silence);
    // The same bytes, signed by a sender that has the key.
    let datagram = signed(&key, input);
    if let Ok(message) = Sealed::parse(&datagram).and_then(|sealed| sealed.open(&key)) {
        let has_empty =
            matches!(&message.body, Body::Reply(reply) if reply.texts.iter().any(String::is_empty));
        assert!(has_empty || message.seal(&key) == datagram);
        let verdict = authenticator.receive(now, 0, from, &datagram);
        assert!(!matches!(verdict, Verdict::Order(..)), "no challenge was given: {message:?}");
        if let Verdict::Answer(answer) = verdict {
            assert!(answer.len() <= datagram.len());
        }
    }
    assert!(datagram.len() <= LONGEST || Sealed::parse(&datagram).is_err());
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = Key::parse(text);
        let calendar = Calendar::parse(text);
        let _ = calendar.at(1_795_176_000);
        let _ = calendar.whole_days();
        let _ = Config::parse(text, "fuzz.toml");
    }
}
