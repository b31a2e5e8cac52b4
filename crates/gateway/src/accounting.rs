//! The accounting of every request: counters, visits, what the classifier learns, the access log.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, DATE, STRICT_TRANSPORT_SECURITY};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use nightwatt_energy::time::{Mono, Now};
use nightwatt_http1::Refusal;
use nightwatt_httpcache::status::CACHE_STATUS;
use nightwatt_policy::admission::ClientClass;
use nightwatt_policy::visit::Visitor;
use nightwatt_traffic::{ClientFacts, Reply, Traits, clf};

use crate::access_log::{AccessLog, Answered, Entry, Part};
use crate::answers;
use crate::body::{Answer, Watcher};
use crate::client_facts;
use crate::facts::{Facts, RequestId};
use crate::refusing;
use crate::serving::Serving;
use crate::site::Site;
use crate::supervisor::Supervisor;

/// Header that says how a request was answered.
pub(crate) const ANSWER: HeaderName = HeaderName::from_static("nightwatt-answer");

/// What the log calls a request whose client left (nginx's 499).
pub(crate) const CLIENT_LEFT: StatusCode = match StatusCode::from_u16(499) {
    Ok(status) => status,
    Err(_) => StatusCode::BAD_REQUEST,
};

/// How a request was answered, for the accounting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    pub(crate) class: ClientClass,
    pub(crate) answered: Answered,
    /// Could only the server answer it?
    pub(crate) needs_server: bool,
    /// In shadow mode: how it would have been answered.
    pub(crate) would: Option<&'static str>,
    /// The gate has let it through: what the server answers is not known.
    pub(crate) let_through: bool,
    /// The rule by which it did not reach the server.
    pub(crate) rule: Option<&'static str>,
}

impl How {
    /// Answered without the server.
    pub(crate) const fn by_itself(class: ClientClass, answered: Answered) -> Self {
        let rule = None;
        Self { class, answered, needs_server: false, would: None, let_through: false, rule }
    }

    /// Rejected before anything else: the client sends too many requests.
    pub(crate) const fn limited() -> Self {
        let rule = Some(refusing::TOO_MANY_REQUESTS);
        Self { rule, ..Self::by_itself(ClientClass::Api, Answered::Limited) }
    }
}

/// Who sent the request, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker {
    pub(crate) arrived: Mono,
    pub(crate) visitor: Visitor,
}

impl Site {
    /// Counts an answer.
    pub(crate) fn count(
        &self,
        asker: Asker,
        class: ClientClass,
        answered: Answered,
        status: StatusCode,
        now: Now,
    ) {
        let delay = now.mono.since(asker.arrived);
        self.counters.requests.count(class, answered, status, delay);
        self.count_delay(asker, class, answered, delay);
    }

    /// Learns from an answer what kind of client sent the request.
    pub(crate) fn learn(
        &self,
        client: &ClientFacts<'_>,
        answered: Answered,
        reply: Reply,
        now: Now,
    ) {
        let traits = self.classifier().traits_to_learn(client, reply.status);
        self.learn_of(&traits, answered, reply, now);
    }

    /// As [`Site::learn`], but with traits that are already known.
    pub(crate) fn learn_of(&self, traits: &Traits, answered: Answered, reply: Reply, now: Now) {
        let now = now.mono;
        match answered {
            Answered::Server | Answered::Held => self.classifier().learn_of(now, traits, reply),
            Answered::Cache | Answered::Stale | Answered::NotModified | Answered::Mirror => {
                self.classifier().learn_cached(now, traits, reply.status);
            }
            _ => {}
        }
    }

    fn count_delay(&self, asker: Asker, class: ClientClass, answered: Answered, delay: Duration) {
        if !class.is_admitted()
            || matches!(
                answered,
                Answered::State
                    | Answered::Denied
                    | Answered::Limited
                    | Answered::Redirect
                    | Answered::Path
            )
        {
            return;
        }
        let slept = matches!(answered, Answered::Held | Answered::Timeout | Answered::Gone);
        let turned_away =
            matches!(answered, Answered::WaitingPage | Answered::Budget | Answered::Unavailable);
        let delayed = turned_away || slept && delay > self.scenario.sla.delay;
        self.counters.delayed.fetch_add(u64::from(delayed), Ordering::Relaxed);
        let mut visits = self.counters.visits.lock().unwrap_or_else(PoisonError::into_inner);
        visits.request(asker.arrived, asker.visitor, delayed);
    }
}

