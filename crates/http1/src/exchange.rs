//! One request that is not answered from memory: its body comes in while its answer goes out.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Frame;
use nightwatt_clock::Clock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use crate::body::{BodyError, BrokenOff, Dropped, Feeder, Incoming};
use crate::chunked::{Chunked, Step};
use crate::connection::{Connection, SCRATCH};
use crate::head::{Framing, Head, Refusal, no_fields};
use crate::response::{BodyEnd, Form, chunk_line, last_chunk, write_head, write_interim};
use crate::timer::Timer;
use crate::upgrade::{Tunnel, Upgraded};
use crate::{Limits, Service};

/// What a client may send ahead of the answer; the rest waits in the kernel.
const READ_AHEAD: usize = 64 << 10;

/// A part of a body as it is read.
const PART: usize = 64 << 10;

/// Sends interim answers (1xx) ahead of the answer; one of a request's extensions. 100 is sent by
/// itself when the body is wanted.
#[derive(Debug, Clone)]
pub struct Interim(mpsc::UnboundedSender<(StatusCode, HeaderMap)>);

impl Interim {
    /// Sends one, if the answer has not begun.
    pub fn send(&self, status: StatusCode, headers: HeaderMap) {
        let ours = matches!(status, StatusCode::CONTINUE | StatusCode::SWITCHING_PROTOCOLS);
        if status.is_informational() && !ours {
            // Nobody receives once the answer has begun.
            let _ = self.0.send((status, headers));
        }
    }
}

/// What becomes of the connection.
enum After {
    /// The next request.
    Next,
    /// Another protocol.
    Switch(Tunnel),
    /// It is closed, after the client has had time to read the answer.
    Linger,
    /// It is closed at once.
    Close,
    /// So that the client sees that the answer is not whole.
    Reset,
}

impl<S: Service> Connection<S> {
    /// Answers the request whose head is the first `end` bytes of the buffer. Gives the connection
    /// back if it can be used again.
    pub(crate) async fn exchange(mut self, end: usize) -> Option<Self> {
        let head = self.buffer.split_to(end).freeze();
        let asked = {
            let mut room = no_fields();
            Head::parse(&head, &mut room, self.limits.fields).and_then(Asked::of)
        };
        let asked = match asked {
            Ok(asked) => asked,
            Err(refusal) => {
                self.refuse(refusal, &head).await;
                return None;
            }
        };
        drop(head);
        match self.converse(asked).await {
            After::Next => return Some(self),
            After::Switch(tunnel) => {
                let Self { stream, buffer, service, .. } = self;
                drop(service);
                tunnel.run(Upgraded { stream, read_ahead: buffer.freeze() }).await;
            }
            After::Linger => self.linger().await,
            After::Reset => {
                let _ = self.stream.set_zero_linger();
            }
            After::Close => {}
        }
        None
    }

    /// Says what is wrong, and ends the connection.
    pub(crate) async fn refuse(mut self, refusal: Refusal, start: &[u8]) {
        let response = self.service.refused(refusal, start);
        let form = Form {
            method: http::Method::GET,
            is_1_1: true,
            persists: false,
            takes_trailers: false,
        };
        let (_, write) = self.stream.split();
        let mut writer =
            Writer { half: write, timer: Timer::new(&self.clock), limits: &self.limits };
        if writer.answer(response, &form, || true).await.is_ok() {
            self.linger().await;
        }
    }

    async fn converse(&mut self, asked: Asked) -> After {
        let Asked { mut request, form, framing, feeder, expects } = asked;
        let (interim, interims) = mpsc::unbounded_channel();
        if form.is_1_1 {
            request.extensions_mut().insert(Interim(interim.clone()));
        }
        let answering = self.service.answer(request);
        let (read, write) = self.stream.split();
        let mut reader = Reader {
            half: read,
            buffer: &mut self.buffer,
            body: BodyReader::new(framing, &self.limits),
            unread: Arc::new(AtomicBool::new(feeder.is_some())),
            feeder,
            expects: expects.then_some(interim),
            timer: Timer::new(&self.clock),
            limits: &self.limits,
        };
        let writer = Writer { half: write, timer: Timer::new(&self.clock), limits: &self.limits };
        let stopping = self.stopped.has_changed().unwrap_or(true);
        let unread = Arc::clone(&reader.unread);
        let closes = || stopping || unread.load(Ordering::Relaxed);
        let written = {
            let mut reading = pin!(reader.run());
            let mut writing = pin!(writer.run(answering, interims, &form, closes));
            std::future::poll_fn(|cx| {
                // What is there of the body first: an answer may depend on nothing else.
                let gone = reading.as_mut().poll(cx).is_ready();
                if let Poll::Ready(written) = writing.as_mut().poll(cx) {
                    return Poll::Ready(Some(written));
                }
                if gone { Poll::Ready(None) } else { Poll::Pending }
            })
            .await
        };
        match written {
            None => After::Close,
            Some(Err(NotSent::Gone)) => After::Close,
            Some(Err(NotSent::Short)) => After::Reset,
            Some(Ok(Sent { tunnel: Some(tunnel), .. })) => After::Switch(tunnel),
            Some(Ok(Sent { closes: true, .. })) => After::Linger,
            Some(Ok(_)) if unread.load(Ordering::Relaxed) => After::Linger,
            Some(Ok(_)) => After::Next,
        }
    }
}

