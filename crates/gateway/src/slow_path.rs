//! A request, from its head to its answer.

mod admitting;
mod client;
mod dressed;
mod mirrored;
mod placing;
mod resume;
mod shared;
mod wants;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use nightwatt_http1::Incoming;
use nightwatt_httpcache::sharing::FieldNames;
use nightwatt_httpcache::{
    CacheKey, CacheStatus, Occasion, Precondition, RequestDirectives, Sender, Usability,
};
use nightwatt_policy::admission::{self, Cached, ClientClass, Route, Want};
use nightwatt_policy::lifecycle::Phase;
use nightwatt_policy::manager::AdmissionRequest;
use nightwatt_traffic::Verdict;
use tokio::sync::watch;

pub(crate) use self::client::Client;
pub(crate) use self::resume::resume;
pub(crate) use self::wants::{judge, wake_cause, want};
use crate::access_log::Answered;
use crate::accounting::{How, close};
use crate::admittance::Shown;
use crate::answers;
use crate::body::Answer;
use crate::exchange::{Exchange, WORD};
use crate::facts::{Facts, Peer};
use crate::forward::{NotForwarded, RETRY_EVERY};
use crate::hit::{Found, from_store, head_of};
use crate::hold::{Held, Spool, ToHold, hold};
use crate::https;
use crate::question;
use crate::refusing;
use crate::request_rules::OwnPath;
use crate::serving::Serving;
use crate::site::{STARTING, Site};
use crate::supervisor::{ExchangeFor, Supervisor};
use crate::wake_cause::WakeCause;

/// How many times a request is let through to a server that turns out to be gone.
const ATTEMPTS: u32 = 3;

/// How long to wait for another client's answer to the same request. That client may read it slowly.
const SHARED: Duration = Duration::from_secs(2);

/// Answers one request.
pub(crate) async fn handle(
    serving: Arc<Serving>,
    peer: Peer,
    request: Request<Incoming>,
) -> Response<Answer> {
    let now = serving.clock.now();
    let (mut parts, body) = request.into_parts();
    question::drop_what_connection_names(&mut parts.headers);
    let facts = Arc::new(Facts::of(&serving.config, peer, &parts, now, Supervisor::next_id()));
    let index = serving.site_for(&facts);
    let admittance = index.and_then(|index| serving.sites[index].admittance.as_ref());
    let shown = admittance.map_or(Shown::Nothing, |it| it.take(&facts, &mut parts.headers));
    let names = question::drop_what_is_not_passed_on(&mut parts.headers, facts.trusted);
    if facts.is_unreadable {
        serving.unreadable_clients.count(facts.peer, &parts.headers);
    }
    // First, since it must cost less than what it prevents.
    if let Some(wait) = serving.client_limits.too_early(now.mono, facts.client, facts.budget) {
        let response = answers::later(StatusCode::TOO_MANY_REQUESTS, wait, answers::LIMITED);
        return close(&serving, index, &facts, response, How::limited());
    }
    // An authority requests the name of a site, or one that only has a certificate.
    let proof = serving.proofs.as_ref().and_then(|proofs| proofs.at_path(facts.path()));
    if let Some(proof) = proof {
        let how = How::by_itself(ClientClass::Monitor, Answered::Monitor);
        let response = answers::proof(proof);
        return close(&serving, index, &facts, response, how);
    }
    let (response, how) = match (index, refusing::refusal(&serving, index, &facts, &parts)) {
        (Some(index), None) => {
            let mut entered = None;
            // Boxed: most sites let all clients in.
            if admittance.is_some() {
                let entering = admitting::enter(&serving, index, &facts, shown, &mut parts, names);
                match Box::pin(entering).await {
                    Ok(it) => entered = Some(it),
                    Err((response, how)) => {
                        return close(&serving, Some(index), &facts, response, how);
                    }
                }
            }
            let names = entered.as_ref().map_or(names, |it| it.names);
            let verdict = judge(&serving.sites[index], &serving, &facts);
            let class = verdict.class();
            let mut client =
                Client { serving: &serving, index, facts: &facts, class, stays: false };
            let asked = SiteRequest::new(&serving, index, &facts, &parts, class, names);
            let asked = SiteRequest { verdict: Some(verdict), ..asked };
            let (mut response, how) = asked.answer(body).await;
            client.stays = true;
            if let Some(entered) = entered {
                entered.send_cookies(&mut response);
            }
            (response, how)
        }
        (_, refusal) => {
            let (status, text) = refusal.unwrap_or_else(|| refusing::no_site(&facts));
            (answers::sentence(status, text), How::by_itself(ClientClass::Api, Answered::Refused))
        }
    };
    close(&serving, index, &facts, response, how)
}

