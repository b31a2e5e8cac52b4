//! What a sender must know of a receiver.

use std::fmt;
use std::str::FromStr;

use nightwatt_host::tls::Fingerprint;

/// The first part of each ticket.
const HEAD: &str = "nwt1-";
/// Bytes of a fingerprint, and of a token.
const BYTES: usize = 32;

/// The fingerprint of the receiver's certificate, by which the sender knows it, and a token, by which it knows the sender.
/// It is a secret, and `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket {
    fingerprint: [u8; BYTES],
    token: [u8; BYTES],
}

/// A text that is no ticket. It may be a part of one, so it is not shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is not a ticket, which is `nwt1-` and 128 hexadecimal digits, as `nightwatt receive --listen` prints it"
)]
pub struct NoTicket;

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket(..)")
    }
}

impl Ticket {
    pub(super) fn new(fingerprint: &Fingerprint, token: [u8; BYTES]) -> Self {
        Self { fingerprint: fingerprint.bytes(), token }
    }

    /// Of the receiver's certificate.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::from(self.fingerprint)
    }

    pub(super) fn token(&self) -> &[u8; BYTES] {
        &self.token
    }

    /// Whether a sender has this token; how long that takes does not show where they differ.
    pub(super) fn is_token(&self, token: &[u8; BYTES]) -> bool {
        let differences = self.token.iter().zip(token).fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(differences) == 0
    }

    /// The ticket, for the one who is to send.
    pub fn reveal(&self) -> String {
        let digits = self.fingerprint.iter().chain(&self.token).map(|byte| format!("{byte:02x}"));
        std::iter::once(HEAD.to_owned()).chain(digits).collect()
    }
}

impl FromStr for Ticket {
    type Err = NoTicket;

    fn from_str(text: &str) -> Result<Self, NoTicket> {
        let digits = text.trim().strip_prefix(HEAD).ok_or(NoTicket)?;
        if digits.len() != 4 * BYTES || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(NoTicket);
        }
        let byte = |at: usize| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16);
        let mut ticket = Self { fingerprint: [0; BYTES], token: [0; BYTES] };
        let places = ticket.fingerprint.iter_mut().chain(&mut ticket.token);
        for (at, place) in places.enumerate() {
            *place = byte(at).map_err(|_| NoTicket)?;
        }
        Ok(ticket)
    }
}
