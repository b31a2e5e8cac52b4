//! Watts up? PRO and its kin: a meter between plug and socket, read over its serial line.
//!
//! Packets are `#C,S,n,arguments;` (serial protocol v4.42). Nothing is ever sent but the start of
//! external logging and a question for the version: other commands clear the meter's memory.

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
    name: "wattsup",
    about: "Watts up? PRO, on a serial port",
    example: "wattsup=/dev/ttyUSB0",
    probe: |_: &Host| Presence::NeedsAddress,
    open,
};

/// The data sheet: 1.5 % and three counts of 0.1 W.
const ACCURACY: Accuracy = Accuracy { relative: 0.015, watts: Watts(0.3) };

/// Hardware of minor version 1 has the slower one.
const SPEEDS: [u32; 2] = [115_200, 19_200];

/// What programs send in the reserved field of the command that starts logging: firmware differs in
/// what it takes.
const RESERVED: [&str; 4] = ["", "0", "1", "-"];

/// The longest packet: the names of 18 fields.
const LONGEST: usize = 512;

/// A meter that has not said anything has this much longer than its interval to do so, before the
/// next speed is tried; one that is known to be there has a second.
const TIMEOUT: Duration = Duration::from_millis(200);

/// The channel of any Watts up? meter.
pub(crate) fn channel() -> Channel {
    let channel = Channel::power("wall", Scope::Wall, ACCURACY);
    Channel { accuracy_source: "data sheet", step: 0.1, ..channel }
}

/// A packet of the meter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Packet {
    /// Figures of an interval: the mean power, if the meter logs it.
    Data(Option<Watts>),
    /// Any other whole packet: an answer.
    Other,
    /// One that should have been data, and is damaged.
    Damaged,
}

/// Finds packets in a stream of bytes.
#[derive(Debug, Clone)]
pub struct Parser {
    framer: Framer,
}

impl Default for Parser {
    fn default() -> Self {
        Self { framer: Framer::new(b"#", b";", LONGEST) }
    }
}

impl Parser {
    /// Takes bytes as they come; how they are cut makes no difference.
    pub fn feed(&mut self, bytes: &[u8], mut packet: impl FnMut(Packet)) {
        self.framer.feed(bytes, |found| {
            let read = match found {
                Found::Whole(text) => self::packet(text),
                Found::Cut(_) => None,
            };
            let (Found::Whole(text) | Found::Cut(text)) = found;
            match read {
                Some(read) => packet(read),
                None if text.starts_with(b"d,") => packet(Packet::Damaged),
                None => {}
            }
        });
    }

    fn reset(&mut self) {
        self.framer.reset();
    }
}

/// What stands between `#` and `;`; `None` if it is no packet.
fn packet(text: &[u8]) -> Option<Packet> {
    let mut fields = text.split(|&byte| byte == b',');
    let (command, kind) = (fields.next()?, fields.next()?);
    let [command @ b'A'..=b'z'] = command else { return None };
    if kind.len() > 1 {
        return None;
    }
    let count = number(fields.next()?)?;
    if usize::try_from(count) != Ok(fields.clone().count()) {
        return None;
    }
    if *command != b'd' {
        return Some(Packet::Other);
    }
    if count != 18 && count != 16 {
        return None;
    }
    let mut watts = None;
    for (index, field) in fields.enumerate() {
        let value = if field == b"_" { None } else { Some(number(field)?) };
        if index == 0 {
            watts = value.map(|tenths| Watts(tenths as f64 / 10.0));
        }
    }
    Some(Packet::Data(watts))
}

