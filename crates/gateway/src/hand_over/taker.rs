//! The process that wants to take over, as the running one sees it.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};

use nightwatt_clock::Clock;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, Interest};

use super::{LONGEST, MOST_SOCKETS, Offer, TIMEOUT, Word, parse};
use crate::hand_over_error::HandOverError;

/// Another process that wants to take over, as the running one sees it.
#[derive(Debug)]
pub struct Taker {
    pub(super) stream: tokio::net::UnixStream,
}

impl Taker {
    pub(crate) const fn new(stream: tokio::net::UnixStream) -> Self {
        Self { stream }
    }

    /// Its process id, for the service manager.
    pub fn pid(&self) -> Option<i32> {
        self.stream.peer_cred().ok()?.pid()
    }

    pub(super) async fn offer(
        &self,
        offer: &Offer,
        sockets: &[BorrowedFd<'_>],
    ) -> Result<(), HandOverError> {
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
        // A line of some kilobytes fits into an empty socket buffer.
        if length == line.len() { Ok(()) } else { Err(HandOverError::Ended) }
    }

    pub(super) async fn word(&mut self, clock: &Clock) -> Result<Word, HandOverError> {
        let mut line = String::new();
        let mut reader = tokio::io::BufReader::new((&mut self.stream).take(LONGEST));
        let read = reader.read_line(&mut line);
        let read = clock.timeout(TIMEOUT, read).await;
        read.map_err(|_| HandOverError::Silent(TIMEOUT))??;
        parse(line.as_bytes())
    }
}
