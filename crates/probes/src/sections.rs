//! The kernel's half of `caliper`: loaded, attached, read.

mod attach;
mod events;
mod maps;
mod runs;

use std::path::Path;
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, OpenObject, ProgramInput};
use nightwatt_energy::markers::Run;
use nightwatt_energy::sections::{Node, Tree, Usage};

use crate::body::Body;
use crate::error::ProbeError;
use crate::go::GoRuntime;
use crate::loaded::{Aligned, Loaded, ON_CPU, half_word, refused, word};
use crate::place::{InstructionKind, Location, ProbeSite};
use attach::Probe;

use runs::Runs;

pub use events::CallEvents;
pub use maps::Calls;

static PROGRAM: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/sections.bpf.o")));

/// The cookie's bit of a function (`IS_FUNCTION` in `bpf/sections.h`).
const IS_FUNCTION: u64 = 1 << 32;

/// And those of an end at an instruction, and of Go (`AT_RETURN`, `IN_GO`).
const AT_RETURN: u64 = 1 << 33;
const IN_GO: u64 = 1 << 34;

/// And of an instruction that the kernel single-steps (`STEPPED`).
const STEPPED: u64 = 1 << 35;

/// What costs something even where it is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extras {
    /// Each call that ends is told ([`SectionProbes::events`]) by way of a ring of so many bytes: a
    /// power of two, and a page at least.
    pub calls: Option<u32>,
    /// Go programs are watched ([`SectionProbes::attach_go`]): memory for goroutines that are off their
    /// threads, some 25 MB.
    pub go: bool,
    /// [`SectionProbes::runs`] tells when threads run.
    pub runs: bool,
    /// What single-stepping an instruction costs a thread: it is no section's time.
    pub step: Option<Duration>,
}

/// Whose threads are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watch {
    /// The processes that this one starts from now on, and theirs.
    Children,
    /// A process and those that it starts from now on.
    Process(u32),
    /// All.
    Everybody,
}

/// Probes in place. They are taken out when this is dropped, and by the kernel if we are killed.
pub struct SectionProbes {
    /// Before the programs that fill it.
    runs: Option<Runs>,
    loaded: Loaded,
    cpus: usize,
    go: Vec<GoRuntime>,
    multi: bool,
    together: Option<Vec<Probe>>,
}

/// The cookie's bit of an instruction that is single-stepped.
fn stepped(kind: InstructionKind) -> u64 {
    if kind == InstructionKind::Stepped { STEPPED } else { 0 }
}

impl SectionProbes {
    /// Sections at a time: what the kernel's half has room for.
    pub const MOST: usize = maps::SECTIONS as usize;

    /// Loads the programs. Nothing is counted before [`Self::start`].
    pub fn load(watch: Watch) -> Result<Self, ProbeError> {
        Self::load_with(watch, Extras::default())
    }

    /// The same, with what is not always wanted.
    pub fn load_with(watch: Watch, extras: Extras) -> Result<Self, ProbeError> {
        let prepare = |object: &mut OpenObject| {
            for mut map in object.maps_mut() {
                if map.name() == "goroutines" && !extras.go {
                    map.set_max_entries(1)?;
                }
            }
            if extras.runs {
                runs::prepare(object)?;
            }
            events::prepare(object, extras)
        };
        let (loaded, multi) = attach::load("sections", PROGRAM, prepare)?;
        let cpus = libbpf_rs::num_possible_cpus().map_err(refused("count its CPUs"))?;
        let runs = extras.runs.then(|| Runs::start(&loaded)).transpose()?;
        let probes = Self { runs, loaded, cpus, go: Vec::new(), multi, together: None };
        probes.watch(watch)?;
        Ok(probes)
    }

    /// When watched threads ran since the last time, up to the last call of [`Self::usage`] at least.
    pub fn runs(&self) -> Result<Vec<Run>, ProbeError> {
        self.runs.as_ref().map_or(Ok(Vec::new()), Runs::take)
    }

    /// Pieces of running time that were lost because the ring was full.
    pub fn lost_runs(&self) -> Result<u64, ProbeError> {
        runs::lost(&self.loaded)
    }

    fn watch(&self, watch: Watch) -> Result<(), ProbeError> {
        match watch {
            Watch::Children => self.set_watched(std::process::id(), 2),
            Watch::Process(pid) => self.set_watched(pid, 1),
            Watch::Everybody => self.set_watch_all(),
        }
    }

