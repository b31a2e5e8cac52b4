//! Client and server connected to each other, after both agreed to switch protocols (WebSocket).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use nightwatt_http1::Upgraded;
use nightwatt_policy::lifecycle::Phase;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::origin::Stream;

/// Bytes passed on at a time.
const PART: usize = 16 << 10;

/// When bytes last passed, in nanoseconds of monotonic time.
#[derive(Debug)]
struct Last<'a>(&'a Clock, AtomicU64);

impl Last<'_> {
    fn touch(&self) {
        let nanos = self.0.now().mono.0.as_nanos();
        self.1.store(u64::try_from(nanos).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn at(&self) -> Mono {
        Mono(Duration::from_nanos(self.1.load(Ordering::Relaxed)))
    }
}

/// Passes bytes in both directions until both sides have ended, one has failed, nothing came for `idle`, or the server
/// is put to sleep.
///
/// `server`: with the bytes after its answer.
pub(crate) async fn run(
    client: Upgraded,
    mut server: Stream,
    answered_ahead: Bytes,
    mut phase: watch::Receiver<Phase>,
    clock: &Clock,
    idle: Duration,
) {
    let Upgraded { stream: mut client, read_ahead } = client;
    for stream in [client.tcp(), server.tcp()] {
        watch_over(stream);
    }
    let first = async {
        server.write_all(&read_ahead).await?;
        server.flush().await?;
        client.write_all(&answered_ahead).await?;
        client.flush().await
    };
    if first.await.is_err() {
        return;
    }
    drop((read_ahead, answered_ahead));
    let last = Last(clock, AtomicU64::new(0));
    last.touch();
    let (from_client, to_client) = tokio::io::split(client);
    let (from_server, to_server) = tokio::io::split(server);
    let both = async {
        let there = pass(from_client, to_server, &last);
        let back = pass(from_server, to_client, &last);
        let _ = tokio::try_join!(there, back);
    };
    tokio::select! {
        () = both => {}
        // The server is put to sleep under a tunnel only if the tunnel may not keep it awake (any more).
        _ = phase.wait_for(|phase| *phase == Phase::FallingAsleep) => {}
        () = silence(&last, idle) => tracing::debug!("a tunnel was closed: nothing came through it"),
    }
}

/// One direction, to its end.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    last: &Last<'_>,
) -> std::io::Result<()> {
    let mut part = vec![0; PART];
    loop {
        let length = from.read(&mut part).await?;
        last.touch();
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&part[..length]).await?;
        to.flush().await?;
        last.touch();
    }
}

/// Returns when nothing has passed for `idle`.
async fn silence(last: &Last<'_>, idle: Duration) {
    loop {
        let until = last.at() + idle;
        last.0.sleep_until(until).await;
        if last.at() + idle <= last.0.now().mono {
            return;
        }
    }
}

/// Makes the kernel detect a peer that vanished: it must not keep a server awake.
pub(crate) fn watch_over(stream: &TcpStream) {
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_mins(1))
        .with_interval(Duration::from_secs(10))
        .with_retries(6);
    if let Err(error) = SockRef::from(stream).set_tcp_keepalive(&keepalive) {
        tracing::debug!(%error, "the kernel will not watch over a tunnel");
    }
}
