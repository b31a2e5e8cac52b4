//! Connections to the server.

mod idle;
mod sender;
mod shared;
mod stream;

use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use http::header::{AUTHORIZATION, UPGRADE};
use http::uri::Scheme;
use http::{HeaderMap, Request, Response};
use nightwatt_clock::Clock;
use nightwatt_clock::connect::connect;
use nightwatt_host::tls;
use nightwatt_http1::{BodyError, client};
use nightwatt_policy::lifecycle::Phase;
use nightwatt_power::{ConfigError, probe};
use rustix::io::Errno;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;

use self::idle::{Idle, Waiting};
pub(crate) use self::sender::FromOrigin;
use self::sender::{Lent, Sender, Way, by_http1, by_http2};
use self::shared::{Attempt, Connection, Shared};
pub(crate) use self::stream::{HTTP1, HTTP2, Stream};
use crate::config::{Limits, Origin, OriginTls};
use crate::request_body::{JUST_AFTER, Question, Sending};

/// A server may close an idle connection at the moment at which a request goes out on it. So a request that cannot be
/// sent twice uses a connection that was used just now, or a new one.
const JUST_USED: Duration = Duration::from_secs(1);

/// Longest idle time after which a connection is used again. Many servers close idle connections after about a
/// minute, and firewalls drop their state without telling either side.
const LONGEST_IDLE: Duration = Duration::from_mins(1);

/// Which connections a request may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reuse {
    /// Any: the request can be repeated if the connection breaks.
    Any,
    /// A connection that was used just now, or a new one: the request must not be sent twice.
    JustUsed,
    /// A new one: the request failed on an older one.
    Never,
}

impl Reuse {
    pub(crate) fn of(is_retry: bool, repeatable: bool) -> Self {
        match repeatable {
            _ if is_retry => Self::Never,
            true => Self::Any,
            false => Self::JustUsed,
        }
    }

    /// Whether a connection that has been idle for this long may be used.
    fn allows(self, idle: Duration) -> bool {
        match self {
            Self::Any => idle < LONGEST_IDLE,
            Self::JustUsed => idle < JUST_USED,
            Self::Never => false,
        }
    }
}

/// Why a request to the server failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OriginError {
    /// No connection: nothing was sent.
    #[error("cannot connect to {0}: {1}")]
    Unreachable(String, std::io::Error),
    /// This machine is out of resources to connect with: not the server's fault.
    #[error("cannot connect: this machine is out of descriptors, ports or memory ({0})")]
    Exhausted(std::io::Error),
    /// TLS failed, or the server's certificate is not trusted: nothing was sent.
    #[error("TLS with {0}: {1}")]
    Distrusted(String, String),
    /// The connection broke. The server may have acted upon the request.
    #[error("the connection to the server broke: {0}")]
    Broken(#[source] BodyError),
    /// The answer is not valid HTTP. The server may have acted upon the request.
    #[error("the server's answer is not well-formed: {0}")]
    Malformed(#[source] BodyError),
    /// The server refused the request without acting upon it: it had too many, or was about to stop.
    #[error("the server refused to take the request")]
    Refused,
    /// It did not begin to answer in time.
    #[error("the server did not answer within {0:?}")]
    TimedOut(Duration),
}

/// A request that failed. What was not sent is returned, and may be sent again, whatever its method.
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

/// A pool of connections to one server.
pub(crate) struct OriginPool {
    authority: String,
    /// The expected identity of the server, if it uses TLS.
    tls: Option<Trust>,
    /// It speaks HTTP/2 without TLS.
    by_h2c: bool,
    connect_timeout: Duration,
    answer_timeout: Duration,
    clock: Clock,
    idle: Idle,
    shared: Shared,
}

/// The expected identity of a server.
struct Trust {
    name: ServerName<'static>,
    http1: TlsConnector,
    /// If HTTP/2 is allowed.
    http2: Option<TlsConnector>,
}

/// A borrowed connection. Return it with [`put_back`](OriginPool::put_back) when the answer has passed.
pub(crate) struct Loan {
    lent: Lent,
    /// How long the server keeps an idle connection open, if it announced that.
    keeps: Option<Duration>,
    /// It had served a request before.
    was_kept: bool,
}

impl Loan {
    /// Whether it had served a request before.
    pub(crate) const fn was_kept(&self) -> bool {
        self.was_kept
    }
}

/// Authentication schemes that apply to the whole connection, against RFC 9110, 3.3.
const BINDING: [&str; 3] = ["ntlm", "negotiate", "kerberos"];

/// Whether a server may attribute all later requests of the connection to the same user: it is not reused.
fn binds_connection(headers: &HeaderMap) -> bool {
    headers.get_all(AUTHORIZATION).iter().any(|it| is_binding(it.as_bytes()))
}

/// Whether this value of `Authorization` authenticates a connection.
pub(crate) fn is_binding(authorization: &[u8]) -> bool {
    let scheme = authorization.trim_ascii_start().split(u8::is_ascii_whitespace).next();
    scheme.is_some_and(|it| BINDING.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(it)))
}

