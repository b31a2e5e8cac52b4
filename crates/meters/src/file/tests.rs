use nightwatt_clock::meter::{Stop, monotonic};
use nightwatt_energy::quantity::Watts;

use crate::fixture::Fixture;

use super::*;

const LOG: &str = "time,watts\n0,10\n1,20\n2,30\n60,40\n61,50";

fn open_log(text: &str, options: &str) -> (Fixture, Box<dyn Meter>) {
    let fixture = Fixture::of(&[("/log.csv", text)]);
    let spec = format!("file=/log.csv{options}").parse().unwrap();
    let meter = crate::open(&fixture.host, &spec).unwrap_or_else(|error| panic!("{error}"));
    (fixture, meter)
}

/// Reads until there are so many readings.
fn play(meter: &mut dyn Meter, count: usize) -> Vec<(Mono, Reading)> {
    let stop = Stop::new().unwrap();
    let mut played = Vec::new();
    let mut readings = Readings::default();
    while played.len() < count {
        meter.read(&Turn { stop: &stop, until: monotonic() }, &mut readings).unwrap();
        assert!(readings.iter().all(|(_, at, _)| *at <= monotonic()), "nothing before it is due");
        played.extend(readings.iter().map(|&(_, at, reading)| (at, reading)));
        readings.clear();
    }
    played
}

fn seconds_since_first(played: &[(Mono, Reading)], speed: f64) -> Vec<f64> {
    let round = |time: Duration| (time.as_secs_f64() * speed * 100.0).round() / 100.0;
    played.iter().map(|(at, _)| round(at.since(played[0].0))).collect()
}

#[test]
fn a_recording_is_played_at_its_pace_and_gaps_stay_gaps() {
    let (_fixture, mut meter) = open_log(LOG, ",speed=10000");
    assert_eq!(meter.channels()[0].name, "watts");
    let played = play(meter.as_mut(), 5);
    assert_eq!(seconds_since_first(&played, 1e4), [0.0, 1.0, 2.0, 60.0, 61.0]);
    let watts: Vec<_> = played.iter().map(|(_, reading)| *reading).collect();
    assert_eq!(watts, [10.0, 20.0, 30.0, 40.0, 50.0].map(|watts| Reading::Power(Watts(watts))));
    // The end of the recording is no error, and it does not start again.
    let stop = Stop::new().unwrap();
    let mut readings = Readings::default();
    let until = monotonic() + Duration::from_millis(1);
    while monotonic() < until {
        meter.read(&Turn { stop: &stop, until }, &mut readings).unwrap();
    }
    assert!(readings.is_empty());
}

#[test]
fn at_its_own_speed_only_what_is_due_is_played() {
    let (_fixture, mut meter) = open_log("time,watts\n0,10\n3600,20\n7200,30", "");
    assert_eq!(meter.pace().interval(None), Duration::from_hours(1));
    assert_eq!(play(meter.as_mut(), 1).len(), 1);
    let stop = Stop::new().unwrap();
    let mut readings = Readings::default();
    meter.read(&Turn { stop: &stop, until: monotonic() }, &mut readings).unwrap();
    assert!(readings.is_empty(), "the next comes in an hour");
}

#[test]
fn a_loop_goes_on_one_interval_after_the_end() {
    let (_fixture, mut meter) = open_log(LOG, ",speed=100000,loop=true");
    let played = play(meter.as_mut(), 11);
    let times = seconds_since_first(&played[..11], 1e5);
    assert_eq!(times, [0.0, 1.0, 2.0, 60.0, 61.0, 62.0, 63.0, 64.0, 122.0, 123.0, 124.0]);
    // Means reach back over their time: rounds touch, and do not overlap.
    let (_fixture, mut meter) =
        open_log("time,watts\n5,1\n6,2\n7,3", ",speed=1000,loop=true,mean=1s");
    let played = play(meter.as_mut(), 7);
    let times = seconds_since_first(&played[..7], 1e3);
    assert_eq!(times, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let over = Duration::from_millis(1);
    assert_eq!(played[6].1, Reading::MeanPower { watts: Watts(1.0), over });
}

#[test]
fn what_is_wrong_is_told() {
    let fixture = Fixture::of(&[("/log.csv", LOG)]);
    for wrong in [",speed=0", ",speed=x", ",loop=maybe", ",colour=red", ",format=excel"] {
        let spec = format!("file=/log.csv{wrong}").parse().unwrap();
        assert!(
            matches!(crate::open(&fixture.host, &spec), Err(MeterError::Spec { .. })),
            "{wrong}"
        );
    }
    assert!(crate::open(&fixture.host, &MeterSpec::of("file")).is_err());
}
