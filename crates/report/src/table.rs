//! Tables, and CSV.

use std::borrow::Cow;

use crate::csv::quoted;

/// Rows under named columns. Rows shorter than the heading are filled up with nothing; what is
/// longer is cut.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// What the table shows.
    pub caption: String,
    /// From left to right.
    pub columns: Vec<Column>,
    /// From top to bottom.
    pub rows: Vec<Vec<Cell>>,
    /// A terminal shows this many of them; nothing: all.
    pub most: Option<usize>,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub title: String,
    /// What its numbers are in; empty for text and counts.
    pub unit: String,
    /// To which side its cells lean.
    pub align: Align,
    /// Left to the page and to CSV: a terminal has no room for all.
    pub is_detail: bool,
}

/// To which side cells lean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers: digits of the same worth stand below each other.
    Right,
}

/// What stands in one place of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Text, of whatever origin.
    Text(String),
    /// A number, shown with this many digits behind the point. CSV has all of its digits.
    Number {
        /// The number.
        value: f64,
        /// Digits behind the point, for people.
        decimals: usize,
    },
    /// A number on a coloured ground: many of them are a heat map.
    Shaded {
        /// The number.
        value: f64,
        /// Digits behind the point, for people.
        decimals: usize,
        /// How much of the colour, from 0 to 1.
        shade: f64,
    },
    /// Nothing: not known, or not applicable.
    Empty,
}

impl Column {
    /// A column of text.
    pub fn text(title: impl Into<String>) -> Self {
        let (title, unit) = (title.into(), String::new());
        Self { title, unit, align: Align::Left, is_detail: false }
    }

    /// A column of numbers in this unit (none: `""`).
    pub fn number(title: impl Into<String>, unit: impl Into<String>) -> Self {
        let (title, unit) = (title.into(), unit.into());
        Self { title, unit, align: Align::Right, is_detail: false }
    }

    /// `title [unit]`.
    pub fn heading(&self) -> Cow<'_, str> {
        if self.unit.is_empty() {
            Cow::Borrowed(&self.title)
        } else {
            Cow::Owned(format!("{} [{}]", self.title, self.unit))
        }
    }
}

impl Cell {
    /// A number with this many digits behind the point.
    pub const fn number(value: f64, decimals: usize) -> Self {
        Self::Number { value, decimals }
    }

    /// A count.
    pub const fn count(value: u64) -> Self {
        Self::Number { value: value as f64, decimals: 0 }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}

impl Table {
    /// A table without rows.
    pub fn new(caption: impl Into<String>, columns: Vec<Column>) -> Self {
        Self { caption: caption.into(), columns, rows: Vec::new(), most: None }
    }

    /// The same with one more row.
    #[must_use]
    pub fn row(mut self, cells: Vec<Cell>) -> Self {
        self.rows.push(cells);
        self
    }

    /// CSV as RFC 4180 has it, in UTF-8: fields by comma, records by CRLF, the heading first, with
    /// units as `energy [J]`. Numbers are written with the digits that reproduce them exactly, and
    /// a dot; what is not known, or is no number, is empty.
    ///
    /// **Formulas.** Spreadsheets take a field that begins with `=`, `+`, `-`, `@` (or the full-width forms
    /// of these), with a tab or the end of a line for a formula, also where it is quoted, and may run it.
    /// Text in reports comes from logs, and so from any client. Such *text* gets an apostrophe before it,
    /// which spreadsheets take as "this is text"; other readers find one character more. Numbers are numbers,
    /// and are left alone.
    pub fn to_csv(&self) -> String {
        let mut out = String::new();
        record(&mut out, self.columns.iter().map(|column| text_field(&column.heading())));
        for row in &self.rows {
            let cells = (0..self.columns.len()).map(|index| row.get(index).unwrap_or(&Cell::Empty));
            record(&mut out, cells.map(field));
        }
        out
    }
}

fn record(out: &mut String, fields: impl Iterator<Item = String>) {
    for (index, field) in fields.enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(&field);
    }
    out.push_str("\r\n");
}

