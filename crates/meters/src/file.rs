//! A recording that is played again, as if its meter were there.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_energy::integration::{Piece, Reading};
use nightwatt_energy::quantity::Joules;
use nightwatt_energy::time::Mono;
use nightwatt_energy::wrapping_counter::CounterSpec;
use nightwatt_host::Host;

use crate::channel::Channel;
use crate::error::MeterError;
use crate::log::{self, Entry, Log, Options, Skipped};
use crate::meter::{Driver, Meter, Opening, Pace, Presence, Readings, Turn};
use crate::spec::MeterSpec;

pub(crate) const DRIVER: Driver = Driver {
    name: "file",
    about: "a recording, played at its own pace",
    example: "file=watts.csv.gz",
    probe: |_: &Host| Presence::NeedsAddress,
    open,
};

/// Readings of faster recordings come in blocks.
const FASTEST: Duration = Duration::from_millis(10);

/// Readings of one turn, so that a fast player does not hold all of a recording at once: what is due
/// beyond that waits for the next. A minute of a thousand a second fits.
const MOST: usize = 1 << 16;

fn open(host: &Host, spec: &MeterSpec) -> Opening {
    let own = ["speed", "loop"];
    spec.only(&[&own[..], &Options::NAMES[..]].concat())?;
    let address = Path::new(spec.address("watts.csv.gz")?);
    let path = if address.is_absolute() { host.path(address) } else { address.to_owned() };
    let speed = spec.number("speed")?.unwrap_or(1.0);
    if !(1e-3..=1e9).contains(&speed) {
        return Err(spec.wrong("`speed` lies between 0.001 and 1000000000"));
    }
    let options = Options::of(spec)?;
    let log = log::open(&path, &options)?;
    Ok(Box::new(Player {
        channels: log.channels().iter().map(|it| faster_counter(it, speed)).collect(),
        about: log.about(),
        again: spec.truth("loop")?.unwrap_or(false),
        path,
        options,
        speed,
        log: Some(log),
        skipped: None,
        next: None,
        begun: None,
        last: Mono::ZERO,
    }))
}

struct Player {
    channels: Vec<Channel>,
    about: Duration,
    again: bool,
    path: PathBuf,
    options: Options,
    speed: f64,
    /// None at its end.
    log: Option<Log>,
    /// What was left out by its end.
    skipped: Option<Skipped>,
    /// Read, and not due yet.
    next: Option<Entry>,
    /// When this round began: the first began with the first turn.
    begun: Option<Mono>,
    /// The last of this round, in the recording's time.
    last: Mono,
}

impl Player {
    /// The next reading; None when there is nothing more to play.
    fn next(&mut self) -> Result<Option<Entry>, MeterError> {
        if self.next.is_some() {
            return Ok(self.next);
        }
        let Some(log) = &mut self.log else { return Ok(None) };
        self.next = match log.next() {
            Some(Ok(entry)) => Some(entry),
            Some(Err(error)) => {
                self.log = None;
                return Err(error);
            }
            None if self.again => {
                let mut log = log::open(&self.path, &self.options)?;
                let first = log.next().transpose()?;
                // The first of this round comes one interval after the last of the round before.
                let first_at = first.map_or(Mono::ZERO, |entry| entry.mono);
                let round = (self.last + self.about).since(first_at);
                self.begun = self.begun.map(|begun| begun + round.div_f64(self.speed));
                self.log = Some(log);
                first
            }
            None => {
                self.skipped = log.skipped().cloned();
                self.log = None;
                None
            }
        };
        Ok(self.next)
    }
}

/// What a reading added, played `speed` times as fast: the same power for a shorter time.
fn faster(piece: Piece, speed: f64) -> Piece {
    match piece {
        Piece::Covers { joules, time } => {
            Piece::Covers { joules: Joules(joules.get() / speed), time: time.div_f64(speed) }
        }
        piece => piece,
    }
}

/// A counter that counts the same in a shorter time counts less in each step.
fn faster_counter(channel: &Channel, speed: f64) -> Channel {
    let counter = channel.counter.map(|counter| CounterSpec {
        joules_per_count: counter.joules_per_count / speed,
        ..counter
    });
    Channel { counter, ..channel.clone() }
}

impl Meter for Player {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// A recording is asked what it would have said by now. So gaps in it are gaps, and its end is
    /// the end of its readings: it is never silent, and never has to be opened again.
    fn pace(&self) -> Pace {
        let usual = self.about.div_f64(self.speed).max(FASTEST);
        Pace::Polled { fastest: usual, usual }
    }

    fn remarks(&self) -> Vec<String> {
        let skipped = self.log.as_ref().and_then(Log::skipped).or(self.skipped.as_ref());
        skipped.map(|skipped| format!("{}: {skipped}", self.path.display())).into_iter().collect()
    }

    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError> {
        let now = turn.now();
        self.begun.get_or_insert(now);
        for _ in 0..MOST {
            let Some(entry) = self.next()? else { break };
            let begun = self.begun.unwrap_or(now);
            let due = begun + entry.mono.since(Mono::ZERO).div_f64(self.speed);
            if due > now {
                break;
            }
            let reading = match entry.reading {
                Reading::MeanPower { watts, over } => {
                    Reading::MeanPower { watts, over: over.div_f64(self.speed) }
                }
                reading => reading,
            };
            match entry.piece {
                None => out.push(entry.channel, due, reading),
                Some(piece) => {
                    out.push_known(entry.channel, due, reading, faster(piece, self.speed));
                }
            }
            self.last = self.last.max(entry.mono);
            self.next = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
