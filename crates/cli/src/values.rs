//! Parses values on the command line.

use std::net::SocketAddr;
use std::time::Duration;

use nightwatt_energy::civil::Date;
use nightwatt_energy::duration_text;
use nightwatt_energy::time::Wall;

/// Values as the words of a command line, with commas between them: `window, 'timeout 5s'`.
pub(crate) fn as_words(values: impl IntoIterator<Item = impl ToString>) -> String {
    let word = |text: String| if text.contains(' ') { format!("'{text}'") } else { text };
    let words: Vec<String> = values.into_iter().map(|value| word(value.to_string())).collect();
    words.join(", ")
}

/// An address with a port: `0.0.0.0:80`, `[::]:80`.
pub(crate) fn address(word: &str) -> Result<SocketAddr, String> {
    word.parse().map_err(|_| {
        let port = word.trim_start_matches(':').parse().unwrap_or(80_u16);
        format!(
            "`{word}` is not an address: write ADDRESS:PORT, such as 0.0.0.0:{port} or [::]:{port}"
        )
    })
}

/// `50ms`, `5s`, `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    duration_text::parse(text)
}

/// A duration above zero.
pub(crate) fn some_time(text: &str) -> Result<Duration, String> {
    match duration_text::parse(text)? {
        Duration::ZERO => Err("it must be longer than nothing".to_owned()),
        time => Ok(time),
    }
}

/// A moment in UTC: `2026-03-01`, at whose beginning, or `2026-03-01T12:30`.
pub(crate) fn moment(text: &str) -> Result<Wall, String> {
    read_moment(text.strip_suffix('Z').unwrap_or(text)).ok_or_else(|| {
        format!("`{text}` is not a date: write 2026-03-01 or 2026-03-01T12:30, in UTC")
    })
}

fn read_moment(text: &str) -> Option<Wall> {
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let [year, month, day] = numbers::<3>(date, '-')?;
    let date = Date::new(i64::from(year), month, day).filter(|it| it.year() <= 9999)?;
    let to_minute = || numbers::<2>(time, ':').map(|[hour, minute]| [hour, minute, 0]);
    let [hour, minute, second] = numbers::<3>(time, ':').or_else(to_minute)?;
    let is_time = hour < 24 && minute < 60 && second < 60;
    let of_day = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    is_time.then(|| Wall::from_secs(date.days() * 86_400 + of_day))
}

/// Whole numbers with this mark between them.
fn numbers<const N: usize>(text: &str, mark: char) -> Option<[u32; N]> {
    let numbers = text.split(mark).map(|number| number.parse().ok());
    numbers.collect::<Option<Vec<u32>>>()?.try_into().ok()
}

/// A duration of a measurement, or between two readings.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_date_or_a_date_and_a_time_in_utc() {
        let midnight = 1_772_323_200;
        for (text, second) in [
            ("2026-03-01", 0),
            ("2026-03-01T12:30", 45_000),
            ("2026-03-01 12:30:07", 45_007),
            ("2026-03-01T23:59:59Z", 86_399),
        ] {
            assert_eq!(moment(text), Ok(Wall::from_secs(midnight + second)), "{text}");
        }
        for wrong in [
            "",
            "today",
            "2026-03",
            "2026-02-30",
            "2026-03-01T",
            "2026-03-01T24:00",
            "2026-03-01T12",
            "99999-01-01",
            "01/Mar/2026",
        ] {
            let error = moment(wrong).unwrap_err();
            assert!(error.contains(&format!("`{wrong}` is not a date: write 2026-")), "{error}");
        }
    }
}
