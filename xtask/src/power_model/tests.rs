use nightwatt_energy::least_squares::{Design, RowErrors};
use nightwatt_energy::power_model::regression::Regression;
use nightwatt_energy::power_model::{LOADS, Machine};

use super::data::Source;
use super::*;

/// The results beside the project, if they are there.
fn samples() -> Option<Vec<Sample>> {
    let folder = data::folder();
    if folder.is_dir() {
        return Some(data::read(&folder).unwrap());
    }
    println!("skipped: no {}; NIGHTWATT_DATA names the folder of the data", folder.display());
    None
}

fn by_processor(samples: &[Sample], basis: Basis) -> Study {
    Study::new(samples, basis, |sample| Kept::OtherProcessors.group(sample))
}

/// Numbers from 0 to 1 that are no pattern (Knuth's linear congruence).
fn noise() -> impl FnMut() -> f64 {
    let mut state = 1_u64;
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Machines of 40 processors, 5 of each, whose ln(W) follows these coefficients but for an error of
/// at most `off` each way.
fn invented(idle: &[f64; 6], full: &[f64; 6], off: f64) -> Vec<Sample> {
    let mut noise = noise();
    let mut samples = Vec::new();
    for row in 0..200 {
        let mut among = |most: f64| 1 + (noise() * most) as u32;
        let (sockets, cores) = (among(4.0), among(64.0));
        let machine = Machine {
            cpu: if row % 3 == 0 { "AMD".to_owned() } else { "Xeon".to_owned() },
            sockets,
            cores: sockets * cores,
            threads: sockets * cores * among(2.0),
            memory_bytes: u64::from(among(512.0)) << 30,
            ..Machine::default()
        };
        let predictors = Basis::ServerOfAnyYear.row(&machine).unwrap();
        let mut made_of = |coefficients: &[f64; 6]| {
            let exact: f64 = predictors.iter().zip(coefficients).map(|(x, b)| x * b).sum();
            Some((exact + off * (2.0 * noise() - 1.0)).exp())
        };
        let mut watts = [None; LOADS];
        watts[0] = made_of(idle);
        watts[LOADS - 1] = made_of(full);
        let processor = format!("{}", row % 40);
        samples.push(Sample { source: Source::Systems, row, machine, processor, watts });
    }
    samples
}

const IDLE: [f64; 6] = [4.0, -0.1, 0.9, 0.2, 0.3, 0.05];
const FULL: [f64; 6] = [5.0, -0.2, 1.0, 0.4, 0.3, 0.2];

#[test]
fn what_watts_were_made_of_is_found_again() {
    let samples = invented(&IDLE, &FULL, 0.0);
    let Regression { idle, full, .. } =
        by_processor(&samples, Basis::ServerOfAnyYear).regression(None).unwrap();
    for (found, expected) in idle.iter().chain(&*full).zip(IDLE.iter().chain(&FULL)) {
        assert!((found - expected).abs() < 1e-9, "{idle:?} {full:?}");
    }
}

#[test]
fn leaving_out_is_the_same_as_never_having_seen() {
    let samples = invented(&IDLE, &FULL, 0.5);
    let study = by_processor(&samples, Basis::ServerOfAnyYear);
    let left_out = study.cases[7].group;
    let regression = study.regression(Some(left_out)).unwrap();
    // The same by Householder's reflections; all processors have five results, so weights are equal.
    let kept = study.cases.iter().filter(|case| case.group != left_out);
    let mut design = Design::new(study.cases[0].row.len());
    kept.for_each(|case| design.push(&case.row, case.ln_watts[0].unwrap()));
    assert_eq!(design.rows(), 195);
    let solution = design.solve(RowErrors::Equal).unwrap();
    for (sums, reflections) in regression.idle.iter().zip(&solution.coefficients) {
        assert!((sums - reflections).abs() < 1e-9, "{sums} {reflections}");
    }
}

#[test]
fn intervals_cover_ninety_five_in_a_hundred_invented_machines() {
    let samples = invented(&IDLE, &FULL, 0.5);
    // Curves need something between the ends.
    let mut levels = samples.clone();
    for sample in &mut levels {
        let [idle, full] = [0, LOADS - 1].map(|load| sample.watts[load].unwrap());
        sample.source = Source::LoadLevels;
        sample.watts = std::array::from_fn(|load| Some(idle + (full - idle) * load as f64 / 10.0));
    }
    let both: Vec<_> = samples.into_iter().chain(levels).collect();
    let coverage = Coverage::of(&by_processor(&both, Basis::ServerOfAnyYear)).unwrap();
    for at in &coverage.loads {
        assert_eq!(at.count, 200);
        // Two standard errors of a share of 200 are 3 %.
        assert!((0.92..=0.98).contains(&at.covered), "{at:?}");
    }
}

#[test]
fn numpy_finds_the_same_coefficients() {
    let Some(samples) = samples() else { return };
    // numpy 2.4.6, its own reading of the file, years by other code; w = results of the processor:
    // np.linalg.lstsq(X * (w ** -0.25)[:, None], np.log(watts) * w ** -0.25)
    let idle = [2.92516, -0.08191, 0.9479, 0.15467, 0.40981, -0.07237, -3.42321, 1.6763, 2.49345];
    let full = [4.50887, -0.17207, 1.04237, 0.37664, 0.30491, 0.2075, -2.09457, 0.82723, 1.48558];
    let study = by_processor(&samples, Basis::Server);
    let systems = study.cases.iter().filter(|case| case.source == Source::Systems).count();
    assert_eq!(systems, 988);
    let found = study.regression(None).unwrap();
    for (found, expected) in found.idle.iter().chain(&*found.full).zip(idle.iter().chain(&full)) {
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
    }
}

#[test]
fn the_interval_holds_93_to_97_in_a_hundred_servers_whose_processor_was_left_out() {
    let Some(samples) = samples() else { return };
    let coverage = Coverage::of(&by_processor(&samples, Basis::Server)).unwrap();
    assert_eq!(coverage.loads.len(), LOADS);
    for (load, at) in coverage.loads.iter().enumerate() {
        assert!(at.count > 600, "{load}: {at:?}");
        assert!((0.93..=0.97).contains(&at.covered), "{load}: {at:?}");
        assert!((0.93..=0.97).contains(&at.covered_by_processor), "{load}: {at:?}");
    }
}

#[test]
fn intervals_hold_where_less_is_known_too() {
    let Some(samples) = samples() else { return };
    for basis in [Basis::ServerOfAnyYear, Basis::Thread, Basis::ThreadOfAnyYear] {
        let coverage = Coverage::of(&by_processor(&samples, basis)).unwrap();
        for (load, at) in coverage.loads.iter().enumerate() {
            assert!((0.93..=0.975).contains(&at.covered), "{basis:?} {load}: {at:?}");
            assert!((0.91..=0.975).contains(&at.covered_by_processor), "{basis:?} {load}: {at:?}");
        }
    }
}

#[test]
fn the_committed_coefficients_are_what_the_data_give() {
    run(&["--check"]).unwrap();
}
