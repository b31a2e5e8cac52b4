//! The fast path: a plain request whose answer is fresh in the cache is answered from the bytes it
//! came in.
//!
//! A request that only the server can answer takes a fast path too, if it can ([`pass`]).
//!
//! It gives the same answer and the same accounting as the slow path (`slow_path`), which handles all other requests.

mod pass;
mod plain;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Context;

use http::header::{CONNECTION, HeaderValue, STRICT_TRANSPORT_SECURITY};
use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode};
use nightwatt_energy::time::{Mono, Now};
use nightwatt_http1::{
    Head, Incoming, OnSent, Prepared, Progress, Quick, Refusal, Service, head_bytes,
};
use nightwatt_httpcache::{CacheStatus, RequestHead, Sender};
use nightwatt_policy::admission::{self, Cached, ClientClass, Route, Want};
use nightwatt_policy::manager::AdmissionRequest;
use nightwatt_policy::visit::Visitor;
use nightwatt_traffic::{ClientFacts, ClientKey, Fetch, Traits, clf};

pub(crate) use self::pass::Pass;
use self::plain::{LastNames, Plain};
use crate::access_log::{Answered, Part};
use crate::accounting::{ANSWER, Asker, refused};
use crate::authority::Authority;
use crate::body::Answer;
use crate::client_facts;
use crate::compress::add_vary;
use crate::config::Config;
use crate::exchange::Exchange;
use crate::facts::{FORWARDED_PROTO_NAME, Peer, REQUEST_ID_NAME, RequestId, is_https, is_plain_id};
use crate::forwarded::{FORWARDED_FOR_NAME, SpokenFor};
use crate::hit::from_store;
use crate::live::Live;
use crate::request_rules::{OwnPath, path_of};
use crate::serving::Serving;
use crate::site::Site;
use crate::slow_path;
use crate::store::Object;
use crate::supervisor::Supervisor;
use crate::wake_cause::WakeCause;

/// Answers the requests of one connection.
pub(crate) struct Client {
    live: Live<Serving>,
    serving: Arc<Serving>,
    /// Set while the connection is to close: then each answer is its last one.
    leaving: Arc<AtomicBool>,
    peer: Peer,
    /// The peer is a trusted proxy: it speaks for others.
    is_proxy: bool,
    speaker: Speaker,
    /// Buffer for cache keys.
    scratch: String,
    last_names: LastNames,
    last_host: LastHost,
    /// The answer that was just sent.
    given: Option<Given>,
}

/// The client: the peer, or the one it last spoke for.
struct Speaker {
    ip: IpAddr,
    /// As in the accounting.
    address: String,
    key: ClientKey,
}

impl Speaker {
    fn new(ip: IpAddr) -> Self {
        let ip = ip.to_canonical();
        Self { ip, address: ip.to_string(), key: ClientKey::from(ip) }
    }
}

/// Longer hosts are not kept: no name is longer, with a port.
const LONGEST_HOST: usize = 259;

/// The host of a connection's last plain request, as the client wrote it, and its site: most requests name it again.
#[derive(Default)]
struct LastHost {
    text: String,
    is_secure: bool,
    site: usize,
}

impl LastHost {
    /// The site of a host; nothing where only the slow path can decide.
    fn site(&mut self, serving: &Serving, text: &str, is_secure: bool) -> Option<usize> {
        // At first, it is empty, as no host is.
        if self.text == text && self.is_secure == is_secure && !text.is_empty() {
            return Some(self.site);
        }
        let authority = Authority::parse(text)?;
        if !authority.is_normal(text, is_secure) {
            return None;
        }
        let site = serving.site_of(authority.host)?;
        self.text.clear();
        if text.len() <= LONGEST_HOST {
            self.text.push_str(text);
            (self.is_secure, self.site) = (is_secure, site);
        }
        Some(site)
    }
}

