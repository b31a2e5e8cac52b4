//! A Parquet file that is written group of rows by group of rows.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;
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

/// A Parquet file that is being written. It cannot be read before it is closed.
pub(super) struct Table {
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
    pub(super) fn create(path: &Path, schema: &str, meta: &str) -> Result<Self, MeterError> {
        let schema = parse_message_type(schema).map_err(failed(path))?;
        let meta = vec![KeyValue::new(META.to_owned(), meta.to_owned())];
        Self::create_like(path, Arc::new(schema), Some(meta))
    }

    fn create_like(
        path: &Path,
        schema: TypePtr,
        meta: Option<Vec<KeyValue>>,
    ) -> Result<Self, MeterError> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(meta)
            .build();
        let file = create(path)?;
        let writer =
            SerializedFileWriter::new(file, schema, Arc::new(properties)).map_err(failed(path))?;
        Ok(Self { writer, path: path.to_owned() })
    }

    /// Takes over all groups of another table of the same schema, as they are.
    fn append(&mut self, file: &File, metadata: &ParquetMetaData) -> Result<(), ParquetError> {
        for group in metadata.row_groups() {
            let mut copy = self.writer.next_row_group()?;
            for column in group.columns() {
                let close = ColumnCloseResult {
                    bytes_written: column.compressed_size().unsigned_abs(),
                    rows_written: group.num_rows().unsigned_abs(),
                    metadata: column.clone(),
                    bloom_filter: None,
                    column_index: None,
                    offset_index: None,
                };
                copy.append_column(file, close)?;
            }
            copy.close()?;
        }
        Ok(())
    }

    /// Writes a group of rows: all columns, in the order of the schema.
    pub(super) fn write(&mut self, columns: &[Cells<'_>]) -> Result<(), MeterError> {
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
    pub(super) fn close(mut self, end: Option<&Value>) -> Result<(), MeterError> {
        if let Some(end) = end {
            self.writer.append_key_value_metadata(KeyValue::new(END.to_owned(), end.to_string()));
        }
        self.writer.finish().map_err(failed(&self.path))?;
        let synced = self.writer.inner().sync_all();
        synced.map_err(|error| MeterError::Io {
            what: format!("write {}", self.path.display()),
            error,
        })
    }
}

/// Joins tables into one, group by group: nothing is unpacked. The first says what they are of.
pub(super) fn splice(
    tables: &[PathBuf],
    path: &Path,
    end: Option<&Value>,
) -> Result<(), MeterError> {
    let mut joined: Option<Table> = None;
    for table in tables {
        let unreadable = |error| MeterError::reading(table, io::Error::other(error));
        let file = File::open(table).map_err(|error| MeterError::reading(table, error))?;
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).map_err(unreadable)?;
        let of_file = metadata.file_metadata();
        let schema = of_file.schema_descr().root_schema_ptr();
        let joined = match &mut joined {
            Some(joined) if joined.writer.schema_descr().root_schema_ptr() == schema => joined,
            Some(_) => {
                let error = io::Error::new(io::ErrorKind::InvalidData, "it has other columns");
                return Err(MeterError::reading(table, error));
            }
            none => {
                let meta = of_file.key_value_metadata().cloned();
                none.insert(Table::create_like(path, schema, meta)?)
            }
        };
        joined.append(&file, &metadata).map_err(failed(path))?;
    }
    joined.map_or(Ok(()), |joined| joined.close(end))
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
