//! Which jobs to run together: groups that run one after the other, each job of a group at the same time.

use serde::Serialize;

use super::machine::{Machine, Task, speeds_in_order};
use super::matrix::Speeds;

/// Beyond this many jobs, [`best_groups`] would need minutes.
pub const MOST_JOBS: usize = 14;

/// What a group costs, or several one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Cost {
    /// Until the last job is finished, s.
    pub seconds: f64,
    /// Energy of the machine until then, J.
    pub joules: f64,
}

impl Cost {
    /// One after the other.
    #[must_use]
    pub fn then(self, other: Self) -> Self {
        Self { seconds: self.seconds + other.seconds, joules: self.joules + other.joules }
    }
}

/// What is to be least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// The time until all jobs are finished.
    Time,
    /// The energy of the machine until then.
    Energy,
}

impl Goal {
    /// What it counts of a cost.
    pub const fn of(self, cost: Cost) -> f64 {
        match self {
            Self::Time => cost.seconds,
            Self::Energy => cost.joules,
        }
    }
}

/// The cost of jobs that begin together, each on a CPU of its own. When one is finished, the others go on without it.
pub fn cost_of(machine: &Machine, jobs: &[Task], speeds: &impl Speeds, group: &[usize]) -> Cost {
    let mut left: Vec<(usize, f64)> = group.iter().map(|job| (*job, jobs[*job].seconds)).collect();
    let mut cost = Cost::default();
    while !left.is_empty() {
        let running: Vec<usize> = left.iter().map(|(job, _)| *job).collect();
        let speeds = speeds_in_order(speeds, jobs, &running);
        let ends = left.iter().zip(&speeds).map(|((_, left), speed)| left / speed);
        let (first, seconds) = ends
            .enumerate()
            .min_by(|(_, one), (_, other)| one.total_cmp(other))
            .unwrap_or((0, 0.0));
        cost = cost.then(Cost { seconds, joules: machine.watts(running.len()) * seconds });
        for ((_, left), speed) in left.iter_mut().zip(&speeds) {
            *left -= seconds * speed;
        }
        left.remove(first);
    }
    cost
}

