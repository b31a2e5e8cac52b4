//! The answer on its way to the client.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::header::CONNECTION;
use http::{HeaderMap, Response, StatusCode};
use http_body::Frame;
use tokio::io::AsyncWrite;
use tokio::sync::mpsc;

use crate::Limits;
use crate::body::BodyError;
use crate::response::{BodyEnd, Form, chunk_line, last_chunk, write_head, write_interim};
use crate::timer::Timer;
use crate::upgrade::Tunnel;

/// No more interim answers go ahead of one answer: a client that reads slowly must not fill our memory.
const MOST_INTERIM: usize = 64;

/// Sends interim answers (1xx) ahead of the answer; one of a request's extensions. 100 is sent by
/// itself when the body is wanted.
#[derive(Debug, Clone)]
pub struct Interim {
    sender: mpsc::UnboundedSender<(StatusCode, HeaderMap)>,
    sent: Arc<AtomicUsize>,
}

impl Interim {
    pub(crate) fn new(sender: mpsc::UnboundedSender<(StatusCode, HeaderMap)>) -> Self {
        Self { sender, sent: Arc::default() }
    }

    /// Sends one, if the answer has not begun.
    pub fn send(&self, status: StatusCode, headers: HeaderMap) {
        let ours = matches!(status, StatusCode::CONTINUE | StatusCode::SWITCHING_PROTOCOLS);
        let room = self.sent.fetch_add(1, Ordering::Relaxed) < MOST_INTERIM;
        if status.is_informational() && !ours && room {
            // Fails once the answer has begun: then the receiver is gone.
            let _ = self.sender.send((status, headers));
        }
    }
}

/// Writes the answer.
pub(crate) struct Writer<'a, W> {
    pub(crate) half: W,
    pub(crate) timer: Timer,
    pub(crate) limits: &'a Limits,
}

/// An answer that went whole.
pub(crate) struct Sent {
    pub(crate) closes: bool,
    pub(crate) tunnel: Option<Tunnel>,
}

/// Why an answer did not go whole.
pub(crate) enum NotSent {
    /// The client left, or takes nothing.
    Gone,
    /// Its source broke off.
    Short,
}

