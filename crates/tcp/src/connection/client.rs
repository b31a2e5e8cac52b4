//! The client's end.
//!
//! ```text
//! Opening -> Open (writes its request or all it sends; reads what is to come)
//!         -> Ending (all has come; the server closes first) -> Over
//! ```

use nightwatt_energy::time::Mono;

use super::Next;
use crate::fault::Fault;
use crate::stream::{Incoming, Outgoing};
use crate::wire::{
    ANSWER, CONFIRMATION, Request, RequestKind, ServerAnswer, Status, TEXT, may_begin, part,
};

/// The moments of a connection's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Moments {
    /// Before `connect` was called.
    pub(crate) called: Mono,
    /// The handshake was done.
    pub(crate) opened: Option<Mono>,
    /// The first byte from the server was here.
    pub(crate) first_byte: Option<Mono>,
    /// The last one was; where the client sends, that is its confirmation.
    pub(crate) last_byte: Option<Mono>,
    /// Both sides had closed, and so had we.
    pub(crate) closed: Option<Mono>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Opening,
    Open,
    Ending,
    Over(Option<Fault>),
}

/// One connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientConnection {
    kind: RequestKind,
    state: State,
    out: Outgoing,
    incoming: Incoming<CONFIRMATION>,
    denied: Option<Status>,
    pub(crate) moments: Moments,
}

impl ClientConnection {
    pub(crate) fn new(request: &Request, now: Mono) -> Self {
        let head = request.to_bytes();
        let (out, come) = match request.kind {
            RequestKind::Fetch => (head.len() as u64, request.bytes),
            RequestKind::Send => (request.bytes, CONFIRMATION as u64),
            RequestKind::Report => (head.len() as u64, ANSWER as u64),
        };
        Self {
            kind: request.kind,
            state: State::Opening,
            out: Outgoing::new(&head, out),
            incoming: Incoming::new(come),
            denied: None,
            moments: Moments { called: now, ..Moments::default() },
        }
    }

    /// The handshake is done.
    pub(crate) fn opened(&mut self, now: Mono) {
        if self.state == State::Opening {
            self.moments.opened = Some(now);
            self.state = State::Open;
        }
    }

