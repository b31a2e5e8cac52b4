use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

fn rng() -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(7)
}

/// Waits of each pick of `task`, in quanta, of a queue whose `tasks` tasks have these priorities for ever.
fn waits_of(task: TaskId, priorities: &[f64], rules: Rules, quanta: u32) -> Vec<f64> {
    let (mut queue, mut rng) = (RunQueue::new(rules), rng());
    (0..priorities.len()).for_each(|task| queue.add(task, f64::INFINITY, Duration::ZERO));
    let mut waits = Vec::new();
    let mut now = Duration::ZERO;
    for _ in 0..quanta {
        let pick = queue.pick(now, &mut rng).unwrap();
        if pick.task == task {
            waits.push(pick.waited.as_secs_f64() / rules.quantum.as_secs_f64());
        }
        now += rules.quantum;
        queue.add(pick.task, priorities[pick.task], now);
    }
    waits
}

#[test]
fn the_highest_runs_next_and_of_equals_the_one_that_waited_longest() {
    let mut queue = RunQueue::new(Rules { promotes: false, ..Policy::Published.rules() });
    let opj = |operations| Policy::Published.priority(Quantum { operations, joules: 2.0 }, 1.0);
    for (task, operations) in [(0, 6.0), (1, 8.0), (2, 8.0)] {
        queue.add(task, opj(operations), Duration::ZERO);
    }
    queue.add(3, f64::INFINITY, Duration::ZERO);
    let mut order = Vec::new();
    while let Some(pick) = queue.pick(Duration::ZERO, &mut rng()) {
        order.push(pick.task);
    }
    assert_eq!(order, [3, 1, 2, 0]);
}

#[test]
fn a_task_that_leaves_is_not_chosen() {
    let mut queue = RunQueue::new(Policy::Bounded(Duration::ZERO).rules());
    (0..3_u32).for_each(|task| queue.add(task as usize, f64::from(task), Duration::ZERO));
    assert!(queue.remove(2) && !queue.remove(2));
    // Neither as the highest, nor as one that has waited long, nor by promotion.
    let mut order = Vec::new();
    while let Some(pick) = queue.pick_by(QUANTUM, |tasks| tasks - 1) {
        order.push(pick.task);
    }
    assert_eq!((order, queue.len()), (vec![0, 1], 0));
}

#[test]
fn relative_compares_a_task_with_itself() {
    // Slow by nature, and undisturbed; fast, and slowed down to two thirds.
    let (slow, fast) =
        (Quantum { operations: 1.0, joules: 1.0 }, Quantum { operations: 4.0, joules: 1.0 });
    assert!(Policy::Published.priority(slow, 1.0) < Policy::Published.priority(fast, 6.0));
    assert!(Policy::Relative.priority(slow, 1.0) > Policy::Relative.priority(fast, 6.0));
}

#[test]
fn promotion_is_uniform_over_all_ranks() {
    let (mut queue, mut rng) = (RunQueue::new(Policy::Published.rules()), rng());
    let (tasks, rounds) = (10, 100_000);
    for task in 0..tasks {
        queue.add(task, task as f64, Duration::ZERO);
    }
    let mut counts = vec![0.0; tasks];
    for _ in 0..rounds {
        let rank = queue.promote(|tasks| rng.random_range(0..tasks)).unwrap();
        counts[rank] += 1.0;
        // The task of that rank runs next, and goes back to where it was.
        let pick = queue.pick(Duration::ZERO, &mut rng).unwrap();
        assert_eq!(pick.task, rank);
        queue.add(rank, rank as f64, Duration::ZERO);
        queue.quanta = 0;
    }
    let expected = f64::from(rounds) / tasks as f64;
    let chi_squared: f64 = counts.iter().map(|it| (it - expected).powi(2) / expected).sum();
    // The 99.9th percentile of chi-squared with 9 degrees of freedom, by tables.
    assert!(chi_squared < 27.88, "{chi_squared}");
}

