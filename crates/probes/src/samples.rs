//! What runs on each CPU, asked at fixed times: a profile by the kernel's CPU clock.
//!
//! The kernel's profiler alone does it (`perf_event_open(2)`), without eBPF: one stream has
//! samples, processes and the files that they map, so that we know the functions even of processes
//! that ended long ago.

mod everything;
mod kernel;
mod perf_map;
mod programs;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_energy::samples::{
    ANONYMOUS, Frame, MappedFile, Mapping, Processes, Record, SampleOutcome, is_generated,
};
use nightwatt_energy::time::Mono;
use perf_event::events::Software;
use perf_event::{Builder, Clock, SampleFlag, Sampler};

use crate::error::ProbeError;
use crate::sections::Watch;
use crate::symbolize::Symbols;
use kernel::KernelSymbols;
use perf_map::PerfMap;
use programs::Programs;

pub use everything::CpuSample;
pub use programs::Program;

/// Room for records of one CPU between two times at which they are read. A sample takes 100 bytes, and
/// 1,100 at most; one with the kernel's stack some 300.
const RING: usize = 1 << 20;

/// With less it does not begin. Without `CAP_IPC_LOCK`, what all CPUs may take is
/// `kernel.perf_event_mlock_kb` for each and `ulimit -l` for all together.
const LEAST_RING: usize = 1 << 16;

/// How often the rings are emptied.
const DRAIN_EVERY: Duration = Duration::from_millis(50);

/// A function that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name, or `[file]` if it is unknown.
    pub name: String,
    /// The file it is in.
    pub file: PathBuf,
    /// Where it begins; none where that is not known.
    pub begins: Option<Begin>,
}

/// Where a function begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begin {
    /// The device of its file.
    pub device: u64,
    /// The file's number there.
    pub inode: u64,
    /// From the beginning of the file.
    pub offset: u64,
}

/// What a sample saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sample {
    /// An idle CPU.
    Idle,
    /// A process that is not watched.
    Other,
    /// A watched process in these functions, the outermost first, by their numbers in
    /// [`Samples::functions`].
    Watched(Vec<usize>),
}

/// Samples of every CPU, until this is dropped.
pub struct Samples {
    rings: Arc<Mutex<Rings>>,
    cpus: usize,
    /// Ends the thread that empties the rings.
    stop: Stop,
    period: Duration,
    processes: Processes,
    programs: Programs,
    kernel: KernelSymbols,
    files: Vec<Option<LoadedFile>>,
    functions: Vec<Function>,
    numbers: HashMap<(usize, Option<usize>), usize>,
    /// Places in code that was made as a program ran.
    generated: Vec<Generated>,
    of_kernel: HashMap<usize, usize>,
    lost: u64,
    throttled: u64,
}

/// What the kernel writes to. A thread of its own empties them: the reader of samples may be busy
/// for seconds with the names of a large program.
struct Rings {
    of_cpus: Vec<Sampler>,
    /// Records that were read and may have to wait for those of other CPUs.
    waiting: Vec<(u64, Record)>,
}

/// Bytes of code that are one place, where functions are not known yet: they begin at multiples of this.
const PART: u64 = 32;

/// A place in code that was made as a program ran.
struct Generated {
    /// Of the function.
    number: usize,
    pid: u32,
    address: u64,
}

/// A file and its functions.
struct LoadedFile {
    path: PathBuf,
    identity: (u64, u64),
    symbols: Symbols,
}

impl Samples {
    /// Opens a sampler of `hz` samples a second, with the stacks of watched processes. Nothing is
    /// counted before [`Self::start`].
    pub fn open(hz: u32) -> Result<Self, ProbeError> {
        Self::with(hz, false)
    }

    /// Opens a sampler that records the kernel's stacks too, whatever process runs. It needs root,
    /// `CAP_PERFMON` or `kernel.perf_event_paranoid` below 0, and for names `kernel.kptr_restrict` below 2.
    pub fn open_everything(hz: u32) -> Result<Self, ProbeError> {
        Self::with(hz, true)
    }

    fn with(hz: u32, is_everything: bool) -> Result<Self, ProbeError> {
        let period = Duration::from_nanos(1_000_000_000 / u64::from(hz.max(1)));
        let cpus = online_cpus();
        let of_cpus = with_less_room(|room| {
            cpus.iter()
                .map(|cpu| ring(*cpu, period, room, is_everything))
                .collect::<Result<Vec<Sampler>, _>>()
        })?;
        Ok(Self {
            rings: Arc::new(Mutex::new(Rings { of_cpus, waiting: Vec::new() })),
            cpus: cpus.len(),
            stop: Stop::new().map_err(ProbeError::NoSamples)?,
            period,
            processes: Processes::default(),
            programs: Programs::default(),
            kernel: KernelSymbols::read(),
            files: Vec::new(),
            functions: Vec::new(),
            numbers: HashMap::new(),
            generated: Vec::new(),
            of_kernel: HashMap::new(),
            lost: 0,
            throttled: 0,
        })
    }

