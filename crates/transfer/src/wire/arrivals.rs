//! Messages as they arrive.

use std::io::{self, Read};

use nightwatt_energy::time::Mono;

use super::{FrameError, FrameReader, Message, MessageError};

/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;

/// A message, and when its last byte was there.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) message: Message,
    pub(crate) at: Mono,
}

/// Why there are no more messages.
#[derive(Debug)]
pub(crate) enum ReadError {
    Frame(FrameError),
    Message(MessageError),
    /// The other end closed the connection.
    Cut,
    Connection(io::Error),
}

/// Reads messages until the connection ends, an error comes, or `take` wants no more. An error is the last that `take`
/// gets.
///
/// Both ends read in a thread of their own: they measure the link by the times of arrival, and those must not depend on
/// what else the program does.
pub(crate) fn read_messages(
    mut reader: impl Read,
    clock: &dyn Fn() -> Mono,
    take: &mut dyn FnMut(Result<Arrival, ReadError>) -> bool,
) {
    let mut frames = FrameReader::default();
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = match reader.read(&mut chunk) {
            Ok(0) => {
                take(Err(ReadError::Cut));
                return;
            }
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                take(Err(ReadError::Connection(error)));
                return;
            }
        };
        let at = clock();
        frames.push(&chunk[..count]);
        loop {
            let arrival = match frames.next_frame() {
                Ok(None) => break,
                Ok(Some((kind, body))) => match Message::decode(kind, &body) {
                    Ok(message) => Ok(Arrival { message, at }),
                    Err(error) => Err(ReadError::Message(error)),
                },
                Err(error) => Err(ReadError::Frame(error)),
            };
            let is_end = arrival.is_err();
            if !take(arrival) || is_end {
                return;
            }
        }
    }
}
