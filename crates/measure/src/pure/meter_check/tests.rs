use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use super::*;
use crate::pure::power_log::PowerReading;
use nightwatt_energy::quantity::Joules;

/// A load that changes smoothly, at no common period.
fn load(time: f64) -> f64 {
    60.0 + 15.0 * (time / 7.0).sin() + 9.0 * (time / 3.1 + 1.0).sin() + 5.0 * (time / 23.0).cos()
}

fn reading(time: f64, power: f64) -> PowerReading {
    PowerReading { time: Mono(Duration::from_secs_f64(time)), power: Watts(power) }
}

fn log(readings: Vec<PowerReading>, interpolation: Interpolation) -> PowerLog {
    PowerLog::new(readings, interpolation, Duration::from_secs(30)).unwrap()
}

/// Every `step` seconds from `start` on, what `power` says.
fn sampled(start: f64, step: f64, count: u32, power: impl Fn(f64) -> f64) -> PowerLog {
    let time = |index: u32| start + step * f64::from(index);
    let readings = (0..count).map(|index| reading(time(index), power(time(index)))).collect();
    log(readings, Interpolation::Instants)
}

const LONGEST: Duration = Duration::from_secs(5);

#[test]
fn scale_offset_and_lag_of_a_clean_meter_are_found() {
    let reference = sampled(0.0, 0.1, 4000, load);
    for lag in [0.0, 0.33, 1.0, 2.47, -0.78] {
        // Once a second, at times of its own.
        let meter = sampled(10.35, 1.0, 380, |time| 3.0 + 1.05 * load(time - lag));
        let found = check_meter(&meter, &reference, LONGEST).unwrap();
        let relation = found.relation.unwrap();
        assert!((relation.lag.value - lag).abs() < 0.005, "{lag}: {:?}", relation.lag);
        assert!((relation.scale.value - 1.05).abs() < 1e-3, "{lag}: {:?}", relation.scale);
        assert!((relation.offset.value.get() - 3.0).abs() < 0.05, "{lag}: {:?}", relation.offset);
        // Error = 3 W + 5 %, whatever the load.
        let mean = found.mean_error.get() / (found.mean_percent / 100.0);
        assert!((found.mean_error.get() - (3.0 + 0.05 * mean)).abs() < 0.01);
        assert!(found.step.is_none());
    }
}

#[test]
fn intervals_of_a_noisy_meter_cover_the_truth_as_often_as_they_say() {
    let reference = sampled(0.0, 0.25, 1600, load);
    let mut missed: [Vec<u64>; 3] = Default::default();
    for seed in 0..1000 {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let noise: Vec<f64> = (0..300).map(|_| rng.sample(StandardNormal)).collect();
        let time = |index: u32| 20.1 + f64::from(index);
        let power = |index: u32| 2.0 + 0.97 * load(time(index) - 0.6) + noise[index as usize];
        let readings = (0..300).map(|index| reading(time(index), power(index))).collect();
        let meter = log(readings, Interpolation::Instants);
        let found = check_meter(&meter, &reference, LONGEST).unwrap();
        let relation = found.relation.unwrap();
        let covered = [
            relation.scale.covers(&0.97),
            relation.offset.covers(&Watts(2.0)),
            relation.lag.covers(&0.6),
        ];
        for (missed, covered) in missed.iter_mut().zip(covered) {
            if !covered {
                missed.push(seed);
            }
        }
        // 300 readings know a standard deviation within 4 %, from a median of differences within 9 %.
        assert!((found.noise.get() - 1.0).abs() < 0.4, "seed {seed}: {}", found.noise);
    }
    for (figure, missed) in ["scale", "offset", "lag"].iter().zip(missed) {
        println!("{figure}: {} of 1000 intervals cover", 1000 - missed.len());
        // Binomial(1000, 0.05): 50 and 3.3 sd either side.
        assert!((27..=73).contains(&missed.len()), "{figure}: {} missed: {missed:?}", missed.len());
    }
}