    pub(crate) fn next(&self) -> Next<'_> {
        match self.state {
            State::Open if !self.out.is_done() => Next::Write(self.out.piece()),
            State::Opening | State::Open | State::Ending => Next::Read,
            State::Over(_) => Next::Close,
        }
    }

    pub(crate) fn wrote(&mut self, bytes: u64) {
        self.out.wrote(bytes);
    }

    /// From which position of the server's stream on what is read next is nothing but the pattern.
    pub(crate) fn pattern_at(&self) -> Option<u64> {
        let at = self.incoming.at();
        (self.kind == RequestKind::Fetch && self.denied.is_none() && at >= ANSWER as u64)
            .then_some(at)
    }

    /// How much more is to come, if the rest is payload that needn't be checked.
    pub(crate) fn payload_left(&self) -> Option<u64> {
        self.incoming.whole_head().and(self.pattern_at()).map(|_| self.incoming.left())
    }

    /// Bytes came. Gives those of them that are the text of a refusal.
    pub(crate) fn read<'a>(&mut self, bytes: &'a [u8], now: Mono) -> &'a [u8] {
        if bytes.is_empty() || self.fault().is_some() {
            return &[];
        }
        self.moments.first_byte.get_or_insert(now);
        let before = self.incoming.at();
        let fits = self.incoming.feed(bytes);
        if before < ANSWER as u64 && !self.begin() {
            return &[];
        }
        let text = match self.denied {
            Some(_) => {
                let from = (ANSWER as u64).saturating_sub(before) as usize;
                bytes.get(from..).unwrap_or_default()
            }
            None => &[],
        };
        self.taken(fits, now);
        text
    }

    /// This many bytes of payload came and were discarded unread.
    pub(crate) fn discarded(&mut self, bytes: u64, now: Mono) {
        let fits = self.incoming.skip(bytes);
        self.taken(fits, now);
    }

    /// Looks at the answer as soon as it is there. Can it go on?
    fn begin(&mut self) -> bool {
        if !may_begin(self.incoming.head()) {
            self.fail(Fault::NotNightwatt);
            return false;
        }
        if self.incoming.at() < ANSWER as u64 {
            return true;
        }
        match ServerAnswer::from_bytes(&part(self.incoming.head(), 0)) {
            Err(fault) => self.fail(fault),
            Ok(ServerAnswer { status: Status::Fine, .. }) => return true,
            Ok(ServerAnswer { length, .. }) if length as usize > TEXT => self.fail(Fault::Corrupt),
            Ok(ServerAnswer { status, length }) => {
                self.denied = Some(status);
                self.incoming.set_total(ANSWER as u64 + u64::from(length));
                // The server no longer reads what we would still write.
                self.out = Outgoing::NONE;
                return true;
            }
        }
        false
    }

    fn taken(&mut self, fits: bool, now: Mono) {
        if !fits {
            return self.fail(Fault::Count);
        }
        if self.incoming.left() > 0 || self.state != State::Open {
            return;
        }
        if let Some(status) = self.denied {
            return self.fail(Fault::Denied(status));
        }
        if self.kind == RequestKind::Send && !self.is_confirmed() {
            return self.fail(Fault::Count);
        }
        self.moments.last_byte = Some(now);
        self.state = State::Ending;
    }

    /// Has the server seen as many bytes as we were to send?
    fn is_confirmed(&self) -> bool {
        let seen = self.incoming.whole_head().map(|head| u64::from_be_bytes(part(head, ANSWER)));
        self.out.is_done() && seen == Some(self.out.at())
    }

    /// The server will send no more.
    pub(crate) fn ended(&mut self, now: Mono) {
        match self.state {
            State::Ending => {
                self.moments.closed = Some(now);
                self.state = State::Over(None);
            }
            State::Over(_) => {}
            State::Opening | State::Open => {
                self.fail(self.denied.map_or(Fault::Closed, Fault::Denied));
            }
        }
    }

    /// Something went wrong with the socket, or with what it said.
    pub(crate) fn fail(&mut self, fault: Fault) {
        if !matches!(self.state, State::Over(_)) {
            // A refusal that was read explains a reset after it.
            let fault = self.denied.map_or(fault, Fault::Denied);
            self.state = State::Over(Some(fault));
        }
    }

    pub(crate) const fn fault(&self) -> Option<Fault> {
        match self.state {
            State::Over(fault) => fault,
            _ => None,
        }
    }

    pub(crate) fn is_opening(&self) -> bool {
        self.state == State::Opening
    }

    /// Bytes of the stream that was asked for: received, or handed to the kernel.
    pub(crate) const fn payload(&self) -> u64 {
        match self.kind {
            RequestKind::Send => self.out.at(),
            RequestKind::Fetch if self.denied.is_some() => 0,
            RequestKind::Fetch | RequestKind::Report => self.incoming.at(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::request;
    use super::*;
    use crate::wire::REQUEST;

    fn at(seconds: u64) -> Mono {
        Mono::from_secs(seconds)
    }

    fn fine() -> Vec<u8> {
        ServerAnswer { status: Status::Fine, length: 0 }.to_bytes().to_vec()
    }

    fn opened(kind: RequestKind, bytes: u64) -> ClientConnection {
        let mut connection = ClientConnection::new(&request(kind, bytes), at(1));
        assert_eq!(connection.next(), Next::Read, "nothing is written before the handshake");
        connection.opened(at(2));
        connection
    }

    #[test]
    fn a_fetched_connection_is_over_when_all_has_come_and_the_server_has_closed() {
        let mut connection = opened(RequestKind::Fetch, 100);
        let Next::Write(piece) = connection.next() else { panic!("{:?}", connection.next()) };
        assert_eq!((piece.head.len(), piece.length), (REQUEST, 0), "the request and no pattern");
        connection.wrote(64);
        assert_eq!(connection.next(), Next::Read);
        connection.read(&fine()[..9], at(3));
        connection.read(&fine()[9..], at(4));
        assert_eq!(connection.pattern_at(), Some(16));
        connection.read(&[0; 83], at(5));
        assert_eq!(connection.moments.last_byte, None, "one is missing");
        connection.read(&[0; 1], at(6));
        assert_eq!(connection.next(), Next::Read, "the server closes first");
        connection.ended(at(7));
        assert_eq!((connection.next(), connection.fault()), (Next::Close, None));
        let moments = Moments {
            called: at(1),
            opened: Some(at(2)),
            first_byte: Some(at(3)),
            last_byte: Some(at(6)),
            closed: Some(at(7)),
        };
        assert_eq!((connection.moments, connection.payload()), (moments, 100));
    }

    #[test]
    fn a_sent_connection_is_over_when_the_server_has_seen_every_byte() {
        let confirmed = |seen: u64| {
            let mut connection = opened(RequestKind::Send, 1000);
            let Next::Write(piece) = connection.next() else { panic!("{:?}", connection.next()) };
            assert_eq!((piece.head.len(), piece.at, piece.length), (64, 64, 936));
            connection.wrote(700);
            connection.wrote(300);
            let mut bytes = ServerAnswer { status: Status::Fine, length: 8 }.to_bytes().to_vec();
            bytes.extend(seen.to_be_bytes());
            connection.read(&bytes, at(3));
            connection.ended(at(4));
            connection
        };
        assert_eq!((confirmed(1000).fault(), confirmed(1000).payload()), (None, 1000));
        assert_eq!(confirmed(999).fault(), Some(Fault::Count));
    }

    #[test]
    fn what_is_short_or_long_or_of_another_server_is_a_fault_of_its_own() {
        let read = |bytes: &[u8], then_ends: bool| {
            let mut connection = opened(RequestKind::Fetch, 20);
            connection.wrote(64);
            connection.read(bytes, at(3));
            if then_ends {
                connection.ended(at(4));
            }
            connection.fault()
        };
        assert_eq!(read(b"", true), Some(Fault::Closed));
        assert_eq!(read(&[&fine()[..], b"abc"].concat(), true), Some(Fault::Closed));
        assert_eq!(read(&[&fine()[..], b"abcde"].concat(), false), Some(Fault::Count));
        assert_eq!(read(b"H", false), Some(Fault::NotNightwatt), "not waited for more");
        assert_eq!(read(b"nwtcp\r\n\x1a\0\x09\0\0\0\0\0\0", false), Some(Fault::Version));
    }

    #[test]
    fn a_refusal_is_read_with_its_text_and_explains_the_reset_after_it() {
        let answer = ServerAnswer { status: Status::Congestion, length: 9 }.to_bytes();
        let refused = [&answer[..], b"reno bbr!"].concat();
        let mut connection = opened(RequestKind::Send, 1_000_000);
        connection.wrote(5000);
        let text = [connection.read(&refused[..20], at(3)), connection.read(&refused[20..], at(3))]
            .concat();
        assert_eq!(text, b"reno bbr!");
        assert_eq!(connection.fault(), Some(Fault::Denied(Status::Congestion)));
        let mut connection = opened(RequestKind::Send, 1_000_000);
        connection.read(&refused[..20], at(3));
        assert_eq!(connection.next(), Next::Read, "nobody reads what we would still write");
        connection.fail(Fault::Reset);
        assert_eq!(connection.fault(), Some(Fault::Denied(Status::Congestion)));
        let long = ServerAnswer { status: Status::Full, length: 100_000 }.to_bytes();
        let mut connection = opened(RequestKind::Fetch, 1000);
        connection.read(&long, at(3));
        assert_eq!(connection.fault(), Some(Fault::Corrupt));
    }
}
