//! `nightwatt.policy`: a sleep policy, driven by hand, step by step.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nightwatt_energy::time::{Mono, Now, Wall};
use nightwatt_host::explained::Explained;
use nightwatt_policy::admission::ClientClass;
use nightwatt_policy::sleep::{Idle, Observation, Verdict};
use nightwatt_policy::visit::Visitor;
use pyo3::prelude::*;

use crate::failure::{Kind, raised};
use crate::json;
use crate::options::ScenarioArgs;

/// A sleep policy. Times are seconds since its start, and must not decrease.
#[pyclass(module = "nightwatt")]
pub(crate) struct SleepPolicy {
    policy: Mutex<Box<dyn nightwatt_policy::sleep::SleepPolicy + Send>>,
    name: String,
    start: Wall,
    utc_offset: i32,
    wake_time: Duration,
    /// The latest time that was given.
    latest: Mono,
}

#[pymethods]
impl SleepPolicy {
    #[new]
    fn new(py: Python<'_>, scenario: ScenarioArgs, start: f64, utc_offset: i32) -> PyResult<Self> {
        let scenario = scenario.scenario(py)?;
        Ok(Self {
            policy: Mutex::new(scenario.policy.build(&scenario.terms())),
            name: scenario.policy.to_string(),
            start: Wall((start * 1000.0) as i64),
            utc_offset,
            wake_time: scenario.server.wake_time,
            latest: Mono::ZERO,
        })
    }

    /// Its name, as `--policy` has it.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// A request arrived that deserves the server.
    #[pyo3(signature = (at, *, visitor="", kind="human", needs_server=true, delayed=false))]
    fn observe(
        &mut self,
        py: Python<'_>,
        at: f64,
        visitor: &str,
        kind: &str,
        needs_server: bool,
        delayed: bool,
    ) -> PyResult<()> {
        let now = self.now(py, at)?;
        let class = class(kind).ok_or_else(|| {
            wrong(py, format!("`{kind}` is not a class of clients: choose {}", classes()))
        })?;
        let mut hasher = DefaultHasher::new();
        visitor.hash(&mut hasher);
        let visitor = Visitor(hasher.finish());
        self.policy().observe(now, &Observation { visitor, class, needs_server, delayed });
        Ok(())
    }

    /// Whether a server that is idle and awake should sleep now: `"sleep"`, `"stay"` (until something happens), or
    /// the time at which to ask again.
    #[pyo3(signature = (at, *, idle_since, awake_since=0.0))]
    fn verdict<'py>(
        &mut self,
        py: Python<'py>,
        at: f64,
        idle_since: f64,
        awake_since: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let since = time(py, idle_since)?;
        let awake_since = time(py, awake_since)?;
        let now = self.now(py, at)?;
        let idle = Idle { since, awake_since, sla: None, wake_time: self.wake_time };
        match self.policy().verdict(now, &idle) {
            Verdict::Sleep => Ok("sleep".into_pyobject(py)?.into_any()),
            Verdict::Stay => Ok("stay".into_pyobject(py)?.into_any()),
            Verdict::AskAgainAt(then) => Ok(then.0.as_secs_f64().into_pyobject(py)?.into_any()),
        }
    }

    /// When to wake a sleeping server without a request; most policies never do.
    #[getter]
    fn wake_at(&self) -> Option<f64> {
        self.policy().wake_at().map(|at| at.0.as_secs_f64())
    }

    /// What it has learned, if it learns.
    #[getter]
    fn lessons<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        json::loaded(py, &self.policy().lessons(self.at(self.latest)))
    }

    fn __repr__(&self) -> String {
        format!("<nightwatt.policy.SleepPolicy: {}>", self.name)
    }
}

impl SleepPolicy {
    /// Only one thread has it at a time; a panic of another leaves it as it is.
    fn policy(&self) -> MutexGuard<'_, Box<dyn nightwatt_policy::sleep::SleepPolicy + Send>> {
        self.policy.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&mut self, py: Python<'_>, at: f64) -> PyResult<Now> {
        let mono = time(py, at)?;
        if mono < self.latest {
            let latest = self.latest.0.as_secs_f64();
            return Err(wrong(py, format!("time goes back from {latest} s to {at} s")));
        }
        self.latest = mono;
        Ok(self.at(mono))
    }

    fn at(&self, mono: Mono) -> Now {
        let passed = i64::try_from(mono.0.as_millis()).unwrap_or(i64::MAX);
        let wall = Wall(self.start.0.saturating_add(passed));
        Now { mono, wall, utc_offset: self.utc_offset }
    }
}

fn class(name: &str) -> Option<ClientClass> {
    ClientClass::ALL.into_iter().find(|class| word(*class) == name)
}

fn classes() -> String {
    ClientClass::ALL.map(|class| format!("`{}`", word(class))).join(", ")
}

/// As JSON has it.
fn word(class: ClientClass) -> String {
    let text = serde_json::to_string(&class).unwrap_or_default();
    text.trim_matches('"').to_owned()
}

fn time(py: Python<'_>, seconds: f64) -> PyResult<Mono> {
    Duration::try_from_secs_f64(seconds).map(Mono).map_err(|_| {
        wrong(py, format!("{seconds} s is not a time since the start; write 0 or more"))
    })
}

fn wrong(py: Python<'_>, what: String) -> PyErr {
    raised(py, Kind::Usage, &Explained::new(what))
}
