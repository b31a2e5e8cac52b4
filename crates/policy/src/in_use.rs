//! Whether a server is in use by clients that the proxy does not see, as probes of the server report it.
//!
//! A probe is asked only while the server is awake and serves no client. An answer counts until the next one is due.
//! No answer counts as use for a bounded time (`unknown_for`), and after that as no use: a probe that fails neither cuts
//! off a film nor keeps the server awake for ever.

use std::time::Duration;

use nightwatt_energy::time::Mono;

/// A server that has just served its last client is asked after this time, or after `every` if that is shorter: most
/// gaps between requests are shorter.
const FIRST_ASK: Duration = Duration::from_secs(10);

/// When a probe is asked, and how long it may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeTimes {
    /// Time between two questions.
    pub every: Duration,
    /// Time limit for an answer.
    pub timeout: Duration,
    /// How long the server counts as in use without an answer.
    pub unknown_for: Duration,
}

/// What a question found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The server is in use.
    InUse,
    /// It is not.
    Idle,
    /// There is no answer, or one that makes no sense.
    Unknown,
}

/// What a probe contributes to the decision at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It has not been asked since the server was last used: it keeps the server awake.
    NotAsked,
    /// The server is in use.
    InUse,
    /// It is not.
    Idle,
    /// There is no answer: it keeps the server awake for a while.
    Unknown,
    /// There has been no answer for too long: it counts as idle.
    Ignored,
}

impl Standing {
    /// Its name in status and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotAsked => "not-asked",
            Self::InUse => "in-use",
            Self::Idle => "idle",
            Self::Unknown => "unknown",
            Self::Ignored => "ignored",
        }
    }

    /// Whether it keeps the server awake.
    pub const fn keeps_awake(self) -> bool {
        matches!(self, Self::NotAsked | Self::InUse | Self::Unknown)
    }
}

/// Of the probe that keeps the server awake: the first that reports use, or else the one that keeps it longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// The index of the probe.
    pub probe: usize,
    /// Why.
    pub standing: Standing,
    /// Until then at most: the next answer comes earlier.
    pub until: Mono,
}

/// The answers of one probe.
#[derive(Debug, Clone, Copy)]
struct Probe {
    times: ProbeTimes,
    /// The last answer that made sense, and whether it reported use.
    known: Option<(Mono, bool)>,
    /// When it was asked last.
    asked: Option<Mono>,
    /// The first question since then without an answer.
    failing_since: Option<Mono>,
}

impl Probe {
    const fn new(times: ProbeTimes) -> Self {
        Self { times, known: None, asked: None, failing_since: None }
    }

    fn due(&self, idle_since: Mono) -> Mono {
        let ProbeTimes { every, .. } = self.times;
        match self.asked {
            Some(asked) if asked >= idle_since => asked + every,
            _ => idle_since + every.min(FIRST_ASK),
        }
    }

    fn found(&mut self, now: Mono, found: Found) {
        self.asked = Some(now);
        if found == Found::Unknown {
            self.failing_since.get_or_insert(now);
        } else {
            self.known = Some((now, found == Found::InUse));
            self.failing_since = None;
        }
    }

    /// Its standing, and until when it keeps the server awake.
    fn standing(&self, now: Mono, idle_since: Mono) -> (Standing, Mono) {
        let ProbeTimes { every, timeout, unknown_for } = self.times;
        let known = self.known.filter(|(at, _)| *at >= idle_since);
        let next = known.map_or(idle_since, |(at, _)| at + every + timeout);
        let is_fresh = known.is_some() && self.failing_since.is_none() && now < next;
        if let Some((_, is_used)) = known.filter(|_| is_fresh) {
            let standing = if is_used { Standing::InUse } else { Standing::Idle };
            // If no answer follows, that keeps it awake for a while too.
            return (standing, if is_used { next + unknown_for } else { Mono::ZERO });
        }
        let since = self.failing_since.filter(|_| known.is_some()).unwrap_or(next);
        let until = since + unknown_for;
        if now >= until {
            return (Standing::Ignored, Mono::ZERO);
        }
        let is_asked = self.asked.is_some_and(|asked| asked >= idle_since);
        (if is_asked { Standing::Unknown } else { Standing::NotAsked }, until)
    }
}

