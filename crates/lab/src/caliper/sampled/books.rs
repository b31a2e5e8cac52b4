//! Each channel's energy by stack, reading by reading.

use std::fs;
use std::os::unix::fs::MetadataExt;

use nightwatt_meters::sampler::Opened;
use nightwatt_model::quantity::Watts;
use nightwatt_model::sample::Piece;
use nightwatt_model::samples::{Busy, SampledShares, Stacks};
use nightwatt_model::time::Mono;
use nightwatt_model::uncertainty::Mean;
use nightwatt_probes::{Function, Sample, Samples};

use super::{Event, Section};
use crate::error::Error;

/// Where stacks of threads begin.
const ROOTS: [&str; 7] =
    ["_start", "main", "__libc_start_call_main", "start_thread", "clone", "__clone3", "clone3"];

/// What is seen and what it takes.
pub(super) struct Books {
    pub(super) stacks: Stacks,
    meters: Vec<Vec<OneChannel>>,
    /// What counts: from when to when.
    from: Mono,
    to: Mono,
    pub(super) counts: Counts,
    /// What the numbers on stacks stand for: the sections that were asked for, else every function.
    pub(super) sections: Vec<Named>,
    asked: bool,
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

/// A function that has a row.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) file: String,
    /// See [`Function::begins`].
    begins: Option<(u64, u64, u64)>,
}

/// Of one channel.
pub(super) struct OneChannel {
    pub(super) idle: Option<Mean>,
    pub(super) shares: SampledShares,
}

impl Books {
    /// `idle` is the idle power of every channel, in the order of meters and channels.
    pub(super) fn new(
        meters: &[Opened],
        idle: Option<&[Option<Mean>]>,
        sections: Vec<Named>,
    ) -> Self {
        let mut idle = idle.into_iter().flatten();
        let mut one = || {
            let idle = idle.next().copied().flatten();
            let power = idle.map_or(Watts::ZERO, |idle| Watts(idle.mean));
            OneChannel { idle, shares: SampledShares::new(power) }
        };
        let of_meter = |meter: &Opened| meter.channels().iter().map(|_| one()).collect();
        Self {
            stacks: Stacks::default(),
            meters: meters.iter().map(of_meter).collect(),
            from: Mono::NEVER,
            to: Mono::NEVER,
            counts: Counts::default(),
            asked: !sections.is_empty(),
            sections,
            section_of: Vec::new(),
        }
    }

    /// Were sections asked for?
    pub(super) const fn asked(&self) -> bool {
        self.asked
    }

    /// From here on it counts.
    pub(super) fn begin(&mut self, at: Mono) {
        self.from = at;
        for channel in self.meters.iter_mut().flatten() {
            channel.shares.skip_to(at);
        }
    }

    /// What comes later does not count.
    pub(super) fn end(&mut self, at: Mono) {
        self.to = at;
    }

    /// Takes the samples that have come.
    pub(super) fn read(&mut self, samples: &mut Samples) {
        for (at, sample) in samples.read() {
            let counts = self.from < at && at <= self.to;
            let stack = match &sample {
                Sample::Watched(stack) => Some(self.number(stack, samples.functions())),
                _ => None,
            };
            if counts {
                self.count(&sample, stack, samples.functions());
            }
            if sample != Sample::Idle {
                for channel in self.meters.iter_mut().flatten() {
                    channel.shares.take(Busy { at, stack });
                }
            }
        }
    }

    fn count(&mut self, sample: &Sample, stack: Option<usize>, functions: &[Function]) {
        let counts = &mut self.counts;
        match (sample, stack) {
            (Sample::Watched(functions_of), Some(stack)) => {
                if counts.of_stacks.len() <= stack {
                    counts.of_stacks.resize(stack + 1, 0);
                }
                counts.of_stacks[stack] += 1;
                counts.whole += u64::from(is_whole(functions_of, functions));
            }
            (Sample::Idle, _) => counts.idle += 1,
            _ => counts.others += 1,
        }
    }

    /// The number of a stack of functions, or of the sections on it.
    fn number(&mut self, stack: &[usize], functions: &[Function]) -> usize {
        for function in functions.iter().skip(self.section_of.len()) {
            let section = if self.asked {
                self.sections.iter().position(|section| section.is(function))
            } else {
                self.sections.push(Named::seen(function));
                Some(self.sections.len() - 1)
            };
            self.section_of.push(section);
        }
        let section = |&function: &usize| self.section_of.get(function).copied().flatten();
        self.stacks.number(stack.iter().filter_map(section))
    }

    /// A meter said something.
    pub(super) fn event(&mut self, event: &Event) {
        let Event::Sample { meter, channel, at, piece } = *event else { return };
        let channel = self.meters.get_mut(meter).and_then(|meter| meter.get_mut(channel));
        let Some(channel) = channel else { return };
        match piece {
            Piece::Covers { joules, time } => channel.shares.share(joules, time, at),
            // Nothing is known of the time up to here.
            Piece::Begins | Piece::Gap(_) => channel.shares.skip_to(at),
            Piece::Ignored => {}
        }
    }

    /// Nothing more will come: what the meters saw last is shared too.
    pub(super) fn close(&mut self) {
        for channel in self.meters.iter_mut().flatten() {
            channel.shares.skip_to(self.to);
        }
    }

    /// Channel by channel, meter by meter.
    pub(super) fn channels(&self) -> impl Iterator<Item = (usize, usize, &OneChannel)> {
        self.meters.iter().enumerate().flat_map(|(meter, channels)| {
            channels.iter().enumerate().map(move |(place, channel)| (meter, place, channel))
        })
    }
}

impl Named {
    /// What was asked for.
    pub(super) fn of(section: &Section) -> Result<Self, Error> {
        let place = &section.begin;
        let nobody = || Error::SampledAddress(section.name.clone());
        let begin = place.function()?.ok_or_else(nobody)?;
        let found = fs::metadata(&place.path).ok();
        Ok(Self {
            name: section.name.clone(),
            file: place.path.display().to_string(),
            begins: found.map(|found| (found.dev(), found.ino(), begin)),
        })
    }

    /// What was seen.
    fn seen(function: &Function) -> Self {
        let (name, file) = (function.name.clone(), function.file.display().to_string());
        Self { name, file, begins: function.begins }
    }

    fn is(&self, function: &Function) -> bool {
        self.begins.is_some() && self.begins == function.begins
    }
}

/// Was the stack followed to where its thread begins? Names of the C library's own functions are
/// mostly not known: then its beginning is where that library calls somebody else.
fn is_whole(stack: &[usize], functions: &[Function]) -> bool {
    let mut seen = stack.iter().filter_map(|number| functions.get(*number)).peekable();
    let Some(outermost) = seen.peek().copied() else { return false };
    let is_libc = outermost.file.file_name().is_some_and(|name| {
        name.as_encoded_bytes().starts_with(b"libc.") || name.as_encoded_bytes().starts_with(b"ld-")
    });
    seen.any(|function| {
        ROOTS.contains(&&*function.name)
            || is_libc && function.file != outermost.file && function.file.is_absolute()
    })
}
