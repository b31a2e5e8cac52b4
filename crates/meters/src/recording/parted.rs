//! A Parquet table that survives who writes it: in parts, in a folder beside the file to be. Each part
//! is whole once it has its name; at the end they are joined.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_energy::time::Mono;
use serde_json::Value;

use super::parts::{self, GROUP, SCHEMA, cells_of, folder, lock};
use super::rows::{Names, Row};
use super::table::{Cells, Table};
use super::{Writer, create};
use crate::error::MeterError;

/// A table that is being written.
pub struct PartedTable {
    path: PathBuf,
    folder: PathBuf,
    /// Held while parts are written, so that no other process joins them meanwhile.
    _lock: File,
    part: Duration,
    schema: String,
    meta: String,
    open: Option<Part>,
    number: u32,
}

/// The part that is being written.
struct Part {
    table: Table,
    open: PathBuf,
    place: PathBuf,
    ends: Mono,
}

impl PartedTable {
    /// Begins a table whose parts span `part` each. `schema` is a Parquet message type, `meta` describes
    /// the content of the table. Never overwrites an existing file.
    pub fn create(
        path: &Path,
        part: Duration,
        schema: String,
        meta: String,
    ) -> Result<Self, MeterError> {
        // To be joined at the end: whether that can be is better known now.
        create(path)?;
        fs::remove_file(path).map_err(|error| MeterError::reading(path, error))?;
        let folder = folder(path);
        fs::create_dir(&folder).map_err(|error| {
            let what = match error.kind() {
                io::ErrorKind::AlreadyExists => format!(
                    "record: {} holds parts of another recording; unless that still runs, `nightwatt \
                     record -o {} --recover` joins them",
                    folder.display(),
                    path.display()
                ),
                _ => format!("make {}", folder.display()),
            };
            MeterError::Io { what, error }
        })?;
        let (path, lock) = (path.to_owned(), lock(&folder)?);
        Ok(Self { path, folder, _lock: lock, part, schema, meta, open: None, number: 0 })
    }

    /// Is there a part that has begun and not ended?
    pub const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Is it time to end the part that is open?
    pub fn is_due(&self) -> bool {
        self.open.as_ref().is_some_and(|part| monotonic() >= part.ends)
    }

    /// Writes a group of rows: all columns, in the order of the schema.
    pub fn write(&mut self, columns: &[Cells<'_>]) -> Result<(), MeterError> {
        self.part()?.table.write(columns)
    }

    fn part(&mut self) -> Result<&mut Part, MeterError> {
        Ok(match &mut self.open {
            Some(part) => part,
            closed => {
                let place = self.folder.join(format!("part-{:05}.parquet", self.number));
                self.number += 1;
                let open = place.with_extension("open");
                let table = Table::create(&open, &self.schema, &self.meta)?;
                closed.insert(Part { table, open, place, ends: monotonic() + self.part })
            }
        })
    }

    /// Ends the part that is open, if there is one: what was written so far is safe.
    pub fn end_part(&mut self) -> Result<(), MeterError> {
        let Some(Part { table, open, place, .. }) = self.open.take() else { return Ok(()) };
        let renamed = table.close(None).and_then(|()| {
            fs::rename(&open, &place).map_err(|error| MeterError::reading(&open, error))
        });
        if renamed.is_err() {
            remove(&open);
        }
        renamed
    }

    /// Joins the parts into the file, with what is to be said at the end.
    pub fn finish(mut self, end: Option<&Value>) -> Result<(), MeterError> {
        if self.number == 0 {
            // A table of nothing is one, too.
            self.part()?;
        }
        self.end_part()?;
        let path = self.path.clone();
        drop(self);
        parts::join(&path, end).map(drop)
    }
}

impl Drop for PartedTable {
    fn drop(&mut self) {
        if let Some(part) = self.open.take() {
            remove(&part.open);
        }
        // Unless there are whole parts in it.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Rows of meters, on their way into a table.
pub(super) struct PartedRows {
    table: PartedTable,
    names: Names,
    rows: Vec<Row>,
}

impl PartedRows {
    pub(super) fn create(
        path: &Path,
        part: Duration,
        names: Names,
        meta: String,
    ) -> Result<Self, MeterError> {
        let table = PartedTable::create(path, part, SCHEMA.to_owned(), meta)?;
        Ok(Self { table, names, rows: Vec::new() })
    }

    fn write_group(&mut self) -> Result<(), MeterError> {
        if !self.rows.is_empty() {
            self.table.write(&cells_of(&self.rows, &self.names))?;
            self.rows.clear();
        }
        Ok(())
    }
}

impl Writer for PartedRows {
    fn write(&mut self, rows: &[Row]) -> Result<(), MeterError> {
        for rows in rows.chunks(GROUP) {
            self.rows.extend_from_slice(rows);
            // A part is begun with its first rows.
            if !self.table.is_open() || self.rows.len() >= GROUP {
                self.write_group()?;
            }
        }
        if self.table.is_due() {
            self.close()?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), MeterError> {
        self.write_group()?;
        self.table.end_part()
    }
}

/// Removes an unfinished part, which cannot be read. Ignores errors: there is nothing left to try.
fn remove(open: &Path) {
    let _ = fs::remove_file(open);
}
