//! Each user's part of a machine's energy: by share of CPU time, for a bounded number of names.
//!
//! Energy of a time goes to each user as `joules x its CPU time / busy CPU time of the machine`. The idle
//! machine's energy is shared out with it, since the users keep the machine on. In a time without any CPU
//! time, and for users without a name of their own, it goes to [`Attribution::others`].
//!
//! A name is given a place when it is among the busiest of a time; it keeps the place as long as it
//! is there. So a counter of a name never falls, and what was given out adds up to what came in.

use std::time::Duration;

use crate::quantity::Joules;

/// A user of CPU time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// What it is called; all of one name are one.
    pub name: String,
    /// CPU time of the time that is shared out. Zero for what is there and did nothing.
    pub used: Duration,
}

/// Time of an accelerator's processors, by user as far as that is known.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AcceleratorTime {
    /// Seconds of all its processors that one job used.
    pub ours: f64,
    /// That others used.
    pub others: f64,
    /// That processes used which cannot be seen from here: they may be ours.
    pub unseen: f64,
}

/// More of an accelerator's time than this must not be of processes that cannot be seen.
const MOST_UNSEEN: f64 = 0.05;

impl AcceleratorTime {
    /// The job's share of its energy; `None` where too little is known. The job has no share in an
    /// accelerator that no process used.
    pub fn share(&self) -> Option<f64> {
        let all = self.ours + self.others + self.unseen;
        if self.unseen > MOST_UNSEEN * all {
            return None;
        }
        Some(if all > 0.0 { self.ours / all } else { 0.0 })
    }
}

/// Energy by name.
#[derive(Debug, Clone)]
pub struct Attribution {
    places: usize,
    named: Vec<(String, Joules)>,
    others: Joules,
    gone: Joules,
}

impl Attribution {
    /// Without a name yet; at most `places` names.
    pub const fn new(places: usize) -> Self {
        Self { places, named: Vec::new(), others: Joules::ZERO, gone: Joules::ZERO }
    }

    /// Shares out the energy of a time in which the machine's CPUs were busy for `busy` in all.
    /// `users` are all that there are, each name once.
    pub fn share(&mut self, joules: Joules, users: &[User], busy: Duration) {
        self.seat(users);
        let used: Duration = users.iter().map(|user| user.used).sum();
        // The machine's time is counted in ticks, as theirs is.
        let busy = busy.max(used).as_secs_f64();
        let mut left = joules;
        if busy > 0.0 {
            for (name, sum) in &mut self.named {
                if let Some(user) = users.iter().find(|user| user.name == *name) {
                    let part = joules * (user.used.as_secs_f64() / busy);
                    *sum += part;
                    left = left - part;
                }
            }
        }
        self.others += left;
    }

    /// Gives the busiest places: free ones, or those of names that are there no more.
    fn seat(&mut self, users: &[User]) {
        let has_place =
            |named: &[(String, Joules)], name: &str| named.iter().any(|(other, _)| other == name);
        let mut busiest: Vec<&User> =
            users.iter().filter(|user| user.used > Duration::ZERO).collect();
        busiest.sort_by(|one, other| other.used.cmp(&one.used).then(one.name.cmp(&other.name)));
        busiest.truncate(self.places);
        for user in busiest {
            if has_place(&self.named, &user.name) {
                continue;
            }
            if self.named.len() == self.places {
                let absent = |(name, _): &(String, Joules)| users.iter().all(|it| it.name != *name);
                let Some(place) = self.named.iter().position(absent) else { return };
                self.gone += self.named.swap_remove(place).1;
            }
            self.named.push((user.name.clone(), Joules::ZERO));
        }
    }

    /// Those that have a place, and their energy.
    pub fn named(&self) -> impl Iterator<Item = (&str, Joules)> {
        self.named.iter().map(|(name, joules)| (name.as_str(), *joules))
    }

