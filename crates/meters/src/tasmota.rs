//! Plugs with the firmware Tasmota: command `Status 8`. Its total has three decimals of a kWh, steps
//! of 3600 J, so power is what is read. Reference: tasmota.github.io/docs/Commands.

use std::fmt::Write;
use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_energy::integration::Reading;
use nightwatt_energy::quantity::Watts;
use nightwatt_energy::time::Mono;
use nightwatt_host::Host;
use serde_json::Value;

use crate::channel::{Accuracy, Channel, Scope};
use crate::error::MeterError;
use crate::json;
use crate::meter::{Driver, Meter, Opening, Pace, Presence, Readings, Turn};
use crate::spec::MeterSpec;
use crate::web::{self, Web};

pub(crate) const DRIVER: Driver = Driver {
    name: "tasmota",
    about: "plugs with the firmware Tasmota",
    example: "tasmota=http://192.168.1.21",
    probe: |_| Presence::NeedsAddress,
    open,
};

/// Depends on how the user calibrated it; and it shows whole watts.
const ACCURACY: Accuracy = Accuracy { relative: 0.03, watts: Watts(1.0) };

/// Where the power is: since firmware 5.12, and before.
const PLACES: [&str; 2] = ["/StatusSNS/ENERGY/Power", "/StatusPWR/Power"];

/// No device has more channels.
const MOST_CHANNELS: usize = 8;

fn open(_: &Host, spec: &MeterSpec) -> Opening {
    spec.only(&[&["channel"][..], &web::OPTIONS].concat())?;
    let (web, _) = Web::of(spec, spec.address("http://192.168.1.21")?, "http")?;
    let mut path = "/cm?".to_owned();
    // The interface for commands takes it so, and in no other way in older firmware.
    if let Some(password) = spec.password()? {
        let user = spec.text("user").unwrap_or("admin");
        let (user, password) = (escape(user), escape(password.reveal()));
        let _ = write!(path, "user={user}&password={password}&");
    }
    path.push_str("cmnd=Status%208");
    let mut meter = Tasmota { channels: Vec::new(), channel: None, web, path };
    let powers = meter.read_powers(web::opening())?;
    let numbers = match spec.text("channel") {
        None => (0..powers.len()).collect(),
        Some(text) => {
            // Tasmota counts from 1.
            let number = text.parse().ok().filter(|number| (1..=powers.len()).contains(number));
            let number: usize = number.ok_or_else(|| {
                spec.wrong(format!("there is no `channel={text}`: there are 1 to {}", powers.len()))
            })?;
            meter.channel = Some(number - 1);
            vec![number - 1]
        }
    };
    let scope = if numbers.len() > 1 { Scope::Part } else { Scope::Wall };
    let channel = |number: usize| Channel::power(format!("power-{}", number + 1), scope, ACCURACY);
    meter.channels = numbers.into_iter().map(channel).collect();
    Ok(Box::new(meter))
}

/// Percent-encoding (RFC 3986) of all that is not unreserved.
fn escape(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
        escaped
    })
}

/// Power of each channel.
pub(crate) fn powers(status: &Value) -> Result<Vec<Watts>, String> {
    each_power(status)?.into_iter().collect()
}

/// The same, where each may be missing.
fn each_power(status: &Value) -> Result<Vec<Result<Watts, String>>, String> {
    let Some(place) = PLACES.iter().find(|place| status.pointer(place).is_some()) else {
        if status["StatusSNS"].is_object() {
            return Err("this device measures no power: it reports no `ENERGY`".to_owned());
        }
        return json::number(status, PLACES[0]).map(|power| vec![Ok(Watts(power))]);
    };
    match status.pointer(place) {
        Some(Value::Array(list)) if (1..=MOST_CHANNELS).contains(&list.len()) => {
            let each = 0..list.len();
            let power = |at| json::number(status, &format!("{place}/{at}")).map(Watts);
            Ok(each.map(power).collect())
        }
        _ => json::number(status, place).map(|power| vec![Ok(Watts(power))]),
    }
}

struct Tasmota {
    channels: Vec<Channel>,
    /// The only one that is wanted.
    channel: Option<usize>,
    web: Web,
    path: String,
}

impl Tasmota {
    fn read_powers(&mut self, until: Mono) -> Result<Vec<Result<Watts, String>>, MeterError> {
        let status = self.web.json(&self.path, until)?;
        // Some firmware says so with status 200.
        if status["WARNING"].as_str().is_some_and(|warning| warning.contains("password")) {
            return Err(self.web.denied(&self.path, 401));
        }
        each_power(&status).map_err(|what| self.web.nonsense(&self.path, &what))
    }
}

