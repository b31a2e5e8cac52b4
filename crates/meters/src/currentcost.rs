//! Current Cost (CC128, `EnviR` and the older Classic): a display that hears clamps and sockets by radio,
//! and says what it heard in pieces of XML, about every six seconds. It cannot be asked.

use std::time::Duration;

use nightwatt_energy::integration::Reading;
use nightwatt_energy::quantity::{JOULES_PER_KWH, Watts};
use nightwatt_energy::wrapping_counter::CounterSpec;
use nightwatt_host::Host;

use crate::channel::{Accuracy, Channel, Scope};
use crate::error::MeterError;
use crate::frame::{Found, Framer};
use crate::meter::{Driver, Meter, Opening, Pace, Presence, Readings, Turn};
use crate::serial::{self, Port};
use crate::spec::MeterSpec;

pub(crate) const DRIVER: Driver = Driver {
    name: "currentcost",
    about: "Current Cost display, on a serial port",
    example: "currentcost=/dev/ttyUSB0",
    probe: |_: &Host| Presence::NeedsAddress,
    open,
};

const SPEED: u32 = 57_600;

/// The usual interval between reports of a sensor.
const EVERY: Duration = Duration::from_secs(6);

/// Clamps measure current, and watts are current times the nominal voltage, whatever the power
/// factor: mains may be 10 % off by the standard (EN 50160), and no data sheet says more.
const CLAMPS: Accuracy = Accuracy { relative: 0.1, watts: Watts(5.0) };

/// Impulses are counted, not measured: what is behind them is another meter.
const IMPULSES: Accuracy = Accuracy::relative(0.02);

/// A house cannot draw more.
const MOST: Watts = Watts(100_000.0);

/// The longest message: history of ten sensors.
const LONGEST: usize = 8192;

/// What a sensor said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Its number, 0 to 9; older displays have one only.
    pub sensor: u8,
    /// Its figures.
    pub figures: Figures,
}

/// Figures of a sensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figures {
    /// Watts of its clamps, of which a sensor has up to three.
    Clamps([Option<i64>; 3]),
    /// Impulses of another meter.
    Impulses {
        /// So far.
        count: u64,
        /// For each kWh.
        per_kwh: u64,
    },
}

/// Finds messages in a stream of bytes.
#[derive(Debug, Clone)]
pub struct Parser {
    framer: Framer,
}

impl Default for Parser {
    fn default() -> Self {
        Self { framer: Framer::new(b"<msg>", b"</msg>", LONGEST) }
    }
}

impl Parser {
    /// Takes bytes as they come; how they are cut makes no difference. History is left out.
    pub fn feed(&mut self, bytes: &[u8], mut message: impl FnMut(Message)) {
        self.framer.feed(bytes, |found| {
            if let Found::Whole(text) = found
                && let Some(read) = self::message(text)
            {
                message(read);
            }
        });
    }
}

/// What stands in a message.
fn message(text: &[u8]) -> Option<Message> {
    // History has channels and sensors of its own; older displays send it with the figures.
    let (text, after) = match position(text, b"<hist>") {
        None => (text, &[][..]),
        Some(start) => {
            let end = position(text, b"</hist>").filter(|end| *end > start)?;
            (&text[..start], &text[end..])
        }
    };
    let element = |name: &str| element(text, name).or_else(|| element(after, name));
    let sensor = match element("sensor") {
        None => 0,
        Some(text) => u8::try_from(number(text)?).ok().filter(|sensor| *sensor <= 9)?,
    };
    if let Some(count) = element("imp") {
        let (count, per_kwh) = (number(count)?, number(element("ipu")?)?);
        let (count, per_kwh) = (u64::try_from(count).ok()?, u64::try_from(per_kwh).ok()?);
        return Some(Message { sensor, figures: Figures::Impulses { count, per_kwh } });
    }
    let clamp = |name| number(self::element(element(name)?, "watts")?);
    let clamps = ["ch1", "ch2", "ch3"].map(clamp);
    clamps
        .iter()
        .any(Option::is_some)
        .then_some(Message { sensor, figures: Figures::Clamps(clamps) })
}

/// What stands in the first element of that name.
fn element<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (start, end) = (format!("<{name}>"), format!("</{name}>"));
    let inside = &text[position(text, start.as_bytes())? + start.len()..];
    Some(&inside[..position(inside, end.as_bytes())?])
}

