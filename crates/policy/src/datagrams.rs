//! Sessions of datagrams: which sources get one, who may wake the server, and when a session keeps it awake.
//!
//! The source address of a datagram proves nothing. So a datagram alone neither counts as use nor is logged; the
//! server's answer does. A client that the server has answered is *known*. All other clients are strangers, and wake
//! the server at a common rate, however many addresses they use.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher, Hash};
use std::time::Duration;

use nightwatt_energy::time::Mono;

use crate::connections::ConnectionCounts;
use crate::passage::Due;
use crate::rate::{Rate, RateLimiter};

/// A session that the server does not answer keeps it awake for this time after a wake-up.
pub const UNANSWERED: Duration = Duration::from_secs(10);

/// A session that the server has not answered is forgotten after this time without datagrams.
pub const FORGOTTEN: Duration = Duration::from_secs(30);

/// Known clients that are remembered.
const KNOWN: usize = 4096;

/// What of a session counts as use of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// What the server sends.
    Answers,
    /// Every datagram: for services that never answer.
    Datagrams,
}

/// For how long a session counts, and how long it is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// What counts.
    pub counts: Counts,
    /// Without anything that counts for this time, the session does not keep its server awake.
    pub quiet: Duration,
    /// Without any datagram for this time, the session ends.
    pub idle_timeout: Duration,
}

/// One session.
#[derive(Debug, Clone)]
pub struct Session {
    pace: Pace,
    moved: Mono,
    counted: Mono,
    is_answered: bool,
    keeps: bool,
}

impl Session {
    /// A session that does not keep its server awake yet.
    pub const fn new(pace: Pace, now: Mono) -> Self {
        Self { pace, moved: now, counted: now, is_answered: false, keeps: false }
    }

    /// It keeps its server awake from now on.
    pub fn keep(&mut self, now: Mono) {
        self.moved = self.moved.max(now);
        self.counted = self.counted.max(now);
        self.keeps = true;
    }

    /// It does not keep its server awake from now on.
    pub const fn let_go(&mut self) {
        self.keeps = false;
    }

    /// Whether it keeps its server awake.
    pub const fn keeps(&self) -> bool {
        self.keeps
    }

    /// Whether the server has answered.
    pub const fn is_answered(&self) -> bool {
        self.is_answered
    }

    /// The client has sent something. True if the session counts from now on, and did not before.
    pub fn from_client(&mut self, now: Mono) -> bool {
        self.moved = self.moved.max(now);
        if self.pace.counts == Counts::Answers {
            return false;
        }
        self.counted = self.counted.max(now);
        !self.keeps
    }

    /// The server has sent something. True if the session counts from now on, and did not before.
    pub fn from_server(&mut self, now: Mono) -> bool {
        self.moved = self.moved.max(now);
        self.counted = self.counted.max(now);
        self.is_answered = true;
        !self.keeps
    }

    /// What is due by now.
    pub fn tick(&mut self, now: Mono) -> Option<Due> {
        if self.closes_at() <= now {
            return Some(Due::Close);
        }
        if self.lets_go_at() <= now {
            self.keeps = false;
            return Some(Due::LetGo);
        }
        None
    }

    /// When [`tick`](Self::tick) is due next, unless datagrams move.
    pub fn next_timer(&self) -> Mono {
        self.closes_at().min(self.lets_go_at())
    }

    /// Whether it is one that the server leaves unanswered, although its answers are what counts.
    const fn is_ignored(&self) -> bool {
        matches!(self.pace.counts, Counts::Answers) && !self.is_answered
    }

    fn closes_at(&self) -> Mono {
        let all = self.pace.idle_timeout;
        self.moved + if self.is_ignored() { all.min(FORGOTTEN) } else { all }
    }

    fn lets_go_at(&self) -> Mono {
        if !self.keeps {
            return Mono::NEVER;
        }
        let all = self.pace.quiet;
        self.counted + if self.is_ignored() { all.min(UNANSWERED) } else { all }
    }
}

/// The state of the server, for a datagram that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// It can have the datagram at once.
    Awake,
    /// Another client has woken it already.
    Waking,
    /// It has to be woken.
    Down,
}

