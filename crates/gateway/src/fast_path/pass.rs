//! Plain requests that only the server can answer, on the fast path: the request is forwarded as the bytes that came
//! in, and so is the answer, if it arrives complete at once and forbids storing.
//!
//! All others continue on the slow path (`slow_path::resume`), with the connection on which the request was sent.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Method, StatusCode};
use nightwatt_energy::time::{Mono, Now};
use nightwatt_http1::client::{PlainResponse, Underway};
use nightwatt_http1::{Field, Head, Prepared, Progress};
use nightwatt_httpcache::directives::forbid_storing;
use nightwatt_httpcache::status::CACHE_STATUS;
use nightwatt_httpcache::{CacheKey, CacheStatus, Forward, NotStorable, Sender, date, fields};
use nightwatt_policy::admission::{self, Cached, ClientClass};
use nightwatt_policy::manager::AdmissionRequest;
use nightwatt_policy::visit::Visitor;
use nightwatt_traffic::Traits;

use super::{Client, Given, Id, Plain, value_of};
use crate::access_log::Answered;
use crate::accounting::{ANSWER, CLIENT_LEFT};
use crate::exchange::{Admitted, Begun, Exchange, SILENT};
use crate::facts::RequestId;
use crate::origin;
use crate::question::plain::{self, put_field};
use crate::request_body::JUST_AFTER;
use crate::request_rules::{self, Wanting, path_of};
use crate::serving::Serving;
use crate::shared_fetches::FetchRole;
use crate::site::Site;
use crate::store::Requester;
use crate::supervisor::{ExchangeFor, Supervisor};

/// A request that was sent to its server.
pub(crate) struct Pass {
    serving: Arc<Serving>,
    admitted: Admitted,
    visitor: Visitor,
    traits: Traits,
    /// Its credentials.
    credential: Option<u64>,
    key: CacheKey,
    is_anybodys: bool,
    begun: Begun,
}

impl Pass {
    /// For the slow path.
    pub(super) fn into_admitted(self) -> (Arc<Serving>, Admitted) {
        self.admitted.exchange.has_begun(self.begun);
        (self.serving, self.admitted)
    }

    /// Deadline after which the slow path takes over.
    pub(super) fn deadline(&self) -> Mono {
        let serving = &self.serving;
        let limit = serving.sites[self.admitted.site].limits.origin_timeout;
        // The slow path checks whether a silent server is asleep.
        self.begun.since + limit.min(SILENT) + JUST_AFTER
    }

    /// When the request arrived.
    pub(super) fn since(&self) -> Mono {
        self.begun.since
    }

    /// For the accounting.
    fn given(&self, answered: Answered, status: StatusCode, now: Now) -> Given {
        let Admitted { site, class, arrived, number, needs_server, ref exchange } = self.admitted;
        let id = Id::Own(RequestId { at: arrived.wall, number });
        Given {
            site,
            class,
            arrived,
            id,
            visitor: self.visitor,
            traits: self.traits,
            credential: self.credential,
            status,
            now,
            answered,
            needs_server,
            _exchange: Some(Arc::clone(exchange)),
        }
    }
}

/// The facts that the manager needs about a request for which nothing is stored.
fn request_of(
    class: ClientClass,
    site: &Site,
    head: &Head<'_, '_>,
    plain: &Plain<'_>,
) -> admission::Request {
    let facts = Wanting {
        method: &Method::GET,
        path: path_of(head.target),
        accepts_html: plain.accepts_html,
        class,
    };
    let want = request_rules::want(&site.config, facts, |name| value_of(head, name));
    admission::Request { class, want, cached: Cached::Nothing }
}

