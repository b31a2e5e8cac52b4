//! What clients have shown to be worth asking for: stale answers that were given are renewed, and answers
//! that only the proxy's own requests may bring into the cache are fetched. At once if the server is awake,
//! else as soon as it is awake for someone else.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nightwatt_httpcache::{CacheKey, Filler, RequestDirectives, Sender, Usability};
use nightwatt_model::policy::lifecycle::Phase;
use tokio::sync::watch;

use crate::body::Kept;
use crate::exchange::Exchange;
use crate::flights::{Boarding, Flight};
use crate::forward::Forwarding;
use crate::gateway::Gateway;
use crate::hit::{Found, head_of};
use crate::hold::Spool;
use crate::live::Live;
use crate::own_request::{
    AnswerKind, LONGEST, OwnRequest, fields_for, fields_of, read_what_is_stored,
};
use crate::store::{Object, Sake};

/// Resources remembered while the server sleeps. More are left to their next visitor.
const MOST: usize = 256;

/// Resources remembered that were asked for in vain. Once there are more, all are tried again.
const IN_VAIN: usize = 4096;

/// What the proxy asks for by itself.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// What is stored, once more.
    Again(Arc<Object>),
    /// What a client was answered, in this coding.
    Like(&'static str, AnswerKind, Sake),
}

impl Wanted {
    /// The kind of answer that is expected.
    const fn kind(&self) -> Option<&AnswerKind> {
        match self {
            Self::Again(_) => None,
            Self::Like(_, kind, _) => Some(kind),
        }
    }
}

/// One of these.
#[derive(Debug)]
struct Job {
    key: CacheKey,
    wanted: Wanted,
    /// Others wait for it.
    flight: Option<Flight>,
}

/// The jobs of one site.
#[derive(Debug, Default)]
pub(crate) struct Refresher(Mutex<Jobs>);

#[derive(Debug, Default)]
struct Jobs {
    waiting: Vec<Job>,
    /// Waiting or under way.
    known: HashSet<CacheKey>,
    /// What came to nothing since the server woke: it is not asked for again, unless a client gets an
    /// answer of another kind.
    in_vain: HashSet<(CacheKey, AnswerKind)>,
}

impl Refresher {
    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what to ask for.
    pub(crate) fn want(&self, key: &CacheKey, wanted: Wanted, flight: Option<Flight>) {
        let mut jobs = self.lock();
        let is_in_vain =
            wanted.kind().is_some_and(|kind| jobs.in_vain.contains(&(key.clone(), kind.clone())));
        if !is_in_vain && jobs.waiting.len() < MOST && jobs.known.insert(key.clone()) {
            jobs.waiting.push(Job { key: key.clone(), wanted, flight });
        }
    }

    fn take(&self) -> Vec<Job> {
        std::mem::take(&mut self.lock().waiting)
    }

    /// `in_vain` is the kind of answer that did not come.
    fn done(&self, key: &CacheKey, in_vain: Option<AnswerKind>) {
        let mut jobs = self.lock();
        jobs.known.remove(key);
        if jobs.in_vain.len() >= IN_VAIN {
            jobs.in_vain.clear();
        }
        jobs.in_vain.extend(in_vain.map(|kind| (key.clone(), kind)));
    }
}

/// Does what there is to do, each time the server comes up.
pub(crate) async fn run(mut live: Live, site: Arc<str>, mut phase: watch::Receiver<Phase>) {
    while phase.changed().await.is_ok() {
        if *phase.borrow_and_update() == Phase::Awake {
            let gateway = live.now();
            let Some((site, served)) = gateway.site_named(&site) else { return };
            served.refresher.lock().in_vain.clear();
            work(&gateway, site).await;
        }
    }
}

/// Has [`work`] done beside what goes on.
pub(crate) fn start(gateway: &Arc<Gateway>, site: usize) {
    let gateway = Arc::clone(gateway);
    tokio::spawn(async move { work(&gateway, site).await });
}

/// Does what there is to do now, one job after the other, as long as the server is awake.
async fn work(gateway: &Arc<Gateway>, site: usize) {
    let _debt = gateway.clock.owe();
    let refresher = &gateway.sites[site].refresher;
    for Job { key, wanted, flight } in refresher.take() {
        let mut in_vain = None;
        if let Some(exchange) = Exchange::begin_background(&gateway.sites[site]) {
            let kind = wanted.kind().cloned();
            fetch(gateway, site, &key, (wanted, flight), exchange).await;
            let is_known = gateway.sites[site].store.knows(&key, gateway.timestamp());
            in_vain = kind.filter(|_| !is_known);
        }
        refresher.done(&key, in_vain);
    }
}

async fn fetch(
    gateway: &Arc<Gateway>,
    site: usize,
    key: &CacheKey,
    (wanted, flight): (Wanted, Option<Flight>),
    exchange: Arc<Exchange>,
) {
    let served = &gateway.sites[site];
    let fields = match &wanted {
        Wanted::Again(object) => fields_of(object),
        Wanted::Like(encoding, ..) => Some(fields_for(encoding)),
    };
    let request = fields.and_then(|it| OwnRequest::new(key, it, gateway, &served.rules));
    let Some(OwnRequest { facts, parts }) = request else { return };
    let flight = match flight {
        Some(flight) => Some(flight),
        None => match served.flights.board(key) {
            // It is just being fetched.
            Boarding::Other => return,
            boarding => boarding.first(),
        },
    };
    let (asking, directives) =
        ((Sender::ANONYMOUS, &head_of(&facts, &parts)), RequestDirectives::default());
    let found = served
        .store
        .find(key, asking, &directives, gateway.timestamp(), &served.rules)
        .map(|(object, usability)| Found { object, usability });
    let (is_needed, expected, sake) = match wanted {
        // Else it has been renewed or forgotten since.
        Wanted::Again(object) => {
            let is_there = found.as_ref().is_some_and(|it| Arc::ptr_eq(&it.object, &object));
            (is_there, None, Sake::Nobody)
        }
        Wanted::Like(_, kind, sake) => {
            let is_fresh = |it: &Found| matches!(it.usability, Usability::Fresh { .. });
            (!found.as_ref().is_some_and(is_fresh), Some(kind), sake)
        }
    };
    if !is_needed {
        return;
    }
    let forwarding = Forwarding {
        gateway,
        site,
        facts: &facts,
        parts: &parts,
        key: Some(key.clone()),
        found,
        flight: Mutex::new(flight),
        sake,
        filler: Filler::Proxy,
        expected,
    };
    let asking = async {
        // What fails is left to the next visitor.
        if let Ok(response) = forwarding.run(Spool::again(Kept::default()), exchange, false).await {
            read_what_is_stored(response, served.store.largest()).await;
        }
    };
    let _ = Box::pin(gateway.clock.timeout(LONGEST, asking)).await;
}
