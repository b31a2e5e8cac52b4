//! `nightwatt caliper`: the energy of sections of a program's code.
//!
//! ```text
//! idle baseline ─► probes in ─► command ──────────────────────► probes read ─► report
//!                               every reading of a meter:
//!                               CPU time by section since the last one, and its joules
//! ```
//!
//! Probes sum up CPU time by stack of sections in the kernel; each time a meter says something the
//! sums are read, and `energy::sections` shares out what it saw.

mod energies;
mod events;
mod folded;
mod live;
mod namespaces;
mod processes;
pub(crate) mod result;
mod returns;
pub mod sampled;
pub(crate) mod target;
mod text;
mod watcher;

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_energy::integration::Piece;
use nightwatt_energy::sections::Usage;
use nightwatt_energy::time::Mono;
use nightwatt_meters::sampler::{Measured, Opened, Sample, Sampler, Sink};
use nightwatt_meters::{Host, MeterSpec};
use nightwatt_probes::{
    Body, Extras, GoRuntime, InstructionKind, Point, ProbeSite, SectionProbes, function_entries,
    step_cost,
};

use crate::error::Error;
use energies::Energies;
use events::Prepared;
use live::{Live, LiveSnapshot};
use nightwatt_measure::run::child::{self, Finished};
use nightwatt_measure::run::{Idle, Running, measure_idle};
use watcher::Watcher;

pub use events::EventsReport;
pub use folded::StackReport;
pub use live::{LiveChannel, LiveReport, LiveSection};
pub use nightwatt_probes::ProbeError as PlaceError;
pub use result::{CaliperReport, ChannelTotal, Preempted, SectionEnergy, SectionReport};
pub use returns::Returns;
pub use target::Target;

/// How often is looked whether a process that is not ours is still there.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What a section is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SectionSpec {
    /// All functions that fit, each from its entry to its return.
    Function(Point),
    /// From one place to another.
    Between(Point, Point),
}

/// What is to be measured, and how.
#[derive(Debug, Clone)]
pub struct CaliperOptions {
    /// The sections that are probed.
    pub sections: Vec<SectionSpec>,
    /// How it is seen that functions return.
    pub returns: Returns,
    /// Measure the sections that programs mark themselves, instead.
    pub markers: bool,
    /// What is measured.
    pub target: Target,
    /// Stop after this time.
    pub time: Option<Duration>,
    /// For how long the idle machine is measured first.
    pub idle: Option<Duration>,
    /// The meters to use.
    pub meters: Vec<MeterSpec>,
    /// Time between two readings.
    pub interval: Option<Duration>,
    /// Write down each call, into a Parquet file that must not be there yet.
    pub events: Option<PathBuf>,
    /// Tell each second what the sections do ([`Step::Live`]).
    pub live: bool,
}

/// A section that is watched.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    name: String,
    begin: ProbeSite,
    /// None of a function.
    end: Option<ProbeSite>,
    /// The instructions at which a function ends; none where a return probe tells.
    body: Option<Body>,
}

impl Section {
    /// One that programs mark themselves: it is at no place of a file.
    fn marked(name: &str) -> Self {
        let instruction = nightwatt_probes::InstructionKind::Nop;
        let (path, name) = (PathBuf::new(), name.to_owned());
        let begin = ProbeSite {
            path,
            offset: 0,
            semaphore: None,
            also: Vec::new(),
            name: name.clone(),
            instruction,
            may_unwind: false,
            may_switch_stacks: false,
        };
        Self { name, begin, end: None, body: None }
    }

    fn is_marked(&self) -> bool {
        self.begin.path.as_os_str().is_empty()
    }

    /// Does the kernel single-step an instruction behind one of its probes?
    fn is_stepped(&self) -> bool {
        let stepped = |place: &ProbeSite| place.instruction == InstructionKind::Stepped;
        stepped(&self.begin)
            || self.end.as_ref().is_some_and(stepped)
            || self.body.as_ref().is_some_and(Body::is_stepped)
    }
}

/// What came of the target.
pub(crate) struct TargetRun {
    pub(crate) begin: Mono,
    pub(crate) end: Mono,
    pub(crate) finished: Option<Finished>,
}

/// Events that the threads send to the one that does the accounting.
pub(crate) enum Event {
    /// A meter said something.
    Sample { meter: usize, channel: usize, at: Mono, piece: Piece },
    /// The command ended.
    Ended(Result<Finished, nightwatt_measure::Error>),
}

