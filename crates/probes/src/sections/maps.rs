//! What stands in the maps: the structs of `bpf/sections.h`.

use std::time::Duration;

use nightwatt_energy::sections::{CallEvent, bands};
use nightwatt_energy::time::Mono;

use crate::loaded::{half_word, word};

/// Stacks that may occur (`NODES`).
pub(super) const NODES: u32 = 4096;

/// Sections at a time (`SECTIONS`).
pub(super) const SECTIONS: u32 = 256;

/// Bands of lengths (`BANDS`).
const BANDS: usize = 672;

/// `struct cpu`.
pub(super) struct Cpu {
    pub(super) busy: u64,
    pub(super) idle: u64,
    pub(super) stolen: u64,
    pub(super) lost: u64,
}

impl Cpu {
    pub(super) fn of(value: &[u8]) -> Self {
        Self {
            busy: word(value, 1),
            idle: word(value, 2),
            stolen: word(value, 3),
            lost: word(value, 7),
        }
    }
}

/// Bytes that a call takes in the ring: `struct call` and the ring's own.
pub(super) const CALL: usize = 64 + 8;

/// `NO_SECTION`.
const NO_SECTION: u32 = u32::MAX;

/// `struct call`.
pub(super) fn call_event(value: &[u8]) -> CallEvent {
    let time = |number| Duration::from_nanos(word(value, number));
    let number = |place: usize| half_word(value, 40 + 4 * place);
    CallEvent {
        begin: Mono(time(0)),
        end: Mono(time(1)),
        ran: time(2),
        preempted: time(3),
        stepped: time(4),
        pid: number(0),
        tid: number(1),
        section: number(2) as usize,
        outer: Some(number(3)).filter(|outer| *outer != NO_SECTION).map(|outer| outer as usize),
        depth: number(4),
        is_left: number(5) != 0,
    }
}

/// Calls of a section.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Calls {
    /// That have ended.
    pub ended: u64,
    /// That have begun while they were watched.
    pub begun: u64,
    /// Wall-clock time of those that ended.
    pub length: Duration,
    /// Of that, on a CPU. What is nested counts in each.
    pub ran: Duration,
    /// Of that, ready to run while another task had the CPU.
    pub preempted: Duration,
    /// Left by another way: `longjmp`, an exception, the end of their thread.
    pub unended: u64,
    /// Ended without having begun while they were watched.
    pub unbegun: u64,
    /// Begun inside of so many others that there was no room to count them.
    pub too_deep: u64,
    /// How many by length, in [`bands`].
    pub bands: Vec<u64>,
}

impl Calls {
    /// `struct section` of one CPU.
    pub(super) fn of(value: &[u8]) -> Self {
        let time = |number| Duration::from_nanos(word(value, number));
        Self {
            ended: word(value, 0),
            begun: word(value, 1),
            length: time(2),
            ran: time(3),
            preempted: time(4),
            unended: word(value, 5),
            unbegun: word(value, 6),
            too_deep: word(value, 7),
            bands: (0..BANDS).map(|band| half_word(value, 64 + 4 * band).into()).collect(),
        }
    }

    /// Those of two CPUs.
    pub(super) fn and(mut self, other: &Self) -> Self {
        self.ended += other.ended;
        self.begun += other.begun;
        self.length += other.length;
        self.ran += other.ran;
        self.preempted += other.preempted;
        self.unended += other.unended;
        self.unbegun += other.unbegun;
        self.too_deep += other.too_deep;
        self.bands.resize(BANDS, 0);
        for (sum, more) in self.bands.iter_mut().zip(&other.bands) {
            *sum += more;
        }
        self
    }

    /// The length that so much of the calls did not exceed; at most a sixteenth too long.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        bands::quantile(&self.bands, share)
    }
}
