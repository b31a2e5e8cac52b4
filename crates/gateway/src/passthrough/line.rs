//! Client and service connected to each other: bytes in both directions, each to its own end.

use std::io::ErrorKind;
use std::net::Shutdown;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::BytesMut;
use nightwatt_host::lock;
use nightwatt_policy::lifecycle::Phase;
use nightwatt_policy::passage::{Activity, Due};
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::coop::consume_budget;

use super::connecting::{Connecting, Hold};
use super::{Outcome, Stopped, broken_off, stops};
use crate::config::Asleep;
use crate::exchange::Exchange;
use crate::supervisor::Supervisor;
use crate::tunnel::watch_over;

/// Bytes passed on at a time. This is all that is buffered here, so a slow reader slows its sender down.
const PART: usize = 16 << 10;

/// A connection that was put through.
pub(super) struct Line<'a> {
    connecting: &'a Connecting<'a>,
    activity: Mutex<Activity>,
    /// Keeps the server awake, as long as the connection counts.
    exchange: Mutex<Hold>,
    /// Notified when a timer is due earlier than expected.
    rearm: Notify,
    sent: AtomicU64,
}

/// The source of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Client,
    Server,
}

/// Why one direction is cut off.
enum Cut {
    /// The service accepts no more data. What it has sent before is still passed on.
    Deaf,
    /// The connection ends.
    Off(Outcome),
}

impl std::convert::From<Outcome> for Cut {
    fn from(outcome: Outcome) -> Self {
        Self::Off(outcome)
    }
}

impl<'a> Line<'a> {
    pub(super) fn new(connecting: &'a Connecting<'a>, exchange: Hold) -> Self {
        let (config, limits) = (&connecting.service.config, &connecting.serving.config.limits);
        let idle_timeout = config.idle_timeout.unwrap_or(limits.tunnel_idle);
        let now = connecting.serving.clock.now().mono;
        Self {
            activity: Mutex::new(Activity::new(connecting.service.keep_awake, idle_timeout, now)),
            exchange: Mutex::new(exchange),
            rearm: Notify::new(),
            sent: AtomicU64::new(0),
            connecting,
        }
    }

    /// Bytes that went to the client.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Passes bytes on until both ends have sent everything, one has reset the connection, or the connection is closed
    /// here; first the client's earlier data.
    pub(super) async fn run(
        &self,
        client: TcpStream,
        before: BytesMut,
        server: TcpStream,
        stopped: &Stopped,
    ) -> Outcome {
        let _open = self.connecting.service.tally.opens();
        if self.connecting.service.config.asleep == Asleep::Reset {
            // Data for a server that sleeps may wake it.
            watch_over(&server);
        }
        let outcome = tokio::select! {
            outcome = self.both(&client, before, &server) => outcome,
            () = self.time() => Outcome::Idle,
            () = self.server_goes() => Outcome::Slept,
            () = self.connecting.shut_out() => Outcome::Network,
            () = self.drained(stopped) => Outcome::Stopped,
        };
        if !lock(&self.activity).keeps() {
            self.connecting.service.tally.stirs();
        }
        if outcome != Outcome::Passed {
            reset(&client);
            reset(&server);
        }
        outcome
    }

    /// Both directions, each to its own end.
    async fn both(&self, client: &TcpStream, before: BytesMut, server: &TcpStream) -> Outcome {
        let is_deaf = AtomicBool::new(false);
        let mut there = pin!(async {
            match self.pass(From::Client, before, client, server).await {
                Err(Cut::Deaf) => {
                    is_deaf.store(true, Ordering::Relaxed);
                    // Read it anyway: closing with unread bytes causes a reset, which discards what the client has not
                    // read yet.
                    discard(client).await
                }
                Err(Cut::Off(outcome)) => Err(outcome),
                Ok(()) => Ok(()),
            }
        });
        let mut back = pin!(async {
            match self.pass(From::Server, BytesMut::new(), server, client).await {
                Err(_) if is_deaf.load(Ordering::Relaxed) => {
                    SockRef::from(client).shutdown(Shutdown::Write).map_err(|_| Outcome::Broken)
                }
                Err(Cut::Off(outcome)) => Err(outcome),
                Err(Cut::Deaf) => Err(Outcome::Broken),
                Ok(()) => Ok(()),
            }
        });
        let (mut said, mut answered) = (false, false);
        while !(said && answered) {
            let ended = tokio::select! {
                ended = &mut there, if !said => {
                    said = true;
                    ended
                }
                ended = &mut back, if !answered => {
                    answered = true;
                    ended
                }
                // A client that has sent everything is not read any more: only the kernel knows whether it has reset
                // the connection since.
                () = broken_off(client), if said => Err(Outcome::Broken),
                () = broken_off(server), if answered && !is_deaf.load(Ordering::Relaxed) => {
                    Err(Outcome::Broken)
                }
            };
            if let Err(outcome) = ended {
                return outcome;
            }
        }
        Outcome::Passed
    }

