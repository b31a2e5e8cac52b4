//! HTTP/1.1 on both sides of the proxy (RFC 9112): here on the client's, in [`client`] on the server's.
//!
//! ```text
//! bytes -> head (strict) -> Service::quick  -> prepared bytes, written at once
//!                        |-> Service::quick  -> the upstream is asked -> the same, or the slow path
//!                        \-> Service::answer <- Incoming (the body, as fast as it is taken)
//!                                            -> interim answers, head, body, trailers | a tunnel
//! ```
//!
//! What could be read in two ways is not read at all: a request is refused, and its connection closed,
//! if its end is not certain. Everything is bounded: heads, fields, chunk lines, trailers, and the time
//! of each phase ([`Limits`]).
//!
//! A [`Service`] answers the requests. Answers that are ready in memory take the fast path,
//! [`Service::quick`]: the head is read where the kernel put it, nothing is allocated, and head and body go
//! out in one system call. A plain answer from the upstream takes the fast path, too. A connection that is
//! idle holds no buffer.

mod answer_head;
mod body;
mod chunked;
pub mod client;
mod connection;
mod exchange;
mod head;
mod reader;
mod response;
mod timer;
mod trailers;
mod transport;
mod upgrade;
mod writer;

use std::future::Future;
use std::task::Context;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use nightwatt_energy::time::Mono;

pub use body::{BodyError, Incoming};
pub use chunked::{Chunked, Step};
pub use connection::serve;
pub use head::{Field, Framing, Head, MOST_FIELDS, Refusal, Scan, scan};
pub use reader::BadBody;
pub use response::head_bytes;
pub use trailers::only_named;
pub use transport::{Transport, Wire};
pub use upgrade::{Tunnel, Upgraded};
pub use writer::Interim;

/// Bounds on what a client may do. Under a virtual clock clients are never slow: the times do not
/// count.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a request's head; also of its trailers.
    pub head_bytes: usize,
    /// Fields of a request's head.
    pub fields: usize,
    /// For a head to arrive, from its first byte, or from the start of the connection.
    pub head_timeout: Duration,
    /// Between two requests.
    pub idle_timeout: Duration,
    /// Between two parts of a request's body, while its consumer waits for one.
    pub body_timeout: Duration,
    /// Between two moments in which the client takes something of the answer.
    pub send_timeout: Duration,
    /// A client that shuts down its sending side within this time of its request (`nc -N`) still waits for the
    /// answer. One that does so later has left.
    pub half_closed: Duration,
}

/// An answer that is ready.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Status line and fields, up to and with the empty line; with the body's length.
    pub head: Bytes,
    /// All of the body.
    pub body: Bytes,
}

/// What is made of a request at once.
#[derive(Debug)]
pub enum Quick<P> {
    /// The answer is ready. The connection sends it and then calls [`Service::sent`] or [`Service::sending`],
    /// which do the accounting.
    Ready(Prepared),
    /// The answer comes from the upstream: see [`Service::poll_pending`].
    Pending(P),
    /// The request takes the slow path: [`Service::answer`].
    No,
}

/// The state of a request that waits for the upstream's answer.
#[derive(Debug)]
pub enum Progress<A> {
    /// There is no answer yet.
    Waits(A),
    /// The answer has come; [`Quick::Ready`] says what happens to it.
    Ready(Prepared),
    /// The request takes the slow path from here on: [`Service::resume`]. Nothing of the answer was sent.
    SlowPath(A),
}

/// Called when a prepared answer that did not go at once has gone, or has not: with the bytes of its
/// body that went.
pub type OnSent = Box<dyn FnOnce(u64) + Send>;

/// Answers the requests of one connection.
pub trait Service: Send + 'static {
    /// What answers are made of.
    type Body: http_body::Body<Data = Bytes, Error = BodyError> + Send + Unpin + 'static;
    /// An answer on its way. It is dropped if the client leaves.
    type Answering: Future<Output = Response<Self::Body>> + Send;
    /// A request that waits for the upstream's answer.
    type Pending: Send + Unpin;

    /// What is made of a request without a body at once, on a connection that goes on.
    fn quick(&mut self, head: &Head<'_, '_>) -> Quick<Self::Pending>;

    /// Polls a request that waits for the upstream's answer; the task is woken when its state changes.
    fn poll_pending(
        &mut self,
        pending: Self::Pending,
        cx: &mut Context<'_>,
    ) -> Progress<Self::Pending>;

    /// The deadline for the upstream's answer. After it the request takes the slow path, too.
    fn deadline(&self, pending: &Self::Pending) -> Mono;

    /// When the request came.
    fn arrived_at(&self, pending: &Self::Pending) -> Mono;

    /// Answers a request for which the upstream has been asked already.
    fn resume(&mut self, request: Request<Incoming>, pending: Self::Pending) -> Self::Answering;

    /// The client left before there was an answer.
    fn client_left(&mut self, head: &Head<'_, '_>, pending: Self::Pending);

    /// A prepared answer has gone whole.
    fn sent(&mut self, head: &Head<'_, '_>, prepared: &Prepared);

    /// A prepared answer goes in several parts, since the client takes it slowly.
    fn sending(&mut self, head: &Head<'_, '_>, prepared: &Prepared) -> OnSent;

    /// Answers a request.
    fn answer(&mut self, request: Request<Incoming>) -> Self::Answering;

    /// What to say to something that is no request, of which `start` is the beginning. The connection
    /// ends with it.
    fn refused(&mut self, refusal: Refusal, start: &[u8]) -> Response<Self::Body>;
}
