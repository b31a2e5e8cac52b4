//! The connections of the admin listener: limits their number, and the time to read an answer.
//!
//! A new connection is always accepted, so that monitors get answers whatever other clients do: at the limit, the
//! oldest connection of the client with the most connections is closed.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use nightwatt_clock::Clock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::AbortHandle;

/// Connections at once.
const MOST: usize = 64;

/// Open connections, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Places(VecDeque<(u64, AbortHandle)>);

impl Places {
    /// Adds a connection of `client`, and closes another one if there are too many.
    pub(super) fn add(&mut self, client: u64, connection: AbortHandle) {
        self.0.retain(|(_, connection)| !connection.is_finished());
        self.0.push_back((client, connection));
        if self.0.len() <= MOST {
            return;
        }
        let clients: Vec<u64> = self.0.iter().map(|(client, _)| *client).collect();
        if let Some((_, connection)) = self.0.remove(gives_way(&clients)) {
            connection.abort();
        }
    }
}

/// Which connection to close: the oldest of the client with the most connections. `clients` has the client of each
/// connection, the oldest first.
fn gives_way(clients: &[u64]) -> usize {
    let mut counts = HashMap::new();
    for client in clients {
        *counts.entry(client).or_insert(0_usize) += 1;
    }
    let most = counts.values().max().copied().unwrap_or_default();
    clients.iter().position(|client| counts[client] == most).unwrap_or_default()
}

/// A connection that fails when an answer exceeds its time limit, from its first byte to its last.
pub(super) struct Timely<S> {
    stream: S,
    clock: Clock,
    limit: Option<Duration>,
    /// Fires when the current answer has exceeded its time limit.
    late: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<S> Timely<S> {
    /// `None`: no time limit.
    pub(super) fn new(stream: S, clock: &Clock, limit: Option<Duration>) -> Self {
        Self { stream, clock: clock.clone(), limit, late: None }
    }

    /// The result of a write, unless the time is over.
    fn in_time<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let Some(limit) = self.limit else { return written };
        let clock = &self.clock;
        let late = self.late.get_or_insert_with(|| {
            let clock = clock.clone();
            Box::pin(async move { clock.sleep(limit).await })
        });
        match late.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => written,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timely<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timely<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.in_time(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Called once all data is written.
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_ready() {
            self.late = None;
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_energy::time::{Mono, Wall};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn the_oldest_connection_of_the_client_that_has_the_most_gives_way() {
        assert_eq!(gives_way(&[1, 2, 2, 3]), 1);
        assert_eq!(gives_way(&[1, 1, 2, 2, 2]), 2);
        assert_eq!(gives_way(&[5, 6, 7]), 0, "the oldest, if all have as many");
        assert_eq!(gives_way(&[]), 0);
    }

    #[test]
    fn an_answer_that_nobody_reads_fails_in_time_and_so_does_one_that_is_read_byte_by_byte() {
        for reads in [false, true] {
            let clock = Clock::virtual_at(Wall::from_secs(0), 0);
            clock.runtime().unwrap().block_on(async {
                let (ours, mut theirs) = tokio::io::duplex(10);
                let mut ours = Timely::new(ours, &clock, Some(Duration::from_secs(30)));
                ours.write_all(b"first").await.unwrap();
                ours.flush().await.unwrap();
                theirs.read_exact(&mut [0; 5]).await.unwrap();
                clock.sleep(Duration::from_mins(1)).await;
                let reader = clock.clone();
                let reading = tokio::spawn(async move {
                    while reads && theirs.read_u8().await.is_ok() {
                        reader.sleep(Duration::from_secs(1)).await;
                    }
                    theirs
                });
                let error = ours.write_all(&[0; 1000]).await.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::TimedOut);
                assert_eq!(clock.now().mono, Mono::from_secs(90), "{reads}");
                reading.abort();
            });
        }
    }
}