/// A request, read and ready to be answered.
struct Asked {
    request: Request<Incoming>,
    form: Form,
    framing: Framing,
    feeder: Option<Feeder>,
    expects: bool,
}

impl Asked {
    fn of(head: Head<'_, '_>) -> Result<Self, Refusal> {
        let framing = head.framing()?;
        let (body, feeder) = match framing {
            Framing::None => (Incoming::empty(), None),
            Framing::Length(length) => fed(Some(length)),
            Framing::Chunked => fed(None),
        };
        let takes_trailers = head.values("te").any(|value| {
            let mut codings = value.split(|byte| *byte == b',');
            codings.any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"trailers"))
        });
        let request = head.to_request(body)?;
        let form = Form {
            method: request.method().clone(),
            is_1_1: head.is_1_1,
            persists: head.persists(),
            takes_trailers,
        };
        Ok(Self { request, form, framing, feeder, expects: head.expects_continue() })
    }
}

fn fed(length: Option<u64>) -> (Incoming, Option<Feeder>) {
    let (body, feeder) = Incoming::fed(length);
    (body, Some(feeder))
}

/// The client sent something that is not the body it announced.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.text())]
struct BadBody(Refusal);

/// What is left to be read of a body.
enum BodyReader {
    Length(u64),
    Chunked(Chunked),
}

impl BodyReader {
    fn new(framing: Framing, limits: &Limits) -> Option<Self> {
        match framing {
            Framing::None => None,
            Framing::Length(length) => Some(Self::Length(length)),
            Framing::Chunked => Some(Self::Chunked(Chunked::new(limits.head_bytes, limits.fields))),
        }
    }
}

/// Reads what the client sends during an exchange.
struct Reader<'a> {
    half: ReadHalf<'a>,
    buffer: &'a mut BytesMut,
    /// Nothing once the body was read whole.
    body: Option<BodyReader>,
    /// Whether there is more of it: then nothing can follow on this connection.
    unread: Arc<AtomicBool>,
    feeder: Option<Feeder>,
    /// The client waits for 100 Continue.
    expects: Option<mpsc::UnboundedSender<(StatusCode, HeaderMap)>>,
    timer: Timer,
    limits: &'a Limits,
}

/// The client has left.
struct Gone;

impl Reader<'_> {
    /// Reads the body as fast as it is wanted, then watches for the client to leave.
    async fn run(&mut self) -> Gone {
        if let Some(feeder) = self.feeder.take() {
            match self.feed(&feeder).await {
                Ok(()) => self.unread.store(false, Ordering::Relaxed),
                Err(Stopped::Dropped) => return std::future::pending().await,
                Err(Stopped::Bad(error)) => {
                    feeder.fail(error);
                    return std::future::pending().await;
                }
                Err(Stopped::Gone) => {
                    feeder.fail(Box::new(BrokenOff));
                    return Gone;
                }
            }
        }
        while self.buffer.len() < READ_AHEAD {
            if !matches!(self.read(None).await, Some(Ok(1..))) {
                return Gone;
            }
        }
        std::future::pending().await
    }

    async fn feed(&mut self, feeder: &Feeder) -> Result<(), Stopped> {
        while self.body.is_some() {
            std::future::poll_fn(|cx| feeder.poll_wanted(cx)).await?;
            while !self.take_part(feeder)? {
                if let Some(expects) = self.expects.take() {
                    let _ = expects.send((StatusCode::CONTINUE, HeaderMap::new()));
                }
                match self.read(Some(self.limits.body_timeout)).await {
                    Some(Ok(1..)) => {}
                    Some(_) => return Err(Stopped::Gone),
                    None => return Err(Stopped::Bad(Box::new(BadBody(Refusal::TimedOut)))),
                }
            }
        }
        Ok(())
    }

    /// Passes on what is in the buffer of the body. False: there is nothing.
    fn take_part(&mut self, feeder: &Feeder) -> Result<bool, Stopped> {
        match &mut self.body {
            None => return Ok(true),
            Some(BodyReader::Length(left)) => {
                if self.buffer.is_empty() {
                    return Ok(false);
                }
                let here = usize::try_from(*left).unwrap_or(usize::MAX).min(self.buffer.len());
                *left -= here as u64;
                let last = *left == 0;
                feeder.give(Frame::data(self.buffer.split_to(here).freeze()), last);
                if last {
                    self.body = None;
                }
            }
            Some(BodyReader::Chunked(chunked)) => {
                let step = chunked.step(self.buffer);
                match step.map_err(|refusal| Stopped::Bad(Box::new(BadBody(refusal))))? {
                    Step::More => return Ok(false),
                    Step::Data(part) => feeder.give(Frame::data(part), false),
                    Step::End(trailers) => {
                        match trailers {
                            Some(trailers) => feeder.give(Frame::trailers(trailers), true),
                            None => feeder.end(),
                        }
                        self.body = None;
                    }
                }
            }
        }
        Ok(true)
    }

    /// Reads into the buffer; nothing if that takes too long.
    async fn read(&mut self, limit: Option<std::time::Duration>) -> Option<std::io::Result<usize>> {
        let (half, buffer) = (&mut self.half, &mut *self.buffer);
        let limit = limit.unwrap_or(std::time::Duration::MAX);
        self.timer.within(limit, |cx| poll_read(Pin::new(&mut *half), cx, buffer)).await
    }
}

