//! The state of a connection at both ends, as state machines without sockets: what came and what was
//! written goes in, with the time; what to do next comes out.

pub(crate) mod client;
pub(crate) mod server;

use nightwatt_energy::time::Mono;

use crate::fault::Fault;
use crate::stream::Piece;
use crate::wire::{Request, RequestKind, TEXT};

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
    let mut connection = server::ServerConnection::new();
    for piece in pieces {
        if let Some(request) = connection.read(piece) {
            connection.accept(&request);
            if request.kind == RequestKind::Report {
                connection.reported();
            }
        }
        settle_server(&mut connection);
    }
    connection.ended();
    connection.fault()
}

fn settle_server(connection: &mut server::ServerConnection) {
    loop {
        match connection.next() {
            Next::Write(piece) => {
                let bytes = piece.head.len() as u64 + piece.length;
                connection.wrote(bytes);
            }
            Next::Shutdown => connection.shut_down(),
            Next::Read | Next::Close => return,
        }
    }
}

/// What a client that asked for this makes of a server's bytes.
pub fn rehearse_client<'a>(
    request: &Request,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Option<Fault> {
    let mut connection = client::ClientConnection::new(request, Mono::ZERO);
    connection.opened(Mono::ZERO);
    if let Next::Write(piece) = connection.next() {
        let bytes = piece.head.len() as u64 + piece.length;
        connection.wrote(bytes);
    }
    let mut text_bytes = 0;
    for piece in pieces {
        text_bytes += connection.read(piece, Mono::ZERO).len();
    }
    assert!(text_bytes <= TEXT || connection.fault().is_some(), "a text is bounded");
    connection.ended(Mono::ZERO);
    connection.fault()
}

/// What tests at both ends ask for.
#[cfg(test)]
fn request(kind: RequestKind, bytes: u64) -> Request {
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
