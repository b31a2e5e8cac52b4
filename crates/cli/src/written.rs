//! Values as people write them on the command line.

#[cfg(feature = "bpf")]
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use nightwatt_load::{CacheRule, Waiting};
use nightwatt_meters::{MeterError, MeterSpec};
use nightwatt_mining::pure::Exact;
use nightwatt_model::duration_text;
#[cfg(feature = "bpf")]
use nightwatt_model::storage::Class;

/// `50ms`, `5s`, `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    duration_text::parse(text)
}

/// A duration that is longer than nothing.
pub(crate) fn some_time(text: &str) -> Result<Duration, String> {
    match duration_text::parse(text)? {
        Duration::ZERO => Err("it must be longer than nothing".to_owned()),
        time => Ok(time),
    }
}

/// A time that something can be measured for, or after which it is read again.
pub(crate) fn measuring_time(text: &str) -> Result<Duration, String> {
    match some_time(text)? {
        time if time > Duration::from_hours(24 * 366) => Err("that is over a year".to_owned()),
        time => Ok(time),
    }
}

/// A number above zero: `10`, `0.5`.
pub(crate) fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("write a number above 0, as in `10` or `0.5`".to_owned()),
    }
}

/// Money, or coins: a number that is not below 0.
pub(crate) fn amount(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number >= 0.0 && number.is_finite() => Ok(number),
        _ => Err("write a number that is not below 0, as in `0.10` or `70000`".to_owned()),
    }
}

/// A code such as `EUR`.
pub(crate) fn currency(text: &str) -> Result<String, String> {
    let is_code = (1..=8).contains(&text.len()) && text.chars().all(|c| c.is_ascii_alphanumeric());
    let wrong = || "write a code of up to eight letters, as in `EUR`".to_owned();
    is_code.then(|| text.to_owned()).ok_or_else(wrong)
}

/// `2016-04-01`, as days since 1970.
pub(crate) fn date(text: &str) -> Result<i64, String> {
    nightwatt_mining::day_of(text).map_err(|error| error.to_string())
}

/// `110 TH/s`, as hashes a second.
pub(crate) fn hash_rate(text: &str) -> Result<Exact, String> {
    nightwatt_mining::hash_rate(text).map_err(|error| error.to_string())
}

/// A device and its kind: `vda=nvme`.
#[cfg(feature = "bpf")]
pub(crate) fn device_class(text: &str) -> Result<(String, Class), String> {
    let (device, kind) =
        text.split_once('=').ok_or("write a device and its kind, as in `vda=nvme`")?;
    let classes = [Class::Hdd, Class::SataSsd, Class::Nvme];
    let class = classes.into_iter().find(|class| class.name() == kind);
    let class = class.ok_or_else(|| format!("`{kind}` is not one of hdd, sata-ssd, nvme"))?;
    Ok((device.trim_start_matches("/dev/").to_owned(), class))
}

/// A device and the file of its model: `sda=disk.json`.
#[cfg(feature = "bpf")]
pub(crate) fn device_model(text: &str) -> Result<(String, PathBuf), String> {
    let (device, file) =
        text.split_once('=').ok_or("write a device and a file, as in `sda=disk.json`")?;
    Ok((device.trim_start_matches("/dev/").to_owned(), file.into()))
}

/// Two times, the shorter one first: `30s,5m`.
pub(crate) fn times(text: &str) -> Result<(Duration, Duration), String> {
    let (least, most) =
        text.split_once(',').ok_or("write two times, the shorter one first, as in `30s,5m`")?;
    let (least, most) = (measuring_time(least.trim())?, measuring_time(most.trim())?);
    if least > most {
        return Err("the shorter time comes first, as in `30s,5m`".to_owned());
    }
    Ok((least, most))
}

/// A recording, as the meter `file` has it, without that word: `log.csv,mean=1s`.
pub(crate) fn recording(text: &str) -> Result<MeterSpec, String> {
    format!("file={text}").parse().map_err(|error: MeterError| error.to_string())
}

/// Two levels, the lower one first: `0,3.3`.
pub(crate) fn levels(text: &str) -> Result<(f64, f64), String> {
    let both = text.split_once(',').and_then(|(low, high)| {
        let number = |text: &str| text.trim().parse().ok().filter(|it: &f64| it.is_finite());
        number(low).zip(number(high))
    });
    both.filter(|(low, high)| low < high).ok_or_else(|| {
        "write the lower level, a comma and the higher one, as in `0,3.3`".to_owned()
    })
}

/// A header field: `Accept: text/html`.
pub(crate) fn field(text: &str) -> Result<(String, String), String> {
    let both = text.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
    both.filter(|(name, _)| !name.is_empty())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or_else(|| "write a name, a colon and a value, as in `Accept: text/html`".to_owned())
}

/// `/static/*=1h`.
pub(crate) fn cache_rule(text: &str) -> Result<CacheRule, String> {
    let (pattern, ttl) = text
        .rsplit_once('=')
        .ok_or("write a path pattern and a time to live, as in `/static/*=1h`")?;
    Ok(CacheRule { pattern: pattern.to_owned(), ttl: duration_text::parse(ttl)? })
}

/// What browsers do with a waiting page: `poll`, `ignore`, or a time after which they open it again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitingChoice(pub(crate) Waiting);

impl FromStr for WaitingChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(match text {
            "poll" => Waiting::Poll { every: Duration::from_secs(1), cap: Duration::from_mins(5) },
            "ignore" => Waiting::Ignore,
            time => Waiting::ReopenAfter(duration_text::parse(time).map_err(|_| {
                format!("`{time}` is not `poll`, `ignore` or a time such as `10s`")
            })?),
        }))
    }
}