/// What is told before it is done, and while it runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Return probes go into a program that they may abort.
    MayAbort {
        /// The program or library.
        file: PathBuf,
        /// It knows exceptions or panics, which unwind its stack.
        by_unwinding: bool,
        /// It knows how to give code another stack.
        by_switching: bool,
    },
    /// The idle machine is measured for this time.
    Idle(Duration),
    /// What the sections do.
    Live(LiveReport),
}

/// Measures. `step` is told what comes next.
pub fn run(
    options: &CaliperOptions,
    running: &Running,
    mut step: impl FnMut(Step),
) -> Result<CaliperReport, Error> {
    let mut sections = sections(&options.sections)?;
    let go = returns::runtimes(&sections)?;
    returns::find(&mut sections, options.returns, &go)?;
    may_abort(&sections).into_iter().for_each(&mut step);
    let watch = options.target.watch()?;
    let is_stepped = sections.iter().any(Section::is_stepped);
    let stepping = if is_stepped { step_cost()? } else { None };
    let extras = Extras {
        calls: options.events.as_ref().map(|_| events::RING),
        go: !go.is_empty(),
        runs: options.markers,
        step: stepping.map(|stepping| stepping.each),
    };
    let mut watcher = Watcher::new(watch, extras, &options.target.running())?;
    let host = Host::default();
    let open = |spec: &MeterSpec| Opened::open(&host, spec);
    let mut meters = options.meters.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let prepare = |path: &PathBuf| Prepared::create(path, options, &sections, &meters);
    let calls = options.events.as_ref().map(prepare).transpose()?;
    let mut idle = None;
    if let Some(time) = options.idle {
        step(Step::Idle(time));
        idle = Some(measure_idle(&mut meters, time, options.interval, running)?);
        running.go_on()?;
    }
    let powers = idle.as_ref().map(|idle| &*idle.powers);
    let energies = Energies::new(&meters, powers);
    let start_calls = |calls: Prepared| calls.start(&watcher.probes, &sections, energies.rates());
    let calls = calls.map(start_calls).transpose()?;
    attach(&mut watcher.probes, &sections, go, &options.target)?;
    let main = main_channel(&meters);
    let (sender, events) = channel();
    let sampler = start(meters, options.interval, &sender)?;
    let mut state = RunState { watcher, energies, live: None, main };
    if options.live {
        state.live = Some(state.live(&sections));
    }
    let target_run = follow(options, running, &mut state, &mut step, &sampler, sender, &events)?;
    let RunState { mut watcher, mut energies, .. } = state;
    let (usage, at) = (watcher.usage()?, monotonic());
    watcher.finish();
    sections.extend(watcher.marked());
    let (measured, _) = sampler.finish(target_run.end);
    for event in events.try_iter() {
        energies.event(&event, &usage, at);
    }
    let calls = calls.map(|calls| calls.finish(&watcher.probes)).transpose()?;
    let used = usage.since(energies.begun());
    let seen = observations(&sections, &watcher, &energies, used, &measured, &target_run, calls)?;
    let mut report = CaliperReport::of(options, &result::Observations { stepping, ..seen });
    report.warnings.extend(idle.as_ref().and_then(Idle::warning));
    Ok(report)
}

/// What is kept while the target runs.
struct RunState {
    watcher: Watcher,
    energies: Energies,
    live: Option<Live>,
    /// The channel that tables show: its number, meter and name.
    main: Option<LiveChannel>,
}

/// Of the whole machine, if there is one.
fn main_channel(meters: &[Opened]) -> Option<LiveChannel> {
    let channels = || {
        meters.iter().flat_map(|meter| meter.channels().iter().map(move |channel| (meter, channel)))
    };
    let place = channels().position(|(_, channel)| channel.scope.is_whole()).unwrap_or(0);
    channels().nth(place).map(|(meter, channel)| LiveChannel {
        place,
        name: format!("{}/{}", meter.name(), channel.name),
        accuracy: channel.accuracy,
    })
}

impl RunState {
    fn live(&self, sections: &[Section]) -> Live {
        let names = sections.iter().map(|section| section.name.clone()).collect();
        Live::new(names, self.main.clone(), monotonic())
    }