    /// Watches one more process, and those that it starts from now on.
    pub fn watch_process(&self, pid: u32) -> Result<(), ProbeError> {
        self.set_watched(pid, 1)
    }

    fn set_watched(&self, pid: u32, how: u8) -> Result<(), ProbeError> {
        let cannot = refused("take the process to watch");
        self.loaded.map("watched").update(&pid.to_ne_bytes(), &[how], MapFlags::ANY).map_err(cannot)
    }

    fn set_watch_all(&self) -> Result<(), ProbeError> {
        let bss = self.loaded.map("sections.bss");
        let zero = 0_u32.to_ne_bytes();
        let cannot = || refused("watch everybody");
        let mut value = bss.lookup(&zero, MapFlags::ANY).map_err(cannot())?.unwrap_or_default();
        value.iter_mut().take(4).for_each(|byte| *byte = 1);
        bss.update(&zero, &value, MapFlags::ANY).map_err(cannot())
    }

    /// Attaches all that `what` attaches at once, where the kernel can (since 6.6): each time that probes
    /// are taken out takes its time, not each of them.
    pub fn together(
        &mut self,
        what: impl FnOnce(&mut Self) -> Result<(), ProbeError>,
    ) -> Result<(), ProbeError> {
        self.together = Some(Vec::new());
        let done = what(self);
        let probes = self.together.take().unwrap_or_default();
        done?;
        self.loaded.attach_probes(&probes, self.multi)
    }

    /// Watches the scheduler. Sections attached before and after this count from here on.
    pub fn start(&mut self) -> Result<(), ProbeError> {
        self.loaded.attach(&["on_switch", "on_fork", "on_exec", "on_exit"], "watch the scheduler")
    }

    /// A function is section number `section`: from its entry to its return.
    pub fn attach_function(&mut self, section: u32, place: &ProbeSite) -> Result<(), ProbeError> {
        let cookie = u64::from(section) | IS_FUNCTION;
        // The return first: an entry without one would be counted as left by another way.
        self.attach("end", place, cookie, true)?;
        self.attach("begin", place, cookie | stepped(place.instruction), false)
    }

    /// Follows the goroutines of a Go program. Comes before what is attached to functions of it.
    pub fn attach_go(&mut self, runtime: GoRuntime) -> Result<(), ProbeError> {
        let GoRuntime { path, leaves, comes, ends, .. } = &runtime;
        for (program, offsets) in [("go_comes", comes), ("go_ends", ends), ("go_leaves", leaves)] {
            for &offset in offsets {
                self.attach_at(program, path, Location::at(offset), "Go's runtime", 0, false)?;
            }
        }
        self.go.push(runtime);
        Ok(())
    }

    /// A function is section number `section`: from its entry to the instructions at which it ends.
    pub fn attach_body(
        &mut self,
        section: u32,
        place: &ProbeSite,
        body: &Body,
    ) -> Result<(), ProbeError> {
        let cookie = self.cookie(section, place) | IS_FUNCTION | AT_RETURN;
        for &(end, kind) in &body.ends {
            let at = Location::at(end);
            self.attach_at("end", &place.path, at, &place.name, cookie | stepped(kind), false)?;
        }
        self.attach("begin", place, cookie | stepped(place.instruction), false)
    }

    /// Section number `section` begins at a place.
    pub fn attach_begin(&mut self, section: u32, place: &ProbeSite) -> Result<(), ProbeError> {
        let cookie = self.cookie(section, place) | stepped(place.instruction);
        self.attach("begin", place, cookie, false)
    }

    /// Section number `section` ends at a place.
    pub fn attach_end(&mut self, section: u32, place: &ProbeSite) -> Result<(), ProbeError> {
        let cookie = self.cookie(section, place) | stepped(place.instruction);
        self.attach("end", place, cookie, false)
    }

    fn cookie(&self, section: u32, place: &ProbeSite) -> u64 {
        let is_go =
            self.go.iter().any(|go| go.path == place.path && go.text.contains(&place.offset));
        u64::from(section) | if is_go { IN_GO } else { 0 }
    }

