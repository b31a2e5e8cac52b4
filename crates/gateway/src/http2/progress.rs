//! Whether a connection goes on: requests that are under way, and answers that are being taken.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use nightwatt_clock::Clock;
use nightwatt_http1::{BodyError, Limits};
use nightwatt_model::time::Mono;
use tokio::sync::Notify;

use crate::body::Answer;

/// What goes on in one connection.
pub(super) struct Progress {
    clock: Clock,
    state: Mutex<State>,
    ending: Notify,
}

#[derive(Debug)]
struct State {
    /// Requests whose answers have not gone whole.
    under_way: usize,
    /// Answers of which there is more, and it is the client's turn to take it.
    offered: usize,
    /// When a request began or ended, or something of an answer was taken.
    last: Mono,
}

impl Progress {
    pub(super) fn new(clock: &Clock) -> Arc<Self> {
        let state = State { under_way: 0, offered: 0, last: clock.now().mono };
        Arc::new(Self { clock: clock.clone(), state: Mutex::new(state), ending: Notify::new() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something went on.
    pub(super) fn touch(&self) {
        self.state().last = self.clock.now().mono;
    }

    /// A request begins.
    pub(super) fn begin(self: &Arc<Self>) -> UnderWay {
        self.state().under_way += 1;
        self.touch();
        UnderWay { progress: Arc::clone(self), is_offered: false }
    }

    /// The connection is to end after what is under way.
    pub(super) fn end_soon(&self) {
        self.ending.notify_one();
    }

    /// Comes when somebody said so.
    pub(super) async fn is_to_end(&self) {
        self.ending.notified().await;
    }

    /// Has nothing been under way for the time that clients may be idle? One that ends only has the time
    /// in which it must take something.
    fn idle_at(&self, limits: &Limits, is_ending: bool) -> Option<Mono> {
        let state = self.state();
        let limit = if is_ending { limits.send_timeout } else { limits.idle_timeout };
        (state.under_way == 0).then(|| state.last + limit)
    }

    pub(super) fn is_idle(&self, limits: &Limits, is_ending: bool) -> bool {
        self.idle_at(limits, is_ending).is_some_and(|at| self.clock.now().mono >= at)
    }

    /// Has the client taken nothing for too long of answers that are there?
    pub(super) fn stands_still(&self, limits: &Limits) -> bool {
        let state = self.state();
        state.offered > 0 && self.clock.now().mono >= state.last + limits.send_timeout
    }

    /// When to look again. Nothing can have become due before that.
    pub(super) fn next_look(&self, limits: &Limits, is_ending: bool) -> Mono {
        let idle = self.idle_at(limits, is_ending);
        let (offered, last) = {
            let state = self.state();
            (state.offered > 0, state.last)
        };
        let fresh = self.clock.now().mono + limits.send_timeout;
        let still = if offered { last + limits.send_timeout } else { fresh };
        idle.map_or(still, |idle| idle.min(still))
    }
}

/// A request whose answer has not gone whole.
pub(super) struct UnderWay {
    progress: Arc<Progress>,
    is_offered: bool,
}

impl UnderWay {
    /// Says whose turn it is: the client's, or that of whoever makes the answer.
    fn offer(&mut self, is_offered: bool) {
        let before = std::mem::replace(&mut self.is_offered, is_offered);
        let mut state = self.progress.state();
        state.last = self.progress.clock.now().mono;
        match (before, is_offered) {
            (false, true) => state.offered += 1,
            (true, false) => state.offered -= 1,
            _ => {}
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.offer(false);
        self.progress.state().under_way -= 1;
    }
}

/// An answer on its way to the client.
pub(crate) struct Passing {
    answer: Answer,
    under_way: UnderWay,
}

impl Passing {
    pub(super) fn new(answer: Answer, mut under_way: UnderWay) -> Self {
        // hyper asks for the first part when the client has room for it.
        under_way.offer(true);
        Self { answer, under_way }
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
        let frame = Pin::new(&mut this.answer).poll_frame(cx);
        this.under_way.offer(frame.is_ready());
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.answer.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.answer.size_hint()
    }
}