/// The id of a request in the log.
enum Id {
    Own(RequestId),
    /// From a trusted proxy.
    Told(Box<str>),
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Own(id) => id.fmt(f),
            Self::Told(id) => f.write_str(id),
        }
    }
}

/// A prepared answer that is being sent.
struct Given {
    site: usize,
    class: ClientClass,
    arrived: Now,
    id: Id,
    visitor: Visitor,
    traits: Traits,
    /// Its credentials.
    credential: Option<u64>,
    status: StatusCode,
    /// When the answer was ready.
    now: Now,
    answered: Answered,
    needs_server: bool,
    /// Ends when the answer is sent.
    _exchange: Option<Arc<Exchange>>,
}

/// The destination of a plain request.
struct Aim {
    site: usize,
    sender: Sender,
    /// The stored answer for it.
    object: Option<Arc<Object>>,
    /// A path that the proxy may have to answer.
    own_path: Option<OwnPath>,
}

impl Client {
    pub(crate) fn new(mut live: Live<Serving>, peer: Peer, leaving: Arc<AtomicBool>) -> Self {
        let serving = live.now();
        Self {
            is_proxy: speaks_for_others(&serving, peer.ip),
            live,
            serving,
            leaving,
            speaker: Speaker::new(peer.ip),
            peer,
            scratch: String::new(),
            last_names: LastNames::default(),
            last_host: LastHost::default(),
            given: None,
        }
    }

    /// After a reload the next request is for the new gateway.
    fn keep_up(&mut self) {
        if let Some(serving) = self.live.newer() {
            self.is_proxy = speaks_for_others(&serving, self.peer.ip);
            (self.last_names, self.last_host) = (LastNames::default(), LastHost::default());
            if !self.is_proxy {
                // The peer may have spoken for others before.
                self.speaker = Speaker::new(self.peer.ip);
            }
            self.serving = serving;
        }
    }

    /// Finds the client; nothing if that cannot be parsed, which the slow path counts. (A request with `Forwarded` is
    /// left to the slow path too.)
    fn meet(&mut self, head: &Head<'_, '_>) -> Option<()> {
        if self.is_proxy {
            let Config { trusted_proxies, client_field, .. } = &self.serving.config;
            let (listed, other) = (head.values(FORWARDED_FOR_NAME), std::iter::empty());
            let spoken =
                SpokenFor::by_proxy(trusted_proxies, *client_field, self.peer.ip, listed, other);
            if spoken.is_unreadable {
                return None;
            }
            if spoken.client != self.speaker.ip {
                self.speaker = Speaker::new(spoken.client);
            }
        }
        Some(())
    }

    /// Whether the client uses TLS.
    fn is_secure(&self, head: &Head<'_, '_>) -> bool {
        let told = head.values(FORWARDED_PROTO_NAME).next().filter(|_| self.is_proxy);
        told.map_or(self.peer.secure, is_https)
    }

    fn id(&self, head: &Head<'_, '_>, arrived: Now, number: u64) -> Id {
        let own = Id::Own(RequestId { at: arrived.wall, number });
        if !self.is_proxy {
            return own;
        }
        let told = head.values(REQUEST_ID_NAME).next().and_then(|it| std::str::from_utf8(it).ok());
        told.filter(|it| is_plain_id(it)).map_or(own, |it| Id::Told(it.into()))
    }

