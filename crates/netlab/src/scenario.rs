//! Tables of links: how fast, how lossy, how long.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use super::Error;

/// The published table.
const PUBLISHED: &str = include_str!("scenarios.csv");

const COLUMNS: [&str; 4] = ["scenario", "bandwidth_mbit_s", "extra_loss_percent", "extra_delay_ms"];

/// The slowest and the fastest link that can be emulated, in Mbit/s.
const RATES: std::ops::RangeInclusive<f64> = 0.01..=100_000.0;

/// The longest extra delay, in milliseconds.
const LONGEST_DELAY: f64 = 10_000.0;

/// What a link is called of which nothing is emulated.
pub const BARE: &str = "none";

/// A link that is wanted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scenario {
    /// What tables and reports call it.
    pub name: String,
    /// In bits of Ethernet frames per second, as cards count them: without preamble and gap.
    pub bits_per_second: f64,
    /// The share of packets that are lost, in each direction, besides what congestion does.
    pub loss: f64,
    /// What the round trip gains; each direction has half of it.
    pub delay: Duration,
}

/// The published scenarios.
pub fn published() -> Vec<Scenario> {
    read("the published table", PUBLISHED).unwrap_or_default()
}

/// A table of that form: lines that begin with `#` are comments, the first other one names the columns.
pub fn read(name: &str, text: &str) -> Result<Vec<Scenario>, Error> {
    let table_error = |line: usize, why: String| Error::Table { table: name.to_owned(), line, why };
    let mut lines = (1..).zip(text.lines().map(str::trim));
    let mut lines = lines.by_ref().filter(|(_, it)| !it.is_empty() && !it.starts_with('#'));
    let (number, header) =
        lines.next().ok_or_else(|| table_error(1, "the table is empty".to_owned()))?;
    let header: Vec<&str> =
        header.trim_start_matches('\u{feff}').split(',').map(str::trim).collect();
    let place = |column: &str| {
        let found = header.iter().position(|it| *it == column);
        found.ok_or_else(|| {
            table_error(
                number,
                format!("no column `{column}`: the columns are {}", COLUMNS.join(", ")),
            )
        })
    };
    let places = [place(COLUMNS[0])?, place(COLUMNS[1])?, place(COLUMNS[2])?, place(COLUMNS[3])?];
    let (mut all, mut names) = (Vec::new(), BTreeSet::new());
    for (number, line) in lines {
        let scenario = row(line, &header, places).map_err(|why| table_error(number, why))?;
        if !names.insert(scenario.name.clone()) {
            return Err(table_error(
                number,
                format!("scenario `{}` is there twice", scenario.name),
            ));
        }
        all.push(scenario);
    }
    if all.is_empty() { Err(table_error(number, "no scenario in it".to_owned())) } else { Ok(all) }
}

/// Percent. With more hardly any connection comes about, and its time-outs are minutes.
const MOST_LOST: f64 = 50.0;

fn row(line: &str, header: &[&str], places: [usize; 4]) -> Result<Scenario, String> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    if cells.len() != header.len() {
        return Err(format!("{} values for {} columns", cells.len(), header.len()));
    }
    let number = |place: usize, range: std::ops::RangeInclusive<f64>| {
        let (text, column) = (cells[place], header[place]);
        let value = text.parse().ok().filter(|value| range.contains(value));
        value.ok_or_else(|| {
            format!("{column} `{text}`: write a number from {} to {}", range.start(), range.end())
        })
    };
    let [name, rate, loss, delay] = places;
    let is_word = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    if cells[name].is_empty() || !cells[name].chars().all(is_word) {
        return Err(format!("scenario `{}`: a name has letters, digits, - _ .", cells[name]));
    }
    Ok(Scenario {
        name: cells[name].to_owned(),
        bits_per_second: 1e6 * number(rate, RATES)?,
        loss: number(loss, 0.0..=MOST_LOST)? / 100.0,
        delay: Duration::from_secs_f64(number(delay, 0.0..=LONGEST_DELAY)? / 1e3),
    })
}

/// Those that are named, in the order of the table: `d`, `a,d`, or `all`.
pub fn chosen(table: &[Scenario], names: &str) -> Result<Vec<Scenario>, Error> {
    if names == "all" {
        return Ok(table.to_vec());
    }
    let wanted: BTreeSet<&str> =
        names.split(',').map(str::trim).filter(|it| !it.is_empty()).collect();
    let known: Vec<&str> = table.iter().map(|it| it.name.as_str()).collect();
    if let Some(unknown) = wanted.iter().find(|name| !known.contains(*name)) {
        return Err(Error::NoScenario { name: (*unknown).to_owned(), known: known.join(", ") });
    }
    if wanted.is_empty() {
        return Err(Error::NoScenario { name: names.to_owned(), known: known.join(", ") });
    }
    Ok(table.iter().filter(|it| wanted.contains(it.name.as_str())).cloned().collect())
}

