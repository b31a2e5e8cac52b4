//! The server: all its connections in one thread.

mod listener;
mod server;
mod sessions;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use nightwatt_clock::meter::Stop;
use serde::Serialize;
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::Error;
use crate::info::TcpInfos;
use crate::limits;
use crate::usage::Usage;

/// How it is to serve.
#[derive(Debug, Clone)]
pub struct ServerPlan {
    /// Where it listens; port 0 is any that is free.
    pub listen: SocketAddr,
    /// Connections at once; more are refused.
    pub max_connections: u32,
    /// How long a client may take to send its request.
    pub request_timeout: Duration,
    /// How long a connection may stand still.
    pub idle_timeout: Duration,
    /// Records of this many connections are kept for clients that ask.
    pub records: usize,
}

impl ServerPlan {
    /// The usual one.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            max_connections: 10_000,
            request_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_mins(1),
            records: 10_000,
        }
    }
}

/// What it has done until its end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServeReport {
    /// The version of this form.
    pub schema: u32,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Those that did what they were for.
    pub completed: u64,
    /// Those that did not.
    pub failed: u64,
    /// How many failed in which way.
    pub faults: BTreeMap<&'static str, u64>,
    /// Connections that were refused.
    pub refused: u64,
    /// Questions for what is known of a session.
    pub reports: u64,
    /// Most connections at once.
    pub most: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// What the process used since it began to listen.
    pub cpu: Usage,
    /// What the kernel said of the completed ones.
    pub tcp: TcpInfos,
}

/// A server that listens, ready to run.
#[derive(Debug)]
pub struct Server {
    plan: ServerPlan,
    listener: TcpListener,
    /// Fewer than were asked for, if the system does not allow more.
    most: u32,
}

/// Clients that may wait to be accepted; the kernel's own limit (`net.core.somaxconn`) holds, too.
const BACKLOG: i32 = 4096;

impl Server {
    /// Listens.
    pub fn bind(plan: ServerPlan) -> Result<Self, Error> {
        let address = plan.listen;
        let allowed = u32::try_from(limits::descriptors()).unwrap_or(u32::MAX);
        let listen = || {
            let domain = Domain::for_address(address);
            let socket =
                Socket::new(domain, Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
            socket.set_reuse_address(true)?;
            if address.is_ipv6() {
                // `[::]` is every address, those of IPv4 with them.
                socket.set_only_v6(false)?;
            }
            socket.bind(&address.into())?;
            socket.listen(BACKLOG)?;
            Ok(TcpListener::from(socket))
        };
        let listener = listen().map_err(|source| Error::Listen { address, source })?;
        let most = plan.max_connections.min(allowed.saturating_sub(listener::SPARE)).max(1);
        Ok(Self { plan, listener, most })
    }

    /// Where it listens.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        let address = self.plan.listen;
        self.listener.local_addr().map_err(|source| Error::Listen { address, source })
    }

    /// Connections at once: fewer than the plan's if the system does not allow as many descriptors.
    pub const fn most(&self) -> u32 {
        self.most
    }

    /// Serves until it is stopped.
    pub fn run(self, stop: &Stop) -> Result<ServeReport, Error> {
        server::Loop::new(self.plan, self.listener, self.most, stop)?.run()
    }
}
