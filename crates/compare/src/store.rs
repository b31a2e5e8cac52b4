//! Where a plan's results are: a folder that is whole after every run.
//!
//! ```text
//! plan.toml        the plan, as it was read
//! runs.jsonl       a line for every run, written before the next one begins
//! runs/0001/       what the run's commands said, and its power
//! undo             what is to be undone if we are killed
//! report.html, report.json, runs.csv, cells.csv
//! ```

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nightwatt_host::files::{self, Access, Durability, Replacement};
use rustix::fs::{FlockOperation, flock};

use super::error::Error;
use super::plan::{Plan, Subject};
use super::record::RunRecord;

const PLAN: &str = "plan.toml";
const RUNS: &str = "runs.jsonl";
const RUN_FOLDERS: &str = "runs";

/// A folder of results with a single writer.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    runs: File,
    /// The runs that are there already.
    pub done: Vec<RunRecord>,
    /// What the reader has to know of them.
    pub warnings: Vec<String>,
    /// What is there is to be forgotten once nothing keeps the runs from beginning.
    is_fresh: bool,
    /// The plan was changed since, in what leaves the runs as they are.
    is_changed: bool,
}

fn failed(what: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Results { what, path: path.to_owned(), source }
}

impl Store {
    /// Opens the folder of a plan, or makes it. What is there has to be of the same plan (of runs that name what they
    /// are of, any), and is gone on with; `fresh`: it is forgotten when the runs begin.
    pub fn open(folder: &Path, plan: Subject<'_>, fresh: bool) -> Result<Self, Error> {
        fs::create_dir_all(folder).map_err(|error| failed("make", folder, error))?;
        check_ours(folder)?;
        let path = folder.join(RUNS);
        let runs = File::options().create(true).append(true).read(true).open(&path);
        let runs = runs.map_err(|error| failed("write", &path, error))?;
        if flock(&runs, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(Error::InUse(folder.to_owned()));
        }
        let (done, warnings) = (Vec::new(), Vec::new());
        let folder = folder.to_owned();
        let mut store = Self { folder, runs, done, warnings, is_fresh: fresh, is_changed: false };
        if !fresh {
            store.read(plan)?;
        }
        Ok(store)
    }

    /// The runs that are there, which have to be of this plan.
    fn read(&mut self, plan: Subject<'_>) -> Result<(), Error> {
        let path = self.folder.join(RUNS);
        let length = self.runs.metadata().map_err(|error| failed("read", &path, error))?.len();
        let place = self.folder.join(PLAN);
        let is_other = match fs::read_to_string(&place) {
            // A plan of which nothing was run may be any.
            _ if length == 0 => false,
            Ok(text) if has_same_runs(&text, plan.text) => {
                self.is_changed = text != plan.text;
                false
            }
            Ok(_) => true,
            Err(error) => return Err(failed("read", &place, error)),
        };
        if is_other && plan.key.is_none() {
            return Err(Error::OtherPlan(self.folder.clone()));
        }
        let cells = if plan.key.is_some() { usize::MAX } else { plan.cells };
        let (done, whole) = read_runs(&path, cells)?;
        let names_its_own =
            |run: &RunRecord| plan.key.is_some_and(|key| run.facts.contains_key(key));
        if is_other && !done.iter().all(names_its_own) {
            return Err(Error::OtherPlan(self.folder.clone()));
        }
        if whole < length {
            // We were killed while we wrote: that run is done again.
            self.runs.set_len(whole).map_err(|error| failed("mend", &path, error))?;
            self.warnings
                .push("the last run was not written down to its end, and is done again".to_owned());
        }
        self.done = done;
        Ok(())
    }

    /// Nothing keeps the runs from beginning: keeps the plan beside them.
    pub fn begin(&mut self, plan: Subject<'_>) -> Result<(), Error> {
        if std::mem::take(&mut self.is_fresh) {
            forget(&self.folder, &self.runs)?;
        }
        write_whole(&self.folder.join(PLAN), plan.text.as_bytes())
    }

    /// Runs that do not fit a plan that was changed are those of another.
    pub fn refusal(&self, error: Error) -> Error {
        match error {
            Error::Experiment(_) if self.is_changed => Error::OtherPlan(self.folder.clone()),
            other => other,
        }
    }

    /// A new folder for the output of a run.
    pub fn run_folder(&self, number: u32) -> Result<PathBuf, Error> {
        let folder = self.folder.join(RUN_FOLDERS).join(format!("{number:04}"));
        // Of a run that was not written down to its end.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|error| failed("make", &folder, error))?;
        Ok(folder)
    }

