//! How it is seen that functions return.

use nightwatt_probes::{GoRuntime, ProbeSite, function_bodies, go_runtime};

use super::Section;
use crate::error::Error;

/// How returns of functions are detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Returns {
    /// By return probes, except for Go, which does not tolerate them.
    #[default]
    Auto,
    /// By probes at the instructions at which they end: whatever becomes of their stack.
    Instructions,
}

impl Section {
    /// Is a return address of the kernel's on the stack while it runs?
    pub(super) fn has_return_probe(&self) -> bool {
        self.returns() == Some("probe") && !self.is_marked()
    }

    /// What the report says of it.
    pub(super) fn returns(&self) -> Option<&'static str> {
        match (&self.end, &self.body) {
            (Some(_), _) => None,
            (None, Some(_)) => Some("instructions"),
            (None, None) => Some("probe"),
        }
    }
}

/// Of the Go programs among what is watched.
pub(super) fn runtimes(sections: &[Section]) -> Result<Vec<GoRuntime>, Error> {
    let mut paths: Vec<_> = sections.iter().map(|section| &section.begin.path).collect();
    paths.sort();
    paths.dedup();
    let mut runtimes = Vec::new();
    for path in paths {
        runtimes.extend(go_runtime(path)?);
    }
    Ok(runtimes)
}

/// Finds the ends of functions where they are to be seen there.
pub(super) fn find(
    sections: &mut [Section],
    returns: Returns,
    go: &[GoRuntime],
) -> Result<(), Error> {
    let is_go = |place: &ProbeSite| go.iter().any(|runtime| runtime.path == place.path);
    let mut chosen: Vec<&mut Section> = sections
        .iter_mut()
        .filter(|section| section.end.is_none())
        .filter(|section| returns == Returns::Instructions || is_go(&section.begin))
        .collect();
    let places: Vec<&ProbeSite> = chosen.iter().map(|section| &section.begin).collect();
    let bodies = function_bodies(&places)?;
    for (section, body) in chosen.iter_mut().zip(bodies) {
        section.body = Some(body);
    }
    Ok(())
}
