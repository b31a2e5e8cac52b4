//! CSV files with a line of names: times and watts of any program.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::path::Path;

use jiff::tz::TimeZone;
use nightwatt_energy::quantity::Watts;
use nightwatt_host::text::quote;

use super::cells::{self, ColumnKind, cells, kind};
use super::decimal::{self, Decimal};
use super::input::Input;
use super::rows::{Refused, Rows, Timeline};
use super::stamp::Times;
use super::{Entry, Options};
use crate::channel::{Accuracy, Channel, Scope};
use crate::error::MeterError;

/// The line of names is among this many lines that are not empty.
const REMARKS: usize = 40;

/// Numbers below this count from the beginning of the recording, and not from 1970: three years.
const RELATIVE: i64 = 100_000_000_000_000_000;

/// Different values of a column beyond which it numbers rows.
const MOST_ENTITIES: usize = 64;

/// A CSV file with a line of names.
pub(super) struct Table {
    delimiter: char,
    names: Vec<String>,
    /// Places of the column of times, and of dates where these stand apart.
    time: usize,
    date: Option<usize>,
    powers: Vec<Column>,
    only: Option<(usize, String)>,
    entities: Vec<Entities>,
    times: Times,
    decimal: Option<Decimal>,
    timeline: Timeline,
    /// The row that was taken last.
    last: String,
    /// Lines up to that of names, which are still to come.
    before: usize,
}

/// A column of power.
struct Column {
    place: usize,
    /// Watts of 1.
    unit: f64,
}

/// A column that may say whose figures a row has.
struct Entities {
    place: usize,
    /// Its name says so.
    is_named: bool,
    /// Its values so far; `None` once it is known to be of another kind.
    seen: Option<Vec<String>>,
    repeated: bool,
    rows: usize,
}

/// Rounds of the same texts in the same order, one a row, after which they name what takes turns.
const ROUNDS: usize = 4;

/// Texts in a round.
const MOST_IN_A_ROUND: usize = 16;

impl Entities {
    fn new(place: usize, is_named: bool) -> Self {
        Self { place, is_named, seen: Some(Vec::new()), repeated: false, rows: 0 }
    }

    /// Takes a value; true if rows of several things are in the file.
    fn are_several(&mut self, value: &str) -> bool {
        if self.is_named { self.are_many(value) } else { self.take_turns(value) }
    }

    /// Of a column whose name says nothing: whether texts take turns in it, row by row.
    fn take_turns(&mut self, value: &str) -> bool {
        let Some(seen) = &mut self.seen else { return false };
        let is_text = !value.is_empty() && decimal::number(value, None).is_none();
        let continues = match seen.iter().position(|it| it == value) {
            Some(place) => {
                self.repeated = true;
                seen.len() > 1 && place == self.rows % seen.len()
            }
            None => !self.repeated && seen.len() < MOST_IN_A_ROUND,
        };
        if !is_text || !continues {
            self.seen = None;
            return false;
        }
        if !self.repeated {
            seen.push(value.to_owned());
        }
        self.rows += 1;
        self.repeated && self.rows == ROUNDS * seen.len()
    }

    fn are_many(&mut self, value: &str) -> bool {
        let Some(seen) = &mut self.seen else { return false };
        if seen.iter().any(|it| it == value) {
            self.repeated = true;
        } else if seen.len() < MOST_ENTITIES {
            seen.push(value.to_owned());
        } else if !self.repeated {
            self.seen = None;
            return false;
        }
        self.repeated && seen.len() > 1
    }
}

/// What the line of names is like.
struct Head<'a> {
    /// Its place among the lines that hold anything.
    place: usize,
    delimiter: char,
    names: Vec<Cow<'a, str>>,
}