    /// Begins to sample these processes. (`Watch::Everybody` begins with none: the sampler knows
    /// only processes that it has seen starting.)
    pub fn start(&mut self, watch: Watch) -> Result<(), ProbeError> {
        for ring in &mut locked(&self.rings).of_cpus {
            ring.as_counter_mut().enable().map_err(ProbeError::NoSamples)?;
        }
        let (rings, stop) = (Arc::clone(&self.rings), self.stop.clone());
        let drain = move || {
            while stop.wait_until(monotonic() + DRAIN_EVERY) == Woken::TimedOut {
                locked(&rings).drain();
            }
        };
        let thread = thread::Builder::new().name("samples".to_owned());
        thread.spawn(drain).map_err(ProbeError::NoSamples)?;
        match watch {
            Watch::Children => self.processes.watch_children_of(std::process::id()),
            Watch::Process(pid) => self.watch(pid),
            Watch::Everybody => {}
        }
        Ok(())
    }

    /// One more process is watched, and what it starts from now on.
    pub fn watch(&mut self, pid: u32) {
        self.processes.watch(pid, threads(pid), mapped(pid));
    }

    /// All processes are watched that run now, and what they start.
    pub fn watch_everything(&mut self) {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.for_each(|pid| self.watch(pid));
    }

    /// Reads what watched processes have mapped by now: a program of a hundred megabytes takes CPU time that
    /// is not to be in what is measured.
    pub fn read_mapped(&mut self) {
        self.load_files(self.processes.files().len());
    }

    /// The CPU time that each sample stands for.
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// CPUs that are looked at.
    pub const fn cpus(&self) -> usize {
        self.cpus
    }

    /// Functions that were seen.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// Records for which there was no room.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// How often the kernel found that samples took too long, and left some out.
    pub const fn throttled(&self) -> u64 {
        self.throttled
    }

    /// All samples since the last time, in their order.
    pub fn read(&mut self) -> Vec<(Mono, Sample)> {
        // A record of one CPU may be older than what was read of another before: those that are newer
        // than this wait until the next time.
        let now = monotonic().0.as_nanos() as u64;
        let ready = locked(&self.rings).take(now);
        ready.into_iter().filter_map(|(time, record)| self.take(time, record)).collect()
    }

    fn take(&mut self, time: u64, record: Record) -> Option<(Mono, Sample)> {
        let sample = match self.processes.take(record) {
            SampleOutcome::Idle => Sample::Idle,
            SampleOutcome::Other => Sample::Other,
            SampleOutcome::Watched(frames) => {
                Sample::Watched(frames.into_iter().map(|frame| self.function(frame)).collect())
            }
            SampleOutcome::Lost(count) => {
                self.lost += count;
                return None;
            }
            SampleOutcome::Throttled => {
                self.throttled += 1;
                return None;
            }
            SampleOutcome::Nothing => return None,
        };
        Some((Mono(Duration::from_nanos(time)), sample))
    }

    /// Reads the first files that watched processes have mapped, so many of them.
    fn load_files(&mut self, count: usize) {
        while self.files.len() < count {
            let loaded = self.processes.files().get(self.files.len()).and_then(LoadedFile::load);
            self.files.push(loaded);
        }
    }

    /// The number of the function that a place is in.
    fn function(&mut self, frame: Frame) -> usize {
        let (file, offset) = match frame {
            Frame::Kernel(address) => return self.kernel_function(address),
            Frame::File { file, offset } => (file, offset),
        };
        if is_generated(&self.processes.files()[file].name) {
            return self.generated(file, offset);
        }
        self.load_files(file + 1);
        let loaded = self.files[file].as_ref();
        let symbol = loaded.and_then(|file| file.symbols.at(offset));
        let next = self.functions.len();
        let number = *self.numbers.entry((file, symbol)).or_insert(next);
        if number == next {
            let mapped = &self.processes.files()[file].name;
            let path = loaded.map_or_else(|| PathBuf::from(mapped), |file| file.path.clone());
            let named = symbol.zip(loaded).map(|(symbol, file)| {
                let (name, offset) = file.symbols.function(symbol);
                let (device, inode) = file.identity;
                (name, Begin { device, inode, offset })
            });
            let (name, begins) = named
                .map_or_else(|| (unnamed(mapped), None), |(name, begins)| (name, Some(begins)));
            self.functions.push(Function { name, file: path, begins });
        }
        number
    }

