//! Hours of the week as people write them: `mon-fri 08:00-18:00`.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use nightwatt_energy::time::{Mono, Now, Wall};

/// Days on which hours that are for working days do not apply: days since 1970-01-01, local time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DaysOff(Arc<BTreeSet<i64>>);

impl DaysOff {
    /// These days.
    pub fn new(days: BTreeSet<i64>) -> Self {
        Self(Arc::new(days))
    }

    /// Whether a day is one of them.
    pub fn has(&self, day: i64) -> bool {
        self.0.contains(&day)
    }

    /// The first one from a day on.
    pub(crate) fn first_from(&self, day: i64) -> Option<i64> {
        self.0.range(day..).next().copied()
    }

    /// All of them, in order.
    pub fn days(&self) -> impl Iterator<Item = i64> {
        self.0.iter().copied()
    }
}

/// When hours end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoursEnd {
    /// In this time.
    In(Duration),
    /// They are all hours of every day.
    Never,
}

impl HoursEnd {
    /// In how long, if they end.
    pub const fn left(self) -> Option<Duration> {
        match self {
            Self::In(left) => Some(left),
            Self::Never => None,
        }
    }
}

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const DAY_MS: i64 = 86_400_000;
const MINUTE_MS: i64 = 60_000;
/// Minutes of a day.
const DAY: u32 = 24 * 60;
/// Hours that last this long without a break do so every week.
const WEEK: Duration = Duration::from_hours(7 * 24);

/// From one local time of day to another, on some days of the week. What ends before it begins ends on the day
/// after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hours {
    /// As it was written.
    text: String,
    /// Monday first.
    days: [bool; 7],
    /// Minutes after midnight.
    from: u32,
    /// How many minutes it lasts.
    length: u32,
}

impl Hours {
    /// How much longer they last, if it is within them now.
    ///
    /// By the local time of now: where a clock is put forward or back until they end, ask again then.
    pub fn left(&self, now: Now) -> Option<Duration> {
        let today = now.hour_of_week() as usize / 24;
        let into_day = i64::from(now.second_of_day()) * 1000 + now.wall.0.rem_euclid(1000);
        let (from, length) = (i64::from(self.from), i64::from(self.length));
        // They began today, or last for a part of the day after.
        let left = |days_ago: usize| {
            let day_ms = if days_ago == 0 { 0 } else { DAY_MS };
            let into = into_day + day_ms - from * MINUTE_MS;
            let left = length * MINUTE_MS - into;
            (self.days[(today + 7 - days_ago) % 7] && into >= 0 && left > 0).then_some(left)
        };
        let left = left(0).max(left(1))?;
        u64::try_from(left).ok().map(Duration::from_millis)
    }

    /// When they begin and end if they begin on a day (counted from 1970-01-01): seconds of local time since 1970, as if
    /// that were UTC.
    pub(crate) fn on_day(&self, day: i64) -> Option<Range<i64>> {
        // 1970-01-01 was a Thursday: three days after a Monday.
        let weekday = usize::try_from((day + 3).rem_euclid(7)).unwrap_or(0);
        let from = day * 86_400 + i64::from(self.from) * 60;
        self.days[weekday].then(|| from..from + i64::from(self.length) * 60)
    }

    /// The longest that any of them last, if it is within one now.
    pub fn left_of(all: &[Self], now: Now) -> Option<Duration> {
        all.iter().filter_map(|hours| hours.left(now)).max()
    }

    /// When they end if it is within one now: those that overlap or meet are one. By the local time of now, as
    /// [`left`](Self::left) is.
    pub fn end_of(all: &[Self], now: Now) -> Option<HoursEnd> {
        let mut whole = Self::left_of(all, now)?;
        while let Some(more) = Self::left_of(all, Now { wall: now.wall + whole, ..now }) {
            whole += more;
            if whole >= WEEK {
                return Some(HoursEnd::Never);
            }
        }
        Some(HoursEnd::In(whole))
    }

