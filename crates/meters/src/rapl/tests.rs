use nightwatt_energy::integration::{Gap, Piece, Reading, Track, TrackSpec};
use nightwatt_energy::time::Mono;

use crate::fixture::{Fixture, read};
use crate::meter::{Readings, Turn};

use super::*;

const ZONE: &str = "/sys/class/powercap";

/// A desktop as Linux shows it: psys beside the package, MMIO's copy, and the parents without colon.
fn desktop() -> Fixture {
    let mut files =
        vec![("intel-rapl/enabled".to_owned(), "1"), ("intel-rapl-mmio/enabled".to_owned(), "1")];
    for (zone, name, energy, range) in [
        ("intel-rapl:0", "package-0", "4523412312", "262143328850"),
        ("intel-rapl:0:0", "core", "1523412312", "262143328850"),
        ("intel-rapl:0:1", "uncore", "1412", "262143328850"),
        ("intel-rapl:1", "psys", "94523412312", "262143328850"),
        ("intel-rapl-mmio:0", "package-0", "4523412000", "262143328850"),
    ] {
        files.push((format!("{zone}/name"), name));
        files.push((format!("{zone}/energy_uj"), energy));
        files.push((format!("{zone}/max_energy_range_uj"), range));
    }
    let files: Vec<_> =
        files.iter().map(|(path, text)| (format!("{ZONE}/{path}"), *text)).collect();
    Fixture::of(&files.iter().map(|(path, text)| (path.as_str(), *text)).collect::<Vec<_>>())
}

#[test]
fn zones_have_their_names_and_none_is_there_twice() {
    let desktop = desktop();
    assert_eq!(desktop.while_counting(|| probe(&desktop.host)), Presence::Available);
    let mut meter = desktop.open("rapl");
    let named: Vec<_> =
        meter.channels().iter().map(|channel| (channel.name.as_str(), channel.scope)).collect();
    assert_eq!(
        named,
        [
            ("package-0", Scope::Package),
            ("core-0", Scope::Core),
            ("uncore-0", Scope::Uncore),
            ("psys", Scope::System),
        ]
    );
    assert_eq!(meter.channels()[0].counter.unwrap().range, Some(262_143_328_851));
    let readings = read(meter.as_mut());
    assert_eq!(readings[0], ("package-0".to_owned(), Reading::Counter(4_523_412_312)));
    assert_eq!(readings[3], ("psys".to_owned(), Reading::Counter(94_523_412_312)));
}

#[test]
fn two_packages_keep_their_parts_apart() {
    let mut files = Vec::new();
    for (zone, name) in [
        ("intel-rapl:0", "package-0"),
        ("intel-rapl:0:0", "dram"),
        ("intel-rapl:1", "package-1"),
        ("intel-rapl:1:0", "dram"),
        ("intel-rapl:10", "package-10"),
    ] {
        files.push((format!("{ZONE}/{zone}/name"), name));
        files.push((format!("{ZONE}/{zone}/energy_uj"), "7"));
    }
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let fixture = Fixture::of(&files);
    let meter = fixture.open("rapl");
    let names: Vec<_> = meter.channels().iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["package-0", "dram-0", "package-1", "dram-1", "package-10"]);
}

#[test]
fn over_a_wrap_energy_is_exact_and_over_two_it_is_lost() {
    let desktop = desktop();
    let mut meter = desktop.open("rapl");
    let counter = meter.channels()[0].counter.unwrap();
    let spec = TrackSpec { counter: Some(counter), longest_gap: Duration::from_secs(5) };
    let mut track = Track::new(spec, Mono::ZERO);
    let mut at = |second: u64, shown: &str| {
        desktop.write(&format!("{ZONE}/intel-rapl:0/energy_uj"), shown);
        track.add(Mono::from_secs(second), read(meter.as_mut())[0].1)
    };
    assert_eq!(at(0, "262143328800"), Piece::Begins);
    // 51 uJ to the end and the step to 0, 43.3 J after it.
    let Piece::Covers { joules, .. } = at(1, "43300000") else { panic!() };
    assert!((joules.get() - 43.300_051).abs() < 1e-9, "{joules}");
    // 1200 W wrap it in 218 s: after an hour the number of wraps is unknown.
    assert_eq!(at(3601, "43300001"), Piece::Gap(Gap::Wrapped));
    assert_eq!(at(3602, "3"), Piece::Gap(Gap::Reset));
    let Piece::Covers { joules, .. } = at(3603, "2000003") else { panic!() };
    assert!((joules.get() - 2.0).abs() < 1e-9, "{joules}");
}

#[test]
fn a_machine_without_it_says_why() {
    let Presence::Absent(why) = probe(&Fixture::of(&[]).host) else { panic!() };
    assert!(why.contains("no intel-rapl zones"), "{why}");
    let error = crate::open(&Fixture::of(&[]).host, &MeterSpec::of("rapl")).err().unwrap();
    assert!(error.to_string().contains("no intel-rapl zones") && error.hint().is_some());
}

