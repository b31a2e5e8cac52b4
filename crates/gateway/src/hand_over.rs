//! One process takes the place of another without a lost connection ([decision 0027]).
//!
//! ```text
//! next process                          the one that runs
//!   hand-over ────────────────────────────▶
//!   ◀──────────── its listening sockets and its lock, by SCM_RIGHTS
//!   (reads, binds and checks all it can)
//!   let-go ───────────────────────────────▶  accepts no more; ledgers and disk cache are closed
//!   ◀──────────── where each server is
//!   (opens ledgers, accepts)
//!   done ─────────────────────────────────▶  serves those who are connected, then ends
//! ```
//!
//! Clients that connect in between wait in the kernel. If the next process fails before `done`, the one
//! that runs takes everything back.
//!
//! [decision 0027]: https://github.com/nightwatt/nightwatt/blob/main/docs/decisions/0027-hand-over.md

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, IoSlice, IoSliceMut, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nightwatt_model::policy::lifecycle::Handed;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, Interest};
use tokio::task::JoinSet;

use crate::control::{Socket, Taken};
use crate::disk_cache;
use crate::error::StartError;
use crate::gate;
use crate::gateway::Gateway;
use crate::hand_over_error::HandOverError;
use crate::journal::Journal;
use crate::listen::Inherited;
use crate::live::Live;
use crate::running::{Running, drive_disk, side_jobs};
use crate::site::Site;
use crate::successor::Successor;
use crate::supervisor::{Supervisor, end};

/// The form of what is said. Another version is refused before anything is let go.
const VERSION: u32 = 2;

/// The same without the lock, which is free for a moment in between. The next process understands it, so
/// that it can take the place of an earlier version.
const WITHOUT_LOCK: u32 = 1;

/// For a word of the other process. It may have to wait for commands of its own to end.
const PATIENCE: Duration = Duration::from_mins(1);

/// Servers that the process before goes on to use are kept awake for this long at least.
const KEPT: Duration = Duration::from_secs(10);

/// Descriptors that go with one message (the kernel's `SCM_MAX_FD`).
const MOST_SOCKETS: usize = 253;

/// A line longer than this is not ours.
const LONGEST: u64 = 4 << 20;

/// What comes with the sockets: what each of them is.
#[derive(Debug, Serialize, Deserialize)]
struct Offer {
    version: u32,
    /// The first is the control socket, whose file this is.
    control: PathBuf,
    /// The others listen at these addresses, as they are configured. The lock comes last.
    addresses: Vec<SocketAddr>,
}

/// Where servers are, by their names.
#[derive(Debug, Serialize, Deserialize)]
struct LetGo {
    servers: HashMap<String, Handed>,
    /// Those that serve a client that is connected to the process before.
    busy: Vec<String>,
    /// Sites with requests that the gate has let through: they do not end with that process.
    let_through: Vec<String>,
}

/// What the next process says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    /// Let go of everything.
    LetGo,
    /// It serves; orders reach it here.
    Done(PathBuf),
}

/// The process that runs, as the next one knows it.
#[derive(Debug)]
pub struct Predecessor {
    stream: BufReader<UnixStream>,
    /// Its control socket, and where that is.
    control: Option<(PathBuf, OwnedFd)>,
    /// What locks the folder of its ledgers.
    lock: Option<File>,
    /// Where ours is.
    ours: PathBuf,
    /// Servers that it goes on to use.
    busy: Vec<String>,
    /// Sites with requests that its gate has let through.
    let_through: Vec<String>,
}

