//! The server's loop.

use std::net::TcpListener;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_energy::time::Mono;
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use socket2::Socket;

use super::listener::{Accepted, ClientListener, SPARE};
use super::sessions::Sessions;
use super::{ServeReport, ServerPlan};
use crate::connection::Next;
use crate::connection::server::ServerConnection;
use crate::error::Error;
use crate::fault::Fault;
use crate::info::TcpInfos;
use crate::limits;
use crate::options::SocketOptions;
use crate::pattern::Pattern;
use crate::reactor::{Event, Reactor, Ready, TURN};
use crate::report::{ServerRecord, SessionReport};
use crate::sys;
use crate::transfer::{self, Buffer, ENOUGH, Moved};
use crate::usage::Usage;
use crate::wire::{ANSWER, REQUEST, Request, RequestKind, ServerAnswer, Status};

/// Clients let in between two looks at the others.
const ACCEPT_BATCH: usize = 256;

/// How long a report waits for connections whose end has not been seen.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// A report on its way: the fixed part, and then records as they stand in the ring.
#[derive(Clone, Copy)]
struct Report {
    /// Until when it waits for the session's other connections, unless it is on its way.
    waits: Option<Mono>,
    session: SessionReport,
    records: u64,
    /// Pieces written: the fixed part is the first.
    pieces: u64,
    /// Where the record lies that is written now.
    from: usize,
    /// Bytes of that piece that are written.
    at: usize,
}

impl Report {
    const fn is_on_its_way(&self) -> bool {
        self.waits.is_none() && self.pieces <= self.records
    }
}

struct Slot {
    socket: Socket,
    connection: ServerConnection,
    request: Option<Request>,
    report: Option<Box<Report>>,
    ready: Ready,
    begun: Mono,
    moved: Mono,
}

#[derive(Default)]
struct Counts {
    accepted: u64,
    completed: u64,
    refused: u64,
    reports: u64,
    most: u64,
    bytes: u64,
    faults: [u64; Fault::COUNT],
    tcp: TcpInfos,
}

/// The server, ready to run.
pub(super) struct Loop {
    plan: ServerPlan,
    listener: ClientListener,
    reactor: Reactor,
    slots: Vec<Option<Slot>>,
    most: u32,
    open: u32,
    /// Reports that wait.
    waiting: u32,
    /// Nothing times out before this.
    earliest: Mono,
    sessions: Sessions,
    pattern: Pattern,
    buffer: Buffer,
    counts: Counts,
    /// What this kernel can send with, for refusals.
    congestions: String,
}

impl Loop {
    pub(super) fn new(
        plan: ServerPlan,
        listener: TcpListener,
        most: u32,
        stop: &Stop,
    ) -> Result<Self, Error> {
        let places = most + SPARE;
        let reactor = Reactor::new(places, stop).map_err(Error::Epoll)?;
        Ok(Self {
            listener: ClientListener::new(listener, &reactor)?,
            reactor,
            slots: (0..places).map(|_| None).collect(),
            most,
            open: 0,
            waiting: 0,
            earliest: Mono::NEVER,
            sessions: Sessions::new(plan.records),
            plan,
            pattern: Pattern::default(),
            buffer: Buffer::default(),
            counts: Counts::default(),
            congestions: limits::congestions(),
        })
    }

    pub(super) fn run(mut self) -> Result<ServeReport, Error> {
        let before = Usage::now();
        let mut stopped = false;
        while !stopped {
            let deadline = self.earliest.min(self.listener.resumes_at());
            let events = self.reactor.wait(deadline).map_err(Error::Epoll)?;
            let in_line = self.reactor.in_line();
            for index in 0..events {
                match self.reactor.event(index) {
                    Event::Stop => stopped = true,
                    Event::Listener => self.let_in()?,
                    Event::Slot(place, ready) => self.on_event(place, ready),
                    Event::Stale => {}
                }
            }
            for _ in 0..in_line {
                let Some(place) = self.reactor.next_in_line() else { break };
                self.work(place);
            }
            let now = monotonic();
            if now >= self.listener.resumes_at() || self.open < self.most {
                self.listener.resume(&self.reactor)?;
            }
            self.expire(now);
        }
        Ok(self.end(&Usage::now().since(&before)))
    }