impl Meter for Tasmota {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn pace(&self) -> Pace {
        Pace::Polled { fastest: Duration::from_millis(500), usual: Duration::from_secs(1) }
    }

    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError> {
        let sent = monotonic();
        let powers = self.read_powers(web::deadline(turn))?;
        let at = web::middle(sent, turn.now());
        let wanted = self
            .channel
            .map_or(&powers[..], |channel| powers.get(channel..=channel).unwrap_or_default());
        if wanted.len() != self.channels.len() {
            let what = format!("{} channels, and it had others before", powers.len());
            return Err(self.web.nonsense(&self.path, &what));
        }
        for (channel, watts) in wanted.iter().enumerate() {
            match watts {
                Ok(watts) => out.push(channel, at, Reading::Power(*watts)),
                Err(what) => out.fail(self.web.nonsense(&self.path, what)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::device::{self, Device, line, open, poll, refused, status};

    use super::*;

    /// As the documentation of the firmware shows it.
    const STATUS: &str = r#"{"StatusSNS":{"Time":"2024-03-01T12:00:00","ENERGY":{
        "TotalStartTime":"2023-01-01T00:00:00","Total":3.185,"Yesterday":3.058,"Today":0.127,
        "Power":40,"ApparentPower":49,"ReactivePower":28,"Factor":0.82,"Voltage":234,
        "Current":0.209}}}"#;

    const TWO: &str = r#"{"StatusSNS":{"Time":"2024-03-01T12:00:00","ENERGY":{"Total":[1.1,2.2],
        "Power":[12.5,0],"Voltage":231}}}"#;

    const OLD: &str = r#"{"StatusPWR":{"Total":1.234,"Yesterday":0.1,"Today":0.05,"Power":17,
        "Factor":0.9,"Voltage":230,"Current":0.08}}"#;

    fn powers_of(answer: &'static str, options: &str) -> Vec<(String, f64)> {
        let device = Device::http(move |ask| {
            assert_eq!(ask.path, "/cm?cmnd=Status%208");
            device::json(answer)
        });
        let mut meter = open(&format!("tasmota={}{options}", device.address())).unwrap();
        let readings = poll(meter.as_mut()).unwrap().into_iter();
        let power = |(name, reading)| match reading {
            Reading::Power(watts) => (name, watts.get()),
            other => panic!("{other:?}"),
        };
        readings.map(power).collect()
    }

    #[test]
    fn power_is_read_from_old_and_new_firmware_and_of_several_channels() {
        assert_eq!(powers_of(STATUS, ""), [("power-1".to_owned(), 40.0)]);
        assert_eq!(powers_of(OLD, ""), [("power-1".to_owned(), 17.0)]);
        let both = [("power-1".to_owned(), 12.5), ("power-2".to_owned(), 0.0)];
        assert_eq!(powers_of(TWO, ""), both);
        assert_eq!(powers_of(TWO, ",channel=2"), both[1..]);
    }

    #[test]
    fn a_channel_without_a_figure_does_not_silence_the_others() {
        let device =
            Device::http(|_| device::json(r#"{"StatusSNS":{"ENERGY":{"Power":[12.5,null,3]}}}"#));
        let mut meter = open(&format!("tasmota={}", device.address())).unwrap();
        let readings = poll(meter.as_mut()).unwrap();
        let names: Vec<_> = readings.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["power-1", "power-3"]);
    }

    #[test]
    fn the_password_goes_to_the_device_and_into_no_error() {
        let device = Device::http(|ask| {
            if ask.path == "/cm?user=admin&password=p%26ss%20w%C3%B6rd&cmnd=Status%208" {
                device::json(STATUS)
            } else {
                let warning = r#"{"WARNING":"Need user=<username>&password=<password>"}"#;
                status(if ask.path.contains("wrong") { 200 } else { 401 }, "", warning)
            }
        });
        let with = |password: &str| {
            let file = line(password);
            open(&format!("tasmota={},password-file={}", device.address(), file.path().display()))
        };
        with("p&ss wörd").unwrap();
        for password in ["wrong&one", "barley"] {
            let error = with(password).map(drop).unwrap_err();
            assert!(error.hint().unwrap().contains("is not the device's"), "{error}");
            assert!(!format!("{error:?}").contains(password) && !error.to_string().contains("one"));
        }
        let error = refused(&format!("tasmota={}", device.address()));
        assert!(error.hint().unwrap().contains("password-file="), "{error}");
    }

    #[test]
    fn what_measures_nothing_or_is_no_tasmota_is_told() {
        let told = |answer: &'static str| {
            let device = Device::http(move |_| device::json(answer));
            refused(&format!("tasmota={}", device.address())).to_string()
        };
        let error = told(r#"{"StatusSNS":{"Time":"2024-03-01T12:00:00"}}"#);
        assert!(error.contains("reports no `ENERGY`"), "{error}");
        let error = told(r#"{"Command":"Unknown"}"#);
        assert!(error.contains("there is no `/StatusSNS/ENERGY/Power`"), "{error}");
        let error = told(r#"{"StatusSNS":{"ENERGY":{"Power":[]}}}"#);
        assert!(error.contains("a list of 0"), "{error}");
        let device = Device::http(|_| device::json(TWO));
        let error = refused(&format!("tasmota={},channel=3", device.address())).to_string();
        assert!(error.contains("there are 1 to 2"), "{error}");
    }
}
