use std::fs;

use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;
use nightwatt_meters::Host;

use super::*;

/// Meters by these names, of which nothing is read: the tests say what they said.
fn meters(names: &[(&str, &str)]) -> (tempfile::TempDir, Vec<Opened>) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("log.csv"), "time,watts\n0,1\n1,1\n").unwrap();
    let open = |(name, scope): &(&str, &str)| {
        let path = folder.path().join("log.csv");
        let spec = format!("file={},name={name},scope={scope}", path.display());
        Opened::open(&Host::default(), &spec.parse().unwrap()).unwrap()
    };
    let meters = names.iter().map(open).collect();
    (folder, meters)
}

fn load(time: f64) -> f64 {
    60.0 + 15.0 * (time / 7.0).sin() + 9.0 * (time / 3.1 + 1.0).sin() + 5.0 * (time / 23.0).cos()
}

fn at(seconds: f64) -> Mono {
    Mono(Duration::from_secs_f64(seconds))
}

fn sample(time: f64, reading: Reading, piece: Piece) -> Sample {
    Sample { mono: at(time), wall_ns: 0, channel: 0, reading, piece }
}

/// Takes samples of an hour of two meters, the second of which is late, off and scaled.
fn an_hour(cross: &mut Cross, second: impl Fn(u32) -> Sample) {
    let mut sinks = [cross.tap(0, Box::new(())), cross.tap(1, Box::new(()))];
    for index in 0..3600 {
        let time = f64::from(index) + 0.3;
        sinks[0].take(&sample(time, Reading::Power(Watts(load(time))), Piece::Begins));
        sinks[1].take(&second(index));
        cross.drain();
    }
}

#[test]
fn a_meter_that_is_late_scaled_and_off_is_found_out_while_it_is_read() {
    let (_folder, meters) = meters(&[("plug", "wall"), ("supply", "system")]);
    let mut cross = Cross::of(&meters, None, None).unwrap().unwrap();
    an_hour(&mut cross, |index| {
        let time = f64::from(index) + 0.7;
        let watts = Watts(2.0 + 0.95 * load(time - 2.4));
        sample(time, Reading::Power(watts), Piece::Begins)
    });
    let report = cross.report();
    assert_eq!(report.len(), 1);
    let (found, relation) = (&report[0], report[0].relation.as_ref().unwrap());
    assert_eq!((found.meter.as_str(), found.reference.as_str()), ("supply", "plug"));
    assert!((relation.scale.value - 0.95).abs() < 5e-3, "{relation:?}");
    assert!((relation.offset.value.get() - 2.0).abs() < 0.3, "{relation:?}");
    assert!((relation.lag.value - 2.4).abs() < 0.05, "{relation:?}");
    assert_eq!((found.dropped, found.longest_lag_s), (0, 10.0));
}

#[test]
fn means_and_counters_stand_for_the_middle_of_their_time() {
    let (_folder, meters) = meters(&[("plug", "wall"), ("counter", "wall")]);
    // The integral of the load over the two seconds before, by Simpson's rule.
    let mean = |end: f64| (load(end - 2.0) + 4.0 * load(end - 1.0) + load(end)) / 6.0;
    let over = Duration::from_secs(2);
    for counts in [true, false] {
        let mut cross = Cross::of(&meters, None, Some("plug")).unwrap().unwrap();
        an_hour(&mut cross, |index| {
            // Every two seconds: the second half of them comes after the plug has ended.
            let time = f64::from(index) * 2.0 + 0.7;
            let watts = Watts(mean(time));
            let covers = Piece::Covers { joules: watts * over, time: over };
            let mean = Reading::MeanPower { watts, over };
            let reading = if counts { Reading::Counter(0) } else { mean };
            sample(time, reading, covers)
        });
        let report = cross.report();
        let relation = report[0].relation.as_ref().unwrap();
        // No lag; means of two seconds are a little flatter than the load.
        assert!(relation.lag.value.abs() < 0.05, "{relation:?}");
        assert!((relation.scale.value - 1.0).abs() < 0.05, "{relation:?}");
    }
}

#[test]
fn what_is_not_drained_is_dropped_and_counted_and_the_rest_passes() {
    struct Count(Arc<Mutex<u32>>);
    impl Sink for Count {
        fn take(&mut self, _: &Sample) {
            *self.0.lock().unwrap() += 1;
        }
    }
    let (_folder, meters) = meters(&[("a", "wall"), ("b", "wall")]);
    let cross = Cross::of(&meters, None, None).unwrap().unwrap();
    let seen = Arc::new(Mutex::new(0));
    let mut sink = cross.tap(1, Box::new(Count(Arc::clone(&seen))));
    for index in 0..20_000 {
        let reading = Reading::Power(Watts(1.0));
        sink.take(&sample(f64::from(index), reading, Piece::Begins));
    }
    assert_eq!(*seen.lock().unwrap(), 20_000);
    assert_eq!(cross.report()[0].dropped, 20_000 - 16_384);
}

#[test]
fn only_meters_of_the_whole_machine_are_compared_unless_one_is_named() {
    let (_folder, meters) = meters(&[("plug", "wall"), ("cpu", "package")]);
    assert!(Cross::of(&meters, None, None).unwrap().is_none());
    let cross = Cross::of(&meters, None, Some("cpu/watts")).unwrap().unwrap();
    let report = cross.report();
    assert_eq!((report[0].meter.as_str(), report[0].reference.as_str()), ("plug", "cpu"));
    assert_eq!(report[0].relation, None);
    let error = Cross::of(&meters, None, Some("gpu")).unwrap_err().to_string();
    assert!(error.contains("`plug/watts`, `cpu/watts`"), "{error}");
}