    fn let_in(&mut self) -> Result<(), Error> {
        for _ in 0..ACCEPT_BATCH {
            let now = monotonic();
            match self.listener.accept(&self.reactor, now)? {
                Accepted::None => break,
                Accepted::Gone => {}
                Accepted::Client(socket) => self.welcome(socket, now),
            }
        }
        Ok(())
    }

    fn welcome(&mut self, socket: Socket, now: Mono) {
        // Where even the places of those that are refused are taken, it is closed without a word.
        let Some(place) = self.reactor.take() else {
            self.counts.refused += 1;
            return;
        };
        let mut connection = ServerConnection::new();
        if self.open >= self.most {
            connection.refuse(Status::Full, &[b"it has as many connections as it may"]);
        }
        if self.reactor.watch(&socket, place).is_err() {
            self.reactor.give_back(place);
            self.counts.refused += 1;
            return;
        }
        self.open += 1;
        self.counts.accepted += 1;
        self.counts.most = self.counts.most.max(u64::from(self.open));
        self.earliest = self.earliest.min(now + self.plan.request_timeout);
        self.slots[place as usize] = Some(Slot {
            socket,
            connection,
            request: None,
            report: None,
            ready: Ready::default(),
            begun: now,
            moved: now,
        });
    }

    fn on_event(&mut self, place: u32, ready: Ready) {
        let Some(slot) = &mut self.slots[place as usize] else { return };
        slot.ready.read |= ready.read;
        slot.ready.write |= ready.write;
        slot.ready.end |= ready.end;
        self.work(place);
    }