    /// Keeps a run.
    pub fn push(&mut self, record: RunRecord) -> Result<(), Error> {
        let path = self.folder.join(RUNS);
        let mut line =
            serde_json::to_vec(&record).map_err(|error| failed("write", &path, error.into()))?;
        line.push(b'\n');
        self.runs
            .write_all(&line)
            .and_then(|()| self.runs.sync_data())
            .map_err(|error| failed("write", &path, error))?;
        self.done.push(record);
        Ok(())
    }

    /// What is to be undone if we are killed is written here.
    pub fn undo_file(&self) -> PathBuf {
        self.folder.join("undo")
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Do two plans ask for the same runs? Comments and the title say nothing of them, nor does the margin; how
/// often they are done may change, if the runs that are there fit that, too.
fn has_same_runs(text: &str, other: &str) -> bool {
    let runs_of = |text: &str| {
        let mut table: toml::Table = text.parse().ok()?;
        table.remove("title");
        table.remove("margin");
        if let Some(runs) = table.get_mut("runs").and_then(toml::Value::as_table_mut) {
            for key in ["least", "most", "precision"] {
                runs.remove(key);
            }
            if runs.is_empty() {
                table.remove("runs");
            }
        }
        Some(table)
    };
    text == other || runs_of(text).is_some_and(|runs| Some(runs) == runs_of(other))
}

/// Checks that the folder belongs to us and that its files are ours: we run every line of the journal, so
/// no other user may change it.
fn check_ours(folder: &Path) -> Result<(), Error> {
    let wrong = |why| Err(Error::NotResults { folder: folder.to_owned(), why });
    let owner = fs::metadata(folder).map_err(|error| failed("look at", folder, error))?;
    if owner.uid() != rustix::process::geteuid().as_raw() {
        return wrong("it belongs to another user");
    }
    let has = |name: &str| fs::symlink_metadata(folder.join(name)).is_ok();
    if !has(RUNS) && [PLAN, RUN_FOLDERS, "report.html", "report.json"].into_iter().any(has) {
        return wrong("it has files that a folder of results has, and no list of runs");
    }
    for name in [RUNS, PLAN, "undo"] {
        let is_link = fs::symlink_metadata(folder.join(name)).is_ok_and(|it| it.is_symlink());
        if is_link {
            return wrong("its files are links to others");
        }
    }
    Ok(())
}

/// The plan and the runs of a folder, for a report of them.
pub fn read(folder: &Path) -> Result<(Plan, Vec<RunRecord>), Error> {
    let place = folder.join(PLAN);
    let text = fs::read_to_string(&place).map_err(|error| failed("read", &place, error))?;
    let name = place.display().to_string();
    let title = folder.file_name().unwrap_or_default().to_string_lossy();
    let plan = super::plan::PlanFile::read(&name, &title, &text)?;
    let (runs, _) = read_runs(&folder.join(RUNS), plan.cells.len())?;
    Ok((plan, runs))
}

/// The runs of a folder whose plan has so many cells.
pub fn runs(folder: &Path, cells: usize) -> Result<Vec<RunRecord>, Error> {
    read_runs(&folder.join(RUNS), cells).map(|(runs, _)| runs)
}

/// Writes a file that is there whole or not at all: a full disk leaves what was there.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let how = Replacement { access: Access::Usual, durability: Durability::Whole };
    files::replace(path, how, bytes).map_err(|error| failed("write", path, error))
}

/// Removes what an earlier plan left in its folder, and nothing else.
fn forget(folder: &Path, runs: &File) -> Result<(), Error> {
    runs.set_len(0).map_err(|error| failed("empty", &folder.join(RUNS), error))?;
    let gone = |result: io::Result<()>| match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    for name in [PLAN, "report.html", "report.json", "runs.csv", "cells.csv"] {
        let path = folder.join(name);
        gone(fs::remove_file(&path)).map_err(|error| failed("remove", &path, error))?;
    }
    let path = folder.join(RUN_FOLDERS);
    gone(fs::remove_dir_all(&path)).map_err(|error| failed("remove", &path, error))
}

/// The runs in a file, and how much of it they are: the last line may have been cut.
fn read_runs(path: &Path, cells: usize) -> Result<(Vec<RunRecord>, u64), Error> {
    let text = fs::read(path).map_err(|error| failed("read", path, error))?;
    let (mut runs, mut whole) = (Vec::new(), 0);
    for (index, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if !line.ends_with(b"\n") {
            break;
        }
        let run: RunRecord = match serde_json::from_slice(line) {
            Ok(run) => run,
            // What a power cut leaves of the last one may be as long as it was.
            Err(_) if whole + line.len() as u64 == text.len() as u64 => break,
            Err(error) => {
                let (path, line, why) = (path.to_owned(), index + 1, error.to_string());
                return Err(Error::BadRun { path, line, why });
            }
        };
        if run.cell >= cells {
            let why = format!("its cell {} is not one of the plan's {cells}", run.cell);
            return Err(Error::BadRun { path: path.to_owned(), line: index + 1, why });
        }
        if run.number as usize != index + 1 {
            let why = format!("it has the number {}, and would be the {}.", run.number, index + 1);
            return Err(Error::BadRun { path: path.to_owned(), line: index + 1, why });
        }
        whole += line.len() as u64;
        runs.push(run);
    }
    Ok((runs, whole))
}

#[cfg(test)]
mod tests {
    use super::super::plan::PlanFile;
    use super::*;

