//! The promise of at most one sample, against a world of another making than that of `tests`: here
//! the DAQ records volts. Its clock warms up and wanders at random, it loses blocks of samples, its
//! line rises slowly, carries noise, hum and spikes, and bounces; stamps are late with a heavy tail.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal, StudentT};

use super::*;

/// A clock as a table: position in samples at each whole second, straight in between.
struct Quartz(Vec<f64>);

impl Quartz {
    /// It warms up (up to 150 ppm, with a time constant of 20 minutes or more: 7.5 ppm in a minute)
    /// and wanders at random by about a ppm.
    fn new(rate: f64, seconds: usize, rng: &mut ChaCha8Rng) -> Self {
        let cold = rng.random_range(-300e-6..300e-6);
        let warmer = rng.random_range(-150e-6..150e-6);
        let pace = rng.random_range(1200.0..3000.0);
        let mut walk = 0.0;
        let mut position = 0.0;
        let positions = (0..seconds).map(|second| {
            let here = position;
            walk += 1e-7 * rng.sample::<f64, _>(StandardNormal) - 0.01 * walk;
            let warm = warmer * (1.0 - (-(second as f64) / pace).exp());
            position += rate * (1.0 + cold + warm + walk);
            here
        });
        Self(positions.collect())
    }

    /// When the position is reached.
    fn time(&self, position: f64) -> f64 {
        let second = self.0.partition_point(|&at| at <= position).clamp(1, self.0.len() - 1) - 1;
        let (from, to) = (self.0[second], self.0[second + 1]);
        second as f64 + (position - from) / (to - from)
    }
}

/// What goes wrong, how often.
#[derive(Clone, Copy)]
struct Trouble {
    /// Blocks of samples that the DAQ loses, per second.
    lost_blocks: f64,
    /// Samples that jump to the other level, per second.
    spikes: f64,
    /// Toggles that bounce.
    bounces: f64,
    /// Toggles that fail: stamped, and the line stays as it is.
    stuck: f64,
    /// Toggles that happen twice, 2 to 200 ms apart, with one stamp for the first or for the second.
    doubled: f64,
    /// Stamps that the file lacks.
    unstamped: f64,
    /// Of a stamp's lateness: Student's t with two degrees of freedom, of which one in 140 lies
    /// beyond 10 times this; turned positive.
    late: f64,
    /// Standard deviation of the noise, as a share of the swing.
    noise: f64,
    /// Time constant of the line, in samples.
    slow: f64,
}

struct Seen {
    levels: Vec<f64>,
    /// True time of each sample.
    times: Vec<f64>,
    stamps: Vec<Mono>,
    first: f64,
    last: f64,
}

/// Which way the line goes, and when.
fn flips(
    toggles: usize,
    trouble: Trouble,
    rng: &mut ChaCha8Rng,
    rate: f64,
) -> (Vec<f64>, Vec<Mono>) {
    let tail = StudentT::new(2.0).unwrap();
    let (mut flips, mut stamps) = (Vec::new(), Vec::new());
    let mut due = 20.0;
    for interval in SyncPlan::new(rng.random()).take(toggles) {
        due += interval.as_secs_f64();
        let mut stamp = due + trouble.late * f64::abs(tail.sample(rng));
        if !rng.random_bool(trouble.stuck) {
            flips.push(due);
            if rng.random_bool(trouble.doubled) {
                let again = due + rng.random_range(0.002..0.2);
                flips.push(again);
                if rng.random_bool(0.5) {
                    stamp = again;
                }
            } else if rng.random_bool(trouble.bounces) {
                let mut at = due;
                for _ in 0..2 * rng.random_range(1..4) {
                    at += rng.random_range(0.1..2.0) / rate;
                    flips.push(at);
                }
            }
        }
        if !rng.random_bool(trouble.unstamped) {
            stamps.push(Mono(Duration::from_secs_f64(stamp)));
        }
    }
    stamps.sort();
    stamps.dedup();
    (flips, stamps)
}

