//! The task of a mirror: opens the copy, crawls the site while the server is awake, and wakes the server if necessary.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nightwatt_energy::time::Mono;
use nightwatt_httpcache::Timestamp;
use nightwatt_mirror::pure::plan::{PassKind, PassReport};
use nightwatt_mirror::store::StoreError;
use nightwatt_policy::lifecycle::Phase;
use tokio::sync::futures::Notified;
use tokio::sync::watch;

use super::Mirror;
use super::base::Base;
use super::open::{MirrorPlace, NotOpened, OpenMirror, remembered_base};
use super::pass::Pass;
use super::schedule::{self, Awake, Needs, Step};
use crate::config::MirrorUrl;
use crate::exchange::Exchange;
use crate::live::Live;
use crate::serving::Serving;
use crate::site::Site;

/// Requests that waited for the server go first.
const AFTER_WAKING: Duration = Duration::from_secs(1);

/// Time between two checks of what is due, and between two attempts to open a mirror that failed.
const LOOK_EVERY: Duration = Duration::from_mins(1);

/// The same after a pass against a server that answers as if every page were gone: it may still be starting.
const LOOK_AGAIN: Duration = Duration::from_secs(20);

/// The civil time is looked at again after this, while the server sleeps.
const LONGEST_SLEEP: Duration = Duration::from_mins(15);

/// Time between two checks whether the server's sleep waits.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// Time between two attempts to open a mirror that another process still uses, or whose URL is not known yet.
const RETRY_EVERY: Duration = Duration::from_secs(2);

/// Runs the mirror of the site with this name, if it has one.
pub(crate) async fn run(
    mut live: Live<Serving>,
    name: Arc<str>,
    mut phase: watch::Receiver<Phase>,
) {
    let mut closing: Option<Closing> = None;
    loop {
        let serving = live.now();
        let Some((site, served)) = serving.site_named(&name) else { return };
        let mirror = served.mirror.as_ref().filter(|_| !serving.observe);
        // A reload may have replaced the mirror.
        closing = closing.filter(|it| mirror.is_some_and(|mirror| Arc::ptr_eq(&it.0, mirror)));
        let Some(mirror) = mirror else {
            live.changed().await;
            continue;
        };
        closing.get_or_insert_with(|| Closing(Arc::clone(mirror)));
        let keeper = Keeper { serving: &serving, site, mirror };
        tokio::select! {
            biased;
            () = live.changed() => {}
            () = keeper.keep(&mut phase) => {}
        }
    }
}

/// Closes the copy when it is dropped.
struct Closing(Arc<Mirror>);

impl Drop for Closing {
    fn drop(&mut self) {
        let now = self.0.now();
        let Some(open) = self.0.set_open(None) else { return };
        if let Err(error) = open.flush(now).and_then(|()| open.save()) {
            tracing::warn!(site = %self.0.site, %error, "the mirror cannot be written");
        }
    }
}

/// How a pass ended.
enum Ended {
    /// It is over.
    Over,
    /// It is over, but content has changed since it began: pages that were fetched before that are due again. The
    /// server does not sleep before the exchange ends.
    Changed(Arc<Exchange>),
    /// It was stopped before its end.
    Stopped,
}

struct Keeper<'a> {
    serving: &'a Arc<Serving>,
    site: usize,
    mirror: &'a Arc<Mirror>,
}

