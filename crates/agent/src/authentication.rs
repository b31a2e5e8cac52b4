//! Authenticates messages: the agent's side of the exchange. Pure; time is the time since boot, suspended or not.
//!
//! A message that is not authentic gets no answer and leaves no state: a flood of forgeries costs their
//! parsing, at most one HMAC each, and counters. The reply to an authentic order is kept until no
//! repetition of the order can be authentic any more, so that an order sent twice is carried out once.

use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;
use std::time::Duration;

use crate::key::Key;
use crate::protocol::{Body, Challenge, Message, Nonce, Refusal, Reply, Sealed, Verb};

/// Maximum age of an order's challenge.
pub const LIFETIME: Duration = Duration::from_secs(10);

/// Maximum number of remembered orders. Our proxies never give so many within [`LIFETIME`].
const REMEMBERED: usize = 256;

/// A reply is repeated at most this many times: our proxies do not repeat an order more often.
const REPEATS: u8 = 40;

/// Between two lines in the log about refused messages.
const QUIET: Duration = Duration::from_mins(1);

/// An order that was let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket {
    token: [u8; 16],
    nonce: Nonce,
    /// Which of the proxies gave it.
    pub proxy: usize,
    /// Address of the sender, to which the reply goes.
    pub from: SocketAddr,
    /// Index of our socket that received it: the reply must leave through the same socket.
    pub socket: usize,
    /// Time at which the sender stops waiting, since boot, suspended or not.
    pub until: Duration,
}

/// What to do about a datagram.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Silence,
    /// Send this back to the sender.
    Answer(Vec<u8>),
    /// A proxy gives an order: carry it out, then call [`Authenticator::answer`].
    Order(Ticket, Verb),
    /// A proxy has heard an announcement.
    Heard {
        /// Which of the proxies.
        proxy: usize,
        /// Of the announcement.
        nonce: Nonce,
    },
}

#[derive(Debug)]
struct Used {
    tag: [u8; 32],
    /// Sender: the reply goes to no other address.
    from: SocketAddr,
    /// `None` while it is being carried out.
    reply: Option<Vec<u8>>,
    repeats: u8,
    until: Duration,
}

/// Authenticates messages. One for all sockets of an agent.
#[derive(Debug)]
pub struct Authenticator {
    keys: Vec<Key>,
    secret: Key,
    used: BTreeMap<[u8; 16], Used>,
    refused: Refused,
}

impl Authenticator {
    /// Accepts messages authenticated with one of `keys`. `secret` must be random, and new at each start.
    pub fn new(keys: Vec<Key>, secret: Key) -> Self {
        Self { keys, secret, used: BTreeMap::new(), refused: Refused::default() }
    }

