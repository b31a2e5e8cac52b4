//! `nightwatt receive`: the other end of `nightwatt send`.

use std::io;
use std::path::PathBuf;

use clap::ValueHint;
use nightwatt_clock::meter::monotonic;
use nightwatt_transfer::receive::{self, Folder, ReceiveError};

use crate::ExitStatus;
use crate::commands::{Group, Listed};
use crate::errors::Failure;

/// Receive what `nightwatt send` sends (ssh starts it)
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder to write into; it is made if it is not there
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
    /// Speak with the sender over stdin and stdout
    #[arg(long, required = true)]
    pub(crate) stdio: bool,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Act);

const EXAMPLES: &str = "Examples:
  ssh nas nightwatt receive --stdio /backup      # as `send` runs it

Nothing outside DIR is written. A file gets its name only when all of it is on
the disk.";

/// Receives until all is there.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let store = Folder::open(&args.folder).map_err(|error| {
        Failure::because(format!("cannot write into {}", args.folder.display()), &error)
            .hint("make the folder that it is in, or name another one")
    })?;
    match receive::run(io::stdin(), io::stdout().lock(), store, monotonic) {
        Ok(_) => Ok(ExitStatus::Success),
        // The sender was told, and prints it.
        Err(ReceiveError::Session(_) | ReceiveError::Frame(_) | ReceiveError::Message(_)) => {
            Ok(ExitStatus::Failed)
        }
        Err(error) => Err(Failure::failed(&error)),
    }
}
