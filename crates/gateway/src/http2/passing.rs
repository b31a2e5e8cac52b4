//! Answers on their way to the client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use nightwatt_http1::BodyError;
use nightwatt_httpcache::fields;

use super::watch::Turn;
use crate::body::Answer;

/// What hyper gets of an answer stays in memory until the client has read it, but counts as sent. So hyper gets no more
/// than this at once.
pub(super) const PART: usize = 16 << 10;

/// An answer, in small parts.
pub(crate) struct Passing {
    answer: Answer,
    /// The unsent rest of the answer's last part.
    rest: Bytes,
    /// The answer failed. Earlier data is sent first: a reset discards what hyper still has.
    broken: Option<BodyError>,
    turn: Arc<Turn>,
}

impl Passing {
    pub(super) fn new(answer: Answer, turn: Arc<Turn>) -> Self {
        // hyper polls for the first part when the client has room for it.
        turn.is_clients(true);
        Self { answer, rest: Bytes::new(), broken: None, turn }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Some(Err(error)));
        }
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.answer).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(without_connection(frame)))),
                },
                Some(Err(error)) => {
                    self.broken = Some(error);
                    // Polled after the connection, which was woken by this part.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                None => return Poll::Ready(None),
            }
        }
        let part = self.rest.split_to(self.rest.len().min(PART));
        Poll::Ready(Some(Ok(Frame::data(part))))
    }
}

/// Removes connection fields from trailers: HTTP/2 has none.
fn without_connection(frame: Frame<Bytes>) -> Frame<Bytes> {
    match frame.into_trailers() {
        Ok(mut trailers) => {
            fields::strip_hop_by_hop(&mut trailers);
            Frame::trailers(trailers)
        }
        Err(frame) => frame,
    }
}

impl Body for Passing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let frame = this.poll(cx);
        this.turn.is_clients(frame.is_ready());
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.answer.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, hint) = (self.rest.len() as u64, self.answer.size_hint());
        let mut whole = SizeHint::new();
        whole.set_lower(rest + hint.lower());
        if let Some(upper) = hint.upper() {
            whole.set_upper(rest + upper);
        }
        whole
    }
}
