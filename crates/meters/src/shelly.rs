//! Shelly plugs and relays, over their local interface.
//!
//! Generation 1: `/status` with `meters` (total in watt minutes) and `emeters` (in Wh). Generation 2
//! and later: components of `Shelly.GetStatus` (`aenergy.total` in Wh). Which one it is, `/shelly`
//! tells. Reference: shelly-api-docs.shelly.cloud.

use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_energy::integration::Reading;
use nightwatt_energy::quantity::Watts;
use nightwatt_host::Host;
use serde_json::Value;

use crate::channel::{Accuracy, Channel, Scope};
use crate::error::MeterError;
use crate::figure::{Figure, FigureKind};
use crate::json;
use crate::meter::{Driver, Meter, Opening, Pace, Presence, Readings, Turn};
use crate::spec::MeterSpec;
use crate::web::{self, Web};

pub(crate) const DRIVER: Driver = Driver {
    name: "shelly",
    about: "Shelly plugs and relays that measure power",
    example: "shelly=http://192.168.1.20",
    probe: |_| Presence::NeedsAddress,
    open,
};

/// The vendor states no bound for most of them.
const ACCURACY: Accuracy = Accuracy { relative: 0.02, watts: Watts(0.5) };

/// Their counters are brought up to date about once a minute.
const COUNTS_EVERY: Duration = Duration::from_mins(1);