/// What happens to a datagram, and to the session that it begins or resumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// It is forwarded. The session counts once the server answers.
    Forward,
    /// It requests the server, and waits for it.
    Wake,
    /// It waits for the server that another client has woken, and counts as no request.
    Wait,
}

/// Why a datagram is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The server sleeps, and this is not what wakes it.
    NoWake,
    /// Strangers have woken the server too often.
    Strangers,
    /// There are as many sessions as there may be, and the server has answered all of them.
    Full,
    /// The client has as many sessions as it may have.
    Share,
}

/// How many sessions there may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Of all clients.
    pub sessions: usize,
    /// Of one client.
    pub per_client: usize,
}

/// A session in the table.
#[derive(Debug)]
struct Place<H> {
    number: u64,
    client: u64,
    handle: H,
}

/// The sessions of a service, by source.
///
/// If all places are taken, the oldest session that the server has not answered makes room: a flood from invented
/// addresses displaces itself, and no session that is in use.
#[derive(Debug)]
pub struct Table<K, H> {
    sessions: HashMap<K, Place<H>, BuildHasherDefault<DefaultHasher>>,
    /// Those that the server has not answered, by number.
    unanswered: BTreeMap<u64, K>,
    counts: ConnectionCounts,
    known: HashSet<u64, BuildHasherDefault<DefaultHasher>>,
    /// The known ones, in order of their first answers.
    met: VecDeque<u64>,
    rate: Rate,
    strangers: RateLimiter,
}

impl<K: Copy + Eq + Hash, H> Table<K, H> {
    /// Without sessions. Strangers wake the server at this rate at most.
    pub fn new(strangers: Rate) -> Self {
        Self {
            sessions: HashMap::default(),
            unanswered: BTreeMap::new(),
            counts: ConnectionCounts::default(),
            known: HashSet::default(),
            met: VecDeque::new(),
            rate: strangers,
            strangers: RateLimiter::new(strangers),
        }
    }

    /// Strangers wake the server at this rate from now on.
    pub fn turn_to(&mut self, strangers: Rate) {
        if self.rate != strangers {
            (self.rate, self.strangers) = (strangers, RateLimiter::new(strangers));
        }
    }

    /// The session of a source.
    pub fn get(&self, source: &K) -> Option<&H> {
        self.sessions.get(source).map(|place| &place.handle)
    }

    /// The number of sessions.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// What happens to a datagram of `client` that begins or resumes a session, if the rate of strangers admits it.
    /// `wakes` if it is one that wakes the server.
    pub fn look(&self, client: u64, server: Server, wakes: bool) -> Result<Entry, Refusal> {
        match server {
            Server::Awake => Ok(Entry::Forward),
            _ if !wakes => Err(Refusal::NoWake),
            _ if self.known.contains(&client) => Ok(Entry::Wake),
            Server::Waking => Ok(Entry::Wait),
            Server::Down => Ok(Entry::Wake),
        }
    }

    /// What happens to it. A stranger that wakes the server uses the rate: so nothing else may refuse it afterwards.
    pub fn entry(
        &mut self,
        now: Mono,
        client: u64,
        server: Server,
        wakes: bool,
    ) -> Result<Entry, Refusal> {
        let entry = self.look(client, server, wakes)?;
        if server == Server::Down && !self.known.contains(&client) {
            self.strangers.admit(now, 0).map_err(|_| Refusal::Strangers)?;
        }
        Ok(entry)
    }

    /// Whether there is a place for a session of `client`, or one that makes room for it.
    pub fn fits(&self, client: u64, limits: Limits) -> Result<(), Refusal> {
        if self.counts.of(client) >= limits.per_client {
            return Err(Refusal::Share);
        }
        if self.sessions.len() >= limits.sessions && self.unanswered.is_empty() {
            return Err(Refusal::Full);
        }
        Ok(())
    }

