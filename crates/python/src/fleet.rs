//! `nightwatt.fleet`: pools of servers, simulated under the policies that run them.

use std::path::PathBuf;

use nightwatt_clock::Clock;
use nightwatt_host::explained::Explained;
use nightwatt_savings::fleet::plan::{PlanFile, PlanResult};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::failure::{Kind, raised, usage};
use crate::json;
use crate::table::of_report;
use crate::watch::Watch;

/// What a plan's pools would do.
#[pyclass(frozen, module = "nightwatt")]
pub(crate) struct Fleet(PlanResult);

/// Simulates a plan: the file `name`, or `text` as it would be in one. The arguments are those of `nightwatt/_analyze.py`.
#[pyfunction]
pub(crate) fn fleet(
    py: Python<'_>,
    name: &str,
    text: Option<&str>,
    folder: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<Fleet> {
    let text = text.map_or_else(|| read(py, name), |text| Ok(text.to_owned()))?;
    let plan = PlanFile::read(name, &text, &folder).map_err(|error| usage(py, &error, None))?;
    let mut watch = Watch::begin(progress);
    let result = py.detach(|| plan.run(|done, all| watch.look(done, Some(all), done)));
    watch.raised()?;
    result.map(Fleet).map_err(|error| usage(py, &error, None))
}

fn read(py: Python<'_>, name: &str) -> PyResult<String> {
    std::fs::read_to_string(name).map_err(|error| {
        let what = Explained::because(format!("cannot read {name}"), &error);
        let hint = "check that it is there and may be read";
        raised(py, Kind::Usage.or_of(&error), &what.maybe_hint(Some(hint)))
    })
}

#[pymethods]
impl Fleet {
    /// All figures, as `nightwatt fleet --json` prints them.
    #[getter]
    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::loaded(py, &self.0)
    }

    /// Every table that `nightwatt fleet --csv` writes, by the name of its file.
    #[getter]
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tables = PyDict::new(py);
        for (name, table) in self.0.tables() {
            tables.set_item(name, Py::new(py, of_report(&table)?)?)?;
        }
        Ok(tables)
    }

    /// What to mind.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings.clone()
    }

    /// The report of `nightwatt fleet --html`.
    fn html(&self) -> String {
        let when = nightwatt_energy::civil::to_minute(Clock::real().now().wall.secs());
        let generated = format!("nightwatt {}, {when} UTC", env!("CARGO_PKG_VERSION"));
        self.0.document(generated).to_html()
    }

    fn __str__(&self) -> String {
        self.0.text()
    }
}
