//! A server that is woken in one way and put to sleep in another.

use std::task::Poll;

use crate::{Controller, News, Observed, Subject, Work};

/// Two controllers of one server.
#[derive(Debug)]
pub(crate) struct Pair {
    wake: Box<dyn Controller>,
    sleep: Box<dyn Controller>,
}

impl Pair {
    pub(crate) fn new(wake: Box<dyn Controller>, sleep: Box<dyn Controller>) -> Self {
        Self { wake, sleep }
    }
}

impl Controller for Pair {
    fn wake(&self) -> Work<'_, ()> {
        self.wake.wake()
    }

    fn sleep(&self) -> Work<'_, ()> {
        self.sleep.sleep()
    }

    fn leave(&self) {
        self.wake.leave();
        self.sleep.leave();
    }

    /// The first that can tell.
    fn state(&self) -> Work<'_, Observed> {
        Box::pin(async {
            match self.wake.state().await {
                Ok(Observed::Unknown) => self.sleep.state().await,
                Err(error) => match self.sleep.state().await {
                    Ok(Observed::Unknown) | Err(_) => Err(error),
                    told => told,
                },
                told => told,
            }
        })
    }

    /// On the way to sleep: what wakes is on its way for ever, or for no time.
    fn nothing(&self) -> Work<'_, ()> {
        self.sleep.nothing()
    }

    fn asks_others(&self) -> bool {
        self.wake.asks_others()
    }

    fn announces_sleep(&self) -> bool {
        self.sleep.announces_sleep()
    }

    fn remind(&self) -> Work<'_, ()> {
        self.wake.remind()
    }

    /// Whichever has something to tell.
    fn heard(&self) -> News<'_> {
        let (mut wake, mut sleep) = (self.wake.heard(), self.sleep.heard());
        Box::pin(std::future::poll_fn(move |cx| match sleep.as_mut().poll(cx) {
            Poll::Pending => wake.as_mut().poll(cx),
            Poll::Ready(heard) => Poll::Ready(heard),
        }))
    }

    fn still_starts(&self) -> Work<'_, ()> {
        self.wake.still_starts()
    }

    fn subject(&self) -> Subject {
        self.wake.subject()
    }
}
