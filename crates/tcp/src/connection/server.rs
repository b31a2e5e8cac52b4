//! The server's end.
//!
//! ```text
//! Asked (reads the request) -> Sending   -> shutdown -> Closing (the client closes) -> Over
//!                           -> Receiving -> Confirming -> shutdown -> ...
//!                           -> Refusing  -> shutdown -> Draining -> Over
//! ```
//!
//! The server closes first, so that what waits out `TIME_WAIT` is its own port, of which it has one,
//! and never one of the client's.

use super::Next;
use crate::fault::Fault;
use crate::stream::{HEAD, Incoming, Outgoing};
use crate::wire::{
    ANSWER, CONFIRMATION, REQUEST, Request, RequestKind, ServerAnswer, Status, TEXT, VERSION,
    Wrong, may_begin,
};

/// What a client that was refused may still send before we stop to listen.
const DRAIN: u64 = 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    AwaitingRequest,
    /// The request is read; the driver has yet to say whether it is done.
    Deciding,
    Sending,
    Receiving,
    Confirming,
    Refusing,
    /// All is written; the client has yet to be notified.
    Written {
        refused: bool,
    },
    Closing,
    Draining,
    Over(Option<Fault>),
}

/// One connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerConnection {
    state: State,
    incoming: Incoming<REQUEST>,
    out: Outgoing,
}

impl ServerConnection {
    pub(crate) const fn new() -> Self {
        Self {
            state: State::AwaitingRequest,
            incoming: Incoming::new(u64::MAX),
            out: Outgoing::NONE,
        }
    }

