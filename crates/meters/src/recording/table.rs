//! A Parquet file that is written group of rows by group of rows.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use serde_json::Value;

use super::create;
use crate::error::MeterError;

/// What the file as a whole is of is written under this.
pub(super) const META: &str = "nightwatt";
/// What is known at the end only.
const END: &str = "nightwatt.end";

/// The cells of one column. None is for optional columns only.
#[derive(Debug)]
pub enum Cells<'a> {
    /// Whole numbers, and times in nanoseconds.
    Int64(Vec<Option<i64>>),
    /// Others.
    Double(Vec<Option<f64>>),
    /// Words.
    Text(Vec<Option<&'a str>>),
}

/// A Parquet file that is being written. Nobody can read it before it is closed.
pub struct Table {
    writer: SerializedFileWriter<File>,
    path: PathBuf,
}

fn failed(path: &Path) -> impl Fn(ParquetError) -> MeterError {
    move |error| MeterError::Io {
        what: format!("write {}", path.display()),
        error: io::Error::other(error),
    }
}

impl Table {
    /// Creates a file that must not be there yet. `schema` is a Parquet message type, `meta` what the
    /// file is of.
    pub fn create(path: &Path, schema: &str, meta: &str) -> Result<Self, MeterError> {
        let schema = parse_message_type(schema).map_err(failed(path))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(vec![KeyValue::new(META.to_owned(), meta.to_owned())]))
            .build();
        let file = create(path)?;
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))
            .map_err(failed(path))?;
        Ok(Self { writer, path: path.to_owned() })
    }

    /// Writes a group of rows: all columns, in the order of the schema.
    pub fn write(&mut self, columns: &[Cells<'_>]) -> Result<(), MeterError> {
        let schema = self.writer.schema_descr();
        let is_optional: Vec<bool> =
            schema.columns().iter().map(|column| column.max_def_level() > 0).collect();
        let mut group = self.writer.next_row_group().map_err(failed(&self.path))?;
        for (cells, is_optional) in columns.iter().zip(is_optional) {
            write_column(&mut group, cells, is_optional).map_err(failed(&self.path))?;
        }
        group.close().map(drop).map_err(failed(&self.path))
    }

    /// Whole, and on disk, when it returns.
    pub fn close(mut self, end: Option<&Value>) -> Result<PathBuf, MeterError> {
        if let Some(end) = end {
            self.writer.append_key_value_metadata(KeyValue::new(END.to_owned(), end.to_string()));
        }
        self.writer.finish().map_err(failed(&self.path))?;
        let synced = self.writer.inner().sync_all();
        synced.map_err(|error| MeterError::Io {
            what: format!("write {}", self.path.display()),
            error,
        })?;
        Ok(self.path)
    }
}

fn write_column(
    group: &mut SerializedRowGroupWriter<'_, File>,
    cells: &Cells<'_>,
    is_optional: bool,
) -> Result<(), ParquetError> {
    match cells {
        Cells::Int64(cells) => write::<Int64Type>(group, cells.iter().copied(), is_optional),
        Cells::Double(cells) => write::<DoubleType>(group, cells.iter().copied(), is_optional),
        Cells::Text(cells) => {
            let text = |text: &str| ByteArray::from(text.as_bytes().to_vec());
            write::<ByteArrayType>(group, cells.iter().map(|cell| cell.map(text)), is_optional)
        }
    }
}

/// Writes the next column.
fn write<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    cells: impl Iterator<Item = Option<T::T>>,
    is_optional: bool,
) -> Result<(), ParquetError> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    for cell in cells {
        levels.push(i16::from(cell.is_some()));
        values.extend(cell);
    }
    let column = group.next_column()?;
    let mut column = column.ok_or_else(|| ParquetError::General("too many columns".to_owned()))?;
    column.typed::<T>().write_batch(&values, is_optional.then_some(levels.as_slice()), None)?;
    column.close()
}
