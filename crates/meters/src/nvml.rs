//! NVIDIA's accelerators, by their management library, which is loaded when it is wanted.
//! Reference: NVML API, `nvmlDeviceGetTotalEnergyConsumption`, `nvmlDeviceGetPowerUsage`.

use std::time::Duration;

use nightwatt_clock::meter::{Stamp, Stop, Woken, monotonic};
use nightwatt_energy::integration::Reading;
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;
use nightwatt_energy::wrapping_counter::CounterSpec;
use nightwatt_host::Host;
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessUtilizationSample;

use crate::channel::{Accuracy, Channel, Scope};
use crate::error::MeterError;
use crate::meter::{Driver, Meter, Opening, Pace, Presence, Readings, Turn};
use crate::spec::MeterSpec;
use crate::web;

pub(crate) const DRIVER: Driver =
    Driver { name: "nvml", about: "NVIDIA accelerators", example: "nvml", probe, open };

/// The driver's own name for it comes first: the other is of packages for developers.
const LIBRARIES: [&str; 2] = ["libnvidia-ml.so.1", "libnvidia-ml.so"];

/// The reference of NVML names 5 % for the power of the whole board.
const ACCURACY: Accuracy = Accuracy::relative(0.05);

/// No board draws more, W.
const MOST: Watts = Watts(5000.0);

/// The counter is in millijoules.
const COUNTER: CounterSpec = CounterSpec { joules_per_count: 1e-3, range: None, most: MOST };

fn load() -> Result<Nvml, NvmlError> {
    let [first, second] =
        LIBRARIES.map(|library| Nvml::builder().lib_path(library.as_ref()).init());
    first.or(second)
}

fn probe(host: &Host) -> Presence {
    if !host.is_real() {
        return Presence::Absent("its library belongs to the machine that we run on".to_owned());
    }
    match load().and_then(|nvml| nvml.device_count()) {
        Ok(0) => Presence::Absent("there is no NVIDIA accelerator".to_owned()),
        Ok(_) => Presence::Available,
        Err(NvmlError::NoPermission) => Presence::Denied {
            what: "the NVIDIA driver".to_owned(),
            hint: "it may not be used here: look at the rights of /dev/nvidia*".to_owned(),
        },
        Err(error) => Presence::Absent(why(&error)),
    }
}

fn why(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(_) => {
            let library = LIBRARIES[0];
            format!("{library} cannot be loaded: it comes with NVIDIA's driver")
        }
        NvmlError::DriverNotLoaded => "NVIDIA's driver is not loaded: `modprobe nvidia`".to_owned(),
        error => format!("NVML says: {error}"),
    }
}

fn open(host: &Host, spec: &MeterSpec) -> Opening {
    spec.only(&["device"])?;
    let name = || spec.name().to_owned();
    match probe(host) {
        Presence::Absent(why) => return Err(MeterError::Absent { meter: name(), why }),
        Presence::Denied { what, hint } => {
            return Err(MeterError::Denied { meter: name(), what, hint });
        }
        _ => {}
    }
    let failed = |error: NvmlError| MeterError::Absent { meter: name(), why: why(&error) };
    let nvml = load().map_err(failed)?;
    let count = nvml.device_count().map_err(failed)?;
    let numbers = match spec.text("device").map(str::parse) {
        None => 0..count,
        Some(Ok(number)) if number < count => number..number + 1,
        Some(_) => return Err(spec.wrong(format!("`device` is a number below {count}"))),
    };
    let (mut boards, mut remarks) = (Vec::new(), Vec::new());
    for number in numbers {
        let device = nvml.device_by_index(number);
        let power = device.as_ref().ok().and_then(|device| device.power_usage().ok());
        match device.and_then(|device| device.total_energy_consumption()) {
            Ok(shown) => boards.push(Board::new(number, Some(Steps::new(monotonic(), shown)))),
            Err(_) if power.is_some() => boards.push(Board::new(number, None)),
            // An old or small one, which measures nothing, or one that fell off the bus.
            Err(error) => remarks.push(format!("`gpu-{number}` is left out: {}", why(&error))),
        }
    }
    let never = Stop::new().map_err(|error| MeterError::Io { what: "wait".to_owned(), error })?;
    look_for_steps(&nvml, &mut boards, &never);
    boards.retain(|board| {
        let (number, is_still) = (board.number, board.is_still());
        if is_still {
            remarks.push(format!("`gpu-{number}` stands still: that is no measurement"));
        }
        !is_still
    });
    if boards.is_empty() {
        let none = "no accelerator here reports its power".to_owned();
        let why = std::iter::once(none).chain(remarks).collect::<Vec<_>>().join("; ");
        return Err(MeterError::Absent { meter: name(), why });
    }
    let channels = boards.iter().map(Board::channel).collect();
    Ok(Box::new(Accelerators { channels, nvml, boards, meter: name(), remarks }))
}

