use std::fs::File;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nightwatt_clock::meter::{Stop, monotonic};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::fixture::Fixture;
use crate::meter::{Meter, Readings};

use super::*;

/// A meter at the other end of a pseudo-terminal. Dropping it is unplugging it.
pub(crate) struct Plugged {
    pub(crate) fixture: Fixture,
    master: File,
}

pub(crate) const DEVICE: &str = "/dev/ttyUSB0";

impl Plugged {
    pub(crate) fn new() -> Self {
        let plugged = Self { fixture: Fixture::of(&[("/dev/null", "")]), master: master() };
        plugged.link();
        plugged
    }

    /// Plugs it in again, as another device of the same name.
    pub(crate) fn again(self) -> Self {
        let Self { fixture, master: old } = self;
        drop(old);
        std::fs::remove_file(fixture.host.path(DEVICE)).unwrap();
        let plugged = Self { fixture, master: master() };
        plugged.link();
        plugged
    }

    fn link(&self) {
        let name = ptsname(&self.master, Vec::new()).unwrap().into_string().unwrap();
        std::os::unix::fs::symlink(name, self.fixture.host.path(DEVICE)).unwrap();
    }

    pub(crate) fn spec(driver: &str, options: &str) -> MeterSpec {
        format!("{driver}={DEVICE}{options}").parse().unwrap()
    }

    pub(crate) fn open(&self, driver: &str, options: &str) -> Box<dyn Meter> {
        crate::open(&self.fixture.host, &Self::spec(driver, options))
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// What the meter says.
    pub(crate) fn say(&mut self, bytes: &[u8]) {
        self.master.write_all(bytes).unwrap();
    }

    /// What the meter is told: a command that ends with `end`. Waits for it.
    pub(crate) fn hears(&mut self, end: u8) -> String {
        let mut command = Vec::new();
        while command.last() != Some(&end) {
            let mut byte = [0];
            self.master.read_exact(&mut byte).unwrap();
            command.push(byte[0]);
        }
        String::from_utf8(command).unwrap()
    }

    /// The speed that was set at our end.
    pub(crate) fn baud(&self) -> u32 {
        termios::tcgetattr(&self.master).unwrap().output_speed()
    }

    /// Says this again and again, as fast as it is read, until stopped.
    pub(crate) fn babbles(&self, bytes: Vec<u8>) -> Babbling {
        let mut end = self.master.try_clone().unwrap();
        rustix::fs::fcntl_setfl(&end, OFlags::RDWR | OFlags::NONBLOCK).unwrap();
        let enough = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&enough);
        let thread = std::thread::spawn(move || {
            let mut rest = bytes.iter().copied().cycle();
            while !stop.load(Ordering::Relaxed) {
                let chunk: Vec<_> = rest.by_ref().take(512).collect();
                if end.write(&chunk).is_err() {
                    std::thread::yield_now();
                }
            }
        });
        Babbling { enough, thread }
    }
}

