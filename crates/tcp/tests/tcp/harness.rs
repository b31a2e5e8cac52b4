//! A server in a thread, and clients of it.

use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use nightwatt_clock::meter::Stop;
use nightwatt_tcp::wire::{Name, Request, RequestKind};
use nightwatt_tcp::{Error, FetchReport, Plan, ServeReport, Server, ServerPlan, Until};

/// Long enough for every machine: a test that waits this long has failed.
pub(crate) const LONG: Duration = Duration::from_mins(1);

/// A server that serves.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    stop: Stop,
    thread: JoinHandle<Result<ServeReport, Error>>,
}

impl Serving {
    pub(crate) fn usual() -> Self {
        Self::by(|_| {})
    }

    /// At an address of its own: when it has ended, no other test listens there.
    pub(crate) fn alone() -> Self {
        Self::by(|plan| plan.listen = SocketAddr::new(nightwatt_needs::own_address(), 0))
    }

    /// On a free port of 127.0.0.1, unless the plan is changed.
    pub(crate) fn by(change: impl FnOnce(&mut ServerPlan)) -> Self {
        let mut plan = ServerPlan::new("127.0.0.1:0".parse().unwrap());
        change(&mut plan);
        let server = Server::bind(plan).unwrap();
        let address = server.address().unwrap();
        let stop = Stop::new().unwrap();
        let theirs = stop.clone();
        let thread = std::thread::spawn(move || server.run(&theirs));
        Self { address, stop, thread }
    }

    /// Of many connections at once, each once.
    pub(crate) fn plan(&self, connections: u32, segments: u64) -> Plan {
        Plan {
            connections,
            bytes: segments * 1460,
            until: Until { count: Some(u64::from(connections)), time: None },
            timeout: LONG,
            ..Plan::new(self.address)
        }
    }

    pub(crate) fn end(self) -> ServeReport {
        self.stop.stop();
        self.thread.join().unwrap().unwrap()
    }

    /// A connection that isn't made by this crate's client.
    pub(crate) fn stranger(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }
}

pub(crate) fn fetched(plan: &Plan) -> FetchReport {
    try_fetch(plan).unwrap()
}

pub(crate) fn try_fetch(plan: &Plan) -> Result<FetchReport, Error> {
    nightwatt_tcp::fetch(plan, &Stop::new().unwrap(), None)
}

/// A request by hand.
pub(crate) fn request(kind: RequestKind, bytes: u64) -> Request {
    Request {
        kind,
        nodelay: false,
        verify: false,
        discard: false,
        busy_poll: 0,
        session: 0x5eed,
        number: 0,
        buffer: 0,
        bytes,
        pacing: 0,
        congestion: Name::default(),
    }
}
