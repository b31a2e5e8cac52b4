//! Records and replays traces: nothing is sent.

use std::fs;
use std::io::Read;
use std::path::Path;

use nightwatt_transfer::pure::arm::Arm;
use nightwatt_transfer::pure::bill::Bill;
use nightwatt_transfer::pure::comparison::Comparison;
use nightwatt_transfer::pure::policy::block_bytes;
use nightwatt_transfer::pure::trace::Trace;
use nightwatt_transfer::record::Recording;
use nightwatt_transfer::send::{open_listed, walk};

use super::{Args, wanted};
use crate::ExitStatus;
use crate::errors::Failure;
use crate::figures::bytes;
use crate::output;

/// Prints what every policy would have done with a trace.
pub(super) fn replay(args: &Args, path: &Path, bill: Bill) -> Result<ExitStatus, Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::because(format!("cannot read {}", path.display()), &error).into_usage()
    })?;
    let trace = Trace::from_lines(&text).map_err(|error| Failure::usage(&error))?;
    let trace = args.rate.map_or(trace.clone(), |rate| trace.at_rate(rate));
    let comparison = Comparison::of(&trace, bill);
    output::print_result(&comparison, args.json, || comparison.text(), &[])?;
    Ok(ExitStatus::Success)
}

/// Most bytes of which a trace is recorded: each is packed a dozen times.
const RECORDED: usize = 256 << 20;

/// Packs the files with every codec, and writes what that costs.
pub(super) fn record(args: &Args, path: &Path) -> Result<ExitStatus, Failure> {
    let plan = walk(&args.paths, &wanted(args)).map_err(|error| Failure::usage(&error))?;
    let mut content = Vec::new();
    let files = plan.entries.iter().zip(&plan.sources).filter(|(entry, _)| entry.bytes() > 0);
    for (entry, source) in files {
        let room = RECORDED - content.len();
        let read = open_listed(source, entry)
            .and_then(|file| file.take(room as u64).read_to_end(&mut content));
        read.map_err(|error| {
            Failure::because(format!("cannot read {}", source.display()), &error)
        })?;
        if content.len() >= RECORDED {
            output::complain(&format!("warning: only {} are recorded", bytes(RECORDED as u64)));
            break;
        }
    }
    if content.is_empty() {
        return Err(Failure::new("there is nothing to record: the files have no contents")
            .into_usage()
            .hint("name files or folders that have some"));
    }
    let rate = args.rate.unwrap_or(1e7);
    let arms = if args.codecs.is_empty() { Arm::usual() } else { args.codecs.clone() };
    let arms: Vec<Arm> = std::iter::once(Arm::NONE)
        .chain(arms.into_iter().filter(|arm| *arm != Arm::NONE))
        .collect();
    let block_bytes = args.block.map_or_else(|| block_bytes(rate), |kib| kib << 10);
    let names: Vec<String> = args.paths.iter().map(|path| path.display().to_string()).collect();
    let trace = Recording { arms: &arms, block_bytes, repeats: 2, rate }
        .of(&content, &names.join(" "))
        .map_err(|error| Failure::failed(&error))?;
    let text = trace.to_lines().map_err(|error| Failure::failed(&error))?;
    fs::write(path, text)
        .map_err(|error| Failure::because(format!("cannot write {}", path.display()), &error))?;
    output::print(&format!(
        "{} blocks of at most {} recorded",
        trace.blocks.len(),
        bytes(block_bytes.into())
    ))?;
    Ok(ExitStatus::Success)
}
