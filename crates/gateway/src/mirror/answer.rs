//! Answers from the mirror, while the server sleeps.

use std::sync::{Arc, LazyLock};

use http::header::{ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, DATE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Response};
use nightwatt_httpcache::{RequestHead, Sender, Timestamp};
use nightwatt_mirror::pure::address::Address;
use nightwatt_mirror::pure::entry::Entry;
use nightwatt_mirror::pure::plan::Page;
use nightwatt_mirror::pure::represent::{
    NotGiven, Question, Represented, Server, StoredBody, absent,
};

use super::Mirror;
use super::open::OpenMirror;
use crate::body::Answer;

/// What the browser of a new visitor sends.
static BROWSER: LazyLock<HeaderMap> = LazyLock::new(|| {
    let fields = [
        (USER_AGENT, "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"),
        (ACCEPT, "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"),
        (ACCEPT_LANGUAGE, "en-US,en;q=0.5"),
        (ACCEPT_ENCODING, "gzip, deflate, br, zstd"),
    ];
    fields.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))).collect()
});

/// A request for which no cache has a fresh answer.
#[derive(Clone, Copy)]
pub(crate) struct MirrorRequest<'a> {
    /// Its head, with the fields that the server would get. The authority is the base of its cache key.
    pub(crate) request: RequestHead<'a>,
    /// Path and query of its cache key.
    pub(crate) key_target: &'a str,
    /// What it reveals about its sender.
    pub(crate) sender: Sender,
    /// Tells clients apart.
    pub(crate) client: u64,
    /// When a cache received the answer that it has: an older one is of no use.
    pub(crate) newer_than: Option<Timestamp>,
    /// Whether the mirror may answer that there is no such page.
    pub(crate) may_be_absent: bool,
}

/// A copy of a request's head, for a thread.
struct OwnedHead {
    method: Method,
    authority: String,
    target: String,
    headers: HeaderMap,
}

impl OwnedHead {
    fn of(request: &RequestHead<'_>) -> Self {
        Self {
            method: request.method.clone(),
            authority: request.authority.to_owned(),
            target: request.path_and_query.to_owned(),
            headers: request.headers.clone(),
        }
    }

    fn head(&self) -> RequestHead<'_> {
        RequestHead {
            method: &self.method,
            authority: &self.authority,
            path_and_query: &self.target,
            headers: &self.headers,
        }
    }
}

impl Mirror {
    /// The answer while the server is not awake, if the mirror has one for the sender of the request.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        asking: &MirrorRequest<'_>,
    ) -> Option<Response<Answer>> {
        let open = self.opened().filter(|it| it.base.is_of(asking.request.authority))?;
        let now = self.now();
        let current = open.store.current();
        let target = asking.request.path_and_query;
        let entry = current.find_str(target).or_else(|| current.find_str(asking.key_target));
        let Some(entry) = entry else {
            let may_be_absent = asking.may_be_absent && !self.is_bypassed(asking.client);
            let is_absent = may_be_absent && is_absent(&open, asking);
            return is_absent.then(|| response(absent(), now));
        };
        let is_older = asking.newer_than.is_some_and(|it| entry.confirmed() <= it);
        if is_older || self.is_bypassed(asking.client) || is_doubtful(&open, entry) {
            return None;
        }
        self.question(asking.request, now).may_have(entry).ok()?;
        let (entry, asked) = (Arc::clone(entry), OwnedHead::of(&asking.request));
        drop((current, open));
        // Not for ever: clients that do not read their answers must not keep others from theirs.
        let length = entry.body.map_or(0, |body| body.length);
        let place = self.room.take(length, &self.clock).await?;
        // The semaphore is never closed.
        let turn = Arc::clone(&self.reads).acquire_owned().await.ok()?;
        let mirror = Arc::clone(self);
        let represented = self.on_disk(move |open| {
            let _turn = turn;
            mirror.represent(open, &entry, &asked.head(), now)
        });
        let mut represented = represented.await??;
        represented.body = place.hold(represented.body);
        Some(response(represented, now))
    }

    /// Whether a browser gets a mirrored answer while the server sleeps.
    pub(super) fn for_browsers(&self, entry: &Entry, now: Timestamp) -> Result<(), NotGiven> {
        let request = RequestHead {
            method: &Method::GET,
            authority: &self.site,
            path_and_query: entry.address.as_str(),
            headers: &BROWSER,
        };
        self.question(request, now).may_have(entry).map(drop)
    }

    fn question<'a>(&'a self, request: RequestHead<'a>, now: Timestamp) -> Question<'a> {
        let (rules, refresh) = (&self.rules.admit.cache, &self.rules.refresh);
        Question { request, server: Server::Asleep, now, rules, refresh }
    }

    /// The answer, with its body read and compressed as the client accepts it; blocks.
    fn represent(
        &self,
        open: &OpenMirror,
        entry: &Entry,
        request: &RequestHead<'_>,
        now: Timestamp,
    ) -> Option<Represented> {
        let body = match &entry.body {
            None => StoredBody::EMPTY,
            Some(body) => match open.store.body(body) {
                Ok(body) => body,
                Err(error) => {
                    tracing::warn!(site = %self.site, page = %entry.address, %error, "the mirror failed");
                    if let Err(error) = open.forget_body(&body.hash) {
                        tracing::warn!(site = %self.site, %error, "the mirror failed");
                    }
                    return None;
                }
            },
        };
        let question = self.question(*request, now);
        let stored = question.may_have(entry).ok()?;
        question.answer(entry, &stored, &body).ok()
    }
}

/// Whether a page may have changed: then clients get the server's own answer.
fn is_doubtful(open: &OpenMirror, entry: &Entry) -> bool {
    open.plan().page(&entry.address).is_some_and(Page::is_doubtful)
}

fn is_absent(open: &OpenMirror, asking: &MirrorRequest<'_>) -> bool {
    let Some(address) = Address::new(asking.request.path_and_query) else { return false };
    let mut plan = open.plan();
    asking.sender.is_anonymous() && plan.is_absent(&address)
}

fn response(represented: Represented, now: Timestamp) -> Response<Answer> {
    let Represented { status, mut headers, body } = represented;
    if !headers.contains_key(DATE) {
        headers.insert(DATE, nightwatt_httpcache::date::format(now));
    }
    let mut response = Response::new(Answer::whole(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