#[test]
fn the_lowest_of_n_waits_n_squared_quanta_in_the_mean() {
    for tasks in [2, 4, 8] {
        let priorities: Vec<f64> = (0..tasks).map(f64::from).collect();
        let waits = waits_of(0, &priorities, Policy::Published.rules(), 4_000_000);
        // From the start of one quantum to that of the next, which is how often it runs.
        let mean = waits.iter().sum::<f64>() / waits.len() as f64 + 1.0;
        let n = f64::from(tasks);
        // Waits are n times geometric ones of mean n: their standard deviation is about the mean.
        let error = n * n / (waits.len() as f64).sqrt();
        assert!((mean - n * n).abs() < 5.0 * error, "{tasks}: {mean} with {error}");
    }
}

#[test]
fn once_in_a_thousand_the_lowest_of_8_waits_1_7_s_and_of_64_112_s() {
    let closed = |n: f64| (0.001_f64.ln() / (1.0 - 1.0 / n).ln()).ceil() * n * 0.004;
    assert!((closed(8.0) - 1.7).abs() < 0.05, "{}", closed(8.0));
    assert!((closed(64.0) - 112.0).abs() < 1.0, "{}", closed(64.0));
    let priorities: Vec<f64> = (0..8).map(f64::from).collect();
    let mut waits = waits_of(0, &priorities, Policy::Published.rules(), 8_000_000);
    waits.sort_by(f64::total_cmp);
    let above = waits.iter().filter(|it| **it * 0.004 > closed(8.0)).count() as f64;
    let share = above / waits.len() as f64;
    // 125,000 waits: 125 are expected above, with a standard deviation of 11.
    assert!((share - 0.001).abs() < 0.0005, "{share}");
}

/// The longest wait in a queue whose tasks come and go, and run for less than a quantum at times.
fn longest_wait(policy: Policy, quanta: u64, seed: u64) -> Duration {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut queue = RunQueue::new(policy.rules());
    let mut now = Duration::ZERO;
    let (mut free, mut longest) = ((0..TASKS).collect::<Vec<_>>(), Duration::ZERO);
    for _ in 0..quanta {
        while let Some(task) = free.pop_if(|_| rng.random_ratio(1, 20)) {
            queue.add(task, f64::INFINITY, now);
        }
        let Some(pick) = queue.pick(now, &mut rng) else {
            now += QUANTUM;
            continue;
        };
        longest = longest.max(pick.waited);
        // Low numbers are low priorities, so that they would starve.
        now += if rng.random_ratio(1, 3) { QUANTUM / 9 } else { QUANTUM };
        if rng.random_ratio(1, 200) {
            free.push(pick.task);
        } else {
            queue.add(pick.task, pick.task as f64, now);
        }
    }
    longest
}

const TASKS: usize = 12;

fn is_kept(bound_ms: u64, quanta: u64) {
    let bound = Duration::from_millis(bound_ms);
    let queue = RunQueue::new(Policy::Bounded(bound).rules());
    assert_eq!(queue.longest_wait(TASKS), Some(bound + QUANTUM), "it can be kept");
    let longest = longest_wait(Policy::Bounded(bound), quanta, bound_ms);
    assert!(longest <= bound + QUANTUM, "{longest:?}");
}

#[test]
fn no_wait_is_longer_than_the_bound_and_a_quantum() {
    is_kept(44, 300_000);
    is_kept(200, 300_000);
    let without = longest_wait(Policy::Published, 300_000, 200);
    assert!(without > Duration::from_secs(1), "{without:?}: the bound does not matter");
}

#[test]
#[ignore = "10^8 quanta: `make soak-schedule` runs it"]
fn no_wait_is_longer_than_the_bound_and_a_quantum_in_10_to_the_8_quanta() {
    is_kept(44, 50_000_000);
    is_kept(200, 50_000_000);
}

#[test]
fn with_more_tasks_than_the_bound_has_quanta_each_runs_in_its_turn() {
    let rules = Policy::Bounded(Duration::from_millis(10)).rules();
    let priorities: Vec<f64> = (0..20).map(f64::from).collect();
    let waits = waits_of(0, &priorities, rules, 20_000);
    assert_eq!(waits.len(), 1_000);
    let queue = RunQueue::new(rules);
    assert_eq!(queue.longest_wait(20), Some(QUANTUM * 20));
    assert_eq!(RunQueue::new(Policy::Published.rules()).longest_wait(20), None);
}
