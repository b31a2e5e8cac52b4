//! What came of it: calls, times and energy of each section.

use std::time::Duration;

use nightwatt_energy::energy::Provenance;
use nightwatt_energy::quantity::Joules;
use nightwatt_energy::sections::{Shares, Tree, Usage};
use nightwatt_energy::uncertainty::{Accuracy, Mean};
use nightwatt_meters::sampler::Measured;
use nightwatt_meters::{Channel, Scope};
use nightwatt_probes::{Calls, InstructionKind, StepCost};
use serde::Serialize;

use super::energies::{Energies, OneChannel};
use super::events::EventsReport;
use super::folded::{self, StackReport};
use super::{CaliperOptions, Section, TargetRun};

/// Sections that may have the same warning, each for itself.
const MOST_REPEATED: usize = 2;

/// Sections that a warning of many names.
const MOST_NAMED: usize = 5;

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// The exit status of a command that the kernel has ended so, as a shell has it.
const SIGILL: u8 = 128 + 4;

/// The energy of sections.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaliperReport {
    /// Version of this form.
    pub schema: u32,
    /// The command and its arguments; empty where none was started.
    pub command: Vec<String>,
    /// The processes that ran already; empty of a command, and where all were watched.
    pub pids: Vec<u32>,
    /// The command's exit status, as a shell has it; 0 where none was started.
    pub exit_status: u8,
    /// For how long it was watched, s.
    pub elapsed_s: f64,
    /// CPU time of the whole machine in that time, s.
    pub machine_busy_s: f64,
    /// CPU time of the watched processes outside of all sections, s.
    pub outside_s: f64,
    /// Each section, in the order in which they were asked for.
    pub sections: Vec<SectionReport>,
    /// Every stack of sections in which something ran.
    pub stacks: Vec<StackReport>,
    /// Every channel of every meter, and how its energy was shared out. Channels may contain each
    /// other: never sum them.
    pub channels: Vec<ChannelTotal>,
    /// What became of each call, where that was asked for.
    pub events: Option<EventsReport>,
    /// What the reader has to know.
    pub warnings: Vec<String>,
}

/// One section.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SectionReport {
    /// Function, or first and last place.
    pub name: String,
    /// The program or library it is in.
    pub file: String,
    /// Calls that have ended.
    pub calls: u64,
    /// Calls that had not ended when watching did.
    pub open: u64,
    /// Left by another way: `longjmp`, an exception, the end of their thread.
    pub unended: u64,
    /// Ended without a visible begin: it began before the measurement, in the process that forked, or on
    /// another stack.
    pub unbegun: u64,
    /// Begun inside of 16 others, and not counted.
    pub too_deep: u64,
    /// Marked by the program faster than its markers were read: counted, and nothing else is known of them.
    /// Not in `calls`.
    pub lost: u64,
    /// Wall-clock time of a call that ended, s: mean, and quantiles that are at most a sixteenth too
    /// high.
    pub mean_s: Option<f64>,
    /// Half of the calls took no longer.
    pub p50_s: Option<f64>,
    /// 99 in 100 took no longer.
    pub p99_s: Option<f64>,
    /// CPU time in the section, nested ones and calls that did not end included, s.
    pub on_cpu_s: f64,
    /// CPU time in the section and in none inside of it, s.
    pub self_s: f64,
    /// Of calls that ended: time in which the thread did not run.
    pub off_cpu: Preempted,
    /// Its energy by every channel, in the order of `channels`.
    pub energy: Vec<SectionEnergy>,
    /// How the kernel gets past the probe: `nop`, `push`, `jump`, or `stepped`, which is dear; `marker` of
    /// a section that has none.
    pub probe: &'static str,
    /// How it is seen that a function returns: by a return `probe`, or at `instructions`. None of what
    /// lies between two places.
    pub returns: Option<&'static str>,
    /// What was subtracted from its figures because the kernel single-steps its first instruction; null if it
    /// does not, or if that could not be measured.
    pub stepping: Option<Stepping>,
    /// Jumps that may leave it and are not watched: calls that do are `unended`.
    pub unwatched_jumps: usize,
}

/// What the kernel needs to single-step the first instruction of a call, measured before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stepping {
    /// Of each call, s.
    pub per_call_s: f64,
    /// How far that may be off, s.
    pub half_width_s: f64,
}

