//! Distributions of service times, as plans have them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_energy::duration_text;
use nightwatt_sim::fleet::Service;
use serde::Deserialize;

use crate::fleet::fit::unit_of;

/// More measured times than this are a mistake.
const MOST_TIMES: usize = 10_000_000;

/// `deterministic`, `exponential`, `log-normal 0.5` (standard deviation over mean), or `empirical FILE`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub enum ServiceText {
    /// By its name.
    Law(Service),
    /// Drawn from the measured times in this file.
    Empirical(PathBuf),
}

impl Default for ServiceText {
    fn default() -> Self {
        Self::Law(Service::Deterministic)
    }
}

impl TryFrom<String> for ServiceText {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl std::str::FromStr for ServiceText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A file's name may have spaces.
        let file = text.trim().strip_prefix("empirical ").map(str::trim_start);
        if let Some(file) = file.filter(|file| !file.is_empty()) {
            return Ok(Self::Empirical(file.into()));
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        let service = match words[..] {
            ["deterministic"] => Some(Service::Deterministic),
            ["exponential"] => Some(Service::Exponential),
            ["log-normal", variation] => variation
                .parse()
                .ok()
                .filter(|it: &f64| *it >= 0.0 && it.is_finite())
                .map(|variation| Service::LogNormal { variation }),
            _ => None,
        };
        service.map(Self::Law).ok_or_else(|| {
            format!(
                "`{text}` is no distribution of service times: write `deterministic`, `exponential`, \
                 `log-normal 0.5` with the standard deviation over the mean, or `empirical FILE` with \
                 measured times"
            )
        })
    }
}

impl ServiceText {
    /// One of each form, for help.
    pub const EXAMPLES: [&str; 4] =
        ["deterministic", "exponential", "log-normal 0.5", "empirical FILE"];

    /// The distribution; a file is named from `folder` on, and read now.
    pub(super) fn read(&self, folder: &Path) -> Result<Service, String> {
        let file = match self {
            Self::Law(service) => return Ok(service.clone()),
            Self::Empirical(file) => folder.join(file),
        };
        let name = file.display();
        let text = std::fs::read_to_string(&file).map_err(|why| {
            format!("cannot read {name}: {why}; check that it is there and may be read")
        })?;
        times(&text).map(Service::Empirical).map_err(|why| format!("{name}: {why}"))
    }
}

/// The mean of measured times, s.
pub(super) fn mean(times: &[Duration]) -> f64 {
    times.iter().map(Duration::as_secs_f64).sum::<f64>() / times.len() as f64
}

/// Measured service times, one a line, with a unit (`12ms`) or under a heading that has one
/// (`service [ms]`).
fn times(text: &str) -> Result<Vec<Duration>, String> {
    const FORM: &str = "write one service time a line, as in `12ms`, or numbers under a heading with \
                        their unit, as in `service [ms]`";
    let mut times = Vec::new();
    let (mut unit, mut is_first) = (None, true);
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim().trim_matches('"');
        if line.is_empty() {
            continue;
        }
        let wrong = |why: &str| format!("line {} {why}; {FORM}", index + 1);
        let time = match (line.parse::<f64>(), unit) {
            (Ok(time), Some(unit)) => Duration::try_from_secs_f64(time * unit).ok(),
            (Ok(_), None) => return Err(wrong("is a time without a unit")),
            (Err(_), _) => duration_text::parse(line).ok(),
        };
        let is_heading = std::mem::take(&mut is_first) && time.is_none();
        unit = unit.or_else(|| if is_heading { unit_of(line) } else { None });
        if is_heading && unit.is_some() {
            continue;
        }
        if times.len() == MOST_TIMES {
            return Err(format!("there are more than {MOST_TIMES} times in it"));
        }
        times.push(time.ok_or_else(|| wrong("is no time"))?);
    }
    if times.iter().all(Duration::is_zero) {
        return Err(format!("there is no time above 0 in it; {FORM}"));
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_times_come_with_units_or_under_a_heading() {
        let expected = [12, 3, 0, 3].map(Duration::from_millis).to_vec();
        for text in [
            "12ms\n3ms\n0ms\n3ms",
            "\u{feff}service [ms]\r\n12\r\n3\r\n\r\n0\r\n3\r\n",
            "# of a Tuesday\n\"service_s\"\n0.012\n0.003 # often\n0\n\"0.003\"\n",
        ] {
            assert_eq!(times(text), Ok(expected.clone()), "{text}");
        }
        for (text, said) in [
            ("12ms\n7\n", "line 2 is a time without a unit"),
            ("7\n", "line 1 is a time without a unit"),
            ("service\n7\n", "line 1 is no time"),
            ("service [ms]\n7\n-1\n", "line 3 is no time"),
            ("service [ms]\n7,8\n", "line 2 is no time"),
            ("0ms\n", "no time above 0"),
            ("# nothing\n", "no time above 0"),
        ] {
            let error = times(text).unwrap_err();
            assert!(error.contains(said) && error.contains("; write one service time"), "{error}");
        }
    }

    #[test]
    fn distributions_are_told_by_their_names() {
        let law = |text: &str| text.parse::<ServiceText>();
        assert_eq!(law("exponential"), Ok(ServiceText::Law(Service::Exponential)));
        let file = |name: &str| Ok(ServiceText::Empirical(name.into()));
        assert_eq!(law("empirical measured times.csv"), file("measured times.csv"));
        for bad in ["", "empirical", "empirical ", "log-normal", "log-normal -1", "normal 1"] {
            assert!(law(bad).unwrap_err().contains("`empirical FILE`"), "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_times_or_a_reason(text in "[0-9a-z.,; \n\"#\\[\\]eE+-]{0,60}|\\PC{0,40}") {
            match times(&text) {
                Ok(times) => proptest::prop_assert!(mean(&times) > 0.0),
                Err(why) => proptest::prop_assert!(why.contains("write one service time")),
            }
        }
    }
}
