//! Sensors of boards, power supplies and accelerators: `/sys/class/hwmon`.
//! Linux: `Documentation/hwmon/sysfs-interface.rst`.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_energy::integration::Reading;
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::wrapping_counter::CounterSpec;
use nightwatt_host::{Host, files};

use crate::channel::{Accuracy, Channel, Scope};
use crate::error::MeterError;
use crate::meter::{Driver, Meter, Opening, Pace, Presence, Readings, Turn};
use crate::number::NumberFile;
use crate::spec::MeterSpec;

pub(crate) const DRIVER: Driver = Driver {
    name: "hwmon",
    about: "power sensors of boards, supplies and graphics cards",
    example: "hwmon",
    probe,
    open,
};

const FOLDER: &str = "/sys/class/hwmon";

/// No common bound: an INA226 is good to 1 %, a board's regulator may be 10 % off.
const ACCURACY: Accuracy = Accuracy { relative: 0.05, watts: Watts(0.05) };

const HINT: &str = "run as root, or let a group read the file by a udev rule";

/// Where the figures of a sensor are.
enum Source {
    /// `energyN_input`, microjoules.
    Energy(PathBuf),
    /// `powerN_average`, microwatts, over that time.
    Average(PathBuf, Duration),
    /// `powerN_input`, microwatts.
    Power(PathBuf),
    /// `currN_input` in mA and `inN_input` in mV.
    Product(PathBuf, PathBuf),
}

struct Sensor {
    name: String,
    scope: Scope,
    source: Source,
}

fn sensors(host: &Host) -> io::Result<Vec<Sensor>> {
    let mut sensors: Vec<Sensor> = Vec::new();
    for folder in host.list(FOLDER)? {
        let chip = files::read(&folder.join("name")).unwrap_or_else(|_| "unnamed".to_owned());
        // A battery shows itself here once more: the driver `battery` knows what it means.
        if files::read(&folder.join("device/type")).is_ok_and(|kind| kind == "Battery") {
            continue;
        }
        for (what, source) in sources(&chip, &folder) {
            let label = files::read(&folder.join(format!("{what}_label"))).ok();
            let mut name = format!("{chip}/{}", label.as_deref().unwrap_or(&what));
            if sensors.iter().any(|sensor| sensor.name == name) {
                let place = folder.file_name().unwrap_or_default().to_string_lossy();
                name = format!("{place}-{name}");
            }
            let scope = scope(&chip, label.as_deref().unwrap_or_default());
            sensors.push(Sensor { name, scope, source });
        }
    }
    Ok(sensors)
}

/// What a chip measures: an energy counter before power, power before current and voltage.
fn sources(chip: &str, folder: &Path) -> Vec<(String, Source)> {
    let file = |name: String| Some(folder.join(name)).filter(|path| path.exists());
    let mut sources = Vec::new();
    for number in numbers(folder, "energy") {
        if let Some(path) = file(format!("energy{number}_input")) {
            sources.push((format!("energy{number}"), Source::Energy(path)));
        }
    }
    // A card that counts energy shows the same as power: once is enough.
    if !sources.is_empty() {
        return sources;
    }
    for number in numbers(folder, "power") {
        let interval = files::number(&folder.join(format!("power{number}_average_interval")));
        let interval = interval.and_then(|millis| u64::try_from(millis).ok()).filter(|it| *it > 0);
        let source = match (file(format!("power{number}_average")), interval) {
            (Some(path), Some(millis)) => Source::Average(path, Duration::from_millis(millis)),
            (average, _) => match file(format!("power{number}_input")).or(average) {
                Some(path) => Source::Power(path),
                None => continue,
            },
        };
        sources.push((format!("power{number}"), source));
    }
    if !sources.is_empty() {
        return sources;
    }
    let label = |what: String| files::read(&folder.join(format!("{what}_label"))).ok();
    for number in numbers(folder, "curr") {
        let pair = (file(format!("curr{number}_input")), file(format!("in{number}_input")));
        let (Some(current), Some(voltage)) = pair else { continue };
        // Where both have labels, they must speak of the same rail.
        let labels = (label(format!("curr{number}")), label(format!("in{number}")));
        let same_rail = !matches!(&labels, (Some(one), Some(other)) if one != other);
        let is_on = files::number(&folder.join(format!("in{number}_enable"))) != Some(0);
        if same_rail && is_on && !is_shunt(chip, number) {
            let what = if labels.0.is_none() && labels.1.is_some() { "in" } else { "curr" };
            sources.push((format!("{what}{number}"), Source::Product(current, voltage)));
        }
    }
    sources
}