impl Client {
    /// Sends the request that `find` has read to the server, if that is awake, has an idle connection, and nothing is
    /// stored.
    pub(super) fn ask(
        &mut self,
        head: &Head<'_, '_>,
        plain: &Plain<'_>,
        index: usize,
        sender: Sender,
    ) -> Option<Box<Pass>> {
        let serving = Arc::clone(&self.serving);
        let (site, secure) = (&serving.sites[index], self.peer.secure);
        let key = self.key_to_ask(head, site, sender)?;
        let is_anybodys = sender.is_anonymous();
        self.meet(head)?;
        let waiting = site.origin.idle()?;
        let arrived = serving.clock.now();
        let (budget, network) = (self.speaker.key.number(), self.speaker.key.network());
        let limits = &serving.client_limits;
        // The slow path rejects a request that comes too early, and counts all that it gets from here.
        let may = limits.may(arrived.mono, self.speaker.ip, budget);
        let judged = may.then(|| self.class_of(site, arrived, head, plain)).flatten();
        let Some((class, traits)) = judged else {
            site.origin.leave(waiting);
            return None;
        };
        let request = request_of(class, site, head, plain);
        let visitor = Visitor::new(&self.speaker.address, plain.agent);
        let number = Supervisor::next_id();
        // A request to a server that is awake costs no budget.
        let (id, client, recognised, may_wake) = (number, budget, true, true);
        let admission_request =
            AdmissionRequest { id, visitor, client, network, request, recognised, may_wake };
        if !site.supervisor.admit_awake(&admission_request) {
            site.origin.leave(waiting);
            return None;
        }
        limits.count(arrived.mono, self.speaker.ip, budget);
        let shared_fetch =
            is_anybodys.then(|| site.shared_fetches.join(&key)).and_then(FetchRole::first);
        let needs_server = request.wakes();
        if needs_server {
            site.needs_server(arrived.mono, visitor);
        }
        let exchange = Exchange::begun(&site.supervisor, ExchangeFor::of(class, network));
        let id = RequestId { at: arrived.wall, number };
        let asker =
            plain::Asker { peer: self.peer.ip, secure, authority: plain.authority, id: &id };
        let question = plain::question(head, &asker, &site.mark);
        let begun = Begun {
            underway: Underway::new(waiting.connection, question),
            since: arrived.mono,
            requested: serving.timestamp(),
            ticket: site.store.ask(key.clone(), Requester::Of(class)),
            shared_fetch,
        };
        let admitted = Admitted { site: index, class, arrived, number, needs_server, exchange };
        let credential = plain.credential(head);
        Some(Box::new(Pass {
            serving,
            admitted,
            visitor,
            traits,
            credential,
            key,
            is_anybodys,
            begun,
        }))
    }

    /// The key of a request that can be forwarded unchanged, as `find` has written it; nothing if only the slow path can
    /// decide.
    fn key_to_ask(&mut self, head: &Head<'_, '_>, site: &Site, sender: Sender) -> Option<CacheKey> {
        let are_unchanged =
            *self.last_names.are_unchanged.get_or_insert_with(|| plain::has_plain_fields(head));
        if !are_unchanged || !plain::has_plain_target(head) || !may_pass(site) {
            return None;
        }
        if !sender.is_anonymous() && head.values("authorization").any(origin::is_binding) {
            // Then the connection belongs to that user.
            return None;
        }
        // No field says that the client uses TLS where the peer does not: such fields are changed on their way.
        debug_assert_eq!(self.is_secure(head), self.peer.secure, "{:?}", head.fields);
        let key = CacheKey::of_written(&self.scratch);
        if site.store.knows(&key, self.serving.timestamp()) {
            return None;
        }
        // The slow path waits for another client's answer.
        (!sender.is_anonymous() || site.shared_fetches.other(&key).is_none()).then_some(key)
    }

