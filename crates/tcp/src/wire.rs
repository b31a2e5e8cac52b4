//! What the two ends say to each other: `docs/tcp.md` has the same as a table. Bytes in, values out.
//!
//! All numbers are in network byte order. The request is the first [`REQUEST`] bytes of a connection;
//! where the client sends, they are the first of the bytes that it was told to send, and where the
//! server sends, its answer is the first of those: a connection of ten segments has ten.

use serde::{Serialize, Serializer};

use crate::fault::Fault;
pub use crate::status::Status;

/// What both ends begin with. The end of a line and of a text in it are lost on what is no raw byte
/// stream.
pub const MAGIC: [u8; 8] = *b"nwtcp\r\n\x1a";

/// The version of this protocol. Magic and version stay where they are in all later ones.
pub const VERSION: u16 = 2;

/// Bytes of a request.
pub const REQUEST: usize = 64;

/// Bytes of an answer.
pub const ANSWER: usize = 16;

/// Bytes of a confirmation: an answer, and how many bytes the server has seen.
pub const CONFIRMATION: usize = ANSWER + 8;

/// The longest text of a refusal, bytes.
pub const TEXT: usize = 176;

/// The longest name of a congestion control, with the zero behind it (`TCP_CA_NAME_MAX`).
pub const NAME: usize = 16;

/// The side that sends, or what else is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// The server sends, the client receives.
    Fetch,
    /// The client sends, the server receives and confirms.
    Send,
    /// What the server knows of all connections of the session.
    Report,
}

/// The name of a congestion control, as the kernel has it; none is the system's own choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Name([u8; NAME]);

impl Name {
    /// Of text: letters, digits, `-` and `_`, at most 15 of them.
    pub fn new(text: &str) -> Option<Self> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if text.len() >= NAME || !text.bytes().all(good) {
            return None;
        }
        let mut name = [0; NAME];
        name[..text.len()].copy_from_slice(text.as_bytes());
        Some(Self(name))
    }

    /// Of the bytes of a message, or of what the kernel wrote.
    pub fn from_bytes(bytes: [u8; NAME]) -> Option<Self> {
        let end = bytes.iter().position(|byte| *byte == 0)?;
        if bytes[end..].iter().any(|byte| *byte != 0) {
            return None;
        }
        Self::new(std::str::from_utf8(&bytes[..end]).ok()?)
    }

    /// The name as text; empty if there is no name.
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(NAME);
        std::str::from_utf8(&self.0[..end]).unwrap_or_default()
    }

    /// Is there none?
    pub const fn is_none(&self) -> bool {
        self.0[0] == 0
    }

    /// As it goes over the wire.
    pub const fn to_bytes(self) -> [u8; NAME] {
        self.0
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (!self.is_none()).then_some(self.as_str()).serialize(serializer)
    }
}

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The side that sends.
    pub kind: RequestKind,
    /// Send small pieces at once (`TCP_NODELAY`).
    pub nodelay: bool,
    /// The server compares what it receives with the pattern.
    pub verify: bool,
    /// The server does not copy what it receives out of the kernel.
    pub discard: bool,
    /// Busy polling of the server's socket, us, [`MOST_BUSY_POLL`] at most; 0 leaves it.
    pub busy_poll: u32,
    /// Which connections belong together: a number that others do not guess.
    pub session: u64,
    /// Which of them this is.
    pub number: u32,
    /// The send buffer of a server that sends, the receive buffer of one that receives; 0 leaves it.
    pub buffer: u32,
    /// Bytes in all. Of a report: at most this many records.
    pub bytes: u64,
    /// The server sends at most this many bytes a second; 0: no limit.
    pub pacing: u64,
    /// Congestion control of a server that sends.
    pub congestion: Name,
}

/// Microseconds that a client may have the server's epoll look at cards for. It is one for all clients.
pub const MOST_BUSY_POLL: u32 = 10_000;

const NODELAY: u8 = 1;
const VERIFY: u8 = 2;
const DISCARD: u8 = 4;

