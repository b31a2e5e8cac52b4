//! The answer to each claim, by what it is about.

pub(crate) mod break_even;
#[cfg(feature = "bpf")]
pub(crate) mod calipers;
pub(crate) mod compare;
pub(crate) mod compression;
#[cfg(feature = "bpf")]
pub(crate) mod disk;
pub(crate) mod mining;
pub(crate) mod offloads;
pub(crate) mod proxy;
pub(crate) mod schedule;
pub(crate) mod sync;
pub(crate) mod tcp;
pub(crate) mod throughput;
#[cfg(not(feature = "bpf"))]
pub(crate) mod unanswered;

use crate::{Answer, Context, Error, Printed, pools};

/// V1 to V5 are those of `nightwatt fleet published`.
pub(crate) fn pools(context: &mut Context<'_>, printed: &Printed) -> Result<Answer, Error> {
    let is_long = context.measures(printed);
    let claim = pools::claim(&printed.id, is_long)?
        .ok_or_else(|| Error::Data(format!("`fleet published` has no {}", printed.id)))?;
    Ok(Answer { verdict: claim.verdict, figures: claim.figures, why: claim.why })
}