impl<W: AsyncWrite + Unpin> Writer<'_, W> {
    /// Waits for the answer, sends interim ones meanwhile, then sends it.
    pub(crate) async fn run<B>(
        mut self,
        answering: impl Future<Output = Response<B>>,
        mut interims: mpsc::UnboundedReceiver<(StatusCode, HeaderMap)>,
        form: &Form,
        closes: impl FnOnce() -> bool,
    ) -> Result<Sent, NotSent>
    where
        B: http_body::Body<Data = Bytes, Error = BodyError> + Unpin,
    {
        let response = {
            let mut answering = pin!(answering);
            loop {
                let next = std::future::poll_fn(|cx| {
                    // Interim answers that came before it go before it.
                    let answer = answering.as_mut().poll(cx);
                    match interims.poll_recv(cx) {
                        Poll::Ready(Some(interim)) => Poll::Ready((Some(interim), answer)),
                        _ => match answer {
                            Poll::Ready(_) => Poll::Ready((None, answer)),
                            Poll::Pending => Poll::Pending,
                        },
                    }
                });
                let (interim, answer) = next.await;
                let mut waiting = interim;
                while let Some((status, headers)) = waiting {
                    let mut out = BytesMut::new();
                    write_interim(&mut out, status, &headers);
                    self.send(&mut VecDeque::from([out.freeze()])).await?;
                    waiting = interims.try_recv().ok();
                }
                if let Poll::Ready(response) = answer {
                    break response;
                }
            }
        };
        drop(interims);
        self.answer(response, form, closes).await
    }

    /// Sends an answer: its head with the first part of its body, if that is there.
    pub(crate) async fn answer<B>(
        &mut self,
        mut response: Response<B>,
        form: &Form,
        closes: impl FnOnce() -> bool,
    ) -> Result<Sent, NotSent>
    where
        B: http_body::Body<Data = Bytes, Error = BodyError> + Unpin,
    {
        let tunnel = response.extensions_mut().remove::<Tunnel>();
        let tunnel = tunnel.filter(|_| response.status() == StatusCode::SWITCHING_PROTOCOLS);
        let end = form.body_end(&response, response.body().size_hint().exact());
        let told = response.headers().get(CONNECTION);
        let told = told.is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"close"));
        let closes = told || !form.persists || end == BodyEnd::Close || closes();
        let mut head = BytesMut::with_capacity(512);
        write_head(&mut head, &response, end, form, closes);
        let mut out = VecDeque::from([head.freeze()]);
        if end == BodyEnd::NoBody {
            self.send(&mut out).await?;
            return Ok(Sent { closes, tunnel });
        }
        self.body(response.into_body(), end, form, out).await?;
        Ok(Sent { closes, tunnel })
    }

    async fn body<B>(
        &mut self,
        mut body: B,
        end: BodyEnd,
        form: &Form,
        mut out: VecDeque<Bytes>,
    ) -> Result<(), NotSent>
    where
        B: http_body::Body<Data = Bytes, Error = BodyError> + Unpin,
    {
        let mut left = if let BodyEnd::Length(length) = end { length } else { u64::MAX };
        loop {
            let frame = match self.next_frame(&mut body, &mut out).await? {
                None => break,
                Some(Err(_)) => return self.short(out).await,
                Some(Ok(frame)) => frame,
            };
            match frame.into_data() {
                Ok(part) if part.is_empty() => {}
                Ok(part) => {
                    let length = part.len() as u64;
                    if length > left {
                        // More than was announced: the head's word counts, and nothing follows.
                        return self.short(out).await;
                    }
                    left -= length;
                    if end == BodyEnd::Chunked {
                        out.extend([chunk_line(part.len()), part, Bytes::from_static(b"\r\n")]);
                    } else {
                        out.push_back(part);
                    }
                }
                Err(frame) => {
                    let trailers = frame.into_trailers().ok().filter(|_| form.takes_trailers);
                    if end == BodyEnd::Chunked {
                        out.push_back(last_chunk(trailers.as_ref()));
                    }
                    return self.send(&mut out).await;
                }
            }
        }
        if left > 0 && matches!(end, BodyEnd::Length(_)) {
            return self.short(out).await;
        }
        if end == BodyEnd::Chunked {
            out.push_back(last_chunk(None));
        }
        self.send(&mut out).await
    }

    /// The next frame. Sends what is pending before it waits for more.
    async fn next_frame<B>(
        &mut self,
        body: &mut B,
        out: &mut VecDeque<Bytes>,
    ) -> Result<Option<Result<Frame<Bytes>, BodyError>>, NotSent>
    where
        B: http_body::Body<Data = Bytes, Error = BodyError> + Unpin,
    {
        if out.len() < 3 {
            let ready = std::future::poll_fn(|cx| {
                Poll::Ready(match Pin::new(&mut *body).poll_frame(cx) {
                    Poll::Ready(frame) => Some(frame),
                    Poll::Pending => None,
                })
            });
            if let Some(frame) = ready.await {
                return Ok(frame);
            }
        }
        self.send(out).await?;
        Ok(std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await)
    }

    /// Sends what there is of an answer that will not become whole.
    async fn short(&mut self, mut out: VecDeque<Bytes>) -> Result<(), NotSent> {
        self.send(&mut out).await?;
        Err(NotSent::Short)
    }

    async fn send(&mut self, out: &mut VecDeque<Bytes>) -> Result<(), NotSent> {
        let sent = send(&mut self.half, out, &mut self.timer, self.limits).await;
        sent.map_err(|()| NotSent::Gone)
    }
}

/// Writes all of `out`, as long as the client takes something of it now and then.
pub(crate) async fn send(
    to: &mut (impl AsyncWrite + Unpin),
    out: &mut VecDeque<Bytes>,
    timer: &mut Timer,
    limits: &Limits,
) -> Result<(), ()> {
    out.retain(|part| !part.is_empty());
    while !out.is_empty() {
        let written = timer.within(limits.send_timeout, |cx| poll_write(to, out, cx));
        let Some(Ok(())) = written.await else { return Err(()) };
    }
    // Of plain TCP nothing waits.
    match timer.within(limits.send_timeout, |cx| Pin::new(&mut *to).poll_flush(cx)).await {
        Some(Ok(())) => Ok(()),
        _ => Err(()),
    }
}

/// So many parts are written at once.
pub(crate) const ROOM: usize = 8;

/// Writes what goes at once of `out`, of which something is there.
pub(crate) fn poll_write(
    to: &mut (impl AsyncWrite + Unpin),
    out: &mut VecDeque<Bytes>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    let mut parts = [IoSlice::new(&[]); ROOM];
    let count = out.len().min(ROOM);
    for (slot, part) in parts.iter_mut().zip(out.iter()) {
        *slot = IoSlice::new(part);
    }
    let written = Pin::new(to).poll_write_vectored(cx, &parts[..count]);
    let mut written = ready!(written)?;
    if written == 0 {
        return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
    }
    while let Some(first) = out.front_mut() {
        if written < first.len() {
            first.advance(written);
            break;
        }
        written -= first.len();
        out.pop_front();
    }
    Poll::Ready(Ok(()))
}
