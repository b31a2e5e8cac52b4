//! The client: keeps a fixed number of connections under way, in one thread.

mod client;
mod result;

use std::net::SocketAddr;
use std::time::Duration;

use nightwatt_clock::meter::Stop;
use socket2::{Domain, Protocol, Socket, Type};

pub use self::result::{CpuPer, CpuReport, Ended, FetchReport, ServerSide};
use crate::error::Error;
use crate::limits;
use crate::options::SocketOptions;
use crate::tally::Second;
use crate::wire::{ANSWER, Name, REQUEST, Request, RequestKind};

/// The side that sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The server.
    Fetch,
    /// The client.
    Send,
}

/// When no more connections are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Until {
    /// After this many connections.
    pub count: Option<u64>,
    /// After this time; connections under way are cut off.
    pub time: Option<Duration>,
}

/// What to do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where the server listens.
    pub server: SocketAddr,
    /// Connections at once.
    pub connections: u32,
    /// Bytes of each.
    pub bytes: u64,
    /// The side that sends them.
    pub direction: Direction,
    /// Until when.
    pub until: Until,
    /// Options of sockets. Congestion control, pacing and send buffer are the sending side's, the
    /// receive buffer is the receiving side's, the rest is for both.
    pub options: SocketOptions,
    /// The receiver compares every byte with what was sent.
    pub verify: bool,
    /// The receiver's kernel drops the bytes instead of copying them to the program.
    pub discard: bool,
    /// The longest time for which a connection may stand still.
    pub timeout: Duration,
    /// Keep records of at most this many connections.
    pub records: usize,
    /// Ask the server at the end what it knows of them.
    pub wants_server_report: bool,
}

impl Plan {
    /// One connection of ten segments, once.
    pub fn new(server: SocketAddr) -> Self {
        Self {
            server,
            connections: 1,
            bytes: 14_600,
            direction: Direction::Fetch,
            until: Until { count: Some(1), time: None },
            options: SocketOptions::default(),
            verify: false,
            discard: false,
            timeout: Duration::from_mins(1),
            records: 1000,
            wants_server_report: true,
        }
    }

    /// Can it be done at all?
    fn check(&self) -> Result<(), Error> {
        let least = match self.direction {
            Direction::Fetch => ANSWER,
            Direction::Send => REQUEST,
        } as u64;
        if self.bytes < least {
            return Err(Error::TooShort { bytes: self.bytes, least });
        }
        if i64::try_from(self.bytes).is_err() {
            return Err(Error::TooLong);
        }
        limits::prepare(u64::from(self.connections))?;
        self.try_options()
    }

    /// What is set of our own sockets.
    fn own_options(&self) -> SocketOptions {
        match self.direction {
            Direction::Fetch => SocketOptions {
                congestion: Name::default(),
                pacing: 0,
                send_buffer: 0,
                ..self.options
            },
            Direction::Send => SocketOptions { receive_buffer: 0, ..self.options },
        }
    }

    /// Tries the options on a socket that isn't connected, to report at once what the kernel refuses.
    fn try_options(&self) -> Result<(), Error> {
        let socket = Socket::new(
            Domain::for_address(self.server),
            Type::STREAM.cloexec(),
            Some(Protocol::TCP),
        );
        let socket = socket.map_err(|source| Error::Option { option: "a TCP socket", source })?;
        let options = self.own_options();
        options.set(&socket).map_err(|(option, source)| match option {
            "--congestion" => Error::Congestion {
                wanted: options.congestion.as_str().to_owned(),
                offered: limits::congestions(),
            },
            option => Error::Option { option, source },
        })
    }

    fn request(&self, session: u64, number: u64) -> Request {
        let options = &self.options;
        let (buffer, pacing, congestion) = match self.direction {
            Direction::Fetch => (options.send_buffer, options.pacing, options.congestion),
            Direction::Send => (options.receive_buffer, 0, Name::default()),
        };
        Request {
            kind: match self.direction {
                Direction::Fetch => RequestKind::Fetch,
                Direction::Send => RequestKind::Send,
            },
            nodelay: options.nodelay,
            verify: self.verify,
            discard: self.discard,
            busy_poll: options.busy_poll,
            session,
            // After four thousand million connections the numbers start again at 0.
            number: number as u32,
            buffer,
            bytes: self.bytes,
            pacing,
            congestion,
        }
    }
}

/// Does what the plan says. `on_second` is called once a second; when it is not wanted, nothing wakes the
/// loop for it.
pub fn fetch(
    plan: &Plan,
    stop: &Stop,
    on_second: Option<&mut dyn FnMut(&Second)>,
) -> Result<FetchReport, Error> {
    plan.check()?;
    client::Client::new(plan, stop)?.run(on_second)
}
