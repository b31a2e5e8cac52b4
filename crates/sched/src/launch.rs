//! `nightwatt-sched run`: a command that the scheduler schedules.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle};

use crate::error::Error;
use crate::kernel::{self, WANTED};
use crate::os;

/// Run a command under the scheduler that `load` has loaded
///
/// The command, and all that it starts, has the policy SCHED_EXT. Such tasks run when no ordinary task wants the CPU.
/// If the scheduler is unloaded, they go on as ordinary tasks.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Its operations per millijoule, for `load --operations given`
    #[arg(long, value_name = "N")]
    opj: Option<u64>,
    /// Its operations per millijoule when it runs alone, for `load --policy relative`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    alone: Option<u64>,
    /// The command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Becomes the command; returns only if that fails.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let wanted = [args.opj.unwrap_or(0), args.alone.unwrap_or(0)];
    wanted_map()?
        .update(
            &std::process::id().to_ne_bytes(),
            &wanted.map(u64::to_ne_bytes).concat(),
            MapFlags::ANY,
        )
        .map_err(kernel::refused("hand the command to the scheduler"))?;
    os::become_ext()
        .map_err(|source| Error::System { what: "hand the command to the scheduler", source })?;
    let [program, words @ ..] = &args.command[..] else {
        return Err(Error::Usage("there is no command after `--`".to_owned()));
    };
    let source = Command::new(program).args(words).exec();
    Err(Error::File { what: "run", path: program.into(), source })
}

/// That of the scheduler which is loaded.
fn wanted_map() -> Result<MapHandle, Error> {
    if kernel::loaded_scheduler().as_deref() != Some("nightwatt") {
        return Err(Error::NotLoaded);
    }
    // While a scheduler ends, there may be one more.
    let last = MapInfoIter::default().filter(|map| map.name == WANTED).last();
    let last = last.ok_or(Error::NotLoaded)?;
    MapHandle::from_map_id(last.id).map_err(kernel::refused("find the scheduler"))
}
