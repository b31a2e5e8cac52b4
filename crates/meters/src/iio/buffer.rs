//! A device that fills a buffer by its own clock.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_clock::meter::Woken;
use nightwatt_energy::time::Mono;
use nightwatt_host::{Host, files};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::inputs::{self, Device, Input, Quantity, Scale};
use super::scan::{Element, Scan};
use crate::channel::Channel;
use crate::error::MeterError;
use crate::meter::{Meter, Opening, Pace, Readings, Turn};
use crate::serial::Arrivals;
use crate::spec::MeterSpec;

/// Readings of one turn: more would make the sampler allocate.
const READINGS: usize = 2048;

/// Maximum number of records that wait in the kernel: 0.4 s at 10 kHz.
const RECORDS: u32 = 4096;

/// The device wakes us about this often.
const WAKE: Duration = Duration::from_millis(50);

const TIMESTAMP: &str = "timestamp";

/// Writes to a file of `/sys`, which is there or not.
fn set(folder: &Path, file: &str, value: &str) -> Result<(), MeterError> {
    let path = folder.join(file);
    let write = || {
        let mut file = OpenOptions::new().write(true).truncate(true).open(&path)?;
        file.write_all(value.as_bytes())
    };
    write().map_err(|error: io::Error| MeterError::Io {
        what: format!("write `{value}` to {}", path.display()),
        error,
    })
}

pub(super) fn open(
    host: &Host,
    spec: &MeterSpec,
    device: &Device,
    quantities: &[Quantity],
    rate: Option<f64>,
) -> Opening {
    let folder = &device.folder;
    let period = set_up(folder, spec, device, rate)?;
    let elements = switch_on(folder, spec, &wanted(quantities))?;
    let place = |name: &str| elements.iter().position(|(it, _)| it == name);
    let sources = quantities.iter().map(|quantity| {
        let inputs = quantity.inputs();
        let at = |input: &Input| place(&input.name).map(|at| (at, device.scale(input)));
        let places = inputs.iter().map(at).collect::<Option<Vec<_>>>().ok_or_else(|| {
            let names: Vec<_> = inputs.iter().map(|input| input.name.as_str()).collect();
            spec.wrong(format!("{} does not buffer `{}`", device.name, names.join("` and `")))
        })?;
        Ok((quantity.clone(), places))
    });
    let sources = sources.collect::<Result<Vec<_>, MeterError>>()?;
    let scan = Scan::new(&elements.iter().map(|(_, element)| *element).collect::<Vec<_>>());
    let channels: Vec<_> = quantities.iter().map(|quantity| device.channel(quantity)).collect();
    let records = (READINGS / channels.len().max(1)).max(1);
    let path = host.path("/dev").join(folder.file_name().unwrap_or_default());
    set(folder, "buffer/enable", "1")?;
    let mut capture = Capture {
        buffer: vec![0; records * scan.length()],
        moments: Vec::with_capacity(READINGS),
        channels,
        sources,
        timestamp: place(TIMESTAMP),
        scan,
        period,
        folder: folder.clone(),
        path,
        file: None,
        arrivals: Arrivals::default(),
    };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::open(&capture.path, flags, Mode::empty()) {
        Ok(file) => capture.file = Some(file),
        Err(errno) => {
            let _ = set(folder, "buffer/enable", "0");
            return Err(denied(spec, MeterError::reading(&capture.path, errno.into())));
        }
    }
    Ok(Box::new(capture))
}

/// The inputs that they need, each once.
fn wanted(quantities: &[Quantity]) -> Vec<Input> {
    let mut wanted = Vec::new();
    for input in quantities.iter().flat_map(Quantity::inputs) {
        if !wanted.contains(&input) {
            wanted.push(input);
        }
    }
    wanted
}

/// Sets the buffer up, switched off; returns the time between two records.
fn set_up(
    folder: &Path,
    spec: &MeterSpec,
    device: &Device,
    rate: Option<f64>,
) -> Result<Duration, MeterError> {
    // The previous user may have left it on; its settings cannot be changed then.
    set(folder, "buffer/enable", "0").map_err(|error| denied(spec, error))?;
    if let Some(trigger) = spec.text("trigger") {
        set(folder, "trigger/current_trigger", trigger)?;
    }
    if let Some(rate) = rate {
        set(folder, "sampling_frequency", &rate.to_string())?;
    }
    let period = files::read(&folder.join("sampling_frequency"))
        .ok()
        .and_then(|text| text.parse::<f64>().ok())
        .and_then(|rate| Duration::try_from_secs_f64(rate.recip()).ok())
        .filter(|period| !period.is_zero())
        .ok_or_else(|| {
            spec.wrong(format!("{} does not say how often it samples; `rate=` may", device.name))
        })?;
    let _ = set(folder, "buffer/length", &RECORDS.to_string());
    let watermark = (WAKE.as_nanos() / period.as_nanos()).clamp(1, u128::from(RECORDS / 4));
    // Older kernels have none, and wake us for each record.
    let _ = set(folder, "buffer/watermark", &watermark.to_string());
    Ok(period)
}