/// The answers of all probes of a server.
#[derive(Debug, Clone, Default)]
pub struct InUse {
    probes: Vec<Probe>,
    /// Nothing was asked before.
    begun: Mono,
}

impl InUse {
    /// Probes that have not been asked.
    pub fn new(times: &[ProbeTimes]) -> Self {
        Self::begun(Mono::ZERO, times)
    }

    /// Probes that there are from then on.
    pub fn begun(now: Mono, times: &[ProbeTimes]) -> Self {
        Self { probes: times.iter().copied().map(Probe::new).collect(), begun: now }
    }

    /// Which probes have these times from now on. Answers are kept if nothing changes.
    pub fn retune(&mut self, now: Mono, times: &[ProbeTimes]) {
        if !self.probes.iter().map(|probe| &probe.times).eq(times) {
            *self = Self::begun(now, times);
        }
    }

    /// When the first probe is to be asked, if the server has served no client since `idle_since`.
    pub fn next_due(&self, idle_since: Mono) -> Mono {
        let idle_since = idle_since.max(self.begun);
        self.probes.iter().map(|probe| probe.due(idle_since)).min().unwrap_or(Mono::NEVER)
    }

    /// The probes that are to be asked now.
    pub fn due(&self, now: Mono, idle_since: Mono) -> impl Iterator<Item = usize> {
        let idle_since = idle_since.max(self.begun);
        let is_due = move |(_, probe): &(usize, &Probe)| probe.due(idle_since) <= now;
        self.probes.iter().enumerate().filter(is_due).map(|(index, _)| index)
    }

    /// A probe was asked.
    pub fn found(&mut self, now: Mono, probe: usize, found: Found) {
        if let Some(probe) = self.probes.get_mut(probe) {
            probe.found(now, found);
        }
    }

    /// What a probe contributes now.
    pub fn standings(&self, now: Mono, idle_since: Mono) -> impl Iterator<Item = Standing> {
        let idle_since = idle_since.max(self.begun);
        self.probes.iter().map(move |probe| probe.standing(now, idle_since).0)
    }

