//! What was seen, and each channel's energy.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::pure::kernel_time::{Category, Clusters, Os, SampleKind, Table, Tcp, attribute};
use nightwatt_energy::samples::Busy;
use nightwatt_energy::time::Mono;
use nightwatt_energy::uncertainty::Mean;
use nightwatt_meters::sampler::Opened;
use nightwatt_probes::{CpuSample, Samples};

use crate::caliper::Event;
use crate::caliper::sampled::channels::Channels;
use crate::caliper::sampled::following::Accounting;

/// Length of the slices of time from which blocks are made.
const SLICE: Duration = Duration::from_millis(50);

/// Samples wait this long to be counted: the end of a command becomes known only some time later.
const HOLD: Duration = Duration::from_secs(2);

/// Stacks that are kept: some 50 MB.
const MOST_STACKS: usize = 1 << 17;

/// Cells of what samples count as: idle, unknown, parts of the system, parts of TCP.
const KINDS: usize = 2 + Os::ALL.len() + Tcp::ALL.len();

/// The same again for other programs.
pub(super) const CELLS: usize = 2 * KINDS;

/// Whose time it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// Of what is under test, or of the kernel itself: its threads, its idle task, and what interrupts.
    Own,
    /// Of other programs.
    Others,
}

/// The cell of a sample.
pub(super) fn cell(kind: SampleKind, whose: Whose) -> usize {
    let place = match kind {
        SampleKind::Idle => 0,
        SampleKind::Unknown => 1,
        SampleKind::Busy(_, Some(tcp)) => {
            2 + Os::ALL.len() + Tcp::ALL.iter().position(|it| *it == tcp).unwrap_or(0)
        }
        SampleKind::Busy(os, None) => 2 + Os::ALL.iter().position(|it| *it == os).unwrap_or(0),
    };
    place + if whose == Whose::Own { 0 } else { KINDS }
}

/// Does a cell hold what is of other programs?
pub(super) const fn is_others(cell: usize) -> bool {
    cell >= KINDS
}

/// Where a CPU was found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct SampleLocation {
    pub(super) kind: SampleKind,
    /// The function; `its < whom it serves` of a helper.
    pub(super) name: String,
}

/// A sample that may prove to be later than the end.
#[derive(Debug)]
struct Waiting {
    at: Mono,
    kind: SampleKind,
    spot: usize,
    whose: Whose,
    helper: Option<usize>,
    program: RunningProgram,
    stack: Vec<usize>,
}

/// A program, and whether it was in the kernel for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct RunningProgram {
    pub(super) program: String,
    pub(super) is_under_test: bool,
    pub(super) is_kernel: bool,
    pub(super) in_kernel: bool,
}

/// All of it.
pub(super) struct KernelTimeAccounting {
    from: Mono,
    to: Mono,
    waiting: VecDeque<Waiting>,
    /// By function: what it is for.
    categories: Vec<Option<Category>>,
    /// By function: does the kernel enter it when it interrupts a task?
    interrupts: Vec<bool>,
    spots: HashMap<SampleLocation, usize>,
    pub(super) channels: Channels,
    pub(super) clusters: Clusters<CELLS>,
    /// Samples by spot: own, and of others.
    pub(super) counts: Vec<[u64; 2]>,
    /// Samples in helpers, by function: own, and of others.
    pub(super) helpers: HashMap<usize, [u64; 2]>,
    pub(super) programs: HashMap<RunningProgram, u64>,
    /// By program and functions, the innermost first.
    pub(super) stacks: HashMap<(String, Vec<usize>), u64>,
    pub(super) stacks_dropped: u64,
}

impl KernelTimeAccounting {
    /// `idle` is the idle power of every channel, in the order of meters and channels.
    pub(super) fn new(meters: &[Opened], idle: Option<&[Option<Mean>]>) -> Self {
        Self {
            from: Mono::NEVER,
            to: Mono::NEVER,
            waiting: VecDeque::new(),
            categories: Vec::new(),
            interrupts: Vec::new(),
            spots: HashMap::new(),
            channels: Channels::new(meters, idle),
            clusters: Clusters::default(),
            counts: Vec::new(),
            helpers: HashMap::new(),
            programs: HashMap::new(),
            stacks: HashMap::new(),
            stacks_dropped: 0,
        }
    }

    /// What is later does not count, whether it has come already or comes yet.
    pub(super) fn end(&mut self, at: Mono) {
        self.to = at;
    }

    /// What a sample counts as.
    fn place(&mut self, look: &CpuSample, samples: &Samples) -> Waiting {
        for function in samples.functions().iter().skip(self.categories.len()) {
            let is_kernel = function.file.as_os_str() == "[kernel]";
            let category = is_kernel.then(|| Table::linux().category(&function.name)).flatten();
            self.categories.push(category);
            self.interrupts.push(is_kernel && is_interrupt(&function.name));
        }
        let name = |place: usize| samples.functions()[place].name.as_str();
        let (spot, helper) = if look.kernel.is_empty() {
            let os = if look.is_watched { Os::Application } else { Os::Other };
            let own = look.user.first().map_or(&*look.program.name, |place| name(*place));
            let name = if look.is_watched { own } else { &*look.program.name };
            (SampleLocation { kind: SampleKind::Busy(os, None), name: name.to_owned() }, None)
        } else {
            let found = attribute(look.kernel.iter().map(|place| self.categories[*place]));
            let told = chain(look.kernel[..=found.by].iter().map(|place| name(*place)));
            (
                SampleLocation { kind: found.kind, name: told },
                (found.by > 0).then(|| look.kernel[0]),
            )
        };
        let interrupted = look.kernel.iter().any(|place| self.interrupts[*place]);
        let is_own = look.is_watched || look.program.is_kernel || interrupted;
        let (kind, next) = (spot.kind, self.spots.len());
        let spot = *self.spots.entry(spot).or_insert(next);
        Waiting {
            at: look.at,
            kind,
            spot,
            whose: if is_own { Whose::Own } else { Whose::Others },
            helper,
            program: RunningProgram {
                program: look.program.name.clone(),
                is_under_test: look.is_watched,
                is_kernel: look.program.is_kernel,
                in_kernel: !look.kernel.is_empty(),
            },
            stack: look.kernel.iter().chain(&look.user).copied().collect(),
        }
    }