    fn facts<'a>(&self, head: &Head<'_, 'a>, plain: &Plain<'a>) -> ClientFacts<'a> {
        ClientFacts {
            client: self.speaker.key,
            agent: plain.agent,
            method: head.method,
            target: head.target,
            host: Some(plain.authority),
            referer: plain.referer,
            accepts_html: Some(plain.accepts_html),
            credential: None,
            fetch: Fetch::Unknown,
        }
    }

    /// The site of a plain request, and what is stored for it; nothing if only the slow path can decide.
    fn find(&mut self, head: &Head<'_, '_>, plain: &Plain<'_>) -> Option<Aim> {
        let serving = &*self.serving;
        if serving.observe || !head.target.starts_with('/') {
            return None;
        }
        let is_secure = self.is_secure(head);
        let index = self.last_host.site(serving, plain.authority, is_secure)?;
        let site = &serving.sites[index];
        // The slow path decides who comes in, and what is answered by its path.
        if site.admittance.is_some() || site.paths.is_some() {
            return None;
        }
        let sender = plain.sender(head, &site.rules);
        let own_path = OwnPath::of(&site.config, path_of(head.target));
        if sender.bypasses_cache() || own_path.is_some_and(|it| !it.may_be_cached()) {
            return None;
        }
        if plain.via.is_some_and(|via| site.mark.is_in(via)) {
            return None;
        }
        if !is_secure && site.config.redirects(head.target) {
            return None;
        }
        self.scratch.clear();
        let key = &site.rules.key;
        if !key.write(&mut self.scratch, is_secure, plain.authority, head.target) {
            return None;
        }
        let values = |name: &HeaderName| {
            let name = name.clone();
            let fields = head.fields.iter();
            fields.filter(move |it| it.name.eq_ignore_ascii_case(name.as_str())).map(|it| it.value)
        };
        let now = serving.timestamp();
        let object = site.store.find_plain(&self.scratch, sender, now, &site.rules, values);
        Some(Aim { site: index, sender, object, own_path })
    }

    /// The class of a client; nothing if that depends on its history, or on fields that only the slow path reads.
    fn class_of(
        &self,
        site: &Site,
        now: Now,
        head: &Head<'_, '_>,
        plain: &Plain<'_>,
    ) -> Option<(ClientClass, Traits)> {
        if head.target.starts_with("/robots.txt") {
            return None;
        }
        let mut classifier = site.classifier();
        let traits = classifier.traits(&self.facts(head, plain));
        let verdict = classifier.judge_of(now.mono, &traits);
        let class = verdict.class();
        let is_plain = !verdict.rule.is_remembered() && class != ClientClass::Scanner;
        is_plain.then_some((class, traits))
    }

    /// Admits a request whose answer is stored.
    fn stored(
        &mut self,
        head: &Head<'_, '_>,
        plain: &Plain<'_>,
        index: usize,
        object: &Object,
    ) -> Option<Prepared> {
        let arrived = self.serving.clock.now();
        self.meet(head)?;
        let budget = self.speaker.key.number();
        let limits = &self.serving.client_limits;
        let site = &self.serving.sites[index];
        let mirror = site.mirror.as_ref();
        if mirror.is_some_and(|it| it.is_bypassed(budget) || it.may_be_outdated(&object.stored)) {
            // The slow path decides what it may get.
            return None;
        }
        let (class, traits) = self.class_of(site, arrived, head, plain)?;
        if limits.too_early(arrived.mono, self.speaker.ip, budget).is_some() {
            // The slow path rejects it, and does not count it either.
            return None;
        }
        let number = Supervisor::next_id();
        let visitor = Visitor::new(&self.speaker.address, plain.agent);
        let request = admission::Request { class, want: Want::Other, cached: Cached::Fresh };
        let admission_request = AdmissionRequest {
            id: number,
            visitor,
            client: budget,
            network: budget,
            request,
            recognised: true,
            may_wake: true,
        };
        let route = site.supervisor.admit(&admission_request, || WakeCause::Operator);
        debug_assert_eq!(route, Route::Cache, "what is fresh is given to everybody");
        object.popularity.asked(class);
        let status = object.stored.status();
        let id = self.id(head, arrived, number);
        let (now, answered) = (arrived, Answered::Cache);
        self.given = Some(Given {
            site: index,
            class,
            arrived,
            id,
            visitor,
            traits,
            credential: None,
            status,
            now,
            answered,
            needs_server: false,
            _exchange: None,
        });
        let head = self.head_of(site, object, self.is_secure(head));
        Some(Prepared { head, body: object.body.clone() })
    }

    /// The answer's head, as the slow path makes it.
    fn head_of(&self, site: &Site, object: &Object, secure: bool) -> bytes::Bytes {
        let now = self.serving.timestamp();
        object.prepared(now, || {
            let anybody = RequestHead {
                method: &Method::GET,
                authority: "",
                path_and_query: "/",
                headers: &HeaderMap::new(),
            };
            let status = CacheStatus::hit().ttl(object.stored.ttl(now));
            let mut response = from_store(&anybody, object, now, &status);
            // The target does not count: sites with rules of access are not served here.
            let (code, headers) = (response.status(), response.headers());
            if site.compressor.as_ref().is_some_and(|it| it.varies("/", code, headers)) {
                add_vary(response.headers_mut());
            }
            if let Some(hsts) = site.hsts.clone().filter(|_| secure) {
                response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, hsts);
            }
            if self.serving.config.answer_header {
                let answered = HeaderValue::from_static(Answered::Cache.as_str());
                response.headers_mut().insert(ANSWER, answered);
            }
            head_bytes(response.status(), response.headers(), object.body.len() as u64)
        })
    }

    /// Lets the mirror of the site count a request of a person.
    fn note_mirror(&self, head: &Head<'_, '_>, plain: &Plain<'_>) {
        let Some(given) = self.given.as_ref().filter(|it| it.class == ClientClass::Human) else {
            return;
        };
        if let Some(mirror) = &self.serving.sites[given.site].mirror {
            mirror.answered_fast(self.is_secure(head), plain.authority, head.target);
        }
    }

    /// Counts the answer that was sent, and returns it.
    fn count(&mut self, head: &Head<'_, '_>) -> Option<Given> {
        let given = self.given.take()?;
        let site = &self.serving.sites[given.site];
        let Given { class, answered, status, now, .. } = given;
        let asker = Asker { arrived: given.arrived.mono, visitor: given.visitor };
        site.count(asker, class, answered, status, now);
        let reply = status.as_u16().into();
        // Other fields matter only for learning from misses.
        if given.credential.is_none() && !status.is_client_error() {
            site.learn_of(&given.traits, answered, reply, now);
        } else {
            let plain = Plain::again(head)?;
            let credential = given.credential;
            let fetch = client_facts::fetch(|name| value_of(head, name));
            let client = ClientFacts { credential, fetch, ..self.facts(head, &plain) };
            site.learn(&client, answered, reply, now);
        }
        Some(given)
    }

    /// Closes the accounting of an answer of which this many bytes were sent.
    fn log(&mut self, head: &Head<'_, '_>, bytes: u64) {
        let Some(given) = self.count(head) else { return };
        let Some(log) = &self.serving.access_log else { return };
        let entry = clf::Entry { bytes, ..self.entry(head, &given) };
        log.add(&entry, &given.id, &given.part(&self.serving.sites[given.site].name));
    }

    fn entry<'a>(&'a self, head: &Head<'_, 'a>, given: &Given) -> clf::Entry<'a> {
        clf::Entry {
            at: given.arrived.wall,
            utc_offset: given.arrived.utc_offset,
            client: &self.speaker.address,
            method: head.method,
            target: head.target,
            status: given.status.as_u16(),
            bytes: 0,
            referer: head.values("referer").next(),
            agent: head.values("user-agent").next(),
        }
    }
}

