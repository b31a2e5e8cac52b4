//! Serial ports of meters: opened raw, for us alone, and read without blocking.

use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_clock::meter::Woken;
use nightwatt_energy::time::Mono;
use nightwatt_host::Host;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::termios::{self, ControlModes, OptionalActions, QueueSelector};

use crate::error::MeterError;
use crate::meter::Turn;
use crate::spec::MeterSpec;

/// As much as a terminal's queue holds.
const ROOM: usize = 4096;

/// Bytes shown of input that cannot be parsed.
const SHOWN: usize = 40;

/// An open serial port.
#[derive(Debug)]
pub(crate) struct Port {
    meter: String,
    path: PathBuf,
    /// None after it was released.
    file: Option<OwnedFd>,
    baud: u32,
    buffer: Box<[u8]>,
    /// Bytes that came in since the last record.
    vain: u64,
    /// The beginning of those of them that came in last.
    shown: Vec<u8>,
}

impl Port {
    /// Opens the port that `spec` names, at `baud` baud, eight bits, no parity, one stop bit.
    pub(crate) fn open(host: &Host, spec: &MeterSpec, baud: u32) -> Result<Self, MeterError> {
        let path = host.path(spec.address("/dev/ttyUSB0")?);
        // A port that waits for its carrier would block here.
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(&path, flags, Mode::empty())
            .map_err(|errno| not_opened(spec, &path, errno))?;
        if !termios::isatty(&file) {
            return Err(spec.wrong(format!(
                "{} is no serial port; recordings are read by `file={}`",
                path.display(),
                path.display()
            )));
        }
        // Two that read one port get half of the records each.
        termios::ioctl_tiocexcl(&file).map_err(|errno| not_opened(spec, &path, errno))?;
        let mut port = Self {
            meter: spec.name().to_owned(),
            path,
            file: Some(file),
            baud,
            buffer: vec![0; ROOM].into(),
            vain: 0,
            shown: Vec::with_capacity(SHOWN),
        };
        port.set_speed(baud)?;
        Ok(port)
    }

    /// Its speed in baud.
    pub(crate) const fn baud(&self) -> u32 {
        self.baud
    }

    /// Sets the speed; what came in at the one before is dropped.
    pub(crate) fn set_speed(&mut self, baud: u32) -> Result<(), MeterError> {
        let file = self.file()?;
        let set = || {
            let mut settings = termios::tcgetattr(file)?;
            settings.make_raw();
            settings.control_modes -= ControlModes::CSTOPB | ControlModes::CRTSCTS;
            settings.control_modes |= ControlModes::CLOCAL | ControlModes::CREAD;
            settings.set_speed(baud)?;
            termios::tcsetattr(file, OptionalActions::Now, &settings)?;
            if baud != self.baud {
                termios::tcflush(file, QueueSelector::IFlush)?;
            }
            Ok(())
        };
        set().map_err(|errno: Errno| self.failed("set the speed of", errno.into()))?;
        self.baud = baud;
        Ok(())
    }

    /// Waits for what comes in next, and says how much that is: nothing if the turn ends before. That
    /// the port is gone is an error.
    pub(crate) fn read(&mut self, turn: &Turn<'_>) -> Result<usize, MeterError> {
        let length = self.fill(turn).map_err(|error| self.failed("read", error))?;
        if length > 0 {
            self.vain += length as u64;
            self.shown.clear();
            self.shown.extend_from_slice(&self.buffer[..length.min(SHOWN)]);
        }
        Ok(length)
    }

    /// The bytes that the last [`Port::read`] spoke of.
    pub(crate) fn came(&self, length: usize) -> &[u8] {
        &self.buffer[..length]
    }

