use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use super::*;

/// A DAQ whose clock is off and changes slowly, and a generator, seen by both sides.
struct World {
    rate: f64,
    drift: f64,
    wander: f64,
    /// When the DAQ started, in seconds of the generator's clock.
    start: f64,
}

/// Of the wander: seconds in a radian.
const PACE: f64 = 120.0;

/// What goes wrong, as probabilities per toggle.
#[derive(Clone, Copy)]
struct Mishaps {
    missed: f64,
    doubled: f64,
    no_stamp: f64,
    late: f64,
    /// Standard deviation of every stamp, in seconds.
    jitter: f64,
}

const NONE: Mishaps = Mishaps { missed: 0.0, doubled: 0.0, no_stamp: 0.0, late: 0.0, jitter: 0.0 };

impl World {
    fn random(rng: &mut ChaCha8Rng, rate: f64) -> Self {
        let drift = rng.random_range(-200e-6..200e-6);
        let start = rng.random_range(80.0..140.0);
        Self { rate, drift, wander: 5e-6, start }
    }

    /// Position in samples at a time: the integral of the rate.
    fn position(&self, time: f64) -> f64 {
        let wave = |t: f64| -self.wander * PACE * (t / PACE).cos();
        let straight = (1.0 + self.drift) * (time - self.start);
        self.rate * (straight + wave(time) - wave(self.start))
    }

    /// When the position is reached: by Newton's method, of which two steps are plenty.
    fn time(&self, position: f64) -> f64 {
        let mut time = self.start + position / self.rate;
        for _ in 0..4 {
            time += (position - self.position(time)) / self.rate;
        }
        time
    }

    /// True toggles from 100 s on.
    fn toggles(seed: u64, count: usize) -> Vec<f64> {
        let sums = SyncPlan::new(seed).take(count).scan(100.0, |time, interval| {
            *time += interval.as_secs_f64();
            Some(*time)
        });
        sums.collect()
    }

    /// Both sides of the toggles: edges half-way before the sample that sees them, and stamps.
    fn observe(
        &self,
        toggles: &[f64],
        mishaps: Mishaps,
        rng: &mut ChaCha8Rng,
    ) -> (Vec<Edge>, Vec<Mono>) {
        let mut flips = Vec::new();
        let mut stamps = Vec::new();
        for &time in toggles {
            if !rng.random_bool(mishaps.missed) {
                flips.push(time);
            }
            if rng.random_bool(mishaps.doubled) {
                let glitch = time + rng.random_range(0.0005..0.3);
                flips.extend([glitch, glitch + rng.random_range(0.0005..0.3)]);
            }
            let mut stamp = time + mishaps.jitter * rng.sample::<f64, _>(StandardNormal);
            if rng.random_bool(mishaps.late) {
                stamp += rng.random_range(0.001..0.05);
            }
            if !rng.random_bool(mishaps.no_stamp) {
                stamps.push(Mono(Duration::from_secs_f64(stamp)));
            }
        }
        flips.sort_by(f64::total_cmp);
        let mut edges: Vec<Edge> = Vec::new();
        for position in flips.iter().map(|&time| self.position(time).ceil() - 0.5) {
            // Up and down between two samples leaves no trace.
            if edges.last().is_some_and(|last| (last.position - position).abs() < 0.1) {
                edges.pop();
            } else if position > 0.0 {
                edges.push(Edge { position, rising: true });
            }
        }
        (edges, stamps)
    }

    /// How many samples are claimed, of those between these times; all that are claimed anywhere must
    /// be right. About ten a second are looked at.
    fn check(&self, alignment: &Alignment, from: f64, to: f64, seed: u64) -> f64 {
        let (mut claimed, mut all) = (0.0, 0.0);
        let stride = (0.0971 * self.rate) as usize;
        for sample in (0..(self.position(to + 10.0) as u64)).step_by(stride) {
            let true_time = self.time(sample as f64);
            let inside = (from..to).contains(&true_time);
            all += f64::from(inside);
            if let Placement::At(time) = alignment.place(sample) {
                let error = (time.as_secs_f64() - true_time) * self.rate;
                assert!(error.abs() <= 1.0, "seed {seed}: sample {sample} is off by {error}");
                claimed += f64::from(inside);
            }
        }
        claimed / all
    }
}

