//! The messages between agents and proxies, byte by byte. Pure.
//!
//! A proxy orders, the agent answers; the agent announces, the proxy acknowledges. Each message is one
//! UDP datagram of at most [`LONGEST`] bytes, in version 1 of this layout (numbers are big-endian):
//!
//! ```text
//!  0   3  "nwa"
//!  3   1  version: 1
//!  4   1  kind
//!  5   1  zero
//!  6   8  which key: the first bytes of HMAC(key, "nightwatt agent key")
//! 14  16  nonce of the side that began the exchange; the other side repeats it
//! 30   n  body
//!  ..  32  HMAC-SHA-256(key, "nightwatt agent 1" and all before)
//! ```
//!
//! | kind | who | body |
//! |---|---|---|
//! | 1 HELLO | proxy | 24 zero bytes: no answer is longer than its question |
//! | 2 CHALLENGE | agent | slot 8, token 16 |
//! | 3 ORDER | proxy | slot 8, token 16, [verb](Verb) 1, for how many milliseconds it waits 4 |
//! | 4 REPLY | agent | [outcome](Outcome) 1, [facts](Facts), texts: their number 1, each length 2 and UTF-8 |
//! | 5 NEWS | agent | [event](Event) 1, boot 16, counter 8, wall clock 8 |
//! | 6 ACK | proxy | counter 8 |
//!
//! The challenge's token is a MAC of the time slot, the key's name, the nonce and the sender's address,
//! under a key that the agent makes when it starts. The agent remembers nothing of a challenge that it
//! gave, so a flood of questions costs no memory. An order repeats slot and token. Only an authentic order
//! makes the agent remember something (`authentication`). A reply carries the proxy's nonce, so that no other reply
//! can be put in its place. The two clocks need not agree.
//!
//! The kind also fixes the direction: each side rejects the kinds that it sends itself, so a message that
//! is sent back to its author is refused.

mod body;

use std::fmt;

use crate::key::{Key, KeyId};
pub use body::{Event, Facts, Outcome, Reply, Verb};

/// UDP port of agents.
pub const AGENT_PORT: u16 = 7386;

/// UDP port on which proxies hear announcements.
pub const NEWS_PORT: u16 = 7387;

/// No datagram is longer: IPv6 carries 1280 bytes everywhere, less its header (40) and that of UDP (8).
pub const LONGEST: usize = 1232;

const MAGIC: &[u8; 4] = b"nwa\x01";
const HEAD: usize = 30;
const TAG: usize = 32;
const CHALLENGE: usize = 24;

/// What goes into each HMAC first, so that the key can be used for nothing else by mistake.
const CONTEXT: &[u8] = b"nightwatt agent 1";

/// Sixteen bytes by chance that name an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Nonce(pub [u8; 16]);

/// What an order must repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Challenge {
    /// When it was given, in whole seconds since the agent's machine was booted.
    pub slot: u64,
    /// That it was given by this agent, then, to this proxy.
    pub token: [u8; 16],
}

/// What is announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct News {
    /// What happens, or has happened.
    pub event: Event,
    /// Which boot of the machine it is.
    pub boot: [u8; 16],
    /// Grows with each announcement, over restarts too: a proxy that has heard a greater one ignores this
    /// one as a repetition.
    pub counter: u64,
    /// The machine's wall clock in milliseconds since 1970.
    pub wall_ms: i64,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// The proxy wants to give an order.
    Hello,
    /// The agent says what the order must repeat.
    Challenge(Challenge),
    /// The order, and for how many milliseconds the proxy waits for the reply. After that time the proxy has
    /// given up, and the agent must not carry out the order any more.
    Order(Challenge, Verb, u32),
    /// What became of it.
    Reply(Reply),
    /// The agent announces something.
    News(News),
    /// The proxy has heard the announcement with this counter.
    Ack(u64),
}

