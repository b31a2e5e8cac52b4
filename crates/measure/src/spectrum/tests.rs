use std::fmt::Write as _;
use std::fs;

use super::*;

/// A recording in CSV, read as fast as can be.
fn of_csv(rows: impl Iterator<Item = (f64, f64)>, resolution: Option<f64>) -> SpectrumReport {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.csv");
    let mut text = "time,watts\n".to_owned();
    for (time, watts) in rows {
        writeln!(text, "{time:.6},{watts:.9}").unwrap();
    }
    fs::write(&path, text).unwrap();
    let options = SpectrumOptions {
        meter: format!("file={}", path.display()).parse().unwrap(),
        channel: None,
        time: Duration::from_secs(1),
        interval: None,
        resolution,
    };
    run(&options, &Stop::new().unwrap(), |_| ()).unwrap_or_else(|error| panic!("{error}"))
}

/// At 100 Hz: 2 W at 1 Hz and 1 W at 20 Hz, so powers of 2 and 0.5 W² on 30 W.
fn sines(index: u32) -> (f64, f64) {
    let time = f64::from(index) / 100.0;
    let sine = |hz: f64| (std::f64::consts::TAU * hz * time + 0.3).sin();
    (time, 30.0 + 2.0 * sine(1.0) + sine(20.0))
}

#[test]
fn sines_have_the_shares_of_power_that_were_put_in() {
    let report = of_csv((0..20_000).map(sines), None);
    assert!((report.rate_hz - 100.0).abs() < 1e-6, "{}", report.rate_hz);
    assert_eq!((report.samples, report.gaps), (20_000, 0));
    // 4096 is the largest power of two in a quarter of the samples.
    assert!((report.resolution_hz - 100.0 / 4096.0).abs() < 1e-9);
    assert!((report.mean_w - 30.0).abs() < 1e-3 && (report.sd_w - 2.5_f64.sqrt()).abs() < 1e-3);
    let share = |hz: f64| -> f64 {
        let bands = report.bands.iter().filter(|band| band.above_hz < hz && hz <= band.to_hz);
        bands.map(|band| band.share).sum()
    };
    assert!((share(1.0) - 0.8).abs() < 1e-3 && (share(20.0) - 0.2).abs() < 1e-3, "{report:?}");
    assert!((report.bands.iter().map(|band| band.share).sum::<f64>() - 1.0).abs() < 1e-9);
    assert!(report.bands[0].above_hz.abs() < 1e-12);
    assert!((report.highest_hz - 50.0).abs() < 1e-6);
    // 80 % lie at 1 Hz, so 95 % need the 20 Hz: 40 readings a second, within the window's two bins.
    let rate = report.rate_that_keeps_95_hz.unwrap();
    assert!((rate - 40.0).abs() < 0.15, "{rate}");
    assert_eq!(report.warnings, [""; 0]);
}

#[test]
fn a_missing_reading_costs_its_segment_and_is_told() {
    let rows = (0..20_000).filter(|index| *index != 7000).map(sines);
    let report = of_csv(rows, Some(0.2));
    // 100 Hz / 0.2 Hz, rounded up to 512 samples.
    assert!((report.resolution_hz - 100.0 / 512.0).abs() < 1e-9);
    // By halves of 256: (7000 - 512) / 256 + 1 before, (12999 - 512) / 256 + 1 behind.
    assert_eq!((report.gaps, report.segments), (1, 26 + 49));
    assert!(report.warnings[0].contains("even pace in 1 places"), "{:?}", report.warnings);
    assert!((report.sd_w - 2.5_f64.sqrt()).abs() < 1e-2, "{}", report.sd_w);
}

#[test]
fn changes_as_fast_as_the_readings_are_doubted_and_none_at_all_has_no_rate() {
    let fast = |index: u32| (f64::from(index) / 100.0, f64::from(index * index % 7));
    let noise = of_csv((0..4000).map(fast), None);
    assert!(noise.warnings.iter().any(|it| it.contains("read faster")), "{:?}", noise.warnings);
    let still = of_csv((0..4000).map(|index| (f64::from(index), 7.0)), None);
    assert_eq!((still.rate_that_keeps_95_hz, still.sd_w), (None, 0.0));
}

#[test]
fn too_few_readings_have_no_spectrum() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.csv");
    fs::write(&path, "time,watts\n0,1\n1,2\n2,1\n").unwrap();
    let options = SpectrumOptions {
        meter: format!("file={}", path.display()).parse().unwrap(),
        channel: None,
        time: Duration::from_secs(1),
        interval: None,
        resolution: None,
    };
    let error = run(&options, &Stop::new().unwrap(), |_| ()).unwrap_err().to_string();
    assert!(error.contains("record for longer"), "{error}");
}
