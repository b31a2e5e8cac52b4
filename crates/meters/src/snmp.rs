//! Power strips and whatever else tells its power over SNMP: any OID with a scale, and a few presets.
//! Version 2c, and 3 with authentication and privacy (RFC 3414, 3826).

use std::io;
use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_energy::integration::Reading;
use nightwatt_energy::time::Mono;
use nightwatt_host::Host;
use nightwatt_host::secret::Secret;
use nightwatt_host::text::quote;
use snmp2::v3::{Auth, AuthProtocol, Cipher, KeyExtension, Security};
use snmp2::{Error, Oid, Pdu, SyncSession, Value};

use crate::address;
use crate::channel::{Accuracy, Channel};
use crate::error::MeterError;
use crate::figure::{self, Figure, FigureKind};
use crate::meter::{Driver, Meter, Opening, Pace, Presence, Readings, Turn};
use crate::spec::MeterSpec;
use crate::web;

mod preset;

pub(crate) const DRIVER: Driver = Driver {
    name: "snmp",
    about: "power strips (APC, Raritan) and any OID over SNMP",
    example: "snmp=10.0.0.3,preset=apc-rpdu2",
    probe: |_| Presence::NeedsAddress,
    open,
};

const OPTIONS: [&str; 8] =
    ["oid", "preset", "outlet", "device", "user", "auth", "privacy", "privacy-file"];

/// Strips compute power from currents and voltages; bounds are in their data sheets.
const ACCURACY: Accuracy = Accuracy::relative(0.05);

/// A lost question or answer is asked again after this time.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Maximum number of rounds in which the agent asks us to synchronize again.
const ROUNDS: u32 = 4;

fn open(_: &Host, spec: &MeterSpec) -> Opening {
    let known = [&OPTIONS[..], &["password-file", "password-env"], &figure::OPTIONS].concat();
    spec.only(&known)?;
    let address = address::with_port(spec.address("10.0.0.3,preset=apc-rpdu2")?, 161);
    let place = preset::place(spec)?;
    let oid = oid(spec, &place.oid)?;
    let mut figure = Figure::of(spec, "", place.kind, place.unit)?;
    let (meter, who) = (spec.name().to_owned(), Who::of(spec)?);
    let mut agent = Agent { meter, address, who, session: None };
    let until = web::opening();
    if let (Some(digits), None) = (&place.digits, spec.text("scale")) {
        figure.unit *= decimals(&mut agent, &self::oid(spec, digits)?, until)?;
    }
    let name = match place.kind {
        FigureKind::Power => "power",
        FigureKind::Energy => "energy",
    };
    let value = agent.get(&oid, until)?;
    let channel = match (figure.kind, value) {
        (FigureKind::Power, _) | (_, Number::Text(_)) => figure.channel(name, ACCURACY),
        (FigureKind::Energy, Number::Counter32(_)) => figure.counts(name, Some(1 << 32), ACCURACY),
        (FigureKind::Energy, _) => figure.counts(name, None, ACCURACY),
    };
    let meter = Snmp { channels: vec![channel], agent, oid, figure };
    // Whatever is wrong is told now.
    meter.reading(value)?;
    Ok(Box::new(meter))
}

fn oid(spec: &MeterSpec, text: &str) -> Result<Oid<'static>, MeterError> {
    let parts = text.trim_start_matches('.').split('.').map(str::parse::<u64>);
    let parts: Result<Vec<u64>, _> = parts.collect();
    let oid = parts.ok().filter(|parts| parts.len() > 2).and_then(|parts| Oid::from(&parts).ok());
    oid.ok_or_else(|| {
        spec.wrong(format!("`{text}` is no OID: `oid=.1.3.6.1.4.1.318.1.1.12.1.16.0`"))
    })
}

/// 10 to the power of how many digits are behind the decimal point, negative; 1 where the device
/// does not say.
fn decimals(agent: &mut Agent, oid: &Oid<'_>, until: Mono) -> Result<f64, MeterError> {
    match agent.get(oid, until) {
        Ok(Number::Whole(digits @ 0..=9)) => Ok(0.1_f64.powi(digits as i32)),
        Ok(other) => Err(agent.nonsense(&format!("{other:?} digits behind the decimal point"))),
        Err(MeterError::Absent { .. }) => Ok(1.0),
        Err(error) => Err(error),
    }
}

/// The credentials of the client.
enum Who {
    /// Version 2c: the community's name.
    Community(Secret),
    /// Version 3.
    User(Box<Security>),
}

