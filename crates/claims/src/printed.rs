//! What was printed: `data/claims.toml` and the tables beside it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Error, Figure};

const CLAIMS: &str = include_str!("../data/claims.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    works: BTreeMap<String, String>,
    claim: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    work: String,
    kind: String,
    says: String,
    #[serde(default)]
    figures: BTreeMap<String, PrintedFigure>,
}

/// A published claim.
#[derive(Debug, Clone)]
pub(crate) struct Printed {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) says: String,
    pub(crate) source: String,
    figures: BTreeMap<String, PrintedFigure>,
}

/// A figure as it was printed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct PrintedFigure {
    what: String,
    published: Option<f64>,
    from: Option<f64>,
    to: Option<f64>,
    /// The tolerance, in the figure's own unit.
    #[serde(default)]
    within: f64,
    digits: Option<String>,
    unit: String,
}

impl Printed {
    /// All claims.
    pub(super) fn all() -> Result<Vec<Self>, Error> {
        let file: File = toml::from_str(CLAIMS).map_err(|error| Error::Data(error.to_string()))?;
        let mut claims = Vec::new();
        for Written { id, work, kind, says, figures } in file.claim {
            let unknown = || Error::Data(format!("{id} is of an unknown work, `{work}`"));
            let source = file.works.get(&work).ok_or_else(unknown)?.clone();
            claims.push(Self { id, kind, says, source, figures });
        }
        Ok(claims)
    }

    fn printed(&self, key: &str) -> Result<&PrintedFigure, Error> {
        self.figures
            .get(key)
            .ok_or_else(|| Error::Data(format!("{} has no figure `{key}`", self.id)))
    }

    /// Ours beside the figure of this key, `of` what.
    pub(crate) fn figure_of(&self, key: &str, of: &str, ours: f64) -> Result<Figure, Error> {
        let it = self.printed(key)?;
        let least = it.published.or(it.from);
        let most = it.published.or(it.to).unwrap_or(f64::INFINITY);
        let least =
            least.ok_or_else(|| Error::Data(format!("{}: `{key}` has no value", self.id)))?;
        let what = if of.is_empty() { it.what.clone() } else { format!("{}, {of}", it.what) };
        Ok(Figure::within(what, ours, least..=most, it.within, unit(&it.unit)?))
    }

    /// Ours beside the figure of this key.
    pub(crate) fn figure(&self, key: &str, ours: f64) -> Result<Figure, Error> {
        self.figure_of(key, "", ours)
    }

    /// Ours beside the figure of this key, digit by digit.
    pub(crate) fn digits(&self, key: &str, ours: String) -> Result<Figure, Error> {
        let it = self.printed(key)?;
        let missing = || Error::Data(format!("{}: `{key}` has no digits", self.id));
        let digits = it.digits.as_deref().ok_or_else(missing)?;
        Ok(Figure::digit_by_digit(it.what.clone(), ours, digits, unit(&it.unit)?))
    }
}

/// Units that figures may have: those of [`Figure`] live as long as the program.
fn unit(unit: &str) -> Result<&'static str, Error> {
    const UNITS: [&str; 11] =
        ["", "s", "ms", "%", "times", "W", "GW", "Gbit/s", "samples", "days", "million years"];
    let known = UNITS.iter().find(|known| **known == unit).copied();
    known.ok_or_else(|| Error::Data(format!("unknown unit `{unit}`")))
}

/// Rows of one of our tables: name and numbers, nothing where a cell is empty.
pub(crate) fn rows(table: &str) -> Vec<(&str, Vec<Option<f64>>)> {
    let lines = table.lines().filter(|line| !line.starts_with('#')).skip(1);
    lines
        .filter_map(|line| {
            let (name, cells) = line.split_once(',')?;
            Some((name, cells.split(',').map(|cell| cell.parse().ok()).collect()))
        })
        .collect()
}