fn field(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text_field(text),
        Cell::Number { value, .. } | Cell::Shaded { value, .. } if value.is_finite() => {
            value.to_string()
        }
        Cell::Number { .. } | Cell::Shaded { .. } | Cell::Empty => String::new(),
    }
}

fn text_field(text: &str) -> String {
    let formula = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];
    let guard = if text.starts_with(formula) { "'" } else { "" };
    quoted(&format!("{guard}{text}")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(text: &str) -> String {
        Table::new("", vec![Column::text("a")]).row(vec![text.into()]).to_csv()
    }

    #[test]
    fn fields_are_quoted_as_rfc_4180_says() {
        // Its section 2, rules 5 to 7.
        assert_eq!(one("plain"), "a\r\nplain\r\n");
        assert_eq!(one("b,b"), "a\r\n\"b,b\"\r\n");
        assert_eq!(one("b\r\nb"), "a\r\n\"b\r\nb\"\r\n");
        assert_eq!(one("b\"b"), "a\r\n\"b\"\"b\"\r\n");
    }

    #[test]
    fn units_stand_in_the_heading_and_numbers_keep_their_digits() {
        let table = Table::new("", vec![Column::text("p"), Column::number("energy", "J")])
            .row(vec!["x".into(), Cell::number(-0.1, 0)])
            .row(vec![Cell::Empty, Cell::number(f64::NAN, 0)])
            .row(vec!["short".into()])
            .row(vec!["long".into(), Cell::count(12), "cut".into()]);
        let text = "p,energy [J]\r\nx,-0.1\r\n,\r\nshort,\r\nlong,12\r\n";
        assert_eq!(table.to_csv(), text);
    }

    #[test]
    fn text_that_a_spreadsheet_would_run_is_marked_as_text() {
        for text in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "＝1"] {
            assert_eq!(one(text), format!("a\r\n'{text}\r\n"));
        }
        assert_eq!(one("=HYPERLINK(\"x\")"), "a\r\n\"'=HYPERLINK(\"\"x\"\")\"\r\n");
        assert_eq!(one("/a?b=c"), "a\r\n/a?b=c\r\n");
    }

    /// A reader of RFC 4180, written from its grammar.
    fn read(text: &str) -> Vec<Vec<String>> {
        let mut records = vec![Vec::new()];
        let (mut field, mut quoted) = (String::new(), false);
        let mut rest = text.chars().peekable();
        while let Some(character) = rest.next() {
            match character {
                '"' if quoted && rest.peek() == Some(&'"') => {
                    rest.next();
                    field.push('"');
                }
                '"' => quoted = !quoted,
                ',' if !quoted => records.last_mut().unwrap().push(std::mem::take(&mut field)),
                '\r' if !quoted && rest.peek() == Some(&'\n') => {
                    rest.next();
                    records.last_mut().unwrap().push(std::mem::take(&mut field));
                    records.push(Vec::new());
                }
                _ => field.push(character),
            }
        }
        assert_eq!(records.pop(), Some(Vec::new()), "ends with the end of a record");
        records
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_read_back(rows in proptest::collection::vec(
            ("[a-z,\"\r\n=+@ -]{0,6}", any::<f64>()), 0..5,
        )) {
            let mut table = Table::new("", vec![Column::text("t"), Column::number("n", "")]);
            for (text, value) in &rows {
                table.rows.push(vec![text.as_str().into(), Cell::number(*value, 2)]);
            }
            let records = read(&table.to_csv());
            prop_assert_eq!(records.len(), rows.len() + 1);
            for (record, (text, value)) in records[1..].iter().zip(&rows) {
                let guarded = text.starts_with(['=', '+', '-', '@', '\r', '\n']);
                prop_assert_eq!(&record[0], &format!("{}{text}", if guarded { "'" } else { "" }));
                prop_assert_eq!(record[1].parse().ok(), value.is_finite().then_some(*value));
            }
        }
    }
}
