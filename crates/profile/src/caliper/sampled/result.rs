//! What came of it: samples, CPU time and energy of each function, and how sure that is.

use std::time::Duration;

use nightwatt_energy::quantity::Joules;
use nightwatt_energy::samples::{interval, is_generated};
use nightwatt_meters::sampler::Measured;
use nightwatt_meters::{Channel, Scope};
use nightwatt_probes::Samples;
use serde::Serialize;

use super::super::folded::{StackReport, lines};
use super::super::result::{ChannelTotal, of_meters};
use super::CaliperOptions;
use super::accounting::SampleAccounting;
use super::channels::OneChannel;
use crate::caliper::TargetRun;

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// Less than this share of stacks that were followed to their beginning is warned of.
const MOSTLY: f64 = 0.9;

/// A larger share of samples in files that name nothing is warned of.
const UNNAMED: f64 = 0.1;

/// Files that a warning names.
const TOLD: usize = 3;

/// If this many samples were due, a process without samples was missed.
const SURELY: u32 = 20;

/// The energy of functions, by samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampledReport {
    /// Version of this form.
    pub schema: u32,
    /// `sampled`: no figure here was counted call by call.
    pub method: &'static str,
    /// The command and its arguments; empty where none was started.
    pub command: Vec<String>,
    /// The processes that ran already; empty of a command, and where all were watched.
    pub pids: Vec<u32>,
    /// The command's exit status, as a shell has it; 0 where none was started.
    pub exit_status: u8,
    /// For how long it was watched, s.
    pub elapsed_s: f64,
    /// Time between two samples of a CPU, s. Each sample stands for so much CPU time.
    pub period_s: f64,
    /// How many there were.
    pub samples: SampleCounts,
    /// Functions that were asked for, in that order; else all that were seen, the dearest first.
    pub functions: Vec<SampledFunction>,
    /// Every stack that was seen, the most CPU time first.
    pub stacks: Vec<StackReport>,
    /// Every channel of every meter, and how its energy was shared out. Channels may contain each
    /// other: never sum them.
    pub channels: Vec<ChannelTotal>,
    /// What the reader has to know.
    pub warnings: Vec<String>,
    #[serde(skip)]
    has_sections: bool,
}

/// Samples of all CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SampleCounts {
    /// Of watched processes.
    pub watched: u64,
    /// Of these, where the stack could be followed to its beginning.
    pub whole_stacks: u64,
    /// Of other processes.
    pub others: u64,
    /// Of idle CPUs.
    pub idle: u64,
    /// Due and never taken: a virtual machine's CPU was asleep or taken away, or interrupts were off.
    pub missed: u64,
    /// Records for which there was no room, samples or not.
    pub lost: u64,
    /// How often the kernel left samples out because they took too long.
    pub throttled: u64,
}

/// One function.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampledFunction {
    /// Its name; `[file]` for what has none.
    pub name: String,
    /// The program or library it is in, or `[kernel]`.
    pub file: String,
    /// Samples in it and in what it calls, as far as stacks tell (`whole_stacks`).
    pub samples: u64,
    /// Samples in it alone; of a function that was asked for, in it and in what is no other such.
    pub self_samples: u64,
    /// CPU time that `samples` stand for, s.
    pub on_cpu_s: f64,
    /// CPU time that `self_samples` stand for, s.
    pub self_s: f64,
    /// Its energy by every channel, in the order of `channels`.
    pub energy: Vec<SampledEnergy>,
}

/// Energy of a function by one channel, without the idle machine's part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SampledEnergy {
    /// With what it calls, as far as stacks tell, J.
    pub joules: Joules,
    /// Where chance leaves that, by 95 %: sampled again, it may be as low as this, J.
    pub low_j: Joules,
    /// And as high as this, J.
    pub high_j: Joules,
    /// In it alone, J.
    pub self_j: Joules,
    /// Where chance leaves that, J.
    pub self_low_j: Joules,
    /// And up to, J.
    pub self_high_j: Joules,
    /// Expanded uncertainty of `joules` at 95 %, J: of the meter and of the idle power. That of the
    /// samples is in the interval, and not in it.
    pub uncertainty_j: Joules,
    /// `joules` of all that was shared out but the idle part.
    pub share: Option<f64>,
}

/// All that was seen.
pub(super) struct Observations<'a> {
    pub(super) accounting: &'a SampleAccounting,
    pub(super) samples: &'a Samples,
    pub(super) measured: &'a [Measured],
    pub(super) target_run: &'a TargetRun,
    /// CPU time of a process that ran already, while it was watched.
    pub(super) used: Option<Duration>,
}

impl SampledReport {
    pub(super) fn of(options: &CaliperOptions, seen: &Observations<'_>) -> Self {
        let elapsed = seen.target_run.end.since(seen.target_run.begin);
        let channels: Vec<ChannelTotal> = seen.channels().map(|(.., total)| total).collect();
        let samples = seen.counts(elapsed);
        let functions = seen.functions();
        Self {
            schema: SCHEMA,
            method: "sampled",
            command: options.target.command(),
            pids: options.target.pids().to_vec(),
            exit_status: seen.target_run.finished.as_ref().map_or(0, |run| run.ended.code()),
            elapsed_s: elapsed.as_secs_f64(),
            period_s: seen.samples.period().as_secs_f64(),
            warnings: warnings(&functions, &channels, &samples, seen),
            samples,
            functions,
            stacks: seen.stacks(),
            channels,
            has_sections: seen.accounting.has_sections(),
        }
    }

