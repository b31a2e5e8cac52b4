//! Tables of figures, by the names of their columns: in any order and unit, of one thing.

use std::borrow::Cow;

use nightwatt_meters::log::tables::{self, ColumnKind, Decimal, Quantity, Shown};

use crate::error::Error;

/// A column that is wanted.
pub(super) struct Wanted {
    /// What it is called, in messages and by those who follow them.
    pub(super) name: &'static str,
    pub(super) quantity: Quantity,
    /// One of these words is in its name. None: the quantity's unit is enough.
    pub(super) words: &'static [&'static str],
    pub(super) is_optional: bool,
}

impl Wanted {
    pub(super) const fn new(
        name: &'static str,
        quantity: Quantity,
        words: &'static [&'static str],
    ) -> Self {
        Self { name, quantity, words, is_optional: false }
    }

    pub(super) const fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    fn is_called(&self, name: &str) -> bool {
        if self.words.is_empty() {
            let is_unclear = tables::kind(name) == ColumnKind::Ambiguous;
            return self.quantity.unit_in(name).is_some()
                || (is_unclear && self.quantity == Quantity::Power);
        }
        tables::has_word(name, self.words)
    }
}

/// A row: its line, and the wanted figures in their own units, in the order in which they are wanted.
pub(super) struct Row {
    pub(super) line: usize,
    pub(super) figures: Vec<Option<f64>>,
}

impl Row {
    /// A figure that every row has.
    pub(super) fn of(&self, place: usize) -> f64 {
        self.figures[place].unwrap_or(f64::NAN)
    }
}

/// A line of cells, and its number.
struct Line<'a> {
    number: usize,
    cells: Vec<Cow<'a, str>>,
}

/// Where a wanted column stands, and what 1 is in it.
struct Place {
    column: usize,
    unit: f64,
}

/// Reads a table. Without a line of names its columns are the wanted ones in their order. Lines that begin
/// with `#` are left out.
pub(super) fn read(text: &str, wanted: &[Wanted]) -> Result<Vec<Row>, Error> {
    let text = text.trim_start_matches('\u{feff}');
    let lines = text.lines().zip(1..).map(|(line, number)| (line.trim(), number));
    let lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    let first = lines.clone().next().map_or("", |(line, _)| line);
    let delimiter = tables::delimiter(first).unwrap_or(',');
    let mut lines: Vec<Line<'_>> = lines
        .map(|(line, number)| Line { number, cells: tables::cells(line, delimiter) })
        .collect();
    let Some(first) = lines.first() else {
        return Err(bad(1, "there is nothing in it".to_owned()));
    };
    let is_number = |cell: &Cow<'_, str>| tables::number(cell, None).is_some();
    let has_head = !first.cells.iter().any(is_number);
    let head = has_head.then(|| lines.remove(0));
    let places = match &head {
        Some(head) => by_name(head, wanted)?,
        None => by_order(wanted),
    };
    if let Some(head) = &head {
        check_things(head, &lines, &places)?;
    }
    let decimal = decimal_of(&lines, &places, delimiter)?;
    let row = |line: &Line<'_>| {
        check_width(line, head.as_ref(), wanted)?;
        let figures = places.iter().zip(wanted);
        let figures = figures.map(|(place, wanted)| figure(line, place.as_ref(), wanted, decimal));
        Ok(Row { line: line.number, figures: figures.collect::<Result<_, Error>>()? })
    };
    lines.iter().map(row).collect()
}

fn bad(line: usize, why: String) -> Error {
    Error::Table { line, why }
}

fn by_order(wanted: &[Wanted]) -> Vec<Option<Place>> {
    let place = |(column, wanted): (usize, &Wanted)| {
        (!wanted.is_optional).then_some(Place { column, unit: 1.0 })
    };
    wanted.iter().enumerate().map(place).collect()
}

fn by_name(head: &Line<'_>, wanted: &[Wanted]) -> Result<Vec<Option<Place>>, Error> {
    let names: Vec<&str> = head.cells.iter().map(|cell| &**cell).collect();
    let mut taken: Vec<usize> = Vec::new();
    let mut places: Vec<Option<Place>> = Vec::new();
    for wanted in wanted {
        let free = |column: &usize| !taken.contains(column);
        let exact = (0..names.len()).filter(free).find(|&column| names[column] == wanted.name);
        let called = || (0..names.len()).filter(free).find(|&it| wanted.is_called(names[it]));
        let found = exact.or_else(called);
        taken.extend(found);
        places.push(match found {
            Some(column) => Some(Place { column, unit: unit(head, names[column], wanted)? }),
            None if wanted.is_optional => None,
            None => {
                let why = format!(
                    "the head names no `{}`, but `{}`; name the column so, with its unit at the end",
                    wanted.name,
                    names.join("`, `")
                );
                return Err(bad(head.number, why));
            }
        });
    }
    Ok(places)
}

