//! Small inputs that lie beside the project's shared data, with their right values.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::read::GzDecoder;
use nightwatt_energy::integration::{Reading, Track, TrackSpec};
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;

use crate::device::{Device, json, open, poll, status};
use crate::fixture::{Fixture, read};
use crate::log::{self, Options};
use crate::{Channel, MeterSpec};

/// A file of the cases; `None`, and a word on why, where they are not there.
fn case(file: &str) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let data = std::env::var_os("NIGHTWATT_DATA").unwrap_or_else(|| beside.into());
    let path = Path::new(&data).join("../cases").join(file);
    if !path.exists() {
        println!("skipped: there is no {}", path.display());
        return None;
    }
    Some(path)
}

/// The files of an archive (POSIX ustar), with their modes.
fn files(archive: &Path) -> Vec<(String, u32, Vec<u8>)> {
    let mut bytes = Vec::new();
    GzDecoder::new(fs::File::open(archive).unwrap()).read_to_end(&mut bytes).unwrap();
    let (mut files, mut rest) = (Vec::new(), bytes.as_slice());
    while let Some((head, after)) = rest.split_at_checked(512).filter(|it| it.0[0] != 0) {
        let text = |from: usize, to: usize| {
            let field = head[from..to].split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(field).trim().to_owned()
        };
        let octal = |from, to| u32::from_str_radix(&text(from, to), 8).unwrap();
        let size = octal(124, 136) as usize;
        if head[156] == b'0' {
            files.push((text(0, 100), octal(100, 108), after[..size].to_vec()));
        }
        rest = &after[size.div_ceil(512) * 512..];
    }
    files
}

/// A host that has the files of an archive beneath a folder: those beneath its first two levels.
fn host(archive: &Path, folder: &str) -> Fixture {
    let fixture = Fixture::of(&[]);
    for (name, mode, bytes) in files(archive) {
        let name = name.splitn(3, '/').nth(2).unwrap();
        let path = format!("{folder}/{name}");
        fixture.write(&path, String::from_utf8_lossy(&bytes).trim_end());
        let mode = PermissionsExt::from_mode(mode);
        fs::set_permissions(fixture.host.path(&path), mode).unwrap();
    }
    fixture
}

#[test]
fn logs_of_power_have_their_energy() {
    for (file, how, joules) in [
        ("base.csv", "", 1050.0),
        ("bom.csv", "", 1050.0),
        ("quoted_header.csv", "", 1050.0),
        ("epoch_ms.csv", "", 1050.0),
        ("decimal_comma_mixed.csv", "", 1062.5),
        ("nvml_rel_ms.csv", "", 1050.0),
        ("nvml_rel_ms.csv", ",time=time_relative_ms", 1050.0),
    ] {
        let Some(path) = case(&format!("power/{file}")) else { return };
        let options = Options::of(&format!("file=x{how}").parse().unwrap()).unwrap();
        let mut log = log::open(&path, &options).unwrap_or_else(|error| panic!("{error}"));
        let spec = TrackSpec { counter: None, longest_gap: Duration::from_secs(25) };
        let mut track = Track::new(spec, Mono::ZERO);
        for entry in log.by_ref() {
            let entry = entry.unwrap();
            track.add(entry.mono, entry.reading);
        }
        let totals = track.totals();
        assert!((totals.joules.get() - joules).abs() < 1e-9, "{file}: {totals:?}");
        assert_eq!((totals.covered, log.skipped()), (Duration::from_secs(50), None), "{file}");
    }
}

#[test]
fn a_jetsons_rails_are_measured() {
    let Some(archive) = case("trees/h_jetson.tar.gz") else { return };
    let board = host(&archive, "/sys/class/hwmon");
    let mut watts = Vec::new();
    for (name, reading) in read(board.open("hwmon").as_mut()) {
        let Reading::Power(Watts(power)) = reading else { panic!("{name}: {reading:?}") };
        watts.push((power * 1e3).round() / 1e3);
    }
    watts.sort_by(f64::total_cmp);
    assert_eq!(watts, [7.6, 9.501, 11.402]);
}

#[test]
fn of_a_tree_with_one_readable_zone_that_one_is_measured() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can unpack what others may not read");
        return;
    }
    let Some(archive) = case("trees/r_onlypkg.tar.gz") else { return };
    let tree = host(&archive, "/sys/class/powercap");
    // Its counter counts, for which we write it.
    for (path, mode) in [("/", 0o755), ("/sys/class/powercap/intel-rapl:0/energy_uj", 0o644)] {
        fs::set_permissions(tree.host.path(path), PermissionsExt::from_mode(mode)).unwrap();
    }
    let (names, remarks) = tree.while_counting_one("intel-rapl:0", || {
        as_nobody(|| {
            let meter = crate::open(&tree.host, &MeterSpec::of("rapl")).unwrap();
            let names: Vec<String> = meter.channels().iter().map(|it| it.name.clone()).collect();
            (names, meter.remarks())
        })
    });
    assert_eq!(names, ["package-0"]);
    let remarks = remarks.join("; ");
    for zone in ["core-0", "uncore-0", "psys"] {
        assert!(remarks.contains(&format!("`{zone}`")), "{remarks}");
    }
}

/// Does something as an ordinary user, in a thread of its own.
pub(crate) fn as_nobody<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65_534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            act()
        });
        thread.join().unwrap()
    })
}

#[test]
fn an_idrac_that_says_1800_watts_draws_135() {
    let Some(archive) = case("trees/rf_idrac7.tar.gz") else { return };
    let answers: Vec<(String, String)> = files(&archive)
        .into_iter()
        .map(|(name, _, bytes)| {
            let path = name.split_once('/').unwrap().1.trim_end_matches("index.json");
            (format!("/{path}"), String::from_utf8(bytes).unwrap())
        })
        .collect();
    let device = Device::http(move |ask| {
        let asked = format!("{}/", ask.path.trim_end_matches('/'));
        let answer = answers.iter().find(|(path, _)| *path == asked);
        answer.map_or_else(|| status(404, "", "{}"), |(_, body)| json(body))
    });
    let mut meter = open(&format!("redfish={}", device.address())).unwrap();
    let watts: Vec<Reading> =
        poll(meter.as_mut()).unwrap().into_iter().map(|(_, reading)| reading).collect();
    assert_eq!(watts, [Reading::Power(Watts(135.0))]);
    let remarks = meter.remarks().join("; ");
    assert!(remarks.contains("1800 W") && remarks.contains("135 W"), "{remarks}");
    let scopes: Vec<_> = meter.channels().iter().map(|it: &Channel| it.scope.as_str()).collect();
    assert_eq!(scopes, ["system"]);
}