#[test]
fn the_mean_error_is_known_as_well_as_it_says() {
    let reference = sampled(0.0, 0.25, 1600, load);
    let covered = (0..500_u64).filter(|seed| {
        let rng = &mut ChaCha8Rng::seed_from_u64(*seed);
        let time = |index: u32| 20.0 + f64::from(index);
        let noise: Vec<f64> = (0..300).map(|_| rng.sample(StandardNormal)).collect();
        let power = |index: u32| 2.0 + load(time(index)) + 1.5 * noise[index as usize];
        let readings = (0..300).map(|index| reading(time(index), power(index))).collect();
        let found =
            check_meter(&log(readings, Interpolation::Instants), &reference, LONGEST).unwrap();
        (found.mean_error.get() - 2.0).abs() <= found.mean_error_95.unwrap().get()
    });
    // Binomial(500, 0.95): 475 and 3.3 sd either side.
    let covered = covered.count();
    assert!((459..=491).contains(&covered), "{covered} of 500");
    let few = sampled(20.0, 1.0, 19, load);
    assert_eq!(check_meter(&few, &reference, LONGEST).unwrap().mean_error_95, None);
}

#[test]
fn errors_are_the_ones_that_were_put_in() {
    // The reference steps between 10 W and 100 W every 20 s; the meter reads 2 W too much at 10 W
    // and 1 W too little at 100 W, and once 30 W too much.
    let steps = |time: f64| if ((time / 20.0) as u32).is_multiple_of(5) { 10.0 } else { 100.0 };
    let reference = sampled(0.0, 0.5, 2000, steps);
    let meter = sampled(5.25, 1.0, 900, |time| {
        let power = steps(time);
        let spike = if (time - 550.25).abs() < 0.1 { 30.0 } else { 0.0 };
        spike + if power < 50.0 { 12.0 } else { 99.0 }
    });
    let found = check_meter(&meter, &reference, LONGEST).unwrap();
    assert!(found.relation.is_some());
    assert_eq!(found.light_load.up_to, Watts(10.0));
    assert!((found.light_load.mean_error.get() - 2.0).abs() < 0.1, "{:?}", found.light_load);
    assert!((found.light_load.percent - 20.0).abs() < 1.0);
    // A fifth of 2 W less four fifths of 1 W.
    assert!((found.mean_error.get() + 0.4).abs() < 0.1, "{}", found.mean_error);
    assert!((found.mean_percent + 0.4 / 0.82).abs() < 0.15, "{}", found.mean_percent);
    assert!(found.noise.get() < 0.05, "{}", found.noise);
    assert_eq!(found.readings, 900);
}

#[test]
fn the_worst_reading_is_named() {
    let reference = sampled(0.0, 1.0, 200, load);
    let off = |time: f64| if (time - 77.0).abs() < 0.1 { -31.0 } else { 0.0 };
    let meter = sampled(0.0, 1.0, 200, |time| load(time) + off(time));
    let found = check_meter(&meter, &reference, LONGEST).unwrap();
    assert_eq!(found.worst.time, Mono::from_secs(77));
    assert!((found.worst.error.get() + 31.0).abs() < 1.0, "{:?}", found.worst);
    let percent = -31.0 / load(77.0) * 100.0;
    assert!((found.worst_percent.unwrap().percent - percent).abs() < 2.0);
}

#[test]
fn a_meter_of_means_is_compared_with_means() {
    // A fast reference, and a meter that reports exact means over 6 s: it has no error at all, though
    // the load moves by tens of watts within each.
    let reference = sampled(0.0, 0.1, 5000, load);
    let at = |time: u64| Mono::from_secs(time);
    let mean = |end: u64| {
        let Joules(energy) = reference.energy(at(end - 6), at(end)).unwrap();
        PowerReading { time: at(end), power: Watts(energy / 6.0) }
    };
    let meter = log((2..80).map(|index| mean(6 * index)).collect(), Interpolation::Means);
    let found = check_meter(&meter, &reference, LONGEST).unwrap();
    assert!(found.relation.unwrap().lag.value.abs() < 1e-3);
    assert!(found.worst.error.get().abs() < 0.05, "{:?}", found.worst);
}

#[test]
fn a_steady_load_tells_errors_but_no_scale_nor_lag() {
    let rng = &mut ChaCha8Rng::seed_from_u64(4);
    let mut noisy = |count: u32, mean: f64| {
        let readings = (0..count)
            .map(|index| reading(f64::from(index), mean + rng.sample::<f64, _>(StandardNormal)))
            .collect();
        log(readings, Interpolation::Instants)
    };
    let (meter, reference) = (noisy(300, 52.0), noisy(300, 50.0));
    let found = check_meter(&meter, &reference, LONGEST).unwrap();
    assert_eq!(found.relation, None);
    // Of 300 differences with sd 1.41: within 0.082 (one sd).
    assert!((found.mean_error.get() - 2.0).abs() < 0.35, "{}", found.mean_error);
}

