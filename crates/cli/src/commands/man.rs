//! `nightwatt man`: manual pages, generated from the command line's own definition.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, ValueHint};
use clap_mangen::Man;

use crate::ExitStatus;
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::{help, output};

/// Print a manual page, or write all of them
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Command, such as `serve` or `tcp lab` [default: nightwatt itself]
    #[arg(value_name = "COMMAND", conflicts_with = "output")]
    pub(crate) command: Vec<String>,
    /// Write the pages of all commands to this folder: `nightwatt.1`, `nightwatt-serve.1`, ..
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: Option<PathBuf>,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Install);

const EXAMPLES: &str = "\
Examples:
  nightwatt man serve | man -l -
  nightwatt man --output /usr/local/share/man/man1";

/// Prints one page, or writes all.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    let mut command = help::command().disable_help_subcommand(true);
    // This sets the names of subcommands, such as `nightwatt-tcp-lab`.
    command.build();
    if let Some(folder) = &args.output {
        fs::create_dir_all(folder).map_err(|error| cannot(folder, &error))?;
        write_all(&command, folder)?;
    } else {
        output::print(&page(named(&command, &args.command)?)?)?;
    }
    Ok(ExitStatus::Success)
}

/// Two names are alike from this on (Jaro and Winkler).
const ALIKE: f64 = 0.75;

/// The command with this name, word by word.
fn named<'a>(command: &'a Command, words: &[String]) -> Result<&'a Command, Failure> {
    words.iter().try_fold(command, |command, word| {
        command.find_subcommand(word).filter(|found| !found.is_hide_set()).ok_or_else(|| {
            let known: Vec<&str> = visible(command).map(Command::get_name).collect();
            let what = format!("{} has no command `{word}`", command.get_name());
            let alike = |it: &&&str| strsim::jaro_winkler(it, word);
            let near = known.iter().max_by(|a, b| alike(a).total_cmp(&alike(b)));
            let hint = match (&known[..], near.filter(|it| alike(it) >= ALIKE)) {
                ([], _) => "it has no commands of its own".to_owned(),
                (_, Some(near)) => format!("did you mean `{near}`?"),
                _ => format!(
                    "`{} --help` lists its commands",
                    command.get_bin_name().unwrap_or("nightwatt")
                ),
            };
            Failure::new(what).hint(hint).into_usage()
        })
    })
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|it| !it.is_hide_set())
}

fn page(command: &Command) -> Result<String, Failure> {
    let mut page = Vec::new();
    Man::new(command.clone())
        .manual("nightwatt")
        .render(&mut page)
        .map_err(|error| Failure::because("cannot make the page", &error))?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

fn write_all(command: &Command, folder: &Path) -> Result<(), Failure> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let path = folder.join(format!("{name}.1"));
    fs::write(&path, page(command)?).map_err(|error| cannot(&path, &error))?;
    visible(command).try_for_each(|it| write_all(it, folder))
}

fn cannot(path: &Path, error: &std::io::Error) -> Failure {
    Failure::because(format!("cannot write {}", path.display()), error)
        .hint("is there such a folder, may you write there, and is there room?")
}
