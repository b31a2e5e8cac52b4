use std::fs;

use nightwatt_clock::meter::monotonic;
use nightwatt_energy::integration::{Gap, Totals, Track, TrackSpec};
use serde_json::Value;

use crate::fixture::Fixture;
use crate::recording::{self, Format, Meta, Recorder, SCHEMA};
use crate::sampler::{Opened, Sample, Sampler};

use super::*;

const LONG: Duration = Duration::from_hours(1);

/// A counter, a meter of moments and one of means.
fn meters() -> (Fixture, Vec<Opened>) {
    let fixture = Fixture::of(&[
        ("/sys/class/powercap/intel-rapl:0/name", "package-0"),
        ("/sys/class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850"),
        ("/sys/class/powercap/intel-rapl:0/energy_uj", "1"),
        ("/moments.csv", "time,watts\n0,1\n1,1"),
        ("/means.csv", "time,watts\n0,1\n1,1"),
    ]);
    let specs = ["rapl", "file=/moments.csv,name=a \"b\"", "file=/means.csv,mean=1s,name=plug"];
    let open = |spec: &str| Opened::open(&fixture.host, &spec.parse().unwrap()).unwrap();
    let meters = fixture.while_counting(|| specs.map(open).into_iter().collect());
    (fixture, meters)
}

fn mean(watts: f64) -> Reading {
    Reading::MeanPower { watts: Watts(watts), over: Duration::from_secs(1) }
}

/// Milliseconds and readings of each meter, with all that may happen to one.
fn readings() -> [Vec<(u64, Reading)>; 3] {
    let count = |at: u64, count: u64| (at, Reading::Counter(count));
    let power = |at: u64, watts: f64| (at, Reading::Power(Watts(watts)));
    [
        // A wrap after the second, a reset after the fourth.
        vec![
            count(1, 262_140_000_000),
            count(1001, 262_143_000_000),
            count(2002, 5_000_000),
            count(3002, 9_000_000),
            count(4002, 1_000),
            count(9001, 70_001_000),
        ],
        // Uneven, one that comes twice, and nothing for half a minute.
        vec![
            power(2, 40.0),
            power(1002, 44.5),
            power(1002, 99.0),
            power(1252, 43.0),
            power(30_000, 80.25),
            power(31_000, 60.0),
        ],
        // The first reaches back before the beginning; late, early, and one is missing.
        vec![
            (400, mean(10.0)),
            (1500, mean(20.0)),
            (2400, mean(30.0)),
            (4400, mean(40.0)),
            (32_100, mean(50.0)),
        ],
    ]
}

/// What the meters said, as the sampler integrates it: from 0 to 31.5 s; after 3 s the host slept.
fn record(path: &Path, format: Format, meters: &[Opened]) -> Vec<Totals> {
    let meta = Meta {
        schema: SCHEMA,
        nightwatt: "test".to_owned(),
        host: Value::Null,
        started: String::new(),
        mono_ns: 0,
        meters: meters.iter().map(|meter| recording::describe(meter, None)).collect(),
        settings: Value::Null,
    };
    let recorder = Recorder::start(path, format, LONG, meters, &meta).unwrap();
    let mut totals = Vec::new();
    for (meter, (opened, readings)) in meters.iter().zip(readings()).enumerate() {
        let counter = opened.channels()[0].counter;
        let spec = TrackSpec { counter, longest_gap: Duration::from_millis(2500) };
        let mut track = Track::new(spec, Mono::ZERO);
        track.end(Mono(Duration::from_millis(31_500)));
        let mut sink = recorder.sink(meter);
        let mut slept = false;
        for (millis, reading) in readings {
            let mono = Mono(Duration::from_millis(millis));
            if millis > 4300 && !std::mem::replace(&mut slept, true) {
                track.interrupt(Gap::Suspended);
            }
            let piece = track.add(mono, reading);
            let wall_ns = 1_700_000_000_000_000_000 + i64::try_from(mono.0.as_nanos()).unwrap();
            sink.take(&Sample { mono, wall_ns, channel: 0, reading, piece });
        }
        totals.push(track.totals());
    }
    recorder.finish(&Value::Null).unwrap();
    totals
}

/// Plays a recording into another.
fn play(fixture: &Fixture, from: &str, to: &Path, speed: f64) -> Vec<Totals> {
    let spec = format!("file=/{from},speed={speed},name=played").parse().unwrap();
    let opened = Opened::open(&fixture.host, &spec).unwrap();
    let names: Vec<_> = opened.channels().iter().map(|it| it.name.clone()).collect();
    assert_eq!(names, ["rapl/package-0", "a \"b\"/watts", "plug/watts"]);
    let meta = Meta {
        schema: SCHEMA,
        nightwatt: "test".to_owned(),
        host: Value::Null,
        started: String::new(),
        mono_ns: i64::try_from(monotonic().0.as_nanos()).unwrap(),
        meters: vec![recording::describe(&opened, None)],
        settings: Value::Null,
    };
    let meters = vec![opened];
    let recorder = Recorder::start(to, Format::Parquet, LONG, &meters, &meta).unwrap();
    let sampler = Sampler::start(meters, None, |_| recorder.sink(0)).unwrap();
    let readings = || -> u64 {
        sampler.so_far()[0].totals.iter().map(|totals| totals.readings + totals.ignored).sum()
    };
    while readings() < 17 {
        std::thread::yield_now();
    }
    let (measured, _) = sampler.finish(monotonic());
    recorder.finish(&Value::Null).unwrap();
    measured[0].totals.clone()
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found} {expected}");
}

