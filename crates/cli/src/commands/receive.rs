//! `nightwatt receive`: the other end of `nightwatt send`.

use std::io;
use std::path::{Path, PathBuf};

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
    /// Refuse links that could lead outside DIR: absolute ones, and those with `..` behind a name
    #[arg(long)]
    pub(crate) safe_links: bool,
    /// Speak with the sender over stdin and stdout
    #[arg(long, required = true)]
    pub(crate) stdio: bool,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Act);

const EXAMPLES: &str = "Examples:
  ssh nas nightwatt receive --stdio /backup      # as `send` runs it

In authorized_keys, `command=\"nightwatt receive --stdio --safe-links /backup\"`
lets the owner of a key do this and nothing else.

Nothing outside DIR is written. A file gets its name only when all of it is on
the disk.";

/// Receives until all is there.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let store = match Folder::open(&args.folder) {
        Ok(store) if args.safe_links => store.wary_of_links(),
        Ok(store) => store,
        Err(error) => return refuse(&args.folder, &error),
    };
    match receive::run(io::stdin(), io::stdout().lock(), store, monotonic) {
        Ok(_) => Ok(ExitStatus::Success),
        // The sender was told, and prints it.
        Err(ReceiveError::Session(_) | ReceiveError::Frame(_) | ReceiveError::Message(_)) => {
            Ok(ExitStatus::Failed)
        }
        // The sender is gone, and knows why.
        Err(ReceiveError::Connection(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Ok(ExitStatus::Failed)
        }
        Err(error) => Err(Failure::failed(&error)),
    }
}

/// The sender prints why.
fn refuse(folder: &Path, error: &io::Error) -> Result<ExitStatus, Failure> {
    let hint = match error.kind() {
        io::ErrorKind::NotADirectory => "it is a file: name a folder",
        io::ErrorKind::NotFound => "make the folder that it is in, or name another one",
        _ => "name a folder that you may write to",
    };
    let text = format!("cannot write into {}: {error}: {hint}", folder.display());
    let result = receive::refuse(io::stdout(), text);
    result.map_err(|error| Failure::because("cannot answer the sender", &error))?;
    Ok(ExitStatus::Failed)
}