/// How long a connection may wait for its next request; `binds`: it belongs to one user.
fn kept_for(headers: &HeaderMap, binds: bool) -> Option<Duration> {
    if binds { Some(Duration::ZERO) } else { announced(headers) }
}

fn announced(headers: &HeaderMap) -> Option<Duration> {
    keeps(headers.get("keep-alive")?.to_str().ok()?)
}

/// `Keep-Alive: timeout=5, max=100`: how long the server keeps an idle connection.
pub(crate) fn keeps(value: &str) -> Option<Duration> {
    let seconds = value.split(',').find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case("timeout").then(|| value.trim().parse::<u32>().ok())?
    })?;
    Some(Duration::from_secs(seconds.into()))
}

/// Whether this machine is out of resources to connect with. Then the error reveals nothing about the server.
pub(crate) fn is_own_shortage(error: &std::io::Error) -> bool {
    probe::is_own_shortage(error) || Errno::from_io_error(error) == Some(Errno::ADDRNOTAVAIL)
}

impl OriginPool {
    /// A server that slept does not know its connections any more: drops all of them.
    pub(crate) async fn drop_stale(origin: Weak<Self>, mut phase: watch::Receiver<Phase>) {
        while phase.changed().await.is_ok() {
            let Some(origin) = origin.upgrade() else { return };
            if *phase.borrow_and_update() != Phase::Awake {
                origin.close_idle();
            }
        }
    }

    /// `tls`: the site's settings, if any.
    pub(crate) fn open(
        origin: &Origin,
        tls: Option<&OriginTls>,
        limits: &Limits,
        clock: &Clock,
    ) -> Result<Self, ConfigError> {
        let default = OriginTls::default();
        let tls = origin.by_tls.then(|| trust(origin, tls.unwrap_or(&default)));
        Ok(Self {
            authority: origin.authority.clone(),
            tls: tls.transpose()?,
            by_h2c: origin.by_h2c,
            connect_timeout: limits.connect_timeout,
            answer_timeout: limits.origin_timeout,
            clock: clock.clone(),
            idle: Idle::default(),
            shared: Shared::default(),
        })
    }

    /// Sends a request; returns the answer's head, with its body to come, and the connection.
    ///
    /// A kept connection that turns out to be closed before anything was sent is replaced by a new
    /// one, silently. After one failure the other idle connections are closed too, since they are as old.
    async fn send(
        &self,
        mut request: Request<Question>,
        sending: &Sending,
        mut reuse: Reuse,
    ) -> Result<(Response<FromOrigin>, Loan), Failure> {
        let binds = binds_connection(request.headers());
        loop {
            // An upgrade to another protocol is impossible over HTTP/2.
            let upgrades = request.headers().contains_key(UPGRADE);
            let (sender, is_new) = match self.obtain(reuse, upgrades).await {
                Ok(obtained) => obtained,
                Err(error) => return Err(Failure { error, unsent: Some(request) }),
            };
            let sent = match sender {
                Sender::Http1(connection) => {
                    self.ask(Way::Free(connection), request, sending).await
                }
                Sender::Http2(connection) => {
                    Box::pin(self.ask_shared(connection, request, sending)).await
                }
            };
            match sent {
                Ok((response, lent)) => {
                    let keeps = kept_for(response.headers(), binds);
                    return Ok((response, Loan { lent, keeps, was_kept: !is_new }));
                }
                Err(Failure { error, unsent }) => {
                    if !is_new {
                        self.distrust_idle(&error, sending);
                    }
                    match unsent {
                        Some(unsent) if !is_new => (request, reuse) = (unsent, Reuse::Never),
                        unsent => return Err(Failure { error, unsent }),
                    }
                }
            }
        }
    }