    /// The channel that tables show: of the whole machine, if there is one.
    pub fn main_channel(&self) -> Option<usize> {
        ChannelTotal::main_of(&self.channels)
    }

    /// Were functions asked for?
    pub(super) const fn has_sections(&self) -> bool {
        self.has_sections
    }

    /// A line for each stack, as [`super::super::CaliperReport::folded`] has it.
    pub fn folded(&self) -> String {
        lines(&self.command, &self.pids, &self.stacks, self.main_channel())
    }
}

impl Observations<'_> {
    fn counts(&self, elapsed: Duration) -> SampleCounts {
        let counts = &self.accounting.counts;
        let watched = counts.of_stacks.iter().sum();
        let due = elapsed.div_duration_f64(self.samples.period()) * self.samples.cpus() as f64;
        SampleCounts {
            watched,
            whole_stacks: counts.whole,
            others: counts.others,
            idle: counts.idle,
            missed: (due as u64).saturating_sub(watched + counts.others + counts.idle),
            lost: self.samples.lost(),
            throttled: self.samples.throttled(),
        }
    }

    fn channels(&self) -> impl Iterator<Item = (&Channel, &OneChannel, ChannelTotal)> {
        self.accounting.channels.iter().filter_map(|(meter, place, channel)| {
            let measured = self.measured.get(meter)?;
            let of = measured.channels.get(place)?;
            // CPU time says nothing of what an accelerator did.
            if of.scope == Scope::Gpu {
                return None;
            }
            let total = ChannelTotal::of(measured, of, channel.shares.shares(), channel.idle);
            Some((of, channel, total))
        })
    }

    fn functions(&self) -> Vec<SampledFunction> {
        let stacks = &self.accounting.stacks;
        let counts = stacks.by_function(&self.accounting.counts.of_stacks);
        let energies: Vec<_> = self
            .channels()
            .map(|(of, channel, total)| {
                let joules: Vec<f64> =
                    channel.shares.shares().nodes().iter().map(|joules| joules.get()).collect();
                (stacks.by_function(&joules), of, channel, total)
            })
            .collect();
        let period = self.samples.period().as_secs_f64();
        let function = |(number, named): (usize, &super::accounting::FunctionRow)| {
            let (all, alone) = counts.get(&number).copied().unwrap_or_default();
            SampledFunction {
                name: named.name.clone(),
                file: named.file.clone(),
                samples: all,
                self_samples: alone,
                on_cpu_s: all as f64 * period,
                self_s: alone as f64 * period,
                energy: energies
                    .iter()
                    .map(|(sums, _, channel, total)| {
                        let (all, alone) = sums.get(&number).copied().unwrap_or_default();
                        self.energy(all, alone, channel, total)
                    })
                    .collect(),
            }
        };
        let mut functions: Vec<SampledFunction> =
            self.accounting.sections.iter().enumerate().map(function).collect();
        if !self.accounting.has_sections() {
            functions.retain(|function| function.samples > 0);
            let dearness = |function: &SampledFunction| {
                function.energy.first().map_or(function.self_s, |energy| energy.self_j.get())
            };
            functions.sort_by(|one, other| dearness(other).total_cmp(&dearness(one)));
        }
        functions
    }

    fn energy(
        &self,
        joules: f64,
        alone: f64,
        channel: &OneChannel,
        total: &ChannelTotal,
    ) -> SampledEnergy {
        let dynamic = total.joules.get() - total.idle_j.get();
        let weight = channel.shares.weight();
        let bounds = |joules: f64| {
            let share = if dynamic > 0.0 { joules / dynamic } else { 0.0 };
            let (low, high) = interval(share, weight);
            (Joules(low * dynamic), Joules(high * dynamic))
        };
        let ((low_j, high_j), (self_low_j, self_high_j)) = (bounds(joules), bounds(alone));
        let share = (dynamic > 0.0).then(|| joules / dynamic);
        let time = self.target_run.end.since(self.target_run.begin);
        SampledEnergy {
            joules: Joules(joules),
            low_j,
            high_j,
            self_j: Joules(alone),
            self_low_j,
            self_high_j,
            uncertainty_j: total.uncertainty(Joules(joules), time),
            share,
        }
    }

    fn stacks(&self) -> Vec<StackReport> {
        let period = self.samples.period();
        let tree = self.accounting.stacks.tree();
        let name = |section: usize| Some(self.accounting.sections.get(section)?.name.clone());
        let stack = |(node, count): (usize, &u64)| StackReport {
            sections: tree.path(node).into_iter().filter_map(name).collect(),
            on_cpu_s: *count as f64 * period.as_secs_f64(),
            joules: self
                .channels()
                .map(|(_, channel, _)| {
                    channel.shares.shares().nodes().get(node).copied().unwrap_or_default()
                })
                .collect(),
        };
        let nodes =
            self.accounting.counts.of_stacks.iter().enumerate().filter(|(_, count)| **count > 0);
        let mut stacks: Vec<StackReport> = nodes.map(stack).collect();
        stacks.sort_by(|one, other| other.on_cpu_s.total_cmp(&one.on_cpu_s));
        stacks
    }
}

