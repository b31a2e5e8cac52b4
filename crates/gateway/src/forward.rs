//! One exchange with the server: sends the request, passes the answer on, and stores what the cache may keep.

mod by_path;
mod watchers;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE, VIA};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use nightwatt_http1::Tunnel;
use nightwatt_httpcache::sharing::may_be_prefetched;
use nightwatt_httpcache::stored::Stored;
use nightwatt_httpcache::vary::own_encoding;
use nightwatt_httpcache::{
    CacheKey, CacheStatus, Fill, Filler, Forward, NotStorable, Occasion, Rules, Sender, Times,
    Timestamp, Usability, fields, invalidation, update,
};

use self::watchers::{GivesBack, Keeping};
use crate::admittance::{self, Comer};
use crate::body::Answer;
use crate::exchange::{Begun, Exchange};
use crate::facts::Facts;
use crate::hit::{Found, from_store, head_of};
use crate::hold::Spool;
use crate::origin::{Failure, FromOrigin, OriginError, Reuse};
use crate::pool::Seat;
use crate::question::{self, Asking};
use crate::refresh_queue::{AnswerKind, Wanted};
use crate::request_body::{Kept, Sending};
use crate::serving::Serving;
use crate::shared_fetches::SharedFetch;
use crate::site::{STARTING, Site};
use crate::store::{Object, Requester, Ticket};
use crate::tunnel;

/// Time between two attempts with a server that is still starting.
pub(crate) const RETRY_EVERY: Duration = Duration::from_millis(500);

/// A request to forward.
pub(crate) struct Forwarding<'a> {
    pub(crate) serving: &'a Arc<Serving>,
    /// Index of the site.
    pub(crate) site: usize,
    pub(crate) facts: &'a Facts,
    pub(crate) parts: &'a Parts,
    pub(crate) key: Option<CacheKey>,
    pub(crate) found: Option<Found>,
    /// Other requests wait for this request's answer.
    pub(crate) shared_fetch: Mutex<Option<SharedFetch>>,
    /// Who wants the answer: determines its popularity.
    pub(crate) requester: Requester,
    /// Who sends the request: determines whether it may fill the cache.
    pub(crate) filler: Filler,
    /// The answer is kept only if it is of this kind.
    pub(crate) expected: Option<AnswerKind>,
}

/// Why nothing could be forwarded.
pub(crate) enum NotForwarded {
    /// The server cannot be reached, and nothing was sent. Returns the body.
    Unreachable(Spool),
    /// The connection broke, but the request can be sent again without harm.
    Broken(Spool),
    /// The server failed, and a stored answer is used instead.
    Stale(Response<Answer>),
    /// Anything else: the answer to send.
    Answer(Response<Answer>),
}

impl NotForwarded {
    /// The server failed, or was found asleep: another server of its pool may answer, or it is woken.
    fn lost(again: Spool, exchange: &Exchange) -> Self {
        if exchange.seat().is_some() { Self::Broken(again) } else { Self::Unreachable(again) }
    }
}