    /// What the sections do, if that is to be told now.
    fn look(&mut self) -> Result<Option<LiveReport>, Error> {
        let Some(live) = self.live.as_mut().filter(|live| live.due() <= monotonic()) else {
            return Ok(None);
        };
        let usage = self.watcher.usage()?.since(self.energies.begun());
        let calls = (0..live.sections() as u32).map(|number| Ok(self.watcher.calls(number)?.0));
        let calls = calls.collect::<Result<Vec<_>, Error>>()?;
        let tree = self.watcher.tree()?;
        let main = self.main.as_ref().and_then(|it| self.energies.channels().nth(it.place));
        let joules = main.map_or(&[][..], |(.., channel)| channel.shares.nodes());
        let covered = main.map_or(Duration::ZERO, |(.., channel)| channel.covered);
        let told = main.map(|(.., channel)| channel.last.since(self.energies.begun()));
        let told = told.unwrap_or_default();
        let now = monotonic();
        let look =
            LiveSnapshot { now, calls, tree: &tree, usage: &usage, told: &told, joules, covered };
        Ok(Some(live.report(&look)))
    }
}

/// Files with functions that are watched from entry to return, and whose stacks may be unwound or
/// switched.
fn may_abort(sections: &[Section]) -> Vec<Step> {
    let by_probe = sections.iter().filter(|section| section.has_return_probe());
    let mut places: Vec<&ProbeSite> = by_probe
        .map(|section| &section.begin)
        .filter(|place| place.may_unwind || place.may_switch_stacks)
        .collect();
    places.sort_by_key(|place| &place.path);
    places.dedup_by_key(|place| &place.path);
    let step = |place: &ProbeSite| Step::MayAbort {
        file: place.path.clone(),
        by_unwinding: place.may_unwind,
        by_switching: place.may_switch_stacks,
    };
    places.into_iter().map(step).collect()
}

/// Places of all sections; a pattern may stand for several.
fn sections(specs: &[SectionSpec]) -> Result<Vec<Section>, Error> {
    let mut sections = Vec::new();
    for spec in specs {
        match spec {
            SectionSpec::Function(point) => {
                if point.usdt().is_some() {
                    return Err(Error::NoFunction(point.symbol.clone()));
                }
                if !point.symbol.is_empty() && point.offset > 0 {
                    return Err(Error::NoEntry(point.symbol.clone()));
                }
                let function = |begin: ProbeSite| Section {
                    name: begin.name.clone(),
                    begin,
                    end: None,
                    body: None,
                };
                sections.extend(function_entries(point)?.into_iter().map(function));
            }
            SectionSpec::Between(start, end) => {
                let (begin, end) = (single(start)?, single(end)?);
                let name = format!("{}..{}", begin.name, end.name);
                sections.push(Section { name, begin, end: Some(end), body: None });
            }
        }
    }
    one_path_for_each_file(&mut sections);
    // Two patterns may fit one function; one probe there is enough.
    let mut seen = Vec::new();
    sections.retain(|section: &Section| {
        let ends = section.end.as_ref().map(|end| (end.path.clone(), end.offset));
        let place = (section.begin.path.clone(), section.begin.offset, ends);
        let is_new = !seen.contains(&place);
        seen.push(place);
        is_new
    });
    if sections.len() > SectionProbes::MOST {
        return Err(Error::TooManySections { found: sections.len(), most: SectionProbes::MOST });
    }
    Ok(sections)
}

/// A file may be named in several ways, and by links. The first is the one that is told.
fn one_path_for_each_file(sections: &mut [Section]) {
    let mut known: Vec<((u64, u64), PathBuf)> = Vec::new();
    for section in sections {
        for place in std::iter::once(&mut section.begin).chain(&mut section.end) {
            let Ok(file) = place.path.metadata() else { continue };
            let file = (file.dev(), file.ino());
            match known.iter().find(|(other, _)| *other == file) {
                Some((_, path)) => place.path.clone_from(path),
                None => known.push((file, place.path.clone())),
            }
        }
    }
}

fn single(point: &Point) -> Result<ProbeSite, Error> {
    let mut places = function_entries(point)?;
    if places.len() > 1 {
        return Err(Error::SeveralPlaces {
            text: point.symbol.clone(),
            names: places.into_iter().take(3).map(|place| place.name).collect(),
        });
    }
    places
        .pop()
        .ok_or_else(|| Error::SeveralPlaces { text: point.symbol.clone(), names: Vec::new() })
}

