//! Recordings in Parquet: reads their rows, and joins the parts that [`parted`](super::parted) has written.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::column::reader::{ColumnReader, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor};
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;

use super::rows::{Names, Row, gap_name, gap_named};
use super::table::{self, Cells, META, Table};
use crate::error::MeterError;

pub(super) const SCHEMA: &str = "message nightwatt {
    required int64 time (TIMESTAMP(NANOS, true));
    required int64 mono_ns;
    required binary meter (STRING);
    required binary channel (STRING);
    optional double watts;
    optional int64 counter;
    optional double over_s;
    optional double joules;
    optional double covers_s;
    optional binary gap (STRING);
}";

/// Rows of a row group.
pub(super) const GROUP: usize = 65_536;

fn unreadable(path: &Path) -> impl Fn(ParquetError) -> MeterError {
    move |error| MeterError::reading(path, io::Error::other(error))
}

/// Where the parts of a recording are.
pub(super) fn folder(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".parts");
    name.into()
}

/// Keeps others from the parts; an error if others keep us.
pub(super) fn lock(folder: &Path) -> Result<File, MeterError> {
    let file = File::open(folder).map_err(|error| MeterError::reading(folder, error))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| MeterError::Io {
        what: format!("use {}: another process is recording there", folder.display()),
        error: error.into(),
    })?;
    Ok(file)
}

/// A group of rows, column by column.
pub(super) fn cells_of<'a>(rows: &[Row], names: &'a Names) -> [Cells<'a>; 10] {
    let int64 = |value: fn(&Row) -> Option<i64>| Cells::Int64(rows.iter().map(value).collect());
    let double = |value: fn(&Row) -> Option<f64>| Cells::Double(rows.iter().map(value).collect());
    let name = |row: &Row| names.get(row.name);
    [
        int64(|row| Some(row.time_ns)),
        int64(|row| Some(row.mono_ns)),
        Cells::Text(rows.iter().map(|row| Some(name(row).0)).collect()),
        Cells::Text(rows.iter().map(|row| Some(name(row).1)).collect()),
        double(|row| row.watts),
        int64(|row| row.counter),
        double(|row| row.over_s),
        double(|row| row.joules),
        double(|row| row.covers_s),
        Cells::Text(rows.iter().map(|row| row.gap.map(gap_name)).collect()),
    ]
}

/// Joins the parts beside `path` into it, and removes them; says how many there were.
pub(super) fn join(path: &Path, end: Option<&Value>) -> Result<usize, MeterError> {
    let folder = folder(path);
    let _lock = lock(&folder)?;
    let parts: Vec<PathBuf> = nightwatt_host::files::list(&folder)
        .map_err(|error| MeterError::reading(&folder, error))?
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "parquet"))
        .collect();
    let Some(first) = parts.first() else {
        let error = io::Error::new(io::ErrorKind::NotFound, "there are no whole parts in it");
        return Err(MeterError::reading(&folder, error));
    };
    let joining = path.with_extension("joining");
    // What an earlier attempt has left, that was killed or met a full disk.
    if let Err(error) = fs::remove_file(&joining)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(MeterError::reading(&joining, error));
    }
    match Groups::open(first) {
        Ok(groups) => join_rows(&parts, &joining, &groups.meta().unwrap_or_default(), end)?,
        // Of something else than meters.
        Err(_) => table::splice(&parts, &joining, end)?,
    }
    if path.exists() {
        let error = io::Error::from(io::ErrorKind::AlreadyExists);
        return Err(MeterError::Io { what: format!("write {}", path.display()), error });
    }
    fs::rename(&joining, path).map_err(|error| MeterError::reading(&joining, error))?;
    fs::remove_dir_all(&folder).map_err(|error| MeterError::reading(&folder, error))?;
    Ok(parts.len())
}

/// Rows of small groups in groups of a good size, part by part.
fn join_rows(
    parts: &[PathBuf],
    joining: &Path,
    meta: &str,
    end: Option<&Value>,
) -> Result<(), MeterError> {
    let mut joined = Table::create(joining, SCHEMA, meta)?;
    for part in parts {
        let mut names = Names::default();
        let mut rows = Vec::new();
        read(part, |meter, channel, row| {
            rows.push(Row { name: names.place(meter, channel), ..*row });
        })?;
        for rows in rows.chunks(GROUP) {
            joined.write(&cells_of(rows, &names))?;
        }
    }
    joined.close(end)
}

/// Reads every row; returns the metadata.
pub(super) fn read(
    path: &Path,
    mut take: impl FnMut(&str, &str, &Row),
) -> Result<Option<String>, MeterError> {
    let mut groups = Groups::open(path)?;
    while groups.next(&mut take)? {}
    Ok(groups.meta())
}