/// Counters are brought up to date every 20 to 100 ms; one that has not moved twice after this stands still.
const LONGEST_STILL: Duration = Duration::from_millis(600);

/// The interval between two looks at a counter that is about to move.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// A step between two looks that are no further apart is known to that.
const PRECISE: Duration = Duration::from_millis(8);

/// The steps of an energy counter: when it moved, and how far its steps are apart.
///
/// Its energy is that of the time between two steps, however often it is read in between: so it is read
/// when it moves.
#[derive(Debug, Clone)]
struct Steps {
    shown: u64,
    last_read: Mono,
    moved: Option<Mono>,
    apart: Option<Duration>,
}

impl Steps {
    const fn new(now: Mono, shown: u64) -> Self {
        Self { shown, last_read: now, moved: None, apart: None }
    }

    /// Starts to watch it again: the time of any change since then is unknown.
    const fn begin(&mut self, now: Mono, shown: u64) {
        (self.last_read, self.shown) = (now, shown);
    }

    /// Takes what it shows; the moment at which it moved, if that is known.
    fn look(&mut self, now: Mono, shown: u64) -> Option<Mono> {
        let before = std::mem::replace(&mut self.last_read, now);
        if std::mem::replace(&mut self.shown, shown) == shown {
            return None;
        }
        if now.since(before) > PRECISE {
            // It did not move when it was expected to: its next step says when it does.
            self.moved = None;
            return None;
        }
        let moved = web::middle(before, now);
        if let Some(last) = self.moved.replace(moved) {
            let since = moved.since(last).as_secs_f64();
            let old = self.apart.map_or(since, |apart| apart.as_secs_f64());
            let steps = (since / old).round().max(1.0);
            self.apart = Some(Duration::from_secs_f64(0.75 * old + 0.25 * since / steps));
        }
        Some(moved)
    }

    /// When it is to be looked at next: shortly before it is expected to move.
    fn next_look(&self, now: Mono) -> Mono {
        let soon = now + LOOK_EVERY;
        let (Some(moved), Some(apart)) = (self.moved, self.apart) else { return soon };
        let since = now.since(moved).as_nanos();
        let into = Duration::from_nanos((since % apart.as_nanos().max(1)) as u64);
        // It may be a little early or late.
        let near = apart / 5;
        if into < near { soon } else { soon.max(now + apart.saturating_sub(into + near)) }
    }

    /// How long to wait for it to move.
    fn timeout(&self) -> Duration {
        self.apart.unwrap_or(LONGEST_STILL) * 2
    }
}

/// An accelerator.
#[derive(Debug)]
struct Board {
    number: u32,
    /// Of one that counts energy.
    steps: Option<Steps>,
}

impl Board {
    const fn new(number: u32, steps: Option<Steps>) -> Self {
        Self { number, steps }
    }

    fn is_still(&self) -> bool {
        self.steps.as_ref().is_some_and(|steps| steps.moved.is_none())
    }

    fn channel(&self) -> Channel {
        let name = format!("gpu-{}", self.number);
        let channel = if self.steps.is_some() {
            Channel::counter(name, Scope::Gpu, COUNTER, ACCURACY)
        } else {
            Channel { step: 1e-3, ..Channel::power(name, Scope::Gpu, ACCURACY) }
        };
        Channel { accuracy_source: "NVML reference", ..channel }
    }
}

fn counter(nvml: &Nvml, number: u32) -> Result<u64, NvmlError> {
    nvml.device_by_index(number)?.total_energy_consumption()
}

/// Watches counters until it is known how far their steps are apart. One that does not move is no
/// measurement: its power is read instead, if it can be.
fn look_for_steps(nvml: &Nvml, boards: &mut [Board], never: &Stop) {
    let until = monotonic() + LONGEST_STILL;
    let unknown = |board: &Board| board.steps.as_ref().is_some_and(|steps| steps.apart.is_none());
    while monotonic() < until && boards.iter().any(unknown) {
        for board in boards.iter_mut() {
            let Some(steps) = &mut board.steps else { continue };
            if let Ok(shown) = counter(nvml, board.number) {
                steps.look(monotonic(), shown);
            }
        }
        never.wait_until(monotonic() + LOOK_EVERY);
    }
    for board in boards.iter_mut().filter(|board| board.is_still()) {
        let power = nvml.device_by_index(board.number).and_then(|device| device.power_usage());
        if power.is_ok_and(|power| power > 0) {
            board.steps = None;
        }
    }
}

