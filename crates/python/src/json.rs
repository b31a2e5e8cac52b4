//! Figures on their way to Python, by the keys of `--json`.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use serde::Serialize;

pub(crate) fn text(figures: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(figures).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// As dicts, lists and numbers.
pub(crate) fn loaded<'py>(
    py: Python<'py>,
    figures: &impl Serialize,
) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (text(figures)?,))
}