#[test]
fn a_zone_that_cannot_be_read_does_not_silence_the_others_and_comes_back() {
    let desktop = desktop();
    let mut meter = desktop.open("rapl");
    let core = format!("{ZONE}/intel-rapl:0:0/energy_uj");
    for (shown, others, failures) in [("n/a", 3, 1), ("", 3, 1), ("1523412400", 4, 0)] {
        desktop.write(&core, shown);
        let (readings, failed) = turn(meter.as_mut());
        assert_eq!((readings, failed.len()), (others, failures), "{shown}");
        for error in failed {
            assert!(error.contains("intel-rapl:0:0/energy_uj"), "{error}");
        }
    }
    // A driver that was loaded again makes other files of the same names.
    let path = desktop.host.path(&core);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(turn(meter.as_mut()).1.len(), 0, "an open file stays readable");
    std::fs::create_dir(&path).unwrap();
    assert_eq!(turn(meter.as_mut()).0, 4);
}

/// How many readings a turn has, and why parts could not be read.
fn turn(meter: &mut dyn crate::Meter) -> (usize, Vec<String>) {
    let stop = nightwatt_clock::meter::Stop::new().unwrap();
    let turn = Turn { stop: &stop, until: Mono::ZERO };
    let mut readings = Readings::default();
    let result = meter.read(&turn, &mut readings);
    let failed = readings.outcome(result).unwrap();
    (readings.iter().count(), failed.iter().map(ToString::to_string).collect())
}

#[test]
fn zones_that_cannot_be_opened_are_left_out_and_named() {
    let desktop = desktop();
    // A folder can be opened, and not be read; what is not there cannot be opened.
    let place = |zone: &str| desktop.host.path(format!("{ZONE}/{zone}/energy_uj"));
    std::fs::remove_file(place("intel-rapl:1")).unwrap();
    std::fs::remove_file(place("intel-rapl:0:1")).unwrap();
    assert_eq!(desktop.while_counting(|| probe(&desktop.host)), Presence::Available);
    let mut meter = desktop.open("rapl");
    let named: Vec<_> = meter.channels().iter().map(|channel| channel.name.clone()).collect();
    assert_eq!(named, ["package-0", "core-0"]);
    let remarks = meter.remarks().join("; ");
    assert!(remarks.contains("`uncore-0` cannot be read: No such file"), "{remarks}");
    assert!(remarks.contains("`psys` cannot be read"), "{remarks}");
    assert_eq!(turn(meter.as_mut()), (2, Vec::new()));
}

/// As an ordinary user where only the package's counter may be read by all.
#[test]
fn zones_that_may_not_be_read_are_named_with_the_cure() {
    use std::os::unix::fs::PermissionsExt;
    let desktop = desktop();
    for zone in ["intel-rapl:0:0", "intel-rapl:0:1", "intel-rapl:1", "intel-rapl-mmio:0"] {
        let path = desktop.host.path(format!("{ZONE}/{zone}/energy_uj"));
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o000)).unwrap();
    }
    let mode = PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(desktop.host.path("/"), mode).unwrap();
    let (names, remarks) = desktop.while_counting_one("intel-rapl:0", || {
        crate::cases::as_nobody(|| {
            let meter = crate::open(&desktop.host, &MeterSpec::of("rapl")).unwrap();
            let names: Vec<String> = meter.channels().iter().map(|it| it.name.clone()).collect();
            (names, meter.remarks())
        })
    });
    assert_eq!(names, ["package-0"]);
    let remarks = remarks.join("; ");
    assert!(
        remarks.contains("`core-0`, `uncore-0`, `psys` may not be read: run it as root"),
        "{remarks}"
    );
}

#[test]
fn counters_that_stand_still_are_no_measurement() {
    let desktop = desktop();
    // The package counts, and the machine's counter does not.
    let meter = desktop.while_counting_one("intel-rapl:0", || {
        crate::open(&desktop.host, &MeterSpec::of("rapl")).unwrap()
    });
    let named: Vec<_> = meter.channels().iter().map(|channel| channel.name.as_str()).collect();
    assert_eq!(named, ["package-0", "core-0", "uncore-0"]);
    assert_eq!(meter.remarks(), ["`psys` stands still: that is no measurement"]);
    // Where nothing counts, parts are not off: they stand still too.
    let error = crate::open(&desktop.host, &"rapl,by=powercap".parse().unwrap()).err().unwrap();
    assert!(error.to_string().contains("`package-0`, `core-0`, `uncore-0`, `psys` in"), "{error}");
    let guest = Fixture::of(&[
        (&format!("{ZONE}/intel-rapl:0/name"), "psys"),
        (&format!("{ZONE}/intel-rapl:0/energy_uj"), "77"),
    ]);
    let Presence::Absent(why) = probe(&guest.host) else { panic!("it is a meter") };
    assert!(why.contains("`psys` in /sys/class/powercap stand still"), "{why}");
    assert_eq!(crate::usual(&guest.host), [MeterSpec::of(crate::MODEL)]);
}
