use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use super::*;

fn points(
    rng: &mut ChaCha8Rng,
    count: usize,
    noise: f64,
    power: impl Fn(f64) -> f64,
) -> Vec<UtilisationPoint> {
    (0..count)
        .map(|_| {
            let utilisation: f64 = rng.random();
            let noise = noise * rng.sample::<f64, _>(StandardNormal);
            UtilisationPoint { utilisation, power: Watts(power(utilisation) + noise) }
        })
        .collect()
}

#[test]
fn intervals_of_a_line_cover_it_as_often_as_they_say_and_it_is_seldom_broken() {
    let mut missed: [Vec<u64>; 3] = Default::default();
    for seed in 0..1000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let points = points(&mut rng, 60, 3.0, |u| 40.0 + 80.0 * u);
        let fit = fit_utilisation(&points).unwrap();
        let held = [
            fit.line.idle.covers(&Watts(40.0)),
            fit.line.slope.covers(&Watts(80.0)),
            fit.better == Better::Line,
        ];
        for (missed, held) in missed.iter_mut().zip(held) {
            if !held {
                missed.push(seed);
            }
        }
    }
    // Binomial(1000, 0.95), 3.3 sd either side: the F test too errs in 5 % of cases.
    for (what, missed) in ["idle", "slope", "line kept"].iter().zip(missed) {
        println!("{what}: {} of 1000", 1000 - missed.len());
        assert!(
            (27..=73).contains(&missed.len()),
            "{what}: {} missed, seeds {missed:?}",
            missed.len()
        );
    }
}

#[test]
fn a_machine_that_bends_is_told_from_a_line() {
    // As servers do: steep at first.
    let bent = |u: f64| 50.0 + 100.0 * u.sqrt();
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let fit = fit_utilisation(&points(&mut rng, 500, 2.0, bent)).unwrap();
    assert_eq!(fit.better, Better::BrokenLine);
    let broken = fit.broken.unwrap();
    assert_eq!(broken.knots.len(), 11);
    for u in [0.15, 0.35, 0.55, 0.75, 0.95] {
        assert!((broken.at(u).get() - bent(u)).abs() < 2.0, "{u}: {}", broken.at(u));
    }
    assert!(broken.residual_sd < fit.line.residual_sd);
}

#[test]
fn a_broken_line_without_noise_is_found_exactly() {
    // 60 W at 0, 90 W at 0.3, 100 W at 1.
    let broken = |u: f64| if u < 0.3 { 60.0 + 100.0 * u } else { 90.0 + (u - 0.3) / 0.07 };
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let mut seen = points(&mut rng, 200, 0.0, broken);
    seen.extend(
        [0.0, 1.0]
            .map(|utilisation| UtilisationPoint { utilisation, power: Watts(broken(utilisation)) }),
    );
    let fit = fit_utilisation(&seen).unwrap();
    let found = fit.broken.unwrap();
    for u in [0.0, 0.1, 0.29, 0.3, 0.31, 0.77, 1.0] {
        assert!((found.at(u).get() - broken(u)).abs() < 1e-9, "{u}");
    }
    assert!(found.is_monotone());
    assert_eq!(fit.covered, (0.0, 1.0));
}

// What the line of numpy below prints.
const POLYFIT: [f64; 4] =
    [75.826_771_653_543, 49.535_433_070_866, 1.610_488_079_438, 0.727_398_830_229];

/// From numpy 2.4: `np.polyfit([0,.1,.2,.4,.9], [50,58,63,80,118.], 1, cov=True)`; numpy scales the
/// covariance by the residuals over n - 2, as we do: slope, intercept, then roots of the diagonal.
#[test]
fn a_line_through_five_points_is_numpys() {
    let seen = [(0.0, 50.0), (0.1, 58.0), (0.2, 63.0), (0.4, 80.0), (0.9, 118.0)]
        .map(|(utilisation, power)| UtilisationPoint { utilisation, power: Watts(power) });
    let line = fit_utilisation(&seen).unwrap().line;
    let [slope, idle, slope_error, idle_error] = POLYFIT;
    assert!((line.slope.value.get() - slope).abs() < 1e-9);
    assert!((line.idle.value.get() - idle).abs() < 1e-9);
    assert!((line.slope.standard_error.get() - slope_error).abs() < 1e-9);
    assert!((line.idle.standard_error.get() - idle_error).abs() < 1e-9);
}

#[test]
fn pools_of_falling_knots_become_their_weighted_mean() {
    let power = |value: f64, error: f64| Estimate::new(Watts(value), Watts(error), 2.0);
    let broken = BrokenLine {
        knots: vec![0.0, 0.1, 0.2, 0.3, 0.4],
        powers: vec![
            power(10.0, 1.0),
            power(30.0, 1.0),
            power(20.0, 0.5),
            power(24.0, 1.0),
            power(40.0, 1.0),
        ],
        residual_sd: Watts(1.0),
    };
    assert!(!broken.is_monotone());
    // 30 (weight 1) and 20 (weight 4) pool to 22, which 24 follows.
    let values: Vec<f64> = broken.monotone().powers.iter().map(|power| power.value.get()).collect();
    for (found, expected) in values.iter().zip([10.0, 22.0, 22.0, 24.0, 40.0]) {
        assert!((found - expected).abs() < 1e-9, "{values:?}");
    }
    assert!(broken.monotone().is_monotone());
}

#[test]
fn a_machine_seen_at_one_load_only_is_refused() {
    let still = [UtilisationPoint { utilisation: 0.25, power: Watts(50.0) }; 20];
    let error = fit_utilisation(&still).unwrap_err().to_string();
    assert!(error.starts_with("idle power and slope cannot be determined"), "{error}");
    assert!(error.contains("load the machine at two levels"), "{error}");
    assert!(fit_utilisation(&[]).is_err());
    for (utilisation, power) in [(1.5, 50.0), (f64::NAN, 50.0), (0.5, f64::INFINITY)] {
        let mut points = still.to_vec();
        points[3] = UtilisationPoint { utilisation, power: Watts(power) };
        let error = fit_utilisation(&points).unwrap_err().to_string();
        assert!(error.starts_with("point 4 has"), "{error}");
    }
}

#[test]
fn mostly_idle_points_break_the_line_only_where_there_are_some() {
    // Idle for long, and a few readings about full load.
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let mut seen = Vec::new();
    for index in 0..300 {
        let utilisation =
            if index < 290 { 0.01 * rng.random::<f64>() } else { 0.9 + 0.1 * rng.random::<f64>() };
        seen.push(UtilisationPoint { utilisation, power: Watts(50.0 + 60.0 * utilisation) });
    }
    let fit = fit_utilisation(&seen).unwrap();
    if let Some(broken) = fit.broken {
        assert!((broken.at(0.5).get() - 80.0).abs() < 1e-6);
        assert!(broken.knots.len() <= 3, "{:?}", broken.knots);
    }
}