/// Switches on what is wanted, and a time stamp if it can be of the monotonic clock; all else off.
/// Returns what is on, in the order of a record.
fn switch_on(
    folder: &Path,
    spec: &MeterSpec,
    wanted: &[Input],
) -> Result<Vec<(String, Element)>, MeterError> {
    let clock = "current_timestamp_clock";
    let timed = set(folder, clock, "monotonic").is_ok()
        && files::read(&folder.join(clock)).is_ok_and(|clock| clock == "monotonic");
    let mut on = Vec::new();
    let files = files::list(&folder.join("scan_elements")).unwrap_or_default();
    for file in files.iter().filter_map(|file| file.file_name()?.to_str()) {
        let Some(name) = file.strip_prefix("in_").and_then(|it| it.strip_suffix("_en")) else {
            continue;
        };
        let is_wanted =
            if name == TIMESTAMP { timed } else { wanted.iter().any(|input| input.name == name) };
        let file = format!("scan_elements/{file}");
        set(folder, &file, if is_wanted { "1" } else { "0" })?;
        // Some cannot be switched off, and lie in the record all the same.
        if files::read(&folder.join(&file)).is_ok_and(|state| state == "1") {
            let (index, kind) = inputs::scan_type(folder, name)
                .ok_or_else(|| spec.wrong(format!("`{name}` has no place or type in a record")))?;
            on.push((index, name.to_owned(), kind.parse().map_err(|why: String| spec.wrong(why))?));
        }
    }
    on.sort_by_key(|(index, ..)| *index);
    Ok(on.into_iter().map(|(_, name, element)| (name, element)).collect())
}

/// What may not be written or read needs more rights.
fn denied(spec: &MeterSpec, error: MeterError) -> MeterError {
    match error {
        MeterError::Io { what, error } if error.kind() == io::ErrorKind::PermissionDenied => {
            MeterError::Denied {
                meter: spec.name().to_owned(),
                what: format!("its buffer ({what})"),
                hint: "run as root, or without `buffered` and `rate`".to_owned(),
            }
        }
        error => error,
    }
}

struct Capture {
    channels: Vec<Channel>,
    /// Quantities, and for each of their inputs its place in a record and its scale.
    sources: Vec<(Quantity, Vec<(usize, Scale)>)>,
    /// The place of the time stamp.
    timestamp: Option<usize>,
    scan: Scan,
    /// Between two records.
    period: Duration,
    folder: PathBuf,
    path: PathBuf,
    /// None after it was released.
    file: Option<OwnedFd>,
    buffer: Vec<u8>,
    /// Of the records of one turn.
    moments: Vec<Mono>,
    arrivals: Arrivals,
}

impl Capture {
    /// What comes next; nothing if the turn ends before.
    fn fill(&mut self, turn: &Turn<'_>) -> io::Result<usize> {
        let Some(file) = &self.file else { return Err(io::ErrorKind::NotConnected.into()) };
        while turn.readable(file.as_fd()) == Woken::Readable {
            match rustix::io::read(file, self.buffer.as_mut_slice()) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => return Ok(length),
                Err(Errno::AGAIN | Errno::INTR) if !turn.left().is_zero() => {}
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(0)
    }

    fn take(&mut self, now: Mono, length: usize, out: &mut Readings) {
        let bytes = &self.buffer[..length];
        if self.timestamp.is_none() {
            // The last was taken just now, and the device's clock keeps them apart. What is left of a
            // record before makes one more at most.
            let records = length / self.scan.length();
            self.moments.clear();
            self.moments.extend(self.arrivals.of(records.max(1), self.period, now));
        }
        let (mut index, moments) = (0, &self.moments);
        let (sources, timestamp) = (&self.sources, self.timestamp);
        self.scan.feed(bytes, |values| {
            let at = match timestamp {
                Some(place) => Mono(Duration::from_nanos(values[place].unsigned_abs())),
                None => moments.get(index).copied().unwrap_or(now),
            };
            index += 1;
            for (channel, (quantity, inputs)) in sources.iter().enumerate() {
                let value = |index: usize| {
                    let (place, scale) = inputs[index];
                    (values[place] as f64, scale)
                };
                out.push(channel, at, quantity.reading(value));
            }
        });
    }
}

impl Meter for Capture {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn pace(&self) -> Pace {
        Pace::Pushed { about: self.period }
    }

    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError> {
        loop {
            let read = self.fill(turn);
            let length = read.map_err(|error| MeterError::reading(&self.path, error))?;
            self.take(turn.now(), length, out);
            if !out.is_empty() || length == 0 {
                return Ok(());
            }
        }
    }

    fn release(&mut self) {
        // The file first: some drivers are busy while it is open.
        if self.file.take().is_some() {
            let _ = set(&self.folder, "buffer/enable", "0");
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.release();
    }
}
