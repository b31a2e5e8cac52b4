//! A client's connection, from request to request.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use tokio::io::ReadBuf;
use tokio::sync::watch;

use crate::head::{Framing, Head, Refusal, Scan, no_fields, scan};
use crate::reader::{READ_AHEAD, SCRATCH, poll_read, still_waits};
use crate::timer::Timer;
use crate::writer::send;
use crate::{Limits, OnSent, Prepared, Progress, Quick, Service, Transport};

/// A client's connection.
pub(crate) struct Connection<S: Service, T> {
    pub(crate) stream: T,
    pub(crate) service: S,
    /// What came and was not read yet: nothing while the connection is idle.
    pub(crate) buffer: BytesMut,
    pub(crate) limits: Arc<Limits>,
    pub(crate) clock: Clock,
    /// Changes when the listener stops.
    pub(crate) stopped: watch::Receiver<bool>,
    /// So much of the buffer was looked at for the end of a head.
    seen: usize,
    timer: Timer,
    /// The request at the beginning of the buffer, if it waits for the upstream's answer.
    pending: Option<PendingRequest<S::Pending>>,
    /// When the client was last heard of.
    since: Mono,
    is_first: bool,
    /// The client has shut down its sending side, but waits for an answer.
    is_half_closed: bool,
}

/// A request that waits for the upstream's answer.
struct PendingRequest<A> {
    /// Bytes of its head.
    end: usize,
    pending: A,
}

/// What a connection that waits for a request has come to.
enum Event<A> {
    /// The buffer begins with a complete head of this many bytes; perhaps the upstream has been asked
    /// already.
    Head(usize, Option<A>),
    /// A prepared answer did not go in one piece.
    Slow(Slow),
    Refused(Refusal),
    Over,
}

/// The rest of a prepared answer.
struct Slow {
    rest: VecDeque<Bytes>,
    /// Bytes of the body in all.
    body: u64,
    on_sent: Option<OnSent>,
}

impl Drop for Slow {
    /// Reports the bytes sent, whether the client takes all of them or leaves.
    fn drop(&mut self) {
        let left: u64 = self.rest.iter().map(|part| part.len() as u64).sum();
        if let Some(on_sent) = self.on_sent.take() {
            on_sent(self.body.saturating_sub(left));
        }
    }
}

/// Serves a connection, of which some bytes may have been read already, until it ends. When `stopped`
/// changes, the exchange that is under way ends it.
pub async fn serve<S: Service, T: Transport>(
    stream: T,
    read_ahead: BytesMut,
    service: S,
    limits: Arc<Limits>,
    clock: Clock,
    stopped: watch::Receiver<bool>,
) {
    let mut stops = stopped.clone();
    let mut stop = std::pin::pin!(async move {
        let _ = stops.changed().await;
    });
    let mut is_stopping = false;
    let mut connection = Connection {
        stream,
        service,
        buffer: read_ahead,
        limits,
        timer: Timer::new(&clock),
        since: clock.now().mono,
        clock,
        stopped,
        seen: 0,
        pending: None,
        is_first: true,
        is_half_closed: false,
    };
    loop {
        let event = std::future::poll_fn(|cx| {
            is_stopping = is_stopping || stop.as_mut().poll(cx).is_ready();
            connection.poll_event(cx, is_stopping)
        });
        match event.await {
            Event::Over => return connection.stream.close_notify(),
            Event::Refused(refusal) => {
                let start = std::mem::take(&mut connection.buffer);
                return Box::pin(connection.refuse(refusal, &start)).await;
            }
            Event::Slow(slow) => {
                if !Box::pin(connection.finish(slow)).await {
                    return;
                }
            }
            Event::Head(end, pending) => {
                connection = match Box::pin(connection.exchange(end, pending)).await {
                    Some(connection) => connection,
                    None => return,
                };
            }
        }
        connection.since = connection.clock.now().mono;
    }
}

