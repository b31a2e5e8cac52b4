//! The gate: another proxy asks whether a request may go to its server, and forwards it itself.
//!
//! | path | answer |
//! |---|---|
//! | `/ask` | 204: it may, and the server is awake. Else what the client is to be told |
//! | `/ask/403` | the same; instead of the answer this status, and what it was in [`REFUSAL`] |
//! | `/refusal` | the answer to which that field belongs |
//!
//! Besides these, the waiting page's request for the server's state, which only nightwatt can answer.

mod question;
mod refusal;
mod traffic;
mod wire;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::task::Context;
use std::time::Duration;

use bytes::BytesMut;
use http::header::CONNECTION;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use nightwatt_energy::time::Mono;
use nightwatt_http1::{Head, Incoming, OnSent, Prepared, Progress, Quick, Service};
use nightwatt_policy::admission::{self, Cached, ClientClass, Route};
use nightwatt_policy::awake_budget::UNLIMITED;
use nightwatt_policy::lifecycle::Phase;
use nightwatt_policy::manager::AdmissionRequest;
use tokio::net::TcpStream;
use tokio::sync::watch;

use self::question::QuestionError;
use self::refusal::Refusal;
use self::traffic::{Ago, Connection, LOOKS, Traffic};
use crate::access_log::Answered;
use crate::accounting::{How, close, refused};
use crate::answers;
use crate::body::Answer;
use crate::config::ClientField;
use crate::exchange::Exchange;
use crate::facts::{Facts, Peer};
use crate::forwarded::SpokenFor;
use crate::hold::{Held, ToHold, hold};
use crate::live::Live;
use crate::presence::Presence;
use crate::refusing;
use crate::request_body::Spooling;
use crate::serving::Serving;
use crate::site::Site;
use crate::slow_path::{Client, judge, wake_cause, want};
use crate::supervisor::{ExchangeFor, Supervisor};

/// The refusal for a proxy that can pass on only a status: its name, and seconds.
const REFUSAL: HeaderName = HeaderName::from_static("nightwatt-refusal");

/// Ends exchanges of a site that have been quiet for the configured time. If a reload removes the gate, its last
/// configuration applies.
pub(crate) async fn watch(mut live: Live<Serving>, name: Arc<str>, presence: Arc<Presence>) {
    let clock = live.now().clock.clone();
    let mut quiet = Duration::ZERO;
    loop {
        presence.begun().await;
        let mut traffic = Traffic::default();
        let mut looked = clock.now().mono;
        loop {
            let serving = live.now();
            let Some((_, site)) = serving.site_named(&name) else { return };
            quiet = serving.config.gate.as_ref().map_or(quiet, |gate| gate.quiet);
            // With virtual time, the kernel's times do not apply.
            let connections = if clock.is_virtual() { Vec::new() } else { connections(site).await };
            let (last, now) = (presence.last(), clock.now().mono);
            let ago = Ago { look: now.since(looked), let_through: now.since(last) };
            looked = now;
            let is_busy = traffic.look(&connections, ago, quiet);
            if now >= last + quiet && !is_busy && presence.end(last) {
                break;
            }
            drop(serving);
            let next =
                if clock.is_virtual() { presence.last() + quiet } else { now + quiet / LOOKS };
            tokio::select! {
                () = clock.sleep_until(next) => {}
                // The quiet time may have changed.
                () = live.changed() => {}
            }
        }
    }
}

/// Takes over requests that the previous process has let through: this process does not know either when they end.
pub(crate) fn take_over(serving: &Serving, site: &Site) {
    // Their clients are unknown.
    let requester = ExchangeFor::Client { network: UNLIMITED };
    site.supervisor.begin_for(requester);
    let_through(serving, site, Exchange::begun(&site.supervisor, requester), ClientClass::Human);
}

