//! Contents whose length is not known: what another program writes to stdin.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;

/// Bytes that are read at once, and how many such parts wait.
const CHUNK: usize = 256 << 10;
const WAITING: usize = 16;

/// What is read, in order.
#[derive(Debug)]
pub struct Stream {
    chunks: Receiver<io::Result<Vec<u8>>>,
    /// Read, and not sent.
    ahead: VecDeque<u8>,
    /// Bytes that were handed out.
    position: u64,
    /// Handed out and not acknowledged: they may be asked for again.
    kept: VecDeque<(u64, Vec<u8>)>,
    is_over: bool,
    failed: Option<io::Error>,
}

impl Stream {
    /// Reads in a thread of its own, because a program that writes nothing must not stop the session. The thread ends with
    /// the stream, or when the session is gone and something was read.
    pub fn of(mut reader: impl Read + Send + 'static) -> Self {
        let (parts, chunks) = sync_channel(WAITING);
        thread::spawn(move || {
            let mut chunk = vec![0; CHUNK];
            loop {
                let part = match reader.read(&mut chunk) {
                    Ok(0) => return,
                    Ok(count) => Ok(chunk[..count].to_vec()),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let is_error = part.is_err();
                if parts.send(part).is_err() || is_error {
                    return;
                }
            }
        });
        Self {
            chunks,
            ahead: VecDeque::new(),
            position: 0,
            kept: VecDeque::new(),
            is_over: false,
            failed: None,
        }
    }

    /// The next block, and where it begins: of `wanted` bytes, of fewer at the end, or if `is_idle`, because the link
    /// has nothing else to carry. Nothing while too few were read.
    pub(super) fn next(&mut self, wanted: usize, is_idle: bool) -> Option<(u64, Vec<u8>)> {
        while self.ahead.len() < wanted && !self.is_over {
            match self.chunks.try_recv() {
                Ok(Ok(chunk)) => self.ahead.extend(chunk),
                Ok(Err(error)) => {
                    self.failed = Some(error);
                    self.is_over = true;
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => self.is_over = true,
            }
        }
        let count = self.ahead.len().min(wanted);
        if count == 0 || count < wanted && !self.is_over && !is_idle {
            return None;
        }
        let block: Vec<u8> = self.ahead.drain(..count).collect();
        let start = self.position;
        self.position += count as u64;
        self.kept.push_back((start, block.clone()));
        Some((start, block))
    }

    /// A block that was handed out before.
    pub(super) fn again(&self, start: u64) -> Option<Vec<u8>> {
        let kept = self.kept.iter().find(|(at, _)| *at == start);
        kept.map(|(_, block)| block.clone())
    }

    /// A block has arrived.
    pub(super) fn acknowledged(&mut self, start: u64) {
        self.kept.retain(|(at, _)| *at != start);
    }

    /// Its length, when all of it was handed out.
    pub(super) fn length(&self) -> Option<u64> {
        (self.is_over && self.ahead.is_empty()).then_some(self.position)
    }

    /// Why it ended too early, if it did.
    pub(super) fn failure(&mut self) -> Option<io::Error> {
        self.failed.take()
    }
}
