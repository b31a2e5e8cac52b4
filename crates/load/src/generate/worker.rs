//! One thread that sends its part of the schedule and takes in the answers.
//!
//! It waits in `poll` for the first of: the next request's due time, which the kernel keeps to the
//! nanosecond because the thread's timer slack is at its minimum; an answer; or the timeout of the
//! request that has waited longest. It looks at the time between any two events, so that answers
//! don't delay requests that are due. It allocates nothing per request, except the record of a
//! request if the user wants records.

use std::collections::VecDeque;
use std::iter::{Peekable, Skip, StepBy};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_energy::time::Mono;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};

use super::answer_reader::{AnswerReader, AtEnd, Progress};
use super::connection::{Connection, Flight, Written};
use super::limits::CpuWatch;
use super::sample::{Carrier, Fault, Sample};
use super::schedule::{Due, Schedule, Window};
use super::tally::Tally;
use super::{Live, Plan};
use crate::error::Error;

/// Answers are read in pieces of at most this.
const BUFFER: usize = 64 * 1024;

/// Events taken from the kernel at once.
const EVENTS: usize = 64;

/// Samples handed over at once.
const BATCH: usize = 1024;

/// Requests that may wait for connections, of all threads together: what comes due beyond is skipped.
pub(super) const OWED: usize = 1_000_000;

/// Requests whose time has come, between two looks at answers and at whether it was stopped.
const BURST: usize = 256;

/// After a stop, requests under way get this time to finish.
const DRAIN: Duration = Duration::from_secs(1);

/// A part of a plan, ready to run.
pub(super) struct Worker<'a> {
    plan: &'a Plan,
    window: Window,
    start: Mono,
    /// What is still to come; nothing once it was stopped.
    schedule: Option<Peekable<StepBy<Skip<Schedule>>>>,
    epoll: OwnedFd,
    /// By slot; none where one was closed.
    connections: Vec<Option<Connection>>,
    /// How often each slot was used: an event of an earlier connection is told by it.
    uses: Vec<u32>,
    free: Vec<usize>,
    /// Slots by place; the last one used is the first one reused.
    idle: Vec<Vec<usize>>,
    /// Connections there may be, of this thread.
    most: usize,
    open: usize,
    under_way: usize,
    /// Due, and without a connection.
    queue: VecDeque<Due>,
    /// Of which there may be so many.
    owed: usize,
    /// Nothing times out before this.
    earliest: Duration,
    buffer: Box<[u8]>,
    tally: Tally,
    samples: Option<SyncSender<Vec<Sample>>>,
    batch: Vec<Sample>,
}

