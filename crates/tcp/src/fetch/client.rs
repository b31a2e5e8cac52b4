//! The client's loop.

use std::io;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_energy::time::Mono;
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::result::{self, Ended, FetchReport};
use super::{Direction, Plan};
use crate::connection::Next;
use crate::connection::client::ClientConnection;
use crate::error::Error;
use crate::fault::Fault;
use crate::options::SocketOptions;
use crate::pattern::Pattern;
use crate::reactor::{Event, Reactor, Ready, TURN};
use crate::sys;
use crate::tally::{Second, Tally};
use crate::transfer::{self, Buffer, ENOUGH, Moved};
use crate::usage::Usage;
use crate::wire::{ANSWER, Name, TEXT};

/// Connections started between two looks at the others.
const STARTS: u32 = 64;

/// Handshakes under way at once: servers keep no more clients waiting than their backlog, and drop
/// those beyond.
const OPENING: u32 = 1024;

/// A run ends when this many connections failed one after another, or as many as there are at once.
const IN_VAIN: u64 = 10;

struct Slot {
    socket: Option<Socket>,
    connection: ClientConnection,
    number: u64,
    ready: Ready,
    /// When something last came or went.
    moved: Mono,
}

/// The client, ready to run.
pub(super) struct Client<'a> {
    plan: &'a Plan,
    own: SocketOptions,
    address: SockAddr,
    session: u64,
    reactor: Reactor,
    slots: Vec<Option<Slot>>,
    pattern: Pattern,
    buffer: Buffer,
    tally: Tally,
    start: Mono,
    opening: u32,
    /// Nothing stalls before this.
    earliest: Mono,
    /// The text of the first refusal, and whose it is.
    refusal: Vec<u8>,
    refused_place: Option<u32>,
    /// What our side sends with.
    congestion: Name,
    ended: Option<Ended>,
}

impl<'a> Client<'a> {
    pub(super) fn new(plan: &'a Plan, stop: &Stop) -> Result<Self, Error> {
        let mut number = [0; 8];
        getrandom::fill(&mut number).map_err(|_| Error::Random)?;
        let start = monotonic();
        let mut reactor = Reactor::new(plan.connections, stop).map_err(Error::Epoll)?;
        let refused = |source| Error::Option { option: "--busy-poll", source };
        reactor.busy_poll(plan.options.busy_poll).map_err(refused)?;
        Ok(Self {
            plan,
            own: plan.own_options(),
            address: plan.server.into(),
            session: u64::from_ne_bytes(number),
            reactor,
            slots: (0..plan.connections).map(|_| None).collect(),
            pattern: Pattern::default(),
            buffer: Buffer::default(),
            tally: Tally::new(start, plan.records),
            start,
            opening: 0,
            earliest: Mono::NEVER,
            refusal: Vec::with_capacity(TEXT),
            refused_place: None,
            congestion: Name::default(),
            ended: None,
        })
    }

    /// Until all is over.
    pub(super) fn run(
        mut self,
        mut on_second: Option<&mut dyn FnMut(&Second)>,
    ) -> Result<FetchReport, Error> {
        let before = Usage::now();
        self.start = monotonic();
        self.tally.begin(self.start);
        let end = self.plan.until.time.map_or(Mono::NEVER, |time| self.start + time);
        let mut reported = None;
        while self.ended.is_none() {
            let to_start = self.start_some();
            if self.ended.is_some() {
                // Given up while they were started: nothing may be left that would wake us.
                break;
            }
            if self.tally.running() == 0 && !to_start {
                self.ended = Some(Ended::Done);
                break;
            }
            let mut deadline = end.min(self.earliest);
            if on_second.is_some() {
                deadline = deadline.min(self.tally.second_ends());
            }
            let may_start = to_start && self.opening < OPENING;
            let deadline = if may_start { Mono::ZERO } else { deadline };
            self.turn(deadline)?;
            let now = monotonic();
            self.tally.pass(now);
            // A caller that has ended it gets no more reports.
            if self.ended.is_none()
                && let Some(on_second) = on_second.as_mut()
                && self.tally.latest != reported
                && let Some(second) = &self.tally.latest
            {
                on_second(second);
                reported = self.tally.latest;
            }
            if now >= end && self.ended.is_none() {
                self.ended = Some(Ended::Time);
            }
            self.expire(now);
        }
        let end = monotonic();
        self.cut();
        self.tally.pass(end);
        self.tally.end();
        let used = Usage::now().since(&before);
        let lasted = end.since(self.start);
        self.report(lasted, &used)
    }