impl Keeper<'_> {
    fn site(&self) -> &Site {
        &self.serving.sites[self.site]
    }

    fn now(&self) -> Timestamp {
        self.serving.timestamp()
    }

    /// Runs until it is dropped.
    async fn keep(&self, phase: &mut watch::Receiver<Phase>) {
        let open = self.open().await;
        let mut woken = None;
        loop {
            let now = *phase.borrow_and_update();
            match now {
                Phase::Awake => {
                    tokio::select! {
                        biased;
                        _ = phase.wait_for(|it| *it != Phase::Awake) => {}
                        () = self.awake(&open) => {}
                        () = self.count_own_use(&open) => {}
                    }
                    self.leave(&open).await;
                }
                Phase::Asleep => self.asleep(&open, phase, &mut woken).await,
                _ => {
                    let _ = phase.changed().await;
                }
            }
            if phase.has_changed().is_err() {
                // The supervisor has ended, and so will this task.
                return std::future::pending().await;
            }
        }
    }

    /// Opens the copy as soon as its URL is known and no other process uses it.
    async fn open(&self) -> Arc<OpenMirror> {
        let clock = &self.serving.clock;
        loop {
            if let Some(open) = self.mirror.opened() {
                return open;
            }
            let base = self.base();
            self.mirror.is_homeless.store(base.is_none(), Ordering::Relaxed);
            if base.is_none() {
                self.mirror.note_opened(None);
            }
            let wait = match base {
                None => RETRY_EVERY,
                Some(base) => match self.try_open(base).await {
                    Ok(open) => return open,
                    Err(NotOpened::Store(StoreError::InUse(_))) => RETRY_EVERY,
                    Err(error) => {
                        self.serving.warn_of(
                            self.site(),
                            "",
                            "the mirror cannot be opened",
                            &error,
                        );
                        LOOK_EVERY
                    }
                },
            };
            clock.sleep(wait).await;
        }
    }

    fn base(&self) -> Option<Base> {
        match &self.mirror.url {
            MirrorUrl::Known(url) => Base::of_url(url),
            MirrorUrl::OnHost(host) => {
                let remembered = remembered_base(&self.mirror.folder);
                let remembered = remembered.filter(|it| it.authority == *host);
                self.mirror.reported.get().cloned().or(remembered)
            }
            MirrorUrl::Unknown => None,
        }
    }

    async fn try_open(&self, base: Base) -> Result<Arc<OpenMirror>, NotOpened> {
        let (mirror, now) = (Arc::clone(self.mirror), self.now());
        let _debt = self.serving.clock.owe();
        let opened = tokio::task::spawn_blocking(move || {
            let Mirror { folder, rules, bounds, is_durable, .. } = &*mirror;
            let (base, bounds, is_durable) = (&base, *bounds, *is_durable);
            OpenMirror::open(&MirrorPlace { folder, base, rules, bounds, is_durable }, now)
        });
        // Fails only if the runtime is ending.
        let Ok(opened) = opened.await else { return std::future::pending().await };
        let open = Arc::new(opened?);
        self.mirror.set_open(Some(Arc::clone(&open)));
        self.mirror.take_up_unseen().await;
        self.mirror.note_opened(Some(&open));
        Ok(open)
    }

    /// Wakes the server when a pass is due; returns when the server is not asleep.
    async fn asleep(
        &self,
        open: &Arc<OpenMirror>,
        phase: &mut watch::Receiver<Phase>,
        woken: &mut Option<Timestamp>,
    ) {
        let needs = Needs {
            kept: open.store.current().len(),
            wake_time: self.site().supervisor.expected_wake_time(),
            last: *woken,
        };
        let at = schedule::wake_at(&open.plan(), needs);
        let wake = async {
            let Some(at) = at else { return std::future::pending().await };
            // In parts: a clock that starts in 1970 is set meanwhile.
            loop {
                let left = at.since(self.now());
                if left.is_zero() {
                    return;
                }
                self.serving.clock.sleep(left.min(LONGEST_SLEEP)).await;
            }
        };
        let urgent = async {
            loop {
                let mut news = std::pin::pin!(self.mirror.news.notified());
                news.as_mut().enable();
                if self.mirror.is_urgent.swap(false, Ordering::SeqCst)
                    && open.plan().due_before_sleep(self.now()) > 0
                {
                    self.mirror.is_urgent.store(true, Ordering::SeqCst);
                    return;
                }
                news.await;
            }
        };
        tokio::select! {
            biased;
            _ = phase.wait_for(|it| *it != Phase::Asleep) => return,
            () = urgent => {}
            () = wake => {}
        }
        *woken = Some(self.now());
        self.site().supervisor.wake_to_refresh();
        let _ = phase.wait_for(|it| *it != Phase::Asleep).await;
    }

    /// Counts the time for which the server is awake for the mirror alone; runs until it is dropped.
    async fn count_own_use(&self, open: &OpenMirror) {
        let clock = &self.serving.clock;
        if self.how_awake().is_alone {
            open.own_use().wakeups += 1;
        }
        loop {
            let before = clock.now().mono;
            let Awake { is_alone, is_draining, .. } = self.how_awake();
            let is_own = is_alone || is_draining && open.plan().is_running();
            clock.sleep(WATCH_EVERY).await;
            if is_own {
                open.own_use().awake += clock.now().mono.since(before);
            }
        }
    }

    /// Crawls while the server is awake; runs until it is dropped.
    async fn awake(&self, open: &Arc<OpenMirror>) {
        let clock = &self.serving.clock;
        open.plan().server_started();
        // A server that may sleep sooner waits for the first pass too.
        let mut held = self.site().begin_background();
        let mut waits_since = None;
        clock.sleep(AFTER_WAKING).await;
        loop {
            let mut news = std::pin::pin!(self.mirror.news.notified());
            news.as_mut().enable();
            let is_urgent = self.mirror.is_urgent.swap(false, Ordering::SeqCst);
            let awake = Awake { is_urgent, ..self.how_awake() };
            let step = schedule::step(&open.plan(), awake, self.now());
            let exchange = match step {
                Step::Rest => None,
                Step::Pass(_) | Step::AwaitSleep => {
                    held.take().or_else(|| self.site().begin_background())
                }
            };
            held = None;
            if !awake.is_draining {
                waits_since = None;
            }
            match (step, exchange) {
                (Step::Pass(kind), Some(exchange)) => {
                    match self.pass(open, kind, exchange, &mut waits_since).await {
                        Ended::Changed(exchange) => held = Some(exchange),
                        Ended::Over | Ended::Stopped => self.rest(open, news).await,
                    }
                }
                (Step::AwaitSleep, Some(exchange)) => {
                    self.sample(open, &exchange, &mut waits_since).await;
                    tokio::select! {
                        () = self.sleep_waits() => {}
                        () = self.rest(open, news) => {}
                    }
                    held = self.before_sleep(open, exchange, &mut waits_since).await;
                }
                // It is about to sleep, or there is nothing to do.
                (step, _) => {
                    if is_urgent && step != Step::Rest {
                        self.mirror.is_urgent.store(true, Ordering::SeqCst);
                    }
                    let samples = open.plan().rules().complete;
                    let exchange = samples.then(|| self.site().begin_background());
                    if let Some(exchange) = exchange.flatten() {
                        self.sample(open, &exchange, &mut waits_since).await;
                    }
                    self.rest(open, news).await;
                }
            }
        }
    }

    /// Waits until there is something new to do, or until the next check is due.
    async fn rest(&self, open: &OpenMirror, news: Pin<&mut Notified<'_>>) {
        let longest = if open.plan().is_doubted() { LOOK_AGAIN } else { LOOK_EVERY };
        tokio::select! {
            () = news => {}
            () = self.serving.clock.sleep(longest) => {}
        }
    }

    fn how_awake(&self) -> Awake {
        let supervisor = &self.site().supervisor;
        Awake {
            is_alone: supervisor.is_up_to_refresh(),
            is_draining: supervisor.is_draining(),
            is_urgent: self.mirror.is_urgent.load(Ordering::SeqCst),
        }
    }

    /// Confirms what is due, if the server's sleep waits for that now. Returns the exchange if there is more to confirm.
    async fn before_sleep(
        &self,
        open: &Arc<OpenMirror>,
        exchange: Arc<Exchange>,
        waits_since: &mut Option<Mono>,
    ) -> Option<Arc<Exchange>> {
        let step = schedule::step(&open.plan(), self.how_awake(), self.now());
        let Step::Pass(kind) = step else { return None };
        match self.pass(open, kind, exchange, waits_since).await {
            Ended::Over => {}
            Ended::Changed(exchange) => return Some(exchange),
            // The server sleeps first; the pass continues after that.
            Ended::Stopped => self.serving.clock.sleep(LOOK_EVERY).await,
        }
        None
    }

    /// Makes a pass, or continues one. All passes for which the server's sleep waits without a break share one time
    /// limit, which begins at `waits_since`.
    async fn pass(
        &self,
        open: &Arc<OpenMirror>,
        kind: PassKind,
        exchange: Arc<Exchange>,
        waits_since: &mut Option<Mono>,
    ) -> Ended {
        open.begin_pass(kind, self.now());
        let pass = Pass::new(self.serving, self.site, open, Arc::clone(&exchange));
        let in_time = async {
            let longest = || schedule::longest(&open.plan(), self.how_awake().is_alone);
            self.sleep_has_waited(longest, waits_since).await;
            pass.give_up();
            std::future::pending::<()>().await;
        };
        let report = tokio::select! {
            biased;
            report = pass.run() => report,
            () = in_time => None,
        };
        self.settle().await;
        let Some(report) = report else { return Ended::Stopped };
        self.log(&report);
        if open.changed_since_pass_began() { Ended::Changed(exchange) } else { Ended::Over }
    }

    /// Returns when the server's sleep has waited for the mirror as long as it may, since `waits_since`.
    async fn sleep_has_waited(
        &self,
        longest: impl Fn() -> Duration,
        waits_since: &mut Option<Mono>,
    ) {
        let clock = &self.serving.clock;
        self.sleep_waits().await;
        let since = *waits_since.get_or_insert_with(|| clock.now().mono);
        clock.sleep(longest().saturating_sub(clock.now().mono.since(since))).await;
    }

    /// Returns when the server's sleep waits for the mirror.
    async fn sleep_waits(&self) {
        let supervisor = &self.site().supervisor;
        let mut free = supervisor.free();
        while !supervisor.is_draining() {
            tokio::select! {
                _ = free.changed() => {}
                () = self.serving.clock.sleep(WATCH_EVERY) => {}
            }
        }
    }

    /// Checks one path that clients were told does not exist.
    async fn sample(
        &self,
        open: &Arc<OpenMirror>,
        exchange: &Arc<Exchange>,
        waits_since: &mut Option<Mono>,
    ) {
        let pass = Pass::new(self.serving, self.site, open, Arc::clone(exchange));
        let longest = || schedule::longest(&open.plan(), false);
        tokio::select! {
            biased;
            () = pass.sample() => {}
            () = self.sleep_has_waited(longest, waits_since) => {}
        }
    }

    /// The server is not awake any more: writes what a pass has fetched so far.
    async fn leave(&self, open: &Arc<OpenMirror>) {
        if open.plan().is_running() || open.is_marked() {
            self.settle().await;
        }
    }

    /// Writes pending changes and the plan.
    async fn settle(&self) {
        let now = self.now();
        let settled = self.mirror.on_disk(move |open| open.flush(now).and_then(|()| open.save()));
        if let Some(Err(error)) = settled.await {
            self.serving.warn_of(self.site(), "", "the mirror cannot be written", &error);
        }
    }

    fn log(&self, report: &PassReport) {
        let site = &self.site().name;
        if report.is_doubted {
            tracing::warn!(
                %site,
                "the server answers that the start page or many pages are gone or closed: the mirror does not \
                 believe it, and keeps what it has, until a pass some minutes later gets the same answers"
            );
        }
        let PassReport { requests, kept, confirmed, deleted, failed, was_cut, .. } = report;
        tracing::info!(
            %site, requests, kept, confirmed, deleted, failed, was_cut, "a pass over the site has ended"
        );
    }
}
