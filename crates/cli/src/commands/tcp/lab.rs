//! `nightwatt tcp lab`: what a connection costs over links of all kinds.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nightwatt_clock::Clock;
use nightwatt_clock::meter::Stop;
use nightwatt_netlab::ends::{Cleaned, EndConfig, EndsConfig};
use nightwatt_netlab::scenario::Scenario;
use nightwatt_netlab::study::{self, Cell, Plan, Told, WakeCost};
use nightwatt_netlab::{Error, ends, scenario};
use nightwatt_report::{Document, Table};

use crate::ExitStatus;
use crate::args::{TcpLabArgs, TcpLabStep, TcpRunsArgs, meters};
use crate::errors::Failure;
use crate::progress::Progress;
use crate::{figures, output, signals, whole_file};

/// What takes longer says so first.
const LONG: Duration = Duration::from_mins(10);

/// As a shell has it of a command that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// Measures, or cleans up.
pub(crate) fn run(args: &TcpLabArgs) -> Result<ExitStatus, Failure> {
    match &args.step {
        Some(TcpLabStep::Clean) => clean(),
        None => measure(args),
    }
}

fn clean() -> Result<ExitStatus, Failure> {
    let Cleaned { undone, busy, failed } = ends::clean();
    let things = if undone == 1 { "thing" } else { "things" };
    output::say(&format!("{undone} {things} undone that a killed run had left"))?;
    for journal in busy {
        output::complain(&format!("warning: a run still goes on: {}", journal.display()));
    }
    for (list, error) in &failed {
        output::complain(&format!("error: {}: {error}", list.display()));
    }
    Ok(if failed.is_empty() { ExitStatus::Success } else { ExitStatus::Failed })
}

fn measure(args: &TcpLabArgs) -> Result<ExitStatus, Failure> {
    let plan = plan(args)?;
    let clock = Clock::real();
    let runs = &args.runs;
    if let Some(path) = &args.folded {
        can_write(path)?;
    }
    let [least, most] = plan.reckoned();
    if !runs.json && least > LONG {
        output::complain(&format!(
            "the runs take {} at least and {} at most, by what the links carry; Ctrl-C shows what is there by then, \
             and `--quick` takes minutes",
            figures::time(least),
            figures::time(most)
        ));
    }
    let (report, ended) = driven(runs, &clock, |stop, tell| study::run(&plan, stop, tell))?;
    // What was measured so far is worth its table, however it ended.
    if ended.is_ok()
        || report.scenarios.iter().any(|it| it.cells.iter().any(|it| !it.runs.is_empty()))
    {
        // One that cannot be written is no reason to lose the others.
        let refused = refusals(runs, report.refused_links());
        let said = output::say_result(&report, runs.json, || report.text(), &refused);
        let written = write_files(runs, &report.tables(), |by| report.document(by), &clock);
        let folded = args.folded.as_deref().map_or(Ok(()), |path| {
            whole_file::write(path, report.folded().as_bytes())
                .map_err(|error| cannot_write(path, &error))
        });
        said?;
        written.and(folded)?;
    }
    ended.map_err(|error| failure(&error))?;
    Ok(if report.is_whole() { ExitStatus::Success } else { ExitStatus::Failed })
}

/// Links that were refused, for who does not read the tables that say so.
pub(super) fn refusals(args: &TcpRunsArgs, refusals: Vec<String>) -> Vec<String> {
    if args.json { refusals } else { Vec::new() }
}

/// What was measured, and how that ended.
type Measured<R> = Result<(R, Result<(), Error>), Error>;