    /// Whether they are all hours of every day.
    pub(crate) fn are_endless(all: &[Self]) -> bool {
        let any = Now { mono: Mono::ZERO, wall: Wall(0), utc_offset: 0 };
        Self::end_of(all, any) == Some(HoursEnd::Never)
    }
}

impl FromStr for Hours {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            Err(format!(
                "`{text}` are no hours: {why}. Write days and times, as in `mon-fri 08:00-18:00`, `sat,sun \
                 22:00-02:00`, or times alone for every day"
            ))
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let (days, times) = match words[..] {
            [times] => ([true; 7], times),
            [named, times] => match days(named) {
                Some(days) => (days, times),
                None => {
                    return wrong(&format!(
                        "`{named}` are no days (mon, tue, wed, thu, fri, sat, sun)"
                    ));
                }
            },
            _ => return wrong("there is more or less than that"),
        };
        let minutes = times.split_once('-').map(|(from, to)| (minute(from), minute(to)));
        let Some((Some(from), Some(to))) = minutes else {
            let why = with_two_digits(times).map_or_else(String::new, |right| {
                format!("; hours and minutes have two digits: write `{right}`")
            });
            return wrong(&format!("`{times}` are no two times of day{why}"));
        };
        if from == DAY {
            return wrong("24:00 is only an end, so write 00:00");
        }
        if from == to {
            return wrong("they last no time; all day is `00:00-24:00`");
        }
        let length = if to > from { to - from } else { to + DAY - from };
        Ok(Self { text: words.join(" "), days, from, length })
    }
}

/// `mon-wed,sun`; a range may go over the end of the week.
fn days(text: &str) -> Option<[bool; 7]> {
    let place = |name: &str| DAYS.iter().position(|day| name.eq_ignore_ascii_case(day));
    let mut days = [false; 7];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (place(first)?, place(last)?);
        for step in 0..=(last + 7 - first) % 7 {
            days[(first + step) % 7] = true;
        }
    }
    Some(days)
}

/// `08:30`, `24:00`.
fn minute(text: &str) -> Option<u32> {
    let (hour, minute) = text.split_once(':')?;
    let two_digits = |text: &str| {
        let is_so = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u32>().ok().filter(|_| is_so)
    };
    let (hour, minute) = (two_digits(hour)?, two_digits(minute)?);
    let of_day = hour * 60 + minute;
    (minute < 60 && of_day <= DAY).then_some(of_day)
}

