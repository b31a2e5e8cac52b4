//! Stale answers that were given away are renewed behind the scenes: at once where
//! `stale-while-revalidate` allowed them, else as soon as the server is awake for somebody else.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::header::{AUTHORIZATION, CONTENT_LENGTH, COOKIE, RANGE, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use http_body_util::BodyExt;
use nightwatt_httpcache::{CacheKey, RequestDirectives};
use nightwatt_model::policy::lifecycle::Phase;
use tokio::sync::watch;

use crate::body::Kept;
use crate::exchange::Exchange;
use crate::facts::Facts;
use crate::flights::Boarding;
use crate::forward::Forwarding;
use crate::gateway::Gateway;
use crate::hit::{Found, head_of};
use crate::hold::Spool;
use crate::live::Live;
use crate::store::Sake;
use crate::supervisor::Supervisor;

/// Resources remembered for renewal while the server sleeps. More are left to their next visitor.
const MOST: usize = 256;

/// Ids of these requests begin so: nobody sent them.
pub const REFRESH_ID: &str = "nightwatt-refresh-";

/// What is to be renewed.
#[derive(Debug)]
pub(crate) struct Wish {
    key: CacheKey,
    facts: Facts,
    parts: Parts,
}

/// The wishes of one site.
#[derive(Debug, Default)]
pub(crate) struct Refresher(Mutex<Wishes>);

#[derive(Debug, Default)]
struct Wishes {
    waiting: Vec<Wish>,
    /// Waiting or under way.
    known: HashSet<CacheKey>,
}

impl Refresher {
    fn lock(&self) -> MutexGuard<'_, Wishes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers to renew what a request asked for, as nobody in particular: without cookies and
    /// credentials, so that the answer is everybody's.
    pub(crate) fn wish(&self, key: &CacheKey, facts: &Facts, parts: &Parts) {
        let mut wishes = self.lock();
        if wishes.waiting.len() >= MOST || !wishes.known.insert(key.clone()) {
            return;
        }
        let number = Supervisor::next_id();
        let facts = Facts {
            id: format!("{REFRESH_ID}{number:x}"),
            number,
            method: Method::GET,
            ..facts.clone()
        };
        let mut plain = parts.clone();
        plain.method = Method::GET;
        plain.headers = everybodys(&parts.headers);
        wishes.waiting.push(Wish { key: key.clone(), facts, parts: plain });
    }

    fn take(&self) -> Vec<Wish> {
        std::mem::take(&mut self.lock().waiting)
    }

    fn done(&self, key: &CacheKey) {
        self.lock().known.remove(key);
    }
}

/// The fields of a request that anybody might have sent.
fn everybodys(headers: &HeaderMap) -> HeaderMap {
    let personal = [AUTHORIZATION, COOKIE, RANGE, CONTENT_LENGTH, TRANSFER_ENCODING];
    let is_condition = |name: &HeaderName| name.as_str().starts_with("if-");
    headers
        .iter()
        .filter(|(name, _)| !personal.contains(name) && !is_condition(name))
        .map(|(name, value): (&HeaderName, &HeaderValue)| (name.clone(), value.clone()))
        .collect()
}

/// Renews what was wished for, each time the server comes up.
pub(crate) async fn run(mut live: Live, site: Arc<str>, mut phase: watch::Receiver<Phase>) {
    while phase.changed().await.is_ok() {
        if *phase.borrow_and_update() == Phase::Awake {
            let gateway = live.now();
            let Some((site, _)) = gateway.site_named(&site) else { return };
            renew(&gateway, site).await;
        }
    }
}

/// Renews what is wished for now, one after the other, as long as the server is awake.
pub(crate) async fn renew(gateway: &Arc<Gateway>, site: usize) {
    let _debt = gateway.clock.owe();
    let refresher = &gateway.sites[site].refresher;
    for wish in refresher.take() {
        if let Some(exchange) = Exchange::begin_background(&gateway.sites[site]) {
            fetch(gateway, site, &wish, exchange).await;
        }
        refresher.done(&wish.key);
    }
}

async fn fetch(gateway: &Arc<Gateway>, site: usize, wish: &Wish, exchange: Arc<Exchange>) {
    let Wish { key, facts, parts } = wish;
    let served = &gateway.sites[site];
    let asked = RequestDirectives::parse(&parts.headers);
    let flight = match served.flights.board(key) {
        // Somebody else is just fetching it.
        Boarding::Other => return,
        boarding => boarding.first(),
    };
    let found = served
        .store
        .find(key, &head_of(facts, parts), &asked, gateway.timestamp(), &served.rules)
        .map(|(object, usability)| Found { object, usability });
    let since = |found: &Found| found.object.stored.times().received > facts.arrived_at();
    if found.as_ref().is_some_and(since) {
        return;
    }
    let (key, flight, sake) = (Some(key.clone()), Mutex::new(flight), Sake::Nobody);
    let forwarding = Forwarding { gateway, site, facts, parts, key, found, flight, sake };
    // What fails is left to the next visitor.
    if let Ok(response) = forwarding.run(Spool::again(Kept::default()), exchange).await {
        let mut body = response.into_body();
        while let Some(Ok(_)) = body.frame().await {}
    }
}