struct Accelerators {
    channels: Vec<Channel>,
    nvml: Nvml,
    boards: Vec<Board>,
    meter: String,
    remarks: Vec<String>,
}

impl Accelerators {
    /// One that fell off the bus does not silence the others.
    fn failed(&self, number: u32, error: &NvmlError) -> MeterError {
        let what = format!("accelerator {number}: {error}");
        MeterError::Nonsense { meter: self.meter.clone(), what }
    }

    /// The power of those that count no energy.
    fn read_powers(&self, turn: &Turn<'_>, out: &mut Readings) {
        for (channel, board) in self.boards.iter().enumerate() {
            if board.steps.is_some() {
                continue;
            }
            let sent = monotonic();
            let power = self.nvml.device_by_index(board.number);
            match power.and_then(|device| device.power_usage()) {
                Ok(milliwatts) => {
                    let reading = Reading::Power(Watts(f64::from(milliwatts) / 1e3));
                    out.push(channel, web::middle(sent, turn.now()), reading);
                }
                Err(error) => out.fail(self.failed(board.number, &error)),
            }
        }
    }

    /// Reads each counter when it moves next; as it stands, if it does not.
    fn read_counters(&mut self, turn: &Turn<'_>, out: &mut Readings) {
        let began = monotonic();
        let counts = |(_, board): &(usize, &Board)| board.steps.is_some();
        let mut waiting: Vec<usize> =
            self.boards.iter().enumerate().filter(counts).map(|(place, _)| place).collect();
        let mut is_first = true;
        let mut answer = Duration::ZERO;
        loop {
            let mut next = Mono::NEVER;
            let mut still = Vec::with_capacity(waiting.len());
            for channel in waiting {
                let number = self.boards[channel].number;
                let sent = monotonic();
                let shown = counter(&self.nvml, number);
                let now = turn.now();
                answer = answer.max(now.since(sent) + LOOK_EVERY);
                let (Some(steps), Ok(shown)) = (&mut self.boards[channel].steps, &shown) else {
                    let failed = shown.err().map(|error| self.failed(number, &error));
                    if let Some(error) = failed {
                        out.fail(error);
                    }
                    continue;
                };
                let reading = Reading::Counter(*shown);
                if is_first {
                    steps.begin(now, *shown);
                }
                match steps.look(now, *shown) {
                    Some(moved) => out.push(channel, moved, reading),
                    None if now.since(began) > steps.timeout() => out.push(channel, now, reading),
                    None => {
                        next = next.min(steps.next_look(now));
                        still.push(channel);
                    }
                }
            }
            waiting = still;
            is_first = false;
            if waiting.is_empty() || turn.stop.wait_until(next) == Woken::Stopped {
                break;
            }
        }
        out.waited = monotonic().since(began).saturating_sub(answer);
    }
}

impl Meter for Accelerators {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn pace(&self) -> Pace {
        // Nothing is new between two steps of a counter; powers are brought up to date as often.
        let apart = self.boards.iter().filter_map(|board| board.steps.as_ref()?.apart).max();
        let fastest = apart.map_or(Duration::from_millis(100), |apart| apart.mul_f64(1.05));
        let fastest = fastest.max(Duration::from_millis(20));
        Pace::Polled { fastest, usual: fastest.max(Duration::from_millis(100)) }
    }

    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError> {
        self.read_powers(turn, out);
        self.read_counters(turn, out);
        Ok(())
    }

    fn remarks(&self) -> Vec<String> {
        self.remarks.clone()
    }
}

/// Who uses the accelerators of this machine.
pub struct Users {
    nvml: Nvml,
    /// Of each accelerator, when it was looked at last, in microseconds since 1970.
    seen: Vec<u64>,
}

impl Users {
    /// Looks at what is used from now on. `None` where there is no accelerator.
    pub fn new() -> Option<Self> {
        let nvml = load().ok()?;
        let count = nvml.device_count().ok()?;
        let now = Stamp::now().wall_ns / 1000;
        let now = u64::try_from(now).unwrap_or(0);
        Some(Self { nvml, seen: vec![now; usize::try_from(count).unwrap_or(0)] })
    }

    /// How much of its processors each process used since the last look; `None` where the accelerator
    /// does not say.
    pub fn look(&mut self, number: u32) -> Option<Vec<Used>> {
        let seen = self.seen.get_mut(usize::try_from(number).ok()?)?;
        let device = self.nvml.device_by_index(number).ok()?;
        let samples = match device.process_utilization_stats(*seen) {
            Ok(samples) => samples,
            // No process used it.
            Err(NvmlError::NotFound) => return Some(Vec::new()),
            Err(_) => return None,
        };
        let since = *seen;
        *seen = samples.iter().map(|sample| sample.timestamp).fold(since, u64::max);
        Some(used_since(&samples, since))
    }
}

