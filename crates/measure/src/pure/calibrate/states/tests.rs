use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use super::*;
use crate::pure::power_log::{Interpolation, PowerLog, PowerReading};
use nightwatt_energy::time::Mono;

/// The published server: 43.3 W, 1.6 W, 170.7 J.
const TRUTH: [f64; 3] = [43.3, 1.6, 170.7];

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn row(on: f64, off: f64, cycles: u32, energy: f64) -> StatesRow {
    StatesRow { on: secs(on), off: secs(off), cycles, energy: Joules(energy) }
}

fn exact(on: f64, off: f64, cycles: u32) -> StatesRow {
    row(on, off, cycles, TRUTH[0] * on + TRUTH[1] * off + TRUTH[2] * f64::from(cycles))
}

/// How many of 1,000 trials of probability 0.95 may succeed: the binomial distribution leaves this
/// range with probability below 0.001 on either side (mean 950, sd 6.89, 3.3 sd).
const COVERED: std::ops::RangeInclusive<usize> = 927..=973;

/// Runs an experiment with 1,000 seeds and counts, for each figure, how often its interval covers.
fn assert_covers(experiment: impl Fn(&mut ChaCha8Rng) -> StatesFit) {
    let mut missed: [Vec<u64>; 3] = Default::default();
    for seed in 0..1000 {
        let fit = experiment(&mut ChaCha8Rng::seed_from_u64(seed));
        let covered = [
            fit.on.covers(&Watts(TRUTH[0])),
            fit.off.covers(&Watts(TRUTH[1])),
            fit.switch.covers(&Joules(TRUTH[2])),
        ];
        for (figure, covered) in missed.iter_mut().zip(covered) {
            if !covered {
                figure.push(seed);
            }
        }
    }
    for (figure, missed) in ["P_on", "P_off", "E_switch"].iter().zip(missed) {
        let covered = 1000 - missed.len();
        println!("{figure}: {covered} of 1000 intervals cover");
        assert!(COVERED.contains(&covered), "{figure}: {covered} of 1000; missed: {missed:?}");
    }
}

#[test]
fn exact_rows_give_back_the_published_server() {
    let rows = [
        exact(600.0, 0.0, 0),
        exact(300.0, 300.0, 1),
        exact(300.0, 60.0, 6),
        exact(100.0, 900.0, 2),
    ];
    let fit = fit_states(&rows, EnergyErrors::Equal).unwrap();
    assert!((fit.on.value.get() - 43.3).abs() < 1e-9);
    assert!((fit.off.value.get() - 1.6).abs() < 1e-9);
    assert!((fit.switch.value.get() - 170.7).abs() < 1e-6);
    assert!(fit.doubts.is_empty(), "{:?}", fit.doubts);
    let states = fit.power_states(secs(5.0), secs(5.0));
    // 170.7 J / 41.7 W.
    assert!((states.break_even().as_secs_f64() - 4.0935).abs() < 1e-3);
}

#[test]
fn intervals_from_runs_cover_the_truth_as_often_as_they_say() {
    assert_covers(|rng| {
        let rows: Vec<StatesRow> = (0..12)
            .map(|_| {
                let cycles = rng.random_range(0..6_u32);
                let off = f64::from(cycles) * rng.random_range(20.0..300.0);
                let mut row = exact(rng.random_range(60.0..900.0), off, cycles);
                row.energy.0 += 100.0 * rng.sample::<f64, _>(StandardNormal);
                row
            })
            .collect();
        fit_states(&rows, EnergyErrors::Equal).unwrap()
    });
}

#[test]
fn intervals_from_runs_with_known_errors_cover_the_truth_as_often_as_they_say() {
    assert_covers(|rng| {
        let mut errors = Vec::new();
        let rows: Vec<StatesRow> =
            [(600.0, 0.0, 0), (30.0, 600.0, 1), (60.0, 60.0, 3), (900.0, 50.0, 5)]
                .into_iter()
                .map(|(on, off, cycles)| {
                    let mut row = exact(on, off, cycles);
                    // A meter of 1 % and 5 J.
                    let error = 5.0 + 0.01 * row.energy.get();
                    errors.push(Joules(error));
                    row.energy.0 += error * rng.sample::<f64, _>(StandardNormal);
                    row
                })
                .collect();
        fit_states(&rows, EnergyErrors::Known(&errors)).unwrap()
    });
}