#[test]
fn a_recording_that_is_played_and_recorded_again_has_the_same_energy_coverage_and_gaps() {
    let speed = 1000.0;
    for name in ["r.parquet", "r.csv", "r.jsonl"] {
        let (fixture, meters) = meters();
        let path = fixture.host.path(name);
        let recorded = record(&path, Format::of(&path).unwrap(), &meters);
        // By hand. Counts: 3 J, 5 J and the 328.851 mJ to the wrap, 4 J; a reset; a suspend.
        close(recorded[0].joules.get(), 3.0 + 5.328_851 + 4.0);
        // Trapezoids of 42.25 W for 1 s, 43.75 W for 0.25 s, 70.125 W for 1 s; nothing in between.
        close(recorded[1].joules.get(), 42.25 + 10.9375 + 70.125);
        // 0.4 s of 10 W, then 1.1, 0.9 and 1 s (the suspend), 0.4 s of 50 W before the end.
        close(recorded[2].joules.get(), 4.0 + 22.0 + 27.0 + 40.0 + 20.0);
        let again = fixture.host.path("again.parquet");
        let played = play(&fixture, name, &again, speed);
        for (played, recorded) in played.iter().zip(&recorded) {
            close(played.joules.get() * speed, recorded.joules.get());
            close(played.covered.as_secs_f64() * speed, recorded.covered.as_secs_f64());
            assert_eq!((played.readings, played.ignored), (recorded.readings, recorded.ignored));
        }
        let mut sums = [(0.0, 0.0); 3];
        let mut counts = Vec::new();
        recording::read(&again, |_, channel, row| {
            let place = ["rapl/package-0", "a \"b\"/watts", "plug/watts"];
            let sum = &mut sums[place.iter().position(|it| *it == channel).unwrap()];
            sum.0 += row.joules.unwrap_or(0.0);
            sum.1 += row.covers_s.unwrap_or(0.0);
            counts.extend(row.counter);
        })
        .unwrap();
        for ((joules, covered), recorded) in sums.into_iter().zip(&recorded) {
            close(joules * speed, recorded.joules.get());
            close(covered * speed, recorded.covered.as_secs_f64());
        }
        assert_eq!(counts[..3], [262_140_000_000, 262_143_000_000, 5_000_000], "{name}");
    }
}

#[test]
fn at_its_own_pace_the_figures_are_the_same_to_the_last_digit() {
    let (fixture, meters) = meters();
    let recorded = record(&fixture.host.path("r.parquet"), Format::Parquet, &meters);
    let path = fixture.host.path("r.parquet");
    let options = Options { name: "r".to_owned(), ..Options::default() };
    let log = super::super::open(&path, &options).unwrap();
    let spec = TrackSpec { counter: None, longest_gap: Duration::ZERO };
    let mut tracks = vec![Track::new(spec, Mono::ZERO); 3];
    for entry in log {
        let entry = entry.unwrap();
        tracks[entry.channel].replay(entry.mono, entry.reading, entry.piece.unwrap());
    }
    for (track, recorded) in tracks.iter().zip(&recorded) {
        let found = track.totals();
        assert_eq!((found.joules, found.covered), (recorded.joules, recorded.covered));
        assert_eq!((found.readings, found.ignored), (recorded.readings, recorded.ignored));
        assert_eq!((found.gaps, found.span), (recorded.gaps, recorded.span));
    }
}

#[test]
fn channels_are_what_they_were_and_can_be_chosen() {
    let (fixture, meters) = meters();
    let path = fixture.host.path("r.jsonl");
    record(&path, Format::JsonLines, &meters);
    let open = |how: &str| {
        let options = Options::of(&format!("file=x{how}").parse().unwrap()).unwrap();
        super::super::open(&path, &options)
    };
    let log = open("").unwrap();
    assert_eq!(log.channels()[0].counter, meters[0].channels()[0].counter);
    assert_eq!(log.channels()[2].accuracy, meters[2].channels()[0].accuracy);
    assert_eq!(log.about(), Duration::from_secs(1), "as often as they were read");
    let log = open(",meter=plug").unwrap();
    assert_eq!(log.channels()[0].name, "plug/watts");
    assert_eq!(log.map(|entry| entry.unwrap().reading).next(), Some(mean(10.0)));
    assert_eq!(open(",channel=watts").unwrap().channels().len(), 2);
    let error = open(",channel=volts").err().unwrap().to_string();
    assert!(error.contains("`package-0` of `rapl`, `watts` of `a \"b\"`"), "{error}");
}

#[test]
fn what_is_no_recording_is_told() {
    let fixture = Fixture::of(&[("/a.jsonl", "{\"meta\":{\"schema\":1}}"), ("/b.parquet", "PAR1")]);
    let error = |file: &str| {
        let spec = format!("file=/{file}").parse().unwrap();
        crate::open(&fixture.host, &spec).err().unwrap().to_string()
    };
    assert!(error("a.jsonl").contains("missing field `meters`"), "{}", error("a.jsonl"));
    assert!(error("b.parquet").contains("cannot read"), "{}", error("b.parquet"));
    // Lines that make no sense are left out and counted, as in other recordings.
    let (fixture, meters) = meters();
    let path = fixture.host.path("r.csv");
    record(&path, Format::Csv, &meters);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}rubbish\n2026-11-21T20:15:38Z,x,,,,,,,,\n")).unwrap();
    let mut log = super::super::open(&path, &Options::default()).unwrap();
    assert_eq!(log.by_ref().filter_map(Result::ok).count(), 17);
    assert_eq!(log.skipped().unwrap().rows, 2);
}