type Answering = std::pin::Pin<Box<dyn Future<Output = Response<Answer>> + Send>>;

impl Client {
    fn marking_the_last(
        &self,
        answering: impl Future<Output = Response<Answer>> + Send + 'static,
    ) -> Answering {
        let leaving = Arc::clone(&self.leaving);
        Box::pin(async move {
            let mut response = answering.await;
            let is_last = leaving.load(Relaxed);
            if is_last && response.status() != StatusCode::SWITCHING_PROTOCOLS {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            response
        })
    }
}

/// The first value of a field.
fn value_of<'b>(head: &Head<'_, 'b>, name: &HeaderName) -> Option<&'b [u8]> {
    let mut fields = head.fields.iter();
    fields.find(|it| it.name.eq_ignore_ascii_case(name.as_str())).map(|it| it.value)
}

/// Whether the peer is a trusted proxy.
fn speaks_for_others(serving: &Serving, peer: IpAddr) -> bool {
    serving.config.trusted_proxies.iter().any(|it| it.contains(peer))
}

impl Given {
    /// nightwatt's own fields for the access log.
    fn part<'a>(&self, site: &'a str) -> Part<'a> {
        Part {
            site,
            class: self.class,
            answered: self.answered,
            delay: self.now.mono.since(self.arrived.mono),
            needs_server: self.needs_server,
            from_cache: self.answered == Answered::Cache,
            would: None,
            rule: None,
            outcome: None,
        }
    }
}