/// Behind its three rails an INA3221 shows the voltages of their shunts, and the sum of its currents.
fn is_shunt(chip: &str, number: u32) -> bool {
    chip == "ina3221" && number > 3
}

/// The numbers of a kind of sensor: `power1_input` and `power3_label` are 1 and 3.
fn numbers(folder: &Path, kind: &str) -> BTreeSet<u32> {
    let number = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_prefix(kind)?.to_owned();
        name.split_once('_')?.0.parse().ok()
    };
    files::list(folder).unwrap_or_default().into_iter().filter_map(number).collect()
}

fn scope(chip: &str, label: &str) -> Scope {
    match chip {
        "amdgpu" | "nouveau" | "i915" | "xe" => Scope::Gpu,
        "power_meter" => Scope::System,
        "fam15h_power" => Scope::Package,
        "amd_energy" if label.starts_with("Esocket") => Scope::Package,
        "amd_energy" => Scope::Core,
        "ibmpowernv" if label == "System" => Scope::System,
        _ => Scope::Part,
    }
}

fn most(scope: Scope) -> Watts {
    Watts(if scope == Scope::Gpu { 3000.0 } else { 5000.0 })
}

fn probe(host: &Host) -> Presence {
    match sensors(host) {
        Err(error) => Presence::Absent(format!("{FOLDER} cannot be read: {error}")),
        Ok(sensors) if sensors.is_empty() => {
            Presence::Absent(format!("no chip in {FOLDER} measures power"))
        }
        Ok(sensors) => {
            let denied =
                |sensor: &Sensor| Probe::open(&sensor.source).is_err_and(|error| is_denied(&error));
            match sensors.iter().find(|sensor| denied(sensor)) {
                Some(sensor) if sensors.iter().all(denied) => {
                    Presence::Denied { what: sensor.name.clone(), hint: HINT.to_owned() }
                }
                _ => Presence::Available,
            }
        }
    }
}

fn is_denied(error: &MeterError) -> bool {
    matches!(error, MeterError::Io { error, .. } if error.kind() == io::ErrorKind::PermissionDenied)
}

fn open(host: &Host, spec: &MeterSpec) -> Opening {
    spec.only(&["chip"])?;
    let all = sensors(host).map_err(|error| MeterError::reading(host.path(FOLDER), error))?;
    let of_chip = |sensor: &Sensor| {
        spec.text("chip").is_none_or(|chip| sensor.name.split('/').next() == Some(chip))
    };
    let (mut channels, mut probes) = (Vec::new(), Vec::new());
    let (mut remarks, mut failed) = (Vec::new(), None);
    for sensor in all.into_iter().filter(of_chip) {
        match Probe::open(&sensor.source) {
            Ok(probe) => {
                channels.push(channel(&sensor));
                probes.push(probe);
            }
            Err(error) => {
                let hint = if is_denied(&error) { format!(" ({HINT})") } else { String::new() };
                remarks.push(format!("`{}` is left out: {error}{hint}", sensor.name));
                failed = Some(error);
            }
        }
    }
    match (channels.is_empty(), failed) {
        (true, Some(error)) => Err(error),
        (true, None) => {
            let chip = spec.text("chip").map_or_else(String::new, |chip| format!(" `{chip}`"));
            let why = format!("no chip{chip} in {FOLDER} measures power");
            Err(MeterError::Absent { meter: spec.name().to_owned(), why })
        }
        _ => Ok(Box::new(Hwmon { channels, probes, remarks })),
    }
}

fn channel(sensor: &Sensor) -> Channel {
    let name = sensor.name.clone();
    if let Source::Energy(_) = sensor.source {
        let most = most(sensor.scope);
        let counter = CounterSpec { joules_per_count: 1e-6, range: None, most };
        return Channel::counter(name, sensor.scope, counter, ACCURACY);
    }
    Channel { step: 1e-6, ..Channel::power(name, sensor.scope, ACCURACY) }
}

