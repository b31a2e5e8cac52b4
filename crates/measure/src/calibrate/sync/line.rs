//! Lines that can be driven: pins of a serial port, and of the GPIO character device.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use gpiocdev::line::{Offset, Value};
use nightwatt_power::gpio::of_gpio;
use rustix::termios;
use serial2::SerialPort;

use crate::error::Error;

/// Speed of a port whose bytes are the signal.
const BAUD: u32 = 115_200;

/// A port that takes a byte no sooner than this hangs.
const WRITE_WITHIN: Duration = Duration::from_secs(1);

/// A line with two levels.
pub trait Line {
    /// Drives it. When this returns, the line has that level, as far as the system says.
    fn set(&mut self, high: bool) -> io::Result<()>;
}

/// Which line, as a user names it: `rts=/dev/ttyS0`, `dtr=...`, `break=...`, `bytes=...`,
/// `gpio=/dev/gpiochip0:17`, `gpio=NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineSpec {
    kind: Kind,
    address: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The pin "request to send": asserted is high.
    Rts,
    /// The pin "data terminal ready": asserted is high.
    Dtr,
    /// The pin that data are sent on, held in the break state while high.
    Break,
    /// `1` or `0` is sent, to a microcontroller that drives a pin accordingly.
    Bytes,
    /// A line of the GPIO character device.
    Gpio,
}

const KINDS: [(&str, Kind); 5] = [
    ("rts", Kind::Rts),
    ("dtr", Kind::Dtr),
    ("break", Kind::Break),
    ("bytes", Kind::Bytes),
    ("gpio", Kind::Gpio),
];

impl LineSpec {
    /// What can be written, for help.
    pub const FORMS: &str = "`rts=PORT`, `dtr=PORT`, `break=PORT` or `bytes=PORT` of a serial port, \
                             `gpio=CHIP:OFFSET` or `gpio=NAME`";
}

impl FromStr for LineSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no line; write `rts=/dev/ttyS0`, `dtr=`, `break=` or `bytes=` and a serial \
                 port, or `gpio=/dev/gpiochip0:17`"
            )
        };
        let (kind, address) = text.split_once('=').ok_or_else(wrong)?;
        let kind = KINDS.iter().find(|(name, _)| *name == kind).ok_or_else(wrong)?.1;
        if address.is_empty() {
            return Err(wrong());
        }
        Ok(Self { kind, address: address.to_owned() })
    }
}

impl fmt::Display for LineSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = KINDS.iter().find(|(_, kind)| *kind == self.kind).map_or("", |(name, _)| name);
        write!(f, "{name}={}", self.address)
    }
}

/// Opens a line for us alone, and drives it low.
pub fn open(spec: &LineSpec) -> Result<Box<dyn Line>, Error> {
    let failed = |source| Error::Line { line: spec.to_string(), what: "opened", source };
    let mut line: Box<dyn Line> = match spec.kind {
        Kind::Gpio => Box::new(Gpio::open(&spec.address).map_err(failed)?),
        kind => Box::new(Serial::open(Path::new(&spec.address), kind).map_err(failed)?),
    };
    line.set(false).map_err(failed)?;
    Ok(line)
}

/// A pin of a serial port.
struct Serial {
    port: SerialPort,
    kind: Kind,
}

impl Serial {
    fn open(path: &Path, kind: Kind) -> io::Result<Self> {
        // Raw, without hardware flow control: that would drive the pins itself.
        let mut port = SerialPort::open(path, BAUD)?;
        port.set_write_timeout(WRITE_WITHIN)?;
        // Another program's bytes or pins would be toggles without a stamp.
        termios::ioctl_tiocexcl(&port)?;
        Ok(Self { port, kind })
    }
}

impl Line for Serial {
    fn set(&mut self, high: bool) -> io::Result<()> {
        match self.kind {
            Kind::Rts => self.port.set_rts(high),
            Kind::Dtr => self.port.set_dtr(high),
            Kind::Break => self.port.set_break(high),
            Kind::Bytes | Kind::Gpio => {
                self.port.write_all(if high { b"1" } else { b"0" })?;
                // Sent, not only queued.
                self.port.flush()
            }
        }
    }
}