/// A request's key in the cache, if it has one, and what is stored there.
struct CacheLookup {
    key: Option<CacheKey>,
    found: Option<Found>,
}

impl CacheLookup {
    fn fresh(&self) -> Option<&Found> {
        self.found.as_ref().filter(|it| SiteRequest::cached(Some(it)) == Cached::Fresh)
    }
}

/// A request to a site, read and classified.
struct SiteRequest<'a> {
    serving: &'a Arc<Serving>,
    index: usize,
    facts: &'a Facts,
    parts: &'a Parts,
    class: ClientClass,
    /// Why it has this class; nothing for a request that was sent to the server already.
    verdict: Option<Verdict>,
    directives: RequestDirectives,
    /// What it reveals about its sender, by the site's rules.
    sender: Sender,
}

impl<'a> SiteRequest<'a> {
    fn new(
        serving: &'a Arc<Serving>,
        index: usize,
        facts: &'a Facts,
        parts: &'a Parts,
        class: ClientClass,
        names: FieldNames,
    ) -> Self {
        let directives = RequestDirectives::parse(&parts.headers);
        let rules = &serving.sites[index].rules;
        let sender = Sender::of_named(names, &head_of(facts, parts), rules);
        Self { serving, index, facts, parts, class, verdict: None, directives, sender }
    }

    fn site(&self) -> &Site {
        &self.serving.sites[self.index]
    }

    async fn answer_plainly(&self, body: Incoming) -> (Response<Answer>, How) {
        if OwnPath::of(&self.site().config, self.facts.path()) == Some(OwnPath::State) {
            return (self.state(), How::by_itself(self.class, Answered::State));
        }
        let site = self.site();
        if let Some(moved) = https::redirect(&self.serving.config, &site.config, self.facts) {
            return (moved, How::by_itself(self.class, Answered::Redirect));
        }
        let key = self.cache_key();
        if let Some(key) = &key {
            let now = self.serving.timestamp();
            if site.store.is_on_disk_only(key, now) {
                Box::pin(site.store.bring_up(key, now, &site.rules)).await;
            }
        }
        let found = key.as_ref().and_then(|key| self.find(key));
        let mirrored = match &site.mirror {
            Some(mirror) => Box::pin(self.mirrored(mirror, key.as_ref(), found.as_ref())).await,
            None => None,
        };
        let own = Self::cached(found.as_ref());
        let cached = if mirrored.is_some() { Cached::Stale } else { own };
        if self.directives.only_if_cached && key.is_some() && cached == Cached::Nothing {
            let text = "Not in the cache, and nothing else was asked for.";
            let response = answers::sentence(StatusCode::GATEWAY_TIMEOUT, text);
            return (response, How::by_itself(self.class, Answered::Refused));
        }
        let admission_request = AdmissionRequest {
            id: self.facts.number,
            visitor: self.facts.visitor,
            client: self.facts.budget,
            network: self.facts.network,
            request: admission::Request { class: self.class, want: self.want(), cached },
            recognised: self.verdict.is_none_or(|verdict| verdict.recognised),
            may_wake: self.may_wake(),
        };
        let needs_server = admission_request.request.wakes();
        if needs_server || admission_request.request.want == Want::Robots {
            site.prefetch_queue.note_base(&self.facts.base);
        }
        if needs_server && admission_request.may_wake {
            site.needs_server(self.facts.arrived.mono, self.facts.visitor);
        }
        // Subscribed before the request is admitted, so that no later change is missed.
        let phase = site.supervisor.phase();
        let Some(route) = self.admit(&admission_request) else { return self.asleep_for_it() };
        let shadow = site.shadow.as_ref().filter(|_| admission_request.may_wake);
        let would = shadow.map(|it| it.admit(&admission_request, || self.wake_cause()));
        let (response, answered) = match mirrored.filter(|_| route == Route::Stale) {
            Some(response) => Self::mirror_answer(response),
            None => self.take(route, phase, CacheLookup { key, found }, body).await,
        };
        if let Some(mirror) = &site.mirror {
            self.teach(mirror, answered, &response);
        }
        let want = admission_request.request.want;
        let rule = match answered {
            Answered::Limited => Some(refusing::HELD_PER_CLIENT),
            _ => self.verdict.and_then(|verdict| refusing::rule(route, want, &verdict)),
        };
        let how = How { needs_server, would, rule, ..How::by_itself(self.class, answered) };
        (response, how)
    }