impl Predecessor {
    /// Asks the process that answers at `path` for its sockets; nothing if no process answers.
    ///
    /// # Errors
    ///
    /// If it refuses, breaks off, or speaks another version. Nothing has changed then.
    pub fn ask(path: &Path) -> Result<Option<(Self, Inherited)>, HandOverError> {
        use std::io::ErrorKind::{ConnectionRefused, NotFound};

        let stream = match UnixStream::connect(path) {
            Ok(stream) => stream,
            Err(error) if matches!(error.kind(), NotFound | ConnectionRefused) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        stream.set_read_timeout(Some(PATIENCE))?;
        (&stream).write_all(b"{\"order\":\"hand-over\"}\n")?;
        let (line, mut sockets) = receive(&stream)?;
        let offer: Offer = read_offer(&line)?;
        let has_lock = offer.version > WITHOUT_LOCK;
        if sockets.len() != offer.addresses.len() + 1 + usize::from(has_lock) {
            return Err(HandOverError::Sockets(sockets.len()));
        }
        let lock = if has_lock { sockets.pop().map(File::from) } else { None };
        let control = sockets.remove(0);
        let sockets = sockets.into_iter().map(std::net::TcpListener::from);
        let inherited = Inherited::new(offer.addresses.into_iter().zip(sockets).collect());
        let control = Some((offer.control, control));
        Ok(Some((
            Self {
                stream: BufReader::new(stream),
                control,
                lock,
                ours: path.to_owned(),
                busy: Vec::new(),
                let_through: Vec::new(),
            },
            inherited,
        )))
    }

    /// Has it let go of everything; says where servers are.
    pub(crate) fn take(&mut self) -> Result<HashMap<String, Handed>, StartError> {
        let taken = self.ask_to_let_go();
        let LetGo { servers, busy, let_through } =
            taken.map_err(|source| StartError::HandOver { source })?;
        (self.busy, self.let_through) = (busy, let_through);
        Ok(servers)
    }

    fn ask_to_let_go(&mut self) -> Result<LetGo, HandOverError> {
        self.say(&Word::LetGo)?;
        let mut line = String::new();
        std::io::Read::take(&mut self.stream, LONGEST).read_line(&mut line)?;
        parse(line.as_bytes())
    }

    /// Its lock, which is never free as long as either process has it.
    pub(crate) fn lock(&mut self) -> Option<File> {
        self.lock.take()
    }

    /// Its control socket, if ours is to be in the same place.
    pub(crate) fn control(&mut self, path: &Path) -> Option<Socket> {
        path.clone_into(&mut self.ours);
        let (there, socket) = self.control.take()?;
        (there == path).then(|| Socket::adopt(there, socket.into()))
    }

    /// Keeps the servers awake that it goes on to use, until it has had the time to say so itself.
    pub(crate) fn keep_awake(&self, gateway: &Gateway) {
        let used =
            gateway.supervisors().filter(|it| self.busy.iter().any(|name| name == it.name()));
        for supervisor in used {
            supervisor.begin();
            let supervisor = Arc::clone(supervisor);
            tokio::spawn(async move {
                supervisor.clock().sleep(KEPT).await;
                supervisor.end();
            });
        }
        let is_meant = |it: &&Arc<Site>| self.let_through.iter().any(|name| **name == *it.name);
        gateway.sites.iter().filter(is_meant).for_each(|site| gate::take_over(gateway, site));
    }

    /// This process serves.
    pub(crate) fn done(mut self) {
        if let Err(error) = self.say(&Word::Done(self.ours.clone())) {
            tracing::warn!(%error, "the process before has ended already");
        }
    }

    fn say(&mut self, word: &Word) -> Result<(), HandOverError> {
        let mut line = serde_json::to_vec(word)?;
        line.push(b'\n');
        Ok(self.stream.get_mut().write_all(&line)?)
    }
}

/// The first answer, which sockets come with.
fn receive(stream: &UnixStream) -> Result<(Vec<u8>, Vec<OwnedFd>), HandOverError> {
    let (mut line, mut sockets) = (Vec::new(), Vec::new());
    let mut space =
        vec![std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_SOCKETS))];
    while line.last() != Some(&b'\n') && line.len() as u64 <= LONGEST {
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut part = [0; 4096];
        let mut parts = [IoSliceMut::new(&mut part)];
        let received =
            rustix::net::recvmsg(stream, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC);
        let length = received.map_err(std::io::Error::from)?.bytes;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                sockets.extend(rights);
            }
        }
        if length == 0 {
            return Err(HandOverError::Ended);
        }
        line.extend_from_slice(&part[..length]);
    }
    Ok((line, sockets))
}

