//! `nightwatt schedule`: jobs of a list, in batches of those that belong together.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueHint;
use nightwatt_clock::Clock;
use nightwatt_compare::Store;
use nightwatt_corun::{self as corun, BatchRun, Error, Goal, JobList, JobsDone, Profile};

use crate::ExitStatus;
use crate::commands::{Group, Listed};
use crate::errors::Failure;
use crate::progress::Progress;
use crate::{experiment, logging, output, signals, values};

/// Run many jobs, together where `corun` found that they fit
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Args {
    /// List of jobs, each on a line `KIND: COMMAND`; `-` reads standard input. Lines may be added, moved and removed
    /// between two runs
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) jobs: PathBuf,
    /// Folder of results of `nightwatt corun`; its jobs are the kinds
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) profile: PathBuf,
    /// What is to be least
    #[arg(long, value_name = "GOAL", value_enum, default_value_t)]
    pub(crate) goal: For,
    /// Run a batch that would wait longer than this before those that save more
    #[arg(long, value_name = "DURATION", value_parser = nightwatt_energy::duration_text::parse)]
    pub(crate) max_wait: Option<Duration>,
    /// Folder of the outputs, and of which jobs have ended: the same command continues there [default: FILE with
    /// `.done` at its end, or schedule.done]
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) output: Option<PathBuf>,
    /// End a job that runs longer (SIGTERM, and SIGKILL after 5 s); it has failed
    #[arg(long, value_name = "DURATION", value_parser = values::some_time)]
    pub(crate) time_limit: Option<Duration>,
    /// Run the jobs again that failed, were killed or have a warning, and those that have not ended
    #[arg(long)]
    pub(crate) retry_failed: bool,
    /// Forget which jobs have ended, and run all of them
    #[arg(long, conflicts_with = "retry_failed")]
    pub(crate) fresh: bool,
    /// Print the batches in their order with their time and energy, and run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print one JSON object, and no progress
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is to be least.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
pub(crate) enum For {
    /// The time until all jobs are finished
    #[default]
    Time,
    /// The energy of the machine until then
    Energy,
}

pub(crate) const LISTED: Listed = Listed::In(Group::Compare);

const EXAMPLES: &str = "\
Examples:
  nightwatt corun kinds.toml             measure which kinds belong together
  nightwatt schedule --jobs list --profile kinds.results --dry-run
  nightwatt schedule --jobs list --profile kinds.results --goal energy
  nightwatt schedule --jobs list --profile kinds.results --time-limit 2h
  nightwatt schedule --jobs list --profile kinds.results --retry-failed

Docs: docs/corun.md";

/// Plans, or runs.
pub(crate) fn run(args: &Args) -> Result<ExitStatus, Failure> {
    logging::start_warnings()?;
    let (name, text) = read(&args.jobs)?;
    let profile = Profile::read(&args.profile).map_err(|error| experiment::of_corun(&error))?;
    let list =
        JobList::read(&name, &text, &profile).map_err(|error| experiment::of_corun(&error))?;
    let goal = match args.goal {
        For::Time => Goal::Time,
        For::Energy => Goal::Energy,
    };
    let batches = |done: &[usize]| {
        list.batches(&profile, goal, args.max_wait, done)
            .map_err(|error| experiment::of_corun(&error))
    };
    let folder = args.output.clone().unwrap_or_else(|| beside(&args.jobs));
    if is_same(&folder, &args.profile) {
        let what =
            format!("{} has the results of `--profile`: outputs cannot go there", folder.display());
        return Err(Failure::new(what)
            .hint("`--output` names another folder, which need not be there yet")
            .into_usage());
    }
    if args.dry_run && !folder.exists() {
        let batches = batches(&[])?;
        output::print_result(&batches, args.json, || batches.text(), &[])?;
        return Ok(ExitStatus::Success);
    }
    let mut store = Store::open(&folder, list.subject(), args.fresh).map_err(of_folder)?;
    let batches = batches(&corun::jobs_done(&list, &store, args.retry_failed))?;
    for warning in &store.warnings {
        output::complain(&format!("warning: {warning}"));
    }
    if !args.json
        && let Some(note) = note_of(&JobsDone::of(&list, &store.done), &folder, args.retry_failed)
    {
        output::complain(&note);
    }
    if args.dry_run {
        output::print_result(&batches, args.json, || batches.text(), &[])?;
        return Ok(ExitStatus::Success);
    }
    let time_limit = args.time_limit;
    let run = BatchRun { profile: &profile, list: &list, batches: &batches, time_limit };
    let ran = run_all(run, &mut store, args.json)?;
    let done = JobsDone::of(&list, &store.done);
    match ran {
        Ok(()) => {}
        Err(error) if error.is_interrupted() => {
            let done = format!("{} jobs, which are not run again", done.ended.len());
            return Err(experiment::interrupted(&done));
        }
        Err(error) => return Err(experiment::of_corun(&error)),
    }
    output::print_result(&done, args.json, || done.text(), &[])?;
    Ok(if done.is_good() { ExitStatus::Success } else { ExitStatus::Failed })
}

