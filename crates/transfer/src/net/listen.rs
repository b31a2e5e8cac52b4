//! The receiver's side.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::thread;
use std::time::Duration;

use nightwatt_energy::time::Mono;
use nightwatt_host::tls::Fingerprint;
use rustix::event::{PollFd, PollFlags, poll};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::version::TLS13;
use rustls::{Connection, ServerConfig, ServerConnection, Stream};

use super::connect::NAME;
use super::tls::ends;
use super::{Ends, FAREWELL, HANDSHAKE, Hurried, Ticket, close_gently, plain, prepare};
use crate::receive::refuse;
use crate::wire::{FrameReader, Message};

/// Peers that are greeted at the same time.
const MOST_GREETED: usize = 64;
/// The greeting is shorter.
const MOST_HELLO: usize = 16 << 10;
const BUSY: &str = "the receiver has another sender: send again when that is done";
const WRONG_TOKEN: &str = "the token of the ticket is wrong: use the ticket that the receiver printed when it was \
                           started";

/// Why nothing can be received.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The key could not be made.
    #[error("cannot make a key: {0}")]
    Key(String),
    /// No sender came in time.
    #[error("no sender has come in time, and the ticket is void: start it again for a new one")]
    Late,
    /// The socket failed.
    #[error("cannot accept connections: {0}")]
    Accept(io::Error),
}

/// A peer that was not let in.
#[derive(Debug)]
pub struct Refusal {
    /// Its address.
    pub from: SocketAddr,
    /// Why.
    pub why: String,
}

/// A socket for one sender.
pub struct Listener {
    socket: TcpListener,
    /// Without it, all may send, and nothing is encrypted.
    guard: Option<Arc<Guard>>,
}

struct Guard {
    config: Arc<ServerConfig>,
    ticket: Ticket,
}