    /// Goes on with a connection as long as it can and its turn lasts.
    fn work(&mut self, place: u32) {
        let mut moved = 0;
        for _ in 0..TURN {
            let Some(slot) = &mut self.slots[place as usize] else { return };
            let reports = slot.report.as_ref().is_some_and(|report| report.is_on_its_way());
            match slot.connection.next() {
                Next::Close => return self.finish(place),
                Next::Shutdown => {
                    // If it cannot be, the socket is broken, which reading will show.
                    let _ = shutdown(&slot.socket, Shutdown::Write);
                    slot.connection.shut_down();
                }
                Next::Write(_) if slot.ready.write => moved += self.write(place),
                Next::Read if reports && slot.ready.write => self.write_report(place),
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
        let Next::Write(piece) = slot.connection.next() else { return 0 };
        match transfer::write(&slot.socket, &piece, &self.pattern) {
            Ok(moved) => {
                slot.ready.write = matches!(moved, Moved::Bytes(_));
                if moved.bytes() > 0 {
                    slot.connection.wrote(moved.bytes());
                    slot.moved = monotonic();
                }
                return moved.bytes();
            }
            Err(errno) => slot.connection.fail(broken(errno)),
        }
        0
    }

    fn read(&mut self, place: u32) -> u64 {
        let Some(slot) = &mut self.slots[place as usize] else { return 0 };
        let request = slot.request.as_ref();
        let discards = request.is_some_and(|request| request.discard)
            && slot.connection.payload_left().is_some_and(|left| left > 0);
        let read = if discards {
            self.buffer.discard(&slot.socket)
        } else {
            self.buffer.read(&slot.socket)
        };
        let length = match read {
            Ok(Some(moved)) => {
                slot.ready.read = slot.ready.end || matches!(moved, Moved::Bytes(_));
                moved.bytes()
            }
            Ok(None) => {
                slot.connection.ended();
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
        slot.moved = monotonic();
        if discards {
            slot.connection.discarded(length);
            return length;
        }
        let bytes = self.buffer.bytes(length);
        let verifies = request.is_some_and(|request| request.verify);
        let at = slot.connection.pattern_at().filter(|_| verifies);
        let received = slot.connection.read(bytes);
        if at.is_some_and(|at| !self.pattern.matches(at, bytes)) {
            slot.connection.fail(Fault::Corrupt);
        }
        if let Some(request) = received {
            self.decide(place, &request, length);
        }
        length
    }

    /// A request is whole; this many bytes came with its end.
    fn decide(&mut self, place: u32, request: &Request, length: u64) {
        let Some(slot) = &mut self.slots[place as usize] else { return };
        // One loop is for all connections, so what the last one asked for holds.
        let polls = self.reactor.busy_poll(request.busy_poll);
        if request.kind == RequestKind::Report {
            return self.decide_report(place, request);
        }
        let options = SocketOptions {
            congestion: request.congestion,
            pacing: request.pacing,
            send_buffer: if request.kind == RequestKind::Fetch { request.buffer } else { 0 },
            receive_buffer: if request.kind == RequestKind::Send { request.buffer } else { 0 },
            busy_poll: request.busy_poll,
            nodelay: request.nodelay,
            mss: 0,
        };
        let polls = polls.map_err(|error| ("--busy-poll", error));
        if let Err((option, _)) = polls.and_then(|()| options.set(&slot.socket)) {
            let (status, text): (_, [&[u8]; 2]) = match option {
                "--congestion" => {
                    (Status::Congestion, [b"its kernel has: ", self.congestions.as_bytes()])
                }
                option => (Status::Option, [b"its kernel refused ", option.as_bytes()]),
            };
            return slot.connection.refuse(status, &text);
        }
        slot.request = Some(*request);
        self.sessions.begin(request.session, slot.begun);
        if self.sessions.wants_congestion(request.session) {
            self.sessions.congestion(request.session, sys::congestion(&slot.socket));
        }
        slot.connection.accept(request);
        // What came behind the request is the first of the payload.
        let more =
            slot.connection.payload(RequestKind::Send).saturating_sub(REQUEST as u64).min(length);
        if request.verify && request.kind == RequestKind::Send && more > 0 {
            let bytes = self.buffer.bytes(length);
            let payload = &bytes[bytes.len() - more as usize..];
            if !self.pattern.matches(REQUEST as u64, payload) {
                slot.connection.fail(Fault::Corrupt);
            }
        }
    }

    fn decide_report(&mut self, place: u32, request: &Request) {
        let now = monotonic();
        let known = self.sessions.report(request.session).is_some();
        let Some(slot) = &mut self.slots[place as usize] else { return };
        if !known {
            return slot
                .connection
                .refuse(Status::Session, &[b"it does not know this session any more"]);
        }
        slot.request = Some(*request);
        slot.connection.accept(request);
        slot.report = Some(Box::new(Report {
            waits: Some(now + REPORT_TIMEOUT),
            session: SessionReport::default(),
            records: 0,
            pieces: 0,
            from: 0,
            at: 0,
        }));
        self.waiting += 1;
        self.earliest = self.earliest.min(now + REPORT_TIMEOUT);
        if self.sessions.is_quiet(request.session) {
            self.begin_report(place);
        }
    }

    /// The report will wait no longer.
    fn begin_report(&mut self, place: u32) {
        let Some(slot) = &mut self.slots[place as usize] else { return };
        let (Some(request), Some(report)) = (&slot.request, &mut slot.report) else { return };
        if report.waits.take().is_some() {
            self.waiting -= 1;
            self.counts.reports += 1;
            report.session = self.sessions.report(request.session).unwrap_or_default();
            report.records = self.sessions.count(request.session, request.bytes);
            report.from = self.sessions.oldest();
            self.reactor.queue(place);
        }
    }

    fn write_report(&mut self, place: u32) {
        let Some(slot) = &mut self.slots[place as usize] else { return };
        let (Some(request), Some(report)) = (&slot.request, &mut slot.report) else { return };
        let mut head = [0; ANSWER + SessionReport::BYTES];
        let mut next = report.from;
        let record;
        let piece: &[u8] = if report.pieces == 0 {
            let length = SessionReport::BYTES as u64 + report.records * ServerRecord::BYTES as u64;
            let answer = ServerAnswer { status: Status::Fine, length: length as u32 };
            head[..ANSWER].copy_from_slice(&answer.to_bytes());
            head[ANSWER..].copy_from_slice(&report.session.to_wire(report.records));
            &head
        } else {
            let found = self.sessions.record(request.session, report.from);
            next = found.0;
            record = found.1.to_wire();
            &record
        };
        match send(&slot.socket, &piece[report.at..], SendFlags::NOSIGNAL) {
            Ok(written) => {
                slot.moved = monotonic();
                report.at += written;
                if report.at == piece.len() {
                    report.pieces += 1;
                    report.at = 0;
                    report.from = next;
                }
                if report.pieces > report.records {
                    slot.connection.reported();
                }
            }
            Err(Errno::AGAIN) => slot.ready.write = false,
            Err(errno) => slot.connection.fail(broken(errno)),
        }
    }

    /// A connection is over: a last look, and its place is free.
    fn finish(&mut self, place: u32) {
        let Some(slot) = self.slots[place as usize].take() else { return };
        self.open -= 1;
        let fault = slot.connection.fault();
        let now = monotonic();
        if fault.is_some_and(|fault| !matches!(fault, Fault::Denied(_))) {
            // Data that the client won't read needn't stay in the kernel either.
            let _ = slot.socket.set_linger(Some(Duration::ZERO));
        }
        match slot.request {
            Some(request) if request.kind != RequestKind::Report => {
                let record = ServerRecord {
                    number: request.number,
                    fault,
                    bytes: slot.connection.payload(request.kind),
                    lasted_ns: now.since(slot.begun).as_nanos() as u64,
                    tcp: sys::tcp_info(&slot.socket),
                };
                self.count(&record);
                self.sessions.end(request.session, &record, now);
                drop(slot.socket);
                self.reactor.give_back(place);
                self.wake_reports(request.session);
                return;
            }
            Some(_) => {
                if slot.report.is_some_and(|report| report.waits.is_some()) {
                    self.waiting -= 1;
                }
            }
            None if matches!(fault, Some(Fault::Denied(_))) => self.counts.refused += 1,
            None => self.counts.faults[fault.unwrap_or(Fault::Closed).code()] += 1,
        }
        drop(slot.socket);
        self.reactor.give_back(place);
    }

    fn count(&mut self, record: &ServerRecord) {
        self.counts.bytes += record.bytes;
        match record.fault {
            None => {
                self.counts.completed += 1;
                self.counts.tcp.add(&record.tcp);
            }
            Some(fault) => self.counts.faults[fault.code()] += 1,
        }
    }

    /// Reports that have waited for the last connection of a session.
    fn wake_reports(&mut self, session: u64) {
        if self.waiting == 0 || !self.sessions.is_quiet(session) {
            return;
        }
        for place in 0..self.slots.len() as u32 {
            let slot = self.slots[place as usize].as_ref();
            let request = slot.filter(|slot| slot.report.is_some()).and_then(|slot| slot.request);
            if request.is_some_and(|request| request.session == session) {
                self.begin_report(place);
            }
        }
    }

    /// When a connection is given up, or its report waits no longer.
    fn deadline(&self, slot: &Slot) -> Mono {
        if slot.connection.awaits_request() {
            return slot.begun + self.plan.request_timeout;
        }
        let waits = slot.report.as_ref().and_then(|report| report.waits);
        waits.unwrap_or(slot.moved + self.plan.idle_timeout)
    }

    fn expire(&mut self, now: Mono) {
        if now < self.earliest {
            return;
        }
        self.earliest = Mono::NEVER;
        for place in 0..self.slots.len() {
            let Some(slot) = &self.slots[place] else { continue };
            let deadline = self.deadline(slot);
            if deadline > now {
                self.earliest = self.earliest.min(deadline);
                continue;
            }
            let waits = slot.report.as_ref().is_some_and(|report| report.waits.is_some());
            if waits {
                self.begin_report(place as u32);
                self.earliest = self.earliest.min(now + self.plan.idle_timeout);
            } else if let Some(slot) = &mut self.slots[place] {
                slot.connection.fail(Fault::Stalled);
                self.finish(place as u32);
            }
        }
    }

    fn end(mut self, used: &Usage) -> ServeReport {
        for place in 0..self.slots.len() {
            if let Some(slot) = &mut self.slots[place] {
                slot.connection.fail(Fault::Cut);
                self.finish(place as u32);
            }
        }
        let each = self.counts.faults.iter().enumerate().filter(|(_, count)| **count > 0);
        let faults = each.filter_map(|(code, count)| Some((Fault::of(code)?.name(), *count)));
        ServeReport {
            schema: 1,
            accepted: self.counts.accepted,
            completed: self.counts.completed,
            failed: self.counts.faults.iter().sum(),
            faults: faults.collect(),
            refused: self.counts.refused,
            reports: self.counts.reports,
            most: self.counts.most,
            bytes: self.counts.bytes,
            cpu: *used,
            tcp: self.counts.tcp,
        }
    }
}

/// Of what a read or write said.
fn broken(errno: Errno) -> Fault {
    if errno == Errno::TIMEDOUT { Fault::Stalled } else { Fault::Reset }
}
