//! Clients: patient, slow and gone in the middle. Each writes down what it asked for and what came
//! of it.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::requests::{Request, RequestKind};
use crate::answer::{NoAnswer, ResponseHead};
use crate::gateway::pause;
use crate::wire::{connect_from, reset};

/// Between two parts that a slow client sends or takes.
const SLOWLY: Duration = Duration::from_millis(8);

/// A slow client sends or takes so much at a time.
const SLOW_PART: usize = 64 * 1024;

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// An answer, to its end or as far as it came.
    Answered { status: u16, how: String, bytes: u64, whole: bool, right: bool },
    /// The client left on purpose.
    Left,
    /// The connection ended or nothing came: that must never be.
    Lost(String),
}

/// A request and what came of it.
#[derive(Debug, Clone)]
pub(super) struct SentRequest {
    pub(super) id: String,
    pub(super) kind: RequestKind,
    /// Length and sum of its body.
    pub(super) body: (u64, u64),
    pub(super) begun: Mono,
    pub(super) ended: Mono,
    pub(super) outcome: Outcome,
}

/// When a client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaves {
    Never,
    InTheMiddleOfItsRequest,
    WhenItHasAsked,
    InTheMiddleOfTheAnswer,
}

fn connect(to: SocketAddr) -> std::io::Result<BufReader<TcpStream>> {
    let stream = connect_from([127, 0, 0, 1], to)?;
    Ok(BufReader::with_capacity(SLOW_PART, stream))
}

/// One client; it keeps its connection where it can.
pub(super) struct Client {
    pub(super) to: SocketAddr,
    pub(super) clock: Clock,
    pub(super) random: ChaCha8Rng,
    pub(super) kept: Option<BufReader<TcpStream>>,
}

impl Client {
    /// Asks once.
    pub(super) fn ask(&mut self, id: String) -> SentRequest {
        let request = Request::make(&mut self.random, &id);
        let leaves = match self.random.random_range(0..24) {
            0 => Leaves::InTheMiddleOfItsRequest,
            1 => Leaves::WhenItHasAsked,
            2 => Leaves::InTheMiddleOfTheAnswer,
            _ => Leaves::Never,
        };
        // Only what is large takes its time.
        let often = if matches!(request.kind, RequestKind::Large | RequestKind::LargeUpload) {
            4
        } else {
            12
        };
        let slow = self.random.random_range(0..often) == 0;
        let begun = self.clock.now().mono;
        let outcome = self.converse(&request, leaves, slow);
        let ended = self.clock.now().mono;
        SentRequest { id, kind: request.kind, body: request.body, begun, ended, outcome }
    }

    fn converse(&mut self, request: &Request, leaves: Leaves, slow: bool) -> Outcome {
        let connected = self.kept.take().map_or_else(|| connect(self.to), Ok);
        let reading = match connected {
            Ok(reading) => reading,
            Err(error) => return Outcome::Lost(format!("cannot connect: {error}")),
        };
        let bytes = &request.bytes;
        let sent = if leaves == Leaves::InTheMiddleOfItsRequest {
            &bytes[..self.random.random_range(0..bytes.len())]
        } else {
            bytes
        };
        for part in sent.chunks(if slow { SLOW_PART } else { sent.len().max(1) }) {
            // Who has answered already need not read on: the answer tells.
            if reading.get_ref().write_all(part).is_err() {
                break;
            }
            if slow {
                pause(SLOWLY);
            }
        }
        match leaves {
            Leaves::Never => {}
            Leaves::InTheMiddleOfTheAnswer => {
                let mut some = vec![0; self.random.random_range(1..20_000)];
                let _ = reading.get_ref().read(&mut some);
                reset(reading.into_inner());
                return Outcome::Left;
            }
            _ => {
                reset(reading.into_inner());
                return Outcome::Left;
            }
        }
        self.read(reading, request, slow)
    }

    fn read(
        &mut self,
        mut reading: BufReader<TcpStream>,
        request: &Request,
        slow: bool,
    ) -> Outcome {
        let answer = match ResponseHead::read(&mut reading) {
            Ok(answer) => answer,
            Err(error) => return Outcome::Lost(error.to_string()),
        };
        let (mut bytes, mut right) = (0, true);
        let failed = answer.status >= 400;
        let read = answer.body(&mut reading, request.kind == RequestKind::Head, &mut |part| {
            right &= failed || request.expected.has_at(bytes, part);
            bytes += part.len();
            if slow {
                pause(SLOWLY);
            }
        });
        if let Err(NoAnswer::Hung | NoAnswer::Garbled(_)) = read {
            return Outcome::Lost(format!("{read:?} behind {answer:?}"));
        }
        let whole = read.is_ok();
        let length = if request.kind == RequestKind::Head { 0 } else { request.expected.len() };
        let empty = answer.status == 304;
        right &= failed || !whole || bytes == if empty { 0 } else { length };
        right &= failed || request.kind.may_be(answer.status);
        if whole && !answer.closes() && self.random.random_range(0..4) > 0 {
            self.kept = Some(reading);
        }
        let how = answer.field("nightwatt-answer").unwrap_or("-").to_owned();
        Outcome::Answered { status: answer.status, how, bytes: bytes as u64, whole, right }
    }
}