    pub(crate) fn next(&self) -> Next<'_> {
        match self.state {
            State::Sending | State::Confirming | State::Refusing => Next::Write(self.out.piece()),
            State::Written { .. } => Next::Shutdown,
            State::Over(_) => Next::Close,
            _ => Next::Read,
        }
    }

    /// Bytes came. Returns the request once, when it is whole; then `accept` or `refuse` it.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Option<Request> {
        let fits = self.incoming.feed(bytes);
        match self.state {
            State::AwaitingRequest => return self.read_request(),
            State::Receiving => self.taken(fits),
            State::Draining | State::Refusing | State::Written { refused: true } => {
                if self.incoming.at() > DRAIN {
                    self.state = State::Over(Some(Fault::Count));
                }
            }
            State::Over(_) => {}
            // Nothing more was to come.
            _ => self.fail(Fault::Count),
        }
        None
    }

    /// This many bytes of payload came and were discarded unread.
    pub(crate) fn discarded(&mut self, bytes: u64) {
        let fits = self.incoming.skip(bytes);
        self.taken(fits);
    }

    fn read_request(&mut self) -> Option<Request> {
        if !may_begin(self.incoming.head()) {
            self.state = State::Over(Some(Fault::NotNightwatt));
            return None;
        }
        match Request::from_bytes(self.incoming.whole_head()?) {
            Ok(request) => {
                self.state = State::Deciding;
                return Some(request);
            }
            Err(Wrong::Magic) => self.state = State::Over(Some(Fault::NotNightwatt)),
            Err(Wrong::Version(_)) => {
                self.refuse(
                    Status::Version,
                    &[b"this server speaks version ", digits(VERSION).trim_ascii()],
                );
            }
            Err(Wrong::Field(field)) => {
                self.refuse(Status::Malformed, &[b"field `", field.as_bytes(), b"`"]);
            }
        }
        None
    }

    /// The request will be done.
    pub(crate) fn accept(&mut self, request: &Request) {
        let fine = ServerAnswer { status: Status::Fine, length: 0 }.to_bytes();
        match request.kind {
            RequestKind::Fetch => {
                self.out = Outgoing::new(&fine, request.bytes);
                self.state = State::Sending;
            }
            RequestKind::Send => {
                self.incoming.set_total(request.bytes);
                self.state = State::Receiving;
                self.taken(self.incoming.at() <= request.bytes);
            }
            // Its bytes are not the pattern: the driver writes them, and says when it has.
            RequestKind::Report => self.state = State::Deciding,
        }
        if request.kind != RequestKind::Send && self.incoming.at() > REQUEST as u64 {
            self.fail(Fault::Count);
        }
    }

    /// A report was written to its end.
    pub(crate) fn reported(&mut self) {
        if self.state == State::Deciding {
            self.state = State::Written { refused: false };
        }
    }

    /// The request will not be done; the text is cut where it is too long.
    pub(crate) fn refuse(&mut self, status: Status, text: &[&[u8]]) {
        let mut head = [0; HEAD];
        let mut length = 0;
        for byte in text.iter().copied().flatten().take(TEXT) {
            head[ANSWER + length] = *byte;
            length += 1;
        }
        head[..ANSWER].copy_from_slice(&ServerAnswer { status, length: length as u32 }.to_bytes());
        let length = ANSWER + length;
        self.out = Outgoing::new(&head[..length], length as u64);
        self.state = State::Refusing;
    }

    fn taken(&mut self, fits: bool) {
        if !fits {
            self.fail(Fault::Count);
        } else if self.incoming.left() == 0 && self.state == State::Receiving {
            let mut head = [0; CONFIRMATION];
            head[..ANSWER]
                .copy_from_slice(&ServerAnswer { status: Status::Fine, length: 8 }.to_bytes());
            head[ANSWER..].copy_from_slice(&self.incoming.at().to_be_bytes());
            self.out = Outgoing::new(&head, CONFIRMATION as u64);
            self.state = State::Confirming;
        }
    }

    pub(crate) fn wrote(&mut self, bytes: u64) {
        self.out.wrote(bytes);
        if self.out.is_done() {
            self.state = match self.state {
                State::Sending | State::Confirming => State::Written { refused: false },
                State::Refusing => State::Written { refused: true },
                other => other,
            };
        }
    }

    /// The client was told that we have written all.
    pub(crate) fn shut_down(&mut self) {
        self.state = match self.state {
            State::Written { refused: true } => State::Draining,
            State::Written { refused: false } => State::Closing,
            other => other,
        };
    }

    /// The client will send no more.
    pub(crate) fn ended(&mut self) {
        match self.state {
            State::Closing => self.state = State::Over(None),
            State::Draining => self.state = State::Over(Some(Fault::Denied(Status::Malformed))),
            State::Over(_) => {}
            _ => self.fail(Fault::Closed),
        }
    }

    pub(crate) fn fail(&mut self, fault: Fault) {
        match self.state {
            State::Over(_) => {}
            State::Draining | State::Refusing | State::Written { refused: true } => {
                self.state = State::Over(Some(Fault::Denied(Status::Malformed)));
            }
            _ => self.state = State::Over(Some(fault)),
        }
    }

    pub(crate) const fn fault(&self) -> Option<Fault> {
        match self.state {
            State::Over(fault) => fault,
            _ => None,
        }
    }

    /// Is the request still to come?
    pub(crate) fn awaits_request(&self) -> bool {
        self.state == State::AwaitingRequest
    }

    /// From which position of the client's stream on what is read next is nothing but the pattern.
    pub(crate) fn pattern_at(&self) -> Option<u64> {
        (self.state == State::Receiving).then(|| self.incoming.at())
    }

    /// How much more payload is to come, if it needn't be checked.
    pub(crate) fn payload_left(&self) -> Option<u64> {
        self.pattern_at().map(|_| self.incoming.left())
    }

    /// Bytes of the stream that was asked for, so far.
    pub(crate) fn payload(&self, kind: RequestKind) -> u64 {
        match kind {
            RequestKind::Fetch => self.out.at(),
            RequestKind::Send => self.incoming.at(),
            RequestKind::Report => 0,
        }
    }
}