impl Drop for Serial {
    fn drop(&mut self) {
        // A port may outlive us, and would stay ours: a pseudo-terminal does.
        let _ = termios::ioctl_tiocnxcl(&self.port);
    }
}

/// A line of the GPIO character device.
struct Gpio {
    request: gpiocdev::Request,
}

impl Gpio {
    fn open(address: &str) -> io::Result<Self> {
        let mut builder = gpiocdev::Request::builder();
        builder.with_consumer("nightwatt");
        if let Some((chip, offset)) = chip_and_offset(address) {
            builder.on_chip(chip).with_line(offset);
        } else {
            let found = gpiocdev::find_named_line(address).ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::NotFound,
                    "no GPIO line of this machine has that name",
                )
            })?;
            builder.with_found_line(&found);
        }
        let request = builder.as_output(Value::Inactive).request().map_err(of_gpio)?;
        Ok(Self { request })
    }
}

/// `/dev/gpiochip0:17`; nothing where that is a name.
fn chip_and_offset(address: &str) -> Option<(PathBuf, Offset)> {
    let (chip, offset) = address.rsplit_once(':')?;
    Some((chip.into(), offset.parse().ok()?))
}

impl Line for Gpio {
    fn set(&mut self, high: bool) -> io::Result<()> {
        let value = if high { Value::Active } else { Value::Inactive };
        self.request.set_lone_value(value).map_err(of_gpio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_named_by_their_kind_and_place() {
        for text in ["rts=/dev/ttyS0", "dtr=/dev/ttyUSB0", "break=/x", "bytes=/x", "gpio=GPIO17"] {
            assert_eq!(text.parse::<LineSpec>().unwrap().to_string(), text);
        }
        for wrong in ["", "rts", "rts=", "cts=/dev/ttyS0", "/dev/ttyS0"] {
            let error = wrong.parse::<LineSpec>().unwrap_err();
            assert!(error.contains("write `rts=/dev/ttyS0`"), "{error}");
        }
        let place = chip_and_offset("/dev/gpiochip0:17").unwrap();
        assert_eq!(place, (PathBuf::from("/dev/gpiochip0"), 17));
        assert_eq!(chip_and_offset("GPIO17"), None);
        assert_eq!(chip_and_offset("a:b"), None);
    }

    #[test]
    fn a_line_that_is_not_there_is_named_with_what_to_do() {
        for text in ["rts=/nowhere/ttyS0", "gpio=/nowhere/gpiochip0:1", "rts=/dev/null"] {
            let error = open(&text.parse().unwrap()).err().unwrap();
            assert!(error.to_string().contains(text), "{error}");
            assert!(error.hint().is_some(), "{error}");
        }
    }

    /// Of a chip that the kernel simulates: its lines can be looked at from outside.
    #[test]
    fn a_gpio_line_has_the_level_it_was_set_to() {
        let sim = Path::new("/sys/kernel/config/gpio-sim");
        if !sim.exists() {
            println!("skipped: this kernel has no gpio-sim (modprobe gpio-sim, as root)");
            return;
        }
        let device = sim.join(format!("nightwatt-{}", std::process::id()));
        let bank = device.join("bank0");
        std::fs::create_dir_all(&bank).unwrap();
        std::fs::write(bank.join("num_lines"), "4").unwrap();
        std::fs::write(device.join("live"), "1").unwrap();
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap().trim().to_owned();
        let chip = read(bank.join("chip_name"));
        let name = read(device.join("dev_name"));
        let value = PathBuf::from(format!("/sys/devices/platform/{name}/{chip}/sim_gpio2/value"));
        let mut line = open(&format!("gpio=/dev/{chip}:2").parse().unwrap()).unwrap();
        for (high, shown) in [(true, "1"), (false, "0"), (true, "1")] {
            line.set(high).unwrap();
            assert_eq!(read(value.clone()), shown);
        }
        drop(line);
        std::fs::write(device.join("live"), "0").unwrap();
        std::fs::remove_dir(&bank).unwrap();
        std::fs::remove_dir(&device).unwrap();
    }
}