    fn fill(&mut self, turn: &Turn<'_>) -> io::Result<usize> {
        let file = self.file.as_ref().ok_or_else(released)?;
        while turn.readable(file.as_fd()) == Woken::Readable {
            match rustix::io::read(file, &mut *self.buffer) {
                Ok(0) => {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it was unplugged"));
                }
                Ok(length) => return Ok(length),
                Err(Errno::AGAIN | Errno::INTR) if !turn.left().is_zero() => {}
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(0)
    }

    /// Sends a command: shorter than what a port takes without waiting.
    pub(crate) fn send(&self, command: &[u8]) -> Result<(), MeterError> {
        let sent = match rustix::io::write(self.file()?, command) {
            Ok(sent) if sent == command.len() => Ok(()),
            Ok(_) | Err(Errno::AGAIN) => {
                Err(io::Error::new(io::ErrorKind::WriteZero, "it takes no more"))
            }
            Err(errno) => Err(errno.into()),
        };
        sent.map_err(|error| self.failed("write to", error))
    }

    /// A record has come in.
    pub(crate) fn made_sense(&mut self) {
        self.vain = 0;
    }

    /// The end of a turn without a record: an error if there was anything else.
    pub(crate) fn nothing(&mut self) -> Result<(), MeterError> {
        let vain = std::mem::take(&mut self.vain);
        if vain == 0 {
            return Ok(());
        }
        let (shown, baud) = (self.shown.escape_ascii(), self.baud);
        let what = format!(
            "{vain} bytes and no record, as `{shown}`; is {baud} baud its speed, and is it that meter?"
        );
        Err(MeterError::Nonsense { meter: self.meter.clone(), what })
    }

    /// Gives the port up, so that it can be opened again.
    pub(crate) fn release(&mut self) {
        if let Some(file) = self.file.take() {
            // A port may outlive us, and would stay ours: a pseudo-terminal does.
            let _ = termios::ioctl_tiocnxcl(&file);
        }
    }

    fn file(&self) -> Result<&OwnedFd, MeterError> {
        self.file.as_ref().ok_or_else(|| self.failed("use", released()))
    }

    fn failed(&self, what: &str, error: io::Error) -> MeterError {
        MeterError::Io { what: format!("{what} {}", self.path.display()), error }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.release();
    }
}

fn released() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "it was given up after an error")
}

fn not_opened(spec: &MeterSpec, path: &Path, errno: Errno) -> MeterError {
    let (meter, what) = (spec.name().to_owned(), path.display().to_string());
    match errno {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => {
            MeterError::Absent { meter, why: format!("there is no {what}") }
        }
        Errno::ACCESS | Errno::PERM => MeterError::Denied {
            meter,
            what,
            hint:
                "join the group that owns it, then log in again: `sudo usermod -aG dialout $USER`"
                    .to_owned(),
        },
        Errno::BUSY => MeterError::Absent { meter, why: format!("another program uses {what}") },
        errno => MeterError::Io { what: format!("open {what}"), error: errno.into() },
    }
}

/// A time, given as `5s` or `200ms`, between two bounds.
pub(crate) fn bounded_time(
    spec: &MeterSpec,
    option: &str,
    usual: Duration,
    bounds: RangeInclusive<Duration>,
) -> Result<Duration, MeterError> {
    let time = spec.time(option)?.unwrap_or(usual);
    if !bounds.contains(&time) {
        let (least, most) = bounds.into_inner();
        return Err(spec.wrong(format!("`{option}` lies between {least:?} and {most:?}")));
    }
    Ok(time)
}

/// The option `baud`: one of those that the meter knows, or what it usually has.
pub(crate) fn baud(spec: &MeterSpec) -> Result<Option<u32>, MeterError> {
    let Some(text) = spec.text("baud") else { return Ok(None) };
    match text.parse() {
        Ok(baud @ 300..=4_000_000) => Ok(Some(baud)),
        _ => Err(spec.wrong(format!("`baud` is a speed as 57600, and not `{text}`"))),
    }
}

/// When the readings were taken that came in together. A meter that says something once in an interval
/// did so when a reader was late, too: the readings keep their distance, as far as there is room for
/// it after the one before.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arrivals {
    last: Option<Mono>,
}

impl Arrivals {
    /// The moments of `count` readings, `every` apart, the last of which came in `now`.
    pub(crate) fn of(
        &mut self,
        count: usize,
        every: Duration,
        now: Mono,
    ) -> impl Iterator<Item = Mono> + use<> {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let room = self.last.map_or(Duration::MAX, |last| now.since(last));
        self.last = Some(now);
        let step = every.min(room / count.max(1));
        (0..count).map(move |index| now - step * (count - 1 - index))
    }
}

#[cfg(test)]
pub(crate) mod tests;