    /// Waits, and goes on with all that can.
    fn turn(&mut self, deadline: Mono) -> Result<(), Error> {
        let events = self.reactor.wait(deadline).map_err(Error::Epoll)?;
        let in_line = self.reactor.in_line();
        for index in 0..events {
            match self.reactor.event(index) {
                Event::Stop => self.ended = Some(Ended::Stopped),
                Event::Slot(place, ready) => self.on_event(place, ready),
                Event::Listener | Event::Stale => {}
            }
        }
        for _ in 0..in_line {
            let Some(place) = self.reactor.next_in_line() else { break };
            self.work(place);
        }
        Ok(())
    }

    /// Is there one still to be started?
    fn start_some(&mut self) -> bool {
        for _ in 0..STARTS {
            let all = self.plan.until.count.is_some_and(|count| self.tally.started >= count);
            if all || self.tally.running() >= u64::from(self.plan.connections) {
                return false;
            }
            if self.opening >= OPENING || self.ended.is_some() {
                return true;
            }
            self.start_one();
        }
        true
    }

    fn start_one(&mut self) {
        let Some(place) = self.reactor.take() else { return };
        let number = self.tally.started;
        let now = monotonic();
        self.tally.pass(now);
        self.tally.start_one();
        let request = self.plan.request(self.session, number);
        let connection = ClientConnection::new(&request, now);
        let mut slot =
            Slot { socket: None, connection, number, ready: Ready::default(), moved: now };
        match self.connect(place, &mut slot) {
            Ok(is_open) => {
                self.opening += 1;
                self.earliest = self.earliest.min(now + self.plan.timeout);
                self.slots[place as usize] = Some(slot);
                if is_open {
                    self.on_event(place, Ready { write: true, ..Ready::default() });
                }
            }
            Err(fault) => {
                slot.connection.fail(fault);
                self.slots[place as usize] = Some(slot);
                self.opening += 1;
                self.finish(place);
            }
        }
    }