impl Body {
    const fn kind(&self) -> u8 {
        match self {
            Self::Hello => 1,
            Self::Challenge(_) => 2,
            Self::Order(..) => 3,
            Self::Reply(_) => 4,
            Self::News(_) => 5,
            Self::Ack(_) => 6,
        }
    }
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Names the exchange.
    pub nonce: Nonce,
    /// What it says.
    pub body: Body,
}

/// Why a datagram is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Refusal {
    /// It does not begin like one, or is too short or too long.
    Malformed,
    /// Its version is another.
    Version,
    /// It names a key that we do not have.
    UnknownKey,
    /// The key's owner did not write it so.
    Forged,
    /// An order whose challenge is too old, was given to another address, or was never given.
    Stale,
    /// An order to a challenge that another order was given to.
    Replayed,
    /// Authentic, but not what is said to us: a message of our own that came back.
    Reflected,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "malformed",
            Self::Version => "of another version",
            Self::UnknownKey => "with an unknown key",
            Self::Forged => "forged",
            Self::Stale => "stale",
            Self::Replayed => "replayed",
            Self::Reflected => "reflected",
        })
    }
}

impl Message {
    /// The datagram. Texts that are too long for one are left out or cut.
    pub fn seal(&self, key: &Key) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend(MAGIC);
        bytes.extend([self.body.kind(), 0]);
        bytes.extend(key.id().0);
        bytes.extend(self.nonce.0);
        body::write(&self.body, &mut bytes, LONGEST - TAG);
        let tag = key.tag(&[CONTEXT, &bytes]);
        bytes.extend(tag);
        bytes
    }
}

/// Signs arbitrary bytes as the owner of the key could: kind, zero, nonce and body. For tests of how they
/// are parsed.
pub fn signed(key: &Key, content: &[u8]) -> Vec<u8> {
    let (kind, rest) = content.split_at(content.len().min(2));
    let bytes = [MAGIC, kind, &key.id().0, rest].concat();
    let tag = key.tag(&[CONTEXT, &bytes]);
    [bytes, tag.to_vec()].concat()
}

/// A datagram that looks like a message; whether it is one shows when it is opened.
#[derive(Debug, Clone, Copy)]
pub struct Sealed<'a> {
    content: &'a [u8],
    tag: &'a [u8; TAG],
    /// Which key it claims to be made with.
    pub key: KeyId,
}

impl<'a> Sealed<'a> {
    /// Looks at the outside of a datagram.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, Refusal> {
        if datagram.len() > LONGEST {
            return Err(Refusal::Malformed);
        }
        let (content, tag) = datagram.split_last_chunk::<TAG>().ok_or(Refusal::Malformed)?;
        let (magic, _) = content.split_first_chunk::<4>().ok_or(Refusal::Malformed)?;
        if magic[..3] != MAGIC[..3] || content.len() < HEAD {
            return Err(Refusal::Malformed);
        }
        if magic[3] != MAGIC[3] {
            return Err(Refusal::Version);
        }
        let key = content[6..].first_chunk::<8>().ok_or(Refusal::Malformed)?;
        Ok(Self { content, tag, key: KeyId(*key) })
    }

    /// What it says, if the owner of the key wrote it.
    pub fn open(&self, key: &Key) -> Result<Message, Refusal> {
        if key.id() != self.key {
            return Err(Refusal::UnknownKey);
        }
        if !key.verify(&[CONTEXT, self.content], self.tag) {
            return Err(Refusal::Forged);
        }
        let (head, rest) = self.content.split_at(HEAD);
        let nonce = head[14..].first_chunk::<16>().ok_or(Refusal::Malformed)?;
        if head[5] != 0 {
            return Err(Refusal::Malformed);
        }
        let body = body::read(head[4], rest).ok_or(Refusal::Malformed)?;
        Ok(Message { nonce: Nonce(*nonce), body })
    }

    /// What tells this message from every other.
    pub fn tag(&self) -> [u8; TAG] {
        *self.tag
    }
}

#[cfg(test)]
#[path = "protocol/tests.rs"]
mod tests;
