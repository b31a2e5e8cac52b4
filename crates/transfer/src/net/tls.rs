//! A TLS connection as two streams. Reading and writing go on at once, in two threads: the connection's state is locked
//! while it encrypts or decrypts, and never while the socket waits.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::Connection;

use super::{Ends, is_through};

/// Bytes that are read from the socket at once.
const CHUNK: usize = 128 << 10;

type Shared = Arc<Mutex<Connection>>;

fn locked(shared: &Shared) -> MutexGuard<'_, Connection> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The streams of a connection whose handshake is done.
pub(super) fn ends(connection: Connection, socket: TcpStream) -> io::Result<Ends> {
    is_through(&socket)?;
    let shared = Arc::new(Mutex::new(connection));
    let reader = Reader {
        shared: Arc::clone(&shared),
        socket: socket.try_clone()?,
        chunk: vec![0; CHUNK],
        rest: 0..0,
    };
    let writer = Writer { shared, socket: socket.try_clone()?, out: Vec::new() };
    Ok(Ends { reader: Box::new(reader), writer: Box::new(writer), socket })
}

struct Reader {
    shared: Shared,
    socket: TcpStream,
    chunk: Vec<u8>,
    /// What of the chunk the connection has not taken yet.
    rest: std::ops::Range<usize>,
}

impl Read for Reader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            {
                let mut connection = locked(&self.shared);
                match connection.reader().read(bytes) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    // The other end went away without a word: that is the end of the stream as well.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                    result => return result,
                }
                if !self.rest.is_empty() {
                    let mut rest = &self.chunk[self.rest.clone()];
                    let taken = connection.read_tls(&mut rest)?;
                    self.rest.start += taken;
                    connection.process_new_packets().map_err(io::Error::other)?;
                    continue;
                }
            }
            let count = self.socket.read(&mut self.chunk)?;
            if count == 0 {
                return Ok(0);
            }
            self.rest = 0..count;
        }
    }
}

struct Writer {
    shared: Shared,
    socket: TcpStream,
    out: Vec<u8>,
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = {
            let mut connection = locked(&self.shared);
            let count = connection.writer().write(bytes)?;
            while connection.wants_write() {
                connection.write_tls(&mut self.out)?;
            }
            count
        };
        self.socket.write_all(&self.out)?;
        self.out.clear();
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        {
            let mut connection = locked(&self.shared);
            connection.send_close_notify();
            while connection.wants_write() && connection.write_tls(&mut self.out).is_ok() {}
        }
        // The other end may be gone.
        let _ = self.socket.write_all(&self.out);
    }
}
