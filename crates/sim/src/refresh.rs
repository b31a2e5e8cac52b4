//! How the copies of a mirror are kept fresh: passes while the server is awake anyway, and a wake-up for one
//! where nothing woke it in time.

use std::time::Duration;

use nightwatt_energy::power_states::PowerStates;
use nightwatt_energy::quantity::Joules;
use nightwatt_energy::time::Mono;
use nightwatt_mirror::pure::refresh::RefreshRules;
use nightwatt_policy::lifecycle::Phase;

use crate::mirror::Counts;

/// How copies are kept fresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefreshRule {
    /// The rules of `serve`.
    pub rules: RefreshRules,
    /// The server needs this long to say whether a copy is still right.
    pub each: Duration,
}

impl RefreshRule {
    /// The default rules of `serve`, with a server that needs `each` for an answer.
    pub fn of(each: Duration) -> Self {
        Self { rules: RefreshRules::default(), each }
    }

    /// The age at which copies are looked at again when the server is awake.
    fn due_after(&self) -> Duration {
        self.rules.due_after(0.0)
    }
}

/// What refreshing came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RefreshCost {
    /// Wake-ups without a request.
    pub wakeups: u64,
    /// Time that the server was awake for nothing else: after these wake-ups, and while a sleep waited.
    pub awake: Duration,
}

impl RefreshCost {
    /// What that came to beyond a server that slept on.
    pub fn energy(&self, states: &PowerStates) -> Joules {
        states.switch * self.wakeups as f64 + (states.on - states.off) * self.awake
    }
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Begin a pass.
    Begin,
    /// It is over, or makes way for a sleep.
    End,
    /// Wake the server.
    Wake,
}

/// Passes over the copies of one server's site, under way.
#[derive(Debug)]
pub(crate) struct Refresh {
    rule: RefreshRule,
    wake_time: Duration,
    holds: Counts,
    /// No copy is older.
    fresh_since: Mono,
    /// The pass that is under way, or was cut short.
    pass: Option<Pass>,
    /// The site has changed: its pages are looked at before the next sleep.
    changed: bool,
    /// A pass begins no sooner.
    not_before: Mono,
    /// The server was told to wake for a pass.
    wakes: bool,
    /// It is awake for a pass alone since then.
    alone_since: Option<Mono>,
    /// Its sleep waits for a pass since then.
    sleep_waits_since: Option<Mono>,
    cost: RefreshCost,
}

#[derive(Debug, Clone, Copy)]
struct Pass {
    began: Mono,
    /// It is over all copies, and not only over pages.
    is_whole: bool,
    /// Copies to go, when it last began or went on.
    left: u32,
    /// When it will have ended, if it is under way.
    ends: Option<Mono>,
}

impl Refresh {
    pub(crate) fn new(rule: RefreshRule, wake_time: Duration) -> Self {
        Self {
            rule,
            wake_time,
            holds: Counts::default(),
            fresh_since: Mono::ZERO,
            pass: None,
            changed: false,
            not_before: Mono::ZERO,
            wakes: false,
            alone_since: None,
            sleep_waits_since: None,
            cost: RefreshCost::default(),
        }
    }

    /// The mirror holds so much.
    pub(crate) const fn holds(&mut self, counts: Counts) {
        self.holds = counts;
    }

    /// Something on the site has changed.
    pub(crate) const fn site_changed(&mut self) {
        self.changed = true;
    }

    /// When something is to be done next, in this phase of the server.
    pub(crate) fn next(&self, phase: Phase) -> Mono {
        if let Some(ends) = self.pass.and_then(|pass| pass.ends) {
            let cut = self.sleep_waits_since.filter(|_| self.alone_since.is_none());
            return cut.map_or(ends, |since| ends.min(since + self.rule.rules.extension));
        }
        if self.holds.all == 0 {
            return Mono::NEVER;
        }
        match phase {
            Phase::Awake if self.pass.is_some() || self.changed => self.not_before,
            Phase::Awake => self.not_before.max(self.fresh_since + self.rule.due_after()),
            Phase::Asleep | Phase::FallingAsleep if !self.wakes => {
                self.fresh_since + self.sleeps_at_most()
            }
            _ => Mono::NEVER,
        }
    }

    /// How long after the last whole pass began the next one must be prepared for.
    fn sleeps_at_most(&self) -> Duration {
        let max_age = self.rule.rules.max_age;
        let ahead = self.wake_time + self.rule.each * self.holds.all;
        max_age.saturating_sub(ahead.min(max_age / 2))
    }

    /// What is to be done now that [`next`](Self::next) is due.
    pub(crate) fn step(&self, phase: Phase) -> Step {
        match phase {
            _ if self.pass.is_some_and(|pass| pass.ends.is_some()) => Step::End,
            Phase::Awake => Step::Begin,
            _ => Step::Wake,
        }
    }

    /// The server is told to wake for a pass.
    pub(crate) const fn wakes_server(&mut self) {
        self.wakes = true;
        self.cost.wakeups += 1;
    }

    /// A pass begins, or goes on.
    pub(crate) fn begin(&mut self, now: Mono) {
        let is_due = now >= self.fresh_since + self.rule.due_after();
        let began = self.pass.take().filter(|_| !self.changed);
        let pass = began.unwrap_or_else(|| {
            let left = if is_due { self.holds.all } else { self.holds.pages };
            Pass { began: now, is_whole: is_due, left, ends: None }
        });
        self.changed = false;
        self.pass = Some(Pass { ends: Some(now + self.rule.each * pass.left), ..pass });
    }

    /// Not now: the server is about to sleep.
    pub(crate) fn postpone(&mut self, now: Mono) {
        self.not_before = now + self.rule.rules.extension;
    }

    /// The pass is over, or is cut short and goes on when the server is awake again.
    pub(crate) fn end(&mut self, now: Mono) {
        let Some(pass) = self.pass.take() else { return };
        let left = pass.ends.map_or(Duration::ZERO, |ends| ends.since(now));
        if left.is_zero() {
            if pass.is_whole {
                self.fresh_since = pass.began;
            }
        } else {
            let left = (left.as_secs_f64() / self.rule.each.as_secs_f64()).ceil() as u32;
            self.pass = Some(Pass { left, ends: None, ..pass });
            self.not_before = now + self.rule.rules.extension;
        }
    }

    /// The server woke, either for a request that waits or for the pass alone.
    pub(crate) fn woke(&mut self, now: Mono, somebody_waits: bool) {
        self.alone_since = (self.wakes && !somebody_waits).then_some(now);
        self.wakes = false;
        self.not_before = now;
    }

    /// A client uses the server.
    pub(crate) fn used(&mut self, now: Mono) {
        if let Some(since) = self.alone_since.take() {
            self.cost.awake += now.since(since);
        }
    }

    /// Whether all but the pass agrees that the server may sleep.
    pub(crate) fn sleep_waits(&mut self, now: Mono, waits: bool) {
        if waits {
            self.sleep_waits_since.get_or_insert(now);
        } else if let Some(since) = self.sleep_waits_since.take()
            && self.alone_since.is_none()
        {
            self.cost.awake += now.since(since);
        }
    }

    /// What it came to by now.
    pub(crate) fn cost(&mut self, now: Mono) -> RefreshCost {
        self.sleep_waits(now, false);
        self.used(now);
        self.cost
    }
}