/// A whole number of at most nine digits.
fn number(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.is_empty() || digits.len() > 9 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn open(host: &Host, spec: &MeterSpec) -> Opening {
    spec.only(&["baud", "interval"])?;
    let bounds = Duration::from_secs(1)..=Duration::from_hours(1);
    let interval = serial::bounded_time(spec, "interval", Duration::from_secs(1), bounds)?;
    if interval.subsec_nanos() != 0 {
        return Err(spec.wrong("`interval` is a number of whole seconds"));
    }
    let speeds = serial::baud(spec)?.map_or(SPEEDS.to_vec(), |baud| vec![baud]);
    Ok(Box::new(WattsUp {
        channels: vec![channel()],
        port: Port::open(host, spec, speeds[0])?,
        parser: Parser::default(),
        interval,
        speeds,
        start: Start::default(),
        watts: Vec::with_capacity(LONGEST),
        arrivals: Arrivals::default(),
    }))
}

struct WattsUp {
    channels: Vec<Channel>,
    port: Port,
    parser: Parser,
    interval: Duration,
    speeds: Vec<u32>,
    start: Start,
    /// Means that came in together.
    watts: Vec<Watts>,
    arrivals: Arrivals,
}

/// How far the beginning has come: which speed and which form of the command are tried.
#[derive(Debug, Default)]
struct Start {
    speed: usize,
    reserved: usize,
    /// Until when; `None` before the first.
    until: Option<Mono>,
    /// It has said something that makes sense at this speed.
    has_answered: bool,
    /// It logs.
    done: bool,
}

impl WattsUp {
    /// Tries the first, or the next, speed and form of the command.
    fn next_try(&mut self, turn: &Turn<'_>) -> Result<(), MeterError> {
        let start = &mut self.start;
        if start.until.is_some() {
            if !start.has_answered {
                start.speed = (start.speed + 1) % self.speeds.len();
            }
            if start.has_answered || start.speed == 0 {
                start.reserved = (start.reserved + 1) % RESERVED.len();
            }
        }
        let (baud, reserved) = (self.speeds[start.speed], RESERVED[start.reserved]);
        let timeout = if start.has_answered { Duration::from_secs(1) } else { TIMEOUT };
        start.until = Some(turn.now() + self.interval + timeout);
        if baud != self.port.baud() {
            self.port.set_speed(baud)?;
            self.parser.reset();
        }
        if !start.has_answered {
            self.port.send(b"#V,R,0;")?;
        }
        let seconds = self.interval.as_secs();
        self.port.send(format!("#L,W,3,E,{reserved},{seconds};").as_bytes())
    }

    /// Takes what came in.
    fn take(&mut self, turn: &Turn<'_>, length: usize, out: &mut Readings) {
        let (start, watts) = (&mut self.start, &mut self.watts);
        watts.clear();
        let mut damaged = 0;
        self.parser.feed(self.port.came(length), |packet| match packet {
            Packet::Data(mean) => {
                (start.has_answered, start.done) = (true, true);
                watts.extend(mean);
            }
            Packet::Other => start.has_answered = true,
            Packet::Damaged => damaged += 1,
        });
        if damaged > 0 {
            tracing::debug!(damaged, "packets of a Watts up? were damaged");
        }
        if !watts.is_empty() {
            self.port.made_sense();
        }
        let moments = self.arrivals.of(watts.len(), self.interval, turn.now());
        for (at, &watts) in moments.zip(watts.iter()) {
            out.push(0, at, Reading::MeanPower { watts, over: self.interval });
        }
    }
}

impl Meter for WattsUp {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn pace(&self) -> Pace {
        Pace::Pushed { about: self.interval }
    }

    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError> {
        loop {
            let tried = self.start.until.is_none_or(|until| turn.now() >= until);
            if !self.start.done && tried {
                self.next_try(turn)?;
            }
            let until = self.start.until.filter(|_| !self.start.done).unwrap_or(turn.until);
            let length = self.port.read(&Turn { until: until.min(turn.until), ..*turn })?;
            self.take(turn, length, out);
            if !out.is_empty() || turn.stop.is_stopped() {
                return Ok(());
            }
            if turn.left().is_zero() {
                return self.port.nothing();
            }
        }
    }

    fn release(&mut self) {
        self.port.release();
    }
}

#[cfg(test)]
mod tests;