fn position(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// A whole number of at most 15 digits, perhaps with spaces before it.
fn number(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii();
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.len() > 15 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// What a channel takes from messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// All clamps of a sensor, as the display shows them: phases of one supply.
    Sum(u8),
    /// One of them, from 0.
    Clamp(u8, usize),
    /// Impulses of a sensor, so many for each kWh.
    Impulses(u8, u64),
}

impl Source {
    const fn sensor(self) -> u8 {
        match self {
            Self::Sum(sensor) | Self::Clamp(sensor, _) | Self::Impulses(sensor, _) => sensor,
        }
    }

    fn channel(self) -> Channel {
        match self {
            Self::Sum(sensor) => {
                let channel = Channel::power(format!("sensor-{sensor}"), Scope::Wall, CLAMPS);
                Channel { step: 1.0, ..channel }
            }
            Self::Clamp(sensor, clamp) => {
                let name = format!("sensor-{sensor}-{}", clamp + 1);
                Channel { step: 1.0, ..Channel::power(name, Scope::Wall, CLAMPS) }
            }
            Self::Impulses(sensor, per_kwh) => {
                let joules_per_count = JOULES_PER_KWH / per_kwh as f64;
                let counter = CounterSpec { joules_per_count, range: None, most: MOST };
                let name = format!("sensor-{sensor}-impulses");
                Channel::counter(name, Scope::Wall, counter, IMPULSES)
            }
        }
    }

    fn reading(self, message: Message) -> Option<Reading> {
        match (self, message.figures) {
            (Self::Sum(_), Figures::Clamps(clamps)) => {
                Some(Reading::Power(Watts(clamps.iter().flatten().sum::<i64>() as f64)))
            }
            (Self::Clamp(_, clamp), Figures::Clamps(clamps)) => {
                Some(Reading::Power(Watts(clamps[clamp]? as f64)))
            }
            (Self::Impulses(_, per_kwh), Figures::Impulses { count, per_kwh: reported }) => {
                // A display that was never told says 0.
                (reported == per_kwh || reported == 0).then_some(Reading::Counter(count))
            }
            _ => None,
        }
    }
}

/// The options `sensors=0+1.2`, sensors and perhaps one of their clamps, and `impulses=9:1000`,
/// sensors that count impulses and how many of them are a kWh.
fn sources(spec: &MeterSpec) -> Result<Vec<Source>, MeterError> {
    let sensor = |text: &str| match text.parse() {
        Ok(sensor @ 0..=9_u8) => Ok(sensor),
        _ => Err(spec.wrong(format!("a sensor is a number from 0 to 9, and not `{text}`"))),
    };
    let mut sources = Vec::new();
    if let Some(text) = spec.text("impulses") {
        for part in text.split('+') {
            let (name, per_kwh) = part.split_once(':').unwrap_or((part, "1000"));
            let per_kwh = per_kwh.parse().ok().filter(|per_kwh| (1..=1_000_000).contains(per_kwh));
            let per_kwh = per_kwh.ok_or_else(|| {
                spec.wrong(format!("`impulses` is `SENSOR:PER_KWH` as `9:1000`, and not `{part}`"))
            })?;
            sources.push(Source::Impulses(sensor(name)?, per_kwh));
        }
    }
    let usual = if sources.is_empty() { Some("0") } else { None };
    for part in spec.text("sensors").or(usual).into_iter().flat_map(|text| text.split('+')) {
        let source = match part.split_once('.') {
            None => Source::Sum(sensor(part)?),
            Some((name, clamp)) => match clamp.parse() {
                Ok(clamp @ 1..=3_usize) => Source::Clamp(sensor(name)?, clamp - 1),
                _ => return Err(spec.wrong(format!("clamps are 1, 2 and 3, and not `{clamp}`"))),
            },
        };
        if sources.contains(&source) {
            return Err(spec.wrong(format!("`sensors` has `{part}` twice")));
        }
        sources.push(source);
    }
    Ok(sources)
}

fn open(host: &Host, spec: &MeterSpec) -> Opening {
    spec.only(&["baud", "sensors", "impulses"])?;
    let sources = sources(spec)?;
    Ok(Box::new(CurrentCost {
        channels: sources.iter().map(|source| source.channel()).collect(),
        sources,
        port: Port::open(host, spec, serial::baud(spec)?.unwrap_or(SPEED))?,
        parser: Parser::default(),
        unlisted: 0,
    }))
}

struct CurrentCost {
    channels: Vec<Channel>,
    sources: Vec<Source>,
    port: Port,
    parser: Parser,
    /// Sensors that report and that the user did not ask for, one bit each.
    unlisted: u16,
}

impl CurrentCost {
    fn take(&mut self, turn: &Turn<'_>, length: usize, out: &mut Readings) {
        let (sources, unlisted) = (&self.sources, &mut self.unlisted);
        let (now, mut received) = (turn.now(), false);
        self.parser.feed(self.port.came(length), |message| {
            received = true;
            let sensor = message.sensor;
            let mut is_listed = false;
            for (channel, source) in sources.iter().enumerate() {
                if source.sensor() == sensor
                    && let Some(reading) = source.reading(message)
                {
                    is_listed = true;
                    out.push(channel, now, reading);
                }
            }
            if !is_listed && *unlisted & (1 << sensor) == 0 {
                *unlisted |= 1 << sensor;
                tracing::info!(
                    sensor,
                    "a Current Cost sensor speaks that is not among `sensors` or `impulses`"
                );
            }
        });
        if received {
            self.port.made_sense();
        }
    }
}

impl Meter for CurrentCost {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn pace(&self) -> Pace {
        Pace::Pushed { about: EVERY }
    }

    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError> {
        loop {
            let length = self.port.read(turn)?;
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
