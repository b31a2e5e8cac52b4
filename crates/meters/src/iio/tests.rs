use std::fs::{self, File};
use std::io::Write as _;

use nightwatt_clock::meter::monotonic;
use nightwatt_energy::integration::Reading;
use nightwatt_energy::time::Mono;
use rustix::fs::{CWD, FileType, Mode};

use crate::fixture::{Fixture, read};
use crate::serial::tests::{LONG, turn};

use super::*;

const INA: &str = "/sys/bus/iio/devices/iio:device0";

/// An INA226 as a post on the kernel's list shows it: power in milliwatts.
fn ina226() -> Fixture {
    let fixture = Fixture::of(&[]);
    for (file, text) in [
        ("name", "ina226"),
        ("sampling_frequency", "455"),
        ("current_timestamp_clock", "realtime"),
        ("in_voltage0_raw", "3152"),
        ("in_voltage0_scale", "0.002500000"),
        ("in_voltage1_raw", "678"),
        ("in_voltage1_scale", "1.250000000"),
        ("in_power2_raw", "106"),
        ("in_power2_scale", "12.500000000"),
        ("in_current3_raw", "3152"),
        ("in_current3_scale", "0.500000000"),
        ("buffer/enable", "1"),
        ("buffer/length", "2"),
        ("buffer/watermark", "1"),
        ("scan_elements/in_voltage0_en", "1"),
        ("scan_elements/in_voltage0_index", "0"),
        ("scan_elements/in_voltage0_type", "le:u16/16>>0"),
        ("scan_elements/in_voltage1_en", "0"),
        ("scan_elements/in_voltage1_index", "1"),
        ("scan_elements/in_voltage1_type", "le:u16/16>>0"),
        ("scan_elements/in_power2_en", "0"),
        ("scan_elements/in_power2_index", "2"),
        ("scan_elements/in_power2_type", "le:u16/16>>0"),
        ("scan_elements/in_current3_en", "0"),
        ("scan_elements/in_current3_index", "3"),
        ("scan_elements/in_current3_type", "le:s16/16>>0"),
        ("scan_elements/in_timestamp_en", "0"),
        ("scan_elements/in_timestamp_index", "4"),
        ("scan_elements/in_timestamp_type", "le:s64/64>>0"),
    ] {
        fixture.write(&format!("{INA}/{file}"), text);
    }
    fixture
}

fn open_spec(fixture: &Fixture, spec: &str) -> Box<dyn Meter> {
    crate::open(&fixture.host, &spec.parse().unwrap()).unwrap_or_else(|error| panic!("{error}"))
}

fn close(reading: Reading, expected: f64) {
    let Reading::Power(watts) = reading else { panic!("{reading:?}") };
    assert!((watts.get() - expected).abs() < 1e-12 * expected, "{watts} {expected}");
}

#[test]
fn a_monitor_that_says_power_is_read_in_milliwatts() {
    let fixture = ina226();
    assert_eq!(probe(&fixture.host), Presence::Available);
    let mut meter = open_spec(&fixture, "iio");
    let [(name, reading)] = &read(meter.as_mut())[..] else { panic!() };
    assert_eq!(name, "ina226-power2");
    // 106 x 12.5 mW.
    close(*reading, 1.325);
    assert!((meter.channels()[0].step - 0.0125).abs() < 1e-12);
    assert!(crate::open(&fixture.host, &"iio=ina3221".parse().unwrap()).is_err());
    assert!(crate::open(&fixture.host, &"iio=iio:device0".parse().unwrap()).is_ok());
    fixture.write(&format!("{INA}/in_power2_raw"), "unplugged");
    assert!(turn(meter.as_mut(), LONG).unwrap_err().to_string().contains("`unplugged`"));
}

#[test]
fn currents_and_voltages_of_one_index_are_multiplied_and_energy_is_counted() {
    let adc = "/sys/bus/iio/devices/iio:device12";
    let fixture = Fixture::of(&[
        ("/sys/bus/iio/devices/trigger0/name", "timer"),
        (&format!("{adc}/name"), "pac1934"),
        (&format!("{adc}/in_current1_raw"), "-5"),
        (&format!("{adc}/in_current1_offset"), "405"),
        (&format!("{adc}/in_current_scale"), "2"),
        (&format!("{adc}/in_current1_label"), "VDD_CPU"),
        (&format!("{adc}/in_current7_raw"), "1"),
        (&format!("{adc}/in_voltage1_raw"), "4096"),
        (&format!("{adc}/in_voltage1_scale"), "1.220703125"),
        (&format!("{adc}/in_energy1_raw"), "7000000"),
        (&format!("{adc}/in_energy1_scale"), "0.00001"),
    ]);
    let readings = read(open_spec(&fixture, "iio").as_mut());
    let [(current, power), (energy, counter)] = &readings[..] else { panic!("{readings:?}") };
    assert_eq!((current.as_str(), energy.as_str()), ("VDD_CPU", "pac1934-energy1"));
    // (-5 + 405) x 2 mA = 0.8 A, 4096 x 1.220703125 mV = 5 V.
    close(*power, 4.0);
    assert_eq!(*counter, Reading::Counter(7_000_000));
}