    /// A datagram came through the socket of this number.
    pub fn receive(
        &mut self,
        now: Duration,
        socket: usize,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Verdict {
        match self.admit(now, socket, from, datagram) {
            Ok(verdict) => verdict,
            Err(refusal) => {
                self.refused.count(refusal, from.ip());
                Verdict::Silence
            }
        }
    }

    fn admit(
        &mut self,
        now: Duration,
        socket: usize,
        from: SocketAddr,
        bytes: &[u8],
    ) -> Result<Verdict, Refusal> {
        let sealed = Sealed::parse(bytes)?;
        let proxy = self.keys.iter().position(|key| key.id() == sealed.key);
        let proxy = proxy.ok_or(Refusal::UnknownKey)?;
        let Message { nonce, body } = sealed.open(&self.keys[proxy])?;
        match body {
            Body::Hello => {
                let slot = now.as_secs();
                let token = self.token(proxy, slot, nonce, from);
                let body = Body::Challenge(Challenge { slot, token });
                Ok(Verdict::Answer(Message { nonce, body }.seal(&self.keys[proxy])))
            }
            Body::Order(challenge, verb, timeout_ms) => {
                let until = now.saturating_add(Duration::from_millis(timeout_ms.into()));
                let ticket = Ticket { token: challenge.token, nonce, proxy, from, socket, until };
                self.order(now, ticket, challenge.slot, verb, sealed.tag())
            }
            Body::Ack(_) => Ok(Verdict::Heard { proxy, nonce }),
            Body::Challenge(_) | Body::Reply(_) | Body::News(_) => Err(Refusal::Reflected),
        }
    }

    fn order(
        &mut self,
        now: Duration,
        ticket: Ticket,
        slot: u64,
        verb: Verb,
        tag: [u8; 32],
    ) -> Result<Verdict, Refusal> {
        self.forget(now);
        if let Some(used) = self.used.get_mut(&ticket.token) {
            // A proxy keeps its socket until it has the reply; an order from another address is a recorded one.
            if used.tag != tag || used.from != ticket.from {
                return Err(Refusal::Replayed);
            }
            let Some(reply) = &used.reply else { return Ok(Verdict::Silence) };
            if used.repeats >= REPEATS {
                return Err(Refusal::Replayed);
            }
            used.repeats += 1;
            return Ok(Verdict::Answer(reply.clone()));
        }
        let age = now.as_secs().checked_sub(slot).ok_or(Refusal::Stale)?;
        if age > LIFETIME.as_secs() || !self.gave(ticket, slot) {
            return Err(Refusal::Stale);
        }
        if self.used.len() >= REMEMBERED {
            // As if it had been lost: to carry it out without remembering could mean to do it twice.
            return Ok(Verdict::Silence);
        }
        let (from, until) = (ticket.from, Duration::MAX);
        self.used.insert(ticket.token, Used { tag, from, reply: None, repeats: 0, until });
        Ok(Verdict::Order(ticket, verb))
    }

    /// The reply to an order: a datagram for `ticket.from`.
    pub fn answer(&mut self, now: Duration, ticket: &Ticket, reply: Reply) -> Vec<u8> {
        let message = Message { nonce: ticket.nonce, body: Body::Reply(reply) };
        let sealed = message.seal(&self.keys[ticket.proxy]);
        if let Some(used) = self.used.get_mut(&ticket.token) {
            used.reply = Some(sealed.clone());
            // Two slots more than the life of its challenge: slots are whole seconds.
            used.until = now + LIFETIME + Duration::from_secs(2);
        }
        sealed
    }

    fn forget(&mut self, now: Duration) {
        self.used.retain(|_, used| used.until > now);
    }

    fn token(&self, proxy: usize, slot: u64, nonce: Nonce, from: SocketAddr) -> [u8; 16] {
        let mut token = [0; 16];
        let tag =
            self.secret.tag(&self.parts(proxy, slot, nonce, from).each_ref().map(Vec::as_slice));
        token.copy_from_slice(&tag[..16]);
        token
    }

    fn gave(&self, ticket: Ticket, slot: u64) -> bool {
        let parts = self.parts(ticket.proxy, slot, ticket.nonce, ticket.from);
        self.secret.verify(&parts.each_ref().map(Vec::as_slice), &ticket.token)
    }

    /// All of fixed lengths, or the last.
    fn parts(&self, proxy: usize, slot: u64, nonce: Nonce, from: SocketAddr) -> [Vec<u8>; 5] {
        let address = match from.ip().to_canonical() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        [
            self.keys[proxy].id().0.to_vec(),
            slot.to_be_bytes().to_vec(),
            nonce.0.to_vec(),
            from.port().to_be_bytes().to_vec(),
            address,
        ]
    }

    /// How many orders are remembered now.
    pub fn remembered(&self) -> usize {
        self.used.len()
    }

    /// What is to be logged about messages that were refused: one line at once, then one a minute, if
    /// there are any.
    pub fn refused(&mut self, now: Duration) -> Option<String> {
        self.refused.line(now)
    }

    /// How many datagrams were refused since the start.
    pub const fn refused_total(&self) -> u64 {
        self.refused.total
    }
}

/// Counts of what was refused.
#[derive(Debug, Default)]
struct Refused {
    counts: BTreeMap<Refusal, u64>,
    last_from: Option<IpAddr>,
    quiet_until: Duration,
    total: u64,
}

impl Refused {
    fn count(&mut self, refusal: Refusal, from: IpAddr) {
        *self.counts.entry(refusal).or_default() += 1;
        self.last_from = Some(from);
        self.total += 1;
    }

    fn line(&mut self, now: Duration) -> Option<String> {
        let from = self.last_from?;
        if now < self.quiet_until {
            return None;
        }
        self.last_from = None;
        self.quiet_until = now.saturating_add(QUIET);
        let counts = std::mem::take(&mut self.counts);
        let parts = counts.iter().map(|(refusal, count)| format!("{count} {refusal}"));
        Some(format!("{}, the last from {from}", parts.collect::<Vec<_>>().join(", ")))
    }
}

#[cfg(test)]
#[path = "authentication/tests.rs"]
mod tests;
