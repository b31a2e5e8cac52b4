//! One request that is not answered from memory: its body comes in while its answer goes out.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use nightwatt_clock::Clock;
use tokio::sync::mpsc;

use crate::body::{Feeder, Incoming};
use crate::connection::Connection;
use crate::head::{Framing, Head, Refusal, no_fields};
use crate::reader::{BodyReader, Reader, poll_read};
use crate::response::Form;
use crate::timer::Timer;
use crate::upgrade::{Tunnel, Upgraded};
use crate::writer::{Interim, NotSent, Sent, Writer};
use crate::{Service, Transport};

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

impl<S: Service, T: Transport> Connection<S, T> {
    /// Answers the request whose head is the first `end` bytes of the buffer; `begun` is set if the upstream
    /// has been asked already. Returns the connection if it can be reused.
    pub(crate) async fn exchange(mut self, end: usize, begun: Option<S::Pending>) -> Option<Self> {
        let head = self.buffer.split_to(end).freeze();
        let parsed = {
            let mut room = no_fields();
            Head::parse(&head, &mut room, self.limits.fields).and_then(ParsedRequest::of)
        };
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(refusal) => {
                self.refuse(refusal, &head).await;
                return None;
            }
        };
        drop(head);
        match self.converse(parsed, begun).await {
            After::Next => return Some(self),
            After::Switch(tunnel) => {
                let Self { stream, buffer, service, .. } = self;
                drop(service);
                let stream = Box::new(stream);
                tunnel.run(Upgraded { stream, read_ahead: buffer.freeze() }).await;
            }
            After::Linger => self.linger().await,
            After::Reset => {
                let _ = self.stream.tcp().set_zero_linger();
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
        let written_answer = {
            let half = &mut self.stream;
            let mut writer = Writer { half, timer: Timer::new(&self.clock), limits: &self.limits };
            writer.answer(response, &form, || true).await
        };
        if written_answer.is_ok() {
            self.linger().await;
        }
    }

    async fn converse(&mut self, parsed: ParsedRequest, begun: Option<S::Pending>) -> After {
        let ParsedRequest { mut request, form, framing, feeder, expects } = parsed;
        let (interim, interims) = mpsc::unbounded_channel();
        if form.is_1_1 {
            request.extensions_mut().insert(Interim::new(interim.clone()));
        }
        let answering = match begun {
            None => self.service.answer(request),
            Some(begun) => self.service.resume(request, begun),
        };
        let (read, write) = self.stream.split();
        let timer = Timer::new(&self.clock);
        let mut reader = Reader {
            half: read,
            buffer: &mut self.buffer,
            body: BodyReader::new(framing, &self.limits),
            unread: Arc::new(AtomicBool::new(feeder.is_some())),
            feeder,
            expects: expects.then_some(interim),
            since: timer.now(),
            timer,
            limits: &self.limits,
        };
        let writer = Writer { half: write, timer: Timer::new(&self.clock), limits: &self.limits };
        let unread = Arc::clone(&reader.unread);
        let stopped = &self.stopped;
        let closes = || stopped.has_changed().unwrap_or(true) || unread.load(Ordering::Relaxed);
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
            None | Some(Err(NotSent::Gone)) => After::Close,
            Some(Err(NotSent::Short)) => After::Reset,
            Some(Ok(Sent { tunnel: Some(tunnel), .. })) => After::Switch(tunnel),
            Some(Ok(Sent { closes: true, .. })) => After::Linger,
            Some(Ok(_)) if unread.load(Ordering::Relaxed) => After::Linger,
            Some(Ok(_)) => After::Next,
        }
    }
}

/// A request, read and ready to be answered.
struct ParsedRequest {
    request: Request<Incoming>,
    form: Form,
    framing: Framing,
    feeder: Option<Feeder>,
    expects: bool,
}

impl ParsedRequest {
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

/// How long a client that still sends gets to read the last answer, in all and without sending anything (nginx's
/// `lingering_time` and `lingering_timeout`). A virtual clock does not wait.
const LINGER: Duration = Duration::from_secs(30);
const LINGER_SILENT: Duration = Duration::from_secs(5);

impl<S: Service, T: Transport> Connection<S, T> {
    /// Ends the connection so that the client gets to read the answer: closing at once, while it still
    /// sends, would destroy what it has not read.
    async fn linger(mut self) {
        let clock: Clock = self.clock.clone();
        let waits = !clock.is_virtual();
        let mut timer = Timer::new(&clock);
        let end = async {
            // The word that nothing follows may have to wait for the client, too.
            let _ = tokio::io::AsyncWriteExt::shutdown(&mut self.stream).await;
            if !waits {
                return;
            }
            loop {
                self.buffer.clear();
                let (stream, buffer) = (&mut self.stream, &mut self.buffer);
                let poll = |cx: &mut Context<'_>| poll_read(Pin::new(&mut *stream), cx, buffer);
                if !matches!(timer.within(LINGER_SILENT, poll).await, Some(Ok(1..))) {
                    return;
                }
            }
        };
        if waits {
            let _ = clock.timeout(LINGER, end).await;
        } else {
            end.await;
        }
    }
}