/// A log of one reading a second with noise, through cycles of these lengths with 90 s between.
/// Falling asleep takes 5 s and waking 5 s, each at what makes 170.7 J beyond 1.6 W.
fn noisy_log(rng: &mut ChaCha8Rng, sleeps: &[u32], still: bool) -> (PowerLog, Vec<SleepCycle>) {
    let switching = TRUTH[1] + TRUTH[2] / 10.0;
    let mut readings = Vec::new();
    let mut cycles = Vec::new();
    // Means over the second before: exact integrals, whatever happens at the edges.
    let mut run = |rng: &mut ChaCha8Rng, watts: f64, seconds: u32| {
        for _ in 0..seconds {
            let time = Mono::from_secs(readings.len() as u64);
            let power = Watts(watts + 2.0 * rng.sample::<f64, _>(StandardNormal));
            readings.push(PowerReading { time, power });
        }
        Mono::from_secs(readings.len() as u64 - 1)
    };
    run(rng, TRUTH[0], 1);
    for &sleep in sleeps {
        let sleep_commanded = run(rng, TRUTH[0], 90);
        let from = run(rng, switching, 5);
        let to = run(rng, TRUTH[1], sleep);
        let wake_answered = run(rng, switching, 5);
        let still = still.then_some((from, to));
        cycles.push(SleepCycle { sleep_commanded, still, wake_answered });
    }
    run(rng, TRUTH[0], 90);
    (PowerLog::new(readings, Interpolation::Means, Duration::from_secs(3)).unwrap(), cycles)
}

fn fit_log(log: &PowerLog, cycles: &[SleepCycle]) -> Result<StatesFit, CalibrateError> {
    rows_of_log(log, cycles)?.fit()
}

#[test]
fn intervals_from_a_noisy_log_cover_the_truth_as_often_as_they_say() {
    assert_covers(|rng| {
        let (log, cycles) = noisy_log(rng, &[30, 300, 60, 120, 20, 240], false);
        fit_log(&log, &cycles).unwrap()
    });
}

/// A plug that is asked once a second sees each step of power up to a second late, or not at all.
#[test]
fn intervals_hold_when_readings_miss_the_steps_between_them() {
    assert_covers(|rng| {
        // (watts, seconds): 4 s at 40 W and 6 s at 70 W are 564 J beyond 1.6 W for 10 s less 16 J.
        let switch = (TRUTH[2] + 10.0 * TRUTH[1]) / 10.0;
        let mut stretches = Vec::new();
        let (mut at, mut commands) = (0.0, Vec::new());
        for _ in 0..8 {
            let (awake, asleep) = (rng.random_range(60.0..150.0), rng.random_range(30.0..300.0));
            stretches.extend([(TRUTH[0], awake), (switch, 4.0), (TRUTH[1], asleep), (switch, 6.0)]);
            commands.push((at + awake, at + awake + asleep + 10.0));
            at += awake + asleep + 10.0;
        }
        stretches.push((TRUTH[0], 60.0));
        let (mut readings, mut next) = (Vec::new(), rng.random_range(0.0..1.0));
        let mut begins = 0.0;
        for (watts, seconds) in stretches {
            while next < begins + seconds {
                let noise = 0.5 * rng.sample::<f64, _>(StandardNormal);
                let time = Mono(Duration::from_secs_f64(next));
                readings.push(PowerReading { time, power: Watts(watts + noise) });
                next += 1.0;
            }
            begins += seconds;
        }
        let log = PowerLog::new(readings, Interpolation::Instants, Duration::from_secs(3)).unwrap();
        let moment = |seconds| Mono(Duration::from_secs_f64(seconds));
        let cycle = |&(slept, woke): &(f64, f64)| SleepCycle {
            sleep_commanded: moment(slept),
            still: None,
            wake_answered: moment(woke),
        };
        let cycles: Vec<_> = commands.iter().map(cycle).collect();
        fit_log(&log, &cycles).unwrap()
    });
}

#[test]
fn with_still_times_equally_long_sleeps_suffice() {
    assert_covers(|rng| {
        let (log, cycles) = noisy_log(rng, &[60; 5], true);
        fit_log(&log, &cycles).unwrap()
    });
}

#[test]
fn rows_of_a_log_share_out_all_of_its_time_and_energy() {
    let (log, cycles) = noisy_log(&mut ChaCha8Rng::seed_from_u64(1), &[30, 300, 60], true);
    let found = rows_of_log(&log, &cycles).unwrap();
    let time: Duration = found.rows.iter().map(|row| row.on + row.off).sum();
    let energy: Joules = found.rows.iter().map(|row| row.energy).sum();
    let (first, last) = (log.readings()[0].time, log.readings().last().unwrap().time);
    assert_eq!(found.left_out, 0);
    assert_eq!(found.rows.iter().map(|row| row.cycles).sum::<u32>(), 3);
    // Dividing durations rounds to nanoseconds.
    assert!((time.as_secs_f64() - last.since(first).as_secs_f64()).abs() < 1e-6);
    assert!((energy - log.energy(first, last).unwrap()).get().abs() < 1e-6);
}

