//! The courses of a connection at both ends, as state machines without sockets: what came and what was
//! written goes in, with the time; what to do next comes out.

pub(crate) mod client;
pub(crate) mod server;

use nightwatt_energy::time::Mono;

use crate::fault::Fault;
use crate::stream::Piece;
use crate::wire::{Kind, Request, TEXT};

/// What the driver is to do next. Reading is allowed as well at all times, unless this says `Close`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next<'a> {
    /// Write this.
    Write(Piece<'a>),
    /// Nothing but read.
    Read,
    /// Say that we have written all, and go on reading.
    Shutdown,
    /// Look at the socket for the last time and close it.
    Close,
}

/// What a server makes of a client's bytes, in these pieces, without a socket: for tests with made-up bytes.
/// The client accepts all that the server writes at once, and leaves at the end.
pub fn rehearse_server<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<Fault> {
    let mut course = server::Course::new();
    for piece in pieces {
        if let Some(request) = course.read(piece) {
            course.accept(&request);
            if request.kind == Kind::Report {
                course.reported();
            }
        }
        settle_server(&mut course);
    }
    course.ended();
    course.fault()
}

fn settle_server(course: &mut server::Course) {
    loop {
        match course.next() {
            Next::Write(piece) => {
                let bytes = piece.head.len() as u64 + piece.length;
                course.wrote(bytes);
            }
            Next::Shutdown => course.shut_down(),
            Next::Read | Next::Close => return,
        }
    }
}

/// What a client that asked for this makes of a server's bytes.
pub fn rehearse_client<'a>(
    request: &Request,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Option<Fault> {
    let mut course = client::Course::new(request, Mono::ZERO);
    course.opened(Mono::ZERO);
    if let Next::Write(piece) = course.next() {
        let bytes = piece.head.len() as u64 + piece.length;
        course.wrote(bytes);
    }
    let mut said = 0;
    for piece in pieces {
        said += course.read(piece, Mono::ZERO).len();
    }
    assert!(said <= TEXT || course.fault().is_some(), "a text is bounded");
    course.ended(Mono::ZERO);
    course.fault()
}

/// What tests at both ends ask for.
#[cfg(test)]
fn request(kind: Kind, bytes: u64) -> Request {
    Request {
        kind,
        nodelay: false,
        verify: false,
        discard: false,
        busy_poll: 0,
        session: 1,
        number: 0,
        buffer: 0,
        bytes,
        pacing: 0,
        congestion: crate::wire::Name::default(),
    }
}