/// The open files of a sensor.
enum Probe {
    Energy(NumberFile),
    Average(NumberFile, Duration),
    Power(NumberFile),
    Product(NumberFile, NumberFile),
}

impl Probe {
    fn open(source: &Source) -> Result<Self, MeterError> {
        let file = |path: &PathBuf| {
            NumberFile::open(path).map_err(|error| MeterError::reading(path, error))
        };
        Ok(match source {
            Source::Energy(path) => Self::Energy(file(path)?),
            Source::Average(path, over) => Self::Average(file(path)?, *over),
            Source::Power(path) => Self::Power(file(path)?),
            Source::Product(current, voltage) => Self::Product(file(current)?, file(voltage)?),
        })
    }

    fn read(&mut self) -> Result<Reading, MeterError> {
        let micro = |number: i64| Watts(number as f64 / 1e6);
        Ok(match self {
            Self::Energy(file) => Reading::Counter(file.read()?.unsigned_abs()),
            Self::Average(file, over) => {
                Reading::MeanPower { watts: micro(file.read()?), over: *over }
            }
            Self::Power(file) => Reading::Power(micro(file.read()?)),
            // Milliamperes times millivolts are microwatts.
            Self::Product(current, voltage) => {
                Reading::Power(Watts(current.read()? as f64 * voltage.read()? as f64 / 1e6))
            }
        })
    }
}

struct Hwmon {
    channels: Vec<Channel>,
    probes: Vec<Probe>,
    remarks: Vec<String>,
}

impl Meter for Hwmon {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn pace(&self) -> Pace {
        let averaged = self.probes.iter().map(|probe| match probe {
            Probe::Average(_, over) => *over,
            _ => Duration::from_millis(2),
        });
        // A mean is read once per its time; conversions of the others take some milliseconds. The
        // slowest sensor does not hold up the others.
        let fastest = averaged.min().unwrap_or_default();
        Pace::Polled { fastest, usual: fastest.max(Duration::from_secs(1)) }
    }

    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError> {
        for (channel, probe) in self.probes.iter_mut().enumerate() {
            // One sensor that sleeps (a card that is switched off) does not silence the others.
            match probe.read() {
                Ok(reading) => out.push(channel, turn.now(), reading),
                Err(error) => out.fail(error),
            }
        }
        Ok(())
    }

    fn remarks(&self) -> Vec<String> {
        self.remarks.clone()
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Fixture, read};

    use super::*;

    fn board() -> Fixture {
        let files = [
            ("hwmon0/name", "coretemp"),
            ("hwmon0/temp1_input", "45000"),
            ("hwmon1/name", "ina226"),
            ("hwmon1/power1_input", "12500000"),
            ("hwmon1/curr1_input", "1040"),
            ("hwmon1/in1_input", "12019"),
            ("hwmon2/name", "power_meter"),
            ("hwmon2/power1_average", "187000000"),
            ("hwmon2/power1_average_interval", "1000"),
            ("hwmon3/name", "corsairpsu"),
            ("hwmon3/curr1_input", "1500"),
            ("hwmon3/curr1_label", "+12V"),
            ("hwmon3/in1_input", "12000"),
            ("hwmon3/in1_label", "+12V"),
            ("hwmon3/curr2_input", "9000"),
            ("hwmon3/curr2_label", "+5V"),
            ("hwmon3/in2_input", "230000"),
            ("hwmon3/in2_label", "mains"),
            ("hwmon4/name", "xe"),
            ("hwmon4/energy1_input", "99000000"),
            ("hwmon4/power1_input", "7000000"),
            ("hwmon5/name", "BAT0"),
            ("hwmon5/device/type", "Battery"),
            ("hwmon5/power1_input", "9000000"),
            ("hwmon6/name", "ina226"),
            ("hwmon6/power1_input", "2500000"),
        ];
        let files: Vec<_> =
            files.iter().map(|(path, text)| (format!("{FOLDER}/{path}"), *text)).collect();
        Fixture::of(&files.iter().map(|(path, text)| (path.as_str(), *text)).collect::<Vec<_>>())
    }

