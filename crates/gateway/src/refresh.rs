//! Work that requests have shown to be worthwhile: renews stale answers that clients got, and fetches answers that only
//! the proxy's own requests may bring into the cache. At once if the server is awake, else as soon as it is awake for
//! another reason.

use std::sync::{Arc, Mutex};

use nightwatt_httpcache::{CacheKey, Filler, RequestDirectives, Sender, Usability};
use nightwatt_policy::lifecycle::Phase;
use tokio::sync::watch;

use crate::exchange::Exchange;
use crate::forward::Forwarding;
use crate::hit::{Found, head_of};
use crate::hold::Spool;
use crate::live::Live;
use crate::own_request::{LONGEST, OwnRequest, fields_for, fields_of, read_what_is_stored};
use crate::refresh_queue::{Job, Refresher, Wanted};
use crate::request_body::Kept;
use crate::serving::Serving;
use crate::shared_fetches::{FetchRole, SharedFetch};
use crate::store::Requester;

/// Does the work of a site: each time its server comes up, and whenever a request starts it.
pub(crate) async fn run(mut live: Live<Serving>, site: Arc<str>, phase: watch::Receiver<Phase>) {
    let refresher = match live.now().site_named(&site) {
        Some((_, served)) => Arc::clone(&served.refresher),
        None => return,
    };
    tokio::select! {
        () = each_time_awake(live.clone(), &site, phase) => {}
        () = when_asked(live, &site, &refresher) => {}
    }
}

async fn each_time_awake(mut live: Live<Serving>, site: &str, mut phase: watch::Receiver<Phase>) {
    while phase.changed().await.is_ok() {
        if *phase.borrow_and_update() == Phase::Awake {
            let serving = live.now();
            let Some((site, served)) = serving.site_named(site) else { return };
            served.refresher.forget_failures();
            work(&serving, site).await;
        }
    }
}

/// Does it concurrently with other work.
async fn when_asked(mut live: Live<Serving>, site: &str, refresher: &Refresher) {
    loop {
        refresher.asked().await;
        let serving = live.now();
        let Some((site, _)) = serving.site_named(site) else { return };
        tokio::spawn(async move { work(&serving, site).await });
    }
}

/// Does all waiting work, one job after the other, as long as the server is awake.
async fn work(serving: &Arc<Serving>, site: usize) {
    let _debt = serving.clock.owe();
    let refresher = &serving.sites[site].refresher;
    for Job { key, wanted, shared_fetch } in refresher.take() {
        let mut in_vain = None;
        if let Some(exchange) = serving.sites[site].begin_background() {
            let kind = wanted.kind().cloned();
            fetch(serving, site, &key, wanted, shared_fetch, exchange).await;
            let is_known = serving.sites[site].store.knows(&key, serving.timestamp());
            in_vain = kind.filter(|_| !is_known);
        }
        refresher.done(&key, in_vain);
    }
}

async fn fetch(
    serving: &Arc<Serving>,
    site: usize,
    key: &CacheKey,
    wanted: Wanted,
    shared_fetch: Option<SharedFetch>,
    exchange: Arc<Exchange>,
) {
    let served = &serving.sites[site];
    if !served.may_request(key) {
        return;
    }
    let fields = match &wanted {
        Wanted::Again(object) => fields_of(object),
        Wanted::Like(encoding, ..) => Some(fields_for(encoding)),
    };
    let request =
        fields.and_then(|it| OwnRequest::new(key, it, &served.rules, serving.clock.now()));
    let Some(OwnRequest { facts, parts }) = request else { return };
    let shared_fetch = match shared_fetch {
        Some(shared_fetch) => Some(shared_fetch),
        None => match served.shared_fetches.join(key) {
            // It is being fetched already.
            FetchRole::Other => return,
            role => role.first(),
        },
    };
    let (head, directives) = (head_of(&facts, &parts), RequestDirectives::default());
    let now = serving.timestamp();
    let found = served
        .store
        .find(key, Sender::ANONYMOUS, &head, &directives, now, &served.rules)
        .map(|(object, usability)| Found { object, usability });
    let (is_needed, expected, requester) = match wanted {
        // Otherwise it has been renewed or forgotten since.
        Wanted::Again(object) => {
            let is_there = found.as_ref().is_some_and(|it| Arc::ptr_eq(&it.object, &object));
            (is_there, None, Requester::Renewal)
        }
        Wanted::Like(_, kind, requester) => {
            let is_fresh = |it: &Found| matches!(it.usability, Usability::Fresh { .. });
            (!found.as_ref().is_some_and(is_fresh), Some(kind), requester)
        }
    };
    if !is_needed {
        return;
    }
    let forwarding = Forwarding {
        serving,
        site,
        facts: &facts,
        parts: &parts,
        key: Some(key.clone()),
        found,
        shared_fetch: Mutex::new(shared_fetch),
        requester,
        filler: Filler::Proxy,
        expected,
    };
    let asking = async {
        // A failure is left to the next visitor.
        if let Ok(response) = forwarding.run(Spool::again(Kept::default()), exchange, false).await {
            read_what_is_stored(response, served.store.largest()).await;
        }
    };
    let _ = Box::pin(serving.clock.timeout(LONGEST, asking)).await;
}
