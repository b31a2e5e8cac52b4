//! The other side: how an agent is asked, and given orders.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use tokio::net::UdpSocket;

use crate::Error;
use crate::key::Key;
use crate::protocol::{Body, Challenge, LONGEST, Message, Nonce, Outcome, Reply, Sealed, Verb};

/// First pause before an unanswered message is sent again; each further pause is twice as long..
const FIRST_PAUSE: Duration = Duration::from_millis(150);

/// ..up to this one.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Pause before the order is repeated when the agent replies that it is busy.
const BUSY_PAUSE: Duration = Duration::from_millis(500);

/// A nonce by chance.
pub fn nonce() -> Nonce {
    let mut bytes = [0; 16];
    // On Linux it cannot fail once the system is up. If it did, an attacker who guesses the nonce could
    // replay one reply, and no more.
    let _ = getrandom::fill(&mut bytes);
    Nonce(bytes)
}

/// One exchange, from the first question to the reply. Pure.
#[derive(Debug)]
pub struct Exchange {
    key: Key,
    nonce: Nonce,
    verb: Verb,
    timeout_ms: u32,
    challenge: Option<Challenge>,
}

impl Exchange {
    /// Begins an exchange; the client waits `timeout` for its end. The nonce must be random.
    pub fn new(key: Key, nonce: Nonce, verb: Verb, timeout: Duration) -> Self {
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        Self { key, nonce, verb, timeout_ms, challenge: None }
    }

    /// The datagram to send now, and again while no answer arrives.
    pub fn message(&self) -> Vec<u8> {
        let body = self
            .challenge
            .map_or(Body::Hello, |challenge| Body::Order(challenge, self.verb, self.timeout_ms));
        Message { nonce: self.nonce, body }.seal(&self.key)
    }

    /// A datagram arrived. One that does not belong to this exchange changes nothing.
    pub fn receive(&mut self, datagram: &[u8]) -> Progress {
        let message = Sealed::parse(datagram).and_then(|sealed| sealed.open(&self.key));
        match message {
            Ok(Message { nonce, body: Body::Challenge(challenge) })
                if nonce == self.nonce && self.challenge.is_none() =>
            {
                self.challenge = Some(challenge);
                Progress::Send
            }
            Ok(Message { nonce, body: Body::Reply(reply) })
                if nonce == self.nonce && self.challenge.is_some() =>
            {
                Progress::Replied(reply)
            }
            _ => Progress::Nothing,
        }
    }
}

/// What a datagram has brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Nothing.
    Nothing,
    /// [`Exchange::message`] is another now: send it.
    Send,
    /// The end.
    Replied(Reply),
}

/// Gives an order and waits for the reply, for at most `limit` of real time. Repeats the order while the
/// agent is busy with another one.
pub async fn ask(
    key: &Key,
    address: SocketAddr,
    verb: Verb,
    limit: Duration,
) -> Result<Reply, Error> {
    let clock = Clock::real();
    let deadline = clock.now().mono + limit;
    let mut busy = false;
    loop {
        match exchange(&clock, key, address, verb, deadline).await {
            Ok(Some(reply)) if reply.outcome == Outcome::Busy => busy = true,
            Ok(Some(reply)) => return Ok(reply),
            Ok(None) if busy => return Err(Error::Busy { address, limit }),
            Ok(None) => return Err(Error::Silent { address, limit }),
            Err(source) => {
                return Err(Error::System { attempt: format!("send to {address}"), source });
            }
        }
        clock.sleep_until(deadline.min(clock.now().mono + BUSY_PAUSE)).await;
    }
}

/// `None` when the time is over.
async fn exchange(
    clock: &Clock,
    key: &Key,
    address: SocketAddr,
    verb: Verb,
    deadline: Mono,
) -> io::Result<Option<Reply>> {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(address).await?;
    let left = deadline.since(clock.now().mono);
    let mut exchange = Exchange::new(key.clone(), nonce(), verb, left);
    let mut pause = FIRST_PAUSE;
    let mut buffer = [0; LONGEST + 1];
    while clock.now().mono < deadline {
        // Refused, unreachable: a machine that wakes is so for a while. It is the deadline that ends it.
        let _ = socket.send(&exchange.message()).await;
        let until = deadline.min(clock.now().mono + pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
        while let Ok(received) = clock.until(until, socket.recv(&mut buffer)).await {
            let Ok(length) = received else {
                clock.sleep_until(until).await;
                break;
            };
            match exchange.receive(&buffer[..length]) {
                Progress::Nothing => {}
                Progress::Replied(reply) => return Ok(Some(reply)),
                Progress::Send => {
                    pause = FIRST_PAUSE;
                    break;
                }
            }
        }
    }
    Ok(None)
}
