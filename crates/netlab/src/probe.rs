//! What a link does to packets, found by sending some: one end answers, the other asks.

mod message;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_energy::time::Mono;
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use serde::{Deserialize, Serialize};

use super::Error;
use message::{FrameCounter, Message, MessageKind};

/// Ethernet's, IP's and UDP's heads.
pub const HEADS: usize = 14 + 20 + 8;

/// The largest payload of a frame of 1500 bytes and Ethernet's head.
pub const LARGEST: usize = 1472;

/// A small frame.
pub const SMALL: usize = message::LENGTH + HEADS;

/// The same as the kernel wants it.
const SEGMENT: i32 = 1472;

/// Enough for what comes while this process does not run for a moment.
const BUFFER: usize = 16 << 20;

/// Nothing on the way is held up for longer.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Frames that are given to the kernel at once: it takes 64 KiB.
const AT_ONCE: usize = 44;

/// Time between two bursts of packets.
const STEP: Duration = Duration::from_micros(500);

/// What the probe sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeRequest {
    /// Address of the responder.
    pub target: SocketAddr,
    /// Number of questions, one after the other.
    pub echoes: u32,
    /// Sends full frames at this rate in bits per second, for this time. The other end's card counts what
    /// arrives.
    pub load: Option<(f64, Duration)>,
    /// Sends this many small frames, at this rate in bits per second.
    pub count: Option<(f64, u64)>,
}

/// The result of a probe.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ProbeResult {
    /// Round trips of the questions that were answered, in seconds, ascending.
    pub round_trips: Vec<f64>,
    /// Questions without an answer.
    pub unanswered: u32,
    /// Small frames that were sent.
    pub sent: u64,
    /// Those that arrived.
    pub came: u64,
}

fn socket(at: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(at)?;
    // Only root may have as much; others have what they may.
    let _ = set_socket_recv_buffer_size_force(&socket, BUFFER);
    Ok(socket)
}

/// The address for packets that only load the link, beside the one at which a responder answers.
pub fn sink(at: SocketAddr) -> SocketAddr {
    SocketAddr::new(at.ip(), at.port().wrapping_add(1))
}

/// Answers until it is told to stop.
pub fn answer(
    at: SocketAddr,
    stop: &Stop,
    ready: impl FnOnce(SocketAddr) -> io::Result<()>,
) -> Result<(), Error> {
    let to_error = || Error::system(format!("answer at {at}"));
    let socket = socket(at).map_err(to_error())?;
    socket.set_nonblocking(true).map_err(to_error())?;
    // Packets that only load the link end here, unread.
    let _sink = UdpSocket::bind(sink(at)).map_err(to_error())?;
    ready(socket.local_addr().map_err(to_error())?).map_err(to_error())?;
    let mut counter = FrameCounter::default();
    let mut buffer = [0; LARGEST];
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((length, from)) => {
                if let Some(answer) = counter.take(&buffer[..length]) {
                    // One that is lost is asked for again.
                    let _ = socket.send_to(&answer, from);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if stop.readable_until(socket.as_fd(), Mono::NEVER) == Woken::Stopped {
                    return Ok(());
                }
            }
            Err(error) => return Err(to_error()(error)),
        }
    }
}

/// Sends, and returns what came of it.
pub fn run(request: &ProbeRequest, stop: &Stop) -> Result<ProbeResult, Error> {
    let to_error = || Error::system(format!("ask {}", request.target));
    let own: SocketAddr =
        if request.target.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = socket(own).map_err(to_error())?;
    socket.connect(request.target).map_err(to_error())?;
    // Each probe is a process with its own stream number, so its packets are counted separately.
    let mut prober = Prober { socket, stop, number: 0, stream: std::process::id() };
    let mut result = prober.echoes(request.echoes).map_err(to_error())?;
    if let Some((bits_per_second, time)) = request.load {
        prober.socket.connect(sink(request.target)).map_err(to_error())?;
        prober.load(bits_per_second, time).map_err(to_error())?;
        prober.socket.connect(request.target).map_err(to_error())?;
    }
    if let Some((bits_per_second, count)) = request.count {
        prober.send(bits_per_second, count).map_err(to_error())?;
        result.sent = count;
        result.came = prober.counted().map_err(to_error())?.frames;
    }
    if stop.is_stopped() { Err(Error::Interrupted) } else { Ok(result) }
}

struct Prober<'a> {
    socket: UdpSocket,
    stop: &'a Stop,
    number: u64,
    /// Of the packets that are counted.
    stream: u32,
}