fn attach(
    probes: &mut SectionProbes,
    sections: &[Section],
    go: Vec<GoRuntime>,
    target: &Target,
) -> Result<(), Error> {
    probes.start()?;
    // What these start is watched by now: none is missed in between.
    for pid in target.running() {
        probes.watch_process(pid)?;
    }
    let all = |probes: &mut SectionProbes| {
        for runtime in go {
            probes.attach_go(runtime)?;
        }
        for (number, section) in (0..).zip(sections) {
            match (&section.end, &section.body) {
                (None, None) => probes.attach_function(number, &section.begin)?,
                (None, Some(body)) => probes.attach_body(number, &section.begin, body)?,
                (Some(end), _) => {
                    probes.attach_end(number, end)?;
                    probes.attach_begin(number, &section.begin)?;
                }
            }
        }
        Ok(())
    };
    Ok(probes.together(all)?)
}

/// Sends on what a meter says.
struct SampleSender {
    meter: usize,
    events: Sender<Event>,
}

impl Sink for SampleSender {
    fn take(&mut self, sample: &Sample) {
        let Sample { channel, piece, mono: at, .. } = *sample;
        // A closed channel means that the figures are complete.
        let _ = self.events.send(Event::Sample { meter: self.meter, channel, at, piece });
    }
}

pub(crate) fn start(
    meters: Vec<Opened>,
    interval: Option<Duration>,
    events: &Sender<Event>,
) -> Result<Sampler, Error> {
    let mut meter = 0;
    let teller = |_: &Opened| -> Box<dyn Sink> {
        meter += 1;
        Box::new(SampleSender { meter: meter - 1, events: events.clone() })
    };
    Sampler::start(meters, interval, teller)
        .map_err(|source| Error::System { what: "start the meters' threads", source })
}

/// Runs the target to its end and does the accounting meanwhile.
fn follow(
    options: &CaliperOptions,
    running: &Running,
    state: &mut RunState,
    step: &mut impl FnMut(Step),
    sampler: &Sampler,
    sender: Sender<Event>,
    events: &Receiver<Event>,
) -> Result<TargetRun, Error> {
    let begin = monotonic();
    sampler.begin(begin);
    state.energies.begin(state.watcher.usage()?, monotonic());
    let environment = state.watcher.environment();
    thread::scope(|scope| {
        if let Target::Command(command) = &options.target {
            scope.spawn(move || {
                let ended = child::run_with(command, &environment, running, |_| ());
                let _ = sender.send(Event::Ended(ended));
            });
        }
        let deadline = options.time.map(|time| begin + time);
        let mut taken = Usage::default();
        let mut taken_at = Mono::ZERO;
        loop {
            let timeout = state.watcher.timeout();
            let due = state.live.as_ref().map_or(timeout, |live| live.due().since(monotonic()));
            match events.recv_timeout(due.min(timeout)) {
                Ok(Event::Ended(finished)) => {
                    let finished = finished?;
                    return Ok(TargetRun { begin, end: finished.end, finished: Some(finished) });
                }
                Ok(event) => {
                    // Channels of one meter speak at once.
                    if monotonic().since(taken_at) > Duration::from_micros(500) {
                        taken = state.watcher.usage()?;
                        taken_at = monotonic();
                    }
                    state.energies.event(&event, &taken, taken_at);
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    state.watcher.look()?;
                }
            }
            if let Some(report) = state.look()? {
                step(Step::Live(report));
            }
            let is_over = deadline.is_some_and(|deadline| monotonic() >= deadline);
            if matches!(options.target, Target::Command(_)) {
                if is_over {
                    running.interrupt(Some(rustix::process::Signal::TERM));
                }
            } else if is_over || running.is_interrupted() || options.target.is_gone() {
                return Ok(TargetRun { begin, end: monotonic(), finished: None });
            }
        }
    })
}

/// Is it a process (no thread of one), and not over?
pub(crate) fn is_there(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let is_process = field("Tgid").is_some_and(|tgid| tgid.trim() == pid.to_string());
    is_process && field("State").is_some_and(|state| !state.trim().starts_with(['Z', 'X']))
}

/// What was seen until the end.
fn observations<'a>(
    sections: &'a [Section],
    watcher: &Watcher,
    energies: &'a Energies,
    used: Usage,
    measured: &'a [Measured],
    target_run: &'a TargetRun,
    events: Option<EventsReport>,
) -> Result<result::Observations<'a>, Error> {
    let (tree, is_full) = (watcher.tree()?, watcher.is_full()?);
    let calls = (0..sections.len() as u32).map(|number| watcher.calls(number));
    let (calls, lost) = calls.collect::<Result<(Vec<_>, Vec<_>), _>>()?;
    let warnings = watcher.warnings()?;
    Ok(result::Observations {
        sections,
        calls,
        lost,
        tree,
        is_full,
        used,
        energies,
        measured,
        target_run,
        events,
        warnings,
        stepping: None,
    })
}