impl Service for Client {
    type Body = Answer;
    type Answering = Answering;

    type Pending = Box<Pass>;

    fn quick(&mut self, head: &Head<'_, '_>) -> Quick<Box<Pass>> {
        self.keep_up();
        if self.leaving.load(Relaxed) || !self.serving.has_fast_path.load(Relaxed) {
            return Quick::No;
        }
        let Some(plain) = Plain::read(head, self.is_proxy, &mut self.last_names) else {
            return Quick::No;
        };
        match self.find(head, &plain) {
            Some(Aim { site, sender, object: Some(object), .. }) => {
                let Some(prepared) = self.stored(head, &plain, site, &object) else {
                    return Quick::No;
                };
                if sender.is_anonymous() {
                    self.note_mirror(head, &plain);
                }
                Quick::Ready(prepared)
            }
            Some(Aim { site, sender, object: None, own_path: None }) => {
                self.ask(head, &plain, site, sender).map_or(Quick::No, Quick::Pending)
            }
            _ => Quick::No,
        }
    }

    fn sent(&mut self, head: &Head<'_, '_>, prepared: &Prepared) {
        self.log(head, prepared.body.len() as u64);
    }

    fn sending(&mut self, head: &Head<'_, '_>, _: &Prepared) -> OnSent {
        let Some(given) = self.count(head) else { return Box::new(|_| {}) };
        let log = self.serving.access_log.clone();
        let arrival = self.entry(head, &given).to_arrival();
        let name = Arc::clone(&self.serving.sites[given.site].name);
        Box::new(move |bytes| {
            let entry = clf::Entry { bytes, ..clf::Entry::from(&arrival) };
            if let Some(log) = log {
                log.add(&entry, &given.id, &given.part(&name));
            }
        })
    }

    fn poll_pending(&mut self, pass: Box<Pass>, cx: &mut Context<'_>) -> Progress<Box<Pass>> {
        self.poll_pass(pass, cx)
    }

    fn deadline(&self, pass: &Box<Pass>) -> Mono {
        pass.deadline()
    }

    fn arrived_at(&self, pass: &Box<Pass>) -> Mono {
        pass.since()
    }

    fn client_left(&mut self, head: &Head<'_, '_>, pass: Box<Pass>) {
        self.gave_up(head, &pass);
    }

    fn resume(&mut self, request: Request<Incoming>, pass: Box<Pass>) -> Self::Answering {
        let (serving, admitted) = pass.into_admitted();
        self.marking_the_last(slow_path::resume(serving, self.peer.clone(), request, admitted))
    }

    fn answer(&mut self, request: Request<Incoming>) -> Self::Answering {
        self.keep_up();
        let serving = Arc::clone(&self.serving);
        self.marking_the_last(slow_path::handle(serving, self.peer.clone(), request))
    }

    fn refused(&mut self, refusal: Refusal, _: &[u8]) -> Response<Answer> {
        refused(&self.serving, &self.speaker.address, refusal)
    }
}
