//! How long one client alone may keep a server awake: by asking once a second, by reading slowly, or by a
//! connection that is left open.
//!
//! The time that a server is awake is charged to the client that uses it while no other does. It wears off
//! evenly: a client that has used up its day's budget gets it back within a day. Time in which several
//! clients use the server is charged to none of them.

use std::collections::HashMap;
use std::time::Duration;

use foldhash::fast::FixedState;

use crate::time::Mono;

/// For so long after another client has used the server, its present user is not alone.
const SHARED: Duration = Duration::from_mins(10);

const DAY: Duration = Duration::from_hours(24);

/// The network of clients that are charged for nothing: those of the operator's own networks.
pub const UNLIMITED: u64 = 0;

/// Clients remembered at once. The least indebted are forgotten first.
const CLIENTS: usize = 4096;

/// The awake time of one server, and who is charged for it.
#[derive(Debug, Clone)]
pub struct AwakeBudget {
    /// Of one client in a day; none: no bound.
    most: Option<Duration>,
    debts: HashMap<u64, Debt, FixedState>,
    /// Who used the server last.
    user: Option<u64>,
    /// It has been the only one since then.
    alone_since: Mono,
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
            user: None,
            alone_since: Mono::ZERO,
            settled: Mono::ZERO,
            is_awake: false,
            not_before: Mono::NEVER,
        }
    }

    /// From now on the server is awake, or not.
    pub fn turn(&mut self, now: Mono, is_awake: bool) {
        self.settle(now);
        self.is_awake = is_awake;
        self.look(now);
    }

    /// A client that may wake the server uses it.
    pub fn used_by(&mut self, now: Mono, client: u64) {
        if self.user == Some(client) {
            return;
        }
        self.settle(now);
        let shared = if self.user.is_some() { SHARED } else { Duration::ZERO };
        (self.user, self.alone_since) = (Some(client), now + shared);
        self.look(now);
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

    /// Everything until now is charged: from when on may somebody be over its budget?
    fn look(&mut self, now: Mono) {
        self.not_before = match (self.most, self.user) {
            (Some(most), Some(user)) => {
                let left = most.saturating_sub(self.debt(now, user));
                // While it is charged, what it owes wears off as well.
                let grows = 1.0 - most.as_secs_f64() / DAY.as_secs_f64();
                let left = Duration::from_secs_f64(left.as_secs_f64() / grows.max(1e-3));
                now.max(self.alone_since) + left
            }
            _ => Mono::NEVER,
        };
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
        self.settled = self.settled.max(now);
        let is_charged = self.is_awake && self.most.is_some() && now > from;
        if let Some(user) = self.user.filter(|user| is_charged && *user != UNLIMITED) {
            let time = self.debt(from, user) + now.since(from);
            let worn = self.worn(now.since(from));
            if self.debts.len() >= CLIENTS && !self.debts.contains_key(&user) {
                self.forget(now);
            }
            self.debts.insert(user, Debt { time: time.saturating_sub(worn), at: now });
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
        budget.used_by(at(0), UNLIMITED);
        assert!(!budget.is_over(at(60 * 24 * 7)));
        assert_eq!(budget.wait(at(60 * 24 * 7), UNLIMITED), None);
    }

    #[test]
    fn one_client_alone_uses_up_its_budget_and_gets_it_back_within_a_day() {
        let mut budget = budget();
        budget.used_by(at(0), 1);
        // By hand: an hour costs an hour and a third of one wears off; 8 h are used up after 12 h.
        assert_eq!(budget.over_at(at(0)), at(12 * 60));
        assert!(!budget.is_over(at(12 * 60 - 1)));
        assert!(budget.is_over(at(12 * 60)));
        budget.turn(at(12 * 60), false);
        // An eighth of 8 h is 1 h, which takes three hours to wear off.
        assert_eq!(budget.wait(at(12 * 60), 1), Some(HOURS(3)));
        assert_eq!(budget.wait(at(15 * 60), 1), None);
        assert_eq!(budget.wait(at(12 * 60), 2), None, "others are not concerned");
        assert!(!budget.is_over(at(36 * 60)));
    }

    #[test]
    fn a_server_that_several_clients_use_is_charged_to_none_of_them() {
        let mut budget = budget();
        for minute in (0..48 * 60).step_by(9) {
            budget.used_by(at(minute), minute % 2);
            assert!(!budget.is_over(at(minute)));
        }
        assert!(budget.debts.is_empty(), "{:?}", budget.debts);
    }

    #[test]
    fn a_person_who_reads_for_an_hour_every_evening_owes_little() {
        let mut budget = budget();
        for day in 0..30 {
            let evening = day * 24 * 60;
            budget.turn(at(evening), true);
            (0..60).for_each(|minute| budget.used_by(at(evening + minute), 1));
            assert!(!budget.is_over(at(evening + 60)));
            budget.turn(at(evening + 65), false);
            assert_eq!(budget.wait(at(evening + 65), 1), None);
        }
    }

    #[test]
    fn time_asleep_costs_nothing_and_without_a_bound_nothing_does() {
        let mut budget = budget();
        budget.used_by(at(0), 1);
        budget.turn(at(60), false);
        assert!(!budget.is_over(at(100 * 60)));
        let mut none = AwakeBudget::new(None);
        none.turn(at(0), true);
        none.used_by(at(0), 1);
        assert!(!none.is_over(at(1000 * 60)));
        assert_eq!((none.over_at(at(0)), none.wait(at(0), 1)), (Mono::NEVER, None));
    }

    #[test]
    fn many_clients_do_not_fill_the_memory_nor_hide_who_is_in_debt() {
        let mut budget = budget();
        budget.used_by(at(0), u64::MAX);
        assert!(budget.is_over(at(13 * 60)));
        for client in 0..10_000 {
            let minute = 13 * 60 + client / 10;
            budget.used_by(at(minute), client);
            budget.alone_since = at(minute);
            budget.settle(at(minute) + Duration::from_secs(1));
        }
        assert!(budget.debts.len() <= CLIENTS);
        assert!(budget.debts.contains_key(&u64::MAX));
    }
}
