use super::super::matrix::{Matrix, NoContention};
use super::*;

const MACHINE: Machine = Machine { cpus: 4, idle_watts: 50.0, busy_watts: 12.5 };

/// Eight tasks of 100 s, as the dissertation has them; with different numbers of operations.
fn tasks() -> Vec<Task> {
    let task = |application| Task {
        application,
        seconds: 100.0,
        operations_per_s: 1e9 * (1.0 + application as f64),
    };
    (0..8).map(task).collect()
}

fn mean(scheduler: Scheduler, of: impl Fn(&Outcome) -> f64) -> f64 {
    let run = |seed| of(&simulate(&MACHINE, &tasks(), &NoContention, scheduler, seed));
    let runs = 4;
    (0..runs).map(run).sum::<f64>() / runs as f64
}

const SCHEDULERS: [Scheduler; 6] = [
    Scheduler::Fair,
    Scheduler::Fifo,
    Scheduler::PromotionOnly,
    Scheduler::By(Policy::Published),
    Scheduler::By(Policy::Relative),
    Scheduler::By(Policy::Bounded(Duration::from_millis(100))),
];

#[test]
fn without_contention_the_order_alone_changes_the_mean_completion() {
    // Two tasks on each CPU. Fair sharing: both end at 200 s. Published: the lower one gets a quarter of the quanta (half
    // of every second one), so the higher one ends at 100 / 0.75 s. To the end: 100 and 200 s.
    for (scheduler, closed) in [
        (Scheduler::Fair, 200.0),
        (Scheduler::By(Policy::Published), f64::midpoint(100.0 / 0.75, 200.0)),
        (Scheduler::PromotionOnly, f64::midpoint(100.0 / 0.75, 200.0)),
        (Scheduler::Fifo, 150.0),
        (Scheduler::Solo, 100.0),
    ] {
        let seconds = mean(scheduler, Outcome::mean_completion);
        assert!((seconds / closed - 1.0).abs() < 0.01, "{scheduler:?}: {seconds} s");
    }
}

#[test]
fn without_contention_no_policy_changes_the_makespan() {
    for scheduler in SCHEDULERS {
        let makespan = mean(scheduler, |outcome| outcome.makespan);
        assert!((makespan / 200.0 - 1.0).abs() < 0.01, "{scheduler:?}: {makespan} s");
        let joules = mean(scheduler, |outcome| outcome.joules);
        assert!((joules / 20_000.0 - 1.0).abs() < 0.01, "{scheduler:?}: {joules} J");
    }
}

#[test]
fn energy_while_a_task_is_unfinished_counts_what_overlaps_more_than_once() {
    let joules = mean(Scheduler::Fair, Outcome::mean_joules_during);
    // 100 W for 200 s, eight times, where the machine used it once.
    assert!((joules / 20_000.0 - 1.0).abs() < 0.01, "{joules}");
    let solo = simulate(&MACHINE, &tasks(), &NoContention, Scheduler::Solo, 1);
    assert_eq!((solo.makespan, solo.joules), (800.0, 50_000.0));
    assert_eq!(solo.joules_during, [6_250.0; 8]);
}

#[test]
fn a_bound_limits_the_longest_wait() {
    let longest = |policy| {
        let tasks: Vec<Task> = tasks().into_iter().chain(tasks()).collect();
        let machine = Machine { cpus: 1, ..MACHINE };
        let outcome = simulate(&machine, &tasks, &NoContention, Scheduler::By(policy), 3);
        outcome.longest_wait
    };
    let bound = Duration::from_millis(100);
    assert!(longest(Policy::Bounded(bound)) <= bound + QUANTUM);
    // 16 tasks: 16² quanta in the mean are a second.
    assert!(longest(Policy::Published) > Duration::from_secs(1));
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    for scheduler in SCHEDULERS {
        let run = |seed| simulate(&MACHINE, &tasks(), &NoContention, scheduler, seed);
        assert_eq!(run(1), run(1), "{scheduler:?}");
    }
}

#[test]
fn tasks_that_disturb_each_other_lose_what_the_matrix_says() {
    // Two CPUs, two tasks: both run at 0.8 until the end.
    let names = vec!["a".to_owned(), "b".to_owned()];
    let matrix = Matrix::new(names, [(vec![0, 1], vec![0.8, 0.8])].into());
    let machine = Machine { cpus: 2, ..MACHINE };
    let tasks = &tasks()[..2];
    for scheduler in SCHEDULERS {
        let outcome = simulate(&machine, tasks, &matrix, scheduler, 1);
        assert!((outcome.makespan - 125.0).abs() < 1e-6, "{scheduler:?}: {outcome:?}");
    }
}

#[test]
fn more_cpus_than_tasks_stay_idle() {
    let outcome = simulate(&MACHINE, &tasks()[..1], &NoContention, Scheduler::Fair, 1);
    assert_eq!((outcome.makespan, outcome.joules), (100.0, 6_250.0));
    let none = simulate(&MACHINE, &[], &NoContention, Scheduler::Fair, 1);
    assert_eq!((none.makespan, none.mean_completion()), (0.0, 0.0));
}