/// What has ended before, if anything has.
fn note_of(done: &JobsDone, folder: &Path, retry_failed: bool) -> Option<String> {
    let (ended, again) = (done.ended.len(), done.failed().count() + done.warned().count());
    if ended == 0 {
        return None;
    }
    let known = format!("{ended} of {} jobs have ended before ({})", done.jobs, folder.display());
    Some(match (again, retry_failed) {
        (0, _) => format!("note: {known}, and do not run again"),
        (_, true) => {
            format!("note: {known}; {again} of them failed or have a warning, and run again")
        }
        (_, false) => format!(
            "note: {known}, and do not run again; {again} of them failed or have a warning: \
             `--retry-failed` runs these again"
        ),
    })
}

fn run_all(run: BatchRun<'_>, store: &mut Store, json: bool) -> Result<Result<(), Error>, Failure> {
    let stop = signals::stop_on_signals()?;
    if let Some(why) = run.batches.alone_because.as_ref().filter(|_| !json) {
        output::complain(&format!("note: {why}"));
    }
    let clock = Clock::real();
    let started = clock.now().mono;
    let mut progress = Progress::by_time(json);
    let all = run.batches.jobs.len() as u64;
    let ran = corun::run_batches(run, store, &stop, &mut |batch, ended| {
        let elapsed = clock.now().mono.since(started);
        progress.update(ended as u64, all, elapsed, None, || run.batches.name_of(batch));
    });
    progress.end();
    Ok(ran)
}

/// The list's name for errors, and its text.
fn read(path: &Path) -> Result<(String, String), Failure> {
    let failed = |error| {
        Failure::because(format!("cannot read {}", path.display()), &error)
            .hint("write a list of jobs, each on a line `KIND: COMMAND`; docs/corun.md has one")
            .into_usage()
    };
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(failed)?;
        return Ok(("standard input".to_owned(), text));
    }
    Ok((path.display().to_string(), std::fs::read_to_string(path).map_err(failed)?))
}

fn beside(list: &Path) -> PathBuf {
    if list == Path::new("-") {
        return PathBuf::from("schedule.done");
    }
    list.with_added_extension("done")
}

/// Are both the same folder, by whatever path? One that is not there yet is not.
fn is_same(folder: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(folder).is_some_and(|folder| Some(folder) == real(other))
}

/// The folder has what became of a list, which is neither a plan nor results.
fn of_folder(error: nightwatt_compare::Error) -> Failure {
    let folder = match error {
        nightwatt_compare::Error::OtherPlan(folder) => folder,
        error => return experiment::of_corun(&error.into()),
    };
    let what = format!(
        "{} has the runs of something else, or of another list by an earlier version of nightwatt",
        folder.display()
    );
    Failure::new(what)
        .hint("`--output` names another folder; `--fresh` deletes the runs in this one")
        .into_usage()
}
