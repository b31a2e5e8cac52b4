//! What a request shares with others: which clients may get its answer, whose answer it waits for, and what the proxy
//! requests by itself because of it.

use std::sync::{Arc, Mutex};

use http::Method;
use http::header::RANGE;
use nightwatt_httpcache::sharing::may_be_prefetched;
use nightwatt_httpcache::{CacheKey, Filler};
use nightwatt_policy::lifecycle::Phase;
use tokio::sync::watch;

use super::{CacheLookup, SiteRequest};
use crate::exchange::Exchange;
use crate::forward::Forwarding;
use crate::hit::Found;
use crate::refresh_queue::Wanted;
use crate::shared_fetches::SharedFetch;
use crate::store::Requester;

impl SiteRequest<'_> {
    /// Whether the answer suits every anonymous client.
    pub(super) fn is_anybodys(&self) -> bool {
        let is_whole = !self.parts.headers.contains_key(RANGE);
        self.parts.method == Method::GET && self.sender.is_anonymous() && is_whole
    }

    /// Another client's request for the same, if that may be waited for.
    pub(super) fn other_fetch(&self, key: Option<&CacheKey>) -> Option<watch::Receiver<()>> {
        let key = key.filter(|_| self.is_anybodys())?;
        let mirror = self.site().mirror.as_ref();
        if mirror.is_some_and(|it| it.is_bypassed(self.facts.budget)) {
            // That request may be older than what the client has changed.
            return None;
        }
        self.site().shared_fetches.other(key)
    }

    /// The fetch that other requests for the same wait for, if they may.
    pub(super) fn shared_fetch(
        &self,
        key: Option<&CacheKey>,
        exchange: &Exchange,
    ) -> Option<SharedFetch> {
        let shared = key.filter(|_| self.is_anybodys());
        let join = |key| self.site().shared_fetches.join(key).first();
        exchange.take_shared_fetch().or_else(|| shared.and_then(join))
    }

    /// Renews the resource in the background: now if the server is awake, else when it is.
    pub(super) fn renew(
        &self,
        key: Option<&CacheKey>,
        found: &Found,
        phase: &watch::Receiver<Phase>,
    ) {
        let Some(key) = key else { return };
        self.site().refresher.want(key, Wanted::Again(Arc::clone(&found.object)), None);
        if *phase.borrow() == Phase::Awake {
            self.site().refresher.start();
        }
    }

    /// Queues what a crawler did not get, to be fetched when the server is awake.
    pub(super) fn wish(&self, key: Option<&CacheKey>) {
        let site = self.site();
        if let Some(key) = key.filter(|_| self.is_anybodys() && !self.directives.no_store)
            && may_be_prefetched(&self.facts.target)
            && site.scenario.cache.warm_up_crawlers
            && site.warms_up()
        {
            site.prefetch_queue.add(key, &self.parts.headers, self.facts.budget);
        }
    }

    /// The parameters for passing the request on.
    pub(super) fn forwarding(
        &self,
        CacheLookup { key, found }: CacheLookup,
        shared_fetch: Option<SharedFetch>,
    ) -> Forwarding<'_> {
        Forwarding {
            serving: self.serving,
            site: self.index,
            facts: self.facts,
            parts: self.parts,
            key,
            found,
            shared_fetch: Mutex::new(shared_fetch),
            requester: Requester::Of(self.class),
            filler: Filler::Client,
            expected: None,
        }
    }
}