fn try_worlds(rate: f64, seeds: u64, count: usize, mishaps: Mishaps) -> f64 {
    let mut least = 1.0_f64;
    for seed in 0..seeds {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let world = World::random(rng, rate);
        let toggles = World::toggles(seed, count);
        let (edges, stamps) = world.observe(&toggles, mishaps, rng);
        let alignment = align(&edges, &stamps, &SyncRule::new(rate))
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let from = toggles[0].max(world.start + 2.0);
        least = least.min(world.check(&alignment, from, toggles[count - 1], seed));
    }
    println!("{rate} Hz: at least {least:.4} of each log is claimed");
    least
}

#[test]
fn within_one_sample_wherever_claimed_and_most_is_claimed() {
    let mishaps = Mishaps { missed: 0.02, doubled: 0.02, no_stamp: 0.02, late: 0.03, jitter: 1e-4 };
    assert!(try_worlds(1000.0, 200, 900, mishaps) > 0.95);
}

#[test]
fn at_ten_kilohertz_with_stamps_of_twenty_microseconds_too() {
    let mishaps = Mishaps { missed: 0.01, doubled: 0.01, no_stamp: 0.01, late: 0.03, jitter: 2e-5 };
    assert!(try_worlds(10_000.0, 60, 900, mishaps) > 0.9);
}

#[test]
fn a_rough_line_still_keeps_its_promise() {
    // One toggle in five goes wrong on either side.
    let mishaps = Mishaps { missed: 0.2, doubled: 0.2, no_stamp: 0.2, late: 0.2, jitter: 2e-4 };
    assert!(try_worlds(1000.0, 60, 900, mishaps) > 0.6);
}

#[test]
fn stamps_too_coarse_for_the_rate_claim_little_rather_than_lie() {
    // 0.1 ms is a sample at 10 kHz.
    let mishaps = Mishaps { jitter: 1e-4, ..NONE };
    try_worlds(10_000.0, 40, 600, mishaps);
    // Four tenths of a sample are good enough.
    let mishaps = Mishaps { jitter: 4e-5, ..NONE };
    assert!(try_worlds(10_000.0, 40, 600, mishaps) > 0.8);
}

#[test]
fn a_clean_signal_is_claimed_from_its_first_to_its_last_toggle() {
    assert!(try_worlds(1000.0, 20, 300, NONE) > 0.99);
}

fn one(seed: u64, count: usize) -> (World, Vec<f64>, Vec<Edge>, Vec<Mono>) {
    let world = World { rate: 1000.0, drift: 80e-6, wander: 0.0, start: 90.0 };
    let toggles = World::toggles(seed, count);
    let (edges, stamps) = world.observe(&toggles, NONE, &mut ChaCha8Rng::seed_from_u64(seed));
    (world, toggles, edges, stamps)
}

#[test]
fn what_lies_before_the_first_and_after_the_last_toggle_is_unsynchronised() {
    let (world, toggles, edges, stamps) = one(1, 100);
    let found = align(&edges, &stamps, &SyncRule::new(1000.0)).unwrap();
    let place = |time: f64| found.place(world.position(time) as u64);
    assert_eq!(place(toggles[0] - 0.01), Placement::Unsynchronised);
    assert_eq!(found.place(0), Placement::Unsynchronised);
    assert!(matches!(place(toggles[0] + 0.01), Placement::At(_)));
    assert!(matches!(place(toggles[99] - 0.01), Placement::At(_)));
    assert_eq!(place(toggles[99] + 0.01), Placement::Unsynchronised);
    assert_eq!(found.faults, []);
    // One by one or in a row, from anywhere.
    let row: Vec<Placement> = found.placements(9_000..40_000).collect();
    let single: Vec<Placement> = (9_000..40_000).map(|sample| found.place(sample)).collect();
    assert!(row == single);
    assert!(row.contains(&Placement::Unsynchronised));
}