/// Connections from this machine to the server of a site.
async fn connections(site: &Site) -> Vec<Connection> {
    static SAID: Once = Once::new();
    let Ok(addresses) = tokio::net::lookup_host(site.origin.authority()).await else {
        return Vec::new();
    };
    // This asks the kernel only, which answers at once.
    wire::connections(&addresses.collect::<Vec<_>>()).unwrap_or_else(|error| {
        SAID.call_once(|| {
            tracing::warn!(
                %error,
                "cannot list the kernel's connections (sock_diag): what goes through the gate \
                 counts for `gate.quiet`, however long it takes"
            );
        });
        Vec::new()
    })
}

/// Serves a connection from another proxy.
pub(crate) async fn connection(
    mut live: Live<Serving>,
    stream: TcpStream,
    peer: SocketAddr,
    leaving: Arc<AtomicBool>,
    stopped: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let serving = live.now();
    let (clock, limits) = (serving.clock.clone(), Arc::clone(&serving.http_limits));
    drop(serving);
    let asker = Asker { live, peer, leaving };
    nightwatt_http1::serve(stream, BytesMut::new(), asker, limits, clock, stopped).await;
}

/// Another proxy that asks.
struct Asker {
    live: Live<Serving>,
    peer: SocketAddr,
    /// Set while the connection is to close: then each answer is its last one.
    leaving: Arc<AtomicBool>,
}

impl Service for Asker {
    type Body = Answer;
    type Answering = std::pin::Pin<Box<dyn Future<Output = Response<Answer>> + Send>>;

    type Pending = Infallible;

    fn quick(&mut self, _: &Head<'_, '_>) -> Quick<Infallible> {
        Quick::No
    }

    fn poll_pending(&mut self, never: Infallible, _: &mut Context<'_>) -> Progress<Infallible> {
        match never {}
    }

    fn deadline(&self, never: &Infallible) -> Mono {
        match *never {}
    }

    fn arrived_at(&self, never: &Infallible) -> Mono {
        match *never {}
    }

    fn resume(&mut self, _: Request<Incoming>, never: Infallible) -> Self::Answering {
        match never {}
    }

    fn client_left(&mut self, _: &Head<'_, '_>, never: Infallible) {
        match never {}
    }

    fn sent(&mut self, _: &Head<'_, '_>, _: &Prepared) {}

    fn sending(&mut self, _: &Head<'_, '_>, _: &Prepared) -> OnSent {
        Box::new(|_| {})
    }

