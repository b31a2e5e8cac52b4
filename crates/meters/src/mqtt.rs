//! Whatever publishes its power to an MQTT broker: one topic, a JSON pointer into its messages.

use std::io;
use std::time::Duration;

use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_energy::integration::Reading;
use nightwatt_energy::time::Mono;
use nightwatt_host::Host;
use nightwatt_host::secret::Secret;

use crate::address;
use crate::channel::{Accuracy, Channel};
use crate::error::MeterError;
use crate::figure::{self, Figure, FigureKind};
use crate::json;
use crate::meter::{Driver, Meter, Opening, Pace, Presence, Readings, Turn};
use crate::spec::{LOGIN, MeterSpec};
use crate::web;

mod packet;
mod wire;

use packet::Packet;
use wire::Wire;

pub(crate) const DRIVER: Driver = Driver {
    name: "mqtt",
    about: "whatever publishes its power to an MQTT broker",
    example: "mqtt=broker.lan,topic=plug/power",
    probe: |_| Presence::NeedsAddress,
    open,
};

/// Assumed for an unknown device.
const ACCURACY: Accuracy = Accuracy::relative(0.05);

/// Assumed interval between messages of a device unless the user sets one.
const ABOUT: Duration = Duration::from_secs(10);

/// After this much silence the client sends a PINGREQ to the broker.
const PING_EVERY: Duration = Duration::from_secs(packet::KEEP_ALIVE as u64 / 2);

/// The longest topic, name or password (MQTT 3.1.1, section 1.5.3).
const LONGEST_TEXT: usize = u16::MAX as usize;

fn open(_: &Host, spec: &MeterSpec) -> Opening {
    let own = ["topic", "pointer", "about", "ca"];
    spec.only(&[&own[..], &LOGIN, &figure::OPTIONS].concat())?;
    let address = spec.address("broker.lan,topic=plug/power")?;
    let (encrypted, host) = match address.split_once("://") {
        None | Some(("mqtt", _)) => (false, address.trim_start_matches("mqtt://")),
        Some(("mqtts", host)) => (true, host),
        Some(_) => return Err(spec.wrong("its address is a host, or begins `mqtt://`, `mqtts://`")),
    };
    if host.contains('@') {
        return Err(spec.wrong("say `user=` and `password-file=` instead of naming them here"));
    }
    let trust = match (encrypted, spec.text("ca")) {
        (true, _) => Some(web::trust(spec)?),
        (false, None) => None,
        (false, Some(_)) => return Err(spec.wrong("`ca` is for addresses with `mqtts://`")),
    };
    let topic = match spec.text("topic") {
        None => return Err(spec.wrong("it does not say the topic: say `topic=plug/power`")),
        Some(topic) if topic.is_empty() || topic.contains(['+', '#', '\0']) => {
            return Err(spec.wrong("`topic` is one topic: several would be mixed up"));
        }
        Some(topic) => topic,
    };
    let user = match (spec.text("user"), spec.password()?) {
        (Some(name), password) => {
            let password = password.unwrap_or_else(|| Secret::new(""));
            Some(User { name: name.to_owned(), password })
        }
        (None, None) => None,
        (None, Some(_)) => return Err(spec.wrong("a password needs a user: write `user=NAME`")),
    };
    let texts = [Some(topic), user.as_ref().map(|user| user.name.as_str())];
    if texts.into_iter().flatten().any(|text| text.len() > LONGEST_TEXT) {
        return Err(spec.wrong("that is too long for MQTT"));
    }
    let about = spec.time("about")?.unwrap_or(ABOUT);
    let figure = Figure::of(spec, "", FigureKind::Power, 1.0)?;
    let name = if figure.kind == FigureKind::Power { "power" } else { "energy" };
    let place = address::with_port(host.trim_end_matches('/'), if encrypted { 8883 } else { 1883 });
    let until = web::opening();
    let meter = spec.name().to_owned();
    let wire = Wire::connect(&place, trust, until).map_err(|error| unreachable(&place, error))?;
    let mut mqtt = Mqtt {
        channels: vec![figure.channel(name, ACCURACY)],
        meter,
        place,
        wire,
        inbox: Vec::new(),
        topic: topic.to_owned(),
        pointer: spec.text("pointer").unwrap_or_default().to_owned(),
        figure,
        about,
        ping_at: monotonic() + PING_EVERY,
        pinged: false,
    };
    mqtt.join(user.as_ref(), until)?;
    Ok(Box::new(mqtt))
}

fn unreachable(place: &str, error: io::Error) -> MeterError {
    let what = format!("reach the broker {place} (is it on, and is that its address?)");
    MeterError::Io { what, error }
}

/// As whom we come.
struct User {
    name: String,
    password: Secret,
}

struct Mqtt {
    channels: Vec<Channel>,
    meter: String,
    place: String,
    wire: Wire,
    /// What came and is no whole packet yet.
    inbox: Vec<u8>,
    topic: String,
    pointer: String,
    figure: Figure,
    about: Duration,
    ping_at: Mono,
    /// The broker has been asked whether it is there, and has not answered.
    pinged: bool,
}

