//! One direction of a connection, without its socket: what is to be written next, and what has come.

use crate::wire::{ANSWER, TEXT};

/// The longest beginning that is no pattern: a refusal with its text.
pub(crate) const HEAD: usize = ANSWER + TEXT;

/// Bytes to be written: a head, and then the pattern up to a total.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing {
    head: [u8; HEAD],
    length: u8,
    total: u64,
    at: u64,
}

/// What to write next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    /// First these bytes.
    pub(crate) head: &'a [u8],
    /// Then the pattern, from this position of the stream on.
    pub(crate) at: u64,
    /// So many bytes of it.
    pub(crate) length: u64,
}

impl Outgoing {
    /// Nothing.
    pub(crate) const NONE: Self = Self { head: [0; HEAD], length: 0, total: 0, at: 0 };

    /// A head within a stream of `total` bytes. What of the head does not fit is left out.
    pub(crate) fn new(head: &[u8], total: u64) -> Self {
        let length = head.len().min(HEAD);
        let mut outgoing = Self { length: length as u8, total, ..Self::NONE };
        outgoing.head[..length].copy_from_slice(&head[..length]);
        outgoing
    }

    pub(crate) fn piece(&self) -> Piece<'_> {
        let length = u64::from(self.length).min(self.total);
        let at = self.at.max(length);
        let head = &self.head[self.at.min(length) as usize..length as usize];
        Piece { head, at, length: self.total - at }
    }

    pub(crate) fn wrote(&mut self, bytes: u64) {
        self.at = self.total.min(self.at + bytes);
    }

    pub(crate) const fn is_done(&self) -> bool {
        self.at == self.total
    }

    pub(crate) const fn at(&self) -> u64 {
        self.at
    }
}

/// Bytes that are to come: a head that is kept, and a total.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Incoming<const N: usize> {
    head: [u8; N],
    at: u64,
    total: u64,
}

impl<const N: usize> Incoming<N> {
    pub(crate) const fn new(total: u64) -> Self {
        Self { head: [0; N], at: 0, total }
    }

    /// Takes bytes in; `false` if they are more than were to come.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> bool {
        if let Some(room) = usize::try_from(self.at).ok().and_then(|at| self.head.get_mut(at..)) {
            let length = room.len().min(bytes.len());
            room[..length].copy_from_slice(&bytes[..length]);
        }
        self.skip(bytes.len() as u64)
    }

    /// As `feed`, for bytes that were discarded unread; none of the head may be among them.
    pub(crate) fn skip(&mut self, bytes: u64) -> bool {
        self.at = self.at.saturating_add(bytes);
        self.at <= self.total
    }

    /// What of the head has come.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head[..self.at.min(N as u64) as usize]
    }

    /// The head, once all of it is there.
    pub(crate) const fn whole_head(&self) -> Option<&[u8; N]> {
        if self.at >= N as u64 { Some(&self.head) } else { None }
    }

    pub(crate) const fn at(&self) -> u64 {
        self.at
    }

    pub(crate) const fn left(&self) -> u64 {
        self.total.saturating_sub(self.at)
    }

    pub(crate) const fn set_total(&mut self, total: u64) {
        self.total = total;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pattern::Pattern;

    proptest! {
        #[test]
        fn a_stream_written_in_any_pieces_is_its_head_and_then_the_pattern(
            total in 0_u64..2_000,
            head in proptest::collection::vec(any::<u8>(), 0..100),
            pieces in proptest::collection::vec(1_u64..400, 1..50),
        ) {
            let pattern = Pattern::default();
            let mut outgoing = Outgoing::new(&head, total);
            let mut written = Vec::new();
            for most in pieces.iter().cycle() {
                let piece = outgoing.piece();
                let mut bytes = piece.head.to_vec();
                bytes.extend(pattern.from(piece.at, piece.length));
                bytes.truncate(*most as usize);
                if bytes.is_empty() {
                    break;
                }
                outgoing.wrote(bytes.len() as u64);
                written.extend(bytes);
            }
            prop_assert!(outgoing.is_done());
            let mut expected = pattern.from(0, total).to_vec();
            let overlay = head.len().min(expected.len());
            expected[..overlay].copy_from_slice(&head[..overlay]);
            prop_assert_eq!(written, expected);
        }

        #[test]
        fn a_head_is_kept_in_whichever_pieces_it_comes(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            size in 1_usize..20,
        ) {
            let mut incoming: Incoming<16> = Incoming::new(40);
            let mut fits = true;
            for piece in bytes.chunks(size) {
                fits = incoming.feed(piece);
            }
            prop_assert_eq!(fits, bytes.len() <= 40);
            prop_assert_eq!(incoming.head(), &bytes[..bytes.len().min(16)]);
            prop_assert_eq!(incoming.whole_head().is_some(), bytes.len() >= 16);
            prop_assert_eq!(incoming.left(), 40_u64.saturating_sub(bytes.len() as u64));
        }
    }
}