    fn answer(&mut self, request: Request<Incoming>) -> Self::Answering {
        let (serving, peer) = (self.live.now(), self.peer);
        let leaving = Arc::clone(&self.leaving);
        Box::pin(async move {
            let mut response = handle(serving, peer, request).await;
            if leaving.load(Ordering::Relaxed) {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            response
        })
    }

    fn refused(&mut self, refusal: nightwatt_http1::Refusal, _: &[u8]) -> Response<Answer> {
        refused(&self.live.now(), &self.peer.ip().to_canonical().to_string(), refusal)
    }
}

/// Answers one question.
async fn handle(
    serving: Arc<Serving>,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> Response<Answer> {
    // A body that was sent along is ignored.
    let (parts, _) = request.into_parts();
    if !serving.config.gate.as_ref().is_some_and(|gate| gate.knows(peer.ip())) {
        let text =
            "This address is for proxies that are named in `gate.from` of the configuration.";
        return answers::sentence(StatusCode::FORBIDDEN, text);
    }
    let path = parts.uri.path();
    if let Some(behind) = path.strip_prefix("/ask") {
        return match question::status(behind) {
            Ok(status) => ask(&serving, peer, &parts, status).await,
            Err(text) => answers::sentence(StatusCode::BAD_REQUEST, text),
        };
    }
    if path != "/refusal" && path != answers::STATE_PATH {
        let text = "Nothing here. Ask by `/ask`: docs/gates.md says how.";
        return answers::sentence(StatusCode::NOT_FOUND, text);
    }
    let now = serving.clock.now();
    // These admit no request: only their site matters, not their client.
    let spoken = spoken_for(&serving, peer, &parts);
    let facts =
        Facts::with_spoken_for(Peer::plain(peer), true, spoken, &parts, now, Supervisor::next_id());
    let site = serving.site_of(&question::host(&parts)).map(|index| &serving.sites[index]);
    match (site, path) {
        (None, _) => answers::sentence(StatusCode::MISDIRECTED_REQUEST, question::NO_SITE),
        (Some(site), answers::STATE_PATH) => {
            let status = site.supervisor.status();
            answers::state(status.phase, status.blocked_for)
        }
        (Some(site), _) => {
            let told = parts.headers.get(REFUSAL).and_then(|value| value.to_str().ok());
            let response = Refusal::read(told.unwrap_or_default()).answer(site, serving.observe);
            if facts.wants_json { answers::for_programs(response) } else { response }
        }
    }
}

/// The client for which a proxy asks, from `X-Forwarded-For`, whatever is configured for other requests.
fn spoken_for(serving: &Serving, peer: SocketAddr, asked: &Parts) -> SpokenFor {
    let (trusted, field) = (&serving.config.trusted_proxies, Some(ClientField::XForwardedFor));
    SpokenFor::of(trusted, field, peer.ip(), &asked.headers)
}

/// Whether a request may go to its server, after waking it if necessary.
async fn ask(
    serving: &Arc<Serving>,
    peer: SocketAddr,
    parts: &Parts,
    status: Option<StatusCode>,
) -> Response<Answer> {
    let told = match question::read(parts) {
        Ok(told) => told,
        Err(QuestionError::Proxy(text)) => {
            serving.warn("gate", "", move |count| {
                tracing::warn!(%peer, count, "a proxy asked in a way that cannot be answered: {text}");
            });
            return answers::sentence(StatusCode::INTERNAL_SERVER_ERROR, text);
        }
        Err(QuestionError::Client(text)) => {
            // Any client can cause this: it must not fill the log.
            tracing::debug!(%peer, "a proxy asked about what is no request: {text}");
            return answers::sentence(StatusCode::BAD_REQUEST, text);
        }
    };
    let (now, number) = (serving.clock.now(), Supervisor::next_id());
    let spoken = spoken_for(serving, peer, &told);
    let facts =
        Arc::new(Facts::with_spoken_for(Peer::plain(peer), true, spoken, &told, now, number));
    let index = serving.site_of(&facts.host());
    let (how, verdict) = match index {
        None => {
            let response = answers::sentence(StatusCode::MISDIRECTED_REQUEST, question::NO_SITE);
            (How::by_itself(ClientClass::Api, Answered::Refused), Err((response, Refusal::NoSite)))
        }
        Some(index) => {
            let site = &serving.sites[index];
            let (how, verdict) = decide(serving, index, &facts, &told).await;
            (how, verdict.map_err(|refusal| (refusal.answer(site, serving.observe), refusal)))
        }
    };
    match verdict {
        Ok(()) => {
            let mut response = Response::new(Answer::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            close(serving, index, &facts, response, how)
        }
        Err((response, refusal)) => {
            let response = close(serving, index, &facts, response, how);
            match status {
                Some(status) => in_short(status, &refusal),
                None => response,
            }
        }
    }
}

/// A refusal for a proxy that passes on only the status.
fn in_short(status: StatusCode, refusal: &Refusal) -> Response<Answer> {
    let mut response = Response::new(Answer::empty());
    *response.status_mut() = status;
    if let Ok(value) = HeaderValue::from_str(&refusal.to_string()) {
        response.headers_mut().insert(REFUSAL, value);
    }
    response
}

/// The client is connected to another proxy: nothing comes from it here.
struct Elsewhere;

impl Spooling for Elsewhere {
    async fn fill(&mut self) -> bool {
        true
    }
}

/// Asks the manager as for a request of our own, and waits for the server if the manager says so.
async fn decide(
    serving: &Arc<Serving>,
    index: usize,
    facts: &Arc<Facts>,
    told: &Parts,
) -> (How, Result<(), Refusal>) {
    let site = &serving.sites[index];
    if let Some(wait) =
        serving.client_limits.too_early(facts.arrived.mono, facts.client, facts.budget)
    {
        return (How::limited(), Err(Refusal::Limited(wait)));
    }
    let verdict = judge(site, serving, facts);
    let class = verdict.class();
    if site.pool.is_some() {
        let how = How::by_itself(class, Answered::Refused);
        return (how, Err(Refusal::Pool));
    }
    let mut client = Client { serving, index, facts, class, stays: false };
    let request =
        admission::Request { class, want: want(site, facts, told, class), cached: Cached::Nothing };
    let admission_request = AdmissionRequest {
        id: facts.number,
        visitor: facts.visitor,
        client: facts.budget,
        network: facts.network,
        request,
        recognised: verdict.recognised,
        may_wake: true,
    };
    let needs_server = request.wakes();
    if needs_server {
        site.needs_server(facts.arrived.mono, facts.visitor);
    }
    let cause = || wake_cause(facts, class);
    let requester = ExchangeFor::of(class, facts.network);
    // Subscribed before the request is admitted, so that no later change is missed.
    let mut phase = site.supervisor.phase();
    let route = if serving.observe {
        site.supervisor.begin_for(requester);
        Route::Forward
    } else {
        site.supervisor.admit(&admission_request, cause)
    };
    let would = site.shadow.as_ref().map(|it| it.admit(&admission_request, cause));
    let rule = refusing::rule(route, request.want, &verdict);
    let scanner_waits = refusing::scanner_waits(&verdict, facts.arrived.mono);
    let outcome = match route {
        Route::Forward => {
            let_through(serving, site, Exchange::begun(&site.supervisor, requester), class);
            Ok(Answered::Server)
        }
        Route::Hold => held(serving, site, facts, &mut phase).await.map(|exchange| {
            let_through(serving, site, exchange, class);
            Answered::Held
        }),
        Route::Refuse => Err(Refusal::Scanner(scanner_waits)),
        otherwise => Err(Refusal::of(otherwise, &site.supervisor, request.want)),
    };
    client.stays = true;
    let answered = match &outcome {
        Ok(answered) => *answered,
        Err(refusal) => refusal.answered(),
    };
    let how = How { class, answered, needs_server, would, let_through: outcome.is_ok(), rule };
    (how, outcome.map(|_| ()))
}

/// Holds a question until the server is awake.
async fn held(
    serving: &Serving,
    site: &Site,
    facts: &Facts,
    phase: &mut watch::Receiver<Phase>,
) -> Result<Arc<Exchange>, Refusal> {
    let (supervisor, limits) = (&site.supervisor, &serving.config.limits);
    if supervisor.held() > limits.held {
        supervisor.gave_up(facts.number);
        serving.refuse_to_hold(&site.name, "held");
        return Err(Refusal::Unavailable(supervisor.expected_wake_time()));
    }
    let Some(_place) = serving.client_limits.wait(facts.client, facts.budget) else {
        supervisor.gave_up(facts.number);
        serving.refuse_to_hold(&site.name, "held_per_client");
        return Err(Refusal::Unavailable(supervisor.expected_wake_time()));
    };
    let longest = serving.config.gate.as_ref().and_then(|gate| gate.hold).unwrap_or(limits.hold);
    let Facts { number, network, arrived, .. } = *facts;
    let held = ToHold { number, network, deadline: arrived.mono + longest };
    match hold(supervisor, phase, held, &mut Elsewhere, &serving.clock).await {
        Held::Awake(exchange) => Ok(exchange),
        Held::TooLong => Err(Refusal::Timeout),
        Held::Failed | Held::Left => Err(Refusal::Unavailable(supervisor.blocked_for())),
    }
}

/// The request is with the server from now on. For a client that may not wake the server, its exchange ends here: the
/// server is not kept awake for it, since the end of the request is unknown.
fn let_through(serving: &Serving, site: &Site, exchange: Arc<Exchange>, class: ClientClass) {
    if class.is_admitted() {
        site.presence.add(exchange, serving.clock.now().mono);
    }
}
