//! Answers every published claim with our own figure beside it (`nightwatt reproduce`, `nightwatt fleet
//! published`), and says which agree.
//!
//! `data/claims.toml` has what was printed and how far ours may differ, written down before the comparison. Each
//! answer is a function in `answers`, and `ANSWERS` lists them: a test fails if a claim is in only one of the two.
//! This crate stands above all others whose results it checks, for example `savings`, `compare`, `netlab` and
//! `mining`.

mod answers;
mod context;
mod figure;
mod page;
#[cfg(feature = "bpf")]
mod pairs;
pub mod pools;
mod printed;

use std::path::PathBuf;

use nightwatt_measure::pure::calibrate::sync::SyncError;
use nightwatt_traffic::scan::Progress;
use serde::Serialize;

use self::context::Context;
pub use self::figure::{Figure, Verdict};
use self::printed::{Printed, rows};

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// What answers a claim.
type Answering = fn(&mut Context<'_>, &Printed) -> Result<Answer, Error>;

/// Every claim and what answers it, in the order of the report. To answer one, write the function beside
/// what computes or measures it, and put it here.
const ANSWERS: &[(&str, Answering)] = &[
    ("O1", answers::break_even::break_even),
    ("O2", answers::proxy::cache_shares),
    ("O3", answers::proxy::savings),
    ("O4", answers::proxy::delays),
    ("O5", answers::proxy::tails),
    ("O6", answers::throughput::throughput),
    ("O7", answers::compare::measured),
    ("O8", answers::mining::expected_time),
    ("O9", answers::mining::network_power),
    ("O10", answers::mining::efficiencies),
    ("V1", answers::pools),
    ("V2", answers::pools),
    ("V3", answers::pools),
    ("V4", answers::pools),
    ("V5", answers::pools),
    ("V6", answers::compare::measured),
    ("B1", answers::tcp::energy),
    ("B2", answers::offloads::offloads),
    ("B3", answers::tcp::power),
    ("B4", answers::tcp::precision),
    ("B5", answers::tcp::kernel_time),
    ("H1", answers::compare::intervals),
    ("H2", answers::compare::measured),
    ("H3", answers::compare::measured),
    ("S1", answers::sync::synchronisation),
    #[cfg(feature = "bpf")]
    ("S2", answers::calipers::overhead),
    #[cfg(not(feature = "bpf"))]
    ("S2", answers::unanswered::without_probes),
    #[cfg(feature = "bpf")]
    ("S3", answers::disk::overhead),
    #[cfg(not(feature = "bpf"))]
    ("S3", answers::unanswered::without_probes),
    ("S4", answers::compression::compressors),
    ("S5", answers::schedule::by_energy),
    ("X1", answers::mining::halving),
];

/// Why claims could not be answered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A log that cannot be analysed.
    #[error(transparent)]
    Savings(#[from] nightwatt_savings::Error),
    /// The configurations of the proxy cannot be measured.
    #[error("the proxy would not start: {0}")]
    Gateway(#[from] nightwatt_gateway::StartError),
    /// The proxy's configuration: a fault of ours.
    #[error("the proxy's configuration is wrong: {0}")]
    Config(#[from] nightwatt_gateway::ConfigError),
    /// The load on the proxy.
    #[error(transparent)]
    Load(#[from] nightwatt_load::Error),
    /// A file, a socket, a program.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// A pool that cannot be simulated.
    #[error(transparent)]
    Fleet(#[from] nightwatt_savings::fleet::Error),
    /// Mining that cannot be worked out.
    #[error(transparent)]
    Mining(#[from] nightwatt_mining::Error),
    /// Samples that cannot be aligned.
    #[error(transparent)]
    Sync(#[from] SyncError),
    /// Results of a comparison that cannot be read.
    #[error(transparent)]
    Compare(#[from] nightwatt_compare::Error),
    /// A file that the TCP laboratory did not write.
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

/// The report of all claims: the JSON of `nightwatt reproduce --json`.
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

/// Answers claims. `on_progress` gets which one is next, and how many of how many are done.
///
/// # Errors
/// A claim that is not there, a log or results that cannot be read.
pub fn run(
    options: &ReproduceOptions,
    mut on_progress: impl FnMut(&str, u64, u64),
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
        on_progress(id, done as u64, asked.len() as u64);
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
    on_progress("", asked.len() as u64, asked.len() as u64);
    Ok(Reproduction { schema: SCHEMA, log: context.log_name(), notes: context.notes(), claims })
}

/// Ignores the progress.
pub(crate) fn silent(_: Progress) {}

#[cfg(test)]
mod tests;