impl Listener {
    /// Listens with a key of its own and a token, both of which end with it.
    pub fn encrypted(address: SocketAddr, token: [u8; 32]) -> Result<Self, ListenError> {
        let key = |error: &dyn std::fmt::Display| ListenError::Key(error.to_string());
        let pair = rcgen::KeyPair::generate().map_err(|error| key(&error))?;
        let params = rcgen::CertificateParams::new(vec![NAME.to_owned()]);
        let certificate =
            params.and_then(|it| it.self_signed(&pair)).map_err(|error| key(&error))?;
        let der = certificate.der().clone();
        let ticket = Ticket::new(&Fingerprint::of(&der), token);
        let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(pair.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map(rustls::ConfigBuilder::<ServerConfig, _>::with_no_client_auth)
            .and_then(|builder| builder.with_single_cert(vec![der], private))
            .map_err(|error| key(&error))?;
        let guard = Some(Arc::new(Guard { config: Arc::new(config), ticket }));
        Ok(Self { socket: bound(address)?, guard })
    }

    /// Listens for anybody, in the clear.
    pub fn plain(address: SocketAddr) -> Result<Self, ListenError> {
        Ok(Self { socket: bound(address)?, guard: None })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// What the sender must know, with TLS.
    pub fn ticket(&self) -> Option<&Ticket> {
        self.guard.as_ref().map(|guard| &guard.ticket)
    }

    /// Waits `until` then for a sender with the ticket; in the clear, for one that greets as `nightwatt send` does. Others
    /// are refused, and `refused` gets to know. Peers are greeted beside each other: one that is slow or silent keeps
    /// none waiting.
    pub fn accept(
        &self,
        clock: fn() -> Mono,
        until: Mono,
        refused: &mut dyn FnMut(Refusal),
    ) -> Result<Ends, ListenError> {
        let ends = self.greet_all(clock, until, None, &mut |(from, result)| match result {
            Ok(ends) => ControlFlow::Break(ends),
            Err(why) => {
                refused(Refusal { from, why });
                ControlFlow::Continue(())
            }
        })?;
        ends.ok_or(ListenError::Late)
    }

    /// Does the work of a session. Senders that come meanwhile get to know that they have to wait for its end.
    pub fn while_busy<R>(&self, clock: fn() -> Mono, work: impl FnOnce() -> R) -> R {
        let Ok((done, ends)) = UnixStream::pair() else { return work() };
        thread::scope(|scope| {
            let turn_away = move || {
                // Where this fails, they wait instead.
                let _ = self.greet_all(clock, Mono::NEVER, Some(&done), &mut |(_, result)| {
                    if let Ok(ends) = result {
                        spawn_turn_away(ends, clock);
                    }
                    ControlFlow::Continue(())
                });
            };
            let _ = thread::Builder::new().spawn_scoped(scope, turn_away);
            let result = work();
            // The other thread sees the end of it, also if the work panics.
            drop(ends);
            result
        })
    }

    /// Greets all that connect, `until` then or until `done` ends, and gives each to `visit`. Gives what that stops with.
    fn greet_all(
        &self,
        clock: fn() -> Mono,
        until: Mono,
        done: Option<&UnixStream>,
        visit: &mut dyn FnMut(Greeted) -> ControlFlow<Ends>,
    ) -> Result<Option<Ends>, ListenError> {
        let (greeted, arrived) = channel();
        let (woken, waker) = woken().map_err(ListenError::Accept)?;
        let waker = Arc::new(waker);
        let mut greetings = Greetings::default();
        loop {
            if self.wait(until.since(clock()), &woken, done)? {
                return Ok(None);
            }
            // What is in it only wakes.
            let _ = (&woken).read(&mut [0; MOST_GREETED]);
            while let Ok(peer) = arrived.try_recv() {
                if let ControlFlow::Break(ends) = visit(peer) {
                    turn_away_all(&arrived, clock);
                    return Ok(Some(ends));
                }
            }
            let (socket, from) = match self.socket.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(ListenError::Accept(error)),
            };
            // An error here: it is gone.
            let Ok(is_crowded_out) = greetings.begin(&socket, from) else { continue };
            let greeting = Greeting { guard: self.guard.clone(), clock, from, is_crowded_out };
            let (sender, waker) = (greeted.clone(), Arc::clone(&waker));
            let work = move || greeting.run(socket, &sender, &waker);
            if let Err(error) = thread::Builder::new().spawn(work) {
                let why = format!("this machine has no thread for it: {error}");
                let _ = greeted.send((from, Err(why)));
            }
        }
    }

    /// Waits until there is something to do. Whether `done` has ended.
    fn wait(
        &self,
        time: Duration,
        woken: &UnixStream,
        done: Option<&UnixStream>,
    ) -> Result<bool, ListenError> {
        if time.is_zero() {
            return Err(ListenError::Late);
        }
        let mut polled =
            vec![PollFd::new(&self.socket, PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
        polled.extend(done.map(|done| PollFd::new(done, PollFlags::IN)));
        let time = rustix::time::Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        match poll(&mut polled, Some(&time)) {
            Ok(_) => Ok(polled.get(2).is_some_and(|done| !done.revents().is_empty())),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(errno) => Err(ListenError::Accept(errno.into())),
        }
    }
}

/// Peers that are greeted now, the one that came first first.
#[derive(Default)]
struct Greetings(Vec<Pending>);

struct Pending {
    network: IpAddr,
    socket: TcpStream,
    /// Its thread has one too, until it ends.
    is_crowded_out: Arc<AtomicBool>,
}

impl Greetings {
    /// One more. Where there are too many, another makes room.
    fn begin(&mut self, socket: &TcpStream, from: SocketAddr) -> io::Result<Arc<AtomicBool>> {
        self.0.retain(|it| Arc::strong_count(&it.is_crowded_out) > 1);
        if self.0.len() >= MOST_GREETED {
            let networks: Vec<IpAddr> = self.0.iter().map(|it| it.network).collect();
            let out = self.0.remove(crowded_out(&networks));
            out.is_crowded_out.store(true, Ordering::Relaxed);
            // Its thread reads no more.
            let _ = out.socket.shutdown(Shutdown::Both);
        }
        let is_crowded_out = Arc::new(AtomicBool::new(false));
        self.0.push(Pending {
            network: network(from.ip()),
            socket: socket.try_clone()?,
            is_crowded_out: Arc::clone(&is_crowded_out),
        });
        Ok(is_crowded_out)
    }
}

/// Which of these peers makes room: the first one of the network that has most. So a machine that connects again and again
/// takes no place from others.
fn crowded_out(networks: &[IpAddr]) -> usize {
    let count = |network: &IpAddr| networks.iter().filter(|it| *it == network).count();
    (0..networks.len()).rev().max_by_key(|place| count(&networks[*place])).unwrap_or(0)
}

/// What one machine has addresses of: of IPv6, all with the same first 64 bits.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(it) => IpAddr::V6(Ipv6Addr::from_bits(it.to_bits() >> 64 << 64)),
        it @ IpAddr::V4(_) => it,
    }
}

/// A peer, and what it is let in with, or why it is not.
type Greeted = (SocketAddr, Result<Ends, String>);

/// A socket that becomes readable when its other end is written to.
fn woken() -> io::Result<(UnixStream, UnixStream)> {
    let (woken, waker) = UnixStream::pair()?;
    woken.set_nonblocking(true)?;
    waker.set_nonblocking(true)?;
    Ok((woken, waker))
}

/// Those that came in at the same time as another.
fn turn_away_all(arrived: &Receiver<Greeted>, clock: fn() -> Mono) {
    for (_, result) in arrived.try_iter() {
        if let Ok(ends) = result {
            spawn_turn_away(ends, clock);
        }
    }
}

fn spawn_turn_away(ends: Ends, clock: fn() -> Mono) {
    // Without a thread for it, it is closed without a word.
    let _ = thread::Builder::new().spawn(move || turn_away(ends, BUSY, clock));
}

/// Reports to a peer why it is not let in.
fn turn_away(ends: Ends, why: &str, clock: fn() -> Mono) {
    let Ends { mut writer, socket, .. } = ends;
    // It may be gone.
    let _ = socket.set_write_timeout(Some(FAREWELL));
    let _ = refuse(&mut writer, why.to_owned());
    drop(writer);
    close_gently(&socket, clock);
}

/// A peer that has connected.
struct Greeting {
    guard: Option<Arc<Guard>>,
    clock: fn() -> Mono,
    from: SocketAddr,
    is_crowded_out: Arc<AtomicBool>,
}

impl Greeting {
    fn run(&self, socket: TcpStream, greeted: &Sender<Greeted>, mut waker: &UnixStream) {
        let (from, clock) = (self.from, self.clock);
        // The list of greetings has the socket, too: it is closed for all of them.
        let closed = socket.try_clone();
        let (result, stranger) = match self.ends(socket) {
            Ok((ends, true)) => (Ok(ends), None),
            Ok((ends, false)) => (Err("a wrong token".to_owned()), Some(ends)),
            Err(_) if self.is_crowded_out.load(Ordering::Relaxed) => {
                (Err("it had not greeted when too many others connected".to_owned()), None)
            }
            Err(error) => (Err(error.to_string()), None),
        };
        let is_refused_silently = result.is_err() && stranger.is_none();
        // In this order: a peer that comes again finds its refusal before it.
        let unsent = greeted.send((from, result));
        if let (true, Ok(closed)) = (is_refused_silently, closed) {
            let _ = closed.shutdown(Shutdown::Both);
        }
        // If it is full, the other end is about to be read.
        let _ = waker.write(&[0]);
        if let Some(ends) = stranger {
            turn_away(ends, WRONG_TOKEN, clock);
        }
        if let Err(SendError((_, Ok(ends)))) = unsent {
            turn_away(ends, BUSY, clock);
        }
    }