impl Stepping {
    const fn of(step: StepCost) -> Self {
        Self { per_call_s: step.each.as_secs_f64(), half_width_s: step.half_width.as_secs_f64() }
    }

    /// In microseconds.
    fn text(self) -> String {
        format!("{:.1} ± {:.1} us", 1e6 * self.per_call_s, 1e6 * self.half_width_s)
    }
}

/// Why a thread did not run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Preempted {
    /// It was ready, and another task had its CPU, s.
    pub preempted_s: f64,
    /// It waited for something, s.
    pub waited_s: f64,
}

/// Energy of a section by one channel. Shared out by CPU time, without the idle machine's part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SectionEnergy {
    /// Nested sections included, J.
    pub joules: Joules,
    /// Expanded uncertainty at 95 %, J: of the meter, the idle power and single-stepping. That all CPU time costs
    /// alike between two readings is an assumption, and not in it.
    pub uncertainty_j: Joules,
    /// Without nested sections, J.
    pub self_j: Joules,
    /// Per call that ended; null where none did.
    pub per_call_j: Option<Joules>,
    /// Of all that was shared out but the idle part.
    pub share: Option<f64>,
}

/// What a channel saw, and where it went. `joules` is the sum of the other four.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChannelTotal {
    /// The meter, as the user calls it.
    pub meter: String,
    /// The channel of that meter.
    pub channel: String,
    /// What it covers.
    pub scope: Scope,
    /// Measured or modelled, and by what.
    pub provenance: Provenance,
    /// How far it may be off, at 95 %.
    pub accuracy: Accuracy,
    /// All, J.
    pub joules: Joules,
    /// Of watched threads in sections, J.
    pub sections_j: Joules,
    /// Of watched threads outside of them, J.
    pub outside_j: Joules,
    /// Of all other processes, J.
    pub others_j: Joules,
    /// Of the idle machine, J; 0 where its power is not known.
    pub idle_j: Joules,
    /// The idle power, W.
    pub idle_w: Option<f64>,
    /// How far that may be off, at 95 %, W.
    pub idle_half_width_w: Option<f64>,
    /// Times between two readings.
    pub readings: u64,
    /// Time between two readings, s.
    pub interval_s: f64,
}

impl ChannelTotal {
    /// The number of the one that tables show: of the whole machine, if there is one.
    pub(crate) fn main_of(channels: &[Self]) -> Option<usize> {
        let whole = channels.iter().position(|channel| channel.scope.is_whole());
        whole.or_else(|| (!channels.is_empty()).then_some(0))
    }

    pub(crate) fn of(
        measured: &Measured,
        channel: &Channel,
        shares: &Shares,
        idle: Option<Mean>,
    ) -> Self {
        let outside = shares.nodes().first().copied().unwrap_or_default();
        let all: Joules = shares.nodes().iter().copied().sum();
        Self {
            meter: measured.meter.clone(),
            channel: channel.name.clone(),
            scope: channel.scope,
            provenance: channel.provenance(&measured.meter),
            accuracy: channel.accuracy,
            joules: shares.shared(),
            sections_j: all - outside,
            outside_j: outside,
            others_j: shares.others(),
            idle_j: shares.idle(),
            idle_w: idle.map(|idle| idle.mean),
            idle_half_width_w: idle.and_then(|idle| idle.half_width),
            readings: shares.slices(),
            interval_s: measured.interval.as_secs_f64(),
        }
    }

    /// How far a part of the energy above the idle machine may be off, at 95 %: as far as the meter, and as its share of
    /// the idle energy. A constant error of the meter is in the idle power too, where that was measured.
    pub(crate) fn uncertainty(&self, part: Joules, elapsed: Duration) -> Joules {
        let dynamic = self.joules - self.idle_j;
        let share = if dynamic > Joules::ZERO { part / dynamic } else { 0.0 };
        let unknown = self.idle_w.is_none().then_some(self.accuracy.watts.get());
        let base = self.idle_half_width_w.or(unknown).unwrap_or(0.0);
        let meter = part.get() * self.accuracy.relative;
        Joules(meter.hypot(base * elapsed.as_secs_f64() * share))
    }
}

