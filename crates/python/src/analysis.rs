//! `nightwatt.analyze`: what sleeping would save on logs.

use nightwatt_clock::Clock;
use nightwatt_report::{Addresses, KEY_BYTES};
use nightwatt_savings::analyze::{self as savings, AnalyzeOptions, PolicyFigures};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::failure::failed;
use crate::json;
use crate::options::{Logs, ReadingArgs, ScenarioArgs, names, paths};
use crate::table::{Columns, Table, of_report};
use crate::watch::Watch;

/// What sleeping would have saved on logs, and which requests it would have delayed.
#[pyclass(frozen, module = "nightwatt")]
pub(crate) struct Analysis(savings::Analysis);

/// Analyses logs. The arguments are those of `nightwatt/_analyze.py`, which documents them.
#[pyfunction]
pub(crate) fn analyze(
    py: Python<'_>,
    logs: Logs,
    reading: ReadingArgs,
    days: Option<u32>,
    scenario: ScenarioArgs,
    show_addresses: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Analysis> {
    let options = AnalyzeOptions {
        names: names(&logs),
        logs: paths(logs),
        reading: reading.reading(py)?,
        days,
        scenario: scenario.scenario(py)?,
        ..AnalyzeOptions::default()
    };
    let addresses = addresses(show_addresses)?;
    let mut watch = Watch::begin(progress);
    let analysis =
        py.detach(|| savings::run(&options, |at| watch.look(at.done, at.total, at.requests)));
    watch.raised()?;
    let analysis = analysis.map_err(|error| failed(py, &error, error.hint()))?;
    Ok(Analysis(analysis.named_by(&addresses)))
}

/// How to show clients; their labels hold for this analysis only.
fn addresses(shown: bool) -> PyResult<Addresses> {
    if shown {
        return Ok(Addresses::shown());
    }
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(|error| PyOSError::new_err(error.to_string()))?;
    Ok(Addresses::anonymised(key))
}

#[pymethods]
impl Analysis {
    /// What each policy would have done: one row each, the scenario's own first, then by saving.
    #[getter]
    fn policies(&self) -> PyResult<Table> {
        let ranked = self.0.ranked();
        let names = || ranked.iter().map(|(name, _)| Some((*name).to_owned()));
        let number = |figure: fn(&PolicyFigures) -> Option<f64>| {
            ranked.iter().map(move |(_, figures)| figure(figures))
        };
        let count = |figure: fn(&PolicyFigures) -> u64| {
            ranked.iter().map(move |(_, figures)| figure(figures))
        };
        let currency = &self.0.scenario.electricity.currency;
        Columns::default()
            .text("policy", names())
            .numbers("saving", "1", number(|it| Some(it.saving)))
            .numbers("energy_j", "J", number(|it| Some(it.energy_j)))
            .numbers("energy_uncertainty_j", "J", number(|it| Some(it.energy_uncertainty_j)))
            .numbers("bill", currency, number(|it| Some(it.bill)))
            .numbers("wakeups_per_day", "1/d", number(|it| Some(it.wakeups_per_day)))
            .counts("admitted", count(|it| it.admitted))
            .counts("from_copies", count(|it| it.from_copies))
            .counts("delayed_requests", count(|it| it.delayed_requests))
            .counts("visits", count(|it| it.visits))
            .counts("delayed_visits", count(|it| it.delayed_visits))
            .numbers("oracle_share", "1", number(|it| it.oracle_share))
            .counts("days", count(|it| it.days))
            .counts("days_over", count(|it| it.days_over))
            .numbers(
                "delayed_share_after_first_day",
                "1",
                number(|it| it.delayed_share_after_first_day),
            )
            .table()
    }

    /// Every table that `nightwatt analyze --csv` writes, by the name of its file.
    #[getter]
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tables = PyDict::new(py);
        for (name, table) in self.0.tables() {
            tables.set_item(name, Py::new(py, of_report(&table)?)?)?;
        }
        Ok(tables)
    }

    /// Share of the energy that the scenario's policy would have saved, proxy included.
    #[getter]
    fn saving(&self) -> Option<f64> {
        self.0.policies.get(&self.0.default_policy).map(|figures| figures.saving)
    }

    /// The scenario's policy.
    #[getter]
    fn policy(&self) -> &str {
        &self.0.default_policy
    }

    /// Requests analysed.
    #[getter]
    fn requests(&self) -> u64 {
        self.0.requests
    }

    /// Where the figures of energy come from.
    #[getter]
    fn provenance(&self) -> &str {
        self.0.provenance
    }

    /// What could not be read, and what to mind.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings.clone()
    }

    /// All figures, as `nightwatt analyze --json` prints them.
    #[getter]
    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::loaded(py, &self.0)
    }

    /// The report of `nightwatt analyze --html`: one page that loads nothing.
    fn html(&self) -> String {
        let when = nightwatt_energy::civil::to_minute(Clock::real().now().wall.secs());
        let generated = format!("nightwatt {}, {when} UTC", env!("CARGO_PKG_VERSION"));
        self.0.document(generated).to_html()
    }

    /// What `nightwatt analyze` prints.
    fn __str__(&self) -> String {
        self.0.text()
    }

    fn __repr__(&self) -> String {
        let saving = self.saving().map(|saving| format!(", {:.1} % saved", 100.0 * saving));
        format!(
            "<nightwatt.Analysis of {} requests: {}{}>",
            self.0.requests,
            self.0.default_policy,
            saving.unwrap_or_default()
        )
    }
}
