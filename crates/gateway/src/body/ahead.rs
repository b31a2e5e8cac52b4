//! Reads answers from the server faster than their clients do.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use nightwatt_http1::BodyError;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{self, UnboundedReceiver};

/// Bytes of an answer that may be read ahead of its client, plus one part.
pub(super) const AHEAD: u32 = 256 << 10;

type Part = Result<Frame<Bytes>, BodyError>;

/// An answer that a task of its own reads.
pub(super) struct Ahead {
    parts: UnboundedReceiver<Part>,
    room: Arc<Semaphore>,
    /// Bytes still to come, if known.
    pub(super) left: Option<u64>,
}

/// How much of the limit a part uses.
fn weight(part: &Part) -> u32 {
    let length = part.as_ref().ok().and_then(Frame::data_ref).map_or(0, Bytes::len);
    u32::try_from(length).unwrap_or(AHEAD).min(AHEAD)
}

impl Ahead {
    /// Starts to read; calls `done` when the server has sent all.
    pub(super) fn of<B>(mut body: B, done: impl FnOnce() + Send + 'static) -> Self
    where
        B: Body<Data = Bytes, Error = BodyError> + Unpin + Send + 'static,
    {
        let left = body.size_hint().exact();
        let (sender, parts) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(AHEAD as usize));
        let taken = Arc::clone(&room);
        tokio::spawn(async move {
            let reading = async {
                while let Some(part) = body.frame().await {
                    if body.is_end_stream() {
                        // Before the client has the last part, so that the next request finds the connection free.
                        done();
                        let _ = sender.send(part);
                        return;
                    }
                    let Ok(permit) = taken.acquire_many(weight(&part)).await else { return };
                    permit.forget();
                    let broke = part.is_err();
                    if sender.send(part).is_err() || broke {
                        return;
                    }
                }
                done();
            };
            tokio::select! {
                () = reading => {}
                // The client is gone: the connection to the server is dropped too.
                () = sender.closed() => {}
            }
        });
        Self { parts, room, left }
    }

    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Part>> {
        let part = std::task::ready!(self.parts.poll_recv(cx));
        if let Some(part) = &part {
            self.room.add_permits(weight(part) as usize);
            let length = part.as_ref().ok().and_then(Frame::data_ref).map_or(0, Bytes::len);
            self.left = self.left.map(|left| left.saturating_sub(length as u64));
        }
        Poll::Ready(part)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::mpsc::UnboundedSender;

    use super::*;

    /// Says what the test tells it to.
    struct Says(UnboundedReceiver<Part>);

    impl Body for Says {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Part>> {
            self.0.poll_recv(cx)
        }
    }

    /// An answer of parts that the test sends, and whether it was found to be all.
    struct Story {
        says: Option<UnboundedSender<Part>>,
        done: Arc<AtomicBool>,
        ahead: Option<Ahead>,
    }

    impl Story {
        fn begin() -> Self {
            let (says, heard) = mpsc::unbounded_channel();
            let done = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&done);
            let ahead = Ahead::of(Says(heard), move || flag.store(true, Ordering::Relaxed));
            Self { says: Some(says), done, ahead: Some(ahead) }
        }

        async fn send(&self, length: usize) {
            let part = Frame::data(Bytes::from(vec![b'x'; length]));
            self.says.as_ref().unwrap().send(Ok(part)).unwrap();
            self.rest().await;
        }

        async fn rest(&self) {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        }

        async fn read(&mut self) -> Option<usize> {
            let ahead = self.ahead.as_mut().unwrap();
            let part = std::future::poll_fn(|cx| ahead.poll_frame(cx)).await?;
            let length = part.unwrap().into_data().unwrap().len();
            self.rest().await;
            Some(length)
        }

        fn is_done(&self) -> bool {
            self.done.load(Ordering::Relaxed)
        }
    }

    fn play(story: impl AsyncFnOnce(Story)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async { story(Story::begin()).await });
    }

    #[test]
    fn a_server_is_done_though_nobody_has_read_a_byte_of_its_answer() {
        play(async |mut story| {
            story.send(100_000).await;
            story.send(50_000).await;
            assert!(!story.is_done(), "more may come");
            story.says = None;
            story.rest().await;
            assert!(story.is_done());
            assert_eq!([story.read().await, story.read().await], [Some(100_000), Some(50_000)]);
            assert_eq!(story.read().await, None);
        });
    }

    #[test]
    fn no_more_is_read_ahead_than_there_is_room_for() {
        play(async |mut story| {
            for _ in 0..5 {
                story.send(100_000).await;
            }
            story.says = None;
            story.rest().await;
            // Two fit, and the third waits for room.
            assert!(!story.is_done());
            story.read().await;
            assert!(!story.is_done());
            assert_eq!(story.read().await, Some(100_000));
            story.read().await;
            assert!(story.is_done(), "the last two fit");
        });
    }

    #[test]
    fn what_a_client_left_is_not_read_on() {
        play(async |mut story| {
            story.send(10).await;
            story.ahead = None;
            story.rest().await;
            assert!(story.says.unwrap().is_closed());
            assert!(!story.done.load(Ordering::Relaxed));
        });
    }
}