    /// Closes the idle connections after a kept one broke, unless the client's request body was the cause.
    fn distrust_idle(&self, error: &OriginError, sending: &Sending) {
        if matches!(error, OriginError::Broken(_)) && !sending.is_faulty() {
            self.idle.close();
        }
    }

    /// An idle connection, if there is one, for a request that could be sent again if it broke.
    pub(crate) fn idle(&self) -> Option<Waiting> {
        self.idle.take(Reuse::Any, self.clock.now().mono)
    }

    /// Returns a connection unused, with its idle time unchanged.
    pub(crate) fn leave(&self, waiting: Waiting) {
        self.idle.put(waiting);
    }

    /// Returns a connection that can be reused; `keeps`: for how long, if the server announced that.
    pub(crate) fn give_back(
        &self,
        connection: client::Connection<Stream>,
        keeps: Option<Duration>,
    ) {
        self.idle.put(Waiting { connection, keeps, since: self.clock.now().mono });
    }

    /// Sends a request, or continues one that is under way.
    pub(crate) async fn forward(
        &self,
        request: Request<Question>,
        underway: Option<client::Underway<Stream>>,
        sending: &Sending,
        reuse: Reuse,
    ) -> Result<(Response<FromOrigin>, Loan), Failure> {
        let Some(underway) = underway else {
            return self.send(request, sending, reuse).await;
        };
        match Box::pin(self.take_up(underway, request, sending)).await {
            // A kept connection that was closed already is replaced, as `send` does.
            Err(Failure { unsent: Some(request), error: OriginError::Broken(_) }) => {
                self.send(request, sending, Reuse::Never).await
            }
            taken_up => taken_up,
        }
    }

    /// Continues a request that was sent, as [`send`](Self::send) does.
    async fn take_up(
        &self,
        underway: client::Underway<Stream>,
        request: Request<Question>,
        sending: &Sending,
    ) -> Result<(Response<FromOrigin>, Loan), Failure> {
        let binds = binds_connection(request.headers());
        let (response, lent) = self
            .ask(Way::Underway(underway), request, sending)
            .await
            .inspect_err(|it| self.distrust_idle(&it.error, sending))?;
        let keeps = kept_for(response.headers(), binds);
        Ok((response, Loan { lent, keeps, was_kept: true }))
    }

    async fn ask(
        &self,
        way: Way,
        request: Request<Question>,
        sending: &Sending,
    ) -> Result<(Response<FromOrigin>, Lent), Failure> {
        // Boxed: otherwise it would be moved with everything around it.
        match self.within_timeout(Box::pin(by_http1(way, request)), sending).await {
            Ok(sent) => sent,
            Err(timed_out) => Err(timed_out.into()),
        }
    }