impl Request {
    /// As it goes over the wire.
    pub fn to_bytes(&self) -> [u8; REQUEST] {
        let mut bytes = [0; REQUEST];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_be_bytes());
        bytes[10] = match self.kind {
            RequestKind::Fetch => 1,
            RequestKind::Send => 2,
            RequestKind::Report => 3,
        };
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        bytes[11] =
            flag(self.nodelay, NODELAY) | flag(self.verify, VERIFY) | flag(self.discard, DISCARD);
        bytes[12..16].copy_from_slice(&self.busy_poll.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.session.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.number.to_be_bytes());
        bytes[28..32].copy_from_slice(&self.buffer.to_be_bytes());
        bytes[32..40].copy_from_slice(&self.bytes.to_be_bytes());
        bytes[40..48].copy_from_slice(&self.pacing.to_be_bytes());
        bytes[48..].copy_from_slice(&self.congestion.to_bytes());
        bytes
    }

    /// What a client's first bytes mean.
    pub fn from_bytes(bytes: &[u8; REQUEST]) -> Result<Self, Wrong> {
        if !may_begin(bytes) {
            return Err(Wrong::Magic);
        }
        let version = u16::from_be_bytes(part(bytes, 8));
        if version != VERSION {
            return Err(Wrong::Version(version));
        }
        let kind = match bytes[10] {
            1 => RequestKind::Fetch,
            2 => RequestKind::Send,
            3 => RequestKind::Report,
            _ => return Err(Wrong::Field("kind")),
        };
        if bytes[11] & !(NODELAY | VERIFY | DISCARD) != 0 {
            return Err(Wrong::Field("flags"));
        }
        let length = u64::from_be_bytes(part(bytes, 32));
        let least = match kind {
            RequestKind::Fetch => ANSWER as u64,
            RequestKind::Send => REQUEST as u64,
            RequestKind::Report => 0,
        };
        // Positions in the stream are counted in signed numbers by kernels.
        if length < least || i64::try_from(length).is_err() {
            return Err(Wrong::Field("bytes"));
        }
        let busy_poll = u32::from_be_bytes(part(bytes, 12));
        if busy_poll > MOST_BUSY_POLL {
            return Err(Wrong::Field("busy polling"));
        }
        Ok(Self {
            kind,
            nodelay: bytes[11] & NODELAY != 0,
            verify: bytes[11] & VERIFY != 0,
            discard: bytes[11] & DISCARD != 0,
            busy_poll,
            session: u64::from_be_bytes(part(bytes, 16)),
            number: u32::from_be_bytes(part(bytes, 24)),
            buffer: u32::from_be_bytes(part(bytes, 28)),
            bytes: length,
            pacing: u64::from_be_bytes(part(bytes, 40)),
            congestion: Name::from_bytes(part(bytes, 48)).ok_or(Wrong::Field("congestion"))?,
        })
    }
}

/// Can a message begin so? Asked as soon as the first byte is there, so that strangers are not waited
/// for.
pub fn may_begin(bytes: &[u8]) -> bool {
    bytes.iter().zip(&MAGIC).all(|(byte, magic)| byte == magic)
}

/// So many bytes from a place on; zeros where there are none.
pub(crate) fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..at + N).and_then(|part| part.try_into().ok()).unwrap_or([0; N])
}

/// What is wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// It is not a request of this protocol.
    Magic,
    /// It is of another version.
    Version(u16),
    /// This field says what it may not.
    Field(&'static str),
}

/// The beginning of what a server says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerAnswer {
    /// How it takes the request.
    pub status: Status,
    /// Bytes that follow and are no payload: the text of a refusal, the number of a confirmation, a
    /// report.
    pub length: u32,
}

