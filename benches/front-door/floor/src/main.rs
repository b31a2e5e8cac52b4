//! The floor of the front door's benchmark: `front-door-floor ADDRESS=ANSWER..`.
//!
//! One thread, one epoll, no runtime. `ANSWER` is a file with a whole answer, head and body: a
//! client that connects to that address gets those bytes for each request, which is read up to its
//! blank line and not parsed. The rest of any proxy's cost is its own. If `ANSWER` is a folder, the
//! path of the request selects the file: that is the benchmark's origin.

mod answers;
mod connection;

use std::net::TcpListener;
use std::os::fd::AsRawFd;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};

use crate::answers::Answers;
use crate::connection::{Connection, Then};

/// Events that are taken from the kernel at once.
const EVENTS: usize = 512;
/// Larger than any request of the benchmark, so that one read is mostly enough.
const READ_BUFFER: usize = 16 * 1024;

/// Whatever has a descriptor; they are found by its number, which the kernel keeps small.
enum Socket<'a> {
    /// And which of the answers its connections get.
    Listener(TcpListener, usize),
    Connection(Connection<'a>, usize),
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut answers = Vec::new();
    let mut sockets = Vec::new();
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    for argument in std::env::args().skip(1) {
        let (address, path) = argument.split_once('=').ok_or_else(|| {
            format!("`{argument}` is no address with an answer: 127.0.0.1:8000=answer.http")
        })?;
        let listener = TcpListener::bind(address).map_err(|error| format!("{address}: {error}"))?;
        listener.set_nonblocking(true)?;
        watch(&epoll, &listener, EventFlags::IN)?;
        println!("listening on {}", listener.local_addr()?);
        put(&mut sockets, Socket::Listener(listener, answers.len()));
        answers.push(Answers::read(path).map_err(|error| format!("{path}: {error}"))?);
    }
    if answers.is_empty() {
        return Err("usage: front-door-floor ADDRESS=ANSWER..".into());
    }
    serve(&epoll, &mut sockets, &answers)
}

fn serve<'a>(
    epoll: &OwnedFd,
    sockets: &mut Vec<Option<Socket<'a>>>,
    answers: &'a [Answers],
) -> Result<(), Box<dyn std::error::Error>> {
    let mut events = Vec::with_capacity(EVENTS);
    let mut buffer = vec![0; READ_BUFFER];
    loop {
        events.clear();
        match epoll::wait(epoll, spare_capacity(&mut events), None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        for &Event { data, flags } in &events {
            let place = usize::try_from(data.u64())?;
            match sockets.get_mut(place).and_then(Option::as_mut) {
                Some(Socket::Listener(listener, which)) => {
                    let which = *which;
                    // One a turn: a crowd that connects must not hold up those who are here.
                    let Ok((stream, _)) = listener.accept() else { continue };
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    watch(epoll, &stream, EventFlags::IN)?;
                    put(sockets, Socket::Connection(Connection::new(stream), which));
                }
                Some(Socket::Connection(connection, which)) => {
                    let writable = flags.contains(EventFlags::OUT);
                    match connection.turn(writable, &answers[*which], &mut buffer) {
                        Then::Same => {}
                        Then::Wait(flags) => {
                            let data = EventData::new_u64(data.u64());
                            epoll::modify(epoll, connection.stream(), data, flags)?;
                        }
                        Then::Close => sockets[place] = None,
                    }
                }
                None => {}
            }
        }
    }
}

fn watch(
    epoll: &OwnedFd,
    socket: &(impl AsFd + AsRawFd),
    flags: EventFlags,
) -> Result<(), Box<dyn std::error::Error>> {
    let place = u64::try_from(socket.as_raw_fd())?;
    Ok(epoll::add(epoll, socket, EventData::new_u64(place), flags)?)
}

fn put<'a>(sockets: &mut Vec<Option<Socket<'a>>>, socket: Socket<'a>) {
    let descriptor = match &socket {
        Socket::Listener(listener, _) => listener.as_raw_fd(),
        Socket::Connection(connection, _) => connection.stream().as_raw_fd(),
    };
    let place = usize::try_from(descriptor).unwrap_or_default();
    if sockets.len() <= place {
        sockets.resize_with(place + 1, || None);
    }
    sockets[place] = Some(socket);
}