impl<S: Service, T: Transport> Connection<S, T> {
    /// Reads requests and answers those whose answers are ready or come from the upstream, until there is
    /// something else to do.
    fn poll_event(&mut self, cx: &mut Context<'_>, is_stopping: bool) -> Poll<Event<S::Pending>> {
        loop {
            if self.pending.is_some()
                && let Some(event) = ready!(self.poll_pending(cx, is_stopping))
            {
                return Poll::Ready(event);
            }
            if self.buffer.len() > self.seen {
                if let Some(event) = self.take_buffered(is_stopping) {
                    return Poll::Ready(event);
                }
                if self.pending.is_some() {
                    continue;
                }
            }
            let mut scratch = [std::mem::MaybeUninit::uninit(); SCRATCH];
            let mut read = ReadBuf::uninit(&mut scratch);
            match Pin::new(&mut self.stream).poll_read(cx, &mut read) {
                Poll::Ready(Ok(())) if !read.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(Event::Over),
                // What has come already is answered first.
                Poll::Pending if is_stopping && self.buffer.is_empty() => {
                    return Poll::Ready(Event::Over);
                }
                Poll::Pending => return self.poll_timeout(cx),
            }
            let event = if self.buffer.is_empty() {
                let (taken, event) = self.take(read.filled(), 0, is_stopping);
                self.keep(&read.filled()[taken..]);
                event
            } else {
                self.buffer.extend_from_slice(read.filled());
                self.take_buffered(is_stopping)
            };
            if let Some(event) = event {
                return Poll::Ready(event);
            }
        }
    }

    /// Waits for the upstream's answer. Resolves to an event, or to `None` to continue with the next request.
    fn poll_pending(
        &mut self,
        cx: &mut Context<'_>,
        is_stopping: bool,
    ) -> Poll<Option<Event<S::Pending>>> {
        let Some(PendingRequest { end, pending }) = self.pending.take() else {
            return Poll::Ready(None);
        };
        if is_stopping {
            // The last answer of a connection says that it is the last: the slow path sees to that.
            self.timer.settle();
            return Poll::Ready(Some(Event::Head(end, Some(pending))));
        }
        let prepared = match self.service.poll_pending(pending, cx) {
            Progress::Ready(prepared) => prepared,
            Progress::SlowPath(pending) => {
                self.timer.settle();
                return Poll::Ready(Some(Event::Head(end, Some(pending))));
            }
            Progress::Waits(pending)
                if self.is_left(cx, end, self.service.arrived_at(&pending)) =>
            {
                let mut room = no_fields();
                let head = Head::parse(&self.buffer[..end], &mut room, self.limits.fields);
                if let Ok(head) = head {
                    self.service.client_left(&head, pending);
                }
                return Poll::Ready(Some(Event::Over));
            }
            Progress::Waits(pending) => {
                if self.timer.has_come(cx, self.service.deadline(&pending)) {
                    return Poll::Ready(Some(Event::Head(end, Some(pending))));
                }
                self.pending = Some(PendingRequest { end, pending });
                return Poll::Pending;
            }
        };
        self.timer.settle();
        let bytes = std::mem::take(&mut self.buffer);
        let mut room = no_fields();
        let event = match Head::parse(&bytes[..end], &mut room, self.limits.fields) {
            Ok(head) => self.give(&head, prepared),
            Err(refusal) => Some(Event::Refused(refusal)),
        };
        self.keep(&bytes[end..]);
        Poll::Ready(event)
    }

    /// Whether the client that sent its request at `since` has left. Keeps what it sends meanwhile, behind
    /// the head that ends at `end`, up to a bound.
    fn is_left(&mut self, cx: &mut Context<'_>, end: usize, since: Mono) -> bool {
        while !self.is_half_closed && self.buffer.len() - end < READ_AHEAD {
            match poll_read(Pin::new(&mut self.stream), cx, &mut self.buffer) {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(Ok(0)) if still_waits(&self.timer, since, &self.limits) => {
                    self.is_half_closed = true;
                }
                Poll::Ready(_) => return true,
                Poll::Pending => return false,
            }
        }
        false
    }