/// What samples say of the time since `since`, in microseconds since 1970.
fn used_since(samples: &[ProcessUtilizationSample], since: u64) -> Vec<Used> {
    // Samples of a process follow each other, and the first begins where we looked last.
    let begin = |sample: &ProcessUtilizationSample| {
        let earlier =
            samples.iter().filter(|it| it.pid == sample.pid && it.timestamp < sample.timestamp);
        earlier.map(|it| it.timestamp).fold(since, u64::max)
    };
    let used = samples.iter().filter(|sample| sample.timestamp > since).map(|sample| Used {
        process: sample.pid,
        time: Duration::from_micros(sample.timestamp - begin(sample)),
        percent: sample.sm_util.min(100),
    });
    used.collect()
}

/// What a process used of an accelerator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// The process, as the driver numbers it.
    pub process: u32,
    /// Over this time.
    pub time: Duration,
    /// Of its processors, on average.
    pub percent: u32,
}

#[cfg(test)]
mod tests {
    use crate::device::{open, poll};

    use super::*;

    /// A counter that moves every 100 ms, looked at when the machine says so.
    #[test]
    fn a_counter_is_looked_at_when_it_is_about_to_move() {
        let shown = |now: Mono| u64::try_from(now.0.as_millis()).unwrap() / 100 * 50_000;
        let at = |millis: u64| Mono(Duration::from_millis(millis));
        let mut steps = Steps::new(at(7), shown(at(7)));
        for millis in 8..=210 {
            steps.look(at(millis), shown(at(millis)));
        }
        let apart = steps.apart.unwrap();
        assert_eq!(apart, Duration::from_millis(100));
        // A second later it is found within a few looks, at the moment of its step.
        let (mut now, mut looks) = (at(1_263), 0);
        steps.begin(now, shown(now));
        let moved = loop {
            now = steps.next_look(now);
            looks += 1;
            if let Some(moved) = steps.look(now, shown(now)) {
                break moved;
            }
        };
        assert!(moved >= at(1_299) && moved <= at(1_301), "{moved:?}");
        assert!(looks <= 25, "{looks}");
        assert_eq!(steps.apart.map(|it| it.as_millis()), Some(100), "several steps are not one");
        // One that moves otherwise than expected is found at its next step.
        assert_eq!(steps.look(at(1_390), shown(at(1_390)) + 1), None);
        assert_eq!(steps.next_look(at(1_390)), at(1_391));
    }

    /// Two jobs, as `nvmlDeviceGetProcessUtilization` answers: the driver takes a sample about every sixth of a second,
    /// and gives those again that were given before.
    #[test]
    fn two_jobs_on_one_accelerator_have_what_each_used_of_it() {
        const LOOKED: u64 = 1_700_000_000_000_000;
        let sample = |pid, millis: u64, sm_util| ProcessUtilizationSample {
            pid,
            timestamp: LOOKED + 1000 * millis - 500_000,
            sm_util,
            mem_util: 7,
            enc_util: 0,
            dec_util: 0,
        };
        let samples = [
            sample(41, 400, 99),
            sample(41, 700, 60),
            sample(42, 700, 30),
            sample(41, 1_000, 60),
            sample(42, 1_000, 30),
        ];
        let used = used_since(&samples, LOOKED);
        let seconds = |process: u32| -> f64 {
            let of = used.iter().filter(|it| it.process == process);
            of.map(|it| it.time.as_secs_f64() * f64::from(it.percent) / 100.0).sum()
        };
        // Half a second each: 60 % and 30 % of it. What is older than the last look was counted then.
        assert!((seconds(41) - 0.3).abs() < 1e-9 && (seconds(42) - 0.15).abs() < 1e-9, "{used:?}");
        // `sleep` is in no sample.
        assert!(seconds(43) < f64::EPSILON);
        assert_eq!(used_since(&samples, LOOKED + 500_000), []);
    }

    #[test]
    fn accelerators_are_read_and_where_there_are_none_the_reason_is_told() {
        match probe(&Host::default()) {
            Presence::Available => {
                let mut meter = open("nvml").unwrap();
                let readings = poll(meter.as_mut()).unwrap();
                assert_eq!(readings.len(), meter.channels().len());
                println!("{readings:?}");
            }
            Presence::Absent(why) => {
                println!("skipped: {why}");
                assert!(why.contains("NV"), "{why}");
                let error = open("nvml").map(drop).unwrap_err().to_string();
                assert!(error.contains(&why), "{error}");
            }
            other => panic!("{other:?}"),
        }
        let elsewhere = Host::at("/nowhere");
        assert!(matches!(probe(&elsewhere), Presence::Absent(_)));
    }
}
