//! What every driver offers.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_energy::integration::{Piece, Reading};
use nightwatt_energy::time::Mono;
use nightwatt_host::Host;

use crate::channel::Channel;
use crate::error::MeterError;
use crate::spec::MeterSpec;

/// A kind of meter.
#[derive(Debug, Clone, Copy)]
pub struct Driver {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line for `nightwatt meters`.
    pub about: &'static str,
    /// How to name one: `shelly=http://192.168.1.20`.
    pub example: &'static str,
    /// Looks whether this machine has one. Quick, and without network.
    pub probe: fn(&Host) -> Presence,
    /// Opens one.
    pub open: fn(&Host, &MeterSpec) -> Opening,
}

/// An open meter, or why it cannot be opened.
pub type Opening = Result<Box<dyn Meter>, MeterError>;

/// Does this machine have such a meter?
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// Yes, and it can be read.
    Available,
    /// No.
    Absent(String),
    /// Yes, but it may not be read.
    Denied {
        /// What may not be read.
        what: String,
        /// What helps.
        hint: String,
    },
    /// It is not part of a machine: the user has to give its address.
    NeedsAddress,
}

/// An open meter. It lives in a thread of its own, and may block there.
pub trait Meter: Send {
    /// What it measures. Does not change while it is open.
    fn channels(&self) -> &[Channel];

    /// How it is read.
    fn pace(&self) -> Pace;

    /// Adds readings to `out`: of now where the meter is polled; of what came in since, waiting until
    /// `turn` ends for the first, where it speaks by itself.
    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError>;

    /// What the user has to know beside its figures: parts that cannot be read, figures that are not
    /// believed, rows that were left out.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// Gives up what only one can hold (a serial port, a buffer): it failed, and is about to be opened
    /// again while this one still lives. Reading it afterwards is an error.
    fn release(&mut self) {}
}

/// How a meter is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// It answers whenever it is asked.
    Polled {
        /// More often makes no sense: its figures are no newer.
        fastest: Duration,
        /// The interval between two readings unless the user sets one.
        usual: Duration,
    },
    /// It sends readings by itself, about this often.
    Pushed {
        /// Between two readings.
        about: Duration,
    },
}

impl Pace {
    /// Time between two readings, `requested` by the user or the usual one.
    pub fn interval(self, requested: Option<Duration>) -> Duration {
        match self {
            Self::Polled { fastest, usual } => requested.unwrap_or(usual).max(fastest),
            Self::Pushed { about } => about,
        }
    }
}

/// One call of [`Meter::read`]: what ends it.
#[derive(Debug, Clone, Copy)]
pub struct Turn<'a> {
    /// Ends when the sampler does.
    pub stop: &'a Stop,
    /// A wait for the meter returns at this time, with the readings so far.
    pub until: Mono,
}

impl Turn<'_> {
    /// The present, on the time base of all readings.
    pub fn now(&self) -> Mono {
        monotonic()
    }

    /// Waits for a file to become readable, to the end of the turn.
    pub fn readable(&self, file: BorrowedFd<'_>) -> Woken {
        self.stop.readable_until(file, self.until)
    }

    /// What is left of it.
    pub fn left(&self) -> Duration {
        self.until.since(monotonic())
    }
}

/// Readings of one turn.
#[derive(Debug, Default)]
pub struct Readings {
    values: Vec<(usize, Mono, Reading)>,
    /// Of each, what it is known to add; as long as `values`, or empty where nothing is known.
    known: Vec<Option<Piece>>,
    /// Parts that could not be read.
    failed: Vec<MeterError>,
    /// Time that was spent waiting for the meter to have something new.
    pub(crate) waited: Duration,
}

impl Readings {
    /// With room for as many as come in one turn: the sampler does not allocate.
    pub fn with_capacity(readings: usize) -> Self {
        Self { values: Vec::with_capacity(readings), ..Self::default() }
    }

    /// Adds one: the channel by its place in [`Meter::channels`].
    pub fn push(&mut self, channel: usize, at: Mono, reading: Reading) {
        self.values.push((channel, at, reading));
    }

    /// Adds one that was integrated when it was recorded: `piece` is what it added then.
    pub fn push_known(&mut self, channel: usize, at: Mono, reading: Reading, piece: Piece) {
        self.known.resize(self.values.len(), None);
        self.known.push(Some(piece));
        self.push(channel, at, reading);
    }

    /// A part of the meter could not be read; the others can be.
    pub fn fail(&mut self, error: MeterError) {
        self.failed.push(error);
    }

    /// What a turn came to: why parts could not be read, or an error where none could be. The failures
    /// are forgotten here.
    pub fn outcome(
        &mut self,
        result: Result<(), MeterError>,
    ) -> Result<Vec<MeterError>, MeterError> {
        let mut failed = std::mem::take(&mut self.failed);
        result?;
        if self.values.is_empty() && !failed.is_empty() {
            return Err(failed.swap_remove(0));
        }
        Ok(failed)
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &(usize, Mono, Reading)> {
        self.values.iter()
    }

    /// All of them, with what they are known to add.
    pub(crate) fn with_known(
        &self,
    ) -> impl Iterator<Item = (&(usize, Mono, Reading), Option<Piece>)> {
        let known = self.known.iter().copied().chain(std::iter::repeat(None));
        self.values.iter().zip(known)
    }

    /// Forgets them, and keeps the room.
    pub fn clear(&mut self) {
        self.values.clear();
        self.known.clear();
        self.waited = Duration::ZERO;
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}
