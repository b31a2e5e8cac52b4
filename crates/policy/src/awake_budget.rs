//! How long one client alone may keep a server awake: by asking once a second, by reading slowly, or by a
//! connection that is left open.
//!
//! A client uses the server while it has exchanges under way, and for a while after the last one: its
//! connection may be idle, or it asks again. The time that a server is awake is charged to the client that
//! uses it while no other does, whichever asked last. Time in which several clients use the server, or none
//! does, is charged to none of them. What is charged wears off evenly: a client that has used up its day's
//! budget gets it back within a day.

mod users;

use std::collections::HashMap;
use std::time::Duration;

use foldhash::fast::FixedState;

use self::users::Users;
use nightwatt_energy::time::Mono;

/// How long after its last exchange a client still counts as a user of the server: it may be charged, and
/// others are not alone.
const LINGERS: Duration = Duration::from_mins(10);

const DAY: Duration = Duration::from_hours(24);

/// The network of clients that are charged for nothing: those of the operator's own networks, and
/// exchanges that are no client's.
pub const UNLIMITED: u64 = 0;

/// Clients remembered at once. The least indebted are forgotten first.
const CLIENTS: usize = 4096;

/// The awake time of one server, and the clients that are charged for it.
#[derive(Debug, Clone)]
pub struct AwakeBudget {
    /// Of one client in a day; `None`: no bound.
    most: Option<Duration>,
    debts: HashMap<u64, Debt, FixedState>,
    /// The clients that have exchanges under way.
    users: Users,
    /// The only client that uses the server: it has exchanges under way or, if none are, had the last one.
    user: Option<u64>,
    /// No other client uses it from then on.
    alone_since: Mono,
    /// When the last exchange ended, if none is under way.
    quiet_since: Mono,
    /// Everything before is charged.
    settled: Mono,
    is_awake: bool,
    /// Before that no client is over its budget.
    not_before: Mono,
}

/// What a client owed at some time.
#[derive(Debug, Clone, Copy)]
struct Debt {
    time: Duration,
    at: Mono,
}

impl AwakeBudget {
    /// So much for each client in a day, which must be less than the day itself; none: no bound.
    pub fn new(most: Option<Duration>) -> Self {
        Self {
            most,
            debts: HashMap::default(),
            users: Users::default(),
            user: None,
            alone_since: Mono::ZERO,
            quiet_since: Mono::ZERO,
            settled: Mono::ZERO,
            is_awake: false,
            not_before: Mono::NEVER,
        }
    }

    /// From now on each client has this much awake time in a day. What was charged stays.
    pub fn set_most(&mut self, now: Mono, most: Option<Duration>) {
        self.settle(now);
        self.most = most;
        self.look(now);
    }

    /// From now on the server is awake, or not.
    pub fn turn(&mut self, now: Mono, is_awake: bool) {
        self.settle(now);
        self.is_awake = is_awake;
        self.look(now);
    }

    /// An exchange of a client that may wake the server begins.
    pub fn begin(&mut self, now: Mono, client: u64) {
        let is_quiet = self.users.is_empty();
        let goes_on = self.user == Some(client) && (!is_quiet || now <= self.lingers_until());
        let is_shared = self.user.is_none() && !is_quiet;
        if goes_on || is_shared {
            self.users.add(client);
            return;
        }
        self.settle(now);
        if is_quiet {
            let is_shared = self.user.is_some_and(|it| it != client) && now < self.lingers_until();
            self.alone_since = if is_shared { now + LINGERS } else { now };
            self.user = Some(client);
        } else {
            self.user = None;
        }
        self.users.add(client);
        self.look(now);
    }

    /// An exchange is over that [`begin`](Self::begin) began.
    pub fn end(&mut self, now: Mono, client: u64) {
        self.users.remove(client);
        if self.users.is_empty() {
            self.quiet_since = now;
        }
        if self.user.is_none()
            && let Some(only) = self.users.only()
        {
            self.settle(now);
            (self.user, self.alone_since) = (Some(only), now + LINGERS);
            self.look(now);
        }
    }