/// The groups, of at most `most` jobs each, that cost least: all ways to group the jobs are considered, of which each
/// group has a cost. `None` if there are none, or more than [`MOST_JOBS`] jobs.
pub fn best_groups(
    jobs: usize,
    most: usize,
    goal: Goal,
    cost: impl Fn(&[usize]) -> Option<Cost>,
) -> Option<(Vec<Vec<usize>>, Cost)> {
    if jobs > MOST_JOBS {
        return None;
    }
    // By the set of jobs, as bits: the least cost of them all, and the last group of it.
    let mut best: Vec<Option<(Cost, u32)>> = vec![None; 1 << jobs];
    best[0] = Some((Cost::default(), 0));
    let members = |set: u32| (0..jobs).filter(|job| set >> job & 1 == 1).collect::<Vec<_>>();
    let costs: Vec<Option<Cost>> = (0..1_u32 << jobs)
        .map(|set| cost(&members(set)).filter(|_| set.count_ones() as usize <= most))
        .collect();
    for set in 1..1_u32 << jobs {
        // The lowest job is in one of the groups: it may as well be the last one.
        let lowest = 1 << set.trailing_zeros();
        let others = set ^ lowest;
        let mut least: Option<(Cost, u32)> = None;
        let mut beside = others;
        loop {
            let group = lowest | beside;
            if let (Some(own), Some((rest, _))) =
                (costs[group as usize], best[(set ^ group) as usize])
            {
                let all = rest.then(own);
                if least.is_none_or(|(least, _)| goal.of(all) < goal.of(least)) {
                    least = Some((all, group));
                }
            }
            if beside == 0 {
                break;
            }
            beside = (beside - 1) & others;
        }
        best[set as usize] = least;
    }
    let mut set = (1_u32 << jobs) - 1;
    let (total, _) = best[set as usize]?;
    let mut groups = Vec::new();
    while set != 0 {
        let (_, group) = best[set as usize]?;
        groups.push(members(group));
        set ^= group;
    }
    Some((groups, total))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::matrix::Matrix;
    use super::*;

    const MACHINE: Machine = Machine { cpus: 2, idle_watts: 40.0, busy_watts: 10.0 };

    fn job(application: usize, seconds: f64) -> Task {
        Task { application, seconds, operations_per_s: 1.0 }
    }

    #[test]
    fn when_a_job_is_finished_the_others_speed_up() {
        // Together both run at half speed. The first is finished after 20 s, and the second has then 20 s of its 30 left.
        let names = vec!["a".to_owned(), "b".to_owned()];
        let matrix = Matrix::new(names, BTreeMap::from([(vec![0, 1], vec![0.5, 0.5])]));
        let jobs = [job(0, 10.0), job(1, 30.0)];
        let cost = cost_of(&MACHINE, &jobs, &matrix, &[0, 1]);
        assert_eq!(cost, Cost { seconds: 40.0, joules: 20.0 * 60.0 + 20.0 * 50.0 });
        assert_eq!(cost_of(&MACHINE, &jobs, &matrix, &[]), Cost::default());
    }

    #[test]
    fn the_best_groups_are_those_of_a_naive_search() {
        // Costs without a rule in them, so that no shortcut works.
        let cost = |group: &[usize]| {
            let code = group.iter().fold(7_u64, |code, job| code * 31 + *job as u64 + 1);
            let hash = code.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44;
            let seconds = hash as f64 * f64::from(!group.is_empty());
            Cost { seconds, joules: 2.0 * seconds }
        };
        for (jobs, most) in [(1, 1), (5, 2), (6, 3), (7, 7)] {
            let (groups, total) =
                best_groups(jobs, most, Goal::Time, |group| Some(cost(group))).unwrap();
            assert!(groups.iter().all(|group| group.len() <= most));
            let mut all: Vec<usize> = groups.concat();
            all.sort_unstable();
            assert_eq!(all, (0..jobs).collect::<Vec<_>>());
            let sum: f64 = groups.iter().map(|group| cost(group).seconds).sum();
            assert_eq!((total.seconds, total.joules), (sum, 2.0 * sum));
            let least = naive(&mut Vec::new(), 0, jobs, most, &cost);
            assert!((total.seconds - least).abs() < 1e-9, "{jobs} {most}");
        }
        assert_eq!(best_groups(3, 0, Goal::Time, |group| Some(cost(group))), None);
        assert_eq!(best_groups(MOST_JOBS + 1, 2, Goal::Time, |group| Some(cost(group))), None);
        // A group without a cost is in no answer.
        let but_one = |group: &[usize]| Some(cost(group)).filter(|_| group != [1]);
        let (groups, _) = best_groups(3, 2, Goal::Time, but_one).unwrap();
        assert!(!groups.contains(&vec![1]), "{groups:?}");
        assert_eq!(best_groups(3, 1, Goal::Time, but_one), None);
    }

    /// Puts each job into each group that there is, and into one of its own.
    fn naive(
        groups: &mut Vec<Vec<usize>>,
        job: usize,
        jobs: usize,
        most: usize,
        cost: &impl Fn(&[usize]) -> Cost,
    ) -> f64 {
        if job == jobs {
            return groups.iter().map(|group| cost(group).seconds).sum();
        }
        let mut least = f64::INFINITY;
        for place in 0..groups.len() {
            if groups[place].len() < most {
                groups[place].push(job);
                least = least.min(naive(groups, job + 1, jobs, most, cost));
                groups[place].pop();
            }
        }
        groups.push(vec![job]);
        least = least.min(naive(groups, job + 1, jobs, most, cost));
        groups.pop();
        least
    }

    /// Eight jobs of 100 s on the matrix of 16 CPUs, and what groups cost by everything that was measured.
    fn excess_of_advice(goal: Goal, advice_from: &Matrix) -> f64 {
        let measured = Matrix::read(crate::SIXTEEN_CPUS).unwrap();
        let machine = Machine { cpus: 4, ..MACHINE };
        let jobs: Vec<Task> = (0..8).map(|application| job(application, 100.0)).collect();
        let cost = |group: &[usize]| cost_of(&machine, &jobs, &measured, group);
        let predicted = |group: &[usize]| Some(cost_of(&machine, &jobs, advice_from, group));
        let (advice, _) = best_groups(jobs.len(), 4, goal, predicted).unwrap();
        let advised: f64 = advice.iter().map(|group| goal.of(cost(group))).sum();
        let in_goal = |group: &[usize]| Cost { seconds: goal.of(cost(group)), joules: 0.0 };
        advised / naive(&mut Vec::new(), 0, jobs.len(), 4, &in_goal) - 1.0
    }

    #[test]
    fn advice_from_all_measured_sets_is_the_best_of_all_groupings_and_from_pairs_it_is_not() {
        let measured = Matrix::read(crate::SIXTEEN_CPUS).unwrap();
        for (goal, documented) in [(Goal::Time, 0.199), (Goal::Energy, 0.207)] {
            let excess = excess_of_advice(goal, &measured);
            assert!(excess.abs() < 1e-12, "{goal:?}: {excess}");
            // Repeated sets of this matrix differ by 10 %, as much as pairs do from each other. So pairs do not show
            // which fours are good, and the docs say so.
            let excess = excess_of_advice(goal, &measured.without_larger_sets());
            assert!((0.03..0.25).contains(&excess), "{goal:?}: {excess}");
            assert!((excess - documented).abs() < 0.001, "{goal:?}: {excess}");
        }
    }

    #[test]
    fn energy_and_time_can_want_different_groups() {
        let beside = |speed| {
            let names = vec!["a".to_owned(), "b".to_owned()];
            Matrix::new(names, BTreeMap::from([(vec![0, 1], vec![speed, speed])]))
        };
        let jobs = [job(0, 10.0), job(1, 10.0)];
        let groups = |goal, machine: &Machine, speed| {
            let matrix = beside(speed);
            let cost = |group: &[usize]| Some(cost_of(machine, &jobs, &matrix, group));
            best_groups(2, 2, goal, cost).unwrap().0.len()
        };
        let hungry = Machine { cpus: 2, idle_watts: 1.0, busy_watts: 50.0 };
        // Undisturbed, together is better for both.
        assert_eq!([Goal::Time, Goal::Energy].map(|goal| groups(goal, &MACHINE, 1.0)), [1, 1]);
        // At less than half of their speeds, apart.
        assert_eq!([Goal::Time, Goal::Energy].map(|goal| groups(goal, &MACHINE, 0.48)), [2, 2]);
        // At 0.6 they win time, 16.7 s for 20 s, and 101 W for that is more than 51 W for 20 s.
        assert_eq!([Goal::Time, Goal::Energy].map(|goal| groups(goal, &hungry, 0.6)), [1, 2]);
    }
}