    /// Of all that had no place at the time, and of interrupts and what ended unseen.
    pub const fn others(&self) -> Joules {
        self.others
    }

    /// Of those that have lost their place.
    pub const fn gone(&self) -> Joules {
        self.gone
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn users(used: &[(&str, u64)]) -> Vec<User> {
        let one = |(name, millis): &(&str, u64)| User {
            name: (*name).to_owned(),
            used: Duration::from_millis(*millis),
        };
        used.iter().map(one).collect()
    }

    fn parts(attribution: &Attribution) -> Vec<(&str, f64)> {
        attribution.named().map(|(name, joules)| (name, joules.get())).collect()
    }

    #[test]
    fn each_gets_its_share_of_busy_time_and_the_rest_is_others() {
        let mut attribution = Attribution::new(2);
        let busy = Duration::from_secs(2);
        attribution.share(Joules(20.0), &users(&[("a", 1000), ("b", 500), ("c", 100)]), busy);
        assert_eq!(parts(&attribution), [("a", 10.0), ("b", 5.0)]);
        assert_eq!(attribution.others(), Joules(5.0));
        // A time in which no user did anything.
        attribution.share(Joules(3.0), &users(&[("a", 0), ("b", 0)]), Duration::ZERO);
        assert_eq!(attribution.others(), Joules(8.0));
    }

    #[test]
    fn energy_of_an_accelerator_goes_by_its_own_time() {
        let share = |ours, others, unseen| AcceleratorTime { ours, others, unseen }.share();
        assert_eq!(share(3.0, 1.0, 0.0), Some(0.75));
        // `sleep` beside another user's job, and on an accelerator that no process uses.
        assert_eq!((share(0.0, 4.0, 0.0), share(0.0, 0.0, 0.0)), (Some(0.0), Some(0.0)));
        assert_eq!((share(0.0, 3.0, 1.0), share(0.0, 0.0, 1.0)), (None, None));
    }

    #[test]
    fn a_place_is_kept_until_its_name_has_gone() {
        let mut attribution = Attribution::new(1);
        let busy = Duration::from_secs(1);
        attribution.share(Joules(10.0), &users(&[("a", 1000)]), busy);
        attribution.share(Joules(10.0), &users(&[("a", 0), ("b", 1000)]), busy);
        assert_eq!((parts(&attribution), attribution.others()), (vec![("a", 10.0)], Joules(10.0)));
        attribution.share(Joules(10.0), &users(&[("b", 1000)]), busy);
        assert_eq!((parts(&attribution), attribution.gone()), (vec![("b", 10.0)], Joules(10.0)));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_counter_falls(
            times in prop::collection::vec(
                (0.0..1e6_f64, prop::collection::btree_map("[a-f]", 0..5000_u64, 0..6), 0..9000_u64), 1..40),
            places in 0..4_usize,
        ) {
            let mut attribution = Attribution::new(places);
            let mut given = 0.0;
            for (joules, used, busy) in times {
                let before: Vec<(String, Joules)> =
                    attribution.named().map(|(name, joules)| (name.to_owned(), joules)).collect();
                let used: Vec<(&str, u64)> =
                    used.iter().map(|(name, used)| (name.as_str(), *used)).collect();
                attribution.share(Joules(joules), &users(&used), Duration::from_millis(busy));
                given += joules;
                prop_assert!(attribution.named().count() <= places);
                for (name, joules) in attribution.named() {
                    let had = before.iter().find(|(other, _)| other == name);
                    prop_assert!(had.is_none_or(|(_, had)| joules >= *had));
                }
            }
            let sum: f64 = attribution.named().map(|(_, joules)| joules.get()).sum();
            let all = sum + attribution.others().get() + attribution.gone().get();
            prop_assert!((all - given).abs() <= 1e-9 * given.max(1.0), "{all} {given}");
            prop_assert!(attribution.others().get() >= -1e-9 * given);
        }
    }
}