    /// The number of a place in code that was made as a program ran: it has a name when the program has written it.
    fn generated(&mut self, file: usize, address: u64) -> usize {
        let next = self.functions.len();
        let part = usize::try_from(address / PART).ok();
        let number = *self.numbers.entry((file, part)).or_insert(next);
        if number == next {
            let pid = u32::try_from(self.processes.files()[file].inode).unwrap_or(0);
            self.generated.push(Generated { number, pid, address });
            let (name, file) = (unnamed(ANONYMOUS), PathBuf::from(ANONYMOUS));
            self.functions.push(Function { name, file, begins: None });
        }
        number
    }

    /// Names functions that were made as programs ran, by what these have written by now. Was there any such code?
    /// Several functions of one name and file may be the same one.
    pub fn name_generated(&mut self) -> bool {
        let mut maps: HashMap<u32, Option<(PathBuf, PerfMap)>> = HashMap::new();
        for Generated { number, pid, address } in &self.generated {
            let map = maps.entry(*pid).or_insert_with(|| PerfMap::of(*pid));
            let named = map.as_ref().and_then(|(file, map)| Some((file, map.at(*address)?)));
            if let Some((file, name)) = named {
                let function = &mut self.functions[*number];
                name.clone_into(&mut function.name);
                function.file.clone_from(file);
            }
        }
        !self.generated.is_empty()
    }

    fn kernel_function(&mut self, address: u64) -> usize {
        let (symbol, next) = (self.kernel.at(address), self.functions.len());
        let number = *self.of_kernel.entry(symbol).or_insert(next);
        if number == next {
            let name = self.kernel.name(symbol).to_owned();
            self.functions.push(Function { name, file: PathBuf::from("[kernel]"), begins: None });
        }
        number
    }
}

impl Drop for Samples {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

impl Rings {
    fn drain(&mut self) {
        for ring in &mut self.of_cpus {
            while let Some(record) = ring.next_record() {
                let parsed = Record::parse(record.ty(), record.misc(), &record.to_contiguous());
                self.waiting.extend(parsed);
            }
        }
    }

    /// All records up to now, in their order.
    fn take(&mut self, now: u64) -> Vec<(u64, Record)> {
        self.drain();
        self.waiting.sort_by_key(|(time, _)| *time);
        let ready = self.waiting.partition_point(|(time, _)| *time <= now);
        self.waiting.drain(..ready).collect()
    }
}

/// No data is left half changed when a thread panics.
fn locked(rings: &Mutex<Rings>) -> MutexGuard<'_, Rings> {
    rings.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `[libc.so.6]`, `[vdso]`.
fn unnamed(mapped: &str) -> String {
    let file = mapped.rsplit('/').next().unwrap_or(mapped);
    if file.starts_with('[') { file.to_owned() } else { format!("[{file}]") }
}

impl LoadedFile {
    /// None of what is no file, is there no more, or cannot be read.
    fn load(mapped: &MappedFile) -> Option<Self> {
        let name = Path::new(&mapped.name);
        let in_its_root = || {
            let root = PathBuf::from(format!("/proc/{}/root", mapped.pid));
            Some(root.join(name.strip_prefix("/").ok()?))
        };
        // Another file may have taken its name; that of a container is to be found in its own root.
        let is_it = |path: &PathBuf| fs::metadata(path).is_ok_and(|it| it.ino() == mapped.inode);
        let path = Some(name.to_owned()).filter(|path| path.is_absolute() && is_it(path));
        let path = path.or_else(|| in_its_root().filter(is_it));
        // Deleted or replaced, it can be read as long as it runs.
        let path = path.or_else(|| as_it_runs(mapped.pid).find(is_it))?;
        let found = fs::metadata(&path).ok()?;
        let symbols = Symbols::read(&path).ok()?;
        Some(Self { path: name.to_owned(), identity: (found.dev(), found.ino()), symbols })
    }
}

/// All that a process runs and has mapped, whatever became of the names.
fn as_it_runs(pid: u32) -> impl Iterator<Item = PathBuf> {
    let mapped = fs::read_dir(format!("/proc/{pid}/map_files")).into_iter().flatten().flatten();
    std::iter::once(PathBuf::from(format!("/proc/{pid}/exe"))).chain(mapped.map(|it| it.path()))
}

/// Opens with half the room, and half of that, as long as the kernel does not give more.
fn with_less_room<T>(
    mut open: impl FnMut(usize) -> Result<T, ProbeError>,
) -> Result<T, ProbeError> {
    let mut room = RING;
    loop {
        match open(room) {
            Err(ProbeError::NoRoom(_)) if room > LEAST_RING => room /= 2,
            opened => return opened,
        }
    }
}

fn ring(
    cpu: usize,
    period: Duration,
    room: usize,
    is_everything: bool,
) -> Result<Sampler, ProbeError> {
    let mut builder = Builder::new(Software::CPU_CLOCK);
    builder
        .any_pid()
        .one_cpu(cpu)
        .include_kernel()
        .include_hv()
        .sample_period(period.as_nanos() as u64)
        .sample(SampleFlag::IP | SampleFlag::TID | SampleFlag::TIME | SampleFlag::CALLCHAIN)
        .exclude_callchain_kernel(!is_everything)
        .sample_id_all(true)
        .clockid(Clock::MONOTONIC)
        .mmap(true)
        .mmap2(true)
        .comm(true)
        .comm_exec(true)
        .task(true);
    let counter = builder.build().map_err(ProbeError::NoSamples)?;
    counter.sampled(room).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => ProbeError::NoRoom(error),
        _ => ProbeError::NoSamples(error),
    })
}

