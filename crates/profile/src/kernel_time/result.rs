//! What came of it: shares of the CPUs' time by category, at both levels, and how sure they are.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use crate::pure::kernel_time::{Os, SampleKind, ShareEstimate, Tcp};
use nightwatt_energy::quantity::Joules;
use nightwatt_energy::samples::interval;
use nightwatt_energy::time::Mono;
use nightwatt_meters::sampler::Measured;
use nightwatt_probes::Samples;
use serde::Serialize;

use super::accounting::{KernelTimeAccounting, SampleLocation, Whose, cell, is_others};
use crate::caliper::ChannelTotal;
use crate::caliper::result::of_meters;
use crate::caliper::sampled::channels::OneChannel;

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// A larger share that no line of the table knows is warned of.
const MOSTLY_KNOWN: f64 = 0.1;

/// Where a larger share of samples was due and never taken, that is warned of.
const MOST_MISSED: f64 = 0.1;

/// The report of `kernel-time`: the CPUs' time by category.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelTimeReport {
    /// Version of this form.
    pub schema: u32,
    /// The command under test and its arguments; empty where there was none.
    pub command: Vec<String>,
    /// Processes under test that ran already.
    pub processes: Vec<u32>,
    /// The command's exit status, as a shell has it.
    pub exit_status: u8,
    /// For how long it was watched, s.
    pub elapsed_s: f64,
    /// CPUs.
    pub cpus: usize,
    /// Time between two samples of a CPU, s.
    pub period_s: f64,
    /// How many samples there were.
    pub samples: SampleCounts,
    /// The share of all samples that found the CPU at rest: of the CPUs' time.
    pub idle: Option<ShareEstimate>,
    /// Categories of the operating system, as published, and `Unknown`. Shares are of what is not idle.
    pub os: Vec<CategoryReport>,
    /// Categories of TCP, as published. Shares are of TCP's samples.
    pub tcp: Vec<CategoryReport>,
    /// Scheduler, ACPI and IRQ together: what the CPU does for changing what it does.
    pub changing: CategoryReport,
    /// Samples that were a helper's (a lock, a copy of memory, a timer that is set) and count for whom it
    /// served: the same samples are in the categories of these.
    pub helpers: CategoryReport,
    /// In whose name the CPUs were at work, most first.
    pub programs: Vec<ProgramReport>,
    /// Every channel of every meter, and how its energy was shared out. Channels may contain each
    /// other: never sum them.
    pub channels: Vec<ChannelTotal>,
    /// What the reader has to know.
    pub warnings: Vec<String>,
    #[serde(skip)]
    folded: String,
}

/// Samples of all CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SampleCounts {
    /// Of CPUs at work.
    pub busy: u64,
    /// Of these, of what is under test and of the kernel itself.
    pub own: u64,
    /// Of CPUs at rest.
    pub idle: u64,
    /// Due and never taken: a virtual machine's CPU was asleep or taken away, or interrupts were off.
    pub missed: u64,
    /// Records for which there was no room, samples or not.
    pub lost: u64,
    /// How many times the kernel left samples out because they took too long.
    pub throttled: u64,
}

/// A category.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CategoryReport {
    /// As published.
    pub name: &'static str,
    /// Of all processes.
    pub samples: u64,
    /// Their share.
    pub share: Option<ShareEstimate>,
    /// Samples of what is under test and of the kernel itself: its threads, what runs on an otherwise idle
    /// CPU, and interrupts of any task.
    pub own_samples: u64,
    /// Their share of all such samples.
    pub own_share: Option<ShareEstimate>,
    /// Energy of all processes by every channel, in the order of `channels`, without the idle machine's part.
    pub energy: Vec<EnergyReport>,
    /// The functions, most samples first; `lock < function` where a helper served it. In `Application`,
    /// of the programs; in `Other`, programs that are not under test by their names, too.
    pub functions: Vec<FunctionReport>,
}

/// Energy by one channel.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EnergyReport {
    /// All, J.
    pub joules: Joules,
    /// Where chance leaves that, by 95 %: sampled again, it may be as low as this, J.
    pub low_j: Joules,
    /// And as high as this, J.
    pub high_j: Joules,
    /// `joules` of all that was shared out but the idle part.
    pub share: Option<f64>,
}

/// A function, or a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FunctionReport {
    /// Its name.
    pub name: String,
    /// Of all processes.
    pub samples: u64,
    /// See [`CategoryReport::own_samples`].
    pub own_samples: u64,
}