    /// Shadow mode: whatever is not in the cache goes to the server, for all clients.
    fn pass_on(&self, cached: Cached) -> Route {
        if cached == Cached::Fresh {
            return Route::Cache;
        }
        self.site().supervisor.begin_for(self.requester());
        Route::Forward
    }

    /// Answers as the manager decided.
    async fn take(
        &self,
        route: Route,
        phase: watch::Receiver<Phase>,
        lookup: CacheLookup,
        body: Incoming,
    ) -> (Response<Answer>, Answered) {
        let site = self.site();
        let CacheLookup { key, found } = lookup;
        match (route, found) {
            (Route::Cache, Some(found)) => {
                if !matches!(found.usability, Usability::Fresh { .. }) {
                    self.renew(key.as_ref(), &found, &phase);
                }
                self.cache_answer(&found, Answered::Cache)
            }
            (Route::Stale, Some(found)) => {
                self.renew(key.as_ref(), &found, &phase);
                self.cache_answer(&found, Answered::Stale)
            }
            // Boxed: so that answers from the cache do not move these large futures.
            (Route::Forward, found) => {
                Box::pin(self.forward(CacheLookup { key, found }, body, phase)).await
            }
            (Route::Hold, found) => {
                let lookup = CacheLookup { key, found };
                Box::pin(self.held(lookup, self.spool(body), phase)).await
            }
            (Route::WaitingPage, _) => {
                (site.waiting_page.answer(self.wake_time()), Answered::WaitingPage)
            }
            (Route::Later(after), _) => self.appointment(key.as_ref(), after),
            (Route::Refuse, _) => (self.scanner_answer(), Answered::Scanner),
            (Route::State, _) if self.want() == Want::Icon => {
                (answers::no_icon(), Answered::Monitor)
            }
            (Route::State, _) if !matches!(self.facts.method, Method::GET | Method::HEAD) => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let text = "Nothing was done: the server sleeps, and a monitor does not wake it.";
                (answers::later(status, self.wake_time(), text), Answered::Monitor)
            }
            (Route::State, _) => {
                let health = site.health(self.serving.observe);
                let (text, retry_after) = (format!("{}\n", health.text), health.retry_after());
                (answers::health(text, retry_after), Answered::Monitor)
            }
            (Route::OverBudget { budget, wait }, _) => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                (answers::later(status, wait, answers::over_budget(budget)), Answered::Budget)
            }
            // Impossible without a stored answer, but the types do not express that.
            (Route::Unavailable(after), _)
                if site.config.waiting_page && self.want() == Want::Page =>
            {
                (site.waiting_page.failed(after), Answered::Unavailable)
            }
            (Route::Unavailable(after), _) => Self::unavailable(after),
            (Route::Cache | Route::Stale, None) => Self::unavailable(Duration::from_secs(1)),
        }
    }

    /// 503, never 404: the path was not looked up.
    fn scanner_answer(&self) -> Response<Answer> {
        let now = self.serving.clock.now().mono;
        let waits = |verdict| refusing::scanner_waits(verdict, now);
        let after = self.verdict.as_ref().map_or(Duration::from_secs(1), waits);
        answers::later(StatusCode::SERVICE_UNAVAILABLE, after, answers::REFUSED)
    }

    fn state(&self) -> Response<Answer> {
        let status = self.site().supervisor.status();
        answers::state(status.phase, status.blocked_for)
    }

    fn cache_key(&self) -> Option<CacheKey> {
        // A request for another protocol has no answer that could be stored.
        let cacheable = matches!(self.facts.method, Method::GET | Method::HEAD)
            && !question::asks_to_upgrade(self.parts)
            && !self.sender.bypasses_cache();
        let rules = &self.site().rules.key;
        cacheable.then(|| rules.key(&self.facts.base, &self.facts.target)).flatten()
    }

    fn find(&self, key: &CacheKey) -> Option<Found> {
        let asked = &self.directives;
        let (request, now) = (head_of(self.facts, self.parts), self.serving.timestamp());
        let site = self.site();
        let (object, usability) =
            site.store.find(key, self.sender, &request, asked, now, &site.rules)?;
        let usability = self.limited(key, usability, &object.stored);
        let forward = object.stored.precondition(&request) == Precondition::Forward;
        (!forward).then_some(Found { object, usability })
    }

    fn cached(found: Option<&Found>) -> Cached {
        let Some(Found { usability, .. }) = found else { return Cached::Nothing };
        if usability.allows(Occasion::ClientAccepts) || usability.allows(Occasion::Revalidating) {
            Cached::Fresh
        } else if usability.allows(Occasion::OriginAsleep) {
            Cached::Stale
        } else {
            Cached::Nothing
        }
    }

    /// Whose exchange it is.
    fn requester(&self) -> ExchangeFor {
        ExchangeFor::of(self.class, self.facts.network)
    }

    fn want(&self) -> Want {
        want(self.site(), self.facts, self.parts, self.class)
    }

    fn wake_time(&self) -> Duration {
        self.site().supervisor.expected_wake_time()
    }

    fn wake_cause(&self) -> WakeCause {
        wake_cause(self.facts, self.class)
    }

    fn cache_answer(&self, found: &Found, answered: Answered) -> (Response<Answer>, Answered) {
        found.object.popularity.asked(self.class);
        let now = self.serving.timestamp();
        let request = head_of(self.facts, self.parts);
        let status = CacheStatus::hit().ttl(found.object.stored.ttl(now));
        let response = from_store(&request, &found.object, now, &status);
        let not_modified = response.status() == StatusCode::NOT_MODIFIED;
        (response, if not_modified { Answered::NotModified } else { answered })
    }

    /// Holds a request until the server is awake, then lets it through.
    async fn held(
        &self,
        lookup: CacheLookup,
        mut spool: Spool,
        mut phase: watch::Receiver<Phase>,
    ) -> (Response<Answer>, Answered) {
        let supervisor = &self.site().supervisor;
        if supervisor.held() > self.serving.config.limits.held {
            supervisor.gave_up(self.facts.number);
            self.serving.refuse_to_hold(&self.site().name, "held");
            return Self::unavailable(self.wake_time());
        }
        let limits = &self.serving.client_limits;
        let Some(place) = limits.wait(self.facts.client, self.facts.budget) else {
            supervisor.gave_up(self.facts.number);
            return self.over_share();
        };
        let held = self.hold(&mut spool, &mut phase).await;
        drop(place);
        match held {
            Held::Awake(exchange) => {
                let lookup = self.look_again(lookup);
                if let Some(found) = lookup.fresh() {
                    // Another held request was for the same. This one still counts as held.
                    let (response, _) = self.cache_answer(found, Answered::Held);
                    return (response, Answered::Held);
                }
                self.through(lookup, spool, exchange, phase, Answered::Held).await
            }
            otherwise => self.not_held(&otherwise),
        }
    }

    fn spool(&self, body: Incoming) -> Spool {
        let serving = self.serving;
        Spool::new(body, serving.config.limits.spool_bytes, serving.client_limits.spool())
    }

    /// The answer to a client that has the maximum number of waiting requests.
    fn over_share(&self) -> (Response<Answer>, Answered) {
        self.serving.refuse_to_hold(&self.site().name, "held_per_client");
        let after = self.wake_time().max(Duration::from_secs(1));
        let status = StatusCode::SERVICE_UNAVAILABLE;
        (answers::later(status, after, answers::OVER_SHARE), Answered::Limited)
    }

    async fn hold(&self, spool: &mut Spool, phase: &mut watch::Receiver<Phase>) -> Held {
        let supervisor = &self.site().supervisor;
        let Facts { number, network, arrived, .. } = *self.facts;
        let deadline = arrived.mono + self.serving.config.limits.hold;
        let held = ToHold { number, network, deadline };
        hold(supervisor, phase, held, spool, &self.serving.clock).await
    }

    fn not_held(&self, held: &Held) -> (Response<Answer>, Answered) {
        if matches!(held, Held::TooLong) {
            let response = answers::sentence(StatusCode::GATEWAY_TIMEOUT, answers::TOO_LATE);
            return (response, Answered::Timeout);
        }
        Self::unavailable(self.site().supervisor.status().blocked_for)
    }

    /// Looks in the cache again, after some waiting.
    fn look_again(&self, lookup: CacheLookup) -> CacheLookup {
        let CacheLookup { key, found } = lookup;
        let found = key.as_ref().and_then(|key| self.find(key)).or(found);
        CacheLookup { key, found }
    }

    /// Passes a request on to a server that is awake, unless another request for the same is under way: then it waits
    /// for the cached answer of that.
    async fn forward(
        &self,
        mut lookup: CacheLookup,
        body: Incoming,
        phase: watch::Receiver<Phase>,
    ) -> (Response<Answer>, Answered) {
        let exchange = Exchange::begun(&self.site().supervisor, self.requester());
        if let Some(mut other) = self.other_fetch(lookup.key.as_ref()) {
            let clock = &self.serving.clock;
            let _ = clock.parked(clock.timeout(SHARED, other.changed())).await;
            lookup = self.look_again(lookup);
            if let Some(now) = lookup.fresh() {
                return self.cache_answer(now, Answered::Cache);
            }
        }
        // A request that waits in a pool's line is spooled meanwhile.
        let pools = self.site().pool.is_some();
        let spool = if pools { self.spool(body) } else { Spool::unkept(body) };
        self.through(lookup, spool, exchange, phase, Answered::Server).await
    }

    /// Passes a request on within an exchange that has begun. A server that turns out to be gone is reported, and
    /// waited for.
    async fn through(
        &self,
        mut lookup: CacheLookup,
        mut spool: Spool,
        mut exchange: Arc<Exchange>,
        mut phase: watch::Receiver<Phase>,
        mut answered: Answered,
    ) -> (Response<Answer>, Answered) {
        let pool = self.site().pool.as_ref();
        match self.first_place(&exchange, &mut spool, &mut answered).await {
            // Another request may have fetched the same meanwhile.
            Ok(true) => {
                lookup = self.look_again(lookup);
                if let Some(now) = lookup.fresh() {
                    return self.cache_answer(now, answered);
                }
            }
            Ok(false) => {}
            Err((response, how)) => {
                return self.without_place(self.look_again(lookup), response, how);
            }
        }
        let shared_fetch = self.shared_fetch(lookup.key.as_ref(), &exchange);
        let forwarding = self.forwarding(lookup, shared_fetch);
        let (serving, supervisor) = (self.serving, &self.site().supervisor);
        let attempts = ATTEMPTS + pool.map_or(0, |pool| pool.servers.len() as u32);
        let mut broken = false;
        for attempt in 1..=attempts {
            let ran = forwarding.run(spool, Arc::clone(&exchange), attempt > 1).await;
            (spool, broken) = match settled(ran) {
                ControlFlow::Continue(back) => back,
                ControlFlow::Break((response, how)) => return (response, how.unwrap_or(answered)),
            };
            if pool.is_some() && attempt < attempts {
                exchange = match self.elsewhere(exchange, &mut spool, &mut answered).await {
                    Ok(next) => next,
                    Err(answer) => {
                        let stale = forwarding.stale_without_server();
                        return stale.map_or(answer, |stale| (stale, Answered::Stale));
                    }
                };
                continue;
            }
            // A connection can break although the server is well: that is no reason to wait.
            if broken && attempt == 1 {
                continue;
            }
            if let Some(stale) = forwarding.stale_without_server() {
                supervisor.unreachable();
                return (stale, Answered::Stale);
            }
            if attempt == attempts || serving.observe {
                break;
            }
            if self.is_back().await {
                continue;
            }
            answered = Answered::Held;
            drop(exchange);
            if !self.waits_again() {
                break;
            }
            exchange = match self.hold(&mut spool, &mut phase).await {
                Held::Awake(exchange) => exchange,
                otherwise => return self.not_held(&otherwise),
            };
        }
        self.unanswered(broken)
    }

    /// Probes the server. If it is awake: true, after the time that a server that has just woken may need until it
    /// listens.
    async fn is_back(&self) -> bool {
        let (clock, supervisor) = (&self.serving.clock, &self.site().supervisor);
        let deadline = self.facts.arrived.mono + self.serving.config.limits.hold;
        while supervisor.is_awake() && supervisor.ask_after(WORD).await {
            let listens = self.site().origin.listens().await;
            if listens || !supervisor.woke_within(STARTING) || clock.now().mono >= deadline {
                return true;
            }
            clock.parked(clock.sleep(RETRY_EVERY)).await;
        }
        false
    }

    /// The answer after all attempts; `broken`: the last connection broke.
    fn unanswered(&self, broken: bool) -> (Response<Answer>, Answered) {
        if broken && self.site().supervisor.is_awake() {
            let (status, after) = (StatusCode::SERVICE_UNAVAILABLE, Duration::from_secs(1));
            return (answers::later(status, after, answers::BREAKS_OFF), Answered::Unavailable);
        }
        if self.is_guest() && !self.site().supervisor.is_awake() {
            return self.gone_for_guest();
        }
        Self::unavailable(self.site().supervisor.status().blocked_for)
    }

    fn unavailable(after: Duration) -> (Response<Answer>, Answered) {
        let after = after.max(Duration::from_secs(1));
        let status = StatusCode::SERVICE_UNAVAILABLE;
        (answers::later(status, after, answers::UNAVAILABLE), Answered::Unavailable)
    }
}

/// A request that was not answered, and whether its connection broke; or the answer, and how it was answered if not by
/// the server.
fn settled(
    outcome: Result<Response<Answer>, NotForwarded>,
) -> ControlFlow<(Response<Answer>, Option<Answered>), (Spool, bool)> {
    match outcome {
        Ok(response) => ControlFlow::Break((response, None)),
        Err(NotForwarded::Stale(response)) => ControlFlow::Break((response, Some(Answered::Stale))),
        Err(NotForwarded::Answer(response)) => {
            let refused = response.status().is_client_error();
            let how = if refused { Answered::Refused } else { Answered::Unavailable };
            ControlFlow::Break((response, Some(how)))
        }
        Err(NotForwarded::Broken(back)) => ControlFlow::Continue((back, true)),
        Err(NotForwarded::Unreachable(back)) => ControlFlow::Continue((back, false)),
    }
}