impl Forwarding<'_> {
    pub(crate) fn site(&self) -> &Site {
        &self.serving.sites[self.site]
    }

    /// The request as it goes to the server.
    fn asking(&self) -> Asking<'_> {
        let Self { facts, parts, found, .. } = self;
        Asking { site: self.site(), facts, parts, found: found.as_ref() }
    }

    fn rules(&self) -> &Rules {
        &self.site().rules
    }

    fn now(&self) -> Timestamp {
        self.serving.timestamp()
    }

    /// Forwards within an exchange; the answer's body holds the exchange.
    ///
    /// `is_retry`: the previous connection broke, so the request goes out on a new one.
    pub(crate) async fn run(
        &self,
        spool: Spool,
        exchange: Arc<Exchange>,
        is_retry: bool,
    ) -> Result<Response<Answer>, NotForwarded> {
        let mut begun = exchange.take_begun();
        let requested = begun.as_ref().map_or_else(|| self.now(), |begun| begun.requested);
        let (mut validates, mut spool) = (self.found.is_some(), spool);
        loop {
            let since = begun.as_ref().map(|begun| begun.since);
            let sending =
                Sending::new(&self.serving.clock, Arc::<Exchange>::clone(&exchange), since);
            let repeatable = spool.is_whole() && self.parts.method.is_idempotent();
            let copy = spool.is_whole().then(|| spool.kept.clone());
            let (request, validating) = self.asking().question(spool, validates, &sending);
            let origin = Arc::clone(exchange.seat().map_or_else(|| self.origin(), Seat::origin));
            let (ticket, underway) = match begun.take() {
                Some(Begun { ticket, underway, .. }) => (Some(ticket), Some(underway)),
                None => (self.ticket(), None),
            };
            let reuse = Reuse::of(is_retry, repeatable);
            let sent = Box::pin(origin.forward(request, underway, &sending, reuse));
            let sent = if repeatable {
                exchange.unless_lost(&sending, sent).await
            } else {
                Some(sent.await)
            };
            let (response, loan) = match sent {
                Some(Ok(answer)) => answer,
                Some(Err(failure)) => {
                    let failure = of_seat(failure, exchange.seat());
                    return Err(self.failed(failure, copy, repeatable, &sending));
                }
                None => {
                    let again = Spool::again(copy.unwrap_or_default());
                    return Err(NotForwarded::lost(again, &exchange));
                }
            };
            if let Some(seat) = exchange.seat() {
                seat.answered();
            }
            if loan.was_kept() && gave_up_waiting(&response) && copy.is_some() {
                spool = Spool::again(copy.unwrap_or_default());
                continue;
            }
            if let Some(copy) = copy.filter(|_| repeatable) {
                let unmatched = validating
                    && response.status() == StatusCode::NOT_MODIFIED
                    && self.confirmed(response.headers()).is_none();
                if unmatched || self.still_starting(response.status(), &exchange) {
                    validates &= !unmatched;
                    spool = Spool::again(copy);
                    self.serving.clock.parked(self.serving.clock.sleep(RETRY_EVERY)).await;
                    continue;
                }
            }
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                return Ok(self.switched(response, exchange));
            }
            let times = Times { requested, received: self.now() };
            let response = self.with_deadline(response, &exchange, &sending);
            self.invalidate(response.status(), response.headers(), ticket.as_ref()).await;
            let gives_back = GivesBack { origin, loan: Some(loan), sending };
            return Ok(self.answer(response, times, validating, ticket, gives_back, exchange));
        }
    }

    /// An answer whose body fails if the server is silent for too long within it.
    fn with_deadline(
        &self,
        response: Response<FromOrigin>,
        exchange: &Arc<Exchange>,
        sending: &Arc<Sending>,
    ) -> Response<Answer> {
        let limit = self.limits().silence(response.headers());
        response.map(|body| {
            let body = Answer::of_origin(body, &self.serving.clock, limit);
            if exchange.seat().is_none() {
                return body;
            }
            let (exchange, sending) = (Arc::clone(exchange), Arc::clone(sending));
            body.ahead(move || exchange.server_is_done(&sending))
        })
    }

    /// Permission to store the answer to a request that is sent now.
    fn ticket(&self) -> Option<Ticket> {
        let of_post = || {
            let rules = &self.rules().key;
            let is_post = self.parts.method == Method::POST;
            is_post.then(|| rules.key(&self.facts.base, &self.facts.target)).flatten()
        };
        let key = self.key.clone().or_else(of_post)?;
        Some(self.site().store.ask(key, self.requester).filled_by(self.filler))
    }

    /// The server agreed to switch protocols: connects client and server with each other, within the exchange.
    fn switched(
        &self,
        response: Response<FromOrigin>,
        exchange: Arc<Exchange>,
    ) -> Response<Answer> {
        let (parts, body) = response.into_parts();
        let server = match body {
            FromOrigin::Http1(answer) => answer.into_stream(),
            FromOrigin::Http2(_) => None,
        };
        let offered = server.filter(|_| question::is_offered(self.parts, &parts.headers));
        let Some((server, answered_ahead)) = offered else {
            let text = "The server switched to another protocol without being asked.";
            self.serving.warn_of(self.site(), &self.facts.id, "the server failed", &text);
            return crate::answers::sentence(StatusCode::BAD_GATEWAY, text);
        };
        if let Some(seat) = exchange.seat() {
            seat.becomes_tunnel();
        }
        let (clock, idle) = (self.serving.clock.clone(), self.limits().tunnel_idle);
        let phase = self.site().supervisor.phase();
        let pass = self.parts.extensions.get().cloned().unwrap_or_default();
        let rules = self.site().doorkeeper.subscribe();
        let vouchers = self.facts.vouchers.clone();
        let shut_out = admittance::shut_out(rules, Comer::of(self.facts), vouchers, pass);
        let tunnel = Tunnel::new(move |client| async move {
            tokio::select! {
                () = tunnel::run(client, server, answered_ahead, phase, &clock, idle) => {}
                () = shut_out => {}
            }
            drop(exchange);
        });
        let mut response = Response::from_parts(parts, Answer::empty());
        let protocol = response.headers().get(UPGRADE).cloned();
        fields::strip_hop_by_hop(response.headers_mut());
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
        response.headers_mut().extend(protocol.map(|protocol| (UPGRADE, protocol)));
        response.extensions_mut().insert(tunnel);
        response
    }

    /// 502 and the like in a server's first seconds are not shown to clients. An HTTP probe has waited for these
    /// seconds to pass: errors after it are real.
    fn still_starting(&self, status: StatusCode, exchange: &Exchange) -> bool {
        let site = self.site();
        let may = || match exchange.seat() {
            Some(seat) => seat.may_still_start(STARTING),
            None => site.may_be_starting(),
        };
        matches!(status.as_u16(), 502..=504) && may()
    }

    fn confirmed(&self, headers: &HeaderMap) -> Option<&Found> {
        let found = self.found.as_ref()?;
        update::answered(&[&found.object.stored], headers).map(|_| found)
    }

    /// Forgets what the request has made obsolete. The client gets its answer only after the disk has recorded that, or
    /// has failed: otherwise the old answer could come back after a power cut.
    async fn invalidate(&self, status: StatusCode, headers: &HeaderMap, ticket: Option<&Ticket>) {
        let (request, rules) = (head_of(self.facts, self.parts), &self.rules().key);
        let changed = invalidation::invalidated(&request, status, headers, rules);
        if let Err(error) = self.site().store.forget(&changed, ticket).settled().await {
            self.serving.warn_of(self.site(), &self.facts.id, "the disk fails", &error);
        }
        if let Some(mirror) = &self.site().mirror {
            mirror.after(&self.parts.method, status, self.facts.budget).await;
        }
    }

    /// The answer as the client gets it; stores what may be stored.
    fn answer(
        &self,
        mut response: Response<Answer>,
        times: Times,
        validating: bool,
        ticket: Option<Ticket>,
        gives_back: GivesBack,
        exchange: Arc<Exchange>,
    ) -> Response<Answer> {
        if response.headers().contains_key(TRANSFER_ENCODING) {
            // With chunks, a length is invalid (RFC 9112, 6.3).
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        let status = response.status();
        let why = self.why_forwarded().origin_status(status);
        if validating
            && status == StatusCode::NOT_MODIFIED
            && let Some(found) = self.confirmed(response.headers())
        {
            let confirmed = self.confirmed_answer(found, response.headers(), times, why, ticket);
            // A 304 has no body: the exchange is over, and the connection free.
            drop(response.into_body().watched(Box::new(gives_back)).watched(Box::new(exchange)));
            return confirmed;
        }
        if server_failed(status)
            && let Some(stale) = self.stale_instead()
        {
            return stale;
        }
        let shared_fetch = self.shared_fetch.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (keeping, reason) = match self.keep(&response, times, ticket, shared_fetch) {
            Ok(keeping) => (keeping, None),
            Err(reason) => (None, Some(reason).filter(|it| it.is_of_the_rules())),
        };
        let stored = keeping.is_some();
        let why = reason.map_or(why.clone(), |reason| why.detail(reason.token()));
        let now = self.now();
        fields::strip_hop_by_hop(response.headers_mut());
        finish_headers(response.headers_mut(), now);
        why.stored(stored).append_to(response.headers_mut());
        response.map(|mut body| {
            if let Some(keeping) = keeping {
                body = body.watched(Box::new(keeping));
            }
            body.watched(Box::new(gives_back)).watched(Box::new(exchange))
        })
    }

    /// The cache's part in an answer: what to store, forget or update because of it.
    fn keep(
        &self,
        response: &Response<Answer>,
        times: Times,
        ticket: Option<Ticket>,
        shared_fetch: Option<SharedFetch>,
    ) -> Result<Option<Keeping>, NotStorable> {
        let Some(ticket) = ticket else { return Ok(None) };
        let request = head_of(self.facts, self.parts);
        let (status, headers, rules) = (response.status(), response.headers(), self.rules());
        if self.parts.method == Method::HEAD {
            self.learn_from_head(status, headers, times, &ticket);
            return Ok(None);
        }
        let sender = Sender::of(&request, rules);
        match self.filler {
            Filler::Proxy if is_no_page(status) && self.has_page() => ticket.forget(),
            // What one client gets is verified before it applies to all.
            Filler::Client if is_no_page(status) && sender.is_anonymous() => {
                self.check_what_is_stored();
            }
            _ => {}
        }
        if self.expected.as_ref().is_some_and(|kind| *kind != AnswerKind::of(status, headers)) {
            return Ok(None);
        }
        match Stored::new(&request, self.filler, status, headers, times, rules) {
            Ok(stored) => {
                self.note(true);
                let known = http_body::Body::size_hint(response.body()).lower();
                let kept = ticket.collect(stored, known);
                Ok(kept.map(|kept| Keeping { kept: Some(kept), shared_fetch }))
            }
            Err(why) => {
                tracing::trace!(id = %self.facts.id, why = why.token(), "not stored");
                if why.is_of_the_resource(status) && sender.is_anonymous() {
                    self.note(false);
                }
                if why.condemns_stored(sender, status) {
                    ticket.forget();
                }
                if why == NotStorable::NotOwnRequest && sender.is_anonymous() {
                    self.fetch_for_the_cache(AnswerKind::of(status, headers), shared_fetch);
                }
                Err(why)
            }
        }
    }

    /// Makes the proxy itself fetch what a client got, to fill the cache.
    fn fetch_for_the_cache(&self, kind: AnswerKind, shared_fetch: Option<SharedFetch>) {
        let accepted = self.parts.headers.get_all(ACCEPT_ENCODING).iter();
        let encoding = own_encoding(accepted.map(HeaderValue::as_bytes));
        if let (Some(key), Some(encoding)) = (&self.key, encoding)
            && may_be_prefetched(&self.facts.target)
        {
            let wanted = Wanted::Like(encoding, kind, self.requester);
            self.site().refresher.want(key, wanted, shared_fetch);
            self.site().refresher.start();
        }
    }

    /// Makes the proxy itself request what is stored, since a client got an answer that it is not there.
    fn check_what_is_stored(&self) {
        if let (Some(key), Some(found)) = (&self.key, &self.found)
            && self.has_page()
        {
            let wanted = Wanted::Again(Arc::clone(&found.object));
            self.site().refresher.want(key, wanted, None);
            self.site().refresher.start();
        }
    }

    /// Whether a page is stored for this request.
    fn has_page(&self) -> bool {
        self.found.as_ref().is_some_and(|found| found.object.stored.status().is_success())
    }

    /// Notes whether waiting for such answers is worth it.
    fn note(&self, stored: bool) {
        if let Some(key) = &self.key {
            self.site().shared_fetches.note(key, stored);
        }
    }

    fn learn_from_head(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        times: Times,
        ticket: &Ticket,
    ) {
        use nightwatt_httpcache::update::HeadEffect;
        let Some(found) = &self.found else { return };
        let request = head_of(self.facts, self.parts);
        match found.object.stored.after_head(&request, status, headers, times, self.rules()) {
            HeadEffect::None => {}
            HeadEffect::Updated(stored) => {
                ticket.store(Object::new(*stored, found.object.body.clone()));
            }
            HeadEffect::Outdated if self.rules().fill == Fill::Clients => ticket.forget(),
            HeadEffect::Outdated => self.check_what_is_stored(),
        }
    }

    /// The stored answer, confirmed by a 304.
    fn confirmed_answer(
        &self,
        found: &Found,
        headers: &HeaderMap,
        times: Times,
        why: CacheStatus,
        ticket: Option<Ticket>,
    ) -> Response<Answer> {
        let request = head_of(self.facts, self.parts);
        let (body, rules) = (found.object.body.clone(), self.rules());
        let freshened = found.object.stored.freshened(&request, self.filler, headers, times, rules);
        if let Ok(stored) = freshened {
            let object = Object::new(stored, body);
            let response = from_store(&request, &object, self.now(), &why.stored(true));
            self.note(true);
            if let Some(ticket) = ticket {
                ticket.store(object);
            }
            response
        } else {
            let shown = found.object.stored.confirmed_for(headers, times, rules);
            let response = from_store(&request, &Object::new(shown, body), self.now(), &why);
            let condemns = |reason: &NotStorable| {
                let status = found.object.stored.status();
                reason.condemns_stored(Sender::of(&request, rules), status)
            };
            if let Some(ticket) = ticket.filter(|_| freshened.is_err_and(|it| condemns(&it))) {
                ticket.forget();
            }
            response
        }
    }

    fn why_forwarded(&self) -> CacheStatus {
        let is_read = matches!(self.parts.method, Method::GET | Method::HEAD);
        CacheStatus::forwarded(match (&self.key, &self.found) {
            (None, _) if is_read => Forward::Bypass,
            (None, _) => Forward::Method,
            (Some(_), None) => Forward::UriMiss,
            (Some(_), Some(found)) => match found.usability {
                Usability::Validate { .. } | Usability::Fresh { .. } => Forward::Request,
                _ => Forward::Stale,
            },
        })
    }

    /// A stored answer instead of an error, where that is allowed.
    pub(crate) fn stale_instead(&self) -> Option<Response<Answer>> {
        self.stale_on(&[Occasion::OriginFails])
    }

    /// The same when the server is gone: then it may as well be asleep.
    pub(crate) fn stale_without_server(&self) -> Option<Response<Answer>> {
        self.stale_on(&[Occasion::OriginFails, Occasion::OriginAsleep])
    }

    fn stale_on(&self, occasions: &[Occasion]) -> Option<Response<Answer>> {
        let allows = |it: &&Found| occasions.iter().any(|&on| it.usability.allows(on));
        let found = self.found.as_ref().filter(allows)?;
        let request = head_of(self.facts, self.parts);
        let status = self.why_forwarded().detail("origin-failed");
        Some(from_store(&request, &found.object, self.now(), &status))
    }

    /// The server sent no answer. `copy` is the body, if that was kept; `repeatable`: whether it may be sent again even
    /// if the server acted upon it.
    fn failed(
        &self,
        failure: Failure,
        copy: Option<Kept>,
        repeatable: bool,
        sending: &Sending,
    ) -> NotForwarded {
        if let Some((status, text)) = fault_of_body(sending) {
            return NotForwarded::Answer(crate::answers::sentence(status, text));
        }
        let Failure { error, unsent } = failure;
        if matches!(error, OriginError::Refused)
            && let Some(copy) = copy
        {
            tracing::debug!(site = %self.site().name, id = %self.facts.id, %error, "asked again");
            return NotForwarded::Broken(Spool::again(copy));
        }
        self.serving.warn_of(self.site(), &self.facts.id, "the server failed", &error);
        match (&error, unsent) {
            (OriginError::Unreachable(..), Some(unsent)) => {
                let (kept, rest) = unsent.into_body().into_parts();
                NotForwarded::Unreachable(Spool::resumed(kept, rest))
            }
            (OriginError::Broken(_), Some(unsent)) => {
                let (kept, rest) = unsent.into_body().into_parts();
                NotForwarded::Broken(Spool::resumed(kept, rest))
            }
            // The server went away during the request. The client may safely retry.
            (OriginError::Broken(_), _) if repeatable => {
                NotForwarded::Broken(Spool::again(copy.unwrap_or_default()))
            }
            (OriginError::Refused, _) => {
                let text =
                    "The server did not take the request. It was not acted upon: send it again.";
                let (status, after) = (StatusCode::SERVICE_UNAVAILABLE, Duration::from_secs(1));
                NotForwarded::Answer(crate::answers::later(status, after, text))
            }
            (OriginError::Exhausted(_), _) => {
                let text = "The proxy has no connection to spare just now.";
                let (status, after) = (StatusCode::SERVICE_UNAVAILABLE, Duration::from_secs(1));
                let answer = crate::answers::later(status, after, text);
                NotForwarded::Answer(self.stale_instead().unwrap_or(answer))
            }
            (error, _) => {
                let answer = crate::answers::failure(error);
                self.stale_instead().map_or(NotForwarded::Answer(answer), NotForwarded::Stale)
            }
        }
    }
}

