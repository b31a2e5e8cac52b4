//! Keys that an agent and its proxies share.

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::Error;

/// Fewer bytes are no key.
const SHORTEST: usize = 32;

/// A file that is longer holds something else.
const LONGEST_FILE: u64 = 4096;

/// Which key a message was made with: for looking it up, and in logs. It tells nothing of the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; 8]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A key, ready for use.
#[derive(Clone)]
pub struct Key {
    mac: Hmac<Sha256>,
    id: KeyId,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id)
    }
}

impl Key {
    /// The key of these bytes; `None` if they are fewer than 32.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < SHORTEST {
            return None;
        }
        // HMAC takes keys of any length.
        let mac = <Hmac<Sha256> as KeyInit>::new_from_slice(bytes).ok()?;
        let mut key = Self { mac, id: KeyId([0; 8]) };
        let name = key.tag(&[b"nightwatt agent key"]);
        key.id = KeyId(*name.first_chunk()?);
        Some(key)
    }

    /// Its name.
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// HMAC-SHA-256 of the parts, one after the other.
    pub(crate) fn tag(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = self.mac.clone();
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    /// Is that their tag, or its beginning? In a time that does not depend on where it differs.
    pub(crate) fn verify(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        let mut mac = self.mac.clone();
        for part in parts {
            mac.update(part);
        }
        mac.verify_truncated_left(tag).is_ok()
    }

    /// The key in a text: base64 or hexadecimal digits, with white space around them. The error is
    /// what is wrong with it; it does not repeat the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let is_hex = text.len() >= 2 * SHORTEST
            && text.len().is_multiple_of(2)
            && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bytes = if is_hex {
            let pairs = text.as_bytes().chunks(2);
            pairs
                .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
                .collect()
        } else {
            BASE64
                .decode(text)
                .map_err(|_| "it holds no base64 and no hexadecimal digits".to_owned())?
        };
        Self::new(&bytes).ok_or_else(|| {
            format!("it has {} bytes, and {SHORTEST} are the least that is safe", bytes.len())
        })
    }

    /// Reads the key from a file that only its owner, and perhaps a group, can read.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let cannot = |source| Error::KeyFile { path: path.to_owned(), source };
        let file = fs::File::open(path).map_err(cannot)?;
        let about = file.metadata().map_err(cannot)?;
        if about.mode() & 0o007 != 0 {
            return Err(Error::KeyExposed { path: path.to_owned(), mode: about.mode() & 0o777 });
        }
        let mut text = String::new();
        file.take(LONGEST_FILE).read_to_string(&mut text).map_err(cannot)?;
        Self::parse(&text).map_err(|why| Error::KeyText { path: path.to_owned(), why })
    }
}

/// A new key, as text for a file.
pub fn generate() -> io::Result<String> {
    let mut bytes = [0; SHORTEST];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(BASE64.encode(bytes))
}

/// Writes a key to a file that only its owner can read, and that must not be there yet.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{text}")?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn tags_are_those_of_rfc_4231() {
        // Test case 6 of RFC 4231: a key of 131 bytes 0xaa.
        let key = Key::new(&[0xaa; 131]).unwrap();
        let tag = key.tag(&[b"Test Using Larger Than Block-Size", b" Key - Hash Key First"]);
        let expected = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
        let (high, low) = tag.split_at(16);
        let number = |half: &[u8]| u128::from_be_bytes(half.try_into().unwrap());
        assert_eq!(format!("{:032x}{:032x}", number(high), number(low)), expected);
    }

    #[test]
    fn the_same_key_in_both_ways_of_writing_is_the_same() {
        let bytes: Vec<u8> = (0..32).collect();
        let hex = "000102030405060708090A0B0C0D0E0F101112131415161718191a1b1c1d1e1f";
        let ids = [format!(" {hex}\n"), BASE64.encode(&bytes)]
            .map(|text| Key::parse(&text).unwrap().id());
        assert_eq!(ids[0], ids[1]);
        assert_eq!(ids[0], Key::new(&bytes).unwrap().id());
    }

    #[test]
    fn a_key_too_short_or_no_key_at_all_is_refused_and_not_repeated() {
        assert!(Key::parse(&BASE64.encode([7; 31])).unwrap_err().contains("31 bytes"));
        assert!(Key::parse("").unwrap_err().contains("0 bytes"));
        let error = Key::parse("correct horse battery").unwrap_err();
        assert!(!error.contains("horse"), "{error}");
    }

    #[test]
    fn a_new_key_is_read_again_from_a_file_that_others_cannot_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.key");
        write(&path, &generate().unwrap()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        Key::read(&path).unwrap();
        assert!(write(&path, "x").is_err(), "an old key is not overwritten");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = Key::read(&path).unwrap_err();
        assert!(matches!(error, Error::KeyExposed { mode: 0o644, .. }), "{error}");
        assert!(error.hint().contains("chmod"));
    }
}
