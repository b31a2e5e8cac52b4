//! `nightwatt-sched load`: the scheduler, until Ctrl-C, or until the kernel ends it.

use std::cell::RefCell;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::time::Instant;

use libbpf_rs::RingBufferBuilder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::counts::Counts;
use crate::error::Error;
use crate::kernel::{self, Loaded, Settings, word};
use crate::operations::Operations;
use crate::os;
use crate::power::{self, Power};
use crate::trace::Trace;

/// Load the scheduler, and keep it until Ctrl-C
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How tasks are ranked
    #[arg(long, value_name = "POLICY", value_enum, default_value_t = Policy::Bounded)]
    policy: Policy,
    /// With `bounded`: a task that has waited for so many milliseconds runs next
    #[arg(long, value_name = "MS", default_value_t = 200)]
    bound: u64,
    /// The longest time that a task runs without a decision, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=100))]
    quantum: u64,
    /// What is an operation
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Operations::Instructions)]
    operations: Operations,
    /// Power of the machine, in place of what RAPL measures
    #[arg(long, value_name = "W")]
    watts: Option<f64>,
    /// Write each decision to this file (CSV)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

/// How tasks are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Policy {
    /// By OPJ; every n quanta a random one of n tasks is promoted
    Published,
    /// By OPJ over the task's own OPJ when it runs alone, which `run --alone` gives
    Relative,
    /// As published, and no task waits for longer than the bound and a quantum
    Bounded,
}

/// `SCX_ECODE_ACT_RESTART`: the CPUs have changed, and the scheduler may begin again.
const RESTART: u64 = 1 << 48;

/// Runs until it is ended.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    if args.watts.is_some_and(|watts| !(watts > 0.0 && watts < 1e6)) {
        return Err(Error::Usage("`--watts` is above 0".to_owned()));
    }
    let stop = os::ending_signals()
        .map_err(|source| Error::System { what: "wait for signals", source })?;
    let mut trace = Trace::to(args.trace.as_deref())?;
    loop {
        let mut session = Session::begin(args)?;
        let ended = session.run(&stop, &mut trace)?;
        let counts = Counts::read(&session.loaded, session.cpus)?;
        drop(session);
        match ended {
            None => {
                trace.finish()?;
                if args.json {
                    println!("{}", serde_json::to_string(&counts).unwrap_or_default());
                } else {
                    println!("{}", counts.text());
                }
                return Ok(());
            }
            Some(ended) if ended.code & RESTART != 0 => {
                eprintln!("the CPUs have changed ({}): the scheduler begins again", ended.reason);
                trace.is_over = false;
            }
            Some(Ending { reason, message, .. }) => {
                trace.finish()?;
                return Err(Error::Ended { reason, message });
            }
        }
    }
}

struct Session {
    loaded: Loaded,
    power: Power,
    cpus: usize,
    traces: bool,
    /// They count as long as they are open.
    _counters: Vec<perf_event::Counter>,
}

/// Why the kernel ended the scheduler; the layout of `struct ending` in `sched.bpf.c`.
#[derive(Debug, PartialEq, Eq)]
struct Ending {
    code: u64,
    reason: String,
    message: String,
}

impl Session {
    fn begin(args: &Args) -> Result<Self, Error> {
        let mut loaded = Loaded::load(Settings {
            quantum_ns: args.quantum * 1_000_000,
            bound_quanta: args.bound / args.quantum,
            policy: match args.policy {
                Policy::Published => 0,
                Policy::Relative => 1,
                Policy::Bounded => 2,
            },
            counts: args.operations != Operations::Given,
            traces: args.trace.is_some(),
        })?;
        let counters = args.operations.count(&loaded)?;
        let mut power = Power::of(args.watts);
        if let Some(milliwatts) = power.milliwatts(now()) {
            loaded.set("power", 0, &milliwatts.to_ne_bytes())?;
        }
        loaded.attach()?;
        eprintln!(
            "the scheduler is loaded: {:?}, operations {}, power {}",
            args.policy,
            args.operations.words(),
            power.words()
        );
        let cpus = libbpf_rs::num_possible_cpus().map_err(kernel::refused("count the CPUs"))?;
        Ok(Self { loaded, power, cpus, traces: args.trace.is_some(), _counters: counters })
    }

    /// Until a signal comes (`None`), or the kernel ends it.
    fn run(&mut self, stop: &OwnedFd, trace: &mut Trace) -> Result<Option<Ending>, Error> {
        let trace = RefCell::new(trace);
        let take = |event: &[u8]| {
            trace.borrow_mut().take(event);
            0
        };
        let failed = kernel::refused("read the scheduler's events");
        let ring = {
            let events = self.loaded.map("events");
            let mut builder = RingBufferBuilder::new();
            builder.add(&events, take).map_err(&failed)?;
            builder.build().map_err(&failed)?
        };
        loop {
            let is_stopped = self.wait(stop)?;
            if is_stopped {
                self.loaded.detach();
            }
            ring.consume().map_err(&failed)?;
            if is_stopped {
                return Ok(None);
            }
            if trace.borrow().is_over {
                return Ok(Some(Ending::of(&self.loaded.element("ending", 0)?)));
            }
            if let Some(milliwatts) = self.power.milliwatts(now()) {
                self.loaded.set("power", 0, &milliwatts.to_ne_bytes())?;
            }
        }
    }

    /// Until there are events, the time is over, or a signal comes (`true`).
    fn wait(&self, stop: &OwnedFd) -> Result<bool, Error> {
        let time = if self.traces { Some(power::INTERVAL) } else { self.power.interval() };
        let time = time.map(|it| Timespec { tv_sec: 0, tv_nsec: it.subsec_nanos().into() });
        let events = self.loaded.map("events");
        let mut files = [
            PollFd::new(stop, PollFlags::IN),
            PollFd::from_borrowed_fd(events.as_fd(), PollFlags::IN),
        ];
        match poll(&mut files, time.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(files[0].revents().contains(PollFlags::IN)),
            Err(error) => Err(Error::System { what: "wait", source: error.into() }),
        }
    }
}

impl Ending {
    fn of(bytes: &[u8]) -> Self {
        let text = |from: usize, most: usize| {
            let bytes = bytes.get(from..from + most).unwrap_or_default();
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        };
        Self { code: word(bytes, 0), reason: text(16, 128), message: text(144, 256) }
    }
}

/// This program uses no crate of nightwatt's, so it has no clock of theirs.
#[expect(clippy::disallowed_methods, reason = "its licence keeps it apart from `nightwatt_clock`")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_reason_is_read_from_where_it_is() {
        let mut bytes = vec![0; 16 + 128 + 256];
        bytes[..8].copy_from_slice(&RESTART.to_ne_bytes());
        bytes[16..22].copy_from_slice(b"reason");
        bytes[144..148].copy_from_slice(b"text");
        let (reason, message) = ("reason".to_owned(), "text".to_owned());
        assert_eq!(Ending::of(&bytes), Ending { code: RESTART, reason, message });
    }
}
