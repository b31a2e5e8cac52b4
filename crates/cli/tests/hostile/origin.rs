//! The origin behind the gateway: strict, and with a memory.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::content::{self, SUM, more, reply};
use crate::strict::{Bad, Head};

/// Bytes of a body that are remembered.
const REMEMBERED: usize = 4096;

/// A request as the origin got it.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) head: Head,
    /// Its first bytes.
    pub(crate) body: Vec<u8>,
    /// All of it came.
    pub(crate) whole: bool,
}

/// An origin that listens as long as the process lives; clones are handles to the same one.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    memory: Arc<Mutex<Memory>>,
}

#[derive(Debug, Default)]
struct Memory {
    /// Nothing, unless requests are to be remembered.
    seen: Option<Vec<ReceivedRequest>>,
    requests: u64,
    complaint: Option<String>,
}

impl Origin {
    /// One that remembers what it saw, or only counts it.
    pub(crate) fn start(remembers: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.2:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let memory = Memory { seen: remembers.then(Vec::new), ..Memory::default() };
        let origin = Self { address, memory: Arc::new(Mutex::new(memory)) };
        let serving = origin.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let origin = serving.clone();
                std::thread::spawn(move || {
                    if let Err(Bad::Malformed(what)) = origin.serve(stream) {
                        origin.memory().complaint.get_or_insert(what);
                    }
                });
            }
        });
        origin
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What came since the last time.
    pub(crate) fn take_seen(&self) -> Vec<ReceivedRequest> {
        self.memory().seen.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whole requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.memory().requests
    }

    /// The first that was malformed.
    pub(crate) fn complaint(&self) -> Option<String> {
        self.memory().complaint.clone()
    }

    fn serve(&self, mut stream: TcpStream) -> Result<(), Bad> {
        stream.set_nodelay(true)?;
        let mut reading = BufReader::new(stream.try_clone()?);
        while let Some(head) = Head::read(&mut reading)? {
            let index = self.memory().seen.as_mut().map(|seen| {
                seen.push(ReceivedRequest { head: head.clone(), body: Vec::new(), whole: false });
                seen.len() - 1
            });
            let (mut length, mut sum, mut body) = (0, SUM, Vec::new());
            head.body(&mut reading, &mut |part| {
                length += part.len() as u64;
                sum = more(sum, part);
                if index.is_some() && body.len() < REMEMBERED {
                    body.extend_from_slice(part);
                }
            })?;
            let mut memory = self.memory();
            memory.requests += 1;
            // If it was taken meanwhile, its beginning has been seen, and no test looks at its end.
            let seen = memory.seen.as_mut().zip(index).and_then(|(seen, at)| seen.get_mut(at));
            if let Some(seen) = seen {
                (seen.body, seen.whole) = (body, true);
            }
            drop(memory);
            let reply: content::Reply = reply(&head, (length, sum));
            reply.write(&mut stream)?;
            stream.flush()?;
        }
        Ok(())
    }
}