impl Who {
    fn of(spec: &MeterSpec) -> Result<Self, MeterError> {
        let password = spec.password()?;
        let Some(user) = spec.text("user") else {
            for option in ["auth", "privacy", "privacy-file"] {
                if spec.text(option).is_some() {
                    return Err(spec.wrong(format!("`{option}` is for users: say `user=NAME`")));
                }
            }
            return Ok(Self::Community(password.unwrap_or_else(|| Secret::new("public"))));
        };
        let Some(password) = password else {
            return Err(spec.wrong("`user` needs its password: say `password-file=FILE`"));
        };
        let auth = named(spec, "auth", &AUTH)?;
        let cipher = named(spec, "privacy", &PRIVACY)?;
        let secret = match spec.text("privacy-file") {
            Some(path) => spec.secret_in("privacy-file", path)?,
            None => password.clone(),
        };
        // RFC 3414, section 11.2.
        if password.reveal().len() < 8 || secret.reveal().len() < 8 {
            return Err(spec.wrong("passwords of SNMP have at least eight characters"));
        }
        let level = match cipher {
            None => Auth::AuthNoPriv,
            Some(cipher) => {
                Auth::AuthPriv { cipher, privacy_password: secret.reveal().as_bytes().to_vec() }
            }
        };
        let security = Security::new(user.as_bytes(), password.reveal().as_bytes())
            .with_auth_protocol(auth)
            .with_auth(level)
            .with_key_extension_method(KeyExtension::Blumenthal);
        Ok(Self::User(Box::new(security)))
    }
}

const AUTH: [(&str, AuthProtocol); 6] = [
    ("sha1", AuthProtocol::Sha1),
    ("sha224", AuthProtocol::Sha224),
    ("sha256", AuthProtocol::Sha256),
    ("sha384", AuthProtocol::Sha384),
    ("sha512", AuthProtocol::Sha512),
    ("md5", AuthProtocol::Md5),
];

const PRIVACY: [(&str, Option<Cipher>); 5] = [
    ("aes128", Some(Cipher::Aes128)),
    ("aes192", Some(Cipher::Aes192)),
    ("aes256", Some(Cipher::Aes256)),
    ("des", Some(Cipher::Des)),
    ("none", None),
];

/// What an option names; the first if it is not there.
fn named<T: Copy>(spec: &MeterSpec, option: &str, known: &[(&str, T)]) -> Result<T, MeterError> {
    let wanted = spec.text(option).unwrap_or(known[0].0);
    let found = known.iter().find(|(name, _)| *name == wanted);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let known: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        spec.wrong(format!("`{option}` is one of `{}`", known.join("`, `")))
    })
}

/// A number as an agent says it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Number {
    Whole(i64),
    Counter32(u32),
    Counter64(u64),
    /// Some agents write numbers with decimals as text.
    Text(f64),
}

impl Number {
    fn of(value: &Value<'_>) -> Option<Self> {
        match value {
            Value::Integer(number) => Some(Self::Whole(*number)),
            Value::Unsigned32(number) => Some(Self::Whole((*number).into())),
            Value::Counter32(number) => Some(Self::Counter32(*number)),
            Value::Counter64(number) => Some(Self::Counter64(*number)),
            Value::OctetString(text) => {
                let text = std::str::from_utf8(text).ok()?.trim();
                text.parse().ok().filter(|number: &f64| number.is_finite()).map(Self::Text)
            }
            _ => None,
        }
    }

    fn as_f64(self) -> f64 {
        match self {
            Self::Whole(number) => number as f64,
            Self::Counter32(number) => number.into(),
            Self::Counter64(number) => number as f64,
            Self::Text(number) => number,
        }
    }
}

/// The other end.
struct Agent {
    meter: String,
    address: String,
    who: Who,
    session: Option<SyncSession>,
}

impl Agent {
    fn get(&mut self, oid: &Oid<'_>, until: Mono) -> Result<Number, MeterError> {
        // Only answers count: what is lost on the way is asked for until the time is over.
        let mut rounds = 1;
        loop {
            let (mut session, known) = match self.session.take() {
                Some(session) => (session, true),
                None => (self.connect()?, false),
            };
            let sent = monotonic();
            // In version 3 a session begins with what the agent is called.
            let begun = if known { Ok(()) } else { session.init() };
            match begun.and_then(|()| query(&mut session, oid)) {
                Ok(answer) => {
                    self.session = Some(session);
                    return answer.map_err(|why| self.absent(oid, &why));
                }
                // Keys and clock were agreed on.
                Err(Error::AuthUpdated) if rounds < ROUNDS => {
                    rounds += 1;
                    self.session = Some(session);
                }
                // A lost packet is asked for again, over a new socket, so that a late answer is discarded.
                // An error that comes at once is a refusal, and would come again.
                Err(Error::Receive | Error::Send)
                    if monotonic() < until && monotonic().since(sent) > RETRY_AFTER / 2 => {}
                // The agent was restarted, or its clock moved on.
                Err(Error::AuthFailure(_)) if rounds < 2 => rounds += 1,
                Err(error) => return Err(self.failed(oid, &error)),
            }
        }
    }

