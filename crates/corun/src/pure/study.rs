//! The published evaluation, repeated on a measured matrix: eight tasks of 100 s alone on four CPUs.

use std::time::Duration;

use nightwatt_energy::stats::moments::Moments;
use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::machine::{Machine, Outcome, Scheduler, Task, simulate};
use super::matrix::Matrix;
use super::run_queue::Policy;

/// Run time of each task alone, s.
const SECONDS: f64 = 100.0;

/// Four CPUs that run one task each. Of the power of the busy machine, half is there when it is idle: this only scales
/// energy, since all CPUs are busy almost to the end.
pub const MACHINE: Machine = Machine { cpus: 4, idle_watts: 50.0, busy_watts: 12.5 };

/// The longest wait that the bounded policy allows.
pub const BOUND: Duration = Duration::from_millis(200);

/// The schedulers that are compared, the stock one first.
pub const SCHEDULERS: [Scheduler; 7] = [
    Scheduler::Fair,
    Scheduler::By(Policy::Published),
    Scheduler::By(Policy::Relative),
    Scheduler::By(Policy::Bounded(BOUND)),
    Scheduler::PromotionOnly,
    Scheduler::Fifo,
    Scheduler::Solo,
];

/// Means of many repetitions.
#[derive(Debug, Clone, Copy, Default)]
pub struct Means {
    /// Mean completion time of the tasks, s.
    pub completion: Moments,
    /// When all are finished, s.
    pub makespan: Moments,
    /// Energy until then, J.
    pub joules: Moments,
    /// Energy while a task is unfinished, as the dissertation counts it, J.
    pub joules_during: Moments,
}

/// What comes of the repetitions.
#[derive(Debug, Clone)]
pub struct Study {
    /// By [`SCHEDULERS`].
    pub means: Vec<Means>,
    /// The least mean completion time of all repetitions of fair and published scheduling, s.
    pub best_completion: f64,
    /// The least energy of these while a task is unfinished, J.
    pub best_joules_during: f64,
}

impl Study {
    /// Repeats all of it this many times. The matrix does not know how many operations the tasks have, so each
    /// repetition draws them, from half to twice of a mean.
    pub fn run(matrix: &Matrix, repetitions: u64) -> Self {
        let mut study = Self {
            means: vec![Means::default(); SCHEDULERS.len()],
            best_completion: f64::INFINITY,
            best_joules_during: f64::INFINITY,
        };
        for seed in 0..repetitions {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let tasks: Vec<Task> = (0..matrix.names().len())
                .map(|application| {
                    let operations_per_s = 1e9 * 2.0_f64.powf(rng.random_range(-1.0..1.0));
                    Task { application, seconds: SECONDS, operations_per_s }
                })
                .collect();
            for (place, scheduler) in SCHEDULERS.into_iter().enumerate() {
                let outcome = simulate(&MACHINE, &tasks, matrix, scheduler, seed);
                study.add(place, &outcome);
            }
        }
        study
    }

    fn add(&mut self, place: usize, outcome: &Outcome) {
        let (completion, during) = (outcome.mean_completion(), outcome.mean_joules_during());
        let means = &mut self.means[place];
        means.completion.add(completion);
        means.makespan.add(outcome.makespan);
        means.joules.add(outcome.joules);
        means.joules_during.add(during);
        if matches!(SCHEDULERS[place], Scheduler::Fair | Scheduler::By(Policy::Published)) {
            self.best_completion = self.best_completion.min(completion);
            self.best_joules_during = self.best_joules_during.min(during);
        }
    }

    /// The share that a scheduler saves against fair sharing, by one of the means.
    pub fn saved(&self, scheduler: Scheduler, of: impl Fn(&Means) -> Moments) -> Option<f64> {
        let mean = |scheduler| {
            let place = SCHEDULERS.iter().position(|it| *it == scheduler)?;
            of(&self.means[place]).mean()
        };
        Some(1.0 - mean(scheduler)? / mean(Scheduler::Fair)?)
    }
}