/// `0-3,6`; without a word from the kernel, the first.
fn online_cpus() -> Vec<usize> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
    };
    let cpus: Vec<usize> = text.trim().split(',').filter_map(range).flatten().collect();
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// The threads that a process has.
fn threads(pid: u32) -> Vec<u32> {
    let found = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let threads: Vec<u32> =
        found.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // Without a word from the kernel, the first.
    if threads.is_empty() { vec![pid] } else { threads }
}

/// What a process that runs already may run code from.
fn mapped(pid: u32) -> Vec<Mapping> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    text.lines().filter_map(mapping).collect()
}

/// `7f00-7f40 r-xp 00001000 fe:01 1234    /usr/bin/prog`
fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (begin, end) = fields.next()?.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (address, rights) = (hex(begin)?, fields.next()?);
    let offset = hex(fields.next()?)?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let inode = fields.next()?.parse().ok()?;
    let name = fields.next().map_or("//anon", str::trim);
    let name = if name.is_empty() { "//anon" } else { name }.to_owned();
    let device = (hex(major)? as u32, hex(minor)? as u32);
    let length = hex(end)?.checked_sub(address)?;
    rights.contains('x').then_some(Mapping { address, length, offset, device, inode, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_memory_may_not_be_locked_there_is_less_room() {
        let refused = || ProbeError::NoRoom(io::ErrorKind::PermissionDenied.into());
        let mut tried = Vec::new();
        let opened = with_less_room(|room| {
            tried.push(room);
            if room <= 1 << 18 { Ok(room) } else { Err(refused()) }
        });
        assert_eq!((opened.unwrap(), tried), (1 << 18, vec![1 << 20, 1 << 19, 1 << 18]));
        let mut last = 0;
        let never = with_less_room::<()>(|room| {
            last = room;
            Err(refused())
        });
        assert!(matches!(never, Err(ProbeError::NoRoom(_))));
        assert_eq!(last, 1 << 16);
    }

    #[test]
    fn what_may_be_run_is_found_in_a_list_of_mappings() {
        let line = "55d0c7a4d000-55d0c7a4f000 r-xp 00002000 fe:01 1234        /usr/bin/my prog";
        let found = mapping(line).unwrap();
        assert_eq!((found.address, found.length, found.offset), (0x55d0_c7a4_d000, 0x2000, 0x2000));
        assert_eq!(
            (found.device, found.inode, &*found.name),
            ((0xfe, 1), 1234, "/usr/bin/my prog")
        );
        assert_eq!(
            mapping("55d0c7a4d000-55d0c7a4f000 r--p 00002000 fe:01 1234 /usr/bin/prog"),
            None
        );
        let anonymous = mapping("7f0000000000-7f0000001000 r-xp 00000000 00:00 0 ").unwrap();
        assert_eq!((anonymous.inode, &*anonymous.name), (0, "//anon"));
        // Our own code is among what this process has.
        let me = std::env::current_exe().unwrap();
        let me = me.canonicalize().unwrap().display().to_string();
        assert!(mapped(std::process::id()).iter().any(|mapping| mapping.name == me));
    }
}