/// A program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProgramReport {
    /// Its name; `swapper` where nothing else had anything to do.
    pub name: String,
    /// Is it under test?
    pub is_under_test: bool,
    /// Is it a thread of the kernel?
    pub is_kernel: bool,
    /// In its own code.
    pub user_samples: u64,
    /// In the kernel.
    pub kernel_samples: u64,
}

/// What makes a category of it.
struct Group<'a> {
    name: &'static str,
    holds: &'a dyn Fn(SampleKind) -> bool,
    /// Of what its share is.
    of: &'a dyn Fn(SampleKind) -> bool,
}

/// Every kind, and its two cells.
fn kinds() -> impl Iterator<Item = SampleKind> {
    let os = Os::ALL.into_iter().map(|os| SampleKind::Busy(os, None));
    let tcp = Tcp::ALL.into_iter().map(|tcp| SampleKind::Busy(Os::Tcp, Some(tcp)));
    [SampleKind::Idle, SampleKind::Unknown].into_iter().chain(os).chain(tcp)
}

const fn is_busy(kind: SampleKind) -> bool {
    !matches!(kind, SampleKind::Idle)
}

impl KernelTimeReport {
    pub(super) fn of(
        accounting: &KernelTimeAccounting,
        samples: &Samples,
        measured: &[Measured],
        begin: Mono,
        end: Mono,
    ) -> Self {
        let channels: Vec<(&OneChannel, ChannelTotal)> = accounting
            .channels
            .iter()
            .filter_map(|(meter, place, channel)| {
                let measured = measured.get(meter)?;
                let of = measured.channels.get(place)?;
                let total = ChannelTotal::of(measured, of, channel.shares.shares(), channel.idle);
                Some((channel, total))
            })
            .collect();
        let elapsed = end.since(begin);
        let category =
            |name, holds: &dyn Fn(SampleKind) -> bool, of: &dyn Fn(SampleKind) -> bool| {
                category(accounting, &channels, &Group { name, holds, of })
            };
        let of_os =
            |os| move |kind: SampleKind| matches!(kind, SampleKind::Busy(it, _) if it == os);
        let mut os: Vec<CategoryReport> =
            Os::ALL.into_iter().map(|it| category(it.name(), &of_os(it), &is_busy)).collect();
        os.push(category("Unknown", &|kind| kind == SampleKind::Unknown, &is_busy));
        let tcp = Tcp::ALL.into_iter().map(|it| {
            category(
                it.name(),
                &|kind| kind == SampleKind::Busy(Os::Tcp, Some(it)),
                &of_os(Os::Tcp),
            )
        });
        let tcp = tcp.collect();
        let changing = |kind| {
            [Os::Scheduler, Os::Acpi, Os::Irq].iter().any(|it| kind == SampleKind::Busy(*it, None))
        };
        let changing = category("Scheduler + ACPI + IRQ", &changing, &is_busy);
        let counts = counts(accounting, samples, elapsed);
        let warnings = warnings(&os, &counts, accounting, samples);
        let channels: Vec<ChannelTotal> = channels.into_iter().map(|(_, total)| total).collect();
        Self {
            schema: SCHEMA,
            command: Vec::new(),
            processes: Vec::new(),
            exit_status: 0,
            elapsed_s: elapsed.as_secs_f64(),
            cpus: samples.cpus(),
            period_s: samples.period().as_secs_f64(),
            idle: share(accounting, &|kind| kind == SampleKind::Idle, &|_| true, &|_| true),
            os,
            tcp,
            changing,
            helpers: helpers(accounting, samples, &counts),
            samples: counts,
            programs: programs(accounting),
            warnings: if channels.is_empty() {
                warnings
            } else {
                [of_meters(&channels, measured), warnings].concat()
            },
            channels,
            folded: folded(accounting, samples),
        }
    }

    /// The channel that tables show: of the whole machine, if there is one.
    pub fn main_channel(&self) -> Option<usize> {
        ChannelTotal::main_of(&self.channels)
    }

    /// A line for each stack, `program;outer;inner 1234`, as `flamegraph.pl`, inferno and speedscope read
    /// it: microseconds of CPU time. What is idle is not in it.
    pub fn folded(&self) -> &str {
        &self.folded
    }