    /// A client asked for a server that is not awake yet.
    pub fn asked(&mut self, now: Mono, client: u64) {
        self.begin(now, client);
        self.end(now, client);
    }

    /// Until then the client that had the last exchange uses the server.
    fn lingers_until(&self) -> Mono {
        self.quiet_since + LINGERS
    }

    /// Has the only user of the server used up its budget?
    pub fn is_over(&mut self, now: Mono) -> bool {
        // Mostly that is all.
        if now < self.not_before {
            return false;
        }
        let (Some(most), Some(user)) = (self.most, self.user) else { return false };
        self.settle(now);
        let is_over = now >= self.alone_since && self.debt(now, user) >= most;
        if !is_over {
            self.look(now);
        }
        is_over
    }

    /// When that may be so, if nothing changes.
    pub fn over_at(&self, now: Mono) -> Mono {
        self.not_before.max(now + Duration::from_secs(1))
    }

    /// Charges everything until now, and finds out when a client may be over its budget at the earliest.
    fn look(&mut self, now: Mono) {
        self.not_before = match (self.most, self.user) {
            (Some(most), Some(user)) if user != UNLIMITED => {
                let left = most.saturating_sub(self.debt(now, user));
                // While it is charged, what it owes wears off as well.
                let grows = 1.0 - most.as_secs_f64() / DAY.as_secs_f64();
                let left = Duration::from_secs_f64(left.as_secs_f64() / grows.max(1e-3));
                now.max(self.alone_since) + left
            }
            _ => Mono::NEVER,
        };
    }

    /// Gives a client its whole budget back.
    pub fn forgive(&mut self, now: Mono, client: u64) {
        self.settle(now);
        self.debts.remove(&client);
        self.look(now);
    }

    /// How long a client may still keep the server awake by itself; `None`: no bound.
    pub fn left(&mut self, now: Mono, client: u64) -> Option<Duration> {
        let most = self.most.filter(|_| client != UNLIMITED)?;
        self.settle(now);
        Some(most.saturating_sub(self.debt(now, client)))
    }

    /// How long a client has to wait until it may wake the server again: until an eighth of its budget has
    /// worn off.
    pub fn wait(&self, now: Mono, client: u64) -> Option<Duration> {
        let most = self.most?;
        let over = self.debt(now, client).saturating_sub(most * 7 / 8);
        (!over.is_zero()).then(|| over.mul_f64(DAY.as_secs_f64() / most.as_secs_f64()))
    }

    fn settle(&mut self, now: Mono) {
        let from = self.settled.max(self.alone_since);
        let until = if self.users.is_empty() { now.min(self.lingers_until()) } else { now };
        self.settled = self.settled.max(now);
        let is_charged = self.is_awake && self.most.is_some() && until > from;
        if let Some(user) = self.user.filter(|user| is_charged && *user != UNLIMITED) {
            let time = self.debt(from, user) + until.since(from);
            let worn = self.worn(until.since(from));
            if self.debts.len() >= CLIENTS && !self.debts.contains_key(&user) {
                self.forget(now);
            }
            self.debts.insert(user, Debt { time: time.saturating_sub(worn), at: until });
        }
    }

    fn debt(&self, now: Mono, client: u64) -> Duration {
        let debt = self.debts.get(&client);
        debt.map_or(Duration::ZERO, |it| it.time.saturating_sub(self.worn(now.since(it.at))))
    }

    /// What wears off in some time.
    fn worn(&self, time: Duration) -> Duration {
        time.mul_f64(self.most.unwrap_or_default().as_secs_f64() / DAY.as_secs_f64())
    }