    fn connect(&self) -> Result<SyncSession, MeterError> {
        let mut first = [0; 4];
        // Where there is no randomness, any number will do.
        let _ = getrandom::fill(&mut first);
        let first = i32::from_ne_bytes(first) & 0x3fff_ffff;
        let session = match &self.who {
            Who::Community(name) => {
                let name = name.reveal().as_bytes();
                SyncSession::new_v2c(&self.address, name, Some(RETRY_AFTER), first)
            }
            Who::User(security) => {
                let security = security.as_ref().clone();
                SyncSession::new_v3(&self.address, Some(RETRY_AFTER), first, security)
            }
        };
        session.map_err(|error| MeterError::Io { what: format!("reach {}", self.address), error })
    }

    fn absent(&self, oid: &Oid<'_>, why: &str) -> MeterError {
        MeterError::Absent {
            meter: self.meter.clone(),
            why: format!("{} says of .{oid}: {why}", self.address),
        }
    }

    fn nonsense(&self, what: &str) -> MeterError {
        let what = format!("{}: {what}", self.address);
        MeterError::Nonsense { meter: self.meter.clone(), what }
    }

    fn failed(&self, oid: &Oid<'_>, error: &Error) -> MeterError {
        match (error, &self.who) {
            (Error::Receive, Who::Community(_)) => MeterError::Denied {
                meter: self.meter.clone(),
                what: format!("{} does not answer, so .{oid}", self.address),
                hint: "is that its address, and the name of its community? An agent that is asked \
                       with a wrong one says nothing; `password-file=FILE` holds the name if it is \
                       not `public`"
                    .to_owned(),
            },
            (Error::Receive | Error::Send, _) => MeterError::Io {
                what: format!("reach {} (is that its address?)", self.address),
                error: io::Error::new(io::ErrorKind::TimedOut, "it does not answer"),
            },
            (Error::AuthFailure(_) | Error::AuthUpdated | Error::Crypto(_), _) => {
                MeterError::Denied {
                    meter: self.meter.clone(),
                    what: format!("{} ({error}): .{oid}", self.address),
                    hint:
                        "check `user`, `auth`, `privacy` and the passwords against those that the \
                           agent knows"
                            .to_owned(),
                }
            }
            _ => self.nonsense(&format!("{error}, asked for .{oid}")),
        }
    }
}

/// One question. The inner error is what the agent says in answer.
fn query(session: &mut SyncSession, oid: &Oid<'_>) -> Result<Result<Number, String>, Error> {
    session.get(oid).map(|answer| number(&answer, oid))
}

/// What an agent says of an object; the error tells what it says instead of a number.
fn number(answer: &Pdu<'_>, oid: &Oid<'_>) -> Result<Number, String> {
    if answer.error_status != 0 {
        return Err(format!("error {} (RFC 3416, section 3)", answer.error_status));
    }
    let Some((name, value)) = answer.varbinds.clone().next() else {
        return Err("nothing".to_owned());
    };
    if name != *oid {
        return Err("something else that was not asked for".to_owned());
    }
    match &value {
        Value::NoSuchObject | Value::NoSuchInstance | Value::EndOfMibView => {
            Err("there is no such object: `snmpwalk` shows what there is".to_owned())
        }
        Value::Integer(-1) => Err("-1, by which strips say that they do not measure it".to_owned()),
        Value::OctetString(text) => Number::of(&value)
            .ok_or_else(|| format!("the text {}, which is no number", quote(text))),
        value => Number::of(value).ok_or_else(|| "something that is no number".to_owned()),
    }
}

/// The power in watts that an answer of version 2c tells of an object.
pub(crate) fn power_in(answer: &[u8], oid: &[u64]) -> Result<f64, String> {
    let oid = Oid::from(oid).map_err(|_| "that is no OID".to_owned())?;
    let answer = Pdu::from_bytes(answer).map_err(|error| error.to_string())?;
    number(&answer, &oid).map(Number::as_f64)
}

struct Snmp {
    channels: Vec<Channel>,
    agent: Agent,
    oid: Oid<'static>,
    figure: Figure,
}

impl Snmp {
    fn reading(&self, number: Number) -> Result<Reading, MeterError> {
        let number = match (self.figure.kind, number) {
            (FigureKind::Energy, Number::Counter32(count)) => {
                return Ok(Reading::Counter(count.into()));
            }
            (FigureKind::Energy, Number::Counter64(count)) => return Ok(Reading::Counter(count)),
            (FigureKind::Energy, Number::Whole(count)) => {
                let count = u64::try_from(count);
                let negative = |_| self.agent.nonsense("an energy below zero");
                return count.map(Reading::Counter).map_err(negative);
            }
            (_, number) => number.as_f64(),
        };
        self.figure.reading(number).map_err(|what| self.agent.nonsense(&what))
    }
}

impl Meter for Snmp {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn pace(&self) -> Pace {
        // Strips bring their figures up to date every one to three seconds.
        Pace::Polled { fastest: Duration::from_millis(500), usual: Duration::from_secs(2) }
    }

    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError> {
        let sent = monotonic();
        let value = self.agent.get(&self.oid, web::deadline(turn))?;
        out.push(0, web::middle(sent, turn.now()), self.reading(value)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
