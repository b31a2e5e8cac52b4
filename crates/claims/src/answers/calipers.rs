//! S2: what watching sections of code costs the programs that they are in.

use std::path::Path;
use std::process::Command;

use nightwatt_probes::{ProbeError, SectionProbes, Watch, function_entries};

use crate::pairs::{self, Overheads};
use crate::{Answer, Context, Error, Figure, Printed};

/// What the claim allows; as in the data.
const MOST: f64 = 1.05;

/// What is compressed: text that hardly repeats.
const TEXT_BYTES: usize = 6 << 20;

/// Something that does the same work each time, and the sections that are watched in it at a time.
struct Load {
    program: &'static str,
    arguments: &'static [&'static str],
    functions: &'static [&'static str],
}

const LOADS: [Load; 2] = [
    Load {
        program: "bzip2",
        arguments: &["-k", "-f", "-c"],
        functions: &[
            "libbz2.so.1.0:BZ2_bzCompress",
            "libbz2.so.1.0:BZ2_blockSort",
            "libbz2.so.1.0:BZ2_compressBlock",
            "libbz2.so.1.0:BZ2_hbMakeCodeLengths",
        ],
    },
    Load {
        program: "xz",
        arguments: &["-k", "-f", "-c", "-0", "-T1"],
        functions: &["liblzma.so.5:lzma_code", "liblzma.so.5:lzma_crc64"],
    },
];

/// S2, where it was asked for.
pub(crate) fn overhead(context: &mut Context<'_>, printed: &Printed) -> Result<Answer, Error> {
    if !context.measures(printed) {
        return Ok(Answer::not_checkable(
            "root, and half a minute of a busy machine: name it (`nightwatt reproduce S2`) or give `--measure`. \
             `make bench-caliper-loads` has more loads, and docs/caliper.md what it found",
        ));
    }
    let system = |source| crate::Error::System { what: "make what is compressed", source };
    let folder = tempfile::tempdir().map_err(system)?;
    let text = folder.path().join("text");
    std::fs::write(&text, pairs::text_that_hardly_repeats(TEXT_BYTES)).map_err(system)?;
    let mut overheads = Overheads::new();
    for load in &LOADS {
        let mut calls = 0;
        let ratios =
            pairs::ratios(
                |with| if with { watched(load, &text, &mut calls) } else { once(load, &text) },
            );
        match ratios {
            Err(why) => overheads.not_watched(load.program, &why),
            Ok(_) if calls == 0 => {
                overheads.not_watched(load.program, "none of its sections was entered");
            }
            Ok(ratios) => {
                let sections = format!(", {} sections", load.functions.len());
                overheads.add(printed, load.program, &sections, &ratios)?;
                let what = format!("{}, calls watched in a run", load.program);
                overheads.note(Figure::alone(what, calls as f64, ""));
            }
        }
    }
    Ok(overheads.answer(
        MOST,
        "The error of their instrument was that of their hardware, which is not here",
    ))
}

/// One run with probes; `calls` becomes how often a section was entered and left in it.
fn watched(load: &Load, text: &Path, calls: &mut u64) -> Result<f64, String> {
    let said = |error: ProbeError| error.to_string();
    let mut probes = SectionProbes::load(Watch::Children).map_err(said)?;
    probes.start().map_err(said)?;
    for (number, function) in (0..).zip(load.functions) {
        let point = function.parse().map_err(said)?;
        let places = function_entries(&point).map_err(said)?;
        let place = places.first().ok_or_else(|| format!("there is no {function}"))?;
        probes.attach_function(number, place).map_err(said)?;
    }
    let seconds = once(load, text)?;
    *calls = 0;
    for (number, _) in (0..).zip(load.functions) {
        *calls += probes.calls(number).map_err(said)?.ended;
    }
    Ok(seconds)
}

/// One run without.
fn once(load: &Load, text: &Path) -> Result<f64, String> {
    pairs::cpu_time(Command::new(load.program).args(load.arguments).arg(text))
}