/// All that was seen.
pub(super) struct Observations<'a> {
    pub(super) sections: &'a [Section],
    pub(super) calls: Vec<Calls>,
    pub(super) lost: Vec<u64>,
    pub(super) tree: Tree,
    pub(super) is_full: bool,
    pub(super) used: Usage,
    pub(super) energies: &'a Energies,
    pub(super) measured: &'a [Measured],
    pub(super) target_run: &'a TargetRun,
    pub(super) events: Option<EventsReport>,
    pub(super) warnings: Vec<String>,
    /// What single-stepping costs, where a probe needs it and it could be measured.
    pub(super) stepping: Option<StepCost>,
}

impl CaliperReport {
    pub(super) fn of(options: &CaliperOptions, seen: &Observations<'_>) -> Self {
        let elapsed = seen.target_run.end.since(seen.target_run.begin);
        let channels: Vec<ChannelTotal> = seen.channels().map(|(.., total)| total).collect();
        let sections: Vec<SectionReport> =
            (0..seen.sections.len()).map(|number| seen.section(number)).collect();
        Self {
            schema: SCHEMA,
            command: options.target.command(),
            pids: options.target.pids().to_vec(),
            exit_status: seen.target_run.finished.as_ref().map_or(0, |run| run.ended.code()),
            elapsed_s: elapsed.as_secs_f64(),
            machine_busy_s: seen.used.busy.as_secs_f64(),
            outside_s: seen.used.nodes.first().copied().unwrap_or_default().as_secs_f64(),
            warnings: warnings(&sections, &channels, seen),
            sections,
            stacks: seen.stacks(),
            channels,
            events: seen.events.clone(),
        }
    }

    /// The channel that tables show: of the whole machine, if there is one.
    pub fn main_channel(&self) -> Option<usize> {
        ChannelTotal::main_of(&self.channels)
    }

    /// A line for each stack, `program;outer;inner 1234`, as `flamegraph.pl`, inferno and speedscope read
    /// it: microjoules by the main channel, or microseconds of CPU time without a channel.
    pub fn folded(&self) -> String {
        folded::lines(&self.command, &self.pids, &self.stacks, self.main_channel())
    }
}

impl Observations<'_> {
    pub(super) fn channels(&self) -> impl Iterator<Item = (&Channel, &OneChannel, ChannelTotal)> {
        self.energies.channels().filter_map(|(meter, place, channel)| {
            let measured = self.measured.get(meter)?;
            let of = measured.channels.get(place)?;
            // CPU time says nothing of what an accelerator did.
            if of.scope == Scope::Gpu {
                return None;
            }
            let total = ChannelTotal::of(measured, of, &channel.shares, channel.idle);
            Some((of, channel, total))
        })
    }

    fn section(&self, number: usize) -> SectionReport {
        let (section, calls) = (&self.sections[number], &self.calls[number]);
        let seconds = |time: Duration| time.as_secs_f64();
        let ended = calls.ended as f64;
        let waited = calls.length.saturating_sub(calls.ran + calls.preempted);
        SectionReport {
            name: section.name.clone(),
            file: section.begin.path.display().to_string(),
            calls: calls.ended,
            open: calls.begun.saturating_sub(calls.ended + calls.unended),
            unended: calls.unended,
            unbegun: calls.unbegun,
            too_deep: calls.too_deep,
            lost: self.lost[number],
            mean_s: (calls.ended > 0).then(|| seconds(calls.length) / ended),
            p50_s: calls.quantile(0.5).map(seconds),
            p99_s: calls.quantile(0.99).map(seconds),
            on_cpu_s: seconds(self.tree.inclusive(number, &self.used.nodes)),
            self_s: seconds(self.tree.exclusive(number, &self.used.nodes)),
            off_cpu: Preempted { preempted_s: seconds(calls.preempted), waited_s: seconds(waited) },
            energy: self
                .channels()
                .map(|(_, channel, total)| self.energy(number, channel, &total))
                .collect(),
            probe: match section.begin.instruction {
                _ if section.is_marked() => "marker",
                InstructionKind::Nop => "nop",
                InstructionKind::Push => "push",
                InstructionKind::Jump => "jump",
                InstructionKind::Stepped => "stepped",
            },
            returns: section.returns(),
            stepping: self.stepping(section),
            unwatched_jumps: section.body.as_ref().map_or(0, |body| body.unsure),
        }
    }

    /// What was subtracted from the calls of a section.
    fn stepping(&self, section: &Section) -> Option<Stepping> {
        let is_stepped = section.begin.instruction == InstructionKind::Stepped;
        self.stepping.filter(|_| is_stepped && !section.is_marked()).map(Stepping::of)
    }

    fn energy(&self, number: usize, channel: &OneChannel, total: &ChannelTotal) -> SectionEnergy {
        let nodes = channel.shares.nodes();
        let joules = self.tree.inclusive(number, nodes);
        let dynamic = total.joules.get() - total.idle_j.get();
        let share = (dynamic > 0.0).then(|| joules.get() / dynamic);
        let time = self.target_run.end.since(self.target_run.begin);
        let uncertainty = total.uncertainty(joules, time).get();
        let ended = self.calls[number].ended;
        SectionEnergy {
            joules,
            uncertainty_j: Joules(uncertainty.hypot(self.by_steps(number, joules))),
            self_j: self.tree.exclusive(number, nodes),
            per_call_j: (ended > 0).then(|| Joules(joules.get() / ended as f64)),
            share,
        }
    }

    /// How far a section's joules may be off because that of single-stepping may be.
    fn by_steps(&self, number: usize, joules: Joules) -> f64 {
        let on_cpu = self.tree.inclusive(number, &self.used.nodes).as_secs_f64();
        let Some(step) = self.stepping(&self.sections[number]).filter(|_| on_cpu > 0.0) else {
            return 0.0;
        };
        joules.get() / on_cpu * step.half_width_s * self.calls[number].begun as f64
    }

    /// Those in which something ran, the most CPU time first.
    fn stacks(&self) -> Vec<StackReport> {
        let stack = |(node, time): (usize, &Duration)| StackReport {
            sections: self
                .tree
                .path(node)
                .into_iter()
                .filter_map(|section| Some(self.sections.get(section)?.name.clone()))
                .collect(),
            on_cpu_s: time.as_secs_f64(),
            joules: self
                .channels()
                .map(|(_, channel, _)| {
                    channel.shares.nodes().get(node).copied().unwrap_or_default()
                })
                .collect(),
        };
        let nodes = self.used.nodes.iter().enumerate().filter(|(_, time)| !time.is_zero());
        let mut stacks: Vec<StackReport> = nodes.map(stack).collect();
        stacks.sort_by(|one, other| other.on_cpu_s.total_cmp(&one.on_cpu_s));
        stacks
    }
}

