//! Bodies of messages, to bytes and back. What is read must be written so to the last byte.

use super::{Body, CHALLENGE, Challenge, News};

/// What a proxy may order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Verb {
    /// Say how you are. Answered at once, whatever else is going on.
    State = 1,
    /// Say what keeps you awake.
    Check = 2,
    /// Fall asleep, unless something keeps you awake.
    Sleep = 3,
    /// Another program is about to put the machine to sleep: set the alarm and tell the proxies.
    Leave = 4,
    /// The machine is up again: tell the proxies.
    Return = 5,
}

impl Verb {
    const ALL: [Self; 5] = [Self::State, Self::Check, Self::Sleep, Self::Leave, Self::Return];

    fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| *verb as u8 == byte)
    }
}

/// What became of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Outcome {
    /// Done; nothing keeps the machine awake, as far as that was asked.
    Done = 0,
    /// It falls asleep at this moment.
    Going = 1,
    /// It stays awake; the texts are the reasons.
    Inhibited = 2,
    /// It is busy with another order, or amid falling asleep.
    Busy = 3,
    /// It could not; the text says why.
    Failed = 4,
}

impl Outcome {
    const ALL: [Self; 5] = [Self::Done, Self::Going, Self::Inhibited, Self::Busy, Self::Failed];
}

/// What is announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Event {
    /// The machine falls asleep now.
    Leaving = 1,
    /// It is up: resumed or booted, or its agent has started.
    Back = 2,
    /// Its service answers.
    Ready = 3,
    /// It said that it falls asleep, and did not.
    StayedAwake = 4,
}

impl Event {
    const ALL: [Self; 4] = [Self::Leaving, Self::Back, Self::Ready, Self::StayedAwake];
}

/// The true state of a machine that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Facts {
    /// Which boot of the machine it is.
    pub boot: [u8; 16],
    /// The greatest counter of an announcement so far.
    pub counter: u64,
    /// Time since boot in which it was awake, in milliseconds.
    pub awake_ms: u64,
    /// Time since boot in which it was suspended, in milliseconds.
    pub suspended_ms: u64,
    /// Its wall clock, in milliseconds since 1970.
    pub wall_ms: i64,
    /// When it last fell asleep, by its wall clock; zero for never.
    pub fell_asleep_ms: i64,
    /// When it was last back, by its wall clock; zero for never.
    pub resumed_ms: i64,
}

/// What the agent answers to an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// What became of the order.
    pub outcome: Outcome,
    /// How the machine is.
    pub facts: Facts,
    /// Reasons, for people.
    pub texts: Vec<String>,
}

/// Appends a body, so that `bytes` is no longer than `limit`.
pub(super) fn write(body: &Body, bytes: &mut Vec<u8>, limit: usize) {
    match body {
        Body::Hello => bytes.extend([0; CHALLENGE]),
        Body::Challenge(challenge) => write_challenge(*challenge, bytes),
        Body::Order(challenge, verb, timeout_ms) => {
            write_challenge(*challenge, bytes);
            bytes.push(*verb as u8);
            bytes.extend(timeout_ms.to_be_bytes());
        }
        Body::Reply(reply) => write_reply(reply, bytes, limit),
        Body::News(news) => {
            bytes.push(news.event as u8);
            bytes.extend(news.boot);
            bytes.extend(news.counter.to_be_bytes());
            bytes.extend(news.wall_ms.to_be_bytes());
        }
        Body::Ack(counter) => bytes.extend(counter.to_be_bytes()),
    }
}

fn write_challenge(challenge: Challenge, bytes: &mut Vec<u8>) {
    bytes.extend(challenge.slot.to_be_bytes());
    bytes.extend(challenge.token);
}

fn write_reply(reply: &Reply, bytes: &mut Vec<u8>, limit: usize) {
    let Facts { boot, counter, awake_ms, suspended_ms, wall_ms, fell_asleep_ms, resumed_ms } =
        reply.facts;
    bytes.push(reply.outcome as u8);
    bytes.extend(boot);
    for number in [counter, awake_ms, suspended_ms] {
        bytes.extend(number.to_be_bytes());
    }
    for number in [wall_ms, fell_asleep_ms, resumed_ms] {
        bytes.extend(number.to_be_bytes());
    }
    let count_at = bytes.len();
    bytes.push(0);
    for text in reply.texts.iter().take(usize::from(u8::MAX)) {
        let room = limit.saturating_sub(bytes.len() + 2);
        let text = &text[..text.floor_char_boundary(room)];
        if text.is_empty() {
            continue;
        }
        bytes.extend((text.len() as u16).to_be_bytes());
        bytes.extend(text.as_bytes());
        bytes[count_at] += 1;
    }
}

/// The body of a message of this kind.
pub(super) fn read(kind: u8, bytes: &[u8]) -> Option<Body> {
    let mut from = Reader(bytes);
    let body = match kind {
        1 => (from.take::<CHALLENGE>()? == [0; CHALLENGE]).then_some(Body::Hello)?,
        2 => Body::Challenge(from.challenge()?),
        3 => Body::Order(
            from.challenge()?,
            Verb::of(from.byte()?)?,
            from.take().map(u32::from_be_bytes)?,
        ),
        4 => Body::Reply(from.reply()?),
        5 => {
            let event = from.byte()?;
            Body::News(News {
                event: Event::ALL.into_iter().find(|it| *it as u8 == event)?,
                boot: from.take()?,
                counter: from.number()?,
                wall_ms: from.signed()?,
            })
        }
        6 => Body::Ack(from.number()?),
        _ => return None,
    };
    from.0.is_empty().then_some(body)
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn signed(&mut self) -> Option<i64> {
        self.take().map(i64::from_be_bytes)
    }

    fn challenge(&mut self) -> Option<Challenge> {
        Some(Challenge { slot: self.number()?, token: self.take()? })
    }

    fn reply(&mut self) -> Option<Reply> {
        let outcome = self.byte()?;
        let outcome = Outcome::ALL.into_iter().find(|it| *it as u8 == outcome)?;
        let facts = Facts {
            boot: self.take()?,
            counter: self.number()?,
            awake_ms: self.number()?,
            suspended_ms: self.number()?,
            wall_ms: self.signed()?,
            fell_asleep_ms: self.signed()?,
            resumed_ms: self.signed()?,
        };
        let count = self.byte()?;
        let texts = (0..count).map(|_| self.text()).collect::<Option<_>>()?;
        Some(Reply { outcome, facts, texts })
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::from(self.take().map(u16::from_be_bytes)?);
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok().map(str::to_owned)
    }
}