/// What 1 is in a column.
fn unit(head: &Line<'_>, name: &str, wanted: &Wanted) -> Result<f64, Error> {
    if wanted.quantity == Quantity::Power && tables::kind(name) == ColumnKind::Ambiguous {
        let why = format!(
            "column `{name}` is in megawatts or in milliwatts: call it `mW` or `megawatts`"
        );
        return Err(bad(head.number, why));
    }
    Ok(wanted.quantity.unit_in(name).unwrap_or(1.0))
}

/// Rows of several things, of which a column names the thing, are no table of one.
fn check_things(
    head: &Line<'_>,
    lines: &[Line<'_>],
    places: &[Option<Place>],
) -> Result<(), Error> {
    let is_used = |column: usize| places.iter().flatten().any(|place| place.column == column);
    let names = head.cells.iter().enumerate();
    for (column, name) in names.filter(|(at, name)| !is_used(*at) && tables::names_an_entity(name))
    {
        let mut values = lines.iter().filter_map(|line| Some((line, line.cells.get(column)?)));
        let Some((_, first)) = values.next() else { continue };
        if let Some((line, other)) = values.find(|(_, value)| *value != first) {
            let why = format!(
                "the rows are of several things: column `{name}` has `{first}` and `{other}`; keep the rows of one"
            );
            return Err(bad(line.number, why));
        }
    }
    Ok(())
}

/// How the table writes fractions.
fn decimal_of(
    lines: &[Line<'_>],
    places: &[Option<Place>],
    delimiter: char,
) -> Result<Option<Decimal>, Error> {
    let mut shown = Shown::default();
    for line in lines {
        for place in places.iter().flatten() {
            line.cells.get(place.column).into_iter().for_each(|cell| shown.take(cell));
        }
    }
    shown.decimal(delimiter).map_err(|cell| {
        let is_it = |line: &&Line<'_>| line.cells.iter().any(|it| it == cell);
        let line = lines.iter().find(is_it).map_or(1, |line| line.number);
        bad(
            line,
            format!("`{cell}` may be a fraction or more than 1000; write it without separators"),
        )
    })
}

fn check_width(line: &Line<'_>, head: Option<&Line<'_>>, wanted: &[Wanted]) -> Result<(), Error> {
    let cells = line.cells.len();
    match head {
        Some(head) if cells > head.cells.len() => Err(bad(
            line.number,
            format!(
                "it has {cells} cells, and the head has {}; write decimal points, or `;` between cells",
                head.cells.len()
            ),
        )),
        Some(_) => Ok(()),
        None => {
            let names = wanted.iter().filter(|it| !it.is_optional).map(|it| it.name);
            let names: Vec<&str> = names.collect();
            let why = || format!("it must hold {} numbers: {}", names.len(), names.join(", "));
            if cells == names.len() { Ok(()) } else { Err(bad(line.number, why())) }
        }
    }
}

fn figure(
    line: &Line<'_>,
    place: Option<&Place>,
    wanted: &Wanted,
    decimal: Option<Decimal>,
) -> Result<Option<f64>, Error> {
    let Some(Place { column, unit }) = place else { return Ok(None) };
    let cell = line.cells.get(*column).map_or("", |cell| &**cell);
    let number = tables::number(cell, decimal).map(|(number, _)| number * unit);
    let why = || format!("`{}` is `{cell}`, which is no number", wanted.name);
    number.map(Some).ok_or_else(|| bad(line.number, why()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: [Wanted; 2] = [
        Wanted::new("watts", Quantity::Power, &[]),
        Wanted::new("busy", Quantity::Share, &["busy", "load"]),
    ];

    fn figures(text: &str) -> Vec<(f64, f64)> {
        let rows = read(text, &WANTED).unwrap_or_else(|error| panic!("{text}: {error}"));
        rows.iter().map(|row| (row.of(0), row.of(1))).collect()
    }

    #[test]
    fn columns_are_found_by_name_and_read_in_their_units() {
        for text in [
            "40,0.5\n70,1",
            "watts,busy\n40,0.5\n70,1",
            "busy,watts\n0.5,40\n1,70",
            "\u{feff}Busy [%];Power (kW);note\n50;0,04;x\n100;0,07;y",
            "# of a server\nload_percent\tpower_mW\n50\t40000\n100\t70000",
        ] {
            assert_eq!(figures(text), [(40.0, 0.5), (70.0, 1.0)], "{text}");
        }
    }

    #[test]
    fn what_would_be_misread_is_refused() {
        for (text, expected) in [
            (
                "host,watts,busy\na,40,0\nb,70,1",
                "line 3: the rows are of several things: column `host`",
            ),
            ("watts,busy\n40,5,0\n70,5,1", "line 2: it has 3 cells"),
            ("POWER_MW,busy\n40,0", "megawatts or in milliwatts"),
            ("watts;busy\n1.234;0\n987;1", "line 2: `1.234` may be a fraction"),
            ("watts,x\n40,0", "line 1: the head names no `busy`, but `watts`, `x`"),
            ("40,0\n70", "line 2: it must hold 2 numbers: watts, busy"),
            ("watts,busy\n40,0\n70,x", "line 3: `busy` is `x`"),
            ("", "line 1: there is nothing in it"),
        ] {
            let error = read(text, &WANTED).err().map(|it| it.to_string()).unwrap_or_default();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
