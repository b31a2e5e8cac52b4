//! A log of columns as it stands, row by row: for what has to see every cell, not only those that are
//! power.

use std::path::{Path, PathBuf};

use super::cells;
use super::decimal;
use super::input::Input;
use super::samples::rate_beside;
use crate::error::MeterError;

/// A log of columns: text, one row per sample, cells between commas, semicolons, tabs or spaces. It is
/// read once, in memory that does not grow with it; gzipped ones are unpacked as they are read.
pub struct Columns {
    path: PathBuf,
    input: Input,
    delimiter: Option<char>,
    names: Vec<String>,
    header: bool,
}

impl Columns {
    /// Opens a log. Lines before the first row that begin with `#` are left out, and a line of names
    /// too.
    pub fn open(path: &Path) -> Result<Self, MeterError> {
        let wrong = |why: &str| {
            let (meter, why) = ("log".to_owned(), format!("{}: {why}", path.display()));
            MeterError::Spec { meter, why }
        };
        let input = Input::open(path).map_err(|error| MeterError::reading(path, error))?;
        if input.head().starts_with(b"PAR1") {
            return Err(wrong("Parquet files cannot be read as columns of text; export it as CSV"));
        }
        let head = String::from_utf8_lossy(input.head());
        let first = head.lines().map(str::trim).find(|line| is_row(line.as_bytes()));
        let Some(first) = first else { return Err(wrong("there are no rows in it")) };
        let delimiter = cells::delimiter(first);
        let cells: Vec<&str> = split(first, delimiter).collect();
        let header = cells.iter().any(|cell| !cell.is_empty() && is_no_number(cell, delimiter));
        let name = |(place, cell): (usize, &&str)| {
            if header { (*cell).to_owned() } else { format!("column{place}") }
        };
        let names = cells.iter().enumerate().map(name).collect();
        Ok(Self { path: path.to_owned(), input, delimiter, names, header })
    }

    /// Names of the columns: those of the log, or `column0` and so on.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The place of a column that is called so, or has this number, from 0.
    pub fn find(&self, column: &str) -> Result<usize, MeterError> {
        let named = self.names.iter().position(|name| name == column);
        let numbered = || column.parse().ok().filter(|&place: &usize| place < self.names.len());
        named.or_else(numbered).ok_or_else(|| MeterError::Spec {
            meter: "log".to_owned(),
            why: format!(
                "{}: there is no column `{column}`; it has `{}`",
                self.path.display(),
                self.names.join("`, `")
            ),
        })
    }

    /// Rows per second, where a file of settings beside the log says so: `NAME_meta.csv` with a line
    /// `Actual Scan Rate,1000.0`.
    pub fn rate(&self) -> Option<f64> {
        rate_beside(&self.path)
    }

    /// The next row; nothing at the end. Empty lines are no rows.
    pub fn row(&mut self) -> Result<Option<CellsOf<'_>>, MeterError> {
        loop {
            match self.input.line() {
                Err(error) => return Err(MeterError::reading(&self.path, error)),
                Ok(None) => return Ok(None),
                Ok(Some(line)) if line.trim_ascii().is_empty() => {}
                // Only before the first row: one in the middle took a sample's place.
                Ok(Some(line)) if self.header && !is_row(line) => {}
                Ok(Some(_)) if std::mem::take(&mut self.header) => {}
                Ok(Some(_)) => break,
            }
        }
        // What is no text is a damaged row, which was taken at its time all the same.
        let line = std::str::from_utf8(self.input.last_line()).unwrap_or_default();
        Ok(Some(CellsOf { line: line.trim(), delimiter: self.delimiter }))
    }
}

/// `0,5` is one between semicolons.
fn is_no_number(cell: &str, delimiter: Option<char>) -> bool {
    let comma = delimiter != Some(',') && decimal::number(cell, None).is_some();
    !comma && cell.parse::<f64>().is_err()
}

fn is_row(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    !line.is_empty() && !line.starts_with(b"#")
}