impl Mqtt {
    /// Says who we are, and what we want to hear.
    fn join(&mut self, user: Option<&User>, until: Mono) -> Result<(), MeterError> {
        let mut own = [0; 6];
        // Where there is no randomness, the broker will hang up on the other of the same name.
        let _ = getrandom::fill(&mut own);
        let client = own.iter().fold("nightwatt".to_owned(), |mut name, byte| {
            name.push(char::from(b'a' + byte % 26));
            name
        });
        let login = user.map(|it| packet::Login { user: &it.name, password: it.password.reveal() });
        self.send(&packet::connect(&client, login))?;
        match self.answer(until)? {
            Packet::Connected(0) => {}
            Packet::Connected(code @ (4 | 5)) => {
                let hint = "say `user=NAME` and `password-file=FILE` as the broker knows them";
                return Err(MeterError::Denied {
                    meter: self.meter.clone(),
                    what: format!("the broker {} (code {code})", self.place),
                    hint: hint.to_owned(),
                });
            }
            other => return Err(self.nonsense(&format!("it answers {other:?}"))),
        }
        let subscribe = packet::subscribe(&self.topic);
        self.send(&subscribe)?;
        loop {
            match self.answer(until)? {
                Packet::Subscribed(0x80) => {
                    return Err(MeterError::Denied {
                        meter: self.meter.clone(),
                        what: format!("the topic `{}` of {}", self.topic, self.place),
                        hint: "the broker's list of rights has to allow it".to_owned(),
                    });
                }
                Packet::Subscribed(_) => return Ok(()),
                // A message may come before the answer. What is retained is old; others come again.
                Packet::Message { .. } => {}
                other => return Err(self.nonsense(&format!("it answers {other:?}"))),
            }
        }
    }

    /// The next packet, while the meter is opened.
    fn answer(&mut self, until: Mono) -> Result<Packet, MeterError> {
        let never = Stop::new().map_err(|error| unreachable(&self.place, error))?;
        self.wire.pending(&mut self.inbox);
        loop {
            if let Some(packet) = self.take()? {
                return Ok(packet);
            }
            if never.readable_until(self.wire.socket(), until) != Woken::Readable {
                let seconds = web::TIMEOUT.as_secs();
                return Err(MeterError::Silent { meter: self.meter.clone(), seconds });
            }
            self.receive()?;
        }
    }

    fn take(&mut self) -> Result<Option<Packet>, MeterError> {
        packet::take(&mut self.inbox).map_err(|what| self.nonsense(&what))
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), MeterError> {
        self.ping_at = monotonic() + PING_EVERY;
        self.wire.send(bytes).map_err(|error| unreachable(&self.place, error))
    }

    fn receive(&mut self) -> Result<(), MeterError> {
        self.wire.receive(&mut self.inbox).map_err(|error| MeterError::Io {
            what: format!("hear the broker {}", self.place),
            error,
        })
    }

    fn nonsense(&self, what: &str) -> MeterError {
        let what = format!("the broker {}: {what}", self.place);
        MeterError::Nonsense { meter: self.meter.clone(), what }
    }

    fn reading(&self, payload: &[u8]) -> Result<Reading, MeterError> {
        let value = json::parse(payload);
        let number = value.and_then(|value| json::number(&value, &self.pointer));
        number.and_then(|number| self.figure.reading(number)).map_err(|what| {
            let what = format!("topic `{}`: {what}", self.topic);
            MeterError::Nonsense { meter: self.meter.clone(), what }
        })
    }

    /// Nothing came for a while: is the broker there?
    fn ping(&mut self) -> Result<(), MeterError> {
        if std::mem::replace(&mut self.pinged, true) {
            let seconds = PING_EVERY.as_secs();
            return Err(MeterError::Silent { meter: self.meter.clone(), seconds });
        }
        self.send(&packet::PING)
    }
}

/// The messages in what a broker sent, by their lengths; what is no whole packet stays in `inbox`.
pub(crate) fn messages(inbox: &mut Vec<u8>) -> Result<Vec<usize>, String> {
    let mut lengths = Vec::new();
    while let Some(packet) = packet::take(inbox)? {
        if let Packet::Message { payload, .. } = packet {
            lengths.push(payload.len());
        }
    }
    Ok(lengths)
}

impl Meter for Mqtt {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn pace(&self) -> Pace {
        Pace::Pushed { about: self.about }
    }

    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError> {
        let mut some = false;
        loop {
            while let Some(packet) = self.take()? {
                self.pinged = false;
                let Packet::Message { payload, retained: false, .. } = packet else { continue };
                out.push(0, turn.now(), self.reading(&payload)?);
                some = true;
            }
            let until = if some { monotonic() } else { turn.until.min(self.ping_at) };
            match turn.stop.readable_until(self.wire.socket(), until) {
                Woken::Readable => self.receive()?,
                Woken::TimedOut if !some && self.ping_at <= monotonic() => self.ping()?,
                Woken::TimedOut | Woken::Stopped => return Ok(()),
            }
        }
    }
}

impl Drop for Mqtt {
    fn drop(&mut self) {
        // Whether it hears that or not, the connection ends.
        let _ = self.wire.send(&packet::DISCONNECT);
    }
}

#[cfg(test)]
mod tests;