/// The line of names: the first that names a time and power, or what the user calls them.
fn head<'a>(text: &'a str, options: &Options) -> Option<Head<'a>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(REMARKS);
    let mut heads = lines.enumerate().filter_map(|(place, line)| {
        let delimiter = cells::delimiter(line)?;
        Some(Head { place, delimiter, names: cells(line, delimiter) })
    });
    heads.find(|head| {
        let named = |name: &String| head.names.iter().any(|it| it == name);
        let has = |is: fn(&ColumnKind) -> bool| head.names.iter().any(|name| is(&kind(name)));
        let has_time = match &options.time {
            Some(name) => named(name),
            None => has(|kind| matches!(kind, ColumnKind::Time(_))),
        };
        let has_power = if options.watts.is_empty() {
            has(|kind| {
                matches!(kind, ColumnKind::Power(_) | ColumnKind::Other(_) | ColumnKind::Ambiguous)
            })
        } else {
            options.watts.iter().all(named)
        };
        has_time && has_power
    })
}

/// Does a file begin as such a table?
pub(super) fn is_table(text: &str, options: &Options) -> bool {
    head(text, options).is_some()
}

impl Table {
    pub(super) fn new(
        input: &mut Input,
        path: &Path,
        options: &Options,
    ) -> Result<(Vec<Channel>, Self), MeterError> {
        let text = String::from_utf8_lossy(input.head()).into_owned();
        let wrong = |why: String| options.wrong(path, &why);
        let first = input.first_line();
        let found = head(&text, options).or_else(|| head(&text, &Options::default()));
        let head = if let Some(head) = found {
            head
        } else {
            // What is wrong with it is told below.
            let delimiter = cells::delimiter(&first)
                .ok_or_else(|| wrong("its first line has no `,`, `;` or tab".to_owned()))?;
            Head { place: 0, delimiter, names: cells(&first, delimiter) }
        };
        let names = head.names;
        let column = |name: &str| {
            names.iter().position(|it| *it == name).ok_or_else(|| {
                wrong(format!("there is no column `{name}`, but `{}`", names.join("`, `")))
            })
        };
        let (time, date) = times(&names, options, column).and_then(|it| {
            it.ok_or_else(|| wrong("no column is called `time`; `time=` names one".to_owned()))
        })?;
        let powers = powers(&names, time, options, column, wrong)?;
        let only = options.only.as_ref().map(|(name, value)| Ok((column(name)?, value.clone())));
        let only = only.transpose()?;
        let used = |place: usize| {
            place == time || date == Some(place) || powers.iter().any(|it| it.place == place)
        };
        let is_only = |place: usize| only.as_ref().is_some_and(|(column, _)| *column == place);
        let unused = (0..names.len()).filter(|place| !used(*place) && !is_only(*place));
        let entities =
            unused.map(|place| Entities::new(place, cells::names_an_entity(&names[place])));
        let entities = entities.collect();
        // Whose figures they are is not known.
        let accuracy = Accuracy::relative(0.05);
        let channel = |it: &Column| Channel::power(&*names[it.place], Scope::Part, accuracy);
        let channels = powers.iter().map(channel).collect();
        let unit = match kind(&names[time]) {
            ColumnKind::Time(unit) if date.is_none() => unit,
            _ => None,
        };
        let rows = String::from_utf8_lossy(input.whole_lines());
        let rows = rows.lines().filter(|line| !line.trim().is_empty()).skip(head.place + 1);
        let shown = || decimal_of(rows, head.delimiter, &powers).map_err(wrong);
        let decimal = options.decimal.map_or_else(shown, |decimal| Ok(Some(decimal)))?;
        let table = Self {
            delimiter: head.delimiter,
            time,
            date,
            powers,
            only,
            entities,
            times: Times::new(options.zone.clone().unwrap_or(TimeZone::UTC), unit),
            decimal,
            timeline: Timeline::new(options.mean),
            last: String::new(),
            before: head.place + 1,
            names: names.into_iter().map(Cow::into_owned).collect(),
        };
        Ok((channels, table))
    }

    /// The power in a cell; nothing in one that is empty.
    fn power(&mut self, column: usize, cell: &str) -> Result<Option<Watts>, Refused> {
        let Column { place, unit } = self.powers[column];
        if cell.is_empty() {
            return Ok(None);
        }
        let (text, its_unit) = cells::with_unit(cell);
        let Some((number, decimal)) = decimal::number(text, self.decimal) else {
            let mixed = decimal::number(text, None).is_some();
            let why = if mixed { ": the rows before write fractions otherwise" } else { "" };
            let (name, cell) = (&self.names[place], quote(cell.as_bytes()));
            return Err(Refused::Row(format!("{cell} in column `{name}` is no number{why}")));
        };
        self.decimal = self.decimal.or(decimal);
        Ok(Some(Watts(number * its_unit.unwrap_or(unit))))
    }