/// Two times of day as they should be written, if only digits are missing: `08:00-18:00` for `8:00-18:00`.
fn with_two_digits(times: &str) -> Option<String> {
    let padded = |time: &str| {
        let (hour, minute) = time.split_once(':')?;
        let padded = format!("{hour:0>2}:{minute:0>2}");
        (!hour.is_empty() && !minute.is_empty() && self::minute(&padded).is_some())
            .then_some(padded)
    };
    let (from, to) = times.split_once('-')?;
    let right = format!("{}-{}", padded(from)?, padded(to)?);
    (right != times).then_some(right)
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for Hours {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Hours> for String {
    fn from(hours: Hours) -> Self {
        hours.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A moment of the week that begins on Monday, 23 November 2026, local time of UTC+1.
    fn at(day: i64, hour: i64, minute: i64) -> Now {
        let local = 1_795_392_000 + day * 86_400 + hour * 3600 + minute * 60;
        Now { mono: Mono::ZERO, wall: Wall::from_secs(local - 3600), utc_offset: 3600 }
    }

    fn left(hours: &str, now: Now) -> Option<u64> {
        hours.parse::<Hours>().unwrap().left(now).map(|left| left.as_secs() / 60)
    }

    #[test]
    fn they_last_from_their_first_minute_to_the_last_one_on_their_days() {
        let office = "mon-fri 08:00-18:00";
        assert_eq!(left(office, at(0, 7, 59)), None);
        assert_eq!(left(office, at(0, 8, 0)), Some(600));
        assert_eq!(left(office, at(4, 17, 59)), Some(1));
        assert_eq!(left(office, at(4, 18, 0)), None);
        assert_eq!(left(office, at(5, 12, 0)), None, "Saturday");
        assert_eq!(left("00:00-24:00", at(6, 23, 59)), Some(1));
    }

    #[test]
    fn what_ends_before_it_begins_ends_on_the_day_after() {
        let night = "sun,tue 22:00-02:30";
        assert_eq!(left(night, at(6, 22, 0)), Some(270));
        assert_eq!(left(night, at(0, 2, 29)), Some(1), "Sunday's, on Monday");
        assert_eq!(left(night, at(0, 2, 30)), None);
        assert_eq!(left(night, at(0, 22, 0)), None, "Monday has none");
        assert_eq!(left("Fri-Mon 10:00-11:00", at(6, 10, 30)), Some(30));
        assert_eq!(left("fri-mon 10:00-11:00", at(1, 10, 30)), None);
    }

    #[test]
    fn of_several_the_one_that_lasts_longest_counts() {
        let all: Vec<Hours> =
            ["08:00-12:00", "mon 10:00-20:00"].iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(Hours::left_of(&all, at(0, 11, 0)), Some(Duration::from_hours(9)));
        assert_eq!(Hours::left_of(&all, at(1, 11, 0)), Some(Duration::from_hours(1)));
        assert_eq!(Hours::left_of(&all, at(1, 12, 0)), None);
    }

    #[test]
    fn hours_that_meet_end_together_and_those_without_a_gap_in_the_week_never() {
        let end = |texts: &[&str], now| {
            let all: Vec<Hours> = texts.iter().map(|text| text.parse().unwrap()).collect();
            Hours::end_of(&all, now)
        };
        let after = |hours| Some(HoursEnd::In(Duration::from_hours(hours)));
        // Monday 20:00 to midnight, and on to Tuesday 06:00.
        assert_eq!(end(&["22:00-24:00", "00:00-06:00", "18:00-22:00"], at(0, 20, 0)), after(10));
        assert_eq!(end(&["22:00-24:00", "00:00-06:00"], at(0, 20, 0)), None);
        // Five days from Monday 00:00 on, of which Monday and Tuesday until noon are over.
        assert_eq!(end(&["mon-fri 00:00-24:00"], at(1, 12, 0)), after(3 * 24 + 12));
        // Friday noon to Thursday 24:00 over the end of the week.
        let most = ["sat-thu 00:00-24:00", "fri 12:00-24:00"];
        assert_eq!(end(&most, at(4, 12, 0)), after(6 * 24 + 12));
        assert_eq!(end(&most, at(4, 11, 0)), None);
        for endless in [
            &["00:00-24:00"][..],
            &["mon-fri 00:00-24:00", "sat,sun 00:00-24:00"],
            &["08:00-20:00", "20:00-08:00"],
            &["12:00-11:59", "11:00-12:00"],
        ] {
            for now in [at(0, 0, 0), at(3, 8, 0), at(6, 23, 59)] {
                assert_eq!(end(endless, now), Some(HoursEnd::Never), "{endless:?}");
            }
        }
        // A minute a day is missing: 11:59 to 12:00.
        let left = HoursEnd::In(Duration::from_mins(1439));
        assert_eq!(end(&["12:00-11:59"], at(2, 12, 0)), Some(left));
    }

    #[test]
    fn what_is_no_hours_is_told() {
        for (wrong, why) in [
            ("", "more or less"),
            ("mon", "two times of day"),
            ("mon 8:00-18:00", "two times of day"),
            ("mon 08:00-24:01", "two times of day"),
            ("mon 08:60-09:00", "two times of day"),
            ("mon 08:00-08:00", "no time"),
            ("mon 24:00-08:00", "24:00 is only an end, so write 00:00"),
            ("24:00-24:00", "24:00 is only an end"),
            ("8:00-18:00", "have two digits: write `08:00-18:00`"),
            ("mon 08:00-9:5", "have two digits: write `08:00-09:05`"),
            ("mo 08:00-18:00", "no days"),
            ("mon- 08:00-18:00", "no days"),
            ("mon 08:00 - 18:00", "more or less"),
        ] {
            let said = wrong.parse::<Hours>().unwrap_err();
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }
}