    /// What keeps the server awake now, if a probe does.
    pub fn keeps(&self, now: Mono, idle_since: Mono) -> Option<Use> {
        let idle_since = idle_since.max(self.begun);
        let all = self.probes.iter().enumerate().map(|(probe, it)| {
            let (standing, until) = it.standing(now, idle_since);
            Use { probe, standing, until }
        });
        let keeping = all.filter(|it| it.standing.keeps_awake());
        // Of several that are as good, the first.
        keeping.reduce(|best, next| {
            let rank = |it: &Use| (it.standing == Standing::InUse, it.until);
            if rank(&next) > rank(&best) { next } else { best }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Mono {
        Mono::from_secs(seconds)
    }

    /// Asked every minute, 5 s to answer, unknown for ten minutes.
    fn times() -> ProbeTimes {
        let [every, timeout, unknown_for] = [60, 5, 600].map(Duration::from_secs);
        ProbeTimes { every, timeout, unknown_for }
    }

    fn one() -> InUse {
        InUse::new(&[times()])
    }

    fn standing(it: &InUse, now: u64, idle_since: u64) -> Standing {
        it.standings(at(now), at(idle_since)).next().unwrap()
    }

    #[test]
    fn without_probes_nothing_is_asked_and_nothing_is_kept_awake() {
        let none = InUse::default();
        assert_eq!((none.next_due(at(5)), none.keeps(at(5), at(5))), (Mono::NEVER, None));
    }

    #[test]
    fn a_server_that_becomes_idle_is_asked_after_ten_seconds_and_then_every_minute() {
        let mut it = one();
        assert_eq!(it.next_due(at(100)), at(110));
        assert_eq!(it.due(at(109), at(100)).count(), 0);
        assert_eq!(it.due(at(110), at(100)).collect::<Vec<_>>(), [0]);
        it.found(at(110), 0, Found::Idle);
        assert_eq!(it.next_due(at(100)), at(170));
        // A client used it: the answer says nothing of what followed.
        assert_eq!(it.next_due(at(130)), at(140));
        let quick = ProbeTimes { every: Duration::from_secs(2), ..times() };
        assert_eq!(InUse::new(&[quick]).next_due(at(100)), at(102));
    }

    #[test]
    fn it_may_sleep_only_after_an_answer_that_is_not_older_than_its_idle_time() {
        let mut it = one();
        assert_eq!(standing(&it, 100, 100), Standing::NotAsked);
        assert_eq!(it.keeps(at(100), at(100)).map(|it| it.until), Some(at(700)));
        it.found(at(110), 0, Found::Idle);
        assert_eq!((standing(&it, 110, 100), it.keeps(at(110), at(100))), (Standing::Idle, None));
        assert_eq!(standing(&it, 131, 130), Standing::NotAsked);
    }

    #[test]
    fn use_keeps_it_awake_until_an_answer_without() {
        let mut it = one();
        it.found(at(110), 0, Found::InUse);
        let kept = it.keeps(at(110), at(110)).unwrap();
        assert_eq!((kept.standing, kept.until), (Standing::InUse, at(110 + 60 + 5 + 600)));
        it.found(at(170), 0, Found::Idle);
        assert_eq!(it.keeps(at(170), at(110)), None);
    }

    #[test]
    fn no_answer_counts_as_use_for_a_bounded_time() {
        let mut it = one();
        it.found(at(110), 0, Found::Idle);
        for second in [170, 230, 290] {
            it.found(at(second), 0, Found::Unknown);
            assert_eq!(standing(&it, second, 100), Standing::Unknown);
        }
        assert_eq!(it.keeps(at(290), at(100)).map(|it| it.until), Some(at(770)));
        assert_eq!(standing(&it, 769, 100), Standing::Unknown);
        assert_eq!(
            (standing(&it, 770, 100), it.keeps(at(770), at(100))),
            (Standing::Ignored, None)
        );
        // Another client used the server: the time begins again, since that client may have begun something.
        assert_eq!(standing(&it, 1000, 900), Standing::NotAsked);
        it.found(at(910), 0, Found::Unknown);
        assert_eq!(standing(&it, 1499, 900), Standing::Unknown);
        assert_eq!(standing(&it, 1500, 900), Standing::Ignored);
        it.found(at(1510), 0, Found::InUse);
        assert_eq!(standing(&it, 1510, 1510), Standing::InUse);
    }

    #[test]
    fn a_driver_that_stalls_is_no_answer_either() {
        let mut it = one();
        it.found(at(110), 0, Found::Idle);
        assert_eq!(standing(&it, 174, 100), Standing::Idle);
        assert_eq!(standing(&it, 175, 100), Standing::Unknown);
        assert_eq!(standing(&it, 775, 100), Standing::Ignored);
    }

    #[test]
    fn of_several_the_one_that_reports_use_is_named() {
        let mut it = InUse::new(&[times(), times(), times()]);
        it.found(at(110), 0, Found::Unknown);
        it.found(at(110), 1, Found::Idle);
        it.found(at(110), 2, Found::InUse);
        let kept = it.keeps(at(110), at(100)).unwrap();
        assert_eq!((kept.probe, kept.standing), (2, Standing::InUse));
        it.found(at(120), 2, Found::Idle);
        assert_eq!(it.keeps(at(120), at(100)).map(|it| it.probe), Some(0));
        it.retune(at(120), &[times(), times(), times()]);
        assert_eq!(it.keeps(at(120), at(100)).map(|it| it.standing), Some(Standing::Unknown));
        it.retune(at(900), &[times()]);
        // It has been idle for longer than ten minutes, but nothing has asked the new one yet.
        let kept = it.keeps(at(900), at(100)).map(|it| (it.standing, it.until));
        assert_eq!(kept, Some((Standing::NotAsked, at(1500))));
        assert_eq!(it.next_due(at(100)), at(910));
    }
}