    /// A category of the operating system.
    pub fn of_os(&self, os: Os) -> Option<&CategoryReport> {
        self.os.iter().find(|category| category.name == os.name())
    }

    /// The share that no line of the table knows.
    pub fn unknown(&self) -> f64 {
        let unknown = self.os.iter().find(|category| category.name == "Unknown");
        unknown.and_then(|it| it.share).map_or(0.0, |it| it.share)
    }
}

fn share(
    accounting: &KernelTimeAccounting,
    some: &dyn Fn(SampleKind) -> bool,
    all: &dyn Fn(SampleKind) -> bool,
    whose: &dyn Fn(usize) -> bool,
) -> Option<ShareEstimate> {
    let cells = |of: &dyn Fn(SampleKind) -> bool| -> Vec<usize> {
        let both = |kind| [cell(kind, Whose::Own), cell(kind, Whose::Others)];
        kinds().filter(|kind| of(*kind)).flat_map(both).filter(|cell| whose(*cell)).collect()
    };
    let (some, all) = (cells(some), cells(all));
    accounting.clusters.share(|cell| some.contains(&cell), |cell| all.contains(&cell))
}

fn category(
    accounting: &KernelTimeAccounting,
    channels: &[(&OneChannel, ChannelTotal)],
    group: &Group<'_>,
) -> CategoryReport {
    let spots: Vec<(&SampleLocation, usize)> =
        accounting.spots().filter(|(spot, _)| (group.holds)(spot.kind)).collect();
    let count = |number: usize| accounting.counts.get(number).copied().unwrap_or_default();
    let functions = spots
        .iter()
        .map(|(spot, number)| {
            let [own, others] = count(*number);
            FunctionReport { name: spot.name.clone(), samples: own + others, own_samples: own }
        })
        .filter(|function| function.samples > 0);
    let functions = sorted(functions.collect());
    let whole = share(accounting, group.holds, group.of, &|_| true);
    let effect = whole.map_or(1.0, |it| it.design_effect);
    let energy = |(channel, total): &(&OneChannel, ChannelTotal)| {
        let nodes = channel.shares.shares().nodes();
        let joules = spots.iter().filter_map(|(_, number)| nodes.get(number + 1));
        let joules = joules.fold(0.0, |sum, joules| sum + joules.get());
        let dynamic = total.joules.get() - total.idle_j.get();
        let share = (dynamic > 0.0).then(|| joules / dynamic);
        let (low, high) = interval(share.unwrap_or(0.0), channel.shares.weight() / effect);
        let (low_j, high_j) = (Joules(low * dynamic), Joules(high * dynamic));
        EnergyReport { joules: Joules(joules), low_j, high_j, share }
    };
    CategoryReport {
        name: group.name,
        samples: functions.iter().map(|it| it.samples).sum(),
        share: whole,
        own_samples: functions.iter().map(|it| it.own_samples).sum(),
        own_share: share(accounting, group.holds, group.of, &|cell| !is_others(cell)),
        energy: channels.iter().map(energy).collect(),
        functions,
    }
}

/// Most samples first.
fn sorted(mut functions: Vec<FunctionReport>) -> Vec<FunctionReport> {
    functions.sort_by(|one, other| (other.samples, &one.name).cmp(&(one.samples, &other.name)));
    functions
}

/// The helpers as if they were a category, for all functions that they served.
fn helpers(
    accounting: &KernelTimeAccounting,
    samples: &Samples,
    counts: &SampleCounts,
) -> CategoryReport {
    let function = |(place, [own, others]): (&usize, &[u64; 2])| FunctionReport {
        name: samples.functions()[*place].name.clone(),
        samples: own + others,
        own_samples: *own,
    };
    let functions = sorted(accounting.helpers.iter().map(function).collect());
    let sum = |of: &dyn Fn(&FunctionReport) -> u64| functions.iter().map(of).sum::<u64>();
    let (all, own) = (sum(&|it| it.samples), sum(&|it| it.own_samples));
    let plain = |count: u64, of: u64| {
        let share = (of > 0).then(|| count as f64 / of as f64)?;
        let (low, high) = interval(share, of as f64);
        Some(ShareEstimate { share, low, high, design_effect: 1.0 })
    };
    CategoryReport {
        name: "Helpers",
        samples: all,
        share: plain(all, counts.busy),
        own_samples: own,
        own_share: plain(own, counts.own),
        energy: Vec::new(),
        functions,
    }
}

