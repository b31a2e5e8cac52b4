//! The process that took over, as the previous process sees it: it wakes the server for clients that still wait in the
//! previous process, and keeps it awake for those that are still served there.

use std::io::{Error as IoError, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_policy::lifecycle::Phase;
use nightwatt_power::probe::{self, Probe};
use nightwatt_power::{Controller, Error, Observed, Work};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use crate::control::{Order, Reply, ask};
use crate::supervisor::{ServerControl, Supervisor};

/// Timeout for its answer. It may be busy starting.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Pause before another attempt to borrow a server.
const AGAIN: Duration = Duration::from_secs(1);

/// Controls one server by asking another process.
#[derive(Debug)]
pub(crate) struct Successor {
    name: String,
    socket: PathBuf,
    clock: Clock,
}

impl Successor {
    pub(crate) fn new(supervisor: &Supervisor, socket: &Path) -> Self {
        let (name, clock) = (supervisor.name().to_owned(), supervisor.clock().clone());
        Self { name, socket: socket.to_owned(), clock }
    }

    /// The control of the server through it.
    pub(crate) fn server_control(self, clock: &Clock) -> ServerControl {
        let probe = Probe::new(probe::Config::Controller, clock.clone());
        ServerControl { controller: Box::new(self), probe, neighbour: None }
    }

    async fn ask(&self, order: Order) -> Result<Reply, Error> {
        let failed = |source| Error::Unreachable {
            whom: "the process that took over".to_owned(),
            hint: "its log may say why",
            source,
        };
        match self.clock.timeout(TIMEOUT, ask(&self.socket, &order)).await {
            Ok(Ok(Reply::Error(why))) => Err(failed(IoError::other(why))),
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(failed(IoError::other(error))),
            Err(_) => Err(failed(ErrorKind::TimedOut.into())),
        }
    }
}

impl Controller for Successor {
    fn wake(&self) -> Work<'_, ()> {
        Box::pin(async { self.ask(Order::Wake { site: Some(self.name.clone()) }).await.map(drop) })
    }

    fn sleep(&self) -> Work<'_, ()> {
        let reasons = "another process looks after it now".to_owned();
        Box::pin(std::future::ready(Err(Error::Inhibited { reasons })))
    }

    fn state(&self) -> Work<'_, Observed> {
        Box::pin(async {
            let Reply::Status(status) = self.ask(Order::Status).await? else {
                return Ok(Observed::Unknown);
            };
            Ok(match status.state_of(&self.name) {
                Some(state) if state == Phase::Awake.as_str() => Observed::Up,
                Some(_) => Observed::Down,
                None => Observed::Unknown,
            })
        })
    }

    fn asks_others(&self) -> bool {
        true
    }
}

/// As long as a client is served here or waits, the other process keeps the server awake for it: a connection to that
/// process represents the clients, and ends with this process at the latest.
pub(crate) async fn borrow(supervisor: Arc<Supervisor>, socket: PathBuf) {
    let mut busy = supervisor.busy();
    let mut warned = false;
    while busy.wait_for(|busy| *busy).await.is_ok() {
        let mut lent = lend(&socket, supervisor.name()).await;
        if let Err(error) = &lent
            && !std::mem::replace(&mut warned, true)
        {
            tracing::warn!(site = supervisor.name(), %error, "the server may be put to sleep while it is used");
        }
        let is_over = async {
            match &mut lent {
                // No data comes: the connection ends with that process, and the next one is asked.
                Ok(stream) => drop(stream.read(&mut [0]).await),
                Err(_) => supervisor.clock().sleep(AGAIN).await,
            }
        };
        tokio::select! {
            _ = busy.wait_for(|busy| !*busy) => warned = false,
            () = is_over => {}
        }
    }
}

async fn lend(socket: &Path, name: &str) -> std::io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket).await?;
    let mut line = serde_json::to_vec(&Order::Borrow { server: name.to_owned() })?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    let mut answer = String::new();
    BufReader::new((&mut stream).take(crate::control::LONGEST)).read_line(&mut answer).await?;
    match serde_json::from_str(&answer)? {
        Reply::Done => Ok(stream),
        Reply::Error(why) => Err(IoError::other(why)),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}
