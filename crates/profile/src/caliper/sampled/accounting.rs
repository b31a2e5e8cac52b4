//! Each channel's energy by stack, reading by reading.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use nightwatt_energy::samples::{Busy, Stacks};
use nightwatt_energy::time::Mono;
use nightwatt_energy::uncertainty::Mean;
use nightwatt_meters::sampler::Opened;
use nightwatt_probes::{Begin, Function, Sample, Samples};

use super::Section;
use super::channels::Channels;
use super::following::Accounting;
use crate::caliper::Event;
use crate::error::Error;

/// Where stacks of threads begin.
const ROOTS: [&str; 7] =
    ["_start", "main", "__libc_start_call_main", "start_thread", "clone", "__clone3", "clone3"];

/// Samples wait this long to be counted: the end of a command becomes known only some time later, when its
/// cgroup was read and removed.
const HOLD: Duration = Duration::from_secs(2);

/// What is seen and what it takes.
pub(super) struct SampleAccounting {
    pub(super) stacks: Stacks,
    pub(super) channels: Channels,
    /// What counts: from when to when.
    from: Mono,
    to: Mono,
    pub(super) counts: Counts,
    /// Samples that may prove to be later than the end.
    waiting: VecDeque<(Mono, Counted)>,
    /// What the numbers on stacks stand for: the sections that were asked for, else every function.
    pub(super) sections: Vec<FunctionRow>,
    has_sections: bool,
    /// By function: which section it is.
    section_of: Vec<Option<usize>>,
}

/// Samples from the beginning to the end.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    pub(super) idle: u64,
    pub(super) others: u64,
    /// Of watched processes, by stack.
    pub(super) of_stacks: Vec<u64>,
    /// Of these, with a stack that was followed to its beginning.
    pub(super) whole: u64,
}

/// What a sample counts as.
#[derive(Debug, Clone, Copy)]
enum Counted {
    Idle,
    Other,
    Watched { stack: usize, whole: bool },
}

impl Counts {
    fn add(&mut self, sample: Counted) {
        match sample {
            Counted::Idle => self.idle += 1,
            Counted::Other => self.others += 1,
            Counted::Watched { stack, whole } => {
                if self.of_stacks.len() <= stack {
                    self.of_stacks.resize(stack + 1, 0);
                }
                self.of_stacks[stack] += 1;
                self.whole += u64::from(whole);
            }
        }
    }
}

/// A function that has a row.
#[derive(Debug, Clone)]
pub(super) struct FunctionRow {
    pub(super) name: String,
    pub(super) file: String,
    /// See [`Function::begins`].
    begins: Option<Begin>,
}

impl SampleAccounting {
    /// `idle` is the idle power of every channel, in the order of meters and channels.
    pub(super) fn new(
        meters: &[Opened],
        idle: Option<&[Option<Mean>]>,
        sections: Vec<FunctionRow>,
    ) -> Self {
        Self {
            stacks: Stacks::default(),
            channels: Channels::new(meters, idle),
            from: Mono::NEVER,
            to: Mono::NEVER,
            counts: Counts::default(),
            waiting: VecDeque::new(),
            has_sections: !sections.is_empty(),
            sections,
            section_of: Vec::new(),
        }
    }

    /// Were sections asked for?
    pub(super) const fn has_sections(&self) -> bool {
        self.has_sections
    }

    /// What is later does not count, whether it has come already or comes yet.
    pub(super) fn end(&mut self, at: Mono) {
        self.to = at;
    }

    /// Counts those up to a moment that are no later than the end.
    fn count_to(&mut self, moment: Mono) {
        let moment = moment.min(self.to);
        while let Some((_, sample)) = self.waiting.pop_front_if(|(at, _)| *at <= moment) {
            self.counts.add(sample);
        }
    }

    /// The number of a stack of functions, or of the sections on it.
    fn number(&mut self, stack: &[usize], functions: &[Function]) -> usize {
        for function in functions.iter().skip(self.section_of.len()) {
            let section = if self.has_sections {
                self.sections.iter().position(|section| section.is(function))
            } else {
                self.sections.push(FunctionRow::observed(function));
                Some(self.sections.len() - 1)
            };
            self.section_of.push(section);
        }
        let section = |&function: &usize| self.section_of.get(function).copied().flatten();
        self.stacks.number(stack.iter().filter_map(section))
    }

    /// Nothing more will come: what the meters saw last is shared too.
    pub(super) fn close(&mut self) {
        self.count_to(self.to);
        self.channels.skip_to(self.to);
    }