    fn count_to(&mut self, moment: Mono) {
        let moment = moment.min(self.to);
        while let Some(sample) = self.waiting.pop_front_if(|sample| sample.at <= moment) {
            self.count(sample);
        }
    }

    fn count(&mut self, sample: Waiting) {
        let Waiting { at, kind, spot, whose, helper, program, stack } = sample;
        let time = at.since(self.from).div_duration_f64(SLICE) as usize;
        self.clusters.add(time, cell(kind, whose));
        if self.counts.len() <= spot {
            self.counts.resize(spot + 1, [0; 2]);
        }
        self.counts[spot][usize::from(whose == Whose::Others)] += 1;
        if kind == SampleKind::Idle {
            return;
        }
        if let Some(helper) = helper {
            self.helpers.entry(helper).or_default()[usize::from(whose == Whose::Others)] += 1;
        }
        let key = (program.program.clone(), stack);
        *self.programs.entry(program).or_default() += 1;
        if self.stacks.len() < MOST_STACKS || self.stacks.contains_key(&key) {
            *self.stacks.entry(key).or_default() += 1;
        } else {
            self.stacks_dropped += 1;
        }
    }

    /// Nothing more will come: what the meters saw last is shared too.
    pub(super) fn close(&mut self) {
        self.count_to(self.to);
        self.channels.skip_to(self.to);
    }

    /// Every spot and its number.
    pub(super) fn spots(&self) -> impl Iterator<Item = (&SampleLocation, usize)> {
        self.spots.iter().map(|(spot, number)| (spot, *number))
    }
}

impl Accounting for KernelTimeAccounting {
    fn begin(&mut self, at: Mono) {
        self.from = at;
        self.channels.skip_to(at);
    }

    fn read(&mut self, samples: &mut Samples) {
        for look in samples.read_everything() {
            if look.at <= self.from {
                continue;
            }
            let waiting = self.place(&look, samples);
            if waiting.kind != SampleKind::Idle {
                // 0 stands for what is not watched.
                let busy = Busy { at: look.at, stack: Some(waiting.spot + 1) };
                self.channels.take(busy);
            }
            self.waiting.push_back(waiting);
            self.count_to(Mono(look.at.0.saturating_sub(HOLD)));
        }
    }

    fn event(&mut self, event: &Event) {
        self.channels.event(event);
    }
}

/// A helper, the outermost helper that it served, and the function that all of them served: `lock < timer <
/// tcp_write_xmit`.
fn chain<'a>(mut names: impl DoubleEndedIterator<Item = &'a str>) -> String {
    let parts = [names.next(), None, names.next_back()];
    let parts = [parts[0], names.next_back(), parts[2]];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" < ")
}

/// The kernel's entry points for interrupts of a task, and the end of an interrupt, which runs deferred work.
fn is_interrupt(name: &str) -> bool {
    let name = name.trim_start_matches('_');
    ["common_interrupt", "irq_exit_rcu"].contains(&name) || name.starts_with("sysvec_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_cell_of_its_own_for_either() {
        let mut cells =
            vec![cell(SampleKind::Idle, Whose::Own), cell(SampleKind::Unknown, Whose::Own)];
        cells.extend(Os::ALL.map(|os| cell(SampleKind::Busy(os, None), Whose::Own)));
        cells.extend(Tcp::ALL.map(|tcp| cell(SampleKind::Busy(Os::Tcp, Some(tcp)), Whose::Own)));
        assert_eq!(cells, (0..KINDS).collect::<Vec<_>>());
        assert!(cells.iter().all(|cell| !is_others(*cell)));
        let other = cell(SampleKind::Unknown, Whose::Others);
        assert!(is_others(other) && other < CELLS);
    }

    #[test]
    fn helpers_are_told_with_whom_they_served() {
        let told = |names: &str| chain(names.split(' '));
        assert_eq!(told("a"), "a");
        assert_eq!(told("a b"), "a < b");
        assert_eq!(told("a b c"), "a < b < c");
        assert_eq!(told("a b c d"), "a < c < d");
    }

    #[test]
    fn interrupts_are_known_by_the_way_in() {
        for name in [
            "common_interrupt",
            "__irq_exit_rcu",
            "sysvec_apic_timer_interrupt",
            "__sysvec_call_function",
        ] {
            assert!(is_interrupt(name), "{name}");
        }
        // These run on behalf of their callers, too.
        assert!(!is_interrupt("handle_softirqs") && !is_interrupt("do_softirq"));
    }
}
