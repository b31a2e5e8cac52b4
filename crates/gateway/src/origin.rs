//! Connections to the server behind.

use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use nightwatt_clock::Clock;
use rustix::io::Errno;
use tokio::net::TcpStream;

use crate::body::{JUST_AFTER, Question, Sending};

/// Idle connections kept. So many come about only if as many requests were under way at once; the
/// server closes those that it does not want to keep.
const IDLE: usize = 1024;

/// Why a request to the server came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OriginError {
    /// No connection: nothing was sent.
    #[error("cannot connect to {0}: {1}")]
    Unreachable(String, std::io::Error),
    /// This machine has nothing left to connect with: no fault of the server's.
    #[error("cannot connect: this machine is out of descriptors, ports or memory ({0})")]
    Exhausted(std::io::Error),
    /// The connection broke, or the answer was no HTTP. The request may have been acted upon.
    #[error("the connection to the server broke: {0}")]
    Broken(#[source] hyper::Error),
    /// It did not begin to answer in time.
    #[error("the server did not answer within {0:?}")]
    TimedOut(Duration),
}

/// A request that came to nothing. What was not sent comes back and may be sent again, whatever it
/// asks for.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: OriginError,
    pub(crate) unsent: Option<Request<Question>>,
}

impl From<OriginError> for Failure {
    fn from(error: OriginError) -> Self {
        Self { error, unsent: None }
    }
}

type Sender = SendRequest<Question>;

/// A pool of connections to one server.
pub(crate) struct OriginPool {
    authority: String,
    connect_timeout: Duration,
    answer_timeout: Duration,
    clock: Clock,
    idle: Mutex<Vec<Sender>>,
}

/// A connection on loan. Give it [`back`](OriginPool::put_back) when the answer has passed.
pub(crate) struct Loan(Sender);

impl OriginPool {
    pub(crate) fn new(authority: &str, connect: Duration, answer: Duration, clock: &Clock) -> Self {
        Self {
            authority: authority.to_owned(),
            connect_timeout: connect,
            answer_timeout: answer,
            clock: clock.clone(),
            idle: Mutex::default(),
        }
    }

    /// Sends a request; returns the answer's head, with its body to come, and the connection.
    ///
    /// A kept connection that turns out to be closed before anything was sent is replaced by a new
    /// one, silently.
    pub(crate) async fn send(
        &self,
        mut request: Request<Question>,
        sending: &Sending,
    ) -> Result<(Response<Incoming>, Loan), Failure> {
        loop {
            let kept = self.take_idle();
            let is_new = kept.is_none();
            let mut sender = match kept {
                Some(sender) => sender,
                None => match self.connect().await {
                    Ok(sender) => sender,
                    Err(error) => return Err(Failure { error, unsent: Some(request) }),
                },
            };
            let ready = self.clock.timeout(self.connect_timeout, sender.ready()).await;
            if !matches!(ready, Ok(Ok(()))) && !is_new {
                continue;
            }
            match self.patiently(sender.try_send_request(request), sending).await? {
                Ok(response) => return Ok((response, Loan(sender))),
                Err(mut failure) => match failure.take_message() {
                    Some(unsent) if !is_new => request = unsent,
                    unsent => {
                        let error = OriginError::Broken(failure.into_error());
                        return Err(Failure { error, unsent });
                    }
                },
            }
        }
    }

    /// Waits for an answer as long as parts of the request go, and `answer_timeout` after the last.
    async fn patiently<T>(
        &self,
        work: impl Future<Output = T>,
        sending: &Sending,
    ) -> Result<T, OriginError> {
        let mut work = pin!(work);
        loop {
            let last = sending.last();
            let deadline = last + self.answer_timeout + JUST_AFTER;
            if let Ok(answer) = self.clock.until(deadline, work.as_mut()).await {
                return Ok(answer);
            }
            if sending.last() == last {
                return Err(OriginError::TimedOut(self.answer_timeout));
            }
        }
    }

    /// Does it take connections?
    pub(crate) async fn listens(&self) -> bool {
        let connecting = TcpStream::connect(&self.authority);
        matches!(self.clock.timeout(self.connect_timeout, connecting).await, Ok(Ok(_)))
    }

    async fn connect(&self) -> Result<Sender, OriginError> {
        let unreachable = |error: std::io::Error| {
            let ours =
                [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM, Errno::ADDRNOTAVAIL];
            if Errno::from_io_error(&error).is_some_and(|errno| ours.contains(&errno)) {
                return OriginError::Exhausted(error);
            }
            OriginError::Unreachable(self.authority.clone(), error)
        };
        let connecting = TcpStream::connect(&self.authority);
        let stream = match self.clock.timeout(self.connect_timeout, connecting).await {
            Ok(stream) => stream.map_err(unreachable)?,
            Err(_) => return Err(unreachable(std::io::ErrorKind::TimedOut.into())),
        };
        let _ = stream.set_nodelay(true);
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(OriginError::Broken)?;
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a connection to the server ended");
            }
        });
        Ok(sender)
    }

    fn take_idle(&self) -> Option<Sender> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // The last one used is the least likely to have been closed by the server.
        while let Some(sender) = idle.pop() {
            if !sender.is_closed() {
                return Some(sender);
            }
        }
        None
    }

    /// The answer has passed whole: the connection can serve again.
    pub(crate) fn put_back(&self, Loan(sender): Loan) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE && !sender.is_closed() {
            idle.push(sender);
        }
    }

    /// Closes the idle connections: the server is about to sleep.
    pub(crate) fn close_idle(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