/// What any of these reports may have to say of its meters.
pub(crate) fn of_meters(channels: &[ChannelTotal], measured: &[Measured]) -> Vec<String> {
    let mut warnings = Vec::new();
    if channels.iter().all(|channel| matches!(channel.provenance, Provenance::Modelled { .. })) {
        warnings.push(
            "no meter: these figures are a model's. `nightwatt meters` lists what could measure here"
                .to_owned(),
        );
    }
    if channels.iter().any(|channel| channel.idle_w.is_none()) {
        warnings.push(
            "the idle power is not known: what runs also bears the idle machine's energy. \
             `--idle 5s` measures it first"
                .to_owned(),
        );
    }
    for measured in measured {
        warnings.extend(measured.warnings());
    }
    warnings
}

fn warnings(
    sections: &[SectionReport],
    channels: &[ChannelTotal],
    seen: &Observations<'_>,
) -> Vec<String> {
    let mut warnings = of_meters(channels, seen.measured);
    let by_probe = seen.sections.iter().any(Section::has_return_probe);
    let ended = seen.target_run.finished.as_ref().map(|finished| finished.ended.code());
    if by_probe && ended == Some(SIGILL) {
        warnings.push(
            "the command was ended by SIGILL, probably by return probes: functions were watched that \
             run on a stack of their own (sigaltstack, coroutines). `--returns instructions` does not \
             end it"
                .to_owned(),
        );
    }
    if seen.is_full {
        warnings.push(
            "there were more than 4,096 stacks of sections: what ran in those beyond counts as in no \
             section. Watch fewer functions at a time"
                .to_owned(),
        );
    }
    warnings.extend(seen.events.iter().flat_map(EventsReport::warnings));
    warnings.extend(seen.warnings.iter().cloned());
    let of_sections = sections.iter().map(|it| (it.name.as_str(), it.warnings(channels)));
    warnings.extend(together(of_sections.collect()));
    warnings
}

