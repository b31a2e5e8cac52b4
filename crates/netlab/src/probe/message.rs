//! Messages between the two ends of a probe, and what the answering one keeps in mind. Pure.

/// Length of a message; packets that only load the link are filled up behind it.
pub(super) const LENGTH: usize = 28;

const MAGIC: [u8; 4] = *b"nwp1";

/// What a message wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum MessageKind {
    /// To be sent back.
    #[default]
    Echo,
    /// To be counted.
    Load,
    /// The number of counted packets.
    CountRequest,
    /// Nothing.
    Discard,
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Message {
    pub(super) kind: MessageKind,
    /// Which packets are counted together.
    pub(super) stream: u32,
    /// Of a question and its answer.
    pub(super) number: u64,
    /// Of an answer: packets that came.
    pub(super) frames: u64,
}

impl Message {
    pub(super) fn bytes(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..4].copy_from_slice(&MAGIC);
        let kind = match self.kind {
            MessageKind::Echo => 1_u32,
            MessageKind::Load => 2,
            MessageKind::CountRequest => 3,
            MessageKind::Discard => 4,
        };
        bytes[4..8].copy_from_slice(&kind.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.stream.to_be_bytes());
        for (at, value) in [self.number, self.frames].iter().enumerate() {
            bytes[12 + 8 * at..20 + 8 * at].copy_from_slice(&value.to_be_bytes());
        }
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LENGTH] = bytes.first_chunk()?;
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        let kind = match word(4) {
            1 => MessageKind::Echo,
            2 => MessageKind::Load,
            3 => MessageKind::CountRequest,
            4 => MessageKind::Discard,
            _ => return None,
        };
        let is_ours = bytes[..4] == MAGIC;
        let message = Self { kind, stream: word(8), number: long(12), frames: long(20) };
        is_ours.then_some(message)
    }
}

/// Counts the frames of the latest stream. Memory is constant for any number of senders.
#[derive(Debug, Default)]
pub(super) struct FrameCounter {
    stream: u32,
    frames: u64,
}

impl FrameCounter {
    /// A packet; gives the answer to it, if there is one.
    pub(super) fn take(&mut self, packet: &[u8]) -> Option<[u8; LENGTH]> {
        let message = Message::read(packet)?;
        match message.kind {
            MessageKind::Echo => Some(message.bytes()),
            MessageKind::Load => {
                let before = if self.stream == message.stream { self.frames } else { 0 };
                *self = Self { stream: message.stream, frames: before + 1 };
                None
            }
            MessageKind::CountRequest => {
                let frames = if self.stream == message.stream { self.frames } else { 0 };
                Some(Message { frames, ..message }.bytes())
            }
            MessageKind::Discard => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_back_and_others_are_not_read() {
        let message =
            Message { kind: MessageKind::CountRequest, stream: 7, number: 1 << 40, frames: 2 };
        assert_eq!(Message::read(&message.bytes()), Some(message));
        assert_eq!(Message::read(&message.bytes()[..LENGTH - 1]), None);
        let mut other = message.bytes();
        other[0] = b'x';
        assert_eq!(Message::read(&other), None);
        other = message.bytes();
        other[7] = 9;
        assert_eq!(Message::read(&other), None);
    }

    #[test]
    fn packets_are_counted_by_stream_and_only_the_latest_is_kept() {
        let mut counter = FrameCounter::default();
        for stream in [5, 6] {
            let load = Message { kind: MessageKind::Load, stream, ..Message::default() };
            for _ in 0..11 {
                assert_eq!(counter.take(&load.bytes()), None);
            }
        }
        let ask = |stream| Message {
            kind: MessageKind::CountRequest,
            stream,
            number: 9,
            ..Message::default()
        };
        let answer = Message::read(&counter.take(&ask(6).bytes()).unwrap()).unwrap();
        assert_eq!((answer.frames, answer.number), (11, 9));
        let other = Message::read(&counter.take(&ask(5).bytes()).unwrap()).unwrap();
        assert_eq!(other.frames, 0);
    }
}
