//! A session over a pair of streams.

use std::io::{self, BufWriter, Read, Write};

use super::session::{Receiver, SessionError, Store};
use crate::codec::thread_seconds;
use crate::wire::{
    Failed, Failure, FrameError, FrameReader, FrameWriter, Message, MessageError, Receipt,
};

/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;

/// What was received.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// As the sender got it.
    pub receipt: Receipt,
}

/// Why receiving ended without a receipt. What has arrived is kept, and a later attempt goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// A message was not as it should be, or could not be followed.
    #[error("{0}")]
    Session(#[from] SessionError),
    /// A frame was damaged.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// A frame is whole, and is no message.
    #[error("{0}")]
    Message(#[from] MessageError),
    /// The sender went away.
    #[error(
        "the sender went away before it was done; what has arrived is kept, and sending again goes on from there"
    )]
    Cut,
    /// The connection failed.
    #[error("the connection to the sender failed: {0}")]
    Connection(#[from] io::Error),
}

/// Receives until the receipt was given. An error is also told to the sender.
pub fn run(
    reader: impl Read,
    writer: impl Write,
    store: impl Store,
) -> Result<Received, ReceiveError> {
    let mut writer = FrameWriter::new(BufWriter::new(writer));
    let result = messages(reader, &mut writer, store);
    if let Err(error) = &result {
        let failed = match error {
            ReceiveError::Session(error) => Some(error.message()),
            ReceiveError::Frame(_) | ReceiveError::Message(_) => {
                Some(Failed { failure: Failure::Protocol, text: error.to_string() })
            }
            ReceiveError::Cut | ReceiveError::Connection(_) => None,
        };
        if let Some(failed) = failed {
            let (kind, body) = Message::Failed(failed).encode();
            // The connection may be gone as well: the first error is the one that counts.
            let _ = writer.write(kind, &body).and_then(|()| writer.flush());
        }
    }
    result
}

fn messages<W: Write>(
    mut reader: impl Read,
    writer: &mut FrameWriter<W>,
    store: impl Store,
) -> Result<Received, ReceiveError> {
    let mut receiver = Receiver::new(store);
    let mut frames = FrameReader::default();
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = match reader.read(&mut chunk) {
            Ok(0) => return Err(ReceiveError::Cut),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        frames.push(&chunk[..count]);
        while let Some((kind, body)) = frames.next_frame()? {
            let message = Message::decode(kind, &body)?;
            let mut answers = Vec::new();
            let result = receiver.on(message, &thread_seconds, &mut answers);
            for answer in &answers {
                let (kind, body) = answer.encode();
                writer.write(kind, &body)?;
            }
            // Each block is acknowledged at once: the sender measures the link by that.
            writer.flush()?;
            result?;
            if let Some(Message::Receipt(receipt)) = answers.pop()
                && receiver.is_done()
            {
                return Ok(Received { receipt });
            }
        }
    }
}