#[test]
fn a_coarse_meter_shows_its_step() {
    let reference = sampled(0.0, 0.5, 2000, load);
    let meter = sampled(1.0, 1.0, 900, |time| (load(time) / 2.5).round() * 2.5);
    let found = check_meter(&meter, &reference, LONGEST).unwrap();
    assert!((found.step.unwrap().get() - 2.5).abs() < 1e-9);
}

#[test]
fn meters_that_never_met_are_refused() {
    let early = sampled(0.0, 1.0, 100, load);
    let late = sampled(500.0, 1.0, 100, load);
    let error = check_meter(&early, &late, LONGEST).unwrap_err();
    assert_eq!(error, MeterCheckError::NoOverlap { readings: 0 });
}

fn cross() -> CrossCalibration {
    CrossCalibration::new(Duration::from_millis(500), LONGEST, Duration::from_secs(10))
}

#[test]
fn two_running_meters_find_scale_offset_and_lag_within_their_errors() {
    let mut far = Vec::new();
    for seed in 0..200 {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let mut cross = cross();
        for half in 0..2400_u32 {
            let time = f64::from(half) / 2.0;
            cross.push(Side::Reference, reading(time, load(time)));
            if half % 2 == 1 {
                let noise: f64 = rng.sample(StandardNormal);
                cross.push(Side::Meter, reading(time, 1.03 * load(time - 1.2) - 4.0 + noise));
            }
        }
        let found = cross.relation().unwrap();
        // Straight lines between readings a second apart cut this load's corners by 0.3 % at most.
        let off = [
            (found.scale.value - 1.03).abs() - 0.004 > 3.0 * found.scale.standard_error,
            (found.offset.value.get() + 4.0).abs() - 0.25 > 3.0 * found.offset.standard_error.get(),
            (found.lag.value - 1.2).abs() - 0.01 > 3.0 * found.lag.standard_error,
        ];
        assert!(found.scale.standard_error < 0.005, "{:?}", found.scale);
        assert!(found.lag.standard_error < 0.03, "{:?}", found.lag);
        if off.contains(&true) {
            far.push((seed, found));
        }
    }
    // Three sd are left in 0.3 % of cases, three figures each: 2 of 200.
    assert!(far.len() <= 6, "{}: {far:?}", far.len());
}

#[test]
fn a_meter_ahead_of_the_reference_has_a_negative_lag() {
    let mut cross = cross();
    for half in 0..800_u32 {
        let time = f64::from(half) / 2.0 + 100.0;
        cross.push(Side::Meter, reading(time, load(time + 2.25)));
        cross.push(Side::Reference, reading(time, load(time)));
    }
    let found = cross.relation().unwrap();
    assert!((found.lag.value + 2.25).abs() < 0.02, "{:?}", found.lag);
    assert!((found.scale.value - 1.0).abs() < 0.01, "{:?}", found.scale);
}

#[test]
fn stalls_gaps_and_repeated_readings_harm_nothing_and_cost_no_memory() {
    let mut cross = cross();
    let mut most = 0;
    for half in 0..40_000_u32 {
        let time = f64::from(half) / 2.0;
        cross.push(Side::Reference, reading(time, load(time)));
        cross.push(Side::Reference, reading(time, 1e9));
        // Away for more than half of the time.
        if half % 10_000 < 4000 {
            cross.push(Side::Meter, reading(time, 2.0 * load(time - 1.0)));
            cross.push(Side::Meter, reading(time + 0.1, f64::NAN));
        }
        most = most.max(cross.held());
    }
    let found = cross.relation().unwrap();
    assert!((found.scale.value - 2.0).abs() < 1e-9, "{:?}", found.scale);
    assert!((found.lag.value - 1.0).abs() < 1e-9, "{:?}", found.lag);
    // Ten lags each way: 8 x 10 + 1024 points a side at most.
    assert!(most <= 2 * 1105, "{most}");
}

#[test]
fn nothing_is_claimed_while_the_load_is_steady() {
    let rng = &mut ChaCha8Rng::seed_from_u64(5);
    let mut cross = cross();
    assert_eq!(cross.relation(), None);
    for second in 0..500_u32 {
        let mut noise = || 50.0 + rng.sample::<f64, _>(StandardNormal);
        let time = f64::from(second);
        let (a, b) = (noise(), noise());
        cross.push(Side::Meter, reading(time, a));
        cross.push(Side::Reference, reading(time, b));
    }
    assert_eq!(cross.relation(), None);
}
