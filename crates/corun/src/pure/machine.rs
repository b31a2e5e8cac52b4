//! Simulates tasks on the CPUs of a machine, under a policy and under references.
//!
//! Each CPU has a queue of its own, and a CPU without a task gets the lowest one of the longest queue. Speeds are those of
//! the set of tasks that run at the moment, so they change whenever a CPU changes its task.

use std::collections::HashMap;
use std::time::Duration;

use rand::seq::SliceRandom;
use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::matrix::Speeds;
use super::run_queue::{Policy, QUANTUM, Quantum, Rules, RunQueue};

/// A machine: power is linear in the number of busy CPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// How many tasks run at once.
    pub cpus: usize,
    /// Power when no CPU is busy, W.
    pub idle_watts: f64,
    /// Additional power of each busy CPU, W.
    pub busy_watts: f64,
}

impl Machine {
    /// Power with this many busy CPUs.
    pub(super) fn watts(&self, busy: usize) -> f64 {
        self.idle_watts + self.busy_watts * busy as f64
    }
}

/// A task that runs on one CPU at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Task {
    /// Its place in the matrix.
    pub application: usize,
    /// Its run time alone, s.
    pub seconds: f64,
    /// Its operations a second alone, as counters of the CPU count them.
    pub operations_per_s: f64,
}

/// Who decides which task runs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    /// One task after the other, each alone on the machine.
    Solo,
    /// The task that has had least CPU time.
    Fair,
    /// Tasks run to their end, in a random order.
    Fifo,
    /// Random promotion as published, and a fixed random order in place of OPJ.
    PromotionOnly,
    /// A policy by OPJ.
    By(Policy),
}

/// What comes of a simulation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// When each task is finished, s after all began; for [`Scheduler::Solo`], after it began.
    pub completions: Vec<f64>,
    /// When all are finished, s.
    pub makespan: f64,
    /// Energy of the machine until then, J.
    pub joules: f64,
    /// Energy of the machine while each task was unfinished, J. The dissertation reports this, and counts what overlaps
    /// several times.
    pub joules_during: Vec<f64>,
    /// The longest time for which a task waited for a CPU.
    pub longest_wait: Duration,
}

impl Outcome {
    /// Mean completion time, s.
    pub fn mean_completion(&self) -> f64 {
        self.completions.iter().sum::<f64>() / self.completions.len().max(1) as f64
    }

    /// Mean energy while a task was unfinished, J.
    pub fn mean_joules_during(&self) -> f64 {
        self.joules_during.iter().sum::<f64>() / self.joules_during.len().max(1) as f64
    }
}

/// Runs tasks that all begin at once to their end. The seed decides on which CPU each begins, on promotions, and on the
/// order where it is random.
pub fn simulate(
    machine: &Machine,
    tasks: &[Task],
    speeds: &impl Speeds,
    scheduler: Scheduler,
    seed: u64,
) -> Outcome {
    if scheduler == Scheduler::Solo {
        return solo(machine, tasks);
    }
    let mut simulation = Simulation::new(machine, tasks, speeds, scheduler, seed);
    while simulation.dispatch() {
        simulation.advance();
    }
    simulation.outcome
}

fn solo(machine: &Machine, tasks: &[Task]) -> Outcome {
    let completions: Vec<f64> = tasks.iter().map(|task| task.seconds).collect();
    let makespan = completions.iter().sum();
    let watts = machine.watts(1);
    Outcome {
        joules: watts * makespan,
        joules_during: completions.iter().map(|seconds| watts * seconds).collect(),
        completions,
        makespan,
        longest_wait: Duration::ZERO,
    }
}

struct Simulation<'a, S> {
    machine: &'a Machine,
    tasks: &'a [Task],
    speeds: &'a S,
    scheduler: Scheduler,
    rng: ChaCha8Rng,
    cpus: Vec<Cpu>,
    states: Vec<State>,
    /// Speeds of running tasks, by which tasks run.
    known: HashMap<Vec<usize>, Vec<f64>>,
    now: Duration,
    outcome: Outcome,
}

struct Cpu {
    queue: RunQueue,
    running: Option<Running>,
}

#[derive(Clone, Copy)]
struct Running {
    task: usize,
    until: Duration,
    operations: f64,
    joules: f64,
}

#[derive(Clone, Copy)]
struct State {
    /// Work left, in seconds alone.
    left: f64,
    /// CPU time so far, s.
    used: f64,
    /// Its place in the random order.
    order: f64,
}

/// Work below this is finished: it is a rounding error of times in whole nanoseconds.
const NOTHING: f64 = 1e-9;