#[test]
fn a_gap_costs_the_stretches_it_touches_and_no_more() {
    let (log, cycles) = noisy_log(&mut ChaCha8Rng::seed_from_u64(2), &[30, 300, 60, 120], true);
    // Without 10 s in the middle of the second sleep (231 to 531 s), and without what follows 740 s.
    let keep = |reading: &&PowerReading| {
        let second = reading.time.as_secs_f64();
        !(400.0..410.0).contains(&second) && second < 740.0
    };
    let readings = log.readings().iter().filter(keep).copied().collect();
    let holed = PowerLog::new(readings, Interpolation::Means, Duration::from_secs(3)).unwrap();
    let (whole, part) =
        (rows_of_log(&log, &cycles).unwrap(), rows_of_log(&holed, &cycles).unwrap());
    assert!(part.left_out > 0);
    assert!(part.rows.len() < whole.rows.len());
    let fit = part.fit().unwrap();
    assert!(fit.on.covers(&Watts(TRUTH[0])), "{:?}", fit.on);
}

fn why(rows: &[StatesRow]) -> String {
    fit_states(rows, EnergyErrors::Equal).unwrap_err().to_string()
}

#[test]
fn what_cannot_be_determined_is_named_with_what_to_run_next() {
    let rows = [exact(600.0, 0.0, 0), exact(300.0, 0.0, 0), exact(100.0, 200.0, 0)];
    assert!(why(&rows).starts_with("E_switch cannot be determined: no row has a sleep cycle; put"));
    let rows = [exact(0.0, 60.0, 1), exact(0.0, 90.0, 1), exact(0.0, 600.0, 1)];
    assert!(why(&rows).starts_with("P_on cannot"), "{}", why(&rows));
    let rows = [exact(60.0, 60.0, 1), exact(90.0, 90.0, 1)];
    assert!(why(&rows).contains("2 informative rows for three figures"), "{}", why(&rows));
    let rows = [exact(60.0, 60.0, 1), exact(90.0, 90.0, 1), row(0.0, 0.0, 0, 0.0)];
    assert!(why(&rows).contains("2 informative rows"), "{}", why(&rows));
    // Sleeps of one minute each, however many.
    let rows = [exact(60.0, 60.0, 1), exact(90.0, 180.0, 3), exact(500.0, 300.0, 5)];
    assert!(why(&rows).contains("P_off and E_switch cannot"), "{}", why(&rows));
    assert!(why(&rows).contains("sleeps of different lengths"), "{}", why(&rows));
    let rows = [exact(60.0, 60.0, 1), exact(90.0, 90.0, 3), exact(500.0, 500.0, 5)];
    assert!(why(&rows).contains("P_on and P_off cannot"), "{}", why(&rows));
}

#[test]
fn energies_beyond_all_numbers_are_no_figures() {
    let rows =
        [(1.0, 2.0, 1, 1e308), (2.0, 3.0, 1, 1e308), (4.0, 5.0, 1, -1e308), (5.0, 9.0, 1, 8.0)];
    let rows = rows.map(|(on, off, cycles, energy)| row(on, off, cycles, energy));
    assert!(why(&rows).contains("too large to be added up"), "{}", why(&rows));
}

#[test]
fn figures_that_are_none_are_refused_by_row() {
    let mut rows = vec![exact(60.0, 60.0, 1); 4];
    rows[2].energy = Joules(f64::NAN);
    assert!(why(&rows).starts_with("row 3 has an energy that is not finite"), "{}", why(&rows));
    let rows = vec![exact(60.0, 60.0, 1); 4];
    let errors = [Joules(1.0), Joules(0.0), Joules(1.0), Joules(1.0)];
    let error = fit_states(&rows, EnergyErrors::Known(&errors)).unwrap_err().to_string();
    assert!(error.starts_with("row 2 has an error that is not above zero"), "{error}");
}

#[test]
fn negative_figures_are_reported_and_doubted() {
    // A meter whose zero is 5 W too low.
    let low = |on: f64, off: f64, cycles| {
        let mut row = exact(on, off, cycles);
        row.energy.0 -= 5.0 * (on + off);
        row
    };
    let rows = [low(600.0, 0.0, 0), low(300.0, 300.0, 1), low(300.0, 60.0, 6)];
    let fit = fit_states(&rows, EnergyErrors::Equal).unwrap();
    assert!((fit.off.value.get() + 3.4).abs() < 1e-9);
    assert!(fit.doubts.contains(&Doubt::OffBelowZero));
    assert!(fit.doubts.contains(&Doubt::NoRowToSpare));
    assert!(fit.on.standard_error.get().is_infinite());
}

#[test]
fn cycles_that_cannot_be_are_refused() {
    let (log, cycles) = noisy_log(&mut ChaCha8Rng::seed_from_u64(3), &[30, 60], true);
    let refused = |cycles: &[SleepCycle]| rows_of_log(&log, cycles).unwrap_err().to_string();
    let swapped = [cycles[1], cycles[0]];
    assert!(refused(&swapped).starts_with("sleep cycle 2 begins before"));
    let backwards = SleepCycle { wake_answered: cycles[0].sleep_commanded, ..cycles[0] };
    assert!(refused(&[backwards]).starts_with("sleep cycle 1 ends before"));
    let outside = SleepCycle { still: Some((Mono::ZERO, Mono::from_secs(1))), ..cycles[0] };
    assert!(refused(&[outside]).contains("does not lie within it"));
}
