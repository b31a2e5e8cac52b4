//! Client and service put through to each other: bytes both ways, each way to its own end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use nightwatt_model::policy::lifecycle::Phase;
use nightwatt_model::policy::passage::{Activity, Due};
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;
use tokio::sync::Notify;

use super::course::{Course, Hold};
use super::{Outcome, Stopped, broken_off, stops};
use crate::config::Asleep;
use crate::forward::Exchange;
use crate::hold::Spooling;
use crate::supervisor::Supervisor;
use crate::tunnel::watch_over;

/// What is passed on at a time. Whoever reads slowly is read from slowly: no more than this is between
/// the two ends here.
const PART: usize = 16 << 10;

/// A connection that was put through.
pub(super) struct Line<'a> {
    course: &'a Course<'a>,
    activity: Mutex<Activity>,
    /// Keeps the server awake, as long as the connection counts.
    exchange: Mutex<Hold>,
    /// A timer is due earlier than was waited for.
    rearm: Notify,
    sent: AtomicU64,
}

/// Where bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Client,
    Server,
}

/// Nothing is read of a client while what it has said waits for its server.
struct Nothing<'a, 'b>(&'a ReadHalf<'b>);

impl Spooling for Nothing<'_, '_> {
    async fn fill(&mut self) -> bool {
        true
    }

    async fn gone(&self) {
        broken_off(self.0.ready(Interest::ERROR)).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Line<'a> {
    pub(super) fn new(course: &'a Course<'a>, exchange: Hold) -> Self {
        let (config, limits) = (&course.service.config, &course.gateway.config.limits);
        let idle_timeout = config.idle_timeout.unwrap_or(limits.tunnel_idle);
        let now = course.gateway.clock.now().mono;
        Self {
            activity: Mutex::new(Activity::new(course.service.keep_awake, idle_timeout, now)),
            exchange: Mutex::new(exchange),
            rearm: Notify::new(),
            sent: AtomicU64::new(0),
            course,
        }
    }

    /// Bytes that went to the client.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Passes bytes on until both ends have said all, one has broken off, or the connection is closed
    /// here; what the client has said before first.
    pub(super) async fn run(
        &self,
        (mut client, before): (TcpStream, BytesMut),
        mut server: TcpStream,
        stopped: &Stopped,
    ) -> Outcome {
        let _open = self.course.service.tally.opens();
        if self.course.service.config.asleep == Asleep::Reset {
            // What is sent to a server that sleeps may wake it.
            watch_over(&server);
        }
        let outcome = {
            let (from_client, to_client) = client.split();
            let (from_server, to_server) = server.split();
            let both = async {
                let there = self.pass(From::Client, before, from_client, to_server);
                let back = self.pass(From::Server, BytesMut::new(), from_server, to_client);
                match tokio::try_join!(there, back) {
                    Ok(_) => Outcome::Passed,
                    Err(outcome) => outcome,
                }
            };
            tokio::select! {
                outcome = both => outcome,
                () = self.time() => Outcome::Idle,
                () = self.server_goes() => Outcome::Slept,
                () = self.drained(stopped) => Outcome::Stopped,
            }
        };
        if !lock(&self.activity).keeps() {
            self.course.service.tally.stirs();
        }
        if outcome != Outcome::Passed {
            reset(&client);
            reset(&server);
        }
        outcome
    }

    /// One way, to its end.
    async fn pass(
        &self,
        from: From,
        before: BytesMut,
        mut source: ReadHalf<'_>,
        mut sink: impl AsyncWrite + Unpin,
    ) -> Result<(), Outcome> {
        let tally = &self.course.service.tally;
        let count = |length: usize| match from {
            From::Client => {
                tally.received.fetch_add(length as u64, Ordering::Relaxed);
            }
            From::Server => {
                tally.sent.fetch_add(length as u64, Ordering::Relaxed);
                self.sent.fetch_add(length as u64, Ordering::Relaxed);
            }
        };
        sink.write_all(&before).await.map_err(|_| Outcome::Broken)?;
        count(before.len());
        drop(before);
        let mut part = vec![0; PART];
        loop {
            let length = source.read(&mut part).await.map_err(|_| Outcome::Broken)?;
            self.moved(from, &source).await?;
            if length == 0 {
                return sink.shutdown().await.map_err(|_| Outcome::Broken);
            }
            sink.write_all(&part[..length]).await.map_err(|_| Outcome::Broken)?;
            count(length);
            self.moved(from, &source).await?;
        }
    }

    /// Bytes moved: a connection that had let its server go asks for it again.
    async fn moved(&self, from: From, source: &ReadHalf<'_>) -> Result<(), Outcome> {
        let gateway = self.course.gateway;
        let now = gateway.clock.now().mono;
        if !lock(&self.activity).moved(now) {
            return Ok(());
        }
        self.course.service.tally.stirs();
        self.rearm.notify_one();
        let exchange = match from {
            From::Client => {
                let deadline = now + gateway.config.limits.hold;
                let number = Supervisor::next_id();
                self.course.enter(number, deadline, &mut Nothing(source), &mut false).await?
            }
            // It speaks, so it is awake, whatever is believed of it.
            From::Server => {
                let supervisor = self.course.service.supervisor(gateway);
                let begun = supervisor.and_then(Exchange::begin);
                if begun.is_none() {
                    self.let_go();
                }
                begun
            }
        };
        *lock(&self.exchange) = exchange;
        Ok(())
    }

    fn let_go(&self) {
        lock(&self.activity).let_go();
        self.course.service.tally.falls_quiet();
        let exchange = lock(&self.exchange).take();
        // Not under the lock: its end is told to the supervisor.
        drop(exchange);
    }

    /// Runs the timers; comes back when the connection is to be closed.
    async fn time(&self) {
        let clock = &self.course.gateway.clock;
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

    /// Comes back when nightwatt stops and has waited for the connection for long enough: not at all for
    /// one that is quiet.
    async fn drained(&self, stopped: &Stopped) {
        stops(stopped).await;
        if lock(&self.activity).keeps() {
            let gateway = self.course.gateway;
            gateway.clock.sleep(gateway.config.limits.drain).await;
        }
    }

    /// Comes back when the server sleeps or has failed, and the connection is not to outlast that.
    async fn server_goes(&self) {
        let (gateway, service) = (self.course.gateway, self.course.service);
        let seat_lost = async {
            // One without a seat must not be kept by this: it is let go when the connection falls quiet.
            let seated = |exchange: &Hold| exchange.as_deref().and_then(Exchange::seat).is_some();
            let exchange = Some(lock(&self.exchange).clone()).filter(seated).flatten();
            match exchange.as_deref().and_then(Exchange::seat) {
                Some(seat) => seat.lost().await,
                None => std::future::pending().await,
            }
        };
        let goes = async {
            let watched = service.supervisor(gateway).filter(|_| !gateway.observe);
            match watched.filter(|_| service.config.asleep == Asleep::Reset) {
                Some(supervisor) => {
                    let gone = |phase: Phase| {
                        matches!(phase, Phase::FallingAsleep | Phase::Asleep | Phase::Failed)
                    };
                    // What is told comes a moment after what is.
                    let both = |told: &Phase| gone(*told) && gone(supervisor.phase_now());
                    let _ = supervisor.phase().wait_for(both).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = seat_lost => {}
            () = goes => {}
        }
    }
}

/// Has a connection end in a reset as soon as it is dropped.
pub(super) fn reset(stream: &TcpStream) {
    if let Err(error) = SockRef::from(stream).set_linger(Some(Duration::ZERO)) {
        tracing::debug!(%error, "a connection cannot be reset");
    }
}