fn world(rate: f64, toggles: usize, trouble: Trouble, rng: &mut ChaCha8Rng) -> Seen {
    let (flips, stamps) = flips(toggles, trouble, rng, rate);
    let quartz = Quartz::new(rate, toggles * 5 / 4 + 60, rng);
    let end = flips[flips.len() - 1] + 5.0;
    let settles = trouble.slow / rate;
    let (mut levels, mut times) = (Vec::new(), Vec::new());
    let (mut volts, mut target, mut before) = (0.2, 0.2, 0.0);
    let mut next = flips.iter().copied().peekable();
    let mut sample = 0.0;
    loop {
        let time = quartz.time(sample);
        sample += 1.0;
        if time > end {
            break;
        }
        // The line runs towards its target with its time constant, from flip to flip.
        while let Some(flip) = next.next_if(|&flip| flip <= time) {
            volts = target + (volts - target) * (-(flip - before) / settles).exp();
            (target, before) = (3.5 - target, flip);
        }
        volts = target + (volts - target) * (-(time - before) / settles).exp();
        before = time;
        let hum = 0.05 * (std::f64::consts::TAU * 50.0 * time).sin();
        let noise: f64 = 3.1 * trouble.noise * rng.sample::<f64, _>(StandardNormal);
        let spike = rng.random_bool(trouble.spikes / rate);
        levels.push(if spike { 3.5 - volts } else { volts } + hum + noise);
        times.push(time);
        if rng.random_bool(trouble.lost_blocks / rate) {
            sample += f64::from(64 * rng.random_range(1..40_u32));
        }
    }
    let seconds = |stamp: &Mono| stamp.as_secs_f64();
    let (first, last) = (seconds(&stamps[0]), seconds(&stamps[stamps.len() - 1]));
    Seen { levels, times, stamps, first, last }
}

/// Asserts that whatever is claimed is right, of every sample; returns the least share claimed of the
/// time between first and last stamp.
fn least_claimed(rate: f64, seeds: u64, toggles: usize, trouble: Trouble) -> f64 {
    let (mut least, mut worst) = (1.0_f64, 0.0_f64);
    for seed in 0..seeds {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let seen = world(rate, toggles, trouble, rng);
        let edges = find_edges(&seen.levels, Hysteresis::of(&seen.levels).unwrap());
        // The line crosses its middle that much after the toggle, always.
        let delay = Duration::from_secs_f64(trouble.slow * 2.0_f64.ln() / rate);
        let rule = SyncRule { bias: delay, ..SyncRule::new(rate) };
        let found = align(&edges, &seen.stamps, &rule)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let (mut claimed, mut all) = (0_u32, 0_u32);
        let placements = found.placements(0..seen.times.len() as u64);
        for ((sample, &time), placement) in seen.times.iter().enumerate().zip(placements) {
            let inside = (seen.first..=seen.last).contains(&time);
            all += u32::from(inside);
            if let Placement::At(at) = placement {
                let error = (at.as_secs_f64() - time) * rate;
                worst = worst.max(error.abs());
                assert!(error.abs() <= 1.0, "seed {seed}: sample {sample} is off by {error}");
                claimed += u32::from(inside);
            }
        }
        least = least.min(f64::from(claimed) / f64::from(all));
    }
    println!("{rate} Hz: at least {least:.4} of each log is claimed, off by {worst:.3} at most");
    least
}

const QUIET: Trouble = Trouble {
    lost_blocks: 0.0,
    spikes: 0.0,
    bounces: 0.0,
    stuck: 0.0,
    doubled: 0.0,
    unstamped: 0.0,
    late: 5e-6,
    noise: 0.02,
    slow: 0.2,
};

const ROUGH: Trouble = Trouble {
    lost_blocks: 0.01,
    spikes: 0.05,
    bounces: 0.05,
    stuck: 0.02,
    doubled: 0.02,
    unstamped: 0.02,
    late: 4e-5,
    noise: 0.04,
    slow: 0.2,
};

#[test]
fn volts_of_a_quiet_line_are_claimed_throughout_and_rightly() {
    assert!(least_claimed(1000.0, 8, 600, QUIET) > 0.98);
}

#[test]
fn lost_blocks_spikes_bounces_and_heavy_tails_make_no_claim_wrong() {
    assert!(least_claimed(1000.0, 30, 600, ROUGH) > 0.75);
}

#[test]
fn the_same_at_ten_kilohertz() {
    let trouble = Trouble { late: 5e-6, ..ROUGH };
    assert!(least_claimed(10_000.0, 6, 200, trouble) > 0.7);
}

#[test]
fn ten_times_worse_there_is_less_to_claim_and_nothing_wrong() {
    let trouble = Trouble {
        lost_blocks: 0.1,
        spikes: 0.5,
        bounces: 0.3,
        stuck: 0.1,
        doubled: 0.1,
        unstamped: 0.1,
        late: 2e-4,
        ..ROUGH
    };
    least_claimed(1000.0, 60, 600, trouble);
}
