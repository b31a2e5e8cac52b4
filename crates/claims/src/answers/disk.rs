//! S3: what watching disks costs the programs that use them. How well sizes of files tell a disk's energy
//! takes a meter on the disk.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use nightwatt_probes::DiskProbes;

use crate::pairs::{self, Overheads};
use crate::{Answer, Context, Error, Printed};

/// The most of the published overheads, bzip2's; as in the data.
const MOST: f64 = 1.0161;

/// Text that is searched and compressed.
const TEXT_BYTES: usize = 6 << 20;

/// Functions of the source that is compiled.
const FUNCTIONS: usize = 300;

/// Published programs but the browser, and what a shell runs of them.
const LOADS: [(&str, &str); 3] = [
    ("gcc", "for i in 1 2 3; do gcc -O1 -c source.c -o object$i.o || exit 1; done"),
    // It finds nothing, and says so by its status.
    (
        "grep",
        "for i in 1 2 3 4 5 6 7 8; do grep -c 'no.*such.*thing' text; [ $? = 1 ] || exit 2; done",
    ),
    ("bzip2", "bzip2 -k -f text"),
];

/// S3, where it was asked for.
pub(crate) fn overhead(context: &mut Context<'_>, printed: &Printed) -> Result<Answer, Error> {
    if !context.measures(printed) {
        return Ok(Answer::not_checkable(
            "measuring the overhead needs root and a minute of a busy machine: name it (`nightwatt reproduce S3`) \
             or give `--measure`. How well file sizes predict a disk's energy needs a meter on the disk: \
             `nightwatt calibrate storage` fits their model to a recording of its power",
        ));
    }
    let system = |source| crate::Error::System { what: "make what is compressed", source };
    let folder = tempfile::tempdir().map_err(system)?;
    let text = pairs::text_that_hardly_repeats(TEXT_BYTES);
    std::fs::write(folder.path().join("text"), text).map_err(system)?;
    std::fs::write(folder.path().join("source.c"), source()).map_err(system)?;
    let mut overheads = Overheads::new();
    for (program, work) in LOADS {
        match pairs::ratios(|with| run(folder.path(), work, with)) {
            Ok(ratios) => overheads.add(printed, program, "", &ratios)?,
            Err(why) => overheads.not_watched(program, &why),
        }
    }
    Ok(overheads.answer(
        MOST,
        "Their 92 to 94 % are of the energy of a disk, which takes a meter on it, and are no part of this \
         answer: `nightwatt calibrate storage` fits their model to a recording of its power",
    ))
}

/// CPU time of the shell and all that it starts.
fn run(folder: &Path, work: &str, with: bool) -> Result<f64, String> {
    let mut probes = None;
    if with {
        let mut disk = DiskProbes::load().map_err(|error| error.to_string())?;
        disk.start().map_err(|error| error.to_string())?;
        probes = Some(disk);
    }
    let seconds = pairs::cpu_time(Command::new("sh").args(["-c", work]).current_dir(folder));
    drop(probes);
    seconds
}

fn source() -> String {
    let mut source = String::new();
    for number in 0..FUNCTIONS {
        // Writing to a String cannot fail.
        let _ = writeln!(
            source,
            "int f{number}(int n) {{ int s = 0; for (int i = 0; i < n; i++) s += i * {number} ^ s; return s; }}"
        );
    }
    source
}