/// Measures, says how far it is, and writes runs down as they end.
pub(super) fn driven<R>(
    args: &TcpRunsArgs,
    clock: &Clock,
    measure: impl FnOnce(&Stop, &mut dyn FnMut(&Told<'_>)) -> Measured<R>,
) -> Result<(R, Result<(), Error>), Failure> {
    let stop = signals::stop_on_signals()?;
    let started = clock.now().mono;
    let mut progress = Progress::by_time(args.json);
    let mut runs = args.runs.as_deref().map(open_runs).transpose()?;
    can_write_files(args)?;
    let mut unwritten = None;
    let measured = measure(&stop, &mut |told: &Told<'_>| {
        if let (Some(file), Some(run)) = (&mut runs, &told.run) {
            // To the disk: a run may have taken minutes.
            let written = writeln!(file, "{run}").and_then(|()| file.sync_data());
            unwritten = unwritten.take().or(written.err());
            return;
        }
        let elapsed = clock.now().mono.since(started);
        let runs = told
            .progress
            .map_or((0, 0), |it| (it.done, it.done + it.expected_left.unwrap_or(it.most_left)));
        let (place, of) = told.of;
        progress.tell(runs, elapsed, told.left, || {
            let links = if of > 1 { format!(" ({} of {of})", place + 1) } else { String::new() };
            format!("scenario {}{links}: {}", told.scenario, told.what)
        });
    });
    progress.end();
    if let Some(error) = unwritten {
        output::complain(&format!("warning: not all runs could be written: {error}"));
    }
    measured.map_err(|error| failure(&error))
}

fn open_runs(path: &Path) -> Result<File, Failure> {
    File::options().append(true).create(true).open(path).map_err(|error| {
        Failure::because(format!("cannot write {}", path.display()), &error)
            .hint("`--runs` names a file that may be written to")
            .into_usage()
    })
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::because(format!("cannot write {}", path.display()), error)
        .hint("name a file or a folder that may be written to")
}

/// Will the tables and the page find room where they are wanted? Better asked before hours of runs.
fn can_write_files(args: &TcpRunsArgs) -> Result<(), Failure> {
    let try_folder = |folder: &Path| tempfile::NamedTempFile::new_in(folder).map(drop);
    if let Some(folder) = &args.csv {
        let tried = std::fs::create_dir_all(folder).and_then(|()| try_folder(folder));
        tried.map_err(|error| cannot_write(folder, &error).into_usage())?;
    }
    args.html.as_deref().map_or(Ok(()), can_write)
}

fn can_write(path: &Path) -> Result<(), Failure> {
    whole_file::can_write(path).map_err(|error| cannot_write(path, &error).into_usage())
}

/// The tables and the page, where they are wanted.
pub(super) fn write_files(
    args: &TcpRunsArgs,
    tables: &[(&str, Table)],
    document: impl FnOnce(String) -> Document,
    clock: &Clock,
) -> Result<(), Failure> {
    if let Some(folder) = &args.csv {
        std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
        for (name, table) in tables {
            let path = folder.join(format!("{name}.csv"));
            whole_file::write(&path, table.to_csv().as_bytes())
                .map_err(|error| cannot_write(&path, &error))?;
        }
    }
    if let Some(path) = &args.html {
        let when = nightwatt_report::civil(clock.now().wall.secs());
        let generated = format!("nightwatt {}, {when} UTC", env!("CARGO_PKG_VERSION"));
        let page = document(generated).to_html();
        whole_file::write(path, page.as_bytes()).map_err(|error| cannot_write(path, &error))?;
    }
    Ok(())
}

/// The table that is asked for.
pub(super) fn table(args: &TcpRunsArgs) -> Result<Vec<Scenario>, Failure> {
    match &args.table {
        Some(path) => read(path),
        None => Ok(scenario::published()),
    }
}

/// A plan of these links, with these connections and segments where none are named, and these limits.
pub(super) fn planned(
    args: &TcpRunsArgs,
    scenarios: Vec<Scenario>,
    connections: &[u32],
    segments: &[u64],
    (longest, most): (Duration, u32),
) -> Result<Plan, Failure> {
    let connections = if args.connections.is_empty() { connections } else { &args.connections };
    let segments = if args.segments.is_empty() { segments } else { &args.segments };
    let mut cells = Vec::new();
    for congestion in &args.congestion {
        for &segments in segments {
            for &connections in connections {
                cells.push(Cell { connections, segments, congestion: congestion.clone() });
            }
        }
    }
    let program = match &args.program {
        Some(path) => path.clone(),
        None => own_binary()?,
    };
    Ok(Plan {
        ends: ends_of(args)?,
        scenarios,
        cells,
        lifetimes: args.lifetimes.unwrap_or(200.0),
        longest: args.longest.unwrap_or(longest),
        least: 3,
        most: args.most.unwrap_or(most),
        precision: args.precision,
        main: String::new(),
        accept_link: args.accept_link,
        offload: false,
        // Which are usual depends on the ends.
        meters: if args.meter.meters.is_empty() { Vec::new() } else { meters::chosen(&args.meter) },
        energy: args.energy.clone(),
        wake_cost: args.wake_energy.map(|joules| WakeCost { joules }),
        kernel_time: None,
        capture: false,
        program,
        seed: args.seed,
    })
}

fn ends_of(args: &TcpRunsArgs) -> Result<EndsConfig, Failure> {
    if let Some(path) = &args.ends {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::because(format!("cannot read {}", path.display()), &error)
                .hint("docs/tcp-lab.md says what a file of ends looks like")
                .into_usage()
        })?;
        return EndsConfig::from_toml(&path.display().to_string(), &text)
            .map_err(|it| failure(&it));
    }
    let (Some(sender), Some(receiver)) = (&args.sender, &args.receiver) else {
        return Ok(EndsConfig::Namespaces);
    };
    let end = |name, words: &str| EndConfig::from_words(name, words).map_err(|it| failure(&it));
    EndsConfig::of(end("sender", sender)?, end("receiver", receiver)?).map_err(|it| failure(&it))
}

/// Limits of a long form, and of a short one: of a run, and of their number.
pub(super) const fn limits(quick: bool) -> (Duration, u32) {
    if quick { (Duration::from_secs(2), 5) } else { (Duration::from_mins(5), 20) }
}

fn plan(args: &TcpLabArgs) -> Result<Plan, Failure> {
    let table = table(&args.runs)?;
    let scenarios = scenario::chosen(&table, &args.scenario).map_err(|error| failure(&error))?;
    let (connections, segments): (&[u32], &[u64]) =
        if args.quick { (&[1, 10], &[10]) } else { (&[1, 10, 100], &[10, 10_000]) };
    let plan = planned(&args.runs, scenarios, connections, segments, limits(args.quick))?;
    let (main, kernel_time, capture) = (args.until.clone(), args.kernel_time, args.capture);
    let plan = Plan { main, offload: args.offload, kernel_time, capture, ..plan };
    plan.check().map_err(|error| failure(&error))?;
    Ok(plan)
}

fn own_binary() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::because("cannot find our own binary", &error))
}

fn read(path: &Path) -> Result<Vec<Scenario>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::because(format!("cannot read {}", path.display()), &error)
            .hint("docs/tcp-lab.md says what a table of links looks like")
            .into_usage()
    })?;
    scenario::read(&path.display().to_string(), &text).map_err(|error| failure(&error))
}

/// In words.
pub(crate) fn failure(error: &Error) -> Failure {
    match error {
        error if error.is_interrupted() => {
            Failure::saying("interrupted".to_owned()).ending_with(INTERRUPTED)
        }
        error if error.is_usage() => Failure::usage(error),
        error => Failure::failed(error),
    }
}
