//! The protocol, as functions from bytes to messages and back: no sockets.
//!
//! ```text
//!   sender                         receiver
//!   Hello                    ->
//!                            <-    Hello            the higher of the versions that both know
//!   Manifest, ..., End       ->                     folders, files, links, in order
//!                            <-    Have, ..., End   ranges that are not to be sent
//!   Data, Hole               ->
//!                            <-    Ack, Nack        of each; a Nack is answered with Data
//!   Stale                    ->                     a file changed while it was read
//!   Ended                    ->                     the length of a stream
//!   Fin                      ->
//!                            <-    Receipt
//! ```
//!
//! After `Trial`, which comes before the sender's `End`, nothing is written: the receiver answers with `Changes`, what it
//! would do, and a `Receipt`.
//!
//! Either end may send `Failed` and close. All files lie one behind the other in one address space, in the order of the
//! manifest, so a block may hold many small files or a part of one.
//!
//! A frame is a kind, a length, a body and a sum over all of it, which depends on how many frames came before: so a
//! frame that was changed, lost, doubled or moved is found.

mod arrivals;
mod error;
mod fields;
mod frame;
mod message;

pub(crate) use arrivals::{Arrival, ReadError, read_messages};
pub use error::MessageError;
pub use frame::{FrameError, FrameReader, FrameWriter};
pub use message::{
    Ack, Attribute, Change, Codecs, Data, Entry, EntryKind, Failed, Failure, Fin, Have, Hello,
    Hole, MOST_ATTRIBUTE, MOST_STREAM, Message, Nack, OF_USERS, Receipt, Rejected, Spent, What,
    content_sum,
};

pub use crate::pure::grain::Stamp;

/// The first version of the protocol, and the last one that this program knows.
pub const VERSIONS: [u16; 2] = [1, 1];

/// The version to speak: the highest that both ends know.
pub fn negotiated(ours: [u16; 2], theirs: [u16; 2]) -> Option<u16> {
    let highest = ours[1].min(theirs[1]);
    (highest >= ours[0].max(theirs[0])).then_some(highest)
}

/// For a fuzzer: whatever the bytes are, reading them ends without a panic, and what was understood is written as it was
/// read.
pub fn fuzz(bytes: &[u8]) {
    let mut reader = FrameReader::default();
    reader.push(bytes);
    while let Ok(Some((kind, body))) = reader.next_frame() {
        if let Ok(message) = Message::decode(kind, body) {
            let (again, written) = message.encode();
            assert_eq!((kind, written.as_slice()), (again, body), "{message:?}");
        }
    }
    if let Some((kind, body)) = bytes.split_first()
        && let Ok(message) = Message::decode(*kind, body)
    {
        let (again, written) = message.encode();
        assert_eq!((*kind, written.as_slice()), (again, body), "{message:?}");
    }
}

#[cfg(test)]
mod tests;