    #[test]
    fn every_sensor_of_power_is_read_once_in_the_way_that_says_most() {
        let board = board();
        assert_eq!(probe(&board.host), Presence::Available);
        let readings = read(board.open("hwmon").as_mut());
        let second = Duration::from_secs(1);
        let expected = [
            ("ina226/power1", Reading::Power(Watts(12.5))),
            ("power_meter/power1", Reading::MeanPower { watts: Watts(187.0), over: second }),
            ("corsairpsu/+12V", Reading::Power(Watts(18.0))),
            ("xe/energy1", Reading::Counter(99_000_000)),
            ("hwmon6-ina226/power1", Reading::Power(Watts(2.5))),
        ];
        assert_eq!(readings, expected.map(|(name, reading)| (name.to_owned(), reading)));
    }

    #[test]
    fn one_chip_can_be_asked_for() {
        let board = board();
        let meter = |text: &str| crate::open(&board.host, &text.parse().unwrap());
        assert_eq!(meter("hwmon,chip=xe").unwrap().channels().len(), 1);
        let error = meter("hwmon,chip=nct6775").err().unwrap().to_string();
        assert!(error.contains("no chip `nct6775`"), "{error}");
    }

    #[test]
    fn a_sensor_that_fails_does_not_silence_the_others() {
        let board = board();
        let mut meter = board.open("hwmon");
        board.write(&format!("{FOLDER}/hwmon1/power1_input"), "");
        assert_eq!(read(meter.as_mut()).len(), 4);
    }

    /// An INA3221 as Linux shows it on a Jetson: labels at the voltages alone.
    #[test]
    fn labels_are_optional_and_shunts_and_channels_that_are_off_are_no_rails() {
        let mut files = vec![("name".to_owned(), "ina3221".to_owned())];
        for (number, millivolts, milliamperes, label) in [
            (1, 5000, 1520, Some("VDD_GPU")),
            (2, 5000, 1900, None),
            (3, 19_000, 600, Some("VDD_IN")),
            (4, 40, 4020, None),
        ] {
            files.push((format!("in{number}_input"), millivolts.to_string()));
            files.push((format!("curr{number}_input"), milliamperes.to_string()));
            files.push((format!("in{number}_enable"), u32::from(number != 2).to_string()));
            files.extend(label.map(|label| (format!("in{number}_label"), label.to_owned())));
        }
        let files: Vec<_> =
            files.iter().map(|(name, text)| (format!("{FOLDER}/hwmon2/{name}"), text)).collect();
        let board =
            Fixture::of(&files.iter().map(|it| (it.0.as_str(), it.1.as_str())).collect::<Vec<_>>());
        let readings = read(board.open("hwmon").as_mut());
        let expected = [
            ("ina3221/VDD_GPU".to_owned(), Reading::Power(Watts(7.6))),
            ("ina3221/VDD_IN".to_owned(), Reading::Power(Watts(11.4))),
        ];
        assert_eq!(readings, expected);
    }

    #[test]
    fn a_sensor_that_cannot_be_opened_is_named_and_a_slow_one_holds_up_no_other() {
        let board = board();
        let path = board.host.path(format!("{FOLDER}/hwmon6/power1_input"));
        std::fs::remove_file(&path).unwrap();
        // What is there by name and leads nowhere.
        std::os::unix::fs::symlink(board.host.path("/proc/1"), &path).unwrap();
        std::fs::create_dir_all(board.host.path("/proc/1")).unwrap();
        board.write(&format!("{FOLDER}/hwmon2/power1_average_interval"), "300000");
        let mut meter = board.open("hwmon");
        assert!(meter.pace().interval(None) == Duration::from_secs(1), "{:?}", meter.pace());
        let stop = nightwatt_clock::meter::Stop::new().unwrap();
        let turn = Turn { stop: &stop, until: nightwatt_clock::meter::monotonic() };
        let mut out = Readings::default();
        let result = meter.read(&turn, &mut out);
        let failed = out.outcome(result).unwrap();
        let failed: Vec<String> = failed.iter().map(ToString::to_string).collect();
        assert_eq!((out.iter().count(), failed.len()), (4, 1), "{failed:?}");
        assert!(failed[0].contains("hwmon6/power1_input"), "{failed:?}");
    }

    #[test]
    fn a_board_without_sensors_says_so() {
        let Presence::Absent(why) = probe(&Fixture::of(&[]).host) else { panic!() };
        assert!(why.contains("measures power"), "{why}");
    }
}
