//! Parses values on the command line.

use std::net::SocketAddr;
use std::time::Duration;

use nightwatt_energy::duration_text;

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
