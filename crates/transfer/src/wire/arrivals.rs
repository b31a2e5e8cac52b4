//! Messages as they arrive.

use std::io::{self, Read};

use nightwatt_energy::time::Mono;

use super::{FrameError, FrameReader, Message, MessageError};

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

/// Reads messages until the last one of a session, an error, or the end of the connection, which is an error as well, or
/// until `take` wants no more.
///
/// Both ends read in a thread of their own: they measure the link by the times of arrival, and those must not depend on
/// what else the program does.
pub(crate) fn read_messages(
    mut reader: impl Read,
    clock: &dyn Fn() -> Mono,
    take: &mut dyn FnMut(Result<Arrival, ReadError>) -> bool,
) {
    let mut frames = FrameReader::default();
    loop {
        match frames.fill(&mut reader) {
            Ok(0) => {
                take(Err(ReadError::Cut));
                return;
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                take(Err(ReadError::Connection(error)));
                return;
            }
        }
        let at = clock();
        loop {
            let arrival = match frames.next_frame() {
                Ok(None) => break,
                Ok(Some((kind, body))) => match Message::decode(kind, body) {
                    Ok(message) => Ok(Arrival { message, at }),
                    Err(error) => Err(ReadError::Message(error)),
                },
                Err(error) => Err(ReadError::Frame(error)),
            };
            // Nothing follows these, and the other end may leave the connection open.
            let is_end = arrival.as_ref().map_or(true, |arrival| {
                matches!(
                    arrival.message,
                    Message::Fin(_) | Message::Receipt(_) | Message::Failed(_)
                )
            });
            if !take(arrival) || is_end {
                return;
            }
        }
    }
}
