//! Long calls: progress and Ctrl-C, while the interpreter's lock is released.

use std::ops::ControlFlow;
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Mono;
use pyo3::prelude::*;

/// Time between two looks at signals and reports of progress. Each takes the interpreter's lock.
const EVERY: Duration = Duration::from_millis(100);

/// Watches over one long call.
pub(crate) struct Watch {
    clock: Clock,
    due: Mono,
    /// `progress(done, total, requests)`.
    report: Option<Py<PyAny>>,
    /// What Python raised meanwhile, for example `KeyboardInterrupt`.
    raised: Option<PyErr>,
}

impl Watch {
    pub(crate) fn begin(report: Option<Py<PyAny>>) -> Self {
        let clock = Clock::real();
        let due = clock.now().mono + EVERY;
        Self { clock, due, report, raised: None }
    }

    /// Breaks if the call must end.
    pub(crate) fn look(&mut self, done: u64, total: Option<u64>, count: u64) -> ControlFlow<()> {
        if self.raised.is_some() {
            return ControlFlow::Break(());
        }
        let now = self.clock.now().mono;
        if now < self.due {
            return ControlFlow::Continue(());
        }
        self.due = now + EVERY;
        let outcome = Python::attach(|py| {
            py.check_signals()?;
            if let Some(report) = &self.report {
                report.call1(py, (done, total, count))?;
            }
            Ok(())
        });
        match outcome {
            Ok(()) => ControlFlow::Continue(()),
            Err(raised) => {
                self.raised = Some(raised);
                ControlFlow::Break(())
            }
        }
    }

    /// What Python raised, if that ended the call.
    pub(crate) fn raised(self) -> PyResult<()> {
        self.raised.map_or(Ok(()), Err)
    }
}