impl ServerAnswer {
    /// As it goes over the wire.
    pub fn to_bytes(self) -> [u8; ANSWER] {
        let mut bytes = [0; ANSWER];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_be_bytes());
        bytes[10] = self.status as u8;
        bytes[12..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// What a server's first bytes mean.
    pub fn from_bytes(bytes: &[u8; ANSWER]) -> Result<Self, Fault> {
        if !may_begin(bytes) {
            return Err(Fault::NotNightwatt);
        }
        let status = Status::of(bytes[10]).ok_or(Fault::Corrupt)?;
        // One of another version says so by this status; its other answers are not ours to read.
        if u16::from_be_bytes(part(bytes, 8)) != VERSION {
            return Err(Fault::Version);
        }
        Ok(Self { status, length: u32::from_be_bytes(part(bytes, 12)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            kind: RequestKind::Send,
            nodelay: true,
            verify: false,
            discard: true,
            busy_poll: 50,
            session: 0x0102_0304_0506_0708,
            number: 9,
            buffer: 65_536,
            bytes: 14_600,
            pacing: 125_000_000,
            congestion: Name::new("cubic").unwrap(),
        }
    }

    #[test]
    fn a_request_is_the_bytes_that_the_documentation_shows() {
        // By hand, from the table in docs/tcp.md.
        let by_hand: Vec<u8> = [
            &b"nwtcp\r\n\x1a"[..],
            &[0, 2, 2, 5],
            &[0, 0, 0, 50],
            &[1, 2, 3, 4, 5, 6, 7, 8],
            &[0, 0, 0, 9],
            &[0, 1, 0, 0],
            &[0, 0, 0, 0, 0, 0, 0x39, 0x08],
            &[0, 0, 0, 0, 0x07, 0x73, 0x59, 0x40],
            b"cubic\0\0\0\0\0\0\0\0\0\0\0",
        ]
        .concat();
        assert_eq!(request().to_bytes().to_vec(), by_hand);
        let told = format!("Version {VERSION}. ");
        assert!(include_str!("../../../docs/tcp.md").contains(&told), "{told}");
        assert_eq!(Request::from_bytes(&request().to_bytes()), Ok(request()));
    }

    #[test]
    fn what_a_request_may_not_say_is_refused_by_its_field() {
        let changed = |at: usize, byte: u8| {
            let mut bytes = request().to_bytes();
            bytes[at] = byte;
            Request::from_bytes(&bytes)
        };
        assert_eq!(changed(0, b'N'), Err(Wrong::Magic));
        assert_eq!(changed(9, 1), Err(Wrong::Version(1)));
        assert_eq!(changed(10, 0), Err(Wrong::Field("kind")));
        assert_eq!(changed(11, 8), Err(Wrong::Field("flags")));
        assert_eq!(changed(12, 1), Err(Wrong::Field("busy polling")));
        let longest = Request { busy_poll: 10_000, ..request() };
        assert_eq!(Request::from_bytes(&longest.to_bytes()), Ok(longest));
        let longer = Request { busy_poll: 10_001, ..request() };
        assert_eq!(Request::from_bytes(&longer.to_bytes()), Err(Wrong::Field("busy polling")));
        assert_eq!(changed(32, 0x80), Err(Wrong::Field("bytes")));
        assert_eq!(changed(48, b' '), Err(Wrong::Field("congestion")));
        assert_eq!(changed(63, b'x'), Err(Wrong::Field("congestion")));
        let short = Request { bytes: 63, ..request() };
        assert_eq!(Request::from_bytes(&short.to_bytes()), Err(Wrong::Field("bytes")));
        let fetch = Request { kind: RequestKind::Fetch, bytes: 16, ..request() };
        assert_eq!(Request::from_bytes(&fetch.to_bytes()), Ok(fetch));
    }

    #[test]
    fn an_answer_of_another_server_or_version_is_told_apart() {
        let answer = ServerAnswer { status: Status::Congestion, length: 7 };
        assert_eq!(ServerAnswer::from_bytes(&answer.to_bytes()), Ok(answer));
        assert_eq!(ServerAnswer::from_bytes(b"HTTP/1.1 400 Bad"), Err(Fault::NotNightwatt));
        let mut other = answer.to_bytes();
        other[9] = 7;
        assert_eq!(ServerAnswer::from_bytes(&other), Err(Fault::Version));
        other = answer.to_bytes();
        other[10] = 99;
        assert_eq!(ServerAnswer::from_bytes(&other), Err(Fault::Corrupt));
    }

    #[test]
    fn names_are_what_the_kernel_could_have_called_one() {
        assert_eq!(Name::new("bbr").unwrap().as_str(), "bbr");
        assert!(Name::new("").unwrap().is_none());
        assert_eq!(Name::new("sixteen-letters-"), None);
        assert_eq!(Name::new("a b"), None);
    }
}
