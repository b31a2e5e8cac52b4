//! Recognises the first message of a `WireGuard` handshake, without reading what is encrypted in it.

use blake2::digest::consts::{U16, U32};
use blake2::digest::{Digest, KeyInit, Mac};
use blake2::{Blake2s, Blake2sMac};

/// Length of the message.
const LENGTH: usize = 148;

/// What precedes the first code, which covers it.
const SIGNED: usize = 116;

/// Whether it is the first message of a handshake, as its sender makes it for the server with this public key: then it
/// has a code (`mac1`) that only those can make who know that key. Whether the server knows the sender, only the server
/// can find out.
pub(super) fn is_initiation(datagram: &[u8], server: Option<&[u8; 32]>) -> bool {
    let has_form = datagram.len() == LENGTH && datagram.starts_with(&[1, 0, 0, 0]);
    has_form && server.is_none_or(|server| is_for(datagram, server))
}

fn is_for(datagram: &[u8], server: &[u8; 32]) -> bool {
    let key = Blake2s::<U32>::new().chain_update(b"mac1----").chain_update(server).finalize();
    let Ok(mut code) = <Blake2sMac<U16> as KeyInit>::new_from_slice(&key) else { return false };
    code.update(&datagram[..SIGNED]);
    code.verify_slice(&datagram[SIGNED..SIGNED + 16]).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_message_of_a_handshake_has_its_form() {
        let mut message = vec![0; LENGTH];
        message[0] = 1;
        assert!(is_initiation(&message, None));
        assert!(!is_initiation(&message[..LENGTH - 1], None));
        assert!(!is_initiation(&[message.clone(), vec![0]].concat(), None));
        for (at, value) in [(0, 2), (0, 4), (1, 1), (2, 1), (3, 1)] {
            let mut other = message.clone();
            other[at] = value;
            assert!(!is_initiation(&other, None), "{at}: {value}");
        }
        assert!(!is_initiation(&[], None));
        assert!(!is_initiation(&message, Some(&[7; 32])), "it has no code");
    }
}
