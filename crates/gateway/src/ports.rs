//! Sockets where datagrams of clients come in.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::datagrams::{self, Arrival, LONGEST, Socket, takes};
use crate::error::StartError;
use crate::listen::{Fronts, Inherited};
use crate::passthrough::Stopped;

/// A socket where datagrams of clients come in.
pub(crate) struct BoundPort {
    /// The configured address, whose port may be 0.
    pub(crate) configured: SocketAddr,
    /// The actual address.
    pub(crate) address: SocketAddr,
    socket: Socket,
}

impl BoundPort {
    /// Listens at an address, which is one of `all`.
    pub(crate) fn bind(
        configured: SocketAddr,
        all: &[SocketAddr],
        inherited: &mut Inherited,
    ) -> Result<Self, StartError> {
        let has_v4 = all.iter().any(|it| it.is_ipv4() && it.port() == configured.port());
        let failed = |source| StartError::Listen { key: "udp.listen", address: configured, source };
        let socket = match inherited.take_datagrams(configured) {
            Some(socket) => Socket::adopt(socket),
            None => Socket::bind(configured, has_v4),
        };
        let socket = socket.map_err(failed)?;
        let address = socket.address().map_err(failed)?;
        Ok(Self { configured, address, socket })
    }
}

/// A socket that is being served.
pub(crate) struct Port {
    pub(crate) configured: SocketAddr,
    pub(crate) address: SocketAddr,
    socket: Arc<Socket>,
    stop: watch::Sender<bool>,
    pause: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Port {
    /// Serves it.
    pub(crate) fn serve(bound: BoundPort, live: &Fronts) -> Self {
        let BoundPort { configured, address, socket } = bound;
        let (stop, pause) = (watch::Sender::new(false), watch::Sender::new(false));
        let socket = Arc::new(socket);
        let open = OpenPort { configured, address, socket: Arc::clone(&socket) };
        let task = tokio::spawn(open.run(live.clone(), stop.subscribe(), pause.subscribe()));
        Self { configured, address, socket, stop, pause, task }
    }

    /// The socket, for another process.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads no datagrams until [`go_on`](Self::go_on). Its sessions continue.
    pub(crate) fn pause(&self) {
        self.pause.send_replace(true);
    }

    /// After a pause: reads again.
    pub(crate) fn go_on(&self) {
        self.pause.send_replace(false);
    }

    /// Ends it, with its sessions.
    pub(crate) fn close(&self) {
        self.stop.send_replace(true);
    }

    /// After closing: returns when it has ended.
    pub(crate) async fn ended(self) {
        drop(self.socket);
        let _ = self.task.await;
    }

    /// Whether its task still runs.
    pub(crate) fn is_served(&self) -> bool {
        !self.task.is_finished()
    }
}

/// What the task of a port has.
struct OpenPort {
    configured: SocketAddr,
    address: SocketAddr,
    socket: Arc<Socket>,
}

impl OpenPort {
    async fn run(self, mut live: Fronts, mut stopped: Stopped, mut paused: watch::Receiver<bool>) {
        let mut buffer = vec![0; LONGEST];
        loop {
            let reads = !*paused.borrow_and_update();
            let received = tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => return,
                Ok(()) = paused.changed() => continue,
                received = self.socket.receive(&mut buffer), if reads => received,
            };
            match received {
                Ok(received) => {
                    let front = live.front.now();
                    let arrival = Arrival {
                        configured: self.configured,
                        address: self.address,
                        socket: &self.socket,
                        received,
                        bytes: &buffer[..received.length],
                    };
                    takes(&front.serving, &front.datagrams, &arrival, &stopped);
                }
                Err(error) => live.serving.now().cannot_accept("datagrams of", error).await,
            }
        }
    }
}

/// Listens for datagrams at each address of a configuration that is not open already.
pub(crate) fn bind(
    config: &Config,
    open: &[Port],
    inherited: &mut Inherited,
) -> Result<Vec<BoundPort>, StartError> {
    let all = datagrams::addresses(config);
    let new = all.iter().filter(|it| !open.iter().any(|port| port.configured == **it));
    new.map(|it| BoundPort::bind(*it, &all, inherited)).collect()
}