    /// The ends of the connection, and whether the peer has the token. One that is slow has no longer than the time of
    /// the handshake.
    fn ends(&self, socket: TcpStream) -> io::Result<(Ends, bool)> {
        socket.set_nonblocking(false)?;
        prepare(&socket)?;
        let mut hurried =
            Hurried { socket: &socket, clock: self.clock, until: (self.clock)() + HANDSHAKE };
        let Some(guard) = &self.guard else {
            let bytes = hello(&mut hurried)?;
            let mut ends = plain(socket)?;
            ends.reader = Box::new(io::Cursor::new(bytes).chain(ends.reader));
            return Ok((ends, true));
        };
        let mut server =
            ServerConnection::new(Arc::clone(&guard.config)).map_err(io::Error::other)?;
        server.complete_io(&mut hurried)?;
        let mut token = [0; 32];
        Stream::new(&mut server, &mut hurried).read_exact(&mut token)?;
        Ok((ends(Connection::Server(server), socket)?, guard.ticket.is_token(&token)))
    }
}

/// What a sender in the clear begins with: its first message, and what came with it.
fn hello(hurried: &mut Hurried<'_>) -> io::Result<Vec<u8>> {
    let invalid = |text: &str| io::Error::new(io::ErrorKind::InvalidData, text.to_owned());
    let (mut frames, mut bytes, mut chunk) = (FrameReader::default(), Vec::new(), [0; 1024]);
    while bytes.len() < MOST_HELLO {
        let count = hurried.read(&mut chunk)?;
        if count == 0 {
            return Err(invalid("it went away before it had greeted"));
        }
        frames.push(&chunk[..count]);
        bytes.extend_from_slice(&chunk[..count]);
        let frame = frames.next_frame().map_err(|error| invalid(&error.to_string()))?;
        match frame.map(|(kind, body)| Message::decode(kind, body)) {
            None => {}
            Some(Ok(Message::Hello(_))) => return Ok(bytes),
            Some(_) => break,
        }
    }
    Err(invalid("it does not greet as `nightwatt send` does"))
}

fn bound(address: SocketAddr) -> Result<TcpListener, ListenError> {
    let failed = |error| ListenError::Listen { address, error };
    let socket = TcpListener::bind(address).map_err(failed)?;
    socket.set_nonblocking(true).map_err(failed)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_with_most_silent_peers_makes_room() {
        let networks = |texts: &[&str]| -> Vec<IpAddr> {
            texts.iter().map(|it| network(it.parse().unwrap())).collect()
        };
        // The first one is a sender that has come before all others.
        assert_eq!(crowded_out(&networks(&["10.0.0.1", "10.0.0.9", "10.0.0.9"])), 1);
        // Addresses of one IPv6 network are of one machine, and `::ffff:10.0.0.1` is 10.0.0.1.
        let mixed =
            ["10.0.0.1", "fd00::1", "fd00::2", "fd00:0:0:1::1", "::ffff:10.0.0.1", "fd00::3"];
        assert_eq!(crowded_out(&networks(&mixed)), 1);
        assert_eq!(crowded_out(&networks(&["10.0.0.1", "10.0.0.2"])), 0, "else, the oldest");
    }
}