    /// Returns whether the handshake is done already.
    fn connect(&self, place: u32, slot: &mut Slot) -> Result<bool, Fault> {
        let fault = |error: io::Error| {
            Errno::from_io_error(&error).map_or(Fault::Unreachable, Fault::of_errno)
        };
        let domain = Domain::for_address(self.plan.server);
        let kind = Type::STREAM.nonblocking().cloexec();
        let socket = Socket::new(domain, kind, Some(Protocol::TCP)).map_err(fault)?;
        self.own.set(&socket).map_err(|_| Fault::Option)?;
        slot.connection.moments.called = monotonic();
        let is_open = match socket.connect(&self.address) {
            Ok(()) => true,
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INPROGRESS) => false,
            Err(error) => return Err(fault(error)),
        };
        // There is a limit on what one user may watch, too.
        self.reactor.watch(&socket, place).map_err(|_| Fault::Descriptors)?;
        slot.socket = Some(socket);
        Ok(is_open)
    }

    fn on_event(&mut self, place: u32, ready: Ready) {
        let Some(slot) = &mut self.slots[place as usize] else { return };
        slot.ready.read |= ready.read;
        slot.ready.write |= ready.write;
        slot.ready.end |= ready.end;
        if slot.connection.is_opening() {
            let Some(socket) = slot.socket.as_ref().filter(|_| ready.write || ready.end) else {
                return;
            };
            match socket.take_error() {
                Ok(None) => {
                    let now = monotonic();
                    slot.connection.opened(now);
                    slot.moved = now;
                    self.opening -= 1;
                }
                Ok(Some(error)) | Err(error) => {
                    let errno = Errno::from_io_error(&error).unwrap_or(Errno::CONNRESET);
                    slot.connection.fail(Fault::of_errno(errno));
                }
            }
        }
        self.work(place);
    }

    /// Goes on with a connection as long as it can and its turn lasts.
    fn work(&mut self, place: u32) {
        let mut moved = 0;
        for _ in 0..TURN {
            let Some(slot) = &mut self.slots[place as usize] else { return };
            match slot.connection.next() {
                Next::Close => return self.finish(place),
                Next::Write(_) if slot.ready.write => moved += self.write(place),
                _ if slot.ready.read => moved += self.read(place),
                _ => return,
            }
            if moved > ENOUGH {
                break;
            }
        }
        self.reactor.queue(place);
    }

    fn write(&mut self, place: u32) -> u64 {
        let Some(slot) = &mut self.slots[place as usize] else { return 0 };
        let (Some(socket), Next::Write(piece)) = (&slot.socket, slot.connection.next()) else {
            return 0;
        };
        match transfer::write(socket, &piece, &self.pattern) {
            Ok(moved) => {
                slot.ready.write = matches!(moved, Moved::Bytes(_));
                slot.connection.wrote(moved.bytes());
                if moved.bytes() > 0 {
                    slot.moved = monotonic();
                    if self.plan.direction == Direction::Send {
                        self.tally.pass(slot.moved);
                        self.tally.moved(moved.bytes());
                    }
                }
                return moved.bytes();
            }
            // What the server said before it cut us off is still to be read.
            Err(_) if slot.ready.read => slot.ready.write = false,
            Err(errno) => slot.connection.fail(broken(errno)),
        }
        0
    }

    fn read(&mut self, place: u32) -> u64 {
        let Some(slot) = &mut self.slots[place as usize] else { return 0 };
        let Some(socket) = &slot.socket else { return 0 };
        let discards = self.plan.discard && slot.connection.payload_left().is_some();
        let read = if discards { self.buffer.discard(socket) } else { self.buffer.read(socket) };
        let now = monotonic();
        let length = match read {
            Ok(Some(moved)) => {
                slot.ready.read = slot.ready.end || matches!(moved, Moved::Bytes(_));
                moved.bytes()
            }
            Ok(None) => {
                slot.connection.ended(now);
                0
            }
            Err(errno) => {
                slot.connection.fail(broken(errno));
                0
            }
        };
        if length == 0 {
            return 0;
        }
        slot.moved = now;
        self.tally.pass(now);
        let before = slot.connection.payload();
        let at = slot.connection.pattern_at();
        if discards {
            slot.connection.discarded(length, now);
        } else {
            let bytes = self.buffer.bytes(length);
            let text = slot.connection.read(bytes, now);
            if !text.is_empty() && *self.refused_place.get_or_insert(place) == place {
                let room = TEXT.saturating_sub(self.refusal.len()).min(text.len());
                self.refusal.extend_from_slice(&text[..room]);
            }
            if self.plan.verify && !verified(&slot.connection, at, bytes, &self.pattern) {
                slot.connection.fail(Fault::Corrupt);
            }
        }
        if self.plan.direction == Direction::Fetch {
            self.tally.moved(slot.connection.payload().saturating_sub(before));
        }
        length
    }

    /// A connection is over: a last look, and its place is free.
    fn finish(&mut self, place: u32) {
        let Some(mut slot) = self.slots[place as usize].take() else { return };
        if slot.connection.moments.opened.is_none() {
            self.opening -= 1;
        }
        let fault = slot.connection.fault();
        let tcp = slot.socket.as_ref().map(sys::tcp_info).unwrap_or_default();
        let port = slot.socket.as_ref().and_then(sys::local_port);
        if let Some(socket) = slot.socket.take() {
            if self.congestion.is_none() {
                self.congestion = sys::congestion(&socket);
            }
            if fault.is_none() && self.own.busy_poll > 0 && sys::can_be_polled(&socket) {
                self.tally.busy_polled += 1;
            }
            if fault.is_some() {
                // Of what has failed nothing stays behind: no data on its way, no port.
                let _ = socket.set_linger(Some(Duration::ZERO));
            }
            drop(socket);
        }
        self.reactor.give_back(place);
        let now = monotonic();
        if slot.connection.moments.closed.is_some() {
            slot.connection.moments.closed = Some(now);
        }
        self.tally.pass(now);
        let payload = slot.connection.payload();
        self.tally.finish(slot.number, &slot.connection.moments, now, payload, fault, &tcp);
        self.tally.finished_port(slot.number, port);
        let most = IN_VAIN.max(u64::from(self.plan.connections));
        let hopeless = fault.is_some_and(Fault::ends_the_run) || self.tally.in_vain >= most;
        if hopeless && fault != Some(Fault::Cut) {
            self.ended.get_or_insert(Ended::GaveUp);
        }
    }

    /// Those that stand still for too long.
    fn expire(&mut self, now: Mono) {
        if now < self.earliest {
            return;
        }
        self.earliest = Mono::NEVER;
        for place in 0..self.plan.connections {
            let Some(slot) = &mut self.slots[place as usize] else { continue };
            let stalls = slot.moved + self.plan.timeout;
            if stalls <= now {
                let opening = slot.connection.is_opening();
                slot.connection.fail(if opening { Fault::ConnectTimeout } else { Fault::Stalled });
                self.finish(place);
            } else {
                self.earliest = self.earliest.min(stalls);
            }
        }
    }

    /// The run is over.
    fn cut(&mut self) {
        for place in 0..self.plan.connections {
            if let Some(slot) = &mut self.slots[place as usize] {
                slot.connection.fail(Fault::Cut);
                self.finish(place);
            }
        }
    }

    fn report(mut self, lasted: Duration, used: &Usage) -> Result<FetchReport, Error> {
        let ended = self.ended.unwrap_or(Ended::Done);
        let refusal = String::from_utf8_lossy(&self.refusal).into_owned();
        if self.tally.completed == 0
            && self.tally.failed > 0
            && let Some(fault) = self.tally.decisive_fault()
        {
            let (server, failed) = (self.plan.server, self.tally.failed);
            return Err(Error::GaveUp { server, failed, fault, refusal });
        }
        let wants_report = self.plan.wants_server_report && self.tally.started > 0;
        let server =
            if wants_report { result::request_report(self.plan, self.session) } else { None };
        let own = (self.plan.direction == Direction::Send).then_some(self.congestion);
        Ok(result::of(self.plan, &mut self.tally, ended, lasted, used, own, server))
    }
}

/// Of what a read or write said.
fn broken(errno: Errno) -> Fault {
    match errno {
        // No acknowledgement for too long: the kernel has given up.
        Errno::TIMEDOUT => Fault::Stalled,
        Errno::HOSTUNREACH | Errno::NETUNREACH => Fault::Unreachable,
        _ => Fault::Reset,
    }
}

/// Is what came after the answer the pattern?
fn verified(
    connection: &ClientConnection,
    at: Option<u64>,
    bytes: &[u8],
    pattern: &Pattern,
) -> bool {
    let (Some(after), None) = (connection.pattern_at(), connection.fault()) else { return true };
    if let Some(at) = at {
        return pattern.matches(at, bytes);
    }
    // The end of the answer was in these bytes.
    let head = ANSWER as u64;
    let rest = (after - head) as usize;
    pattern.matches(head, &bytes[bytes.len() - rest..])
}