/// A meter that babbles.
pub(crate) struct Babbling {
    enough: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Babbling {
    pub(crate) fn stops(self) {
        self.enough.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

fn master() -> File {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    master.into()
}

/// One turn, which ends by itself after that time if nothing comes in.
pub(crate) fn turn(
    meter: &mut dyn Meter,
    time: Duration,
) -> Result<Vec<(usize, Mono, nightwatt_energy::integration::Reading)>, MeterError> {
    let stop = Stop::new().unwrap();
    let turn = Turn { stop: &stop, until: monotonic() + time };
    let mut readings = Readings::default();
    let result = meter.read(&turn, &mut readings);
    readings.outcome(result)?;
    Ok(readings.iter().copied().collect())
}

/// The error of the first turn in which something comes in: what was said is on its way for a moment.
pub(crate) fn failed_turn(meter: &mut dyn Meter, time: Duration) -> MeterError {
    let until = monotonic() + LONG;
    while monotonic() < until {
        match turn(meter, time) {
            Ok(readings) => assert!(readings.is_empty(), "{readings:?}"),
            Err(error) => return error,
        }
    }
    panic!("no error");
}

/// Longer than anything in a test takes: what is waited for comes, or the test fails.
pub(crate) const LONG: Duration = Duration::from_mins(2);

fn port(plugged: &Plugged, baud: u32) -> Port {
    Port::open(&plugged.fixture.host, &Plugged::spec("wattsup", ""), baud).unwrap()
}

#[test]
fn a_port_is_raw_and_at_its_speed_whatever_that_is() {
    let mut plugged = Plugged::new();
    for baud in [115_200, 57_600, 19_200, 9_600] {
        let mut port = port(&plugged, baud);
        assert_eq!((plugged.baud(), port.baud()), (baud, baud));
        // Terminals that are not raw keep the line, change \r, stop at 0x13, and answer 0x03.
        let bytes = b"#\r\x13\x11\x03\x1a\x00\xff";
        plugged.say(bytes);
        let stop = Stop::new().unwrap();
        let until = monotonic() + LONG;
        let mut came = Vec::new();
        while came.len() < bytes.len() {
            let length = port.read(&Turn { stop: &stop, until }).unwrap();
            came.extend_from_slice(port.came(length));
        }
        assert_eq!(came, bytes);
        let second = Port::open(&plugged.fixture.host, &Plugged::spec("wattsup", ""), baud);
        // Root may open a port that another process holds.
        let root = rustix::process::geteuid().is_root();
        assert_eq!(second.is_ok(), root, "{:?}", second.err());
        port.release();
        assert!(port.read(&Turn { stop: &stop, until }).is_err(), "it is given up");
    }
}

#[test]
fn waiting_ends_with_the_turn_and_when_stopped() {
    let plugged = Plugged::new();
    let mut port = port(&plugged, 115_200);
    let stop = Stop::new().unwrap();
    assert_eq!(port.read(&Turn { stop: &stop, until: monotonic() }).unwrap(), 0);
    let other = stop.clone();
    let waits =
        std::thread::spawn(move || port.read(&Turn { stop: &other, until: Mono::NEVER }).unwrap());
    stop.stop();
    assert_eq!(waits.join().unwrap(), 0);
}

#[test]
fn an_unplugged_port_is_an_error_and_no_silence() {
    let plugged = Plugged::new();
    let mut port = port(&plugged, 115_200);
    drop(plugged);
    let stop = Stop::new().unwrap();
    let error = port.read(&Turn { stop: &stop, until: monotonic() + LONG }).unwrap_err();
    assert!(matches!(error, MeterError::Io { .. }), "{error}");
}

#[test]
fn what_is_no_serial_port_is_told_with_what_to_do() {
    let fixture = Fixture::of(&[("/dev/log.csv", "1;2")]);
    let error = |address: &str| {
        let spec = format!("wattsup={address}").parse().unwrap();
        Port::open(&fixture.host, &spec, 9600).unwrap_err().to_string()
    };
    assert!(error("/dev/log.csv").contains("is no serial port; recordings are read by `file="));
    assert!(error("/dev/ttyUSB7").contains("there is no "), "{}", error("/dev/ttyUSB7"));
    let nowhere = Port::open(&fixture.host, &MeterSpec::of("wattsup"), 9600).unwrap_err();
    assert!(nowhere.to_string().contains("wattsup=/dev/ttyUSB0"), "{nowhere}");
}

#[test]
fn readings_that_came_in_together_keep_their_distance_where_there_is_room() {
    let second = Duration::from_secs(1);
    let at = |secs: f64| Mono(Duration::from_secs_f64(secs));
    let mut arrivals = Arrivals::default();
    let mut of = |count, now| arrivals.of(count, second, at(now)).collect::<Vec<_>>();
    assert_eq!(of(2, 10.0), [at(9.0), at(10.0)]);
    // A reader that was late by three seconds.
    assert_eq!(of(3, 13.5), [at(11.5), at(12.5), at(13.5)]);
    // A meter that is fast, or was late.
    assert_eq!(of(2, 14.5), [at(14.0), at(14.5)]);
    assert_eq!(of(0, 15.0), []);
}
