//! Claims that this command does not answer, each with the reason.

use crate::{Answer, Context, Error, Printed};

/// S2 and S3 where there are no probes.
#[expect(clippy::unnecessary_wraps, reason = "all answers have one form")]
pub(crate) fn without_probes(_: &mut Context<'_>, _: &Printed) -> Result<Answer, Error> {
    Ok(Answer::not_checkable(
        "this build has no eBPF, and so watches neither sections nor disks; one with the feature `bpf` does",
    ))
}