/// Warnings of sections, each kind once if more than two have it: the first in full, with the names of the others.
fn together(sections: Vec<(&str, Vec<String>)>) -> Vec<String> {
    let mut kinds: Vec<(String, Vec<(&str, String)>)> = Vec::new();
    for (name, warnings) in sections {
        for warning in warnings {
            let kind = without_name(&warning, name);
            match kinds.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, those)) => those.push((name, warning)),
                None => kinds.push((kind, vec![(name, warning)])),
            }
        }
    }
    let in_words = |(_, those): (String, Vec<(&str, String)>)| -> Vec<String> {
        if those.len() <= MOST_REPEATED {
            return those.into_iter().map(|(_, warning)| warning).collect();
        }
        let names: Vec<&str> = those[1..].iter().take(MOST_NAMED).map(|(name, _)| *name).collect();
        let more = those.len() - 1 - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        vec![format!("{} (the same of {}{more})", those[0].1, names.join(", "))]
    };
    kinds.into_iter().flat_map(in_words).collect()
}

/// What a warning has in common with those of other sections.
fn without_name(warning: &str, name: &str) -> String {
    let is_name = |word: &&str| word.trim_matches([',', ':', ';', '`']) == name;
    let others: Vec<&str> = warning.split(' ').filter(|word| !is_name(word)).collect();
    others.join(" ").replace(|it: char| it.is_ascii_digit() || it == '.', "")
}

impl SectionReport {
    fn warnings(&self, channels: &[ChannelTotal]) -> Vec<String> {
        let mut warnings = Vec::new();
        let name = &self.name;
        let all = self.calls + self.open + self.unended + self.unbegun + self.too_deep;
        if all == 0 && self.probe != "marker" {
            warnings.push(format!(
                "{name} was never called: is {} the file that runs, and was {name} built into its \
                 callers (inlined)?",
                self.file
            ));
        }
        for (count, what) in [
            (
                self.unended,
                "left by another way than their end (longjmp, an exception, another stack, an exit)",
            ),
            (
                self.unbegun,
                "ended without having been seen to begin (before caliper watched, in the process that \
                 forked, or on another stack)",
            ),
            (self.too_deep, "began inside of 16 others and were not counted"),
            (
                self.lost,
                "were marked faster than they could be read: nothing but their number is known",
            ),
        ] {
            if count > 0 {
                warnings.push(format!("{count} calls of {name} {what}"));
            }
        }
        if self.probe == "stepped" && all > 0 {
            let counted = match self.stepping {
                Some(step) => format!(
                    "{} a call, measured beforehand, are subtracted from its figures and count as in no \
                     section",
                    step.text()
                ),
                None => "that time, some 5 to 20 us a call, is in its figures".to_owned(),
            };
            warnings.push(format!(
                "{name} begins with an instruction that the kernel has to single-step: {counted}. To \
                 avoid it, build {name} with -fpatchable-function-entry=5, or use markers"
            ));
        }
        if self.returns == Some("instructions") && all > 0 {
            warnings.push(format!(
                "the kernel has to single-step the instructions at which {name} returns: that costs the \
                 program some 5 to 20 us a call, which are not in its figures"
            ));
        }
        if self.unwatched_jumps > 0 && self.unended > 0 {
            warnings.push(format!(
                "{} jumps in {name} may lead out of it and are not watched: calls that end there are \
                 among those that were left by another way",
                self.unwatched_jumps
            ));
        }
        let interval = channels.iter().map(|channel| channel.interval_s).fold(0.0, f64::max);
        if all > 0 && self.on_cpu_s < interval {
            warnings.push(format!(
                "{name} ran for {:.3} s in all, less than the {interval:.3} s between two readings: \
                 its joules are a share of what ran at the same time",
                self.on_cpu_s
            ));
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_of_many_sections_is_printed_once() {
        let of = |name| {
            (name, vec![format!("{name} was never called"), format!("7 calls of {name} left")])
        };
        let mut sections: Vec<_> = ["a", "b", "c", "d", "e", "f", "g", "h"].map(of).to_vec();
        sections[0].1[1] = "only a has this".to_owned();
        let warnings = together(sections);
        assert_eq!(
            warnings,
            [
                "a was never called (the same of b, c, d, e, f and 2 more)",
                "only a has this",
                "7 calls of b left (the same of c, d, e, f, g and 1 more)",
            ]
        );
        let two = together(["a", "b"].map(of).to_vec());
        assert_eq!(two.len(), 4, "two may stand side by side: {two:?}");
    }
}
