//! Any device that answers JSON: a number is found by a JSON pointer (RFC 6901) and scaled.

use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_energy::integration::Reading;
use nightwatt_host::Host;
use serde_json::Value;

use crate::channel::{Accuracy, Channel};
use crate::error::MeterError;
use crate::figure::{self, Figure, FigureKind};
use crate::json;
use crate::meter::{Driver, Meter, Opening, Pace, Presence, Readings, Turn};
use crate::spec::MeterSpec;
use crate::web::{self, Web};

pub(crate) const DRIVER: Driver = Driver {
    name: "http",
    about: "any device that answers JSON over HTTP",
    example: "http=http://192.168.1.20/status,pointer=/power,unit=W",
    probe: |_| Presence::NeedsAddress,
    open,
};

/// Behind the options of a second number.
const SECOND: &str = "-2";

/// Assumed for an unknown device.
const ACCURACY: Accuracy = Accuracy::relative(0.05);

const LONGEST_BODY: usize = 1 << 20;

fn open(_: &Host, spec: &MeterSpec) -> Opening {
    let numbers = [("pointer", ""), ("pointer-2", SECOND)];
    let second = figure::OPTIONS.map(|option| format!("{option}{SECOND}"));
    let own = numbers.map(|(option, _)| option);
    let known = [&own[..], &figure::OPTIONS, &web::OPTIONS].concat();
    let known: Vec<&str> = known.into_iter().chain(second.iter().map(String::as_str)).collect();
    spec.only(&known)?;
    let address = spec.address(DRIVER.example.trim_start_matches("http="))?;
    let (web, path) = Web::of(spec, address, "http")?;
    let web = web.with_longest_body(LONGEST_BODY);
    let mut sources: Vec<Source> = Vec::new();
    for (option, suffix) in numbers {
        let pointer = match spec.text(option) {
            Some(pointer) => pointer.to_owned(),
            // The whole answer is the number.
            None if suffix.is_empty() => String::new(),
            None => continue,
        };
        let figure = Figure::of(spec, suffix, FigureKind::Power, 1.0)?;
        sources.push(Source { pointer, figure });
    }
    let name = |source: &Source| match source.figure.kind {
        FigureKind::Power => "power",
        FigureKind::Energy => "energy",
    };
    let mut channels: Vec<Channel> = Vec::new();
    for source in &sources {
        let twice = channels.iter().any(|channel| channel.name == name(source));
        let name = format!("{}{}", name(source), if twice { SECOND } else { "" });
        channels.push(source.figure.channel(name, ACCURACY));
    }
    let mut meter = Http { channels, sources, web, path };
    // Whatever is wrong is told now.
    let value = meter.web.json(&meter.path, web::opening())?;
    for source in &meter.sources {
        source.reading(&value).map_err(|what| meter.web.nonsense(&meter.path, &what))?;
    }
    Ok(Box::new(meter))
}

struct Source {
    pointer: String,
    figure: Figure,
}

struct Http {
    channels: Vec<Channel>,
    sources: Vec<Source>,
    web: Web,
    path: String,
}

impl Source {
    fn reading(&self, answer: &Value) -> Result<Reading, String> {
        self.figure.reading(json::number(answer, &self.pointer)?)
    }
}

impl Meter for Http {
    fn channels(&self) -> &[Channel] {
        &self.channels
    }

    fn pace(&self) -> Pace {
        Pace::Polled { fastest: Duration::from_millis(100), usual: Duration::from_secs(1) }
    }

    fn read(&mut self, turn: &Turn<'_>, out: &mut Readings) -> Result<(), MeterError> {
        let sent = monotonic();
        let value = self.web.json(&self.path, web::deadline(turn))?;
        let at = web::middle(sent, turn.now());
        for (channel, source) in self.sources.iter().enumerate() {
            match source.reading(&value) {
                Ok(reading) => out.push(channel, at, reading),
                Err(what) => out.fail(self.web.nonsense(&self.path, &what)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use nightwatt_energy::integration::Reading;
    use nightwatt_energy::quantity::Watts;

    use crate::device::{self, Device, open, poll, refused};

    #[test]
    fn numbers_are_found_by_pointer_and_scaled() {
        let device = Device::http(|ask| match ask.path.as_str() {
            "/plain" => device::json("41.5"),
            _ => device::chunked(r#"{"ch":[{"deciwatts":415,"total":"1.25"}]}"#),
        });
        let text = format!(
            "http={}/m?x=1,pointer=/ch/0/deciwatts,scale=0.1,pointer-2=/ch/0/total,unit-2=kWh",
            device.address()
        );
        let mut meter = open(&text).unwrap();
        let readings = poll(meter.as_mut()).unwrap();
        // 1.25 kWh are 4.5 MJ.
        let expected = [
            ("power".to_owned(), Reading::Power(Watts(41.5))),
            ("energy".to_owned(), Reading::Counter(4_500_000_000)),
        ];
        assert_eq!(readings, expected);
        assert_eq!(device.asked()[0].path, "/m?x=1");
        let mut plain = open(&format!("http={}/plain", device.address())).unwrap();
        assert_eq!(poll(plain.as_mut()).unwrap()[0].1, Reading::Power(Watts(41.5)));
    }

    #[test]
    fn a_number_that_is_missing_does_not_silence_the_other() {
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let device = Device::http(move |_| {
            // The first answer is that to the opening.
            match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                0 => device::json(r#"{"a":5,"b":6}"#),
                _ => device::json(r#"{"a":5,"b":null}"#),
            }
        });
        let mut meter =
            open(&format!("http={},pointer=/a,pointer-2=/b", device.address())).unwrap();
        let expected = [("power".to_owned(), Reading::Power(Watts(5.0)))];
        assert_eq!(poll(meter.as_mut()).unwrap(), expected);
    }

    #[test]
    fn a_wrong_pointer_is_told_at_once_with_what_is_there() {
        let device = Device::http(|_| device::json(r#"{"apower": 5}"#));
        let error = refused(&format!("http={},pointer=/power", device.address())).to_string();
        assert!(error.contains("no `/power`: `the whole` is an object with `/apower`"), "{error}");
        let error = refused(&format!("http={},pionter=/power", device.address())).to_string();
        assert!(error.contains("no option `pionter`"), "{error}");
        assert!(refused("http").to_string().contains("try `http=http://192"));
    }
}