    /// As `take`, of what is in the buffer.
    fn take_buffered(&mut self, is_stopping: bool) -> Option<Event<S::Pending>> {
        let bytes = std::mem::take(&mut self.buffer);
        let (taken, event) = self.take(&bytes, self.seen, is_stopping);
        self.buffer = bytes;
        self.buffer.advance(taken);
        event
    }

    fn keep(&mut self, rest: &[u8]) {
        if rest.is_empty() {
            // An idle connection keeps no buffer.
            self.buffer = BytesMut::new();
        } else {
            self.buffer.extend_from_slice(rest);
        }
    }

    /// Nothing comes: for how long may that be?
    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<Event<S::Pending>> {
        let begun = !self.buffer.is_empty();
        let limit = if begun || self.is_first {
            self.limits.head_timeout
        } else {
            self.limits.idle_timeout
        };
        if !self.timer.is_past(cx, self.since + limit) {
            return Poll::Pending;
        }
        Poll::Ready(if begun { Event::Refused(Refusal::TimedOut) } else { Event::Over })
    }

    /// Answers the requests in `bytes` whose answers are ready. Returns how many bytes it consumed, and the
    /// next event unless that is to read more or to wait for the upstream. The first `seen` bytes were
    /// scanned before.
    fn take(
        &mut self,
        bytes: &[u8],
        mut seen: usize,
        is_stopping: bool,
    ) -> (usize, Option<Event<S::Pending>>) {
        let mut taken = 0;
        loop {
            let rest = &bytes[taken..];
            self.seen = 0;
            if rest.is_empty() {
                return (taken, None);
            }
            let end = match scan(rest, seen, self.limits.head_bytes) {
                Ok(Scan::End(end)) => end,
                Ok(Scan::More) => {
                    if seen == 0 && !self.is_first {
                        // A head has a time of its own, from its first byte.
                        self.since = self.timer.now();
                    }
                    self.seen = rest.len();
                    return (taken, None);
                }
                Err(refusal) => return (taken, Some(Event::Refused(refusal))),
            };
            seen = 0;
            self.is_first = false;
            let mut room = no_fields();
            // The slow path reports what is wrong with a head.
            let head = Head::parse(&rest[..end], &mut room, self.limits.fields).ok();
            let goes_on = |head: &Head<'_, '_>| {
                !is_stopping
                    && head.is_1_1
                    && head.persists()
                    && head.framing() == Ok(Framing::None)
            };
            let Some(head) = head.filter(goes_on) else {
                return (taken, Some(Event::Head(end, None)));
            };
            match self.service.quick(&head) {
                Quick::Ready(prepared) => {
                    taken += end;
                    if let Some(event) = self.give(&head, prepared) {
                        return (taken, Some(event));
                    }
                }
                Quick::Pending(pending) => {
                    self.pending = Some(PendingRequest { end, pending });
                    return (taken, None);
                }
                Quick::No => return (taken, Some(Event::Head(end, None))),
            }
        }
    }

    /// Sends a prepared answer; returns what is next, if that is not the next request.
    fn give(&mut self, head: &Head<'_, '_>, prepared: Prepared) -> Option<Event<S::Pending>> {
        let parts = [IoSlice::new(&prepared.head), IoSlice::new(&prepared.body)];
        let all = prepared.head.len() + prepared.body.len();
        let Ok((mut written, is_gone)) = self.stream.send_now(&parts) else {
            let on_sent = self.service.sending(head, &prepared);
            on_sent(0);
            return Some(Event::Over);
        };
        self.since = self.timer.now();
        if written == all && is_gone {
            self.service.sent(head, &prepared);
            return None;
        }
        let on_sent = Some(self.service.sending(head, &prepared));
        let body = prepared.body.len() as u64;
        let Prepared { head: mut first, body: mut second } = prepared;
        let of_head = written.min(first.len());
        first.advance(of_head);
        written -= of_head;
        second.advance(written);
        Some(Event::Slow(Slow { rest: VecDeque::from([first, second]), body, on_sent }))
    }

    /// Sends the rest of a prepared answer.
    async fn finish(&mut self, mut slow: Slow) -> bool {
        send(&mut self.stream, &mut slow.rest, &mut self.timer, &self.limits).await.is_ok()
    }
}