    async fn ask_shared(
        &self,
        connection: Arc<Connection>,
        request: Request<Question>,
        sending: &Sending,
    ) -> Result<(Response<FromOrigin>, Lent), Failure> {
        let scheme = if self.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP };
        let asking = by_http2(&connection, request, &self.authority, scheme);
        let failure = match self.within_timeout(asking, sending).await {
            Ok(Ok(response)) => {
                self.shared.was_used(&connection, self.clock.now().mono);
                return Ok((response, Lent::Http2(connection)));
            }
            Ok(Err(failure)) => failure,
            Err(timed_out) => timed_out.into(),
        };
        self.leave_if_over(&connection, &failure);
        Err(failure)
    }

    /// A connection, and whether it is a new one.
    async fn obtain(&self, reuse: Reuse, upgrades: bool) -> Result<(Sender, bool), OriginError> {
        let by_tls = self.tls.as_ref().is_some_and(|trust| trust.http2.is_some());
        let may_share = (by_tls || self.by_h2c) && !upgrades;
        let now = || self.clock.now().mono;
        let kept = || {
            let shared = may_share.then(|| self.shared.take(reuse, now()));
            shared.flatten().map(Sender::Http2)
        };
        let idle = || self.idle.take(reuse, now()).map(|it| Sender::Http1(it.connection));
        if let Some(sender) = kept().or_else(idle) {
            return Ok((sender, false));
        }
        if !may_share {
            return Ok((Box::pin(self.connect(false)).await?, true));
        }
        let turn = self.shared.turn().await;
        if let Some(sender) = kept() {
            return Ok((sender, false));
        }
        let connected = Box::pin(self.connect(true)).await;
        let attempt = match &connected {
            Ok(Sender::Http1(_)) => Attempt::Http1,
            Ok(Sender::Http2(connection)) => Attempt::Http2(connection),
            Err(_) => Attempt::Failed,
        };
        turn.outcome(attempt, now());
        Ok((connected?, true))
    }

    /// Drops the connection after a request that was refused or not answered in time: it would not do better next time.
    fn leave_if_over(&self, connection: &Arc<Connection>, failure: &Failure) {
        use OriginError::{Refused, TimedOut};
        let Failure { error, unsent } = failure;
        if unsent.is_some() || matches!(error, Refused | TimedOut(_)) || connection.is_closed() {
            self.shared.forget(connection);
        }
    }

    /// Waits for an answer while parts of the request are sent, and `answer_timeout` after the last part.
    async fn within_timeout<T>(
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

    /// Host and port of the server.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// Whether it accepts connections.
    pub(crate) async fn listens(&self) -> bool {
        let connecting = connect(&self.clock, &self.authority);
        matches!(self.clock.timeout(self.connect_timeout, connecting).await, Ok(Ok(_)))
    }

    /// `offers`: may the server choose HTTP/2?
    async fn connect(&self, offers: bool) -> Result<Sender, OriginError> {
        let unreachable = |error: std::io::Error| {
            if is_own_shortage(&error) {
                return OriginError::Exhausted(error);
            }
            OriginError::Unreachable(self.authority.clone(), error)
        };
        let connecting = async {
            let stream = connect(&self.clock, &self.authority).await.map_err(unreachable)?;
            let _ = stream.set_nodelay(true);
            match &self.tls {
                None if self.by_h2c && offers => Ok(Stream::Http2(stream)),
                None => Ok(Stream::Plain(stream)),
                Some(trust) => {
                    let connector = trust.http2.as_ref().filter(|_| offers);
                    let connector = connector.unwrap_or(&trust.http1);
                    let secured = connector.connect(trust.name.clone(), stream).await;
                    let secured = secured.map_err(|error| match why_not(&error) {
                        Some(why) => OriginError::Distrusted(self.authority.clone(), why),
                        None => unreachable(error),
                    });
                    Ok(Stream::Tls(Box::new(secured?)))
                }
            }
        };
        let stream = match self.clock.timeout(self.connect_timeout, connecting).await {
            Ok(stream) => stream?,
            Err(_) => return Err(unreachable(std::io::ErrorKind::TimedOut.into())),
        };
        Sender::over(stream).await.map_err(|error| OriginError::Broken(error.into()))
    }

    /// The answer has passed completely: the connection can be reused.
    pub(crate) fn put_back(&self, Loan { lent, keeps, .. }: Loan) {
        let now = self.clock.now().mono;
        match lent {
            Lent::Http1(home) => {
                if let Some(connection) = home.take() {
                    self.idle.put(Waiting { connection, keeps, since: now });
                }
            }
            Lent::Http2(connection) => self.shared.was_used(&connection, now),
        }
    }

    /// Closes the idle connections: the server is about to sleep.
    pub(crate) fn close_idle(&self) {
        self.idle.close();
        // Another server may start.
        self.shared.clear();
    }
}

fn trust(origin: &Origin, tls: &OriginTls) -> Result<Trust, ConfigError> {
    let trust = tls.trust().map_err(|error| ConfigError::from(error).of_key("origin_tls.ca"))?;
    let connector = |protocols: &[&[u8]]| {
        let mut trust = ClientConfig::clone(&trust);
        trust.alpn_protocols = protocols.iter().map(|it| it.to_vec()).collect();
        TlsConnector::from(Arc::new(trust))
    };
    let name = tls.name.as_deref().unwrap_or(origin.host()).to_owned();
    let name = ServerName::try_from(name).map_err(|error| ConfigError::Tls(error.to_string()))?;
    let http2 = tls.http2.then(|| connector(&[HTTP2, HTTP1]));
    Ok(Trust { name, http1: connector(&[HTTP1]), http2 })
}

/// Why a handshake failed, unless the connection was the cause.
fn why_not(error: &std::io::Error) -> Option<String> {
    tls::distrust(error).or_else(|| {
        let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
        Some(match error {
            rustls::Error::InvalidMessage(_) => "it does not speak TLS".to_owned(),
            other => other.to_string(),
        })
    })
}