    fn attach(
        &mut self,
        program: &'static str,
        place: &ProbeSite,
        cookie: u64,
        retprobe: bool,
    ) -> Result<(), ProbeError> {
        for location in place.locations() {
            self.attach_at(program, &place.path, location, &place.name, cookie, retprobe)?;
        }
        Ok(())
    }

    fn attach_at(
        &mut self,
        program: &'static str,
        path: &Path,
        location: Location,
        name: &str,
        cookie: u64,
        retprobe: bool,
    ) -> Result<(), ProbeError> {
        let probe = Probe {
            program,
            path: path.to_owned(),
            location,
            name: name.to_owned(),
            cookie,
            retprobe,
        };
        if let Some(probes) = &mut self.together {
            probes.push(probe);
            return Ok(());
        }
        self.loaded.attach_probes(&[probe], self.multi)
    }

    /// CPU time so far, up to this moment on every CPU.
    pub fn usage(&mut self) -> Result<Usage, ProbeError> {
        self.flush()?;
        let cpus = self.per_cpu("cpus", 0)?;
        let mut usage = Usage::default();
        for cpu in cpus.iter().map(|value| maps::Cpu::of(value)) {
            usage.busy += Duration::from_nanos(cpu.busy);
            usage.idle += Duration::from_nanos(cpu.idle);
            usage.stolen += Duration::from_nanos(cpu.stolen);
        }
        for node in 0..self.nodes()? {
            let ns = self.per_cpu("node_time", node)?.iter().map(|value| word(value, 0)).sum();
            usage.nodes.push(Duration::from_nanos(ns));
        }
        Ok(usage)
    }

    /// Runs on each CPU what brings its sums up to the present.
    fn flush(&mut self) -> Result<(), ProbeError> {
        let cpus = self.cpus as u32;
        let program = self.loaded.program("flush");
        for cpu in 0..cpus {
            let input = ProgramInput { cpu, flags: ON_CPU, ..ProgramInput::default() };
            // A CPU that is offline has nothing to add.
            if let Err(error) = program.test_run(input)
                && cpu == 0
            {
                return Err(refused("bring its sums up to date")(error));
            }
        }
        Ok(())
    }

    /// Were there more stacks of sections than there is room for? What ran in those beyond counts as
    /// outside of all sections.
    pub fn is_full(&self) -> Result<bool, ProbeError> {
        Ok(self.wanted_nodes()? > maps::NODES)
    }

    fn nodes(&self) -> Result<u32, ProbeError> {
        Ok(self.wanted_nodes()?.clamp(1, maps::NODES))
    }

    fn wanted_nodes(&self) -> Result<u32, ProbeError> {
        let value = self
            .loaded
            .map("sections.data")
            .lookup(&0_u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(refused("tell its sums"))?;
        Ok(value.map_or(1, |value| half_word(&value, 0)))
    }

    /// Which stacks of sections occurred.
    pub fn tree(&self) -> Result<Tree, ProbeError> {
        let map = self.loaded.map("tree");
        let mut tree = Tree::default();
        for key in map.keys() {
            let number = map.lookup(&key, MapFlags::ANY).map_err(refused("tell its stacks"))?;
            let Some(number) = number else { continue };
            let key = word(&key, 0);
            let node = Node { parent: (key >> 32) as usize, section: key as u32 as usize };
            tree.insert(half_word(&number, 0) as usize, node);
        }
        Ok(tree)
    }

    /// Calls of a section so far.
    pub fn calls(&self, section: u32) -> Result<Calls, ProbeError> {
        let values = self.per_cpu("sections", section)?;
        Ok(values.iter().fold(Calls::default(), |sum, value| sum.and(&Calls::of(value))))
    }

    /// Reads calls as they end. To be asked for once, and of probes that were loaded with events.
    pub fn events(&self) -> Result<CallEvents, ProbeError> {
        CallEvents::of(self)
    }

    /// Calls that have ended and were not told, since the ring was full.
    pub fn events_lost(&self) -> Result<u64, ProbeError> {
        let cpus = self.per_cpu("cpus", 0)?;
        Ok(cpus.iter().map(|value| maps::Cpu::of(value).lost).sum())
    }

    fn per_cpu(&self, map: &str, key: u32) -> Result<Vec<Vec<u8>>, ProbeError> {
        let values = self.loaded.map(map).lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY);
        Ok(values.map_err(refused("tell its sums"))?.unwrap_or_default())
    }
}
