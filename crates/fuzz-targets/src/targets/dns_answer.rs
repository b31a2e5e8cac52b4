//! Answers of DNS servers: whatever comes is read within bounds, and nothing that is not signed with our key is believed.

use nightwatt_gateway::dns_update::{Signer, read, verify};

/// Runs the target on one input.
pub fn run(bytes: &[u8]) {
    let signer = Signer { name: "key.example", secret: b"secret", now: 1_700_000_000 };
    if let Ok(answer) = read(bytes) {
        assert!(answer.records.len() <= 256);
        assert!(answer.records.iter().all(|it| it.name.len() <= 1280 && it.name.is_ascii()));
        let _ = (answer.is_for(7), answer.zone(), answer.has_text("a.example", "b"));
    }
    // Only the holder of the key can make a signature.
    assert!(verify(bytes, &[7; 32], &signer).is_err());
}
