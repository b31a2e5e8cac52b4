//! Waiting for many sockets in one thread: epoll, notified of each change once, and a line for those that
//! could go on when their turn was over.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_energy::time::Mono;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use crate::sys;

/// Events taken from the kernel at once.
const EVENTS: usize = 512;

/// Steps of one connection before it is another one's turn. A turn also ends with the first chunk that
/// was moved: what was written a moment ago is read while it is still in the caches.
pub(crate) const TURN: usize = 16;

/// What is watched beside connections.
const STOP: u32 = u32::MAX;
const LISTENER: u32 = u32::MAX - 1;

/// What a socket can do, as far as the kernel has reported and nothing has shown otherwise since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ready {
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// The peer has ended or cut it: reading goes on until that shows.
    pub(crate) end: bool,
}

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A stop of the loop was requested.
    Stop,
    /// A connection waits to be accepted.
    Listener,
    /// A connection can do something that it could not.
    Slot(u32, Ready),
    /// Of a connection that is over.
    Stale,
}

/// The loop's eyes, and which places are free.
pub(crate) struct Reactor {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    /// How many times each place was used: this identifies events of an earlier connection.
    uses: Box<[u32]>,
    free: Vec<u32>,
    /// Those that could go on.
    line: VecDeque<u32>,
    in_line: Box<[bool]>,
    /// It looks at cards for this many microseconds before it sleeps.
    busy_poll: u32,
}

impl Reactor {
    /// For this many connections at once, until it is stopped.
    pub(crate) fn new(places: u32, stop: &Stop) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = EventData::new_u64(u64::from(STOP));
        epoll::add(&epoll, stop, data, EventFlags::IN)?;
        Ok(Self {
            epoll,
            events: Vec::with_capacity(EVENTS),
            uses: vec![0; places as usize].into(),
            // The first places are taken first, so that few connections use little memory.
            free: (0..places).rev().collect(),
            line: VecDeque::with_capacity(places as usize),
            in_line: vec![false; places as usize].into(),
            busy_poll: 0,
        })
    }

    /// From now on it looks at the cards of its sockets for this many microseconds before it sleeps.
    pub(crate) fn busy_poll(&mut self, microseconds: u32) -> io::Result<()> {
        if microseconds != self.busy_poll {
            sys::set_busy_poll(&self.epoll, microseconds)?;
            self.busy_poll = microseconds;
        }
        Ok(())
    }

    /// Starts or stops watching the listening socket.
    pub(crate) fn listen(&self, listener: impl AsFd, first: bool, on: bool) -> io::Result<()> {
        let data = EventData::new_u64(u64::from(LISTENER));
        let flags = if on { EventFlags::IN } else { EventFlags::empty() };
        if first {
            epoll::add(&self.epoll, listener, data, flags)?;
        } else {
            epoll::modify(&self.epoll, listener, data, flags)?;
        }
        Ok(())
    }

    /// A place for a connection, if there is one.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let place = self.free.pop()?;
        self.uses[place as usize] = self.uses[place as usize].wrapping_add(1);
        Some(place)
    }

    /// A connection is over. Its socket is no longer watched once it is closed.
    pub(crate) fn give_back(&mut self, place: u32) {
        // Whatever the kernel still has of it is of the past.
        self.uses[place as usize] = self.uses[place as usize].wrapping_add(1);
        self.free.push(place);
    }

    /// Watches a connection's socket for everything.
    pub(crate) fn watch(&self, socket: impl AsFd, place: u32) -> io::Result<()> {
        let data = u64::from(self.uses[place as usize]) << 32 | u64::from(place);
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(data), flags)?)
    }

    /// Waits until something happens, at most until the deadline; does not wait while connections are in
    /// line. Returns how many events there are.
    pub(crate) fn wait(&mut self, deadline: Mono) -> io::Result<usize> {
        let left = match deadline {
            _ if !self.line.is_empty() => Some(Timespec { tv_sec: 0, tv_nsec: 0 }),
            Mono::NEVER => None,
            deadline => Timespec::try_from(deadline.since(monotonic())).ok(),
        };
        self.events.clear();
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut self.events),
            left.as_ref(),
        ) {
            Ok(_) | Err(Errno::INTR) => Ok(self.events.len()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// One of the events.
    pub(crate) fn event(&self, index: usize) -> Event {
        let (data, flags) = (self.events[index].data.u64(), self.events[index].flags);
        let (place, uses) = ((data & u64::from(u32::MAX)) as u32, (data >> 32) as u32);
        match place {
            STOP => Event::Stop,
            LISTENER => Event::Listener,
            place if self.uses.get(place as usize) == Some(&uses) => {
                let end = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
                let end = flags.intersects(end);
                Event::Slot(
                    place,
                    Ready {
                        read: end || flags.contains(EventFlags::IN),
                        write: flags
                            .intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR),
                        end,
                    },
                )
            }
            _ => Event::Stale,
        }
    }

    /// A connection goes on when the others had their turn.
    pub(crate) fn queue(&mut self, place: u32) {
        if !std::mem::replace(&mut self.in_line[place as usize], true) {
            self.line.push_back(place);
        }
    }

    /// Those in line now.
    pub(crate) fn in_line(&self) -> usize {
        self.line.len()
    }

    /// The next one in line.
    pub(crate) fn next_in_line(&mut self) -> Option<u32> {
        let place = self.line.pop_front()?;
        self.in_line[place as usize] = false;
        Some(place)
    }
}
