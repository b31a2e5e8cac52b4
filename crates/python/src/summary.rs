//! `nightwatt.Summary`: what logs add up to, piece by piece.

use std::collections::BTreeMap;

use nightwatt_host::explained::Explained;
use nightwatt_savings::analyze::{GapFigures, SizeFigures};
use nightwatt_savings::summary::LogSummary;
use nightwatt_traffic::scan;
use nightwatt_traffic::summary::Typical;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use serde::{Deserialize, Serialize};

use crate::failure::{Kind, failed, raised};
use crate::json;
use crate::options::{Logs, ReadingArgs, names, paths};
use crate::table::{Columns, Table};
use crate::watch::Watch;

/// What is known of the requests of logs without their order. `a + b` has the figures of both logs together.
#[pyclass(frozen, eq, module = "nightwatt")]
#[derive(PartialEq, Default)]
pub(crate) struct Summary(LogSummary);

/// Summarises logs. The arguments are those of `nightwatt/_analyze.py`, which documents them.
#[pyfunction]
pub(crate) fn summarize(
    py: Python<'_>,
    logs: Logs,
    reading: ReadingArgs,
    progress: Option<Py<PyAny>>,
) -> PyResult<Summary> {
    let reading = reading.reading(py)?;
    let options = scan::Options { reading, names: names(&logs), ..scan::Options::default() };
    let logs = paths(logs);
    let mut watch = Watch::begin(progress);
    let summary = py.detach(|| {
        LogSummary::read(&logs, &options, |at| watch.look(at.done, at.total, at.requests))
    });
    watch.raised()?;
    summary.map(Summary).map_err(|error| failed(py, &error, error.hint()))
}

/// The form in which a summary travels between workers.
#[derive(Serialize, Deserialize)]
struct Travelling<S> {
    version: String,
    summary: S,
}

/// A summary from the form in which it travels.
#[pyfunction]
pub(crate) fn arrived(py: Python<'_>, bytes: &[u8]) -> PyResult<Summary> {
    let version = |bytes| serde_json::from_slice::<Travelling<serde::de::IgnoredAny>>(bytes);
    let damaged = |error: serde_json::Error| {
        raised(py, Kind::Failed, &Explained::because("a summary arrived damaged", &error))
    };
    let made_by = version(bytes).map_err(damaged)?.version;
    if made_by != env!("CARGO_PKG_VERSION") {
        let what = format!(
            "a summary of nightwatt {made_by} cannot be used by nightwatt {}",
            env!("CARGO_PKG_VERSION")
        );
        let hint = "install the same version on the client and on every worker";
        let explained = Explained::new(what).maybe_hint(Some(hint));
        return Err(raised(py, Kind::Failed, &explained));
    }
    let travelling: Travelling<LogSummary> = serde_json::from_slice(bytes).map_err(damaged)?;
    Ok(Summary(travelling.summary))
}

/// All figures, as `figures` has them.
#[derive(Serialize)]
struct Figures<'a> {
    lines: u64,
    malformed: u64,
    bad_requests: u64,
    unsorted: u64,
    late: u64,
    requests: u64,
    /// Milliseconds since 1970.
    first: Option<i64>,
    last: Option<i64>,
    methods: Option<&'a BTreeMap<String, u64>>,
    statuses: &'a BTreeMap<u16, u64>,
    targets: u64,
    sizes: SizeFigures,
    gaps: Option<GapFigures>,
    hours_of_day: Vec<Typical>,
    hours_of_week: Vec<Typical>,
}

#[pymethods]
impl Summary {
    /// The summary of nothing.
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn __add__(&self, other: &Self) -> Self {
        let mut sum = self.0.clone();
        sum.merge(&other.0);
        Self(sum)
    }

    /// `sum(summaries)` begins with 0.
    fn __radd__(&self, zero: u64) -> PyResult<Self> {
        if zero == 0 {
            return Ok(Self(self.0.clone()));
        }
        Err(pyo3::exceptions::PyTypeError::new_err("only a Summary can be added to a Summary"))
    }

    /// Lines read.
    #[getter]
    fn lines(&self) -> u64 {
        self.0.lines
    }

    /// Requests.
    #[getter]
    fn requests(&self) -> u64 {
        self.0.requests
    }

    /// What could not be read, and what to mind.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings.iter().cloned().collect()
    }

    /// All figures, as a dict with the names of `nightwatt analyze --json`, except that `gaps` is its `gaps.all`,
    /// `hours_of_day` and `hours_of_week` are in its `hours`, and `first` and `last` are in milliseconds since 1970.
    #[getter]
    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let of = &self.0;
        let figures = Figures {
            lines: of.lines,
            malformed: of.malformed,
            bad_requests: of.bad_requests,
            unsorted: of.unsorted,
            late: of.late,
            requests: of.requests,
            first: of.span.map(|(first, _)| first.0),
            last: of.span.map(|(_, last)| last.0),
            methods: of.methods.counts(),
            statuses: &of.statuses,
            targets: of.targets.estimate(),
            sizes: of.size_figures(),
            gaps: of.gaps(),
            hours_of_day: of.hours.of_day().to_vec(),
            hours_of_week: of.hours.of_week().to_vec(),
        };
        json::loaded(py, &figures)
    }

    /// Requests of each hour that had any: when it begins, in seconds since 1970 (UTC), and its requests.
    #[getter]
    fn hours(&self) -> PyResult<Table> {
        let hours = || self.0.hours.iter();
        Columns::default()
            .numbers("begins", "s", hours().map(|(begins, _)| Some(begins as f64)))
            .numbers("utc_offset", "s", hours().map(|(_, hour)| Some(hour.utc_offset.into())))
            .counts("requests", hours().map(|(_, hour)| hour.requests))
            .table()
    }

    /// Gaps between requests by length; `None` if logs overlap in time, so that their gaps are not known.
    #[getter]
    fn gaps(&self) -> PyResult<Option<Table>> {
        let Some(gaps) = self.0.gaps() else { return Ok(None) };
        let bands = || gaps.histogram.iter();
        let table = Columns::default()
            .numbers("from_s", "s", bands().map(|band| Some(band.from_s)))
            .numbers("to_s", "s", bands().map(|band| Some(band.to_s)))
            .counts("gaps", bands().map(|band| band.gaps))
            .numbers("seconds", "s", bands().map(|band| Some(band.seconds)))
            .table()?;
        Ok(Some(table))
    }

    /// Summaries travel between workers.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let bytes = json::text(&Travelling { version, summary: &self.0 })?;
        let arrived = py.import("nightwatt._native")?.getattr("arrived")?;
        (arrived, (PyBytes::new(py, bytes.as_bytes()),)).into_pyobject(py)
    }

    fn __repr__(&self) -> String {
        format!("<nightwatt.Summary of {} requests in {} lines>", self.0.requests, self.0.lines)
    }
}
