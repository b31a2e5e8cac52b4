//! `nightwatt reproduce`: every published claim, ours beside theirs.
//!
//! What was printed, and how far ours may lie from it, is data (`data/claims.toml`), written down before
//! the comparison. Each answer is a function beside the domain that it belongs to; `ANSWERS` lists them
//! all. A claim that is in the data and not in the list, or in the list and not in the data, fails a test.

mod compression;
mod context;
mod mining;
mod page;
#[cfg(feature = "bpf")]
pub(crate) mod pairs;
mod printed;
mod text;
mod unanswered;

use std::path::PathBuf;

use nightwatt_model::calibrate::sync::SyncError;
use nightwatt_traffic::scan::Progress;
use serde::Serialize;

pub(crate) use self::context::Context;
pub(crate) use self::printed::{Printed, rows};
pub use crate::claim::{Figure, Verdict};
use crate::{analyze, calibrate, compare, fleet, published, tcp};

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// What answers a claim.
type Answering = fn(&mut Context<'_>, &Printed) -> Result<Answer, Error>;

/// Every claim and what answers it, in the order of the report. To answer one, write the function beside
/// what computes or measures it, and put it here.
const ANSWERS: &[(&str, Answering)] = &[
    ("O1", analyze::claims::break_even),
    ("O2", published::claims::cache_shares),
    ("O3", published::claims::savings),
    ("O4", published::claims::delays),
    ("O5", published::claims::tails),
    ("O6", published::throughput::throughput),
    ("O7", compare::claims::measured),
    ("O8", mining::expected_time),
    ("O9", mining::network_power),
    ("O10", mining::efficiencies),
    ("V1", fleet_claim),
    ("V2", fleet_claim),
    ("V3", fleet_claim),
    ("V4", fleet_claim),
    ("V5", fleet_claim),
    ("V6", compare::claims::measured),
    ("B1", tcp::claims::energy),
    ("B2", tcp::helps::claims::offloads),
    ("B3", tcp::claims::power),
    ("B4", tcp::claims::precision),
    ("B5", tcp::claims::kernel_time),
    ("H1", compare::claims::intervals),
    ("H2", compare::claims::measured),
    ("H3", compare::claims::measured),
    ("S1", calibrate::claims::synchronisation),
    #[cfg(feature = "bpf")]
    ("S2", crate::caliper::claims::overhead),
    #[cfg(not(feature = "bpf"))]
    ("S2", unanswered::without_probes),
    #[cfg(feature = "bpf")]
    ("S3", crate::disk::claims::overhead),
    #[cfg(not(feature = "bpf"))]
    ("S3", unanswered::without_probes),
    ("S4", compression::compressors),
    ("S5", unanswered::not_built),
    ("X1", mining::halving),
];

/// Why claims cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An experiment that cannot be run.
    #[error(transparent)]
    Lab(#[from] crate::Error),
    /// A pool that cannot be simulated.
    #[error(transparent)]
    Fleet(#[from] fleet::Error),
    /// Mining that cannot be worked out.
    #[error(transparent)]
    Mining(#[from] nightwatt_mining::Error),
    /// Samples that cannot be aligned.
    #[error(transparent)]
    Sync(#[from] SyncError),
    /// Results of a comparison that cannot be read.
    #[error(transparent)]
    Compare(#[from] compare::Error),
    /// A file that is none of the laboratory's.
    #[error(
        "{path:?} is not what `nightwatt tcp lab --json` or `nightwatt tcp helps --json` prints ({why}): give such \
         a file, or the folder that `nightwatt compare` keeps its results in"
    )]
    Kept {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A claim that is not there.
    #[error("there is no claim `{id}`: there are {known}; name some of these, or none for all")]
    NoClaim {
        /// As asked for.
        id: String,
        /// Those there are.
        known: String,
    },
    /// Our own data.
    #[error("the data of the published claims is wrong: {0}")]
    Data(String),
}

/// What is to be answered.
#[derive(Debug, Clone, Default)]
pub struct ReproduceOptions {
    /// Which claims; all, where there are none.
    pub ids: Vec<String>,
    /// Logs for the claims about one; without any, the demo's day.
    pub logs: Vec<PathBuf>,
    /// Folders that `nightwatt compare` keeps its results in, and files that `nightwatt tcp lab --json` and
    /// `nightwatt tcp helps --json` have printed.
    pub results: Vec<PathBuf>,
    /// Also do what keeps the machine busy for seconds or minutes; what is named is done anyway.
    pub measure: bool,
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    verdict: Verdict,
    figures: Vec<Figure>,
    why: String,
}

impl Answer {
    /// By figures: it agrees if all do that were printed.
    pub(crate) fn by(figures: Vec<Figure>, why: impl Into<String>) -> Self {
        let agrees = figures.iter().all(|figure| figure.agrees != Some(false));
        Self { verdict: Verdict::of(agrees), figures, why: why.into() }
    }

    /// Nothing can be compared here.
    pub(crate) fn not_checkable(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::NotCheckable, figures: Vec::new(), why: why.into() }
    }

    /// What would answer it is not built.
    pub(crate) fn not_yet(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::NotYet, figures: Vec::new(), why: why.into() }
    }

    /// The same with figures that decide nothing.
    pub(crate) fn with(mut self, figures: Vec<Figure>) -> Self {
        self.figures = figures;
        self
    }
}

/// A claim with its answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answered {
    /// Its key.
    pub id: &'static str,
    /// `exact`, `simulated` or `measured`.
    pub kind: String,
    /// What they say, in our words.
    pub claim: String,
    /// Who says it.
    pub source: String,
    /// What comes of it.
    pub verdict: Verdict,
    /// Ours beside theirs.
    pub figures: Vec<Figure>,
    /// Why, or why not.
    pub why: String,
}

/// All of it. The JSON of `nightwatt reproduce --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reproduction {
    /// Version of this form.
    pub schema: u32,
    /// What the claims about a log were held against, if any was asked for.
    pub log: Option<String>,
    /// What was given in vain.
    pub notes: Vec<String>,
    /// The claims, in the order of the list.
    pub claims: Vec<Answered>,
}

