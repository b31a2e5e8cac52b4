//! Errors as Python raises them: the classes are in `nightwatt/_errors.py`, the words are those of the command line.

use std::error::Error;
use std::io;

use nightwatt_host::explained::Explained;
use pyo3::prelude::*;

/// Which class of exception an error is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Any other.
    Failed,
    /// An argument, or a file that it names, is wrong.
    Usage,
    /// A file is missing.
    Missing,
    /// A file may not be read.
    Denied,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Missing => "missing",
            Self::Denied => "denied",
        }
    }

    /// What the system's refusal in the error, if there is one, makes of it.
    pub(crate) fn or_of(self, error: &(dyn Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            match error.downcast_ref::<io::Error>().map(io::Error::kind) {
                Some(io::ErrorKind::NotFound) => return Self::Missing,
                Some(io::ErrorKind::PermissionDenied) => return Self::Denied,
                _ => next = error.source(),
            }
        }
        self
    }
}

/// The exception for an error.
pub(crate) fn failed(py: Python<'_>, error: &(dyn Error + 'static), hint: Option<&str>) -> PyErr {
    raised(py, Kind::Failed.or_of(error), &Explained::of(error).maybe_hint(hint))
}

/// The exception for a wrong argument, or a file that it names.
pub(crate) fn usage(py: Python<'_>, error: &(dyn Error + 'static), hint: Option<&str>) -> PyErr {
    raised(py, Kind::Usage.or_of(error), &Explained::of(error).maybe_hint(hint))
}

/// The exception with these words.
pub(crate) fn raised(py: Python<'_>, kind: Kind, explained: &Explained) -> PyErr {
    let Explained { what, causes, hint } = explained;
    let made = py
        .import("nightwatt._errors")
        .and_then(|module| module.getattr("make")?.call1((kind.name(), what, causes, hint)));
    match made {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}