impl<'a, S: Speeds> Simulation<'a, S> {
    fn new(
        machine: &'a Machine,
        tasks: &'a [Task],
        speeds: &'a S,
        scheduler: Scheduler,
        seed: u64,
    ) -> Self {
        let rules = match scheduler {
            Scheduler::By(policy) => policy.rules(),
            Scheduler::PromotionOnly => Policy::Published.rules(),
            Scheduler::Solo | Scheduler::Fair | Scheduler::Fifo => {
                Rules { promotes: false, bound: None, quantum: QUANTUM }
            }
        };
        let cpu = || Cpu { queue: RunQueue::new(rules), running: None };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut places: Vec<usize> = (0..tasks.len()).collect();
        places.shuffle(&mut rng);
        let mut states: Vec<State> =
            tasks.iter().map(|task| State { left: task.seconds, used: 0.0, order: 0.0 }).collect();
        let mut cpus: Vec<Cpu> = (0..machine.cpus).map(|_| cpu()).collect();
        for (order, task) in places.into_iter().enumerate() {
            states[task].order = order as f64;
            let priority = match scheduler {
                Scheduler::By(_) => f64::INFINITY,
                _ => -(order as f64),
            };
            cpus[order % machine.cpus].queue.add(task, priority, Duration::ZERO);
        }
        let outcome = Outcome {
            completions: vec![0.0; tasks.len()],
            makespan: 0.0,
            joules: 0.0,
            joules_during: vec![0.0; tasks.len()],
            longest_wait: Duration::ZERO,
        };
        let (known, now) = (HashMap::new(), Duration::ZERO);
        Self { machine, tasks, speeds, scheduler, rng, cpus, states, known, now, outcome }
    }

    /// Ends what is finished, and gives each CPU whose quantum is over its next task. Returns whether any runs.
    fn dispatch(&mut self) -> bool {
        for cpu in 0..self.cpus.len() {
            let Some(running) = self.cpus[cpu].running else { continue };
            if self.states[running.task].left <= NOTHING {
                self.outcome.completions[running.task] = self.now.as_secs_f64();
                self.outcome.joules_during[running.task] = self.outcome.joules;
                self.outcome.makespan = self.now.as_secs_f64();
                self.cpus[cpu].running = None;
            } else if running.until <= self.now {
                let priority = self.priority(running);
                self.cpus[cpu].queue.add(running.task, priority, self.now);
                self.cpus[cpu].running = None;
            }
        }
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].running.is_none() {
                self.start(cpu);
            }
        }
        self.cpus.iter().any(|cpu| cpu.running.is_some())
    }

    fn start(&mut self, cpu: usize) {
        let pick = self.cpus[cpu].queue.pick(self.now, &mut self.rng).or_else(|| {
            let longest = self.cpus.iter_mut().max_by_key(|cpu| cpu.queue.len())?;
            longest.queue.take_lowest(self.now)
        });
        let Some(pick) = pick else { return };
        self.outcome.longest_wait = self.outcome.longest_wait.max(pick.waited);
        let until = self.now + QUANTUM;
        self.cpus[cpu].running =
            Some(Running { task: pick.task, until, operations: 0.0, joules: 0.0 });
    }

    /// The priority of a task whose quantum is over.
    fn priority(&mut self, running: Running) -> f64 {
        let state = self.states[running.task];
        match self.scheduler {
            Scheduler::By(policy) => {
                let quantum = Quantum { operations: running.operations, joules: running.joules };
                let task = &self.tasks[running.task];
                let reference = task.operations_per_s / self.machine.watts(1);
                policy.priority(quantum, reference)
            }
            // Up to a quantum of noise, or the CPUs would change their tasks in lockstep, and the same ones would
            // always meet.
            Scheduler::Fair => {
                -(state.used + self.rng.random_range(0.0..1.0) * QUANTUM.as_secs_f64())
            }
            Scheduler::Solo | Scheduler::Fifo | Scheduler::PromotionOnly => -state.order,
        }
    }

    /// Lets the running tasks run until the first of them is finished or its quantum is over.
    fn advance(&mut self) {
        let running: Vec<usize> =
            self.cpus.iter().filter_map(|cpu| Some(cpu.running?.task)).collect();
        let speeds = self.speeds_of(&running);
        let runs = self.cpus.iter().filter_map(|cpu| cpu.running).zip(&speeds);
        let steps = runs.map(|(run, speed)| {
            let finished = (self.states[run.task].left / speed * 1e9).ceil();
            run.until.saturating_sub(self.now).min(Duration::from_nanos(finished as u64))
        });
        let step = steps.min().unwrap_or(Duration::ZERO);
        let seconds = step.as_secs_f64();
        let joules = self.machine.watts(running.len()) * seconds;
        self.now += step;
        self.outcome.joules += joules;
        let runs = self.cpus.iter_mut().filter_map(|cpu| cpu.running.as_mut()).zip(&speeds);
        for (run, speed) in runs {
            let state = &mut self.states[run.task];
            state.left -= seconds * speed;
            state.used += seconds;
            run.operations += self.tasks[run.task].operations_per_s * speed * seconds;
            run.joules += joules;
        }
    }

    /// Speeds of tasks that run together, in the order of their CPUs.
    fn speeds_of(&mut self, running: &[usize]) -> Vec<f64> {
        if let Some(speeds) = self.known.get(running) {
            return speeds.clone();
        }
        let speeds = speeds_in_order(self.speeds, self.tasks, running);
        self.known.insert(running.to_vec(), speeds.clone());
        speeds
    }
}

/// Speeds of tasks that run together, in their own order.
pub(super) fn speeds_in_order(speeds: &impl Speeds, tasks: &[Task], running: &[usize]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..running.len()).collect();
    order.sort_by_key(|place| tasks[running[*place]].application);
    let set: Vec<usize> = order.iter().map(|place| tasks[running[*place]].application).collect();
    let mut in_order = vec![1.0; running.len()];
    for (place, speed) in order.into_iter().zip(speeds.speeds(&set)) {
        in_order[place] = speed;
    }
    in_order
}

#[cfg(test)]
mod tests;
