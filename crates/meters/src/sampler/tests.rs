use std::sync::atomic::{AtomicU64, Ordering};

use nightwatt_clock::meter::monotonic;

use crate::fixture::Fixture;

use super::*;

const ENERGY: &str = "/sys/class/powercap/intel-rapl:0/energy_uj";

fn rapl(energy: &str) -> Fixture {
    Fixture::of(&[
        ("/sys/class/powercap/intel-rapl:0/name", "package-0"),
        ("/sys/class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850"),
        (ENERGY, energy),
    ])
}

fn opened(fixture: &Fixture, spec: &str) -> Opened {
    fixture.while_counting(|| Opened::open(&fixture.host, &spec.parse().unwrap())).unwrap()
}

fn nobody(_: &Opened) -> Box<dyn Sink> {
    Box::new(())
}

#[test]
fn a_meter_is_read_at_the_beginning_and_at_the_end_however_seldom_otherwise() {
    let fixture = rapl("1000000");
    let day = Some(Duration::from_hours(24));
    let sampler = Sampler::start(vec![opened(&fixture, "rapl")], day, nobody).unwrap();
    assert_eq!(sampler.so_far()[0].totals[0].readings, 1, "before the start is over");
    fixture.write(ENERGY, "4500000");
    let end = monotonic();
    let (measured, meters) = sampler.finish(end);
    let totals = measured[0].totals[0];
    // The last reading is a moment after the end: what counts is the time to the end.
    assert!(totals.joules.get() > 0.0 && totals.joules.get() <= 3.5, "{totals:?}");
    assert_eq!((totals.readings, totals.gaps, measured[0].missed), (2, 0, 0));
    assert_eq!(meters.len(), 1, "and it can be used again");
}

#[test]
fn a_counter_is_read_before_it_can_wrap_whatever_the_user_wishes() {
    let fixture = rapl("1");
    let meter = opened(&fixture, "rapl");
    // 262 kJ at 1200 W are 218 s.
    let interval = meter.interval(Some(Duration::from_hours(1)));
    assert!(
        interval < Duration::from_secs(55) && interval > Duration::from_secs(50),
        "{interval:?}"
    );
    assert_eq!(meter.interval(Some(Duration::from_nanos(1))), Duration::from_millis(1));
}

/// Counts samples, and says when there are enough.
struct Enough {
    seen: Arc<AtomicU64>,
    sender: std::sync::mpsc::Sender<Sample>,
}

impl Sink for Enough {
    fn take(&mut self, sample: &Sample) {
        self.seen.fetch_add(1, Ordering::Relaxed);
        let _ = self.sender.send(*sample);
    }
}

#[test]
fn a_meter_that_fails_leaves_a_gap_is_opened_again_and_goes_on() {
    let fixture = rapl("1000000");
    let (sender, told) = std::sync::mpsc::channel();
    let seen = Arc::new(AtomicU64::new(0));
    let sampler =
        Sampler::start(vec![opened(&fixture, "rapl")], Some(Duration::from_millis(1)), |_| {
            Box::new(Enough { seen: Arc::clone(&seen), sender: sender.clone() })
        })
        .unwrap();
    told.recv().unwrap();
    // The beginning of the first visible step is unknown.
    fixture.write(ENERGY, "1500000");
    while told.recv().unwrap().reading != Reading::Counter(1_500_000) {}
    let joules_before = sampler.so_far()[0].totals[0].joules;
    fixture.write(ENERGY, "unplugged");
    while sampler.so_far()[0].errors < 4 {
        std::thread::yield_now();
    }
    fixture.write(ENERGY, "2500000");
    let before = seen.load(Ordering::Relaxed);
    while seen.load(Ordering::Relaxed) < before + 2 {
        told.recv().unwrap();
    }
    let (measured, _) = sampler.finish(monotonic());
    let totals = measured[0].totals[0];
    assert!(measured[0].errors >= 4 && measured[0].last_error.is_some());
    // The counter went on during the failure.
    assert!(((totals.joules - joules_before).get() - 1.0).abs() < 1e-9, "{totals:?}");
}

#[test]
fn a_zone_that_cannot_be_read_has_a_gap_of_its_own_and_the_others_are_read_on() {
    let psys = "/sys/class/powercap/intel-rapl:1/energy_uj";
    let fixture = rapl("1000000");
    fixture.write("/sys/class/powercap/intel-rapl:1/name", "psys");
    fixture.write(psys, "5000000");
    let meter = opened(&fixture, "rapl");
    let sampler = Sampler::start(vec![meter], Some(Duration::from_millis(1)), nobody).unwrap();
    fixture.write(ENERGY, "1000500");
    fixture.write(psys, "n/a");
    // More readings of one than a meter has that is opened again after every third failure.
    while sampler.so_far()[0].errors <= 100 {
        std::thread::yield_now();
    }
    let readings = |zone: usize| sampler.so_far()[0].totals[zone].readings;
    let (package_before, psys_before) = (readings(0), readings(1));
    while readings(0) < package_before + 100 {
        std::thread::yield_now();
    }
    fixture.write(ENERGY, "4500500");
    while sampler.so_far()[0].totals[0].joules.get() < 3.0 {
        std::thread::yield_now();
    }
    let (measured, _) = sampler.finish(monotonic());
    let [package, psys] = measured[0].totals[..] else { panic!("{measured:?}") };
    assert!((package.joules.get() - 3.5).abs() < 1e-3 && package.gaps == 0, "{package:?}");
    assert!(psys.readings == psys_before && psys.gaps == 1, "{psys:?}");
    let error = measured[0].last_error.clone().unwrap();
    assert!(error.contains("intel-rapl:1/energy_uj") && measured[0].errors > 150, "{error}");
}