/// Why a body was not read to its end.
enum Stopped {
    Dropped,
    Gone,
    Bad(BodyError),
}

impl From<Dropped> for Stopped {
    fn from(_: Dropped) -> Self {
        Self::Dropped
    }
}

/// Appends what has come to `buffer`, which grows only then.
pub(crate) fn poll_read(
    stream: Pin<&mut impl AsyncRead>,
    cx: &mut Context<'_>,
    buffer: &mut BytesMut,
) -> Poll<std::io::Result<usize>> {
    let mut scratch = [std::mem::MaybeUninit::uninit(); SCRATCH];
    let mut read = ReadBuf::uninit(&mut scratch);
    std::task::ready!(stream.poll_read(cx, &mut read))?;
    if buffer.capacity() - buffer.len() < read.filled().len() {
        buffer.reserve(PART.min(4 * read.filled().len()));
    }
    buffer.extend_from_slice(read.filled());
    Poll::Ready(Ok(read.filled().len()))
}

/// Writes the answer.
struct Writer<'a> {
    half: WriteHalf<'a>,
    timer: Timer,
    limits: &'a Limits,
}

/// An answer that went whole.
struct Sent {
    closes: bool,
    tunnel: Option<Tunnel>,
}

/// Why an answer did not go whole.
enum NotSent {
    /// The client left, or takes nothing.
    Gone,
    /// Its source broke off.
    Short,
}

impl Writer<'_> {
    /// Waits for the answer, sends interim ones meanwhile, then sends it.
    async fn run<B>(
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
    async fn answer<B>(
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
        let told = response.headers().get(http::header::CONNECTION);
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

    /// The next frame. What is to be sent goes before anybody waits for more.
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
        let half = &mut self.half;
        send(
            |cx, parts| Pin::new(&mut *half).poll_write_vectored(cx, parts),
            out,
            &mut self.timer,
            self.limits,
        )
        .await
        .map_err(|()| NotSent::Gone)
    }
}

/// Writes all of `out`, as long as the client takes something of it now and then.
pub(crate) async fn send(
    mut write: impl FnMut(&mut Context<'_>, &[IoSlice<'_>]) -> Poll<std::io::Result<usize>>,
    out: &mut VecDeque<Bytes>,
    timer: &mut Timer,
    limits: &Limits,
) -> Result<(), ()> {
    out.retain(|part| !part.is_empty());
    while !out.is_empty() {
        let written = timer.within(limits.send_timeout, |cx| {
            let mut parts = [IoSlice::new(&[]); 4];
            let count = out.len().min(parts.len());
            for (slot, part) in parts.iter_mut().zip(out.iter()) {
                *slot = IoSlice::new(part);
            }
            write(cx, &parts[..count])
        });
        let mut written = match written.await {
            Some(Ok(written @ 1..)) => written,
            _ => return Err(()),
        };
        while let Some(first) = out.front_mut() {
            if written < first.len() {
                first.advance(written);
                break;
            }
            written -= first.len();
            out.pop_front();
        }
    }
    Ok(())
}

/// Under a real clock: how long a client gets to read the last answer, and how much it may still send.
pub(crate) const LINGER: std::time::Duration = std::time::Duration::from_secs(2);
pub(crate) const LINGER_BYTES: usize = 4 << 20;

impl<S: Service> Connection<S> {
    /// Ends the connection so that the client gets to read the answer: closing at once, while it still
    /// sends, would destroy what it has not read.
    async fn linger(mut self) {
        let _ = tokio::io::AsyncWriteExt::shutdown(&mut self.stream).await;
        let clock: Clock = self.clock.clone();
        let drain = async {
            let mut drained = 0;
            while drained < LINGER_BYTES {
                self.buffer.clear();
                let (stream, buffer) = (&mut self.stream, &mut self.buffer);
                let read = std::future::poll_fn(|cx| poll_read(Pin::new(&mut *stream), cx, buffer));
                match read.await {
                    Ok(count @ 1..) => drained += count,
                    _ => return,
                }
            }
        };
        if !clock.is_virtual() {
            let _ = clock.timeout(LINGER, drain).await;
        }
    }
}

/// Limits are shared by all connections of a listener.
pub(crate) type SharedLimits = Arc<Limits>;