fn counts(accounting: &KernelTimeAccounting, samples: &Samples, elapsed: Duration) -> SampleCounts {
    let count = |of: &dyn Fn(SampleKind) -> bool, whose: Whose| -> u64 {
        kinds()
            .filter(|kind| of(*kind))
            .map(|kind| accounting.clusters.count(cell(kind, whose)))
            .sum()
    };
    let own = count(&is_busy, Whose::Own);
    let busy = own + count(&is_busy, Whose::Others);
    let at_rest = |kind| kind == SampleKind::Idle;
    let idle = count(&at_rest, Whose::Own) + count(&at_rest, Whose::Others);
    let due = elapsed.div_duration_f64(samples.period()) * samples.cpus() as f64;
    SampleCounts {
        busy,
        own,
        idle,
        missed: (due as u64).saturating_sub(busy + idle),
        lost: samples.lost(),
        throttled: samples.throttled(),
    }
}

fn programs(accounting: &KernelTimeAccounting) -> Vec<ProgramReport> {
    let mut found: HashMap<(&str, bool, bool), [u64; 2]> = HashMap::new();
    for (ran, count) in &accounting.programs {
        let key = (&*ran.program, ran.is_under_test, ran.is_kernel);
        found.entry(key).or_default()[usize::from(ran.in_kernel)] += count;
    }
    let mut programs: Vec<ProgramReport> = found
        .into_iter()
        .map(|((name, is_under_test, is_kernel), [user_samples, kernel_samples])| ProgramReport {
            name: name.to_owned(),
            is_under_test,
            is_kernel,
            user_samples,
            kernel_samples,
        })
        .collect();
    let all = |it: &ProgramReport| it.user_samples + it.kernel_samples;
    programs.sort_by(|one, other| (all(other), &one.name).cmp(&(all(one), &other.name)));
    programs
}

fn folded(accounting: &KernelTimeAccounting, samples: &Samples) -> String {
    let functions = samples.functions();
    let mut lines: Vec<(String, u64)> = accounting
        .stacks
        .iter()
        .map(|((program, stack), count)| {
            let names = stack.iter().rev().map(|place| functions[*place].name.replace(';', ":"));
            let line = names.fold(program.replace(';', ":"), |line, name| line + ";" + &name);
            (line, *count)
        })
        .collect();
    if accounting.stacks_dropped > 0 {
        lines.push(("[more stacks than there is room for]".to_owned(), accounting.stacks_dropped));
    }
    lines.sort_by(|one, other| (other.1, &one.0).cmp(&(one.1, &other.0)));
    let period = samples.period().as_secs_f64() * 1e6;
    let mut text = String::new();
    for (line, count) in lines {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{line} {:.0}", count as f64 * period);
    }
    text
}

fn warnings(
    os: &[CategoryReport],
    counts: &SampleCounts,
    accounting: &KernelTimeAccounting,
    samples: &Samples,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if samples.functions().iter().any(|function| function.name == "[kernel]") {
        warnings.push(
            "the kernel hides its functions' names: run as root, with `sysctl kernel.kptr_restrict=1`"
                .to_owned(),
        );
    }
    let unknown = os.last().and_then(|it| it.share).map_or(0.0, |it| it.share);
    if unknown > MOSTLY_KNOWN {
        warnings.push(format!(
            "{:.0} % of the time was in functions that no line of the table knows: they are listed; please \
             report them",
            100.0 * unknown
        ));
    }
    if accounting.stacks_dropped > 0 {
        warnings.push(format!(
            "{} samples had stacks beyond those that there is room for: they count, and `--folded` lacks \
             their functions",
            accounting.stacks_dropped
        ));
    }
    if counts.lost > 0 {
        warnings.push(format!("{} records were lost: sample less often", counts.lost));
    }
    let due = counts.idle + counts.busy + counts.missed;
    let missed = counts.missed as f64 / due.max(1) as f64;
    if missed > MOST_MISSED {
        warnings.push(format!(
            "{:.0} % of the samples that were due were never taken: a virtual machine's CPUs were asleep or taken \
             away meanwhile, so the share of rest may be too low",
            100.0 * missed
        ));
    }
    if counts.throttled > 0 {
        warnings.push(format!(
            "{} times the kernel left samples out because they took too long: sample less often",
            counts.throttled
        ));
    }
    warnings
}
