//! A client's connection, from request to request.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use nightwatt_clock::Clock;
use nightwatt_model::time::Mono;
use tokio::io::ReadBuf;
use tokio::sync::watch;

use crate::head::{Framing, Head, Refusal, Scan, no_fields, scan};
use crate::timer::Timer;
use crate::writer::send;
use crate::{Limits, OnSent, Prepared, Service, Transport};

/// What is read at a time, into the stack.
pub(crate) const SCRATCH: usize = 16 << 10;

/// A client's connection.
pub(crate) struct Connection<S, T> {
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
    /// When the client was last heard of.
    since: Mono,
    is_first: bool,
}

/// What a connection that waits for a request has come to.
enum Event {
    /// The buffer begins with a whole head of so many bytes.
    Head(usize),
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
    /// The books are closed whether the client takes all of it or leaves.
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
    (stream, read_ahead): (T, BytesMut),
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
        is_first: true,
    };
    loop {
        let event = std::future::poll_fn(|cx| {
            is_stopping = is_stopping || stop.as_mut().poll(cx).is_ready();
            connection.poll_event(cx, is_stopping)
        });
        match event.await {
            Event::Over => return connection.stream.say_good_bye(),
            Event::Refused(refusal) => {
                let start = std::mem::take(&mut connection.buffer);
                return Box::pin(connection.refuse(refusal, &start)).await;
            }
            Event::Slow(slow) => {
                if !Box::pin(connection.finish(slow)).await {
                    return;
                }
            }
            Event::Head(end) => {
                connection = match Box::pin(connection.exchange(end)).await {
                    Some(connection) => connection,
                    None => return,
                };
            }
        }
        connection.since = connection.clock.now().mono;
    }
}

impl<S: Service, T: Transport> Connection<S, T> {
    /// Reads requests and answers those whose answers are ready, until there is something else to do.
    fn poll_event(&mut self, cx: &mut Context<'_>, is_stopping: bool) -> Poll<Event> {
        if self.buffer.len() > self.seen
            && let Some(event) = self.take_buffered(is_stopping)
        {
            return Poll::Ready(event);
        }
        loop {
            let mut scratch = [std::mem::MaybeUninit::uninit(); SCRATCH];
            let mut read = ReadBuf::uninit(&mut scratch);
            match Pin::new(&mut self.stream).poll_read(cx, &mut read) {
                Poll::Ready(Ok(())) if !read.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(Event::Over),
                // What has come already is answered first.
                Poll::Pending if is_stopping && self.buffer.is_empty() => {
                    return Poll::Ready(Event::Over);
                }
                Poll::Pending => return self.poll_patience(cx),
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

    /// As `take`, of what is in the buffer.
    fn take_buffered(&mut self, is_stopping: bool) -> Option<Event> {
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
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
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

    /// Answers the requests in `bytes` whose answers are ready. Says how many bytes that took, and
    /// what is next, if that is not to read more. The first `seen` bytes were looked at before.
    fn take(&mut self, bytes: &[u8], mut seen: usize, is_stopping: bool) -> (usize, Option<Event>) {
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
            let (quick, event) = self.quick(&rest[..end], is_stopping);
            if !quick {
                return (taken, Some(Event::Head(end)));
            }
            taken += end;
            if event.is_some() {
                return (taken, event);
            }
        }
    }

    /// Answers a request if its answer is ready. False: it has to go the long way.
    fn quick(&mut self, bytes: &[u8], is_stopping: bool) -> (bool, Option<Event>) {
        let mut room = no_fields();
        // What is wrong with a head is said on the long way.
        let Ok(head) = Head::parse(bytes, &mut room, self.limits.fields) else {
            return (false, None);
        };
        let goes_on = !is_stopping && head.is_1_1 && head.persists();
        if !goes_on || head.framing() != Ok(Framing::None) {
            return (false, None);
        }
        let Some(prepared) = self.service.quick(&head) else { return (false, None) };
        let parts = [IoSlice::new(&prepared.head), IoSlice::new(&prepared.body)];
        let all = prepared.head.len() + prepared.body.len();
        let Ok((mut written, is_gone)) = self.stream.send_now(&parts) else {
            let on_sent = self.service.sending(&head, &prepared);
            on_sent(0);
            return (true, Some(Event::Over));
        };
        self.since = self.timer.now();
        if written == all && is_gone {
            self.service.sent(&head, &prepared);
            return (true, None);
        }
        let on_sent = Some(self.service.sending(&head, &prepared));
        let body = prepared.body.len() as u64;
        let Prepared { head: mut first, body: mut second } = prepared;
        let of_head = written.min(first.len());
        first.advance(of_head);
        written -= of_head;
        second.advance(written);
        (true, Some(Event::Slow(Slow { rest: VecDeque::from([first, second]), body, on_sent })))
    }

    /// Sends the rest of a prepared answer.
    async fn finish(&mut self, mut slow: Slow) -> bool {
        send(&mut self.stream, &mut slow.rest, &mut self.timer, &self.limits).await.is_ok()
    }
}
