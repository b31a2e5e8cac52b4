//! Cells of a line, and what the name of a column says of its unit.

use std::borrow::Cow;

/// The cells of a line, quoted or not (RFC 4180), without the white space around them.
pub(super) fn cells(line: &str, delimiter: char) -> Vec<Cow<'_, str>> {
    if !line.contains('"') {
        return line.split(delimiter).map(|cell| cell.trim().into()).collect();
    }
    let (mut cells, mut cell) = (Vec::new(), String::new());
    let (mut quoted, mut letters) = (false, line.chars().peekable());
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' => quoted = !quoted,
            letter if letter == delimiter && !quoted => {
                cells.push(std::mem::take(&mut cell).trim().to_owned().into());
            }
            letter => cell.push(letter),
        }
    }
    cells.push(cell.trim().to_owned().into());
    cells
}

/// What separates the cells of a head: what splits it into the most.
pub(super) fn delimiter(head: &str) -> Option<char> {
    let parts = |delimiter: char| cells(head, delimiter).len();
    // Of those that are equal, `max_by_key` returns the last: names have commas in them at times.
    [',', '\t', ';'].into_iter().max_by_key(|it| parts(*it)).filter(|it| parts(*it) > 1)
}

/// How a file writes decimal fractions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decimal {
    Point,
    Comma,
}

/// A finite number, and its decimal separator if that can be determined. `1,234.5` and `1.234,5` are
/// understood; `1.234` is ambiguous in a file with decimal commas (`known`).
pub(super) fn number(text: &str, known: Option<Decimal>) -> Option<(f64, Option<Decimal>)> {
    let text = text.trim();
    let (plain, seen) = match (text.rfind('.'), text.rfind(',')) {
        (None, None) => (Cow::Borrowed(text), None),
        (Some(_), None) => (Cow::Borrowed(text), Some(Decimal::Point)),
        (None, Some(_)) => (Cow::Owned(text.replace(',', ".")), Some(Decimal::Comma)),
        (Some(point), Some(comma)) if point > comma => {
            (Cow::Owned(without_groups(text, ',', '.')?), Some(Decimal::Point))
        }
        _ => (Cow::Owned(without_groups(text, '.', ',')?.replace(',', ".")), Some(Decimal::Comma)),
    };
    if known.is_some() && seen.is_some() && known != seen {
        return None;
    }
    let number = plain.parse().ok().filter(|number: &f64| number.is_finite())?;
    Some((number, seen))
}

/// `1,234,567.8` without the commas, which must stand before three digits each.
fn without_groups(text: &str, group: char, decimal: char) -> Option<String> {
    let (whole, fraction) = text.split_once(decimal)?;
    let mut groups = whole.split(group);
    let first = groups.next()?.trim_start_matches(['-', '+']);
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let fits = (1..=3).contains(&first.len())
        && is_digits(first)
        && groups.all(|group| group.len() == 3 && is_digits(group))
        && is_digits(fraction);
    fits.then(|| text.replace(group, ""))
}

/// What a column holds, as far as its name says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ColumnKind {
    /// Times, and nanoseconds of 1 where the name says the unit.
    Time(Option<i64>),
    /// Power, and watts of 1.
    Power(f64),
    /// Energy, voltage, current or something else that is not power, in this unit.
    Other(&'static str),
    /// Megawatts, or milliwatts in capitals.
    Ambiguous,
    Unknown,
}

/// Names of columns of times.
const TIMES: [&str; 13] = [
    "time",
    "timestamp",
    "datetime",
    "date",
    "epoch",
    "seconds",
    "t",
    "ts",
    "ms",
    "us",
    "ns",
    "last_changed",
    "last_updated",
];

/// Words in such names.
const TIME_WORDS: [&str; 9] = [
    "time",
    "timestamp",
    "datetime",
    "date",
    "epoch",
    "elapsed",
    "milliseconds",
    "microseconds",
    "nanoseconds",
];

/// Words of names that look like times, and are none of the row.
const NO_TIMES: [&str; 4] = ["cpu", "busy", "idle", "zone"];

/// Words of names that look like power, and are not what was drawn.
const NO_POWER: [&str; 11] = [
    "factor", "limit", "cap", "state", "reactive", "apparent", "default", "enforced", "max", "min",
    "rated",
];

const TIME_UNITS: [(&[&str], i64); 6] = [
    (&["ns", "nanos", "nanosecond", "nanoseconds"], 1),
    (&["us", "\u{b5}s", "\u{3bc}s", "usec", "micros", "microsecond", "microseconds"], 1_000),
    (&["ms", "msec", "millis", "millisecond", "milliseconds"], 1_000_000),
    (&["s", "sec", "secs", "second", "seconds"], 1_000_000_000),
    (&["min", "mins", "minute", "minutes"], 60_000_000_000),
    (&["h", "hr", "hrs", "hour", "hours"], 3_600_000_000_000),
];