/// A number as text.
fn digits(number: u16) -> [u8; 5] {
    let mut digits = *b"     ";
    let mut left = number;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::super::request;
    use super::*;
    use crate::wire::part;

    fn accepted(request: &Request) -> ServerConnection {
        let mut connection = ServerConnection::new();
        let bytes = request.to_bytes();
        assert_eq!(connection.read(&bytes[..30]), None);
        assert!(connection.awaits_request());
        assert_eq!(connection.read(&bytes[30..]), Some(*request));
        connection.accept(request);
        connection
    }

    fn written(connection: &ServerConnection) -> (Vec<u8>, u64) {
        let Next::Write(piece) = connection.next() else { panic!("{:?}", connection.next()) };
        (piece.head.to_vec(), piece.length)
    }

    #[test]
    fn the_server_sends_closes_first_and_waits_for_the_client_to_close() {
        let mut connection = accepted(&request(RequestKind::Fetch, 14_600));
        let (head, pattern) = written(&connection);
        assert_eq!(head, ServerAnswer { status: Status::Fine, length: 0 }.to_bytes());
        assert_eq!(head.len() as u64 + pattern, 14_600, "the answer is part of what was asked for");
        connection.wrote(14_600);
        assert_eq!(connection.next(), Next::Shutdown);
        connection.shut_down();
        assert_eq!(connection.next(), Next::Read);
        connection.ended();
        assert_eq!((connection.next(), connection.fault()), (Next::Close, None));
        assert_eq!(connection.payload(RequestKind::Fetch), 14_600);
    }

    #[test]
    fn the_server_confirms_what_it_has_seen() {
        let mut connection = accepted(&request(RequestKind::Send, 1000));
        assert_eq!(connection.payload_left(), Some(936));
        connection.read(&[0; 900]);
        connection.discarded(36);
        let (head, pattern) = written(&connection);
        assert_eq!((head.len(), pattern), (CONFIRMATION, 0));
        assert_eq!(u64::from_be_bytes(part(&head, 16)), 1000);
        connection.wrote(24);
        assert_eq!(connection.next(), Next::Shutdown);
        // All of it may come at once with the request.
        let mut connection = ServerConnection::new();
        let short = request(RequestKind::Send, 64);
        assert_eq!(connection.read(&short.to_bytes()), Some(short));
        connection.accept(&short);
        assert_eq!(written(&connection).0.len(), CONFIRMATION);
    }

    #[test]
    fn strangers_are_dropped_at_their_first_wrong_byte_and_get_no_answer() {
        let mut connection = ServerConnection::new();
        assert_eq!(connection.read(b"GET / HTTP/1.1\r\n"), None);
        assert_eq!(
            (connection.next(), connection.fault()),
            (Next::Close, Some(Fault::NotNightwatt))
        );
        let mut connection = ServerConnection::new();
        assert_eq!(connection.read(b"nX"), None);
        assert_eq!(connection.fault(), Some(Fault::NotNightwatt));
        let mut connection = ServerConnection::new();
        assert_eq!(connection.read(b"nwtcp\r"), None);
        assert_eq!(
            (connection.next(), connection.fault()),
            (Next::Read, None),
            "that may become one"
        );
        connection.ended();
        assert_eq!(connection.fault(), Some(Fault::Closed));
    }

    #[test]
    fn a_refused_client_gets_its_answer_and_is_listened_to_for_a_bounded_while() {
        let mut bytes = request(RequestKind::Send, 1 << 40).to_bytes();
        bytes[9] = 9;
        let mut connection = ServerConnection::new();
        assert_eq!(connection.read(&bytes), None);
        let (head, _) = written(&connection);
        let answer = ServerAnswer::from_bytes(&part(&head, 0)).unwrap();
        assert_eq!(answer.status, Status::Version);
        assert_eq!(&head[16..], b"this server speaks version 2");
        assert_eq!(answer.length as usize, head.len() - 16);
        connection.wrote(head.len() as u64);
        connection.shut_down();
        let more = vec![0; 100_000];
        connection.read(&more);
        assert_eq!(
            connection.next(),
            Next::Read,
            "reset at once, the client might not see the answer"
        );
        for _ in 0..20 {
            connection.read(&more);
        }
        assert_eq!(connection.next(), Next::Close);
    }

    #[test]
    fn more_than_was_announced_ends_the_connection() {
        let mut connection = accepted(&request(RequestKind::Send, 100));
        connection.read(&[0; 37]);
        assert_eq!(connection.fault(), Some(Fault::Count));
        let mut connection = accepted(&request(RequestKind::Fetch, 100));
        connection.read(&[0; 1]);
        assert_eq!(connection.fault(), Some(Fault::Count));
        let mut connection = accepted(&request(RequestKind::Send, 100));
        connection.ended();
        assert_eq!(connection.fault(), Some(Fault::Closed));
    }
}