    /// Names code that was made as programs ran: they may have written its names last of all.
    pub(super) fn name_generated(&mut self, samples: &mut Samples) {
        // Where functions were asked for, none of that code is one of them.
        if self.has_sections || !samples.name_generated() {
            return;
        }
        let mut first: HashMap<(&str, &Path), usize> = HashMap::new();
        let functions = samples.functions().iter().enumerate();
        let one = functions.map(|(number, function)| match function.begins {
            Some(_) => number,
            None => {
                *first.entry((function.name.as_str(), function.file.as_path())).or_insert(number)
            }
        });
        let one: Vec<usize> = one.collect();
        for (section, function) in self.sections.iter_mut().zip(samples.functions()) {
            *section = FunctionRow::observed(function);
        }
        let (stacks, numbers) = self.stacks.regrouped(&one);
        self.stacks = stacks;
        self.channels.regroup(&numbers);
        let counts = std::mem::take(&mut self.counts.of_stacks);
        self.counts.of_stacks = vec![0; self.stacks.tree().len()];
        for (count, number) in counts.into_iter().zip(numbers) {
            self.counts.of_stacks[number] += count;
        }
    }
}

impl Accounting for SampleAccounting {
    fn begin(&mut self, at: Mono) {
        self.from = at;
        self.channels.skip_to(at);
    }

    fn read(&mut self, samples: &mut Samples) {
        for (at, sample) in samples.read() {
            if at <= self.from {
                continue;
            }
            let stack = match &sample {
                Sample::Watched(stack) => Some(self.number(stack, samples.functions())),
                _ => None,
            };
            let counted = match (&sample, stack) {
                (Sample::Watched(places), Some(stack)) => {
                    Counted::Watched { stack, whole: is_whole(places, samples.functions()) }
                }
                (Sample::Idle, _) => Counted::Idle,
                _ => Counted::Other,
            };
            self.waiting.push_back((at, counted));
            self.count_to(Mono(at.0.saturating_sub(HOLD)));
            if sample != Sample::Idle {
                self.channels.take(Busy { at, stack });
            }
        }
    }

    fn event(&mut self, event: &Event) {
        self.channels.event(event);
    }
}

impl FunctionRow {
    /// What was asked for.
    pub(super) fn of(section: &Section) -> Result<Self, Error> {
        let place = &section.begin;
        let no_function = || Error::SampledAddress(section.name.clone());
        let offset = place.function()?.ok_or_else(no_function)?;
        let found = fs::metadata(&place.path).ok();
        Ok(Self {
            name: section.name.clone(),
            file: place.path.display().to_string(),
            begins: found.map(|it| Begin { device: it.dev(), inode: it.ino(), offset }),
        })
    }

    /// What was seen.
    fn observed(function: &Function) -> Self {
        let (name, file) = (function.name.clone(), function.file.display().to_string());
        Self { name, file, begins: function.begins }
    }

    fn is(&self, function: &Function) -> bool {
        self.begins.is_some() && self.begins == function.begins
    }
}

/// Was the stack followed to where its thread begins? Names of the C library's own functions are mostly not
/// known: then it begins where that library calls another file.
fn is_whole(stack: &[usize], functions: &[Function]) -> bool {
    let mut observed = stack.iter().filter_map(|number| functions.get(*number)).peekable();
    let Some(outermost) = observed.peek().copied() else { return false };
    let is_libc = outermost.file.file_name().is_some_and(|name| {
        name.as_encoded_bytes().starts_with(b"libc.") || name.as_encoded_bytes().starts_with(b"ld-")
    });
    observed.any(|function| {
        ROOTS.contains(&&*function.name)
            || is_libc && function.file != outermost.file && function.file.is_absolute()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_that_came_before_the_end_was_known_and_are_later_do_not_count() {
        let mut accounting = SampleAccounting::new(&[], None, Vec::new());
        let at = |seconds: u64| Mono(Duration::from_secs(seconds));
        for second in 1..=10 {
            accounting.waiting.push_back((at(second), Counted::Other));
        }
        accounting.count_to(at(8));
        assert_eq!(accounting.counts.others, 8);
        // It ended at 9 s, and the end became known later.
        accounting.end(at(9));
        accounting.waiting.push_back((at(11), Counted::Idle));
        accounting.close();
        assert_eq!((accounting.counts.others, accounting.counts.idle), (9, 0));
    }
}