    /// Whether a row is of what is wanted.
    fn is_wanted(&mut self, cells: &[Cow<'_, str>]) -> Result<bool, Refused> {
        if let Some((place, value)) = &self.only
            && cells.get(*place).is_none_or(|cell| cell != value)
        {
            return Ok(false);
        }
        for entities in &mut self.entities {
            let value = cells.get(entities.place).map_or("", |cell| &**cell);
            if entities.are_several(value) {
                let name = &self.names[entities.place];
                let seen = entities.seen.as_deref().unwrap_or_default();
                let seen: Vec<String> = seen.iter().take(4).map(|it| format!("`{it}`")).collect();
                return Err(Refused::File(format!(
                    "the rows are of several things: column `{name}` has {}; \
                     `only={name}:VALUE` takes those of one",
                    seen.join(", ")
                )));
            }
        }
        Ok(true)
    }

    /// A row that has the time of the one before, and another text in some column, is of something else.
    fn check_twin(&self, cells: &[Cow<'_, str>]) -> Result<(), Refused> {
        let before = self::cells(&self.last, self.delimiter);
        let used = |place: usize| {
            place == self.time
                || self.date == Some(place)
                || self.powers.iter().any(|it| it.place == place)
        };
        let is_text = |cell: &str| !cell.is_empty() && decimal::number(cell, None).is_none();
        let differs = |place: &usize| match (cells.get(*place), before.get(*place)) {
            (Some(now), Some(then)) => now != then && is_text(now) && is_text(then),
            _ => false,
        };
        let Some(place) = (0..self.names.len()).filter(|it| !used(*it)).find(differs) else {
            return Ok(());
        };
        let name = &self.names[place];
        Err(Refused::File(format!(
            "the rows are of several things: at one time column `{name}` has {} and {}; \
             `only={name}:VALUE` takes those of one",
            quote(before[place].as_bytes()),
            quote(cells[place].as_bytes())
        )))
    }

    /// A decimal comma between commas makes two cells of one: what is read then is wrong.
    fn check_width(&self, cells: &[Cow<'_, str>]) -> Result<(), Refused> {
        let filled = cells.iter().rposition(|cell| !cell.is_empty()).map_or(0, |last| last + 1);
        let is_digits = |place: usize| {
            cells
                .get(place)
                .is_some_and(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let split = |it: &Column| is_digits(it.place) && is_digits(it.place + 1);
        if filled > self.names.len() && self.powers.iter().any(split) {
            return Err(Refused::File(format!(
                "it has {filled} cells, and the head has {}: decimal commas between commas cannot be \
                 told apart; write decimal points, or `;` between cells",
                self.names.len()
            )));
        }
        Ok(())
    }
}

/// How the rows at the beginning write fractions of power.
fn decimal_of<'a>(
    rows: impl Iterator<Item = &'a str>,
    delimiter: char,
    powers: &[Column],
) -> Result<Option<Decimal>, String> {
    let mut shown = decimal::Shown::default();
    for row in rows {
        let cells = cells(row, delimiter);
        for cell in powers.iter().filter_map(|column| cells.get(column.place)) {
            shown.take(cells::with_unit(cell).0);
        }
    }
    shown.decimal(delimiter).map_err(|cell| {
        format!(
            "`{cell}` is more than 1000 if the file separates thousands, and a fraction if it does not, and no other \
             row shows which; `decimal=point` or `decimal=comma` says how it writes fractions"
        )
    })
}

/// The column of times, and that of dates where a row has both.
fn times(
    names: &[Cow<'_, str>],
    options: &Options,
    column: impl Fn(&str) -> Result<usize, MeterError>,
) -> Result<Option<(usize, Option<usize>)>, MeterError> {
    if let Some(name) = &options.time {
        return Ok(Some((column(name)?, None)));
    }
    let called = |is: fn(&str) -> bool| names.iter().position(|name| is(name));
    let (time, date) = (called(cells::names_a_time_of_day), called(cells::names_a_date));
    if let (Some(time), Some(date)) = (time, date) {
        return Ok(Some((time, Some(date))));
    }
    let is_time = |name: &Cow<'_, str>| matches!(kind(name), ColumnKind::Time(_));
    Ok(names.iter().position(is_time).map(|time| (time, None)))
}

/// The columns of power, each in its unit.
fn powers(
    names: &[Cow<'_, str>],
    time: usize,
    options: &Options,
    column: impl Fn(&str) -> Result<usize, MeterError>,
    wrong: impl Fn(String) -> MeterError,
) -> Result<Vec<Column>, MeterError> {
    let of = |place: usize, is_named: bool| match kind(&names[place]) {
        ColumnKind::Power(unit) => Ok(Some(Column { place, unit })),
        ColumnKind::Ambiguous => Err(wrong(format!(
            "column `{}` is in megawatts or in milliwatts: call it `mW` or `megawatts`",
            names[place]
        ))),
        ColumnKind::Other(what) if is_named => {
            Err(wrong(format!("column `{}` holds {what}, and not power", names[place])))
        }
        _ => Ok(is_named.then_some(Column { place, unit: 1.0 })),
    };
    let found: Vec<Column> = if options.watts.is_empty() {
        let places = (0..names.len()).filter(|&place| place != time);
        places.filter_map(|place| of(place, false).transpose()).collect::<Result<_, _>>()?
    } else {
        let wanted = options.watts.iter().map(|name| of(column(name)?, true));
        wanted.filter_map(Result::transpose).collect::<Result<_, _>>()?
    };
    if found.is_empty() {
        let energy = names.iter().find(|name| kind(name) == ColumnKind::Other("energy"));
        let energy = energy.map_or_else(String::new, |name| {
            format!(" (`{name}` holds energy, and only power is read)")
        });
        return Err(wrong(format!("no column is called `watts`{energy}; `watts=` names some")));
    }
    Ok(found)
}

impl Rows for Table {
    fn row(&mut self, line: &[u8], out: &mut VecDeque<Entry>) -> Result<(), Refused> {
        if self.before > 0 {
            self.before -= 1;
            return Ok(());
        }
        let Ok(line) = std::str::from_utf8(line) else {
            return Err(Refused::Row(format!("{} is no text", quote(line))));
        };
        let cells = cells(line, self.delimiter);
        self.check_width(&cells)?;
        if !self.is_wanted(&cells)? {
            return Ok(());
        }
        let cell = |place: usize| cells.get(place).map_or("", |cell| &**cell);
        let time: Cow<'_, str> = match self.date {
            Some(date) => format!("{} {}", cell(date), cell(self.time)).into(),
            None => cell(self.time).into(),
        };
        let Some(ns) = self.times.read(&time, self.timeline.last) else {
            let (name, time) = (&self.names[self.time], quote(time.as_bytes()));
            return Err(Refused::Row(format!("{time} in column `{name}` is no time")));
        };
        let powers: Vec<_> = (0..self.powers.len())
            .map(|column| match cells.get(self.powers[column].place) {
                Some(cell) => self.power(column, cell),
                None => Err(Refused::Row(format!("it has {} cells only", cells.len()))),
            })
            .collect();
        // Of a row without any figure the time means nothing either.
        if powers.iter().all(Result::is_err) {
            return powers.into_iter().find_map(Result::err).map_or(Ok(()), Err);
        }
        if self.timeline.last == Some(ns) {
            self.check_twin(&cells)?;
        }
        let mono = self.timeline.at(ns)?;
        line.clone_into(&mut self.last);
        let wall_ns = (ns >= RELATIVE).then_some(ns);
        let mut refused = Ok(());
        for (channel, watts) in powers.into_iter().enumerate() {
            match watts {
                Ok(Some(watts)) => {
                    let reading = self.timeline.reading(watts.get());
                    out.push_back(Entry { mono, wall_ns, channel, reading, piece: None });
                }
                // An empty cell says nothing: that is no error.
                Ok(None) => {}
                Err(why) => refused = Err(why),
            }
        }
        refused
    }
}