    const TEXT: &str = "[[environment]]\nname = 'a'\nkind = 'host'\n\
                        [[workload]]\nname = 'i'\ntool = 'idle'\ncommand = 'sleep 1'\n";

    fn plan() -> Plan {
        PlanFile::read("plan.toml", "plan", TEXT).unwrap()
    }

    fn refusal(folder: &Path, fresh: bool) -> String {
        Store::open(folder, plan().subject(), fresh).unwrap_err().to_string()
    }

    #[test]
    fn folders_of_others_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let thesis = folder.path().join("runs/0001/thesis.txt");
        fs::create_dir_all(thesis.parent().unwrap()).unwrap();
        fs::write(&thesis, "years of work").unwrap();
        for fresh in [false, true] {
            assert!(refusal(folder.path(), fresh).contains("is no folder of results"), "{fresh}");
        }
        assert_eq!(fs::read_to_string(thesis).unwrap(), "years of work");
        if rustix::process::geteuid().is_root() {
            let folder = tempfile::tempdir().unwrap();
            std::os::unix::fs::chown(folder.path(), Some(65_534), None).unwrap();
            assert!(refusal(folder.path(), false).contains("another user"));
        }
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("runs.jsonl"), "").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("undo")).unwrap();
        assert!(refusal(folder.path(), false).contains("links"));
    }

    #[test]
    fn a_last_line_that_is_cut_or_damaged_is_done_again_and_others_are_told() {
        let record = RunRecord {
            number: 1,
            block: 0,
            cell: 0,
            attempt: 0,
            began: String::new(),
            elapsed_s: 1.0,
            failed: None,
            figures: Vec::new(),
            percentiles: Vec::new(),
            errors: 0,
            answered: 1.0,
            channels: Vec::new(),
            settings: std::collections::BTreeMap::new(),
            facts: std::collections::BTreeMap::new(),
            warnings: Vec::new(),
        };
        for damage in ["{\"number\": 2, \"blo", "\0\0\0\0\n"] {
            let folder = tempfile::tempdir().unwrap();
            let mut store = Store::open(folder.path(), plan().subject(), false).unwrap();
            store.begin(plan().subject()).unwrap();
            store.push(record.clone()).unwrap();
            drop(store);
            let path = folder.path().join(RUNS);
            let whole = fs::read_to_string(&path).unwrap();
            fs::write(&path, format!("{whole}{damage}")).unwrap();
            let store = Store::open(folder.path(), plan().subject(), false).unwrap();
            assert_eq!((&store.done, store.warnings.len()), (&vec![record.clone()], 1));
            drop(store);
            assert_eq!(fs::read_to_string(&path).unwrap(), whole);
            fs::write(&path, format!("{damage}\n{whole}")).unwrap();
            assert!(refusal(folder.path(), false).contains("line 1"));
        }
    }

    #[test]
    fn a_plan_may_change_in_what_leaves_its_runs_as_they_are() {
        let with = |more: &str| format!("{more}\n{TEXT}");
        assert!(has_same_runs(TEXT, &with("title = 'x'\nmargin = 0.1 # why")));
        assert!(has_same_runs(TEXT, &with("[runs]\nmost = 40")));
        assert!(!has_same_runs(TEXT, &with("[runs]\nwarm_ups = 3")));
        assert!(!has_same_runs(TEXT, &TEXT.replace("sleep 1", "sleep 2")));
    }

    #[test]
    fn what_is_there_is_forgotten_only_when_runs_begin() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("runs.jsonl");
        drop(Store::open(folder.path(), plan().subject(), false).unwrap());
        fs::write(&there, "{}\n").unwrap();
        let mut store = Store::open(folder.path(), plan().subject(), true).unwrap();
        assert_eq!(fs::read_to_string(&there).unwrap(), "{}\n", "a meter could be missing");
        store.begin(plan().subject()).unwrap();
        assert_eq!(fs::read_to_string(&there).unwrap(), "");
    }

    #[test]
    fn before_the_first_run_a_plan_is_any() {
        let folder = tempfile::tempdir().unwrap();
        Store::open(folder.path(), plan().subject(), false)
            .unwrap()
            .begin(plan().subject())
            .unwrap();
        let other = TEXT.replace("sleep 1", "sleep 2");
        let other = PlanFile::read("plan.toml", "plan", &other).unwrap();
        Store::open(folder.path(), other.subject(), false).unwrap();
    }
}
