//! A body that is compressed while it passes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use nightwatt_http1::BodyError;
use tokio::sync::OwnedSemaphorePermit;

use super::accepted::Coding;
use super::encoder::Encoder;
use super::tally::Tally;
use crate::body::Answer;

/// Output that is worth a packet.
const ENOUGH: usize = 8 << 10;

/// Parts that are compressed in a row before others have their turn.
const IN_A_ROW: usize = 16;

/// The body, and what of it was compressed and not sent.
pub(super) struct Compressing {
    plain: Answer,
    /// Nothing once the body has ended.
    encoder: Option<Encoder>,
    /// Bytes in the encoder that its reader cannot see yet.
    is_unflushed: bool,
    /// What comes behind the last part.
    trailers: Option<Frame<Bytes>>,
    coding: Coding,
    tally: Arc<Tally>,
    _place: OwnedSemaphorePermit,
}

type Part = Result<Frame<Bytes>, BodyError>;

impl Compressing {
    pub(super) fn new(
        plain: Answer,
        coding: Coding,
        encoder: Encoder,
        tally: Arc<Tally>,
        place: OwnedSemaphorePermit,
    ) -> Self {
        let (is_unflushed, trailers) = (false, None);
        let encoder = Some(encoder);
        Self { plain, encoder, is_unflushed, trailers, coding, tally, _place: place }
    }

    fn sends(&self, bytes: Vec<u8>) -> Option<Part> {
        self.tally.sent(self.coding, bytes.len());
        (!bytes.is_empty()).then(|| Ok(Frame::data(bytes.into())))
    }

    /// The last part; the trailers, if there are any, come next.
    fn ends(&mut self, encoder: Encoder) -> Option<Part> {
        match encoder.finish() {
            Ok(bytes) => self.sends(bytes).or_else(|| self.trailers.take().map(Ok)),
            Err(error) => Some(Err(error.into())),
        }
    }

    /// The server is silent: its reader gets what has come so far.
    fn waits(&mut self) -> Poll<Option<Part>> {
        let Some(encoder) = self.encoder.as_mut().filter(|_| self.is_unflushed) else {
            return Poll::Pending;
        };
        self.is_unflushed = false;
        if let Err(error) = encoder.flush() {
            self.encoder = None;
            return Poll::Ready(Some(Err(error.into())));
        }
        let bytes = encoder.take();
        // The waker is registered with the server's body.
        self.sends(bytes).map_or(Poll::Pending, |part| Poll::Ready(Some(part)))
    }
}

impl Body for Compressing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Part>> {
        let this = self.get_mut();
        for _ in 0..IN_A_ROW {
            let Some(encoder) = &mut this.encoder else {
                return Poll::Ready(this.trailers.take().map(Ok));
            };
            let frame = match Pin::new(&mut this.plain).poll_frame(cx) {
                Poll::Pending => return this.waits(),
                Poll::Ready(frame) => frame.transpose(),
            };
            let frame = match frame {
                Ok(frame) => frame.map(Frame::into_data),
                Err(error) => {
                    this.encoder = None;
                    return Poll::Ready(Some(Err(error)));
                }
            };
            // Not every body knows before that it has ended.
            let is_over = frame.is_none();
            match frame {
                Some(Ok(part)) => {
                    this.tally.read(this.coding, part.len());
                    if let Err(error) = encoder.write(&part) {
                        this.encoder = None;
                        return Poll::Ready(Some(Err(error.into())));
                    }
                    this.is_unflushed = true;
                    if encoder.ready() >= ENOUGH {
                        let bytes = encoder.take();
                        return Poll::Ready(this.sends(bytes));
                    }
                }
                Some(Err(trailers)) => this.trailers = Some(trailers),
                None => {}
            }
            let is_over = is_over || this.plain.is_end_stream() || this.trailers.is_some();
            if is_over && let Some(encoder) = this.encoder.take() {
                return Poll::Ready(this.ends(encoder));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.encoder.is_none() && self.trailers.is_none()
    }
}
