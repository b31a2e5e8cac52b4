//! Cells of a line, and what the name of a column says of its unit.

use std::borrow::Cow;

/// The cells of a line, quoted or not (RFC 4180), without the white space around them.
pub fn cells(line: &str, delimiter: char) -> Vec<Cow<'_, str>> {
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
pub fn delimiter(head: &str) -> Option<char> {
    let parts = |delimiter: char| cells(head, delimiter).len();
    // Of those that are equal, `max_by_key` returns the last: names have commas in them at times.
    [',', '\t', ';'].into_iter().max_by_key(|it| parts(*it)).filter(|it| parts(*it) > 1)
}

/// What a column holds, as far as its name says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ColumnKind {
    /// Times, and nanoseconds of 1 where the name says the unit.
    Time(Option<i64>),
    /// Power, and watts of 1.
    Power(f64),
    /// Energy, voltage, current or something else that is not power, in this unit.
    Other(&'static str),
    /// Megawatts, or milliwatts in capitals.
    Ambiguous,
    /// None of these, as far as the name shows.
    Unknown,
}

/// Names of columns of times.
const TIMES: [&str; 30] = [
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
    // German, French, Spanish and Portuguese, Italian, Dutch, Polish.
    "zeit",
    "uhrzeit",
    "datum",
    "zeitstempel",
    "zeitpunkt",
    "temps",
    "heure",
    "horodatage",
    "tiempo",
    "hora",
    "fecha",
    "tempo",
    "ora",
    "orario",
    "tijd",
    "tijdstip",
    "czas",
];

/// Words in such names.
const TIME_WORDS: [&str; 12] = [
    "time",
    "timestamp",
    "datetime",
    "date",
    "epoch",
    "elapsed",
    "milliseconds",
    "microseconds",
    "nanoseconds",
    "zeit",
    "uhrzeit",
    "zeitstempel",
];

/// Words of names that look like times, and are none of the row.
const NO_TIMES: [&str; 4] = ["cpu", "busy", "idle", "zone"];

/// Words of names that look like power, and are not what was drawn.
const NO_POWER: [&str; 26] = [
    "factor",
    "limit",
    "cap",
    "state",
    "reactive",
    "apparent",
    "default",
    "enforced",
    "max",
    "min",
    "rated",
    "blindleistung",
    "scheinleistung",
    "nennleistung",
    "maximalleistung",
    "spitzenleistung",
    "apparente",
    "aparente",
    "reactiva",
    "reattiva",
    "réactive",
    "reactief",
    "nominal",
    "nominale",
    "maximum",
    "minimum",
];

/// Words for power in other languages; those of German and Dutch end in it.
const POWER_WORDS: [&str; 6] = ["puissance", "potencia", "potência", "potenza", "effekt", "moc"];
const POWER_ENDS: [&str; 3] = ["power", "leistung", "vermogen"];

pub(super) const TIME_UNITS: [(&[&str], i64); 6] = [
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
    (
        &[
            "j", "kj", "mj", "uj", "joule", "joules", "energy", "ws", "energie", "énergie",
            "energía", "energia",
        ],
        "energy",
    ),
    (&["wh", "kwh", "mwh", "watthours"], "energy"),
    (&["v", "mv", "volt", "volts", "voltage", "spannung", "spanning"], "voltage"),
    (&["a", "ma", "amp", "amps", "ampere", "amperes", "current", "strom", "stroom"], "current"),
    (&["va", "kva", "var", "kvar"], "apparent or reactive power"),
    (&["c", "celsius", "temp", "temperature", "hz", "mhz", "percent", "pct"], "no power"),
];

pub(super) fn unit<T: Copy>(units: &[(&[&str], T)], word: &str) -> Option<T> {
    units.iter().find(|(names, _)| names.contains(&word)).map(|(_, of_one)| *of_one)
}

/// The words of a name: `power.draw [W]`, `timeMs` and `energy_kWh` end in their units.
pub(super) fn words(name: &str) -> Vec<&str> {
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
pub fn kind(name: &str) -> ColumnKind {
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
        None if lower.iter().any(|word| names_power(word)) => {
            let watts = lower.iter().find_map(|word| unit(&POWER_UNITS, word));
            ColumnKind::Power(watts.unwrap_or(1.0))
        }
        None => ColumnKind::Unknown,
    }
}

fn names_power(word: &str) -> bool {
    POWER_WORDS.contains(&word) || POWER_ENDS.iter().any(|end| word.ends_with(end))
}

/// Whether a column holds the dates of times that stand in another one.
pub(super) fn names_a_date(name: &str) -> bool {
    ["date", "datum", "fecha"].contains(&name.to_lowercase().as_str())
}

/// Whether a column may hold the times of the day, beside one of dates.
pub(super) fn names_a_time_of_day(name: &str) -> bool {
    let name = name.to_lowercase();
    ["time", "zeit", "uhrzeit", "heure", "hora", "tijd"].contains(&name.as_str())
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
const ENTITIES: [&str; 52] = [
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
    "appliance",
    "equipment",
    "asset",
    "consumer",
    "circuit",
    "breaker",
    "feed",
    "rail",
    "supply",
    "psu",
    "room",
    "area",
    "location",
    "unit",
    "vm",
    "container",
    // German.
    "gerät",
    "geraet",
    "steckdose",
    "zähler",
    "raum",
];

/// Does a column say whose figures a row has? `device`, `gpu_uuid`, `index`; but `utilization.gpu` does not.
pub fn names_an_entity(name: &str) -> bool {
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
            ("Zeitstempel", ColumnKind::Time(None)),
            ("Zeit (ms)", ColumnKind::Time(Some(1_000_000))),
            ("Wirkleistung", ColumnKind::Power(1.0)),
            ("Leistung [kW]", ColumnKind::Power(1e3)),
            ("Puissance active (W)", ColumnKind::Power(1.0)),
            ("Potencia", ColumnKind::Power(1.0)),
            ("Scheinleistung", ColumnKind::Unknown),
            ("Energie (kWh)", ColumnKind::Other("energy")),
            ("Energie", ColumnKind::Other("energy")),
            ("Spannung", ColumnKind::Other("voltage")),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }

    #[test]
    fn columns_that_name_things_are_known() {
        for name in [
            "entity_id",
            "device",
            "index",
            "gpu_uuid",
            "pci.bus_id",
            "name",
            "deviceName",
            "Appliance",
            "Gerät",
        ] {
            assert!(names_an_entity(name), "{name}");
        }
        for name in ["utilization.gpu [%]", "gpu", "run_id", "note", "", "cpu"] {
            assert!(!names_an_entity(name), "{name}");
        }
    }

    #[test]
    fn cells_may_name_their_unit() {
        assert_eq!(with_unit("61.23 W"), ("61.23", Some(1.0)));
        assert_eq!(with_unit("135mW"), ("135", Some(1e-3)));
        assert_eq!(with_unit("[N/A]"), ("[N/A]", None));
        assert_eq!(with_unit("7"), ("7", None));
    }
}
