//! Energino and its kin: an Arduino that measures direct current, and says what it found in lines of
//! comma-separated values.

use std::time::Duration;

use nightwatt_energy::integration::Reading;
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;
use nightwatt_host::Host;

use crate::channel::{Accuracy, Channel, Scope};
use crate::error::MeterError;
use crate::frame::{Found, Framer};
use crate::meter::{Driver, Meter, Opening, Pace, Presence, Readings, Turn};
use crate::serial::{self, Arrivals, Port};
use crate::spec::MeterSpec;

pub(crate) const DRIVER: Driver = Driver {
    name: "energino",
    about: "Energino (Arduino), on a serial port",
    example: "energino=/dev/ttyACM0",
    probe: |_: &Host| Presence::NeedsAddress,
    open,
};

const SPEED: u32 = 115_200;

/// There is no documented bound: sensors differ, and each builder calibrates the device.
const ACCURACY: Accuracy = Accuracy { relative: 0.05, watts: Watts(0.5) };

/// The longest line: a key and an address of some service at its end.
const LONGEST: usize = 256;

/// Opening the port resets the Arduino: its boot loader swallows what it is told before this.
const BOOTS: Duration = Duration::from_secs(3);

/// What the meter said of a period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Mean power.
    pub watts: Watts,
    /// Over this time.
    pub over: Duration,
}

/// Finds lines in a stream of bytes.
#[derive(Debug, Clone)]
pub struct Parser {
    framer: Framer,
}

impl Default for Parser {
    fn default() -> Self {
        Self { framer: Framer::new(b"#", b"\n", LONGEST) }
    }
}

impl Parser {
    /// Takes bytes as they come; how they are cut makes no difference. Settings (`@` lines) and
    /// comments are left out.
    pub fn feed(&mut self, bytes: &[u8], mut line: impl FnMut(Line)) {
        self.framer.feed(bytes, |found| {
            if let Found::Whole(text) = found
                && let Some(read) = self::line(text)
            {
                line(read);
            }
        });
    }
}

/// `Energino,0,V,A,W,relay,period,samples` and, as the revision has it, errors in mV and mA, a battery,
/// or addresses. What follows the samples is of no use here.
fn line(text: &[u8]) -> Option<Line> {
    let text = std::str::from_utf8(text).ok()?;
    let mut fields = text.trim_ascii_end().split(',');
    let (name, revision) = (fields.next()?, fields.next()?);
    if !name.starts_with("Energino") || revision.parse::<u8>().is_err() {
        return None;
    }
    let mut number = || fields.next()?.trim_ascii().parse::<f64>().ok().filter(|it| it.is_finite());
    let (_volts, _amperes, watts, relay) = (number()?, number()?, number()?, number()?);
    let (period, samples) = (number()?, number()?);
    let whole = |number: f64, most: f64| number >= 0.0 && number <= most && number.fract() == 0.0;
    // A relay is on or off; a period without samples has no mean.
    if !whole(relay, 1.0) || !whole(period, 86_400_000.0) || !whole(samples, 1e12) {
        return None;
    }
    if period < 1.0 || samples < 1.0 {
        return None;
    }
    Some(Line { watts: Watts(watts), over: Duration::from_millis(period as u64) })
}

fn open(host: &Host, spec: &MeterSpec) -> Opening {
    spec.only(&["baud", "period"])?;
    let bounds = Duration::from_millis(10)..=Duration::from_hours(1);
    let period = serial::bounded_time(spec, "period", Duration::from_secs(1), bounds)?;
    let channel = Channel::power("load", Scope::System, ACCURACY);
    Ok(Box::new(Energino {
        channels: vec![channel],
        port: Port::open(host, spec, serial::baud(spec)?.unwrap_or(SPEED))?,
        parser: Parser::default(),
        period,
        send_period_at: None,
        lines: Vec::with_capacity(LONGEST),
        arrivals: Arrivals::default(),
    }))
}

struct Energino {
    channels: Vec<Channel>,
    port: Port,
    parser: Parser,
    period: Duration,
    /// When it is told its period, again if need be; `None` before the first turn.
    send_period_at: Option<Mono>,
    /// Those that came in together.
    lines: Vec<Line>,
    arrivals: Arrivals,
}

impl Energino {
    /// Tells it its period: it keeps that, so only if it has another, or is silent, which may be
    /// because it has a long one.
    fn send_period(&mut self, now: Mono) -> Result<(), MeterError> {
        self.send_period_at = Some(now + BOOTS);
        self.port.send(format!("#P{}\n", self.period.as_millis()).as_bytes())
    }

    fn take(
        &mut self,
        turn: &Turn<'_>,
        length: usize,
        out: &mut Readings,
    ) -> Result<(), MeterError> {
        let lines = &mut self.lines;
        lines.clear();
        self.parser.feed(self.port.came(length), |line| lines.push(line));
        let now = turn.now();
        let Some(&Line { over, .. }) = self.lines.last() else { return Ok(()) };
        self.port.made_sense();
        let moments = self.arrivals.of(self.lines.len(), over, now);
        for (at, line) in moments.zip(&self.lines) {
            out.push(0, at, Reading::MeanPower { watts: line.watts, over: line.over });
        }
        // Periods are a little longer than they were set, by the loop that keeps them.
        if over.abs_diff(self.period) * 4 <= self.period {
            self.send_period_at = Some(now + self.period + BOOTS);
        } else if self.send_period_at.is_none_or(|at| now >= at) {
            self.send_period(now)?;
        }
        Ok(())
    }
}

impl Meter for Energino {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn pace(&self) -> Pace {
        Pace::Pushed { about: self.period }
    }

    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError> {
        let mut send_period_at = *self.send_period_at.get_or_insert(turn.now() + BOOTS);
        loop {
            let length =
                self.port.read(&Turn { until: send_period_at.min(turn.until), ..*turn })?;
            self.take(turn, length, out)?;
            if !out.is_empty() || turn.stop.is_stopped() {
                return Ok(());
            }
            if turn.left().is_zero() {
                return self.port.nothing();
            }
            if turn.now() >= send_period_at {
                self.send_period(turn.now())?;
            }
            send_period_at = self.send_period_at.unwrap_or(turn.until);
        }
    }

    fn release(&mut self) {
        self.port.release();
    }
}

#[cfg(test)]
mod tests;
