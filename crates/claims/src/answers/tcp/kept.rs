//! What `tcp lab --json` has printed, as far as claims need it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nightwatt_energy::stats::moments::Moments;
use serde::Deserialize;
use serde_json::Value;

use crate::{Context, Error};

/// One laboratory.
#[derive(Debug, Deserialize)]
pub(super) struct Kept {
    pub(super) energy_is_modelled: bool,
    #[serde(default)]
    pub(super) notes: Vec<String>,
    #[serde(default)]
    ends: Vec<End>,
    scenarios: Vec<Scenario>,
}

#[derive(Debug, Deserialize)]
struct End {
    name: String,
    is_metered: bool,
}

#[derive(Debug, Deserialize)]
struct Scenario {
    scenario: Named,
    cells: Vec<Cell>,
}

#[derive(Debug, Deserialize)]
struct Named {
    name: String,
}

/// What was run over a link.
#[derive(Debug, Deserialize)]
pub(super) struct Cell {
    pub(super) connections: u32,
    pub(super) segments: u64,
    pub(super) congestion: String,
    /// In a run.
    pub(super) lifetimes: f64,
    figures: BTreeMap<String, Estimate>,
    pub(super) runs: Vec<Run>,
}

#[derive(Debug, Deserialize)]
struct Estimate {
    mean: f64,
    half_width: Option<f64>,
}

/// One run.
#[derive(Debug, Deserialize)]
pub(super) struct Run {
    kernel_time: Option<KernelTime>,
}

#[derive(Debug, Deserialize)]
struct KernelTime {
    changing: Category,
    os: Vec<Category>,
}

#[derive(Debug, Deserialize)]
struct Category {
    name: String,
    own_share: Option<Share>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Share {
    share: f64,
}

/// All of `tcp lab` that were given.
pub(super) fn all(context: &mut Context<'_>) -> Result<Vec<Kept>, Error> {
    let read = |(path, value)| {
        let wrong = |error: serde_json::Error| Error::Kept { path, why: error.to_string() };
        serde_json::from_value(value).map_err(wrong)
    };
    of_kind(context, None)?.into_iter().map(read).collect()
}

/// Results that are files and say that they are of this kind (those of `tcp lab` say nothing); folders are those
/// of comparisons.
pub(crate) fn of_kind(
    context: &mut Context<'_>,
    kind: Option<&str>,
) -> Result<Vec<(PathBuf, Value)>, Error> {
    let mut found = Vec::new();
    for path in context.options.results.iter().filter(|path| path.is_file()) {
        let wrong = |why: String| Error::Kept { path: path.clone(), why };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if value["kind"].as_str() == kind {
            context.used(path);
            found.push((path.clone(), value));
        }
    }
    Ok(found)
}

impl Kept {
    /// The end whose energy it is, and that of nothing else: `sender` or `receiver`.
    pub(super) fn metered(&self) -> Option<&str> {
        self.ends.iter().find(|end| end.is_metered).map(|end| end.name.as_str())
    }

    /// Each with the link it was run over.
    pub(super) fn cells(&self) -> impl Iterator<Item = (&str, &Cell)> {
        self.scenarios
            .iter()
            .flat_map(|it| it.cells.iter().map(move |cell| (it.scenario.name.as_str(), cell)))
    }
}

impl Cell {
    /// What was run.
    pub(super) fn load(&self) -> (u32, u64, &str) {
        (self.connections, self.segments, &self.congestion)
    }

    /// That in words.
    pub(super) fn load_text(&self) -> String {
        let (connections, segments, congestion) = self.load();
        format!("{connections} x {segments} segments, {congestion}")
    }

    /// With the link.
    pub(super) fn text(&self, link: &str) -> String {
        format!("{link}, {}", self.load_text())
    }

    /// Of a figure.
    pub(super) fn mean(&self, name: &str) -> Option<f64> {
        self.figures.get(name).map(|it| it.mean)
    }

    /// A mean that is surely above zero: one that is lost in its own noise says nothing, least of all as a
    /// part of a ratio.
    pub(super) fn known(&self, name: &str) -> Option<f64> {
        let is_sure = self.precision(name).is_none_or(|share| share < 1.0);
        self.mean(name).filter(|mean| *mean > 0.0 && is_sure)
    }

    /// Half of the interval, as a share of the mean.
    pub(super) fn precision(&self, name: &str) -> Option<f64> {
        let it = self.figures.get(name)?;
        Some(it.half_width? / it.mean.abs()).filter(|share| share.is_finite())
    }

    fn own_shares(&self, of: impl Fn(&KernelTime) -> Option<&Category>) -> Moments {
        let told = self.runs.iter().filter_map(|run| run.kernel_time.as_ref());
        let shares: Vec<f64> = told.filter_map(|it| Some(of(it)?.own_share?.share)).collect();
        Moments::of(&shares)
    }

    /// Scheduler, ACPI and IRQ together, run by run.
    pub(super) fn changing(&self) -> Moments {
        self.own_shares(|it| Some(&it.changing))
    }

    /// One category of the operating system, run by run.
    pub(super) fn of_category(&self, name: &str) -> Moments {
        self.own_shares(|it| it.os.iter().find(|category| category.name == name))
    }
}
