//! `[[job]]`: commands that need a machine which sleeps, at a time of day.

use std::collections::HashSet;
use std::str::FromStr;
use std::time::Duration;

use nightwatt_energy::duration_text;
use serde::{Deserialize, Deserializer};

use super::{Config, Wrong, check_name, wrong};

const DAY_MINUTES: u16 = 24 * 60;
const NAMES: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// A command, and the machine that is woken for it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobConfig {
    /// Name in logs, status and file names.
    pub name: String,
    /// The site or machine that is woken for it, and kept awake while it runs.
    pub on: String,
    /// When, in local time: `"03:00"`, `"mon-fri 22:30"`, `"sun 03:00"`.
    pub at: At,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// It is ended after this time.
    #[serde(default = "default_limit", with = "duration_text")]
    pub limit: Duration,
}

fn default_limit() -> Duration {
    Duration::from_hours(12)
}

/// A time of day, on some days of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    /// One bit for each day, Monday first.
    days: u8,
    minute: u16,
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not a time: write \"03:00\", \"mon-fri 22:30\" or \"sat,sun 04:00\""
            )
        };
        let (days, time) = text.rsplit_once(' ').unwrap_or(("mon-sun", text));
        let (hour, minute) = time.split_once(':').ok_or_else(wrong)?;
        let number = |digits: &str| {
            let is_two = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_digit());
            is_two.then(|| digits.parse::<u16>().ok()).flatten().ok_or_else(wrong)
        };
        let (hour, minute) = (number(hour)?, number(minute)?);
        if minute >= 60 || hour * 60 + minute >= DAY_MINUTES {
            return Err(wrong());
        }
        let day = |name: &str| NAMES.iter().position(|it| *it == name.trim()).ok_or_else(wrong);
        let mut set = 0;
        for part in days.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (mut at, last) = (day(first)?, day(last)?);
            set |= 1 << at;
            while at != last {
                at = (at + 1) % NAMES.len();
                set |= 1 << at;
            }
        }
        Ok(Self { days: set, minute: hour * 60 + minute })
    }
}

impl<'de> Deserialize<'de> for At {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl At {
    /// Whether it is one of its days: days since 1970, which began on a Thursday.
    pub(crate) fn is_on(self, day: i64) -> bool {
        self.days & (1 << (day + 3).rem_euclid(7)) != 0
    }

    /// Seconds after midnight.
    pub(crate) fn second(self) -> i64 {
        i64::from(self.minute) * 60
    }

    /// In words: `03:00`, or `mon,tue 03:00`.
    pub fn shown(self) -> String {
        let time = format!("{:02}:{:02}", self.minute / 60, self.minute % 60);
        let days = NAMES.iter().enumerate().filter(|(at, _)| self.days & (1 << at) != 0);
        let days: Vec<&str> = days.map(|(_, name)| *name).collect();
        if days.len() == NAMES.len() { time } else { format!("{} {time}", days.join(",")) }
    }
}

/// Checks all jobs of a file.
pub(super) fn check_all(config: &Config, taken: &mut HashSet<String>) -> Result<(), Wrong> {
    let sites = config.site.iter().map(|site| site.name.as_str());
    let machines = config.machine.iter().map(|machine| machine.name.as_str());
    let names: Vec<&str> = sites.chain(machines).collect();
    for (index, job) in config.job.iter().enumerate() {
        let at = |key: &str| format!("job.{index}.{key}");
        check_name(&job.name, taken).map_err(|it| it.within(format_args!("job.{index}")))?;
        if !names.contains(&job.on.as_str()) {
            let text = format!(
                "there is no site or machine `{}`; there are: {}",
                job.on,
                names.join(", ")
            );
            return wrong(at("on"), text);
        }
        if job.command.first().is_none_or(String::is_empty) {
            let text = "`command` is empty: write the program and its arguments, as \
                        `[\"nightwatt\", \"send\", \"/home\", \"nas:/backup\"]`";
            return wrong(at("command"), text);
        }
        if job.limit.is_zero() {
            return wrong(at("limit"), "`limit` is 0: leave it out for 12h");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(job: &str) -> Result<Config, String> {
        let text = format!(
            "listen = [\"127.0.0.1:80\"]\n[[site]]\nname = \"nas\"\norigin = \"http://a:1\"\n\
             power.simulated = {{}}\n[[job]]\n{job}"
        );
        Config::parse(&text, "x").map_err(|error| error.to_string())
    }

    #[test]
    fn times_are_of_days_and_minutes() {
        let shown = |text: &str| text.parse::<At>().map(At::shown).ok();
        assert_eq!(shown("03:00").as_deref(), Some("03:00"));
        assert_eq!(shown("sat-mon 23:59").as_deref(), Some("mon,sat,sun 23:59"));
        assert_eq!(shown("tue, fri 00:05").as_deref(), Some("tue,fri 00:05"));
        for wrong in ["", "3:00", "24:00", "12:60", "someday 03:00", "03:00 mon", "-1:00", "03"] {
            assert_eq!(shown(wrong), None, "{wrong}");
        }
        // 2026-11-27, a Friday, is day 20784.
        let at: At = "fri 01:02".parse().unwrap();
        assert!(at.is_on(20_784) && !at.is_on(20_785) && at.second() == 3720);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let job = "name = \"b\"\non = \"nas\"\nat = \"03:00\"\ncommand = [\"true\"]";
        let config = parse(job).unwrap();
        assert_eq!(config.job[0].limit, Duration::from_hours(12));
        for (from, to, line, says) in [
            ("\"nas\"", "\"nsa\"", 8, "there are: nas"),
            ("03:00", "25:00", 9, "is not a time"),
            ("[\"true\"]", "[]", 10, "is empty"),
            ("\"b\"", "\"nas\"", 7, "must differ"),
        ] {
            let said = parse(&job.replacen(from, to, 1)).unwrap_err();
            assert!(said.starts_with(&format!("x:{line}:")) && said.contains(says), "{said}");
        }
    }
}