impl<'a> Worker<'a> {
    /// The `number`-th of `threads`; times count from `start`.
    pub(super) fn new(
        plan: &'a Plan,
        number: usize,
        threads: usize,
        window: Window,
        start: Mono,
        samples: Option<SyncSender<Vec<Sample>>>,
    ) -> Result<Self, Error> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        let epoll = epoll.map_err(|errno| Error::Threads(errno.into()))?;
        // The first threads take what does not divide.
        let most = plan.connections / threads + usize::from(number < plan.connections % threads);
        Ok(Self {
            plan,
            window,
            start,
            schedule: Some(plan.schedule().skip(number).step_by(threads).peekable()),
            epoll,
            connections: Vec::new(),
            uses: Vec::new(),
            free: Vec::new(),
            idle: vec![Vec::new(); plan.mix.endpoints.len()],
            most: most.max(1),
            open: 0,
            under_way: 0,
            queue: VecDeque::new(),
            owed: OWED.div_ceil(threads),
            earliest: Duration::MAX,
            buffer: vec![0; BUFFER].into(),
            tally: Tally::default(),
            samples,
            batch: Vec::new(),
        })
    }

    fn now(&self) -> Duration {
        monotonic().since(self.start)
    }

    /// Sends and waits until all is over.
    pub(super) fn run(mut self, stop: &Stop, live: &Live) -> Result<Tally, Error> {
        // The default, 50 us, would be most of the lag. Where it cannot be set, the lag says so.
        let _ = nix::sys::prctl::set_timerslack(1);
        let failed = |errno: rustix::io::Errno| Error::Threads(errno.into());
        let never = Stop::new().map_err(Error::Threads)?;
        let mut events = Vec::with_capacity(EVENTS);
        let mut cpu = CpuWatch::begin();
        let mut drained = Duration::MAX;
        // Time does not count before the start; if it is stopped before, nothing is due.
        if stop.wait_until(self.start) == Woken::Stopped {
            self.schedule = None;
            self.tally.stopped = Some(Duration::ZERO);
        }
        loop {
            self.send_due();
            if self.schedule.is_some() && stop.is_stopped() {
                self.stop();
                drained = self.now() + DRAIN;
            }
            self.leave_behind();
            self.publish(live);
            let next = self.schedule.as_mut().and_then(|schedule| schedule.peek());
            let next = next.map_or(Duration::MAX, |due| due.at);
            if next == Duration::MAX && self.under_way == 0 && self.queue.is_empty() {
                break;
            }
            if self.now() >= drained {
                self.interrupt();
                continue;
            }
            let deadline = self.start + next.min(self.earliest).min(drained);
            let waited = if drained == Duration::MAX { stop } else { &never };
            if waited.readable_until(self.epoll.as_fd(), deadline) == Woken::Readable {
                let spare = rustix::buffer::spare_capacity(&mut events);
                match epoll::wait(&self.epoll, spare, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(errno) => return Err(failed(errno)),
                }
                for event in events.drain(..) {
                    let (data, flags) = (event.data.u64(), event.flags);
                    self.on_event(data, flags);
                    self.serve_queue();
                    self.send_due();
                }
            }
            // After what has come: an answer that is there is not given up because we are late.
            self.expire();
            cpu.look();
        }
        self.hand_over();
        self.publish(live);
        self.tally.cpu = cpu.end();
        Ok(self.tally)
    }

    fn publish(&mut self, live: &Live) {
        // Each thread adds what is new of its own.
        let (due, done) = self.tally.take_new();
        live.due.fetch_add(due, Ordering::Relaxed);
        live.done.fetch_add(done, Ordering::Relaxed);
    }

    /// Sends those whose time has come: not more at once than keeps it from answers, and from being
    /// stopped, for a moment.
    fn send_due(&mut self) {
        for _ in 0..BURST {
            let now = self.now();
            let Some(schedule) = &mut self.schedule else { return };
            let Some(due) = schedule.next_if(|due| due.at <= now) else { return };
            self.tally.due(self.window.holds(due.at));
            // Those that wait already go first.
            if self.queue.is_empty() && self.place(due, false) {
                continue;
            }
            if self.queue.len() < self.owed {
                self.enqueue(due);
            } else {
                let counted = self.window.holds(due.at);
                let skipped = Sample { counted, ..Self::over(due, Some(Fault::Skipped)) };
                self.tally.add(&skipped, self.window);
            }
        }
    }

    /// A rate may be so high that going through what is due takes longer than the run. When nothing of
    /// the rest could be answered in time any more, it is left alone.
    fn leave_behind(&mut self) {
        let over = self.plan.until.time.map(|end| end.saturating_add(self.plan.timeout));
        if over.is_some_and(|over| self.now() >= over)
            && self.schedule.take().is_some_and(|mut schedule| schedule.peek().is_some())
        {
            self.tally.left_behind = true;
        }
    }

    fn enqueue(&mut self, due: Due) {
        self.earliest = self.earliest.min(due.at + self.plan.timeout);
        self.queue.push_back(due);
    }

    /// Gives connections to those that wait, as long as there are any.
    fn serve_queue(&mut self) {
        while let Some(due) = self.queue.front().copied() {
            if !self.place(due, true) {
                return;
            }
            self.queue.pop_front();
        }
    }

    /// Sends a request on a connection, if there is or may be one.
    fn place(&mut self, due: Due, waited: bool) -> bool {
        let place = self.plan.mix.requests[due.wanted as usize].place;
        if let Some(slot) = self.idle[place].pop() {
            let flight = self.flight(due, waited, Carrier::Kept);
            if let Some(connection) = &mut self.connections[slot] {
                connection.flight = Some(flight);
            }
            self.under_way += 1;
            self.write(slot);
            return true;
        }
        if self.open >= self.most && !self.close_another_idle() {
            return false;
        }
        let flight = self.flight(due, waited, Carrier::Opened);
        self.under_way += 1;
        self.connect(place, flight);
        true
    }

    fn flight(&mut self, due: Due, waited: bool, carrier: Carrier) -> Flight {
        self.earliest = self.earliest.min(due.at + self.plan.timeout);
        let is_head = self.plan.mix.requests[due.wanted as usize].method == http::Method::HEAD;
        Flight {
            due,
            sent: self.now(),
            first_byte: None,
            written: 0,
            carrier,
            waited,
            reader: AnswerReader::new(is_head),
        }
    }

    /// Makes room for a connection to another place.
    fn close_another_idle(&mut self) -> bool {
        let Some(slot) = self.idle.iter_mut().find_map(Vec::pop) else { return false };
        self.close(slot);
        true
    }

    fn connect(&mut self, place: usize, flight: Flight) {
        let (due, sent, waited) = (flight.due, flight.sent, flight.waited);
        let failed = |fault| Sample {
            sent: Some(sent),
            carrier: Carrier::None,
            waited,
            ..Self::over(due, Some(fault))
        };
        let connection =
            match Connection::begin(place, self.plan.mix.endpoints[place].address, flight) {
                Ok(connection) => connection,
                Err(fault) => return self.finish(failed(fault)),
            };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.uses.push(0);
            self.connections.len() - 1
        });
        self.uses[slot] = self.uses[slot].wrapping_add(1);
        let data = EventData::new_u64(u64::from(self.uses[slot]) << 32 | slot as u64);
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        if epoll::add(&self.epoll, &connection, data, flags).is_err() {
            // There is a limit on what one user may watch, too.
            self.free.push(slot);
            return self.finish(failed(Fault::Descriptors));
        }
        let is_open = connection.is_open;
        self.connections[slot] = Some(connection);
        self.open += 1;
        self.tally.opened += 1;
        self.tally.most_open = self.tally.most_open.max(self.open);
        if is_open {
            self.write(slot);
        }
    }

    fn close(&mut self, slot: usize) {
        if self.connections[slot].take().is_some() {
            self.open -= 1;
            self.free.push(slot);
        }
    }

    fn on_event(&mut self, data: u64, flags: EventFlags) {
        let (slot, uses) = ((data & u64::from(u32::MAX)) as usize, (data >> 32) as u32);
        let is_current = self.uses.get(slot) == Some(&uses);
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        if !is_current {
            return;
        }
        if !connection.is_open {
            if !flags.intersects(EventFlags::OUT | EventFlags::ERR | EventFlags::HUP) {
                return;
            }
            if let Err(fault) = connection.opened() {
                return self.fail(slot, fault);
            }
        }
        let is_writing = connection.flight.as_ref().is_some_and(|flight| {
            flight.written < self.plan.mix.requests[flight.due.wanted as usize].bytes.len()
        });
        if is_writing && !self.write(slot) {
            return;
        }
        let at_end = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        if flags.intersects(EventFlags::IN | at_end) {
            self.read(slot, flags.intersects(at_end));
        }
    }

    /// Is the connection still there?
    fn write(&mut self, slot: usize) -> bool {
        let Some(connection) = &mut self.connections[slot] else { return false };
        let Some(flight) = &connection.flight else { return true };
        let request = &self.plan.mix.requests[flight.due.wanted as usize];
        match connection.write(request) {
            Ok(Written::All | Written::Part) => true,
            Err(fault) => {
                self.fail(slot, fault);
                false
            }
        }
    }

    /// Reads until there is nothing more. The kernel tells only of what is new, so that a piece
    /// shorter than the buffer is known to be the last one, unless the end was announced.
    fn read(&mut self, slot: usize, at_end: bool) {
        loop {
            let Some(connection) = &mut self.connections[slot] else { return };
            let length = match connection.read(&mut self.buffer) {
                Ok(Some(length)) => length,
                Ok(None) => return,
                Err(fault) => return self.fail(slot, fault),
            };
            let Some(flight) = &mut connection.flight else {
                // Closed by the server, or bytes that belong to no request.
                return self.drop_idle(slot);
            };
            if length == 0 {
                return match flight.reader.end() {
                    AtEnd::Whole => self.answered(slot, true),
                    AtEnd::Nothing => self.fail(slot, Fault::Closed),
                    AtEnd::Short => self.fail(slot, Fault::Short),
                };
            }
            if flight.first_byte.is_none() {
                flight.first_byte = Some(monotonic().since(self.start));
            }
            match flight.reader.feed(&self.buffer[..length]) {
                Ok(Progress::Whole) => return self.answered(slot, at_end),
                Ok(Progress::More) if length < self.buffer.len() && !at_end => return,
                Ok(Progress::More) => {}
                Err(_) => return self.fail(slot, Fault::BadAnswer),
            }
        }
    }

    fn drop_idle(&mut self, slot: usize) {
        if let Some(connection) = &self.connections[slot] {
            let place = connection.place;
            self.idle[place].retain(|idle| *idle != slot);
        }
        self.close(slot);
    }

    /// The whole answer is there, and perhaps the end of the connection.
    fn answered(&mut self, slot: usize, at_end: bool) {
        let Some(connection) = &mut self.connections[slot] else { return };
        let Some(flight) = connection.flight.take() else { return };
        let place = connection.place;
        let request = &self.plan.mix.requests[flight.due.wanted as usize];
        let is_written = flight.written == request.bytes.len();
        if self.plan.keep_alive && flight.reader.keep_alive() && is_written && !at_end {
            self.idle[place].push(slot);
        } else {
            self.close(slot);
        }
        self.finish(Self::flown(&flight, None));
    }

    /// There is no whole answer, and the connection is of no more use.
    fn fail(&mut self, slot: usize, fault: Fault) {
        let Some(connection) = &mut self.connections[slot] else { return };
        let place = connection.place;
        let Some(flight) = connection.flight.take() else { return self.drop_idle(slot) };
        self.close(slot);
        let request = &self.plan.mix.requests[flight.due.wanted as usize];
        // A kept connection that the server closed as the request left: as browsers do, once more.
        let is_race = flight.carrier == Carrier::Kept && flight.first_byte.is_none();
        if is_race && matches!(fault, Fault::Closed | Fault::Reset) && request.may_be_sent_again() {
            let reader = AnswerReader::new(request.method == http::Method::HEAD);
            let again = Flight { written: 0, carrier: Carrier::Again, reader, ..flight };
            return self.connect(place, again);
        }
        self.finish(Self::flown(&flight, Some(fault)));
    }

    /// Gives up what has waited too long.
    fn expire(&mut self) {
        let now = self.now();
        if now < self.earliest {
            return;
        }
        let limit = self.plan.timeout;
        while let Some(due) = self.queue.front().copied().filter(|due| due.at + limit <= now) {
            self.queue.pop_front();
            self.never_sent(due);
        }
        let mut earliest = self.queue.front().map_or(Duration::MAX, |due| due.at + limit);
        for slot in 0..self.connections.len() {
            let Some(connection) = &self.connections[slot] else { continue };
            let Some(flight) = &connection.flight else { continue };
            let deadline = flight.due.at + limit;
            if deadline > now {
                earliest = earliest.min(deadline);
                continue;
            }
            let is_open = connection.is_open;
            self.fail(slot, if is_open { Fault::Timeout } else { Fault::ConnectTimeout });
        }
        self.earliest = earliest;
        self.serve_queue();
    }

    /// Sends no more. What was due already is gone through as far as that takes but a moment.
    fn stop(&mut self) {
        let now = self.now();
        self.tally.stopped = Some(now);
        if let Some(mut schedule) = self.schedule.take() {
            let mut due = std::iter::from_fn(|| schedule.next_if(|due| due.at <= now));
            for due in due.by_ref().take(self.owed) {
                self.tally.due(self.window.holds(due.at));
                self.never_sent(due);
            }
            self.tally.left_behind |= due.next().is_some();
        }
        while let Some(due) = self.queue.pop_front() {
            self.never_sent(due);
        }
    }

    fn never_sent(&mut self, due: Due) {
        self.under_way += 1;
        self.finish(Sample { waited: true, ..Self::over(due, Some(Fault::Unsent)) });
    }

    /// Gives up what is under way.
    fn interrupt(&mut self) {
        for slot in 0..self.connections.len() {
            if self.connections[slot].as_ref().is_some_and(|one| one.flight.is_some()) {
                self.fail(slot, Fault::Interrupted);
            }
        }
    }

    /// A request of which no more is known than how it ended.
    fn over(due: Due, fault: Option<Fault>) -> Sample {
        Sample {
            number: due.number,
            wanted: due.wanted,
            intended: due.at,
            sent: None,
            first_byte: None,
            end: Duration::ZERO,
            status: 0,
            bytes: 0,
            fault,
            carrier: Carrier::None,
            waited: false,
            counted: false,
        }
    }

    fn flown(flight: &Flight, fault: Option<Fault>) -> Sample {
        Sample {
            sent: Some(flight.sent),
            first_byte: flight.first_byte,
            status: flight.reader.status(),
            bytes: flight.reader.body(),
            carrier: flight.carrier,
            waited: flight.waited,
            ..Self::over(flight.due, fault)
        }
    }

    fn finish(&mut self, sample: Sample) {
        self.under_way -= 1;
        let counted = self.window.holds(sample.intended);
        let sample = Sample { end: self.now(), counted, ..sample };
        self.tally.add(&sample, self.window);
        if self.samples.is_some() {
            self.batch.push(sample);
            if self.batch.len() >= BATCH {
                self.hand_over();
            }
        }
    }

    fn hand_over(&mut self) {
        if let Some(samples) = &self.samples {
            // If the receiver has stopped reading, it reports why itself.
            let _ = samples.send(std::mem::take(&mut self.batch));
        }
    }
}
