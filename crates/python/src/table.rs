//! Results with rows, as Arrow tables that other libraries read without a copy (the `PyCapsule` protocol).

use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, RecordBatch, RecordBatchIterator, StringArray,
    UInt64Array,
};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use nightwatt_report as report;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

/// Names that the Arrow `PyCapsule` protocol prescribes.
const SCHEMA: &CStr = c"arrow_schema";
const STREAM: &CStr = c"arrow_array_stream";

/// Rows under named columns, for other libraries: `polars.DataFrame(table)`.
#[pyclass(frozen, module = "nightwatt")]
pub(crate) struct Table {
    batch: RecordBatch,
}

#[pymethods]
impl Table {
    /// A table of lists of text, of numbers, of whole numbers from 0, or of booleans; `None` is a text or a number that
    /// is missing. `units` has the units of columns, by their names.
    #[new]
    #[pyo3(signature = (columns, units=None))]
    fn new(columns: &Bound<'_, PyDict>, units: Option<HashMap<String, String>>) -> PyResult<Self> {
        let units = units.unwrap_or_default();
        let mut table = Columns::default();
        for (name, values) in columns.iter() {
            let name: String = name.extract()?;
            let unit = units.get(&name).map_or("", String::as_str);
            table = if let Some(values) = booleans(&values) {
                table.push(&name, unit, Arc::new(BooleanArray::from(values)))
            } else if let Ok(values) = values.extract::<Vec<u64>>() {
                table.push(&name, unit, Arc::new(UInt64Array::from(values)))
            } else if let Ok(values) = values.extract::<Vec<Option<f64>>>() {
                table.numbers(&name, unit, values.into_iter())
            } else {
                table.text(&name, values.extract::<Vec<Option<String>>>()?.into_iter())
            };
        }
        table.table()
    }

    /// The table as a stream of Arrow arrays. `requested_schema` is a wish that the protocol lets producers ignore.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = [Ok(self.batch.clone())];
        let reader = RecordBatchIterator::new(batches, self.batch.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
    }

    /// The columns' names, types and units.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref()).map_err(failed)?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Unit of each column that has one.
    #[getter]
    fn units(&self) -> HashMap<String, String> {
        let unit = |field: &Arc<Field>| {
            field.metadata().get("unit").map(|unit| (field.name().clone(), unit.clone()))
        };
        self.batch.schema().fields().iter().filter_map(unit).collect()
    }

    /// Columns as lists, by name.
    fn to_pydict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        let names = self.batch.schema();
        for (field, column) in names.fields().iter().zip(self.batch.columns()) {
            columns.set_item(field.name(), values(py, column)?)?;
        }
        Ok(columns)
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<nightwatt.Table, {} rows: {}>", self.batch.num_rows(), self.columns().join(", "))
    }
}

/// Booleans, if a list is one of them. An empty one is of any type.
fn booleans(values: &Bound<'_, PyAny>) -> Option<Vec<bool>> {
    values.extract::<Vec<bool>>().ok().filter(|values| !values.is_empty())
}

fn values<'py>(py: Python<'py>, column: &ArrayRef) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for row in 0..column.len() {
        let value = match column.data_type() {
            _ if column.is_null(row) => py.None().into_bound(py),
            DataType::Boolean => column.as_boolean().value(row).into_bound_py_any(py)?,
            DataType::Float64 => {
                column.as_primitive::<Float64Type>().value(row).into_bound_py_any(py)?
            }
            DataType::UInt64 => {
                column.as_primitive::<UInt64Type>().value(row).into_bound_py_any(py)?
            }
            _ => column.as_string::<i32>().value(row).into_bound_py_any(py)?,
        };
        list.append(value)?;
    }
    Ok(list)
}

fn failed(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// Columns on their way to a table.
#[derive(Default)]
pub(crate) struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    /// Adds a column of text.
    pub(crate) fn text(self, name: &str, values: impl Iterator<Item = Option<String>>) -> Self {
        self.push(name, "", Arc::new(values.collect::<StringArray>()))
    }

    /// Adds a column of numbers.
    pub(crate) fn numbers(
        self,
        name: &str,
        unit: &str,
        values: impl Iterator<Item = Option<f64>>,
    ) -> Self {
        self.push(name, unit, Arc::new(values.collect::<Float64Array>()))
    }

    /// Adds a column of counts.
    pub(crate) fn counts(self, name: &str, values: impl Iterator<Item = u64>) -> Self {
        self.push(name, "", Arc::new(values.map(Some).collect::<UInt64Array>()))
    }

    fn push(mut self, name: &str, unit: &str, array: ArrayRef) -> Self {
        let field = Field::new(name, array.data_type().clone(), true);
        let unit = (!unit.is_empty()).then(|| ("unit".to_owned(), unit.to_owned()));
        self.fields.push(field.with_metadata(unit.into_iter().collect::<HashMap<_, _>>()));
        self.arrays.push(array);
        self
    }

    /// The table. All columns have as many rows.
    pub(crate) fn table(self) -> PyResult<Table> {
        let schema = Arc::new(Schema::new(self.fields));
        let batch = RecordBatch::try_new(schema, self.arrays).map_err(failed)?;
        Ok(Table { batch })
    }
}

/// A report's table, under the headings that `--csv` writes. A column with text in it is text as a whole.
pub(crate) fn of_report(table: &report::Table) -> PyResult<Table> {
    let mut columns = Columns::default();
    for (index, column) in table.columns.iter().enumerate() {
        let cells = || table.rows.iter().map(|row| row.get(index).unwrap_or(&report::Cell::Empty));
        let is_number = column.align == report::Align::Right
            && !cells().any(|cell| matches!(cell, report::Cell::Text(_)));
        let name = column.heading();
        columns = if is_number {
            columns.numbers(&name, &column.unit, cells().map(number))
        } else {
            columns.text(&name, cells().map(text))
        };
    }
    columns.table()
}

fn number(cell: &report::Cell) -> Option<f64> {
    match cell {
        report::Cell::Number { value, .. } | report::Cell::Shaded { value, .. } => {
            value.is_finite().then_some(*value)
        }
        report::Cell::Text(_) | report::Cell::Empty => None,
    }
}

fn text(cell: &report::Cell) -> Option<String> {
    match cell {
        report::Cell::Number { value, .. } | report::Cell::Shaded { value, .. } => {
            Some(value.to_string())
        }
        report::Cell::Text(text) => Some(text.clone()),
        report::Cell::Empty => None,
    }
}
