//! Claims that this command does not answer, each with the reason.

use crate::{Answer, Context, Error, Printed};

/// What would answer them is not built yet.
#[expect(clippy::unnecessary_wraps, reason = "all answers have one form")]
pub(crate) fn not_built(_: &mut Context<'_>, printed: &Printed) -> Result<Answer, Error> {
    let why = match printed.id.as_str() {
        "S5" => {
            "there is no scheduler by energy yet; a simulation alone would only repeat what it assumes, so \
             this takes measured runs of applications side by side"
        }
        _ => "nothing answers it yet",
    };
    Ok(Answer::not_yet(why))
}

/// S2 and S3 where there are no probes.
#[cfg(not(feature = "bpf"))]
#[expect(clippy::unnecessary_wraps, reason = "all answers have one form")]
pub(crate) fn without_probes(_: &mut Context<'_>, _: &Printed) -> Result<Answer, Error> {
    Ok(Answer::not_checkable(
        "this build has no eBPF, and so watches neither sections nor disks; one with the feature `bpf` does",
    ))
}