fn warnings(
    functions: &[SampledFunction],
    channels: &[ChannelTotal],
    samples: &SampleCounts,
    seen: &Observations<'_>,
) -> Vec<String> {
    let mut warnings = of_meters(channels, seen.measured);
    let whole = samples.whole_stacks as f64;
    if samples.watched > 0 && whole < MOSTLY * samples.watched as f64 {
        warnings.push(format!(
            "{:.0} % of the stacks could be followed to their beginning: the rest ran code without \
             frame pointers, and what called that has too little energy `with calls`. Build with \
             -fno-omit-frame-pointer",
            100.0 * whole / samples.watched as f64
        ));
    }
    for function in functions.iter().filter(|function| function.samples == 0) {
        warnings.push(format!(
            "{} was never seen: is {} the file that runs, and was {} built into its callers \
             (inlined)?",
            function.name, function.file, function.name
        ));
    }
    if seen.accounting.stacks.is_full() {
        warnings.push(
            "there were more than 262,144 stacks: those beyond are shown without their innermost calls"
                .to_owned(),
        );
    }
    if let Some(used) = seen.used.filter(|used| *used > SURELY * seen.samples.period())
        && samples.watched == 0
    {
        warnings.push(format!(
            "the process was never seen though it used {:.2} s of CPU time: what it took is among \
             (other processes). Measure again, and report it if that helps nothing",
            used.as_secs_f64()
        ));
    }
    if !seen.accounting.has_sections() {
        warnings.extend(unnamed(functions, samples.watched));
    }
    if samples.lost > 0 {
        warnings.push(format!(
            "{} records were lost. Processes that started then may be missing, with all that they \
             took among (other processes), and functions of files that were mapped then: sample less \
             often",
            samples.lost
        ));
    }
    if samples.throttled > 0 {
        warnings.push(format!(
            "{} times the kernel left samples out because they took too long: sample less often",
            samples.throttled
        ));
    }
    warnings
}

/// Of files whose functions tell no names, if much was seen there.
fn unnamed(functions: &[SampledFunction], watched: u64) -> Option<String> {
    let is_unnamed = |function: &&SampledFunction| {
        function.name.starts_with('[') && function.file.starts_with('/')
    };
    let mut found: Vec<&SampledFunction> = functions.iter().filter(is_unnamed).collect();
    let samples: u64 = found.iter().map(|function| function.self_samples).sum();
    if watched == 0 || samples as f64 <= UNNAMED * watched as f64 {
        return None;
    }
    found.sort_by_key(|function| std::cmp::Reverse(function.self_samples));
    let files: Vec<&str> = found.iter().take(TOLD).map(|function| &*function.file).collect();
    let remedy = if found.first().is_some_and(|function| is_generated(&function.file)) {
        "that is code made as the program runs: let it write its names to /tmp/perf-PID.map (node \
         --perf-basic-prof, java -XX:+PreserveFramePointer with jcmd PID Compiler.perfmap)"
    } else {
        "install debug symbols (on Debian, the package's name with -dbgsym), or build without stripping. If \
         a file was deleted or replaced and its process has ended, run it again from one that stays"
    };
    Some(format!(
        "{:.0} % of the samples were in functions without names, most of them in {}: {remedy}",
        100.0 * samples as f64 / watched as f64,
        files.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, file: &str, self_samples: u64) -> SampledFunction {
        SampledFunction {
            name: name.to_owned(),
            file: file.to_owned(),
            samples: self_samples,
            self_samples,
            on_cpu_s: 0.0,
            self_s: 0.0,
            energy: Vec::new(),
        }
    }

    #[test]
    fn files_without_names_are_told_where_much_was_seen_there() {
        let kernel = function("[kernel]", "[kernel]", 500);
        let of =
            |samples| unnamed(&[kernel.clone(), function("[prog]", "/opt/prog", samples)], 1000);
        assert_eq!(of(100), None);
        let warning = of(300).unwrap();
        assert!(warning.starts_with("30 % ") && warning.contains("/opt/prog"), "{warning}");
    }

    /// No package has symbols of code that a program makes as it runs.
    #[test]
    fn of_generated_code_no_debug_symbols_are_asked_for() {
        for (file, advice, other) in [
            ("//anon", "/tmp/perf-PID.map", "debug symbols"),
            ("/opt/prog", "debug symbols", "/tmp/perf-PID.map"),
        ] {
            let warning = unnamed(&[function("[anon]", file, 500)], 1000).unwrap();
            assert!(warning.contains(advice) && !warning.contains(other), "{warning}");
        }
    }
}
