//! One request over the wire.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;

use crate::answer::Answer;
use crate::outcome::ErrorKind;
use crate::pool::{Connection, Pool};
use crate::request::Plan;

/// Bytes of an answer's body that are kept for callers that read it (a poll's state).
const BODY_KEPT: usize = 4096;

/// How often the runtime looks at its sockets before virtual time may go on after a time-out.
const SETTLE_ROUNDS: usize = 16;

/// What all requests of a run share.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) pool: Pool,
    pub(crate) clock: Clock,
    /// The operating system's time, whatever `clock` is.
    pub(crate) real: Clock,
    pub(crate) timeout: Duration,
    /// Requests sent again because a kept connection had died.
    pub(crate) resent: AtomicU64,
}

/// What came back, as far as it came.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) status: Option<u16>,
    pub(crate) answer: Option<Answer>,
    pub(crate) retry_after: Option<String>,
    pub(crate) bytes: u64,
    pub(crate) body: Vec<u8>,
}

/// A reply and its times.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) sent: Mono,
    pub(crate) ended: Mono,
    pub(crate) real_time: Duration,
    pub(crate) reply: Reply,
    pub(crate) error: Option<ErrorKind>,
}

impl Client {
    /// Sends it and reads the whole answer. The caller owes meanwhile.
    pub(crate) async fn exchange(&self, plan: &Plan, id: &str) -> Exchange {
        let permit = self.pool.permit(&self.clock).await;
        let sent = self.clock.now().mono;
        let began = self.real.now().mono;
        let mut reply = Reply::default();
        let work = self.send_and_read(plan, id, &mut reply);
        let within_time = self.clock.timeout(self.timeout, work).await;
        let error = if let Ok(result) = within_time {
            result.err()
        } else {
            self.settle().await;
            Some(ErrorKind::Timeout)
        };
        drop(permit);
        let real_time = self.real.now().mono.since(began);
        Exchange { sent, ended: self.clock.now().mono, real_time, reply, error }
    }

    /// A request given up closes its connection. A peer in the same process may have parked on
    /// our behalf; it must see the end of the connection and stop before our debt is paid, or
    /// virtual time would run on beneath others' bytes.
    async fn settle(&self) {
        if self.clock.is_virtual() {
            for _ in 0..SETTLE_ROUNDS {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn send_and_read(
        &self,
        plan: &Plan,
        id: &str,
        reply: &mut Reply,
    ) -> Result<(), ErrorKind> {
        let (response, connection) = self.send(plan, id).await?;
        reply.status = Some(response.status().as_u16());
        reply.answer = Some(Answer::of(response.headers()));
        let retry_after = response.headers().get(header::RETRY_AFTER);
        reply.retry_after = retry_after.and_then(|v| v.to_str().ok()).map(str::to_owned);
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| ErrorKind::Incomplete)?;
            let Some(data) = frame.data_ref() else { continue };
            reply.bytes += data.len() as u64;
            let room = BODY_KEPT - reply.body.len();
            reply.body.extend_from_slice(&data[..data.len().min(room)]);
        }
        self.pool.give_back(connection);
        Ok(())
    }

    /// Sends it over a kept connection, or over a new one when that turns out to be dead.
    async fn send(
        &self,
        plan: &Plan,
        id: &str,
    ) -> Result<(Response<Incoming>, Connection), ErrorKind> {
        let mut request = plan.request(id);
        if let Some(connection) = self.pool.reuse().await {
            match attempt(connection, request).await {
                Ok(done) => return Ok(done),
                Err(Failed { unsent: Some(unsent), .. }) => request = *unsent,
                Err(Failed { kind: ErrorKind::Closed, .. }) if plan.is_repeatable() => {
                    request = plan.request(id);
                }
                Err(Failed { kind, .. }) => return Err(kind),
            }
            self.resent.fetch_add(1, Ordering::Relaxed);
        }
        let connection = self.pool.open().await?;
        attempt(connection, request).await.map_err(|failed| failed.kind)
    }
}

struct Failed {
    kind: ErrorKind,
    /// The request, if not one byte of it left.
    unsent: Option<Box<Request<Full<Bytes>>>>,
}

async fn attempt(
    mut connection: Connection,
    request: Request<Full<Bytes>>,
) -> Result<(Response<Incoming>, Connection), Failed> {
    match connection.try_send_request(request).await {
        Ok(response) => Ok((response, connection)),
        Err(mut failure) => {
            let unsent = failure.take_message().map(Box::new);
            let error = failure.into_error();
            let kind = if error.is_parse() { ErrorKind::Protocol } else { ErrorKind::Closed };
            Err(Failed { kind, unsent })
        }
    }
}