/// Why a request could not be sent completely, if its client caused that.
fn fault_of_body(sending: &Sending) -> Option<(StatusCode, &'static str)> {
    if sending.is_too_large() {
        let text = "The request's body is larger than this site accepts.";
        Some((StatusCode::PAYLOAD_TOO_LARGE, text))
    } else if sending.is_too_slow() {
        Some((StatusCode::REQUEST_TIMEOUT, "The request's body did not come in time."))
    } else if sending.is_broken() {
        let text = "The request's body broke off, or is not well-formed.";
        Some((StatusCode::BAD_REQUEST, text))
    } else {
        None
    }
}

/// The failure as it counts for a pool, where another server may succeed.
fn of_seat(failure: Failure, seat: Option<&Seat>) -> Failure {
    let Some(seat) = seat else { return failure };
    seat.failed(&failure.error);
    let error = match failure.error {
        OriginError::Malformed(why) => OriginError::Broken(why),
        other => other,
    };
    Failure { error, ..failure }
}

/// Whether the server closed a connection that had been idle for too long, just when a request arrived on it: the
/// request has to be sent again (RFC 9110, 15.5.9).
fn gave_up_waiting(response: &Response<FromOrigin>) -> bool {
    let closes = |it: &HeaderValue| it.as_bytes().eq_ignore_ascii_case(b"close");
    response.status() == StatusCode::REQUEST_TIMEOUT
        && response.headers().get_all(CONNECTION).iter().any(closes)
}

/// Whether a status says that what is stored as a page no longer is one: gone, forbidden, or elsewhere.
fn is_no_page(status: StatusCode) -> bool {
    let is_elsewhere = status.is_redirection() && status != StatusCode::NOT_MODIFIED;
    matches!(status.as_u16(), 401 | 403 | 404 | 410) || is_elsewhere
}

fn server_failed(status: StatusCode) -> bool {
    matches!(status.as_u16(), 500 | 502..=504)
}

/// Adds the headers of every answer from the server.
fn finish_headers(headers: &mut HeaderMap, now: Timestamp) {
    use http::header::DATE;
    headers.append(VIA, HeaderValue::from_static("1.1 nightwatt"));
    if !headers.contains_key(DATE) {
        headers.insert(DATE, nightwatt_httpcache::date::format(now));
    }
}
