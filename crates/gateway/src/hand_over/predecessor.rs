//! The running process, as the next one sees it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, IoSliceMut, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nightwatt_policy::lifecycle::Handed;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use super::{
    LONGEST, LetGo, MOST_SOCKETS, Offer, TIMEOUT, VERSION, WITHOUT_DATAGRAMS, WITHOUT_LOCK, Word,
    parse,
};
use crate::control::Socket;
use crate::error::StartError;
use crate::gate;
use crate::gateway::Gateway;
use crate::hand_over_error::HandOverError;
use crate::listen::Inherited;
use crate::site::Site;

/// Minimum time for which servers that the previous process still uses are kept awake.
const KEPT: Duration = Duration::from_secs(10);

/// The running process, as the next one sees it.
#[derive(Debug)]
pub struct Predecessor {
    stream: BufReader<UnixStream>,
    /// Its control socket, and the path of that.
    control: Option<(PathBuf, OwnedFd)>,
    /// The lock of its state folder.
    lock: Option<File>,
    /// The path of our control socket.
    ours: PathBuf,
    /// Servers that it still uses.
    busy: Vec<String>,
    /// Sites with requests that its gate has let through.
    let_through: Vec<String>,
    /// Local ports that its sessions of datagrams have used.
    udp_ports: Vec<u16>,
}

impl Predecessor {
    /// Asks the process at `path` for its sockets; nothing if no process answers.
    ///
    /// # Errors
    ///
    /// If it refuses, fails, or has another version. Nothing has changed then.
    pub fn ask(path: &Path) -> Result<Option<(Self, Inherited)>, HandOverError> {
        use std::io::ErrorKind::{ConnectionRefused, NotFound};

        let stream = match UnixStream::connect(path) {
            Ok(stream) => stream,
            Err(error) if matches!(error.kind(), NotFound | ConnectionRefused) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        stream.set_read_timeout(Some(TIMEOUT))?;
        (&stream).write_all(b"{\"order\":\"hand-over\"}\n")?;
        let (line, mut sockets) = receive(&stream)?;
        let offer: Offer = read_offer(&line)?;
        let has_lock = offer.version > WITHOUT_LOCK;
        let listening = offer.addresses.len() + offer.datagrams.len();
        if sockets.len() != listening + 1 + usize::from(has_lock) {
            return Err(HandOverError::Sockets(sockets.len()));
        }
        let lock = if has_lock { sockets.pop().map(File::from) } else { None };
        let control = sockets.remove(0);
        let datagrams = sockets.split_off(offer.addresses.len());
        let datagrams = datagrams.into_iter().map(std::net::UdpSocket::from);
        let sockets = sockets.into_iter().map(std::net::TcpListener::from);
        let inherited = Inherited::new(offer.addresses.into_iter().zip(sockets).collect())
            .with_datagrams(offer.datagrams.into_iter().zip(datagrams).collect());
        let control = Some((offer.control, control));
        Ok(Some((
            Self {
                stream: BufReader::new(stream),
                control,
                lock,
                ours: path.to_owned(),
                busy: Vec::new(),
                let_through: Vec::new(),
                udp_ports: Vec::new(),
            },
            inherited,
        )))
    }

    /// Makes it release everything; returns the state of servers.
    pub(crate) fn take(&mut self) -> Result<HashMap<String, Handed>, StartError> {
        let taken = self.ask_to_let_go();
        let LetGo { servers, busy, let_through, udp_ports } =
            taken.map_err(|source| StartError::HandOver { source })?;
        (self.busy, self.let_through, self.udp_ports) = (busy, let_through, udp_ports);
        Ok(servers)
    }

    fn ask_to_let_go(&mut self) -> Result<LetGo, HandOverError> {
        self.send(&Word::LetGo)?;
        let mut line = String::new();
        std::io::Read::take(&mut self.stream, LONGEST).read_line(&mut line)?;
        parse(line.as_bytes())
    }

    /// Its lock, which stays locked as long as either process holds it.
    pub(crate) fn lock(&mut self) -> Option<File> {
        self.lock.take()
    }

    /// Its control socket, if ours has the same path.
    pub(crate) fn control(&mut self, path: &Path) -> Option<Socket> {
        path.clone_into(&mut self.ours);
        let (there, socket) = self.control.take()?;
        (there == path).then(|| Socket::adopt(there, socket.into()))
    }

    /// Lets the ports rest that its sessions of datagrams have used.
    pub(crate) fn rest_ports(&self, gateway: &Gateway) {
        let now = gateway.serving.clock.now().mono;
        gateway.front.datagrams.ports.rest(now, &self.udp_ports);
    }

    /// Keeps the servers awake that it still uses, until it has had time to request that itself.
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
        gateway
            .serving
            .sites
            .iter()
            .filter(is_meant)
            .for_each(|site| gate::take_over(&gateway.serving, site));
    }

    /// Reports that this process serves.
    pub(crate) fn done(mut self) {
        if let Err(error) = self.send(&Word::Done(self.ours.clone())) {
            tracing::warn!(%error, "the process before has ended already");
        }
    }

    fn send(&mut self, word: &Word) -> Result<(), HandOverError> {
        let mut line = serde_json::to_vec(word)?;
        line.push(b'\n');
        Ok(self.stream.get_mut().write_all(&line)?)
    }
}

/// Receives the first answer, with the sockets.
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
    // A gateway that refuses, or does not know the request, answers with an error.
    if let Ok(crate::control::Reply::Error(why)) = serde_json::from_slice(line) {
        return Err(HandOverError::Refused(why));
    }
    let offer: Offer = parse(line)?;
    match offer.version {
        WITHOUT_LOCK | WITHOUT_DATAGRAMS | VERSION => Ok(offer),
        other => Err(HandOverError::Version(other)),
    }
}