/// The same, where [`BARE`] is a link, too.
pub fn chosen_or_bare(table: &[Scenario], names: &str) -> Result<Vec<Scenario>, Error> {
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    let rest: Vec<&str> = names.iter().copied().filter(|it| *it != BARE).collect();
    let mut all = Vec::new();
    if rest.len() < names.len() {
        all.push(Scenario::bare());
    }
    if all.is_empty() || !rest.is_empty() {
        all.extend(chosen(table, &rest.join(","))?);
    }
    Ok(all)
}

impl Scenario {
    /// A link of which nothing is emulated: two cards, joined.
    pub fn bare() -> Self {
        let (bits_per_second, loss, delay) = (f64::INFINITY, 0.0, Duration::ZERO);
        Self { name: BARE.to_owned(), bits_per_second, loss, delay }
    }

    /// Whether nothing of the link is emulated.
    pub const fn is_bare(&self) -> bool {
        self.bits_per_second.is_infinite()
    }

    /// In words: `10 Mbit/s, 0.5 % lost, 10 ms`.
    pub fn text(&self) -> String {
        if self.is_bare() {
            return "as fast as it goes".to_owned();
        }
        let mut text = format!("{} Mbit/s", self.bits_per_second / 1e6);
        if self.loss > 0.0 {
            let _ = write!(text, ", {} % lost", 100.0 * self.loss);
        }
        if !self.delay.is_zero() {
            let _ = write!(text, ", {} ms more", self.delay.as_secs_f64() * 1e3);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table_is_the_published_one() {
        // Table I, by hand.
        let rows = [
            ("a", 1000.0, 0.0, 0),
            ("b", 1000.0, 0.005, 0),
            ("c", 1000.0, 0.0, 10),
            ("d", 10.0, 0.0, 0),
            ("e", 100.0, 0.0, 0),
            ("f", 10.0, 0.0, 10),
            ("g", 100.0, 0.0, 10),
        ];
        let rows = rows.map(|(name, mbit, loss, ms)| Scenario {
            name: name.to_owned(),
            bits_per_second: 1e6 * mbit,
            loss,
            delay: Duration::from_millis(ms),
        });
        assert_eq!(published(), rows);
    }

    #[test]
    fn it_is_the_file_beside_the_project_line_by_line() {
        let data = std::env::var("NIGHTWATT_DATA").unwrap_or_else(|_| {
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data").to_owned()
        });
        let path = std::path::Path::new(&data).join("../published/bolla_scenarios.csv");
        let Ok(text) = std::fs::read_to_string(&path) else {
            eprintln!("skipped: no {}", path.display());
            return;
        };
        assert_eq!(read("file", &text).unwrap(), published());
    }

    #[test]
    fn columns_may_stand_in_any_order_and_mistakes_name_their_line() {
        let text = "extra_delay_ms, scenario, bandwidth_mbit_s, extra_loss_percent, note\n\n# x\n2.5, dsl, 16, 0.1, slow\n";
        let [dsl] = &read("t", text).unwrap()[..] else { panic!("one") };
        assert_eq!((dsl.delay, dsl.bits_per_second), (Duration::from_micros(2500), 16e6));
        assert!((dsl.loss - 0.001).abs() < 1e-15);
        let head = "scenario,bandwidth_mbit_s,extra_loss_percent,extra_delay_ms\n";
        for (rest, said) in [
            ("a,0,0,0", "line 2"),
            ("a,10,51,0", "0 to 50"),
            ("a,10,0", "3 values"),
            ("a,10,0,-1", "extra_delay_ms `-1`"),
            ("a,10,0,0\na,10,0,0", "line 3: scenario `a` is there twice"),
            ("a,NaN,0,0", "NaN"),
            ("x;y,1,0,0", "letters"),
            ("", "no scenario"),
        ] {
            let error = read("t", &format!("{head}{rest}")).unwrap_err().to_string();
            assert!(error.contains(said), "{rest:?}: {error}");
        }
        assert!(
            read("t", "scenario,extra_delay_ms").unwrap_err().to_string().contains("bandwidth")
        );
        assert!(read("t", "").unwrap_err().to_string().contains("empty"));
    }

    #[test]
    fn scenarios_are_chosen_by_name() {
        let names = |text: &str| -> Vec<String> {
            chosen(&published(), text).unwrap().into_iter().map(|it| it.name).collect()
        };
        assert_eq!(names("d"), ["d"]);
        assert_eq!(names("d, a"), ["a", "d"]);
        assert_eq!(names("all").len(), 7);
        let error = chosen(&published(), "d,x").unwrap_err().to_string();
        assert!(error.contains("`x`") && error.contains("a, b, c"), "{error}");
        assert!(chosen(&published(), ",").is_err());
        let names = |text: &str| -> Vec<String> {
            chosen_or_bare(&published(), text).unwrap().into_iter().map(|it| it.name).collect()
        };
        assert_eq!(names("d,none"), ["none", "d"]);
        assert_eq!(names("none"), ["none"]);
        assert_eq!(names("all").len(), 7);
        assert!(chosen_or_bare(&published(), "").is_err());
    }
}