#[test]
fn resistors_at_the_inputs_of_a_converter_are_described_by_the_user() {
    let fixture = ina226();
    // 3152 x 2.5 uV across 5 mOhm is 1.576 A, at 678 x 1.25 mV.
    let spec = "iio,sense=cpu:voltage0:0.005:1:voltage1+disk:voltage0:0.01:1:12V";
    let readings = read(open_spec(&fixture, spec).as_mut());
    assert_eq!(readings[0].0, "cpu");
    close(readings[0].1, 1.576 * 0.8475);
    close(readings[1].1, 0.788 * 12.0);
    let wrong = crate::open(&fixture.host, &"iio,sense=a:voltage9:1:1:5V".parse().unwrap());
    let Err(error) = wrong else { panic!() };
    assert!(error.to_string().contains("no input `voltage9`"), "{error}");
}

#[test]
fn a_machine_without_devices_says_so() {
    let fixture = Fixture::of(&[]);
    assert!(matches!(probe(&fixture.host), Presence::Absent(_)));
    let adc = Fixture::of(&[("/sys/bus/iio/devices/iio:device0/in_voltage0_raw", "1")]);
    let Presence::Absent(why) = probe(&adc.host) else { panic!() };
    assert!(why.contains("`sense=`"), "{why}");
}

/// The device's file is a FIFO here: what the kernel does with it is not tested.
fn device(fixture: &Fixture) -> File {
    let path = fixture.host.path("/dev/iio:device0");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    File::options().read(true).write(true).open(path).unwrap()
}

fn setting(fixture: &Fixture, file: &str) -> String {
    fixture.host.read(format!("{INA}/{file}")).unwrap()
}

#[test]
fn a_buffer_gives_power_at_the_times_of_the_hardware() {
    let fixture = ina226();
    let mut device = device(&fixture);
    let mut meter = open_spec(&fixture, "iio=ina226,rate=10000");
    assert_eq!(meter.pace(), Pace::Pushed { about: Duration::from_micros(100) });
    for (file, value) in [
        ("sampling_frequency", "10000"),
        ("current_timestamp_clock", "monotonic"),
        ("buffer/enable", "1"),
        ("buffer/length", "4096"),
        ("buffer/watermark", "500"),
        ("scan_elements/in_voltage0_en", "0"),
        ("scan_elements/in_power2_en", "1"),
        ("scan_elements/in_timestamp_en", "1"),
    ] {
        assert_eq!(setting(&fixture, file), value, "{file}");
    }
    // A record is two bytes of power, six of nothing, and eight of time.
    let begin = monotonic();
    let mut records = Vec::new();
    for index in 0_u16..5000 {
        let at = begin + Duration::from_micros(100) * u32::from(index);
        records.extend(index.to_le_bytes());
        records.extend([0xee; 6]);
        records.extend((at.0.as_nanos() as i64).to_le_bytes());
    }
    let writes = std::thread::spawn(move || {
        // Cut in the middle of records.
        for chunk in records.chunks(1001) {
            device.write_all(chunk).unwrap();
        }
        device
    });
    let mut readings = Vec::new();
    while readings.len() < 5000 {
        let some = turn(meter.as_mut(), LONG).unwrap();
        assert!(some.len() <= 4096, "the sampler has room for those");
        readings.extend(some);
    }
    for (index, (channel, at, reading)) in readings.iter().enumerate() {
        assert_eq!(*channel, 0);
        assert_eq!(*at, begin + Duration::from_micros(100) * index as u32);
        let Reading::Power(watts) = reading else { panic!() };
        assert!((watts.get() - index as f64 * 0.0125).abs() < 1e-9);
    }
    let device = writes.join().unwrap();
    meter.release();
    assert_eq!(setting(&fixture, "buffer/enable"), "0", "whoever opens it next may");
    assert!(turn(meter.as_mut(), LONG).is_err());
    drop(device);
}

#[test]
fn without_a_clock_of_ours_records_are_spaced_by_the_rate() {
    let fixture = ina226();
    fs::remove_file(fixture.host.path(format!("{INA}/current_timestamp_clock"))).unwrap();
    let mut device = device(&fixture);
    let mut meter = open_spec(&fixture, "iio,rate=1000,sense=cpu:voltage0:0.005:1:voltage1");
    assert_eq!(setting(&fixture, "scan_elements/in_timestamp_en"), "0");
    // Two of them are needed, and power is not.
    let record = [3152_u16.to_le_bytes(), 678_u16.to_le_bytes()].concat();
    device.write_all(&record.repeat(100)).unwrap();
    let before = monotonic();
    let readings = turn(meter.as_mut(), LONG).unwrap();
    assert_eq!(readings.len(), 100);
    let times: Vec<Mono> = readings.iter().map(|(_, at, _)| *at).collect();
    assert!(times.windows(2).all(|two| two[1].since(two[0]) == Duration::from_millis(1)));
    assert!(times[99] >= before && times[99] <= monotonic());
    close(readings[0].2, 1.576 * 0.8475);
}

#[test]
fn a_buffer_that_cannot_be_is_told() {
    let fixture = ina226();
    let Err(error) = crate::open(&fixture.host, &"iio,rate=1000".parse().unwrap()) else {
        panic!()
    };
    assert!(error.to_string().contains("/dev/iio:device0"), "{error}");
    assert_eq!(setting(&fixture, "buffer/enable"), "0", "nothing is left on");
    fixture.write(&format!("{INA}/scan_elements/in_power2_type"), "le:s16/16X2>>0");
    let Err(error) = crate::open(&fixture.host, &"iio,rate=1000".parse().unwrap()) else {
        panic!()
    };
    assert!(error.to_string().contains("`le:s16/16X2>>0`"), "{error}");
}