/// A recording that is read group of rows by group of rows.
pub(crate) struct Groups {
    reader: SerializedFileReader<File>,
    path: PathBuf,
    next: usize,
}

impl Groups {
    /// Opens a recording; other Parquet files are refused.
    pub(crate) fn open(path: &Path) -> Result<Self, MeterError> {
        let file = File::open(path).map_err(|error| MeterError::reading(path, error))?;
        let reader = SerializedFileReader::new(file).map_err(unreadable(path))?;
        let ours = parse_message_type(SCHEMA).map_err(unreadable(path))?;
        let ours = SchemaDescriptor::new(Arc::new(ours));
        let theirs = reader.metadata().file_metadata().schema_descr();
        let is_same = |(our, their): (&ColumnDescPtr, &ColumnDescPtr)| {
            (our.name(), our.physical_type()) == (their.name(), their.physical_type())
                && our.max_def_level() == their.max_def_level()
                && our.max_rep_level() == their.max_rep_level()
        };
        let known = ours.num_columns() == theirs.num_columns()
            && ours.columns().iter().zip(theirs.columns()).all(is_same);
        if !known {
            let why = "it has other columns than recordings of nightwatt have";
            let error = io::Error::new(io::ErrorKind::InvalidData, why);
            return Err(MeterError::reading(path, error));
        }
        Ok(Self { reader, path: path.to_owned(), next: 0 })
    }

    /// Reads the next group; false at the end.
    pub(crate) fn next(
        &mut self,
        take: &mut impl FnMut(&str, &str, &Row),
    ) -> Result<bool, MeterError> {
        if self.next >= self.reader.num_row_groups() {
            return Ok(false);
        }
        let group = self.reader.get_row_group(self.next).map_err(unreadable(&self.path))?;
        self.next += 1;
        read_group(group.as_ref(), take).map_err(unreadable(&self.path))?;
        Ok(true)
    }

    /// What is said of the recording as a whole.
    pub(crate) fn meta(&self) -> Option<String> {
        let pairs = self.reader.metadata().file_metadata().key_value_metadata();
        let meta = pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == META));
        meta.and_then(|pair| pair.value.clone())
    }
}

fn read_group(
    group: &dyn RowGroupReader,
    take: &mut impl FnMut(&str, &str, &Row),
) -> Result<(), ParquetError> {
    let time = cells::<Int64Type>(group, 0)?;
    let mono = cells::<Int64Type>(group, 1)?;
    let meter = cells::<ByteArrayType>(group, 2)?;
    let channel = cells::<ByteArrayType>(group, 3)?;
    let watts = cells::<DoubleType>(group, 4)?;
    let counter = cells::<Int64Type>(group, 5)?;
    let over = cells::<DoubleType>(group, 6)?;
    let joules = cells::<DoubleType>(group, 7)?;
    let covers = cells::<DoubleType>(group, 8)?;
    let gap = cells::<ByteArrayType>(group, 9)?;
    for at in 0..time.len() {
        let name = |column: &[Option<ByteArray>]| -> Result<String, ParquetError> {
            let cell = column.get(at).and_then(Option::as_ref);
            Ok(cell.map(ByteArray::as_utf8).transpose()?.unwrap_or_default().to_owned())
        };
        let row = Row {
            time_ns: time[at].unwrap_or_default(),
            mono_ns: mono[at].unwrap_or_default(),
            name: 0,
            watts: watts[at],
            counter: counter[at],
            over_s: over[at],
            joules: joules[at],
            covers_s: covers[at],
            gap: gap_named(&name(&gap)?),
        };
        take(&name(&meter)?, &name(&channel)?, &row);
    }
    Ok(())
}

/// All cells of a column.
fn cells<T: DataType>(
    group: &dyn RowGroupReader,
    column: usize,
) -> Result<Vec<Option<T::T>>, ParquetError> {
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let reader: ColumnReader = group.get_column_reader(column)?;
    let mut reader = get_typed_column_reader::<T>(reader);
    // How many there are is what the file says of itself.
    let room = rows.min(GROUP);
    let (mut values, mut levels) = (Vec::with_capacity(room), Vec::with_capacity(room));
    let mut read = 0;
    while read < rows {
        let (records, ..) =
            reader.read_records((rows - read).min(GROUP), Some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Err(ParquetError::EOF(format!("column {column} is shorter than the others")));
        }
        read += records;
    }
    let mut values = values.into_iter();
    if levels.is_empty() {
        return Ok(values.map(Some).collect());
    }
    Ok(levels.iter().map(|level| (*level > 0).then(|| values.next()).flatten()).collect())
}