    /// One direction, to its end.
    async fn pass(
        &self,
        from: From,
        before: BytesMut,
        source: &TcpStream,
        sink: &TcpStream,
    ) -> Result<(), Cut> {
        self.put(from, &before, source, sink).await?;
        drop(before);
        loop {
            source.readable().await.map_err(|_| Outcome::Broken)?;
            // Freed while no bytes come: an idle connection needs no buffer.
            let mut part = Vec::with_capacity(PART);
            loop {
                match source.try_read_buf(&mut part) {
                    Ok(0) => return self.end(from, source, sink).await,
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(_) => return Err(Outcome::Broken.into()),
                }
                self.moved(from, source).await?;
                self.put(from, &part, source, sink).await?;
                self.moved(from, source).await?;
                part.clear();
                // Lets other tasks run.
                consume_budget().await;
            }
        }
    }

    /// Writes all of it.
    async fn put(
        &self,
        from: From,
        bytes: &[u8],
        source: &TcpStream,
        sink: &TcpStream,
    ) -> Result<(), Cut> {
        let write = async {
            let mut rest = bytes;
            while !rest.is_empty() {
                sink.writable().await?;
                match sink.try_write(rest) {
                    Ok(length) => rest = &rest[length..],
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        };
        let (tally, length) = (&self.connecting.service.tally, bytes.len() as u64);
        match from {
            From::Client => {
                tokio::select! {
                    biased;
                    written = write => written.map_err(|_| Cut::Deaf)?,
                    // A client whose service does not read is not read either.
                    () = broken_off(source) => return Err(Outcome::Broken.into()),
                }
                tally.received.fetch_add(length, Ordering::Relaxed);
            }
            From::Server => {
                // What a service sent before it reset the connection belongs to its client, however slowly that reads.
                write.await.map_err(|_| Outcome::Broken)?;
                tally.sent.fetch_add(length, Ordering::Relaxed);
                self.sent.fetch_add(length, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// One end has sent everything: notifies the other. That sends no byte and wakes no server: a sleeping server with
    /// a kept connection is notified when it is awake.
    async fn end(&self, from: From, source: &TcpStream, sink: &TcpStream) -> Result<(), Cut> {
        let service = self.connecting.service;
        let may_sleep = from == From::Client
            && service.config.asleep == Asleep::Keep
            && !lock(&self.activity).keeps();
        if let Some(supervisor) = self.watched().filter(|_| may_sleep) {
            let mut phase = supervisor.phase();
            tokio::select! {
                _ = phase.wait_for(|phase| *phase == Phase::Awake) => {}
                () = broken_off(source) => return Err(Outcome::Broken.into()),
            }
        }
        SockRef::from(sink).shutdown(Shutdown::Write).map_err(|_| match from {
            From::Client => Cut::Deaf,
            From::Server => Cut::Off(Outcome::Broken),
        })
    }

    /// Bytes moved: a connection that had released its server requests it again.
    async fn moved(&self, from: From, source: &TcpStream) -> Result<(), Outcome> {
        let connecting = self.connecting;
        if !self.stirs() {
            return Ok(());
        }
        let exchange = match (from, connecting.service.supervisor()) {
            (_, None) => None,
            (From::Client, Some(_)) => connecting.ask_again(source).await?,
            // The server sends, so it is awake, whatever its believed state.
            (From::Server, Some(supervisor)) => {
                let begun = Exchange::begin(supervisor, connecting.network())
                    .or_else(|| supervisor.may_be_up().then(|| connecting.begun(supervisor)));
                if begun.is_none() {
                    self.let_go();
                    return Ok(());
                }
                begun
            }
        };
        // The wait may have lasted until the connection fell quiet.
        self.stirs();
        let before = std::mem::replace(&mut *lock(&self.exchange), exchange);
        drop(before);
        Ok(())
    }

    /// Notes that bytes move. True if the connection had released its server.
    fn stirs(&self) -> bool {
        let now = self.connecting.serving.clock.now().mono;
        let stirs = lock(&self.activity).moved(now);
        if stirs {
            self.connecting.service.tally.stirs();
            self.rearm.notify_one();
        }
        stirs
    }

    fn let_go(&self) {
        lock(&self.activity).let_go();
        self.connecting.service.tally.falls_quiet();
        let exchange = lock(&self.exchange).take();
        // Not under the lock: its end notifies the supervisor.
        drop(exchange);
    }

    /// Runs the timers; returns when the connection has to be closed.
    async fn time(&self) {
        let clock = &self.connecting.serving.clock;
        loop {
            let next = lock(&self.activity).next_timer();
            tokio::select! {
                () = clock.sleep_until(next) => {}
                () = self.rearm.notified() => continue,
            }
            let due = lock(&self.activity).tick(clock.now().mono);
            match due {
                Some(Due::Close) => return,
                Some(Due::LetGo) => self.let_go(),
                None => {}
            }
        }
    }

    /// Returns when nightwatt stops and has waited for the connection for long enough, which for a quiet one is no
    /// time.
    async fn drained(&self, stopped: &Stopped) {
        stops(stopped).await;
        if lock(&self.activity).keeps() {
            let serving = self.connecting.serving;
            serving.clock.sleep(serving.config.limits.drain).await;
        }
    }

    /// The supervisor of the server, unless it is not touched.
    fn watched(&self) -> Option<&Arc<Supervisor>> {
        let Connecting { serving, service, .. } = self.connecting;
        service.supervisor().filter(|_| !serving.observe)
    }

    /// Returns when the server sleeps, and the connection must not outlast that.
    async fn server_goes(&self) {
        let seat_lost = async {
            // An exchange without a seat must not be held here: it is released when the connection falls quiet.
            let seated = |exchange: &Hold| exchange.as_deref().and_then(Exchange::seat).is_some();
            let exchange = Some(lock(&self.exchange).clone()).filter(seated).flatten();
            match exchange.as_deref().and_then(Exchange::seat) {
                Some(seat) => seat.lost().await,
                None => std::future::pending().await,
            }
        };
        let goes = async {
            match (self.watched(), self.connecting.service.config.asleep) {
                (None, _) => std::future::pending().await,
                (Some(supervisor), Asleep::Reset) => falls_asleep(supervisor).await,
                (Some(supervisor), Asleep::Keep) => self.outlasts(supervisor).await,
            }
        };
        tokio::select! {
            () = seat_lost => {}
            () = goes => {}
        }
    }

    /// Releases the server of a kept connection whenever it goes to sleep by itself, so that the next byte requests it:
    /// a connection that believes the server awake would not.
    async fn outlasts(&self, supervisor: &Supervisor) {
        let mut phase = supervisor.phase();
        loop {
            for awake in [true, false] {
                let came = phase.wait_for(|phase| (*phase == Phase::Awake) == awake).await.is_ok();
                if !came {
                    return std::future::pending().await;
                }
            }
            if lock(&self.activity).keeps() {
                self.let_go();
            }
        }
    }
}

/// Reads to the end, and discards the data.
async fn discard(source: &TcpStream) -> Result<(), Outcome> {
    loop {
        source.readable().await.map_err(|_| Outcome::Broken)?;
        match source.try_read(&mut [0; 1024]) {
            Ok(0) => return Ok(()),
            Ok(_) => consume_budget().await,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return Err(Outcome::Broken),
        }
    }
}

/// Returns when the server falls asleep or sleeps, for certain. A server that merely does not answer may be up: the
/// probe checks its web server, not this service. If it is down, TCP will notice.
pub(crate) async fn falls_asleep(supervisor: &Supervisor) {
    let mut sleeps = supervisor.sleeps();
    let sleeps_now = match supervisor.phase_now() {
        Phase::FallingAsleep => true,
        Phase::Asleep => !supervisor.may_be_up(),
        _ => false,
    };
    if !sleeps_now && sleeps.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Makes a connection end with a reset when it is dropped.
pub(super) fn reset(stream: &TcpStream) {
    if let Err(error) = SockRef::from(stream).set_linger(Some(Duration::ZERO)) {
        tracing::debug!(%error, "a connection cannot be reset");
    }
}
