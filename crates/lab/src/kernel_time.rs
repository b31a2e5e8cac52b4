//! `nightwatt tcp where`: what the CPUs' time goes into, the kernel's by what its functions are for.
//!
//! Each CPU is asked at fixed times what runs there, whoever it is and with the kernel's stack;
//! `model::kernel_time` says what that counts as, and the samples between two readings of a meter share what
//! it saw, as in `caliper --sample`.

mod books;
mod result;
mod text;

use std::ffi::OsString;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_meters::sampler::{Opened, Sampler};
use nightwatt_meters::{Host, MeterSpec};
use nightwatt_model::time::Mono;
use nightwatt_probes::{ProbeError, Samples, Watch};

use crate::caliper::{self, Event};
use crate::error::Error;
use crate::run::child::{self, Finished};
use crate::run::{Running, measure_idle};
use books::Books;

pub use result::{
    CategoryReport, EnergyReport, FunctionReport, KernelTimeReport, ProgramReport, SampleCounts,
};

/// How often samples are read.
const READ_EVERY: Duration = Duration::from_millis(50);

/// What is watched, and how.
#[derive(Debug, Clone)]
pub struct KernelTimeOptions {
    /// Until this command ends, which is under test with all that it starts; else until `time` is over.
    pub command: Option<Vec<OsString>>,
    /// Processes that run already and are under test.
    pub processes: Vec<u32>,
    /// Stop after so long.
    pub time: Option<Duration>,
    /// Samples a second, of each CPU.
    pub hz: u32,
    /// For how long the idle machine is measured first.
    pub idle: Option<Duration>,
    /// By which meters.
    pub meters: Vec<MeterSpec>,
    /// Time between two readings.
    pub interval: Option<Duration>,
}

/// What was watched from when to when.
struct Course {
    begin: Mono,
    end: Mono,
    finished: Option<Finished>,
}

/// Watches all CPUs while a command runs, or for a time. `tell` is told that the idle machine is measured.
pub fn run(
    options: &KernelTimeOptions,
    running: &Running,
    tell: impl FnOnce(Duration),
) -> Result<KernelTimeReport, Error> {
    if let Some(pid) = options.processes.iter().find(|pid| !caliper::is_there(**pid)) {
        return Err(Error::NoProcess(*pid));
    }
    let mut samples = Samples::open_everything(options.hz)?;
    let host = Host::default();
    let open = |spec: &_| Opened::open(&host, spec);
    let mut meters = options.meters.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let mut idle = None;
    if let Some(time) = options.idle {
        tell(time);
        idle = Some(measure_idle(&mut meters, time, options.interval, running)?);
        running.go_on()?;
    }
    let mut books = Books::new(&meters, idle.as_deref());
    start(&mut samples, options.command.is_some(), &options.processes)?;
    let (sender, events) = channel();
    let metering = caliper::start(meters, options.interval, &sender)?;
    let both = (&mut samples, &mut books);
    let course = follow(options, running, both, &metering, (sender, &events))?;
    books.end(course.end);
    books.read(&mut samples);
    let (measured, _) = metering.finish(course.end);
    for event in events.try_iter() {
        books.channels.event(&event);
    }
    books.close();
    let mut report = KernelTimeReport::of(&books, &samples, &measured, (course.begin, course.end));
    report.command =
        options.command.iter().flatten().map(|it| it.to_string_lossy().into_owned()).collect();
    report.processes.clone_from(&options.processes);
    report.exit_status = course.finished.map_or(0, |run| run.ended.code());
    Ok(report)
}

/// Watches all CPUs while `work` goes on, with these processes under test, and what they start. No meter is
/// read.
pub fn during<T>(
    hz: u32,
    processes: &[u32],
    work: impl FnOnce() -> T,
) -> Result<(T, KernelTimeReport), ProbeError> {
    let mut samples = Samples::open_everything(hz)?;
    let mut books = Books::new(&[], None);
    start(&mut samples, false, processes)?;
    let stop = Stop::new().map_err(ProbeError::NoSamples)?;
    let begin = monotonic();
    books.begin(begin);
    let (done, end) = thread::scope(|scope| {
        scope.spawn(|| {
            while stop.wait_until(monotonic() + READ_EVERY) == Woken::TimedOut {
                books.read(&mut samples);
            }
        });
        // It ends the thread however the work ends.
        let _over = Over(&stop);
        (work(), monotonic())
    });
    books.end(end);
    books.read(&mut samples);
    books.close();
    let mut report = KernelTimeReport::of(&books, &samples, &[], (begin, end));
    report.processes = processes.to_vec();
    Ok((done, report))
}

/// Ends a thread that waits.
struct Over<'a>(&'a Stop);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn start(samples: &mut Samples, children: bool, processes: &[u32]) -> Result<(), ProbeError> {
    samples.start(if children { Watch::Children } else { Watch::Everybody })?;
    for pid in processes {
        samples.watch(*pid);
    }
    samples.find_programs();
    Ok(())
}

/// Keeps the books until it is over.
fn follow(
    options: &KernelTimeOptions,
    running: &Running,
    (samples, books): (&mut Samples, &mut Books),
    metering: &Sampler,
    (sender, events): (Sender<Event>, &Receiver<Event>),
) -> Result<Course, Error> {
    let begin = monotonic();
    metering.begin(begin);
    books.begin(begin);
    thread::scope(|scope| {
        // It is held to the end: without it nothing would come, and nothing would be waited for.
        let sender = sender;
        if let Some(command) = &options.command {
            let sender = sender.clone();
            scope.spawn(move || {
                let ended = child::run(command, running, |_| ());
                let _ = sender.send(Event::Ended(ended));
            });
        }
        let deadline = options.time.map(|time| begin + time);
        loop {
            let left = deadline.map_or(READ_EVERY, |deadline| deadline.since(monotonic()));
            let event = events.recv_timeout(left.clamp(Duration::from_millis(1), READ_EVERY));
            books.read(samples);
            match event {
                Ok(Event::Ended(finished)) => {
                    let finished = finished?;
                    return Ok(Course { begin, end: finished.end, finished: Some(finished) });
                }
                Ok(event) => books.channels.event(&event),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            let is_over = deadline.is_some_and(|deadline| monotonic() >= deadline);
            if options.command.is_some() {
                if is_over {
                    running.interrupt(Some(rustix::process::Signal::TERM));
                }
            } else if is_over || running.is_interrupted() {
                return Ok(Course { begin, end: monotonic(), finished: None });
            }
        }
    })
}