const POWER_UNITS: [(&[&str], f64); 5] = [
    (&["w", "watt", "watts"], 1.0),
    (&["kw", "kilowatt", "kilowatts"], 1e3),
    (&["mw", "milliwatt", "milliwatts"], 1e-3),
    (&["uw", "\u{b5}w", "\u{3bc}w", "microwatt", "microwatts"], 1e-6),
    (&["megawatt", "megawatts"], 1e6),
];

const OTHER_UNITS: [(&[&str], &str); 6] = [
    (&["j", "kj", "mj", "uj", "joule", "joules", "energy", "ws"], "energy"),
    (&["wh", "kwh", "mwh", "watthours"], "energy"),
    (&["v", "mv", "volt", "volts", "voltage"], "voltage"),
    (&["a", "ma", "amp", "amps", "ampere", "amperes", "current"], "current"),
    (&["va", "kva", "var", "kvar"], "apparent or reactive power"),
    (&["c", "celsius", "temp", "temperature", "hz", "mhz", "percent", "pct"], "no power"),
];

fn unit<T: Copy>(units: &[(&[&str], T)], word: &str) -> Option<T> {
    units.iter().find(|(names, _)| names.contains(&word)).map(|(_, of_one)| *of_one)
}

/// The words of a name: `power.draw [W]`, `timeMs` and `energy_kWh` end in their units.
fn words(name: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for part in name.split(|it: char| !it.is_alphanumeric()).filter(|part| !part.is_empty()) {
        let (mut begin, mut lower) = (0, 0);
        for (at, letter) in part.char_indices() {
            // Of `mW` and `kWh` the capital is a part.
            if letter.is_uppercase() && lower >= 2 {
                words.push(&part[begin..at]);
                begin = at;
            }
            lower = if letter.is_lowercase() { lower + 1 } else { 0 };
        }
        words.push(&part[begin..]);
    }
    words
}

/// What a column of that name holds.
pub(super) fn kind(name: &str) -> ColumnKind {
    let words = words(name);
    let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let has = |list: &[&str]| lower.iter().any(|word| list.contains(&word.as_str()));
    let (Some(last), Some(last_as_is)) = (lower.last(), words.last()) else {
        return ColumnKind::Unknown;
    };
    let time_unit = unit(&TIME_UNITS, last);
    let is_time = TIMES.contains(&name.trim().to_lowercase().as_str())
        || (has(&TIME_WORDS) && !has(&NO_TIMES) && unit(&POWER_UNITS, last).is_none())
        || (lower.len() == 2 && lower[0] == "t" && time_unit.is_some());
    if is_time {
        return ColumnKind::Time(time_unit);
    }
    if let Some(what) = unit(&OTHER_UNITS, last) {
        return ColumnKind::Other(what);
    }
    if has(&NO_POWER) {
        return ColumnKind::Unknown;
    }
    let in_capitals = !name.chars().any(char::is_lowercase);
    match unit(&POWER_UNITS, last) {
        Some(_) if *last_as_is == "MW" && in_capitals => ColumnKind::Ambiguous,
        Some(_) if *last_as_is == "MW" => ColumnKind::Power(1e6),
        Some(watts) => ColumnKind::Power(watts),
        None if lower.iter().any(|word| word.ends_with("power")) => {
            let watts = lower.iter().find_map(|word| unit(&POWER_UNITS, word));
            ColumnKind::Power(watts.unwrap_or(1.0))
        }
        None => ColumnKind::Unknown,
    }
}

/// `61.23 W` as a number and the watts of 1 that it names itself.
pub(super) fn with_unit(cell: &str) -> (&str, Option<f64>) {
    let number = cell.trim_end_matches(|it: char| it.is_alphabetic()).trim_end();
    let letters = cell[number.len()..].trim();
    match letters {
        "" => (cell, None),
        // Millions of watts are not measured by what writes such cells.
        "MW" => (number, Some(1e6)),
        letters => match unit(&POWER_UNITS, &letters.to_lowercase()) {
            Some(watts) => (number, Some(watts)),
            None => (cell, None),
        },
    }
}

/// Things that have a row each at every time.
const ENTITIES: [&str; 31] = [
    "entity",
    "device",
    "sensor",
    "host",
    "hostname",
    "node",
    "plug",
    "outlet",
    "meter",
    "channel",
    "socket",
    "rack",
    "server",
    "machine",
    "domain",
    "component",
    "board",
    "card",
    "phase",
    "pdu",
    "bus",
    "gpu",
    "instance",
    "metric",
    "series",
    "field",
    "measurement",
    "tag",
    "object",
    "label",
    "source",
];