#[test]
fn every_kind_of_fault_is_named() {
    let (_, toggles, mut edges, mut stamps) = one(2, 120);
    // Glitch behind toggle 60: up and down within 30 ms.
    let glitch = edges[60].position + 100.0;
    edges.insert(61, Edge { position: glitch, rising: false });
    edges.insert(62, Edge { position: glitch + 30.0, rising: true });
    edges.remove(30);
    let missed = stamps[30];
    stamps[90] = stamps[90] + Duration::from_millis(3);
    let late = stamps[90];
    stamps.remove(45);
    let unstamped = edges[44].position;
    let found = align(&edges, &stamps, &SyncRule::new(1000.0)).unwrap();
    let is =
        |wanted: Fault| assert!(found.faults.contains(&wanted), "{wanted:?} in {:?}", found.faults);
    is(Fault::Missed { time: missed });
    is(Fault::Doubled { position: glitch });
    is(Fault::Doubled { position: glitch + 30.0 });
    is(Fault::NoStamp { position: unstamped });
    let contradicted = found.faults.iter().find_map(|fault| match fault {
        Fault::Contradicted { time, behind } => Some((*time, *behind)),
        _ => None,
    });
    let (time, behind) = contradicted.unwrap();
    assert_eq!(time, late);
    // The stamp is 3 ms late: the edge lies three samples before where it belongs.
    assert!((behind + 3.0).abs() < 0.8, "{behind}");
    assert_eq!(found.faults.len(), 5, "{:?}", found.faults);
    assert!((toggles.len() - found.spans.len()) <= 4);
}

#[test]
fn drift_is_reported_per_interval() {
    let (_, _, edges, stamps) = one(3, 400);
    let found = align(&edges, &stamps, &SyncRule::new(1000.0)).unwrap();
    let mean =
        found.spans.iter().map(|span| span.drift_ppm).sum::<f64>() / found.spans.len() as f64;
    // 80 ppm; the ends of 400 s are half a sample off at most: 2.5 ppm, shared out unevenly.
    assert!((mean - 80.0).abs() < 10.0, "{mean}");
    assert!(found.spans.iter().all(|span| (span.drift_ppm - 80.0).abs() < 1500.0));
}

#[test]
fn a_block_of_samples_lost_by_the_daq_is_left_out_with_what_lies_beside_it() {
    for lost in [20.0, 3.0] {
        let (world, toggles, mut edges, stamps) = one(4, 200);
        for edge in &mut edges[100..] {
            edge.position -= lost;
        }
        let found = align(&edges, &stamps, &SyncRule::new(1000.0)).unwrap();
        // Half-way in each interval: right before and after the loss, unknown at it.
        let mut claimed = 0;
        for pair in 0..199 {
            let middle = 0.5 * (toggles[pair] + toggles[pair + 1]);
            let shift = if pair >= 100 { lost } else { 0.0 };
            let sample = world.position(middle) - shift;
            let Placement::At(time) = found.place(sample as u64) else { continue };
            assert!(pair != 99, "lost {lost}");
            let error = (time.as_secs_f64() - world.time((sample as u64) as f64 + shift)) * 1000.0;
            assert!(error.abs() <= 1.0, "lost {lost}, interval {pair}: {error}");
            claimed += 1;
        }
        assert!(claimed > 160, "lost {lost}: {claimed}");
    }
}

#[test]
fn an_analogue_channel_with_noise_and_slow_edges_is_aligned() {
    for seed in 0..5 {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let world = World { wander: 0.0, ..World::random(rng, 1000.0) };
        let toggles = World::toggles(seed, 150);
        let stamps: Vec<Mono> =
            toggles.iter().map(|&time| Mono(Duration::from_secs_f64(time))).collect();
        let last = world.position(toggles[149] + 3.0) as u64;
        let mut next = 0;
        let levels: Vec<f64> = (0..last)
            .map(|sample| {
                let time = world.time(sample as f64);
                while next < toggles.len() && toggles[next] <= time {
                    next += 1;
                }
                // 3.3 V, reached with a time constant of 0.3 ms: the middle after 0.2 samples.
                let since = if next == 0 { f64::INFINITY } else { time - toggles[next - 1] };
                let (to, from) = if next % 2 == 1 { (3.3, 0.0) } else { (0.0, 3.3) };
                let settled = 1.0 - (-since / 3e-4).exp();
                from + (to - from) * settled + 0.15 * rng.sample::<f64, _>(StandardNormal)
            })
            .collect();
        let edges = find_edges(&levels, Hysteresis::of(&levels).unwrap());
        let alignment = align(&edges, &stamps, &SyncRule::new(1000.0)).unwrap();
        let from = toggles[0].max(world.start + 2.0);
        let claimed = world.check(&alignment, from, toggles[149], seed);
        assert!(claimed > 0.97, "seed {seed}: {claimed}");
    }
}

