//! Which meter, as a user names it: `rapl`, `shelly=http://192.168.1.20`,
//! `snmp=10.0.0.3,oid=.1.3.6.1.4.1.318.1.1.12.1.16.0,name=rack`.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use nightwatt_energy::duration_text;
use nightwatt_host::secret::{Secret, SecretError};
use serde::Deserialize;

use crate::error::MeterError;

/// Options of a login.
pub(crate) const LOGIN: [&str; 3] = ["user", "password-file", "password-env"];

/// A driver, where its meter is, and what else has to be said. In TOML a table with the same keys:
/// `{ driver = "shelly", address = "http://192.168.1.20" }`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct MeterSpec {
    /// The driver's name.
    pub driver: String,
    /// Where the meter is: a URL, a device, a host. None for meters of this machine.
    #[serde(default)]
    pub address: Option<String>,
    /// Anything else, by name.
    #[serde(default, flatten, deserialize_with = "texts")]
    pub options: BTreeMap<String, String>,
}

/// Numbers and truth values may be written without quotes.
fn texts<'de, D: serde::Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "an option of a meter is text, a number, `true` or `false`")]
    enum Value {
        Text(String),
        Truth(bool),
        Whole(i64),
        Number(f64),
    }
    let values = BTreeMap::<String, Value>::deserialize(from)?;
    let text = |value| match value {
        Value::Text(text) => text,
        Value::Truth(truth) => truth.to_string(),
        Value::Whole(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
    };
    Ok(values.into_iter().map(|(name, value)| (name, text(value))).collect())
}

impl MeterSpec {
    /// The driver's meter of this machine.
    pub fn of(driver: &str) -> Self {
        Self { driver: driver.to_owned(), ..Self::default() }
    }

    /// What the user calls it, or the driver's name.
    pub fn name(&self) -> &str {
        self.options.get("name").map_or(&self.driver, String::as_str)
    }

    /// Where the meter is; an error with an example where that has not been said.
    pub fn address(&self, example: &str) -> Result<&str, MeterError> {
        self.address.as_deref().ok_or_else(|| {
            self.wrong(format!(
                "it does not say where the meter is; try `{}={example}`",
                self.driver
            ))
        })
    }

    /// An option's text.
    pub fn text(&self, option: &str) -> Option<&str> {
        self.options.get(option).map(String::as_str)
    }

    /// An option as a finite number.
    pub fn number(&self, option: &str) -> Result<Option<f64>, MeterError> {
        let Some(text) = self.text(option) else { return Ok(None) };
        match text.parse() {
            Ok(number) if f64::is_finite(number) => Ok(Some(number)),
            _ => Err(self.wrong(format!("`{option}` must be a number, and is `{text}`"))),
        }
    }

    /// An option as a time: `5s`, `200ms`.
    pub fn time(&self, option: &str) -> Result<Option<Duration>, MeterError> {
        let Some(text) = self.text(option) else { return Ok(None) };
        let time = duration_text::parse(text);
        time.map(Some).map_err(|error| self.wrong(format!("`{option}`: {error}")))
    }

    /// An option that is `true` or `false`.
    pub fn truth(&self, option: &str) -> Result<Option<bool>, MeterError> {
        let Some(text) = self.text(option) else { return Ok(None) };
        let truth = text.parse();
        truth
            .map(Some)
            .map_err(|_| self.wrong(format!("`{option}` is `true` or `false`, and not `{text}`")))
    }

    /// Complains of options that the driver does not have.
    pub fn only(&self, known: &[&str]) -> Result<(), MeterError> {
        let strange = |name: &&String| *name != "name" && !known.contains(&name.as_str());
        let Some(name) = self.options.keys().find(strange) else { return Ok(()) };
        let known = match known {
            [] => "it has none but `name`".to_owned(),
            known => format!("it has `name`, `{}`", known.join("`, `")),
        };
        Err(self.wrong(format!("there is no option `{name}`; {known}")))
    }

    /// The password that `password-file=` or `password-env=` names.
    pub(crate) fn password(&self) -> Result<Option<Secret>, MeterError> {
        match (self.text("password-file"), self.text("password-env")) {
            (Some(_), Some(_)) => {
                Err(self.wrong("`password-file` and `password-env` are both given: one is enough"))
            }
            (Some(path), None) => self.secret_in("password-file", path).map(Some),
            (None, Some(name)) => {
                Secret::from_env(name).map(Some).map_err(|error| self.wrong(error.to_string()))
            }
            (None, None) => Ok(None),
        }
    }