/// Answers claims. `tell` is told which one is next, and how many of how many are done.
///
/// # Errors
/// A claim that is not there, a log or results that cannot be read.
pub fn run(
    options: &ReproduceOptions,
    mut tell: impl FnMut(&str, u64, u64),
) -> Result<Reproduction, Error> {
    let printed = Printed::all()?;
    for id in &options.ids {
        if !ANSWERS.iter().any(|(known, _)| known.eq_ignore_ascii_case(id)) {
            let known: Vec<&str> = ANSWERS.iter().map(|(id, _)| *id).collect();
            return Err(Error::NoClaim { id: id.clone(), known: known.join(", ") });
        }
    }
    let is_asked = |id: &str| {
        options.ids.is_empty() || options.ids.iter().any(|asked| asked.eq_ignore_ascii_case(id))
    };
    let asked: Vec<_> = ANSWERS.iter().filter(|(id, _)| is_asked(id)).collect();
    let mut context = Context::new(options);
    let mut claims = Vec::new();
    for (done, (id, answering)) in asked.iter().enumerate() {
        tell(id, done as u64, asked.len() as u64);
        let missing = || Error::Data(format!("there is no claim {id}"));
        let claim = printed.iter().find(|claim| claim.id == *id).ok_or_else(missing)?;
        let Answer { verdict, figures, mut why } = answering(&mut context, claim)?;
        if context.is_of_generated_log() {
            why.push_str(
                ". Ours is of the demo's day, which is generated: give a real one with `--log`",
            );
        }
        let (kind, says) = (claim.kind.clone(), claim.says.clone());
        let source = claim.source.clone();
        claims.push(Answered { id, kind, claim: says, source, verdict, figures, why });
    }
    tell("", asked.len() as u64, asked.len() as u64);
    Ok(Reproduction { schema: SCHEMA, log: context.log_name(), notes: context.notes(), claims })
}

/// V1 to V5 are those of `nightwatt fleet published`.
fn fleet_claim(context: &mut Context<'_>, printed: &Printed) -> Result<Answer, Error> {
    let is_long = context.measures(printed);
    let claim = fleet::published::claim(&printed.id, is_long)?
        .ok_or_else(|| Error::Data(format!("`fleet published` has no {}", printed.id)))?;
    Ok(Answer { verdict: claim.verdict, figures: claim.figures, why: claim.why })
}

/// Nobody watches.
pub(crate) fn silent(_: Progress) {}

#[cfg(test)]
mod tests;