    /// Begins a session; numbers rise. Returns the session that made room for it.
    pub fn open(
        &mut self,
        source: K,
        client: u64,
        number: u64,
        handle: H,
        limits: Limits,
    ) -> Result<Option<H>, Refusal> {
        self.fits(client, limits)?;
        let mut displaced = None;
        if self.sessions.len() >= limits.sessions
            && let Some((_, oldest)) = self.unanswered.pop_first()
        {
            displaced = self.remove(&oldest);
        }
        self.counts.open(client, limits.per_client);
        self.unanswered.insert(number, source);
        self.sessions.insert(source, Place { number, client, handle });
        Ok(displaced)
    }

    /// The server has answered this session: its client is known from now on.
    pub fn answered(&mut self, source: &K, number: u64) {
        let Some(place) = self.sessions.get(source).filter(|it| it.number == number) else {
            return;
        };
        self.unanswered.remove(&number);
        if self.known.insert(place.client) {
            self.met.push_back(place.client);
            if self.met.len() > KNOWN
                && let Some(first) = self.met.pop_front()
            {
                self.known.remove(&first);
            }
        }
    }

    /// A session has ended, unless another one has its place already.
    pub fn close(&mut self, source: &K, number: u64) {
        if self.sessions.get(source).is_some_and(|it| it.number == number) {
            self.remove(source);
        }
    }

    /// Ends the sessions of sources that are not `kept`.
    pub fn retain(&mut self, mut kept: impl FnMut(&K) -> bool) {
        let gone: Vec<K> = self.sessions.keys().filter(|it| !kept(it)).copied().collect();
        for source in gone {
            self.remove(&source);
        }
    }