    /// The password in the first line of the file that a key names.
    pub(crate) fn secret_in(&self, key: &str, path: &str) -> Result<Secret, MeterError> {
        Secret::from_file(Path::new(path)).map_err(|error| match error {
            SecretError::File { path, source } => {
                let what = format!("read {}, which `{key}` names", path.display());
                MeterError::Io { what, error: source }
            }
            _ => self.wrong(format!("the first line of {path} is to be the password")),
        })
    }

    /// This specification is wrong.
    pub fn wrong(&self, why: impl Into<String>) -> MeterError {
        MeterError::Spec { meter: self.name().to_owned(), why: why.into() }
    }
}

impl FromStr for MeterSpec {
    type Err = MeterError;

    fn from_str(text: &str) -> Result<Self, MeterError> {
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let (driver, address) = match first.split_once('=') {
            Some((driver, address)) => (driver, Some(address.trim().to_owned())),
            None => (first, None),
        };
        let mut spec = Self { address, ..Self::of(driver.trim()) };
        for part in parts {
            let Some((name, value)) = part.split_once('=') else {
                return Err(spec.wrong(format!("`{part}` is no option: options are `name=value`")));
            };
            let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
            if spec.options.insert(name.clone(), value).is_some() {
                return Err(spec.wrong(format!("`{name}` is given twice")));
            }
        }
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_is_named_in_one_word_or_with_its_address_and_options() {
        assert_eq!("rapl".parse::<MeterSpec>().unwrap(), MeterSpec::of("rapl"));
        let spec: MeterSpec = "http=http://10.0.0.7/m?x=1,pointer=/power,every=2s".parse().unwrap();
        assert_eq!((spec.driver.as_str(), spec.name()), ("http", "http"));
        assert_eq!(spec.address.as_deref(), Some("http://10.0.0.7/m?x=1"));
        assert_eq!(spec.text("pointer"), Some("/power"));
        assert_eq!(spec.time("every").unwrap(), Some(Duration::from_secs(2)));
        let named: MeterSpec = "rapl,name=host".parse().unwrap();
        assert_eq!(named.name(), "host");
    }

    #[test]
    fn what_is_wrong_is_told() {
        let error = |text: &str| text.parse::<MeterSpec>().unwrap_err().to_string();
        assert!(error("rapl,fast").contains("`fast` is no option"), "{}", error("rapl,fast"));
        assert!(error("rapl,a=1,a=2").contains("`a` is given twice"));
        let spec: MeterSpec = "snmp,scale=ten,maybe=perhaps".parse().unwrap();
        assert!(spec.address("10.0.0.3").unwrap_err().to_string().contains("snmp=10.0.0.3"));
        assert!(spec.number("scale").unwrap_err().to_string().contains("is `ten`"));
        assert!(spec.truth("maybe").is_err());
        let strange = spec.only(&["scale"]).unwrap_err().to_string();
        assert!(strange.contains("no option `maybe`; it has `name`, `scale`"), "{strange}");
    }

    #[test]
    fn a_password_is_the_first_line_of_its_file_and_is_never_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "tell nobody \nmore\n").unwrap();
        let spec = format!("shelly=h,password-file={}", file.path().display());
        let spec: MeterSpec = spec.parse().unwrap();
        let secret = spec.password().unwrap().unwrap();
        assert_eq!(secret.reveal(), "tell nobody ", "spaces may belong to it");
        assert!(!format!("{secret:?}").contains("tell"));
        std::fs::write(file.path(), "\n").unwrap();
        assert!(spec.password().unwrap_err().to_string().contains("first line"));
        std::fs::write(file.path(), "x".repeat(100_000)).unwrap();
        let error = spec.password().unwrap_err().to_string();
        assert!(!error.contains("xx"), "{error}");
    }

    #[test]
    fn a_password_that_is_not_there_is_told_by_its_place() {
        let missing: MeterSpec = "shelly=h,password-file=/nowhere/at/all".parse().unwrap();
        assert!(missing.password().unwrap_err().to_string().contains("/nowhere/at/all"));
        let unset: MeterSpec = "shelly=h,password-env=NIGHTWATT_NOT_SET".parse().unwrap();
        assert!(unset.password().unwrap_err().to_string().contains("`NIGHTWATT_NOT_SET`"));
        let both: MeterSpec = "shelly=h,password-env=A,password-file=b".parse().unwrap();
        assert!(both.password().unwrap_err().to_string().contains("one is enough"));
        assert_eq!("shelly=h".parse::<MeterSpec>().unwrap().password().unwrap(), None);
    }
}