#[test]
fn what_cannot_match_is_refused_with_advice() {
    let (_, _, edges, stamps) = one(5, 100);
    let rule = SyncRule::new(1000.0);
    let (_, _, others, _) = one(6, 100);
    assert!(matches!(align(&others, &stamps, &rule), Err(SyncError::NoMatch { .. })));
    // The right pattern at a wrong rate.
    assert!(matches!(
        align(&edges, &stamps, &SyncRule::new(900.0)),
        Err(SyncError::NoMatch { .. })
    ));
    assert!(matches!(align(&edges[..5], &stamps, &rule), Err(SyncError::TooFew { .. })));
    assert!(matches!(align(&[], &[], &rule), Err(SyncError::TooFew { .. })));
    assert_eq!(align(&edges, &stamps, &SyncRule::new(0.0)), Err(SyncError::BadRule));
    let mut swapped = stamps.clone();
    swapped.swap(3, 4);
    let error = Err(SyncError::StampsNotAscending { stamp: 4 });
    assert_eq!(align(&edges, &swapped, &rule), error);
    let mut turned = edges.clone();
    turned.swap(7, 8);
    let error = Err(SyncError::EdgesNotAscending { edge: 8 });
    assert_eq!(align(&turned, &stamps, &rule), error);
    let regular: Vec<Mono> = (0..100).map(Mono::from_secs).collect();
    assert_eq!(align(&edges, &regular, &rule), Err(SyncError::TooRegular));
}

#[test]
fn a_signal_that_belongs_to_another_run_is_never_claimed() {
    let rule = SyncRule::new(1000.0);
    let claimed = (0..200).filter(|&seed| {
        let (_, _, edges, _) = one(seed, 600);
        let (_, _, _, stamps) = one(seed + 1000, 600);
        align(&edges, &stamps, &rule).is_ok()
    });
    let seeds: Vec<u64> = claimed.collect();
    assert!(seeds.is_empty(), "{seeds:?}");
}

proptest::proptest! {
    /// Whatever comes: no panic, and time runs forward with the samples.
    #[test]
    fn time_runs_forward_whatever_the_toggles_are(
        seed in 0..1000_u64,
        shifts in proptest::collection::vec((0..300_usize, -3000.0..3000.0_f64), 0..40),
        dropped in proptest::collection::vec(0..300_usize, 0..60),
    ) {
        let (_, _, mut edges, mut stamps) = one(seed, 300);
        for (index, shift) in shifts {
            edges[index].position += shift;
            let late = Duration::from_secs_f64(shift.abs() / 1000.0);
            let stamp = (index * 7) % 300;
            stamps[stamp] = stamps[stamp] + late;
        }
        for index in dropped {
            edges.remove(index % edges.len());
            stamps.remove((index * 11) % stamps.len());
        }
        edges.sort_by(|a, b| a.position.total_cmp(&b.position));
        stamps.sort();
        edges.dedup_by(|a, b| a.position - b.position < 1e-9);
        stamps.dedup();
        if let Ok(found) = align(&edges, &stamps, &SyncRule::new(1000.0)) {
            let mut before = Mono::ZERO;
            for sample in (0..330_000).step_by(41) {
                if let Placement::At(time) = found.place(sample) {
                    proptest::prop_assert!(time > before, "{sample}: {time:?}");
                    before = time;
                }
            }
        }
    }
}
