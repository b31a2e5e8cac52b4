//! Many jobs of a few kinds: which run together, and in which order, by what was measured of each kind.
//!
//! A batch is a measured group, each of whose jobs is of another kind. Batches run one after the other, so that what
//! they cost is the sum of what was measured.

use std::collections::VecDeque;
use std::time::Duration;

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::groups::{Cost, Goal};
use super::run_queue::{Rules, RunQueue};

/// The most steps of one search; longer lists are halved until they need no more.
const MOST_STEPS: usize = 20_000_000;

/// A group of kinds that may run together, and what it costs.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredGroup {
    /// Its kinds, in ascending order.
    pub kinds: Vec<usize>,
    /// Its cost.
    pub cost: Cost,
}

/// Jobs that run together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Batch {
    /// Their places in the list of jobs.
    pub jobs: Vec<usize>,
    /// What the group of their kinds costs.
    pub cost: Cost,
}

/// The cheapest batches of all jobs of a list, in the order in which they run. `kinds` has the kind of each job. The
/// groups must have each kind alone. `None` if they have not.
///
/// Batches that save most for their cost run first, and of equals the one with the first job of the list. That is the
/// `bounded` policy: where a bound is given, a batch that would wait longer than that runs before; where the bound
/// cannot be kept, batches run in the order of the list.
pub fn batches(
    kinds: &[usize],
    groups: &[MeasuredGroup],
    goal: Goal,
    bound: Option<Duration>,
) -> Option<Vec<Batch>> {
    let most = kinds.iter().max().map_or(0, |most| most + 1);
    let alone: Option<Vec<Cost>> = (0..most)
        .map(|kind| groups.iter().find(|group| group.kinds == [kind]).map(|group| group.cost))
        .collect();
    let alone = alone?;
    let mut waiting: Vec<VecDeque<usize>> = vec![VecDeque::new(); most];
    for (job, kind) in kinds.iter().enumerate() {
        waiting[*kind].push_back(job);
    }
    let counts: Vec<usize> = waiting.iter().map(VecDeque::len).collect();
    let usable: Vec<&MeasuredGroup> =
        groups.iter().filter(|group| group.kinds.iter().all(|kind| *kind < most)).collect();
    let mut batches = Vec::new();
    for (group, times) in usable.iter().zip(cheapest(&counts, &usable, goal)?) {
        for _ in 0..times {
            let jobs: Option<Vec<usize>> =
                group.kinds.iter().map(|kind| waiting[*kind].pop_front()).collect();
            batches.push(Batch { jobs: jobs?, cost: group.cost });
        }
    }
    batches.sort_by_key(|batch| batch.jobs.iter().min().copied());
    let worth = |batch: &Batch| {
        let alone: f64 = batch.jobs.iter().map(|job| goal.of(alone[kinds[*job]])).sum();
        alone / goal.of(batch.cost)
    };
    let order = order(&batches, worth, bound);
    Some(order.into_iter().map(|place| batches[place].clone()).collect())
}

/// The order in which the queue of one CPU would run them, if each ran to its end.
fn order(batches: &[Batch], worth: impl Fn(&Batch) -> f64, bound: Option<Duration>) -> Vec<usize> {
    let seconds = |batch: &Batch| Duration::from_secs_f64(batch.cost.seconds.max(0.0));
    let quantum = batches.iter().map(seconds).max().unwrap_or_default();
    let mut queue = RunQueue::new(Rules { promotes: false, bound, quantum });
    for (place, batch) in batches.iter().enumerate() {
        queue.add(place, worth(batch), Duration::ZERO);
    }
    // Nothing is promoted, so nothing is random.
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let mut now = Duration::ZERO;
    let mut order = Vec::new();
    while let Some(pick) = queue.pick(now, &mut rng) {
        now += seconds(&batches[pick.task]);
        order.push(pick.task);
    }
    order
}

/// How many times each group runs, so that so many jobs of each kind have run for the least cost.
fn cheapest(counts: &[usize], groups: &[&MeasuredGroup], goal: Goal) -> Option<Vec<usize>> {
    let states: Option<usize> =
        counts.iter().try_fold(1_usize, |product, count| product.checked_mul(count + 1));
    let steps = states.and_then(|states| states.checked_mul(groups.len().max(1)));
    let is_short = steps.is_some_and(|steps| steps <= MOST_STEPS);
    // One of each kind is not halved: of 14 kinds these are 16,384 states.
    if is_short || counts.iter().all(|count| *count <= 1) {
        return exactly(counts, groups, goal);
    }
    let each = |of: fn(usize) -> usize| counts.iter().map(|count| of(*count)).collect::<Vec<_>>();
    let half = cheapest(&each(|count| count / 2), groups, goal)?;
    let rest = cheapest(&each(|count| count % 2), groups, goal)?;
    Some(half.into_iter().zip(rest).map(|(half, rest)| 2 * half + rest).collect())
}

