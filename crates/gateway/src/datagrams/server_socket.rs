//! The socket of a session to its service. Its local port is what a late answer finds it by: the port rests when the
//! session is over, before another session may have it.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use nightwatt_policy::resting_ports::RestingPorts;
use rustix::io::Errno;
use tokio::net::UdpSocket;

/// Ports that the kernel may propose until one does not rest. It chooses at random, and at most six of ten rest.
const TRIES: usize = 64;

/// The local ports of sessions, of all services together.
#[derive(Debug, Default)]
pub(crate) struct Ports(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    used: HashSet<u16>,
    resting: RestingPorts,
}

impl Ports {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ports that a new process must not use at once.
    pub(crate) fn all(&self) -> Vec<u16> {
        let known = self.known();
        known.used.iter().copied().chain(known.resting.all()).collect()
    }

    /// Ports that another process has used until now.
    pub(crate) fn rest(&self, now: Mono, ports: &[u16]) {
        let mut known = self.known();
        for port in ports {
            known.resting.rest(now, *port);
        }
    }

    /// Whether a session has the port from now on.
    fn begins(&self, port: u16) -> bool {
        let mut known = self.known();
        let is_free = !known.resting.rests(port);
        if is_free {
            known.used.insert(port);
        }
        is_free
    }

    fn ends(&self, now: Mono, port: u16) {
        let mut known = self.known();
        known.used.remove(&port);
        known.resting.rest(now, port);
    }
}

/// A connected socket: it takes datagrams only from the service.
pub(super) struct ServerSocket {
    inner: UdpSocket,
    lease: Lease,
}

/// A port that a session has.
struct Lease {
    ports: Arc<Ports>,
    clock: Clock,
    port: u16,
}

impl Drop for ServerSocket {
    fn drop(&mut self) {
        // The socket is closed after this.
        self.lease.ports.ends(self.lease.clock.now().mono, self.lease.port);
    }
}

impl Deref for ServerSocket {
    type Target = UdpSocket;

    fn deref(&self) -> &UdpSocket {
        &self.inner
    }
}

impl ServerSocket {
    /// A socket to a service, from a port that no other session has had lately.
    pub(super) fn open(to: SocketAddr, ports: &Arc<Ports>, clock: &Clock) -> io::Result<Self> {
        if !ports.known().resting.has_room(clock.now().mono) {
            return Err(Errno::ADDRNOTAVAIL.into());
        }
        let any: IpAddr =
            if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        // Those that rest stay bound meanwhile, so that the kernel proposes others.
        let mut resting = Vec::new();
        for _ in 0..TRIES {
            let socket = std::net::UdpSocket::bind((any, 0)).map_err(no_port_left)?;
            socket.set_nonblocking(true)?;
            let port = socket.local_addr()?.port();
            if !ports.begins(port) {
                resting.push(socket);
                continue;
            }
            let inner =
                UdpSocket::from_std(socket).inspect_err(|_| ports.ends(clock.now().mono, port))?;
            let lease = Lease { ports: Arc::clone(ports), clock: clock.clone(), port };
            let opened = Self { inner, lease };
            rustix::net::connect(&opened.inner, &to)?;
            // What came before, may be of anyone.
            while rustix::net::recv(&opened.inner, &mut [0_u8; 1], rustix::net::RecvFlags::DONTWAIT)
                .is_ok()
            {}
            return Ok(opened);
        }
        Err(Errno::ADDRNOTAVAIL.into())
    }
}

/// Of a port that the kernel chooses, "address in use" means that none is left.
fn no_port_left(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::AddrInUse { Errno::ADDRNOTAVAIL.into() } else { error }
}