    fn forget(&mut self, now: Mono) {
        let least = self.debts.keys().copied().min_by_key(|&client| self.debt(now, client));
        least.map(|client| self.debts.remove(&client));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOURS: fn(u64) -> Duration = Duration::from_hours;

    fn at(minutes: u64) -> Mono {
        Mono(Duration::from_mins(minutes))
    }

    /// Eight hours a day; awake from the beginning.
    fn budget() -> AwakeBudget {
        let mut budget = AwakeBudget::new(Some(HOURS(8)));
        budget.turn(at(0), true);
        budget
    }

    #[test]
    fn clients_of_the_operators_own_networks_are_charged_for_nothing() {
        let mut budget = budget();
        budget.begin(at(0), UNLIMITED);
        assert!(!budget.is_over(at(60 * 24 * 7)));
        assert_eq!(budget.wait(at(60 * 24 * 7), UNLIMITED), None);
        assert_eq!(budget.left(at(60 * 24 * 7), UNLIMITED), None);
    }

    #[test]
    fn one_client_alone_uses_up_its_budget_and_gets_it_back_within_a_day() {
        let mut budget = budget();
        budget.begin(at(0), 1);
        // By hand: an hour costs an hour and a third of one wears off; 8 h are used up after 12 h.
        assert_eq!(budget.over_at(at(0)), at(12 * 60));
        assert!(!budget.is_over(at(12 * 60 - 1)));
        assert!(budget.is_over(at(12 * 60)));
        assert_eq!(budget.left(at(12 * 60), 1), Some(Duration::ZERO));
        budget.end(at(12 * 60), 1);
        budget.turn(at(12 * 60), false);
        // An eighth of 8 h is 1 h, which takes three hours to wear off.
        assert_eq!(budget.wait(at(12 * 60), 1), Some(HOURS(3)));
        assert_eq!(budget.wait(at(15 * 60), 1), None);
        assert_eq!(budget.left(at(15 * 60), 1), Some(HOURS(1)));
        assert_eq!(budget.wait(at(12 * 60), 2), None, "others are not concerned");
        assert!(!budget.is_over(at(36 * 60)));
    }

    #[test]
    fn a_connection_that_is_left_open_is_charged_to_its_client_and_not_to_the_one_who_asked_last() {
        let mut budget = budget();
        budget.begin(at(0), 1);
        budget.asked(at(1), 2);
        // By hand: the first minute, then eleven hours and ten minutes after the ten that are shared.
        budget.turn(at(11 * 60 + 21), false);
        assert_eq!(budget.left(at(11 * 60 + 21), 2), Some(HOURS(8)));
        assert_eq!(budget.wait(at(11 * 60 + 21), 2), None);
        let owed = budget.debt(at(11 * 60 + 21), 1);
        // Of each hour that is charged two thirds remain; the first minute has worn off.
        assert_eq!(owed.as_secs(), (11 * 60 + 10) * 60 * 2 / 3);
    }

    #[test]
    fn of_two_connections_that_are_left_open_neither_is_charged_until_one_of_them_ends() {
        let mut budget = budget();
        budget.begin(at(0), 1);
        budget.begin(at(0), 2);
        budget.begin(at(0), 1);
        assert!(!budget.is_over(at(60 * 24)));
        budget.end(at(60 * 24), 1);
        assert!(budget.debts.is_empty());
        budget.end(at(60 * 24), 1);
        // By hand: twelve hours after the ten minutes that are shared.
        assert!(!budget.is_over(at(60 * 36 + 9)));
        assert!(budget.is_over(at(60 * 36 + 10)));
        assert_eq!(budget.left(at(60 * 36 + 10), 1), Some(HOURS(8)));
    }

    #[test]
    fn what_others_keep_awake_is_not_charged_to_the_client_that_asked_last() {
        let mut budget = budget();
        // The policy, or the operator, leaves the server awake for days.
        budget.asked(at(0), 1);
        assert!(!budget.is_over(at(72 * 60)));
        // Ten minutes, two thirds of which remain at their end.
        let owed = budget.debt(at(10), 1);
        assert!(owed <= Duration::from_mins(10), "{owed:?}");
        assert_eq!(budget.left(at(72 * 60), 1), Some(HOURS(8)));
        // The next day another client wakes it.
        budget.turn(at(73 * 60), false);
        budget.turn(at(80 * 60), true);
        budget.turn(at(90 * 60), false);
        assert_eq!(budget.left(at(90 * 60), 1), Some(HOURS(8)));
    }

    #[test]
    fn a_client_that_asks_again_before_long_is_charged_for_all_of_it() {
        let mut budget = budget();
        for minute in (0..12 * 60).step_by(9) {
            assert!(!budget.is_over(at(minute)));
            budget.asked(at(minute), 1);
        }
        budget.begin(at(12 * 60), 1);
        assert!(budget.is_over(at(12 * 60)));
    }

    #[test]
    fn a_client_that_asks_again_after_long_is_not_charged_for_the_time_between() {
        let mut budget = budget();
        budget.asked(at(0), 1);
        budget.begin(at(5 * 60), 1);
        // By hand: the ten minutes have worn off after half an hour, and the second use begins just now.
        assert_eq!(budget.left(at(5 * 60), 1), Some(HOURS(8)));
    }

    #[test]
    fn a_server_that_several_clients_use_is_charged_to_none_of_them() {
        let mut budget = budget();
        for minute in (0..48 * 60).step_by(9) {
            budget.asked(at(minute), 1 + minute % 2);
            assert!(!budget.is_over(at(minute)));
        }
        // But for the first nine minutes.
        assert_eq!(budget.left(at(48 * 60), 1), Some(HOURS(8)));
        assert_eq!(budget.left(at(48 * 60), 2), Some(HOURS(8)));
    }

    #[test]
    fn a_person_who_reads_for_an_hour_every_evening_owes_little() {
        let mut budget = budget();
        for day in 0..30 {
            let evening = day * 24 * 60;
            budget.turn(at(evening), true);
            (0..60).for_each(|minute| budget.asked(at(evening + minute), 1));
            assert!(!budget.is_over(at(evening + 60)));
            budget.turn(at(evening + 65), false);
            assert_eq!(budget.wait(at(evening + 65), 1), None);
        }
    }

    #[test]
    fn time_asleep_costs_nothing_and_without_a_bound_nothing_does() {
        let mut budget = budget();
        budget.begin(at(0), 1);
        budget.turn(at(60), false);
        assert!(!budget.is_over(at(100 * 60)));
        let mut none = AwakeBudget::new(None);
        none.turn(at(0), true);
        none.begin(at(0), 1);
        assert!(!none.is_over(at(1000 * 60)));
        assert_eq!((none.over_at(at(0)), none.wait(at(0), 1)), (Mono::NEVER, None));
        assert_eq!(none.left(at(0), 1), None);
    }

    #[test]
    fn a_bound_that_is_changed_or_forgiven_counts_at_once() {
        let mut budget = budget();
        budget.begin(at(0), 1);
        assert!(budget.is_over(at(12 * 60)));
        budget.set_most(at(12 * 60), Some(HOURS(12)));
        assert!(!budget.is_over(at(12 * 60)));
        budget.set_most(at(12 * 60), Some(HOURS(1)));
        assert!(budget.is_over(at(12 * 60)));
        budget.forgive(at(12 * 60), 1);
        assert!(!budget.is_over(at(12 * 60)));
        assert_eq!(budget.left(at(12 * 60), 1), Some(HOURS(1)));
    }

    #[test]
    fn many_clients_do_not_fill_the_memory_nor_hide_who_is_in_debt() {
        let mut budget = budget();
        budget.begin(at(0), u64::MAX);
        assert!(budget.is_over(at(13 * 60)));
        budget.end(at(13 * 60), u64::MAX);
        for client in 1..=10_000 {
            let from = at(13 * 60) + Duration::from_secs(6 * client);
            budget.begin(from, client);
            budget.alone_since = from;
            budget.settle(from + Duration::from_secs(1));
            budget.end(from + Duration::from_secs(1), client);
        }
        assert!(budget.debts.len() <= CLIENTS);
        assert!(budget.debts.contains_key(&u64::MAX));
    }
}