/// The same, by the least cost of all smaller counts.
fn exactly(counts: &[usize], groups: &[&MeasuredGroup], goal: Goal) -> Option<Vec<usize>> {
    // A state is a number whose digits are the counts of each kind.
    let mut weights = Vec::new();
    let mut states = 1;
    for count in counts {
        weights.push(states);
        states *= count + 1;
    }
    let digit = |state: usize, kind: usize| state / weights[kind] % (counts[kind] + 1);
    let size = |group: &MeasuredGroup| group.kinds.iter().map(|kind| weights[*kind]).sum::<usize>();
    let mut best: Vec<Option<(f64, usize)>> = vec![None; states];
    best[0] = Some((0.0, 0));
    for state in 1..states {
        // Its lowest kind has to run in some batch: it may as well be this one.
        let lowest = (0..counts.len()).find(|kind| digit(state, *kind) > 0)?;
        let usable = groups.iter().enumerate().filter(|(_, group)| {
            group.kinds.contains(&lowest) && group.kinds.iter().all(|kind| digit(state, *kind) > 0)
        });
        let with = |(place, group): (usize, &&MeasuredGroup)| {
            let (rest, _) = best[state - size(group)]?;
            Some((rest + goal.of(group.cost), place))
        };
        best[state] = usable.filter_map(with).min_by(|one, other| one.0.total_cmp(&other.0));
    }
    let mut times = vec![0; groups.len()];
    let mut state = states - 1;
    while state > 0 {
        let (_, place) = best[state]?;
        times[place] += 1;
        state -= size(groups[place]);
    }
    Some(times)
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;

    use super::super::groups::best_groups;
    use super::*;

    fn group(kinds: &[usize], seconds: f64, joules: f64) -> MeasuredGroup {
        MeasuredGroup { kinds: kinds.to_vec(), cost: Cost { seconds, joules } }
    }

    fn total(batches: &[Batch]) -> Cost {
        batches.iter().map(|batch| batch.cost).fold(Cost::default(), Cost::then)
    }

    /// Alone 10 s each; 0 beside 1 needs 12 s for both, and 1 beside 2 needs 11 s, but more energy.
    fn three() -> Vec<MeasuredGroup> {
        vec![
            group(&[0], 10.0, 100.0),
            group(&[1], 10.0, 100.0),
            group(&[2], 10.0, 100.0),
            group(&[0, 1], 12.0, 130.0),
            group(&[1, 2], 11.0, 210.0),
        ]
    }

    #[test]
    fn jobs_run_beside_those_that_suit_them_and_what_saves_most_runs_first() {
        // Two of 0, two of 1, one of 2.
        let kinds = [2, 0, 1, 0, 1];
        let fast = batches(&kinds, &three(), Goal::Time, None).unwrap();
        // One of 1 beside 0, one beside 2: 12 + 11 + 10 s. Both beside 0: 12 + 12 + 10 s.
        assert!((total(&fast).seconds - 33.0).abs() < 1e-9, "{fast:?}");
        let jobs: Vec<&[usize]> = fast.iter().map(|it| it.jobs.as_slice()).collect();
        // 20 s in 11 s, 20 s in 12 s, 10 s in 10 s.
        assert_eq!(jobs, [&[4, 0][..], &[3, 2], &[1]]);
        let frugal = batches(&kinds, &three(), Goal::Energy, None).unwrap();
        assert!((total(&frugal).joules - 360.0).abs() < 1e-9, "{frugal:?}");
    }

    #[test]
    fn a_bound_that_cannot_be_kept_leaves_the_order_of_the_list() {
        let kinds = [2, 0, 1, 0, 1];
        let first = |bound| {
            let batches = batches(&kinds, &three(), Goal::Energy, bound).unwrap();
            batches.iter().map(|it| *it.jobs.iter().min().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(first(None), [1, 3, 0], "the one that runs alone saves nothing");
        assert_eq!(first(Some(Duration::from_secs(1))), [0, 1, 3]);
        // The last one waits for 24 s.
        assert_eq!(first(Some(Duration::from_secs(24))), [1, 3, 0]);
    }

    #[test]
    fn a_kind_that_was_not_measured_alone_has_no_batches() {
        assert_eq!(batches(&[0, 1], &[group(&[0], 1.0, 1.0)], Goal::Time, None), None);
        assert_eq!(batches(&[], &[], Goal::Time, None), Some(Vec::new()));
    }

    #[test]
    fn a_list_of_thousands_is_planned_and_every_job_runs_once() {
        let kinds: Vec<usize> = (0..9_000).map(|job| job % 3).collect();
        let planned = batches(&kinds, &three(), Goal::Time, None).unwrap();
        let mut jobs: Vec<usize> = planned.iter().flat_map(|it| it.jobs.clone()).collect();
        jobs.sort_unstable();
        assert_eq!(jobs, (0..9_000).collect::<Vec<_>>());
        // Each of the 3,000 of kind 1 saves most beside one of kind 2: 11 s, and 10 s for each of kind 0.
        assert!((total(&planned).seconds - 63_000.0).abs() < 1e-6, "{}", total(&planned).seconds);
    }

    /// With one job of each kind, this is the search over all ways to group jobs.
    #[test]
    fn the_cost_is_that_of_the_best_grouping() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let members = |set: usize| (0..5).filter(|kind| set >> kind & 1 == 1).collect::<Vec<_>>();
        for _ in 0..200 {
            let mut groups = Vec::new();
            for set in 1..32_usize {
                if set.is_power_of_two() || rng.random_bool(0.5) {
                    groups.push(group(&members(set), rng.random_range(1.0..100.0), 1.0));
                }
            }
            let planned = batches(&[0, 1, 2, 3, 4], &groups, Goal::Time, None).unwrap();
            let cost = |jobs: &[usize]| {
                if jobs.is_empty() {
                    return Some(Cost::default());
                }
                groups.iter().find(|group| group.kinds == jobs).map(|group| group.cost)
            };
            let (_, best) = best_groups(5, 5, Goal::Time, cost).unwrap();
            assert!((total(&planned).seconds - best.seconds).abs() < 1e-9, "{groups:?}");
        }
    }
}