fn split(line: &str, delimiter: Option<char>) -> impl Iterator<Item = &str> {
    let by_delimiter = delimiter.map(|delimiter| line.split(delimiter));
    let by_space = delimiter.is_none().then(|| line.split_ascii_whitespace());
    let all = by_delimiter.into_iter().flatten().chain(by_space.into_iter().flatten());
    all.map(|cell| cell.trim().trim_matches('"'))
}

/// A row.
#[derive(Debug, Clone, Copy)]
pub struct CellsOf<'a> {
    line: &'a str,
    delimiter: Option<char>,
}

impl<'a> CellsOf<'a> {
    /// Its cells as text, without quotes around them.
    pub fn texts(self) -> impl Iterator<Item = &'a str> {
        split(self.line, self.delimiter)
    }

    /// The number in a column; NaN if there is no number. Cells that commas separate have no decimal commas.
    pub fn number(self, column: usize) -> f64 {
        let Some(cell) = self.texts().nth(column) else { return f64::NAN };
        if self.delimiter != Some(',') && cell.contains(',') {
            return decimal::number(cell, None).map_or(f64::NAN, |(number, _)| number);
        }
        cell.parse().unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testdata;

    fn rows(text: &str) -> (Vec<String>, Vec<Vec<String>>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, text).unwrap();
        let mut columns = Columns::open(&path).unwrap();
        let mut rows = Vec::new();
        while let Some(row) = columns.row().unwrap() {
            rows.push(row.texts().map(str::to_owned).collect());
        }
        (columns.names.clone(), rows)
    }

    #[test]
    fn cells_stand_between_commas_semicolons_tabs_or_spaces() {
        for text in [
            "a,b,c\n1,,3\n",
            "a;b;c\n1;;3",
            "# x\n\n a\tb\tc\r\n1\t\t3\r\n",
            "\"a\",\"b\",c\n1, ,\"3\"\n",
        ] {
            let (names, rows) = rows(text);
            assert_eq!(names, ["a", "b", "c"], "{text:?}");
            assert_eq!(rows, [["1", "", "3"]], "{text:?}");
        }
        let (names, rows) = rows("1.5  2\n3 x\n");
        assert_eq!(names, ["column0", "column1"]);
        assert_eq!(rows, [["1.5", "2"], ["3", "x"]]);
    }

    #[test]
    fn a_damaged_row_keeps_its_place_and_an_empty_line_has_none() {
        let (_, damaged) = rows("a,b\n1,2\n\n#,#\n3\n");
        assert_eq!(damaged, [vec!["1", "2"], vec!["#", "#"], vec!["3"]]);
        let row = CellsOf { line: "1,x", delimiter: Some(',') };
        assert!((row.number(0) - 1.0).abs() < f64::EPSILON);
        assert!(row.number(1).is_nan() && row.number(2).is_nan());
        let (names, _) = rows("0,5;1\n0,25;2\n");
        assert_eq!(names, ["column0", "column1"], "decimal commas are no names");
        let row = CellsOf { line: "0,25;2", delimiter: Some(';') };
        assert!((row.number(0) - 0.25).abs() < f64::EPSILON);
    }

    #[test]
    fn columns_go_by_name_or_number_and_rates_by_the_file_beside() {
        let file = "power/daq/broadwell_ddr4-2x16gb-2400-both_idle_18cdd026.csv.gz";
        let Some(path) = testdata::path(file) else { return };
        let mut columns = Columns::open(&path).unwrap();
        assert_eq!(columns.rate(), Some(1000.0));
        assert_eq!((columns.find("7").unwrap(), columns.names().len()), (7, 8));
        let error = columns.find("8").unwrap_err().to_string();
        assert!(error.contains("no column `8`; it has `column0`"), "{error}");
        // zcat FILE | head -1
        let first = columns.row().unwrap().unwrap().number(0);
        assert!((first - 0.332_429_491_200_348_9).abs() < 1e-15, "{first}");
    }
}