/// A component that measures, as it is called in the device's status.
struct Component {
    /// Its name there, and its method's.
    name: &'static str,
    method: &'static str,
    power: &'static str,
    /// Where its total is, and of how many joules.
    energy: Option<(&'static str, f64)>,
}

const fn component(name: &'static str, method: &'static str) -> Component {
    Component { name, method, power: "/apower", energy: Some(("/aenergy/total", 3600.0)) }
}

const COMPONENTS: [Component; 6] = [
    component("switch", "Switch"),
    component("cover", "Cover"),
    component("light", "Light"),
    component("pm1", "PM1"),
    Component { name: "em", method: "EM", power: "/total_act_power", energy: None },
    Component { name: "em1", method: "EM1", power: "/act_power", energy: None },
];

/// One thing that a device measures.
#[derive(Debug, PartialEq)]
struct Socket {
    name: String,
    number: u32,
    /// Where it is in the status of the device.
    whole: String,
    /// What asks for it alone.
    alone: String,
    power: &'static str,
    energy: Option<(&'static str, f64)>,
}

/// What the status of a device of generation 2 or later holds that measures.
fn sockets(status: &Value) -> Vec<Socket> {
    let keys = status.as_object().into_iter().flat_map(|fields| fields.keys());
    let socket = |key: &String| {
        let (name, number) = key.split_once(':')?;
        let number = number.parse().ok()?;
        let Component { method, power, energy, .. } =
            COMPONENTS.iter().find(|component| component.name == name)?;
        let whole = format!("/{key}");
        // A relay that does not measure has no such field.
        status.pointer(&format!("{whole}{power}"))?;
        let alone = format!("/rpc/{method}.GetStatus?id={number}");
        let name = format!("{name}-{number}");
        Some(Socket { name, number, whole, alone, power, energy: *energy })
    };
    keys.filter_map(socket).collect()
}

/// The same for generation 1.
fn old_sockets(status: &Value) -> Vec<Socket> {
    let kinds = [("meter", 60.0), ("emeter", 3600.0)];
    let of_kind = |(name, joules): (&'static str, f64)| {
        let list = status[format!("{name}s")].as_array().map_or(0, Vec::len).min(16);
        (0..list as u32).map(move |number| Socket {
            name: format!("{name}-{number}"),
            number,
            whole: format!("/{name}s/{number}"),
            alone: format!("/{name}/{number}"),
            power: "/power",
            energy: Some(("/total", joules)),
        })
    };
    kinds.into_iter().flat_map(of_kind).collect()
}

/// Power of each channel that a device's status shows, of either generation.
pub(crate) fn powers(status: &Value) -> Result<Vec<Watts>, String> {
    let all = old_sockets(status).into_iter().chain(sockets(status));
    let power = |socket: Socket| {
        json::number(status, &format!("{}{}", socket.whole, socket.power)).map(Watts)
    };
    all.map(power).collect()
}

fn open(_: &Host, spec: &MeterSpec) -> Opening {
    spec.only(&[&["channel", "kind"][..], &web::OPTIONS].concat())?;
    let address = spec.address("http://192.168.1.20")?;
    let (mut web, _) = Web::of(spec, address, "http")?;
    let counts = match spec.text("kind") {
        None | Some("power") => false,
        Some("energy") => true,
        Some(other) => {
            return Err(spec.wrong(format!("`kind` is `power` or `energy`, and not `{other}`")));
        }
    };
    let until = web::opening();
    let about = web.json("/shelly", until)?;
    let (status, all) = match about["gen"].as_u64() {
        Some(2..) => ("/rpc/Shelly.GetStatus", sockets as fn(&Value) -> Vec<Socket>),
        _ if about["type"].is_string() => ("/status", old_sockets as fn(&Value) -> Vec<Socket>),
        _ => return Err(web.nonsense("/shelly", "that is no Shelly's answer")),
    };
    let sockets = all(&web.json(status, until)?);
    let sockets = chosen(spec, sockets)?;
    let several = sockets.len() > 1;
    let (mut channels, mut sources, mut remarks) = (Vec::new(), Vec::new(), Vec::new());
    let some_count = sockets.iter().any(|socket| socket.energy.is_some());
    for socket in sockets {
        let (pointer, kind, unit) = match socket.energy {
            Some((pointer, joules)) if counts => (pointer, FigureKind::Energy, joules),
            None if counts && some_count => {
                remarks.push(format!("`{}` reports no energy, and is left out", socket.name));
                continue;
            }
            None if counts => {
                let why = format!("`{}` reports no energy: leave out `kind=energy`", socket.name);
                return Err(spec.wrong(why));
            }
            _ => (socket.power, FigureKind::Power, 1.0),
        };
        let mut figure = Figure::of(&MeterSpec::of(DRIVER.name), "", kind, unit)?;
        if several {
            figure.scope = Scope::Part;
        }
        channels.push(figure.channel(socket.name, ACCURACY));
        let prefix = if several { socket.whole } else { String::new() };
        let path = if several { status.to_owned() } else { socket.alone };
        sources.push(Source { path, pointer: format!("{prefix}{pointer}"), prefix, figure });
    }
    Ok(Box::new(Shelly { channels, sources, web, counts, remarks }))
}

/// Those that the user wants: all, or one.
fn chosen(spec: &MeterSpec, sockets: Vec<Socket>) -> Result<Vec<Socket>, MeterError> {
    if sockets.is_empty() {
        let (meter, why) = (spec.name().to_owned(), "this Shelly measures no power".to_owned());
        return Err(MeterError::Absent { meter, why });
    }
    let Some(wanted) = spec.text("channel") else { return Ok(sockets) };
    let known: Vec<_> = sockets.iter().map(|socket| socket.number.to_string()).collect();
    let is_wanted = |socket: &Socket| socket.number.to_string() == wanted;
    let chosen: Vec<_> = sockets.into_iter().filter(is_wanted).collect();
    if chosen.is_empty() {
        let known = known.join("`, `");
        return Err(spec.wrong(format!("there is no `channel={wanted}`: there are `{known}`")));
    }
    Ok(chosen)
}

struct Source {
    path: String,
    pointer: String,
    /// Of what belongs to this socket.
    prefix: String,
    figure: Figure,
}

struct Shelly {
    channels: Vec<Channel>,
    /// All of one path.
    sources: Vec<Source>,
    web: Web,
    counts: bool,
    remarks: Vec<String>,
}

impl Source {
    /// What an answer says of it; `None` where the device says that it does not know.
    fn reading(&self, answer: &Value) -> Result<Option<Reading>, String> {
        // Generation 1: false until the first measurement after it was switched on.
        if answer.pointer(&format!("{}/is_valid", self.prefix)) == Some(&Value::Bool(false)) {
            return Ok(None);
        }
        let number = json::number(answer, &self.pointer)?;
        check_phases(answer, &self.prefix, number)?;
        self.figure.reading(number).map(Some)
    }
}

/// A total of three phases is their sum: what says otherwise is not believed.
fn check_phases(answer: &Value, prefix: &str, total: f64) -> Result<(), String> {
    let phase = |name: &str| json::number(answer, &format!("{prefix}/{name}_act_power"));
    let (Ok(a), Ok(b), Ok(c)) = (phase("a"), phase("b"), phase("c")) else { return Ok(()) };
    let slack = 5.0 + 0.05 * (a.abs() + b.abs() + c.abs());
    if (a + b + c - total).abs() <= slack {
        return Ok(());
    }
    Err(format!(
        "the total is {total} W, and its phases are {a}, {b} and {c} W: it is not believed"
    ))
}

impl Meter for Shelly {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn pace(&self) -> Pace {
        if self.counts {
            return Pace::Polled { fastest: COUNTS_EVERY, usual: COUNTS_EVERY };
        }
        Pace::Polled { fastest: Duration::from_millis(500), usual: Duration::from_secs(1) }
    }

    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError> {
        let Some(path) = self.sources.first().map(|source| source.path.as_str()) else {
            return Ok(());
        };
        let sent = monotonic();
        let answer = self.web.json(path, web::deadline(turn))?;
        let at = web::middle(sent, turn.now());
        for (channel, source) in self.sources.iter().enumerate() {
            let reading = source.reading(&answer);
            match reading {
                Ok(Some(reading)) => out.push(channel, at, reading),
                Ok(None) => {}
                Err(what) => {
                    let what = format!("`{}`: {what}", self.channels[channel].name);
                    out.fail(self.web.nonsense(path, &what));
                }
            }
        }
        Ok(())
    }

    fn remarks(&self) -> Vec<String> {
        self.remarks.clone()
    }
}

#[cfg(test)]
mod tests;