/// Counts, logs and labels an answer.
pub(crate) fn close(
    serving: &Serving,
    index: Option<usize>,
    facts: &Facts,
    response: Response<Answer>,
    How { class, answered, needs_server, would, let_through, rule }: How,
) -> Response<Answer> {
    let now = serving.clock.now();
    let site = index.map(|index| &serving.sites[index]);
    let mut response = if facts.wants_json {
        answers::for_programs(response)
    } else if let Some(paths) = site.and_then(|site| site.paths.as_ref()) {
        let page = paths.page(response.status().as_u16()).filter(|_| facts.accepts_html);
        answers::for_people(response, page)
    } else {
        response
    };
    if let Some(site) = site {
        let asker = Asker { arrived: facts.arrived.mono, visitor: facts.visitor };
        site.count(asker, class, answered, response.status(), now);
        // (Otherwise every path that scanners probe would seem to exist.)
        if !let_through {
            let reply = reply(facts, response.status(), response.headers());
            site.learn(&facts.for_classifier(), answered, reply, now);
        }
    } else {
        let delay = now.mono.since(facts.arrived.mono);
        serving.unsited.count(class, answered, response.status(), delay);
    }
    if let Some(hsts) = site.and_then(|site| site.hsts.clone()).filter(|_| facts.secure) {
        response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, hsts);
    }
    if serving.config.answer_header {
        response.headers_mut().insert(ANSWER, HeaderValue::from_static(answered.as_str()));
    }
    // (A request that accepts a cached answer only, and finds none, gets 504.)
    if answered == Answered::Refused && response.status() != StatusCode::GATEWAY_TIMEOUT {
        // A rejected request may have been framed differently than we read it: do not read anything behind it.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if !response.headers().contains_key(DATE) {
        let date = nightwatt_httpcache::date::format(serving.timestamp());
        response.headers_mut().insert(DATE, date);
    }
    let Some(log) = &serving.access_log else { return response };
    let hit = |value: &HeaderValue| value.as_bytes().starts_with(b"nightwatt; hit");
    let from_cache = response.headers().get(CACHE_STATUS).is_some_and(hit);
    let entry = Entry {
        request: facts.to_arrival(response.status()),
        raw: facts.raw.clone(),
        site: site.map_or_else(|| "-".into(), |site| Arc::clone(&site.name)),
        id: facts.id.clone(),
        class,
        answered,
        delay: now.mono.since(facts.arrived.mono),
        needs_server,
        from_cache,
        would,
        rule,
    };
    let logged = Logged { log: Arc::clone(log), entry };
    response.map(|body| body.watched(Box::new(logged)))
}

/// What the classifier learns about an answer. What a success looks like matters only for a POST.
fn reply(facts: &Facts, status: StatusCode, fields: &HeaderMap) -> Reply {
    let shows_form = facts.posted.map(|posted| client_facts::shows_form(posted, fields));
    Reply { status: status.as_u16(), shows_form }
}

/// Answers and logs something that is not a valid request. Client facts and target are unknown.
pub(crate) fn refused(serving: &Serving, client: &str, refusal: Refusal) -> Response<Answer> {
    let now = serving.clock.now();
    let mut response = answers::sentence(refusal.status(), refusal.text());
    let date = nightwatt_httpcache::date::format(serving.timestamp());
    response.headers_mut().insert(DATE, date);
    serving.unsited.refuse(refusal.status());
    if let Some(log) = &serving.access_log {
        let entry = clf::Entry {
            at: now.wall,
            utc_offset: now.utc_offset,
            client,
            method: "-",
            target: "-",
            status: refusal.status().as_u16(),
            bytes: refusal.text().len() as u64 + 1,
            referer: None,
            agent: None,
        };
        let part = Part {
            site: "-",
            class: ClientClass::Api,
            answered: Answered::Refused,
            delay: Duration::ZERO,
            needs_server: false,
            from_cache: false,
            would: None,
            rule: None,
            outcome: None,
        };
        let id = RequestId { at: now.wall, number: Supervisor::next_id() };
        log.add(&entry, &id, &part);
    }
    response
}

/// Counts an answer's bytes and logs the request when its answer is over.
struct Logged {
    log: Arc<AccessLog>,
    entry: Entry,
}

impl Watcher for Logged {
    fn passes(&mut self, part: &Bytes) {
        self.entry.request.bytes += part.len() as u64;
    }

    fn ended(&mut self) {}
}

impl Drop for Logged {
    fn drop(&mut self) {
        self.log.add(&self.entry.combined(), &self.entry.id, &self.entry.part());
    }
}