    fn remove(&mut self, source: &K) -> Option<H> {
        let place = self.sessions.remove(source)?;
        self.unanswered.remove(&place.number);
        self.counts.closed(place.client);
        Some(place.handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        counts: Counts::Answers,
        quiet: Duration::from_mins(5),
        idle_timeout: Duration::from_mins(10),
    };
    const LIMITS: Limits = Limits { sessions: 4, per_client: 2 };

    fn at(seconds: u64) -> Mono {
        Mono::from_secs(seconds)
    }

    fn table() -> Table<u32, u32> {
        Table::new("2/h".parse().unwrap())
    }

    #[test]
    fn datagrams_alone_keep_no_server_awake() {
        let mut session = Session::new(PACE, at(0));
        session.keep(at(5));
        for second in 5..15 {
            assert_eq!(session.tick(at(second)), None);
            assert!(!session.from_client(at(second)), "it asks for nothing");
        }
        assert_eq!(session.next_timer(), at(15), "ten seconds after the wake-up");
        assert_eq!(session.tick(at(15)), Some(Due::LetGo));
        assert!(!session.from_client(at(16)) && !session.keeps());
        assert_eq!(session.tick(at(45)), None);
        assert_eq!(session.tick(at(46)), Some(Due::Close), "30 s after its last datagram");
    }

    #[test]
    fn answers_keep_it_awake_and_the_session_longer() {
        let mut session = Session::new(PACE, at(0));
        assert!(session.from_server(at(1)), "it counts from now on");
        session.keep(at(1));
        assert!(!session.from_server(at(100)));
        assert_eq!(session.tick(at(399)), None);
        assert_eq!(session.tick(at(400)), Some(Due::LetGo), "5 min after the last answer");
        assert!(!session.from_client(at(500)));
        assert_eq!(session.tick(at(1099)), None);
        assert_eq!(session.tick(at(1100)), Some(Due::Close), "10 min after the last datagram");
    }

    #[test]
    fn for_services_that_never_answer_every_datagram_counts() {
        let mut session = Session::new(Pace { counts: Counts::Datagrams, ..PACE }, at(0));
        assert!(session.from_client(at(0)));
        session.keep(at(0));
        assert!(!session.from_client(at(299)));
        assert_eq!(session.tick(at(300)), None);
        assert_eq!(session.tick(at(599)), Some(Due::LetGo));
        assert!(session.from_client(at(600)), "it requests the server again");
    }

    #[test]
    fn strangers_share_one_rate_and_known_clients_do_not() {
        let mut table = table();
        for stranger in 1..=2 {
            assert_eq!(table.entry(at(0), stranger, Server::Down, true), Ok(Entry::Wake));
        }
        for stranger in 3..1000 {
            let entry = table.entry(at(1), stranger, Server::Down, true);
            assert_eq!(entry, Err(Refusal::Strangers));
        }
        assert_eq!(table.entry(at(1), 7, Server::Waking, true), Ok(Entry::Wait), "no request");
        table.open(70, 7, 1, 0, LIMITS).unwrap();
        table.answered(&70, 1);
        assert_eq!(table.entry(at(2), 7, Server::Down, true), Ok(Entry::Wake));
        assert_eq!(table.entry(at(2), 7, Server::Down, false), Err(Refusal::NoWake));
        assert_eq!(table.entry(at(2), 8, Server::Awake, false), Ok(Entry::Forward));
        assert_eq!(table.entry(at(1800), 9, Server::Down, true), Ok(Entry::Wake), "half an hour");
    }

    #[test]
    fn looking_and_places_use_no_rate() {
        let mut table = table();
        for number in 0..9 {
            assert_eq!(table.look(number, Server::Down, true), Ok(Entry::Wake));
            assert_eq!(table.fits(number, LIMITS), Ok(()));
        }
        for second in 0..2 {
            assert_eq!(table.entry(at(second), 1, Server::Down, true), Ok(Entry::Wake));
        }
        assert_eq!(table.entry(at(2), 1, Server::Down, true), Err(Refusal::Strangers));
        for number in 0..2 {
            table.open(number, 1, number.into(), number, LIMITS).unwrap();
        }
        assert_eq!(table.fits(1, LIMITS), Err(Refusal::Share));
        for number in 2..4 {
            table.open(number, 2, number.into(), number, LIMITS).unwrap();
        }
        assert_eq!(table.fits(3, LIMITS), Ok(()), "the oldest makes room");
        for number in 0..4 {
            table.answered(&number, number.into());
        }
        assert_eq!(table.fits(3, LIMITS), Err(Refusal::Full));
        table.retain(|source| *source != 1);
        assert_eq!((table.len(), table.fits(1, LIMITS)), (3, Ok(())));
    }

    #[test]
    fn a_flood_displaces_itself_and_no_session_in_use() {
        let mut table = table();
        table.open(1, 1, 1, 100, LIMITS).unwrap();
        table.answered(&1, 1);
        for number in 2..10_000_u32 {
            let client = u64::from(number);
            let displaced = table.open(number, client, client, number, LIMITS).unwrap();
            assert_eq!(displaced, (number > 4).then(|| number - 3), "the oldest of the flood");
            assert!(table.len() <= 4 && table.get(&1) == Some(&100));
        }
        for source in 9_997..10_000 {
            table.answered(&source, source.into());
        }
        assert_eq!(table.open(5, 5, 20_000, 5, LIMITS), Err(Refusal::Full));
        table.close(&1, 1);
        assert_eq!(table.open(5, 5, 20_000, 5, LIMITS), Ok(None));
    }

    #[test]
    fn one_client_has_a_share_and_an_old_session_closes_no_new_one() {
        let mut table = table();
        table.open(1, 7, 1, 1, LIMITS).unwrap();
        table.open(2, 7, 2, 2, LIMITS).unwrap();
        assert_eq!(table.open(3, 7, 3, 3, LIMITS), Err(Refusal::Share));
        table.close(&1, 1);
        table.open(1, 7, 4, 4, LIMITS).unwrap();
        table.close(&1, 1);
        assert_eq!(table.get(&1), Some(&4), "another session has this place");
    }

    #[test]
    fn only_so_many_clients_are_remembered() {
        let mut table = table();
        let limits = Limits { sessions: 1, per_client: 1 };
        for client in 0..5000_u32 {
            let number = u64::from(client);
            table.open(client, number, number, client, limits).unwrap();
            table.answered(&client, number);
            table.close(&client, number);
        }
        assert_eq!((table.known.len(), table.met.len(), table.len()), (KNOWN, KNOWN, 0));
        assert_eq!(table.entry(at(0), 4999, Server::Down, true), Ok(Entry::Wake));
        assert!(table.counts.clients() == 0 && table.unanswered.is_empty());
    }
}