fn read_offer(line: &[u8]) -> Result<Offer, HandOverError> {
    // A gateway that will not, or does not know what is asked of it, says so.
    if let Ok(crate::control::Reply::Error(why)) = serde_json::from_slice(line) {
        return Err(HandOverError::Refused(why));
    }
    let offer: Offer = parse(line)?;
    match offer.version {
        WITHOUT_LOCK | VERSION => Ok(offer),
        other => Err(HandOverError::Version(other)),
    }
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, HandOverError> {
    if line.is_empty() {
        return Err(HandOverError::Ended);
    }
    Ok(serde_json::from_slice(line)?)
}

/// Another process that wants to take over, as the one that runs knows it.
#[derive(Debug)]
pub struct Taker {
    stream: tokio::net::UnixStream,
}

impl Taker {
    pub(crate) const fn new(stream: tokio::net::UnixStream) -> Self {
        Self { stream }
    }

    /// Its process id, for the service manager.
    pub fn pid(&self) -> Option<i32> {
        self.stream.peer_cred().ok()?.pid()
    }

    async fn offer(&self, offer: &Offer, sockets: &[BorrowedFd<'_>]) -> Result<(), HandOverError> {
        let mut line = serde_json::to_vec(offer)?;
        line.push(b'\n');
        let mut space =
            vec![std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_SOCKETS))];
        let send = || {
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(sockets));
            let parts = [IoSlice::new(&line)];
            let sent = rustix::net::sendmsg(
                self.stream.as_fd(),
                &parts,
                &mut ancillary,
                SendFlags::NOSIGNAL,
            );
            sent.map_err(std::io::Error::from)
        };
        let length = self.stream.async_io(Interest::WRITABLE, send).await?;
        // A line of some kilobytes goes into an empty socket as a whole.
        if length == line.len() { Ok(()) } else { Err(HandOverError::Ended) }
    }

    async fn word(&mut self, running: &Running) -> Result<Word, HandOverError> {
        let mut line = String::new();
        let mut reader = tokio::io::BufReader::new((&mut self.stream).take(LONGEST));
        let read = reader.read_line(&mut line);
        let read = running.gateway.clock.timeout(PATIENCE, read).await;
        read.map_err(|_| HandOverError::Silent(PATIENCE))??;
        parse(line.as_bytes())
    }
}

impl Running {
    /// Lets another process take over. When this is well, [`leave`](Running::leave) is what is left to do.
    ///
    /// # Errors
    ///
    /// If the other process breaks off. Then everything goes on as before.
    pub async fn hand_over(&mut self, taker: &mut Taker) -> Result<(), HandOverError> {
        if self.gateway.observe {
            let why =
                "in shadow mode (--observe) nothing is handed over: stop it and start it again";
            return Err(HandOverError::Refused(why.to_owned()));
        }
        let admin = self.admin_post.as_ref();
        let admin = admin.map(|it| (it.configured, it.socket.as_fd()));
        let posts =
            self.posts.iter().filter_map(|it| Some((it.configured, it.socket()?))).chain(admin);
        let (addresses, mut sockets): (Vec<_>, Vec<_>) = posts.unzip();
        sockets.insert(0, self.control.socket());
        sockets.extend(self.lock.as_ref().map(AsFd::as_fd));
        if sockets.len() > MOST_SOCKETS {
            return Err(HandOverError::Sockets(sockets.len()));
        }
        let control = self.control.path().to_owned();
        taker.offer(&Offer { version: VERSION, control, addresses }, &sockets).await?;
        drop(sockets);
        let Word::LetGo = taker.word(self).await? else { return Err(HandOverError::Ended) };
        self.let_go(taker).await?;
        match self.finish(taker).await {
            Ok(ours) => {
                // The next one keeps it.
                self.lock = None;
                if ours == self.control.path() {
                    self.control.disown();
                }
                Ok(())
            }
            Err(error) => {
                self.take_back().await;
                Err(error)
            }
        }
    }