/// Does a column say whose figures a row has? `device`, `gpu_uuid`, `index`; but `utilization.gpu` does not.
pub(super) fn names_an_entity(name: &str) -> bool {
    let words: Vec<String> = words(name).iter().map(|word| word.to_lowercase()).collect();
    let is_entity = |word: &String| ENTITIES.contains(&word.as_str());
    let is_name =
        |word: &String| ["id", "name", "uuid", "index", "number"].contains(&word.as_str());
    match &words[..] {
        [word] => is_name(word) || (is_entity(word) && word != "gpu"),
        [rest @ .., last] => is_name(last) && rest.iter().any(is_entity),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_split_as_rfc_4180_has_it() {
        assert_eq!(cells("a,,\"b,\"\"c\"\"\", d ", ','), ["a", "", "b,\"c\"", "d"]);
        assert_eq!(cells("\"1,5\";2", ';'), ["1,5", "2"]);
        assert_eq!(delimiter("time;power, mean"), Some(';'));
        assert_eq!((delimiter("a,b,c;d"), delimiter("time")), (Some(','), None));
    }

    #[test]
    fn units_are_read_from_names() {
        for (name, expected) in [
            ("time", ColumnKind::Time(None)),
            ("Timestamp", ColumnKind::Time(None)),
            ("time_relative_ms", ColumnKind::Time(Some(1_000_000))),
            ("Time (us)", ColumnKind::Time(Some(1_000))),
            ("timeMs", ColumnKind::Time(Some(1_000_000))),
            ("elapsed_s", ColumnKind::Time(Some(1_000_000_000))),
            ("Elapsed [min]", ColumnKind::Time(Some(60_000_000_000))),
            ("timestamp_ns", ColumnKind::Time(Some(1))),
            ("watts", ColumnKind::Power(1.0)),
            ("cpu_watts", ColumnKind::Power(1.0)),
            ("power_watts", ColumnKind::Power(1.0)),
            ("Power (kW)", ColumnKind::Power(1e3)),
            ("KW", ColumnKind::Power(1e3)),
            ("power_mW", ColumnKind::Power(1e-3)),
            ("power_mw", ColumnKind::Power(1e-3)),
            ("Leistung [MW]", ColumnKind::Power(1e6)),
            ("POWER_MW", ColumnKind::Ambiguous),
            ("\u{b5}W", ColumnKind::Power(1e-6)),
            ("power.draw [W]", ColumnKind::Power(1.0)),
            ("power_avg", ColumnKind::Power(1.0)),
            ("energy_kWh", ColumnKind::Other("energy")),
            ("Wh", ColumnKind::Other("energy")),
            ("energy_relative_joules", ColumnKind::Other("energy")),
            ("volts", ColumnKind::Other("voltage")),
            ("power.limit [W]", ColumnKind::Unknown),
            ("power_factor", ColumnKind::Unknown),
            ("cpu_time", ColumnKind::Unknown),
            ("note", ColumnKind::Unknown),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }

    #[test]
    fn columns_that_name_things_are_known() {
        for name in ["entity_id", "device", "index", "gpu_uuid", "pci.bus_id", "name", "deviceName"]
        {
            assert!(names_an_entity(name), "{name}");
        }
        for name in ["utilization.gpu [%]", "gpu", "run_id", "note", "", "cpu"] {
            assert!(!names_an_entity(name), "{name}");
        }
    }

    #[test]
    fn numbers_have_points_or_commas_and_never_both_in_one_file() {
        let (point, comma) = (Some(Decimal::Point), Some(Decimal::Comma));
        for (text, known, expected) in [
            ("20", comma, Some((20.0, None))),
            ("20,5", None, Some((20.5, comma))),
            ("20.5", None, Some((20.5, point))),
            ("20.5", comma, None),
            ("1,234.5", None, Some((1234.5, point))),
            ("1.234,5", comma, Some((1234.5, comma))),
            ("1,23,4.5", None, None),
            ("1,234,567", None, None),
            ("nan", None, None),
        ] {
            assert_eq!(number(text, known), expected, "{text}");
        }
        assert_eq!(with_unit("61.23 W"), ("61.23", Some(1.0)));
        assert_eq!(with_unit("135mW"), ("135", Some(1e-3)));
        assert_eq!(with_unit("[N/A]"), ("[N/A]", None));
        assert_eq!(with_unit("7"), ("7", None));
    }
}