    /// Polls a request that was sent to its server.
    pub(super) fn poll_pass(
        &mut self,
        mut pass: Box<Pass>,
        cx: &mut Context<'_>,
    ) -> Progress<Box<Pass>> {
        if self.leaving.load(Relaxed) {
            return Progress::SlowPath(pass);
        }
        let Pass { serving, admitted, key, is_anybodys, begun, .. } = &mut *pass;
        let (site, secure) = (&serving.sites[admitted.site], self.peer.secure);
        let answer = begun.underway.poll_whole(cx, |glance| {
            let head = head_of(serving, site, secure, glance)?;
            let keep_alive = glance.values("keep-alive").next();
            let keeps = keep_alive.and_then(|it| origin::keeps(std::str::from_utf8(it).ok()?));
            if *is_anybodys {
                begun.ticket.condemns_others();
            }
            let is_alone = *is_anybodys || !begun.ticket.has_company();
            // What other clients have got may have to be forgotten: the slow path does that.
            let is_known = !is_alone || site.store.knows(key, serving.timestamp());
            (!is_known).then_some((head, glance.status, keeps))
        });
        let ((head, status, keeps), body) = match answer {
            Poll::Pending => return Progress::Waits(pass),
            Poll::Ready(None) => return Progress::SlowPath(pass),
            Poll::Ready(Some(answer)) => answer,
        };
        if *is_anybodys && NotStorable::NoStore.is_of_the_resource(status) {
            site.shared_fetches.note(key, false);
        }
        let now = serving.clock.now();
        self.given = Some(pass.given(Answered::Server, status, now));
        let Pass { serving, admitted, begun, .. } = *pass;
        let connection = begun.underway.into_connection();
        serving.sites[admitted.site].origin.give_back(connection, keeps);
        Progress::Ready(Prepared { head, body })
    }

    /// The client left while its request was at the server.
    pub(super) fn gave_up(&mut self, head: &Head<'_, '_>, pass: &Pass) {
        let now = self.serving.clock.now();
        let given = pass.given(Answered::Gone, CLIENT_LEFT, now);
        // As on the slow path: an unanswered request does not count as needing the server.
        self.given = Some(Given { needs_server: false, ..given });
        self.log(head, 0);
    }
}

/// Whether a request can be sent to the site's only server at once: the slow path handles servers that sleep or may
/// still be starting, chooses among several, and compresses.
fn may_pass(site: &Site) -> bool {
    site.pool.is_none()
        && site.compressor.is_none()
        && site.supervisor.is_awake()
        && !site.may_be_starting()
}

/// The answer's head as the slow path would make it; nothing if the answer might be cacheable.
fn head_of(
    serving: &Serving,
    site: &Site,
    secure: bool,
    glance: &PlainResponse<'_, '_>,
) -> Option<Bytes> {
    let is_targeted = glance.values("cdn-cache-control").next().is_some();
    if is_targeted || !forbid_storing(glance.values("cache-control")) {
        return None;
    }
    if matches!(glance.status.as_u16(), 502..=504) && site.may_be_starting() {
        return None;
    }
    let hsts = site.hsts.as_ref().filter(|_| secure);
    let mut out = Vec::with_capacity(768);
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(glance.status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(glance.status.canonical_reason().unwrap_or("Unnamed").as_bytes());
    out.extend_from_slice(b"\r\n");
    let mut has_date = false;
    for field in glance.fields {
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        has_date |= is("date");
        let is_ours = is("content-length")
            || is(ANSWER.as_str()) && serving.config.answer_header
            || is("strict-transport-security") && hsts.is_some()
            || fields::is_hop_by_hop(field.name);
        if !is_ours {
            put_field(&mut out, field);
        }
    }
    out.extend_from_slice(b"via: 1.1 nightwatt\r\n");
    if !has_date {
        put(&mut out, "date", date::format(serving.timestamp()).as_bytes());
    }
    let status = CacheStatus::forwarded(Forward::UriMiss).origin_status(glance.status);
    // Writing to memory cannot fail.
    let _ = write!(out, "{}: {status}\r\n", CACHE_STATUS.as_str());
    if let Some(hsts) = hsts {
        put(&mut out, "strict-transport-security", hsts.as_bytes());
    }
    if serving.config.answer_header {
        put(&mut out, ANSWER.as_str(), Answered::Server.as_str().as_bytes());
    }
    let _ = write!(out, "content-length: {}\r\n\r\n", glance.length);
    Some(out.into())
}

fn put(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    put_field(out, &Field { name, value });
}