    /// Accepts no more, closes ledgers, and says where servers are.
    async fn let_go(&mut self, taker: &mut Taker) -> Result<(), HandOverError> {
        // As long as no client waits for it.
        for job in self.disk_job.take().into_iter().chain(self.side_jobs.drain(..)) {
            end(job).await;
        }
        if let Some(disk) = &self.gateway.disk {
            disk_cache::write_back(disk, &self.gateway.stores()).await;
        }
        self.posts.iter().for_each(crate::listen::Post::pause);
        self.control.pause().await;
        if let Some(admin) = &mut self.admin_post {
            admin.pause().await;
        }
        for retiring in std::mem::take(&mut self.retiring) {
            retiring.end().await;
        }
        let used = self.gateway.supervisors().filter(|it| *it.busy().borrow());
        let busy = used.map(|it| it.name().to_owned()).collect();
        let servers = self.park().await;
        if let Some(disk) = &self.gateway.disk {
            disk.let_go(Arc::new(Taken::at(self.control.path()))).await;
        }
        let there = self.gateway.sites.iter().filter(|it| it.presence.is_there());
        let let_through = there.map(|it| it.name.to_string()).collect();
        let mut line = serde_json::to_vec(&LetGo { servers, busy, let_through })?;
        line.push(b'\n');
        let told = tokio::io::AsyncWriteExt::write_all(&mut taker.stream, &line).await;
        if let Err(error) = told {
            self.take_back().await;
            return Err(error.into());
        }
        Ok(())
    }

    /// Lets go of all servers, at once: each may have a command to wait for.
    async fn park(&self) -> HashMap<String, Handed> {
        let mut parking = JoinSet::new();
        for supervisor in self.gateway.supervisors() {
            let successor = Successor::new(supervisor, self.control.path());
            let (supervisor, hands) = (Arc::clone(supervisor), successor.hands(supervisor.clock()));
            parking.spawn(async move {
                let handed = supervisor.park(hands).await;
                Some((supervisor.name().to_owned(), handed?))
            });
        }
        parking.join_all().await.into_iter().flatten().collect()
    }

    /// Waits until the other process serves, and keeps its servers awake as long as a client is served here.
    async fn finish(&mut self, taker: &mut Taker) -> Result<PathBuf, HandOverError> {
        let Word::Done(ours) = taker.word(self).await? else { return Err(HandOverError::Ended) };
        for supervisor in self.gateway.supervisors() {
            let borrowing = crate::successor::borrow(Arc::clone(supervisor), ours.clone());
            let jobs = self.jobs.entry(supervisor.name().to_owned()).or_default();
            jobs.push(tokio::spawn(borrowing));
        }
        Ok(ours)
    }

    /// The other process failed: everything goes on here.
    async fn take_back(&mut self) {
        let gateway = &self.gateway;
        let state_dir = &gateway.config.state_dir;
        for supervisor in gateway.supervisors() {
            supervisor.resume(journal(supervisor, state_dir, self.durable));
        }
        if let Some(disk) = &gateway.disk
            && let Err(error) = disk.take_back().await
        {
            tracing::error!(
                %error,
                "the disk cache could not be opened again: this process goes on without it; what changes \
                 meanwhile it does not know, so remove its directory before the next start"
            );
        }
        let live = Live::of(&self.live);
        self.disk_job = drive_disk(&live);
        self.side_jobs = side_jobs(&live);
        self.posts.iter().for_each(crate::listen::Post::go_on);
        let control = self.control.go_on();
        let admin = self.admin_post.as_mut().map_or(Ok(()), |admin| admin.go_on(&live));
        if let Err(error) = control.and(admin) {
            tracing::error!(
                %error,
                "the control socket or the admin address no longer answers: restart the process"
            );
        }
        tracing::warn!("the process that was to take over has failed: this one goes on");
    }
}

/// The journal of a server, open again. Its bill was never let go here.
fn journal(supervisor: &Supervisor, state_dir: &Path, durable: bool) -> Option<Journal> {
    let path = state_dir.join(format!("{}.ledger.jsonl", supervisor.name()));
    let opened = Journal::reopen(&path, durable);
    if let Err(error) = &opened {
        tracing::error!(site = supervisor.name(), %error, "the ledger could not be opened again");
    }
    opened.ok()
}