impl Prober<'_> {
    /// Asks, and waits for the answer of the same number; `None` after the timeout.
    fn question(&mut self, kind: MessageKind, stream: u32) -> io::Result<Option<Message>> {
        self.number += 1;
        let message = Message { kind, stream, number: self.number, ..Message::default() };
        self.socket.send(&message.bytes())?;
        let deadline = monotonic() + TIMEOUT;
        let mut buffer = [0; LARGEST];
        while self.stop.readable_until(self.socket.as_fd(), deadline) == Woken::Readable {
            let length = self.socket.recv(&mut buffer)?;
            let answer = Message::read(&buffer[..length]);
            if let Some(answer) = answer.filter(|it| it.number == self.number && it.kind == kind) {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    fn echoes(&mut self, count: u32) -> io::Result<ProbeResult> {
        let mut result = ProbeResult::default();
        for _ in 0..count {
            let begin = monotonic();
            match self.question(MessageKind::Echo, 0)? {
                Some(_) => result.round_trips.push(monotonic().since(begin).as_secs_f64()),
                None => result.unanswered += 1,
            }
            if self.stop.is_stopped() {
                break;
            }
        }
        result.round_trips.sort_by(f64::total_cmp);
        Ok(result)
    }

    /// Sends full frames for this time.
    fn load(&self, bits_per_second: f64, time: Duration) -> io::Result<()> {
        let message = Message { kind: MessageKind::Discard, ..Message::default() };
        let mut batch = vec![0; AT_ONCE * LARGEST];
        for segment in batch.chunks_exact_mut(LARGEST) {
            segment[..message::LENGTH].copy_from_slice(&message.bytes());
        }
        let at_once = if self.cuts(&batch[..2 * LARGEST])? { AT_ONCE } else { 1 };
        let per_second = bits_per_second / 8.0 / (LARGEST + HEADS) as f64;
        let count = (per_second * time.as_secs_f64()) as u64;
        self.evenly(per_second, count, time, |due| {
            let segments = due.min(at_once as u64);
            self.socket.send(&batch[..segments as usize * LARGEST]).map(|_| segments)
        })
    }

    /// Does the kernel make frames of what it is given at once? Not for a card that cannot do checksums, as
    /// those of emulated guests.
    fn cuts(&self, two: &[u8]) -> io::Result<bool> {
        let set = |size: i32| {
            let option = nix::sys::socket::sockopt::UdpGsoSegment;
            nix::sys::socket::setsockopt(&self.socket, option, &size).map_err(io::Error::from)
        };
        set(SEGMENT)?;
        match self.socket.send(two) {
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
                set(0)?;
                Ok(false)
            }
            // Whatever else is wrong is told by what follows.
            _ => Ok(true),
        }
    }

    /// Sends this many small frames.
    fn send(&self, bits_per_second: f64, count: u64) -> io::Result<()> {
        let message =
            Message { kind: MessageKind::Load, stream: self.stream, ..Message::default() }.bytes();
        let per_second = bits_per_second / 8.0 / (message.len() + HEADS) as f64;
        // No time limit: the number of frames is what counts.
        self.evenly(per_second, count, Duration::MAX, |_| self.socket.send(&message).map(|_| 1))
    }

    /// Sends `count` frames at `per_second`, but stops after the time limit if this machine cannot send
    /// that fast; `send` gets the number of due frames, and returns how many it has sent.
    fn evenly(
        &self,
        per_second: f64,
        count: u64,
        most: Duration,
        send: impl Fn(u64) -> io::Result<u64>,
    ) -> io::Result<()> {
        let begin = monotonic();
        let is_over = || self.stop.is_stopped() || monotonic().since(begin) >= most;
        let mut done = 0;
        while done < count && !is_over() {
            let due = (monotonic().since(begin).as_secs_f64() * per_second) as u64 + 1;
            let due = due.min(count);
            while done < due && !is_over() {
                done += match send(due - done) {
                    // A full queue on our own side drops it, as one on the way would.
                    Err(error) if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => 1,
                    many => many?,
                };
            }
            self.stop.wait_until(monotonic() + STEP);
        }
        Ok(())
    }

    /// What came of the packets that are counted. What is still on its way is waited for: a question comes behind it.
    fn counted(&mut self) -> io::Result<Message> {
        for _ in 0..20 {
            if let Some(reply) = self.question(MessageKind::CountRequest, self.stream)? {
                return Ok(reply);
            }
            if self.stop.is_stopped() {
                break;
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn prober(stop: &Stop) -> Prober<'_> {
        Prober { socket: socket(([127, 0, 0, 1], 0).into()).unwrap(), stop, number: 0, stream: 1 }
    }

    #[test]
    fn more_than_a_machine_can_send_ends_with_its_time_and_what_it_can_send_is_sent() {
        let stop = Stop::new().unwrap();
        let count = Cell::new(0);
        let send = |many| {
            count.set(count.get() + many);
            Ok(many)
        };
        // It would take an hour, however many are due at once.
        let one = |_| send(1);
        prober(&stop).evenly(1e9, 3_600_000_000_000, Duration::from_millis(20), one).unwrap();
        assert!(count.get() < 3_600_000_000_000 / 1000, "{}", count.get());
        count.set(0);
        prober(&stop).evenly(1e9, 1000, Duration::MAX, send).unwrap();
        assert_eq!(count.get(), 1000);
    }

    #[test]
    fn what_came_of_one_who_asked_before_is_not_counted_with_ours() {
        let stop = Stop::new().unwrap();
        let there = UdpSocket::bind("127.0.0.1:0").unwrap();
        there.set_read_timeout(Some(30 * TIMEOUT)).unwrap();
        let at = there.local_addr().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let (mut counter, mut buffer) = (FrameCounter::default(), [0; LARGEST]);
                while let Ok((length @ 1.., from)) = there.recv_from(&mut buffer) {
                    if let Some(answer) = counter.take(&buffer[..length]) {
                        there.send_to(&answer, from).unwrap();
                    }
                }
            });
            let came = [1, 2].map(|stream| {
                let mut prober = Prober { stream, ..prober(&stop) };
                prober.socket.connect(at).unwrap();
                prober.send(1e9, 10).unwrap();
                prober.counted().map(|reply| reply.frames)
            });
            prober(&stop).socket.send_to(&[], at).unwrap();
            assert_eq!(came.map(Result::unwrap), [10, 10]);
        });
    }
}
