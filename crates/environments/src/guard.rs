//! What is done is undone, however we end.
//!
//! A guardian, a small script of the shell in a session of its own, waits at the other end of a pipe.
//! Before anything is made or changed, it is told how that is undone; when we end, by whatever signal,
//! the pipe ends, and it undoes what is left, the latest first. The same list stands in a file, the
//! journal, for the case that the machine itself goes down: [`clean`] undoes what is in there.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nightwatt_clock::meter::Stop;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::{Error, shell, tool};

/// Timeout of each undo step. The slowest seen is a guest's engine that ends a container under emulation, a
/// few seconds.
const LIMIT: Duration = Duration::from_mins(1);

/// How long to wait for the guardian of an earlier run to end before it counts as busy.
const TIMEOUT_SECONDS: &str = "20";

const SCRIPT: &str = include_str!("guardian.sh");

/// Undoes what is left when this process ends, or when it is dropped.
#[derive(Debug)]
pub struct Guard {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    journal: PathBuf,
}

#[derive(Debug)]
struct State {
    /// `None` at the end: then the journal is no longer locked either.
    open: Option<Open>,
    next: u64,
}

#[derive(Debug)]
struct Open {
    guardian: Child,
    journal: File,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked left numbers and files unchanged.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// To the journal first: what it has too much is undone once more, and that is harmless.
    fn record(&mut self, line: &str, to_disk: bool) -> io::Result<()> {
        let line = format!("{line}\n");
        self.journal.write_all(line.as_bytes())?;
        if to_disk {
            self.journal.sync_data()?;
        }
        self.guardian.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write_all(line.as_bytes())
    }
}

impl Guard {
    /// Starts the guardian. What an earlier run has left in the journal is undone before.
    pub fn start(journal: &Path) -> Result<Self, Error> {
        let journal_error = |source| Error::Journal { path: journal.to_owned(), source };
        // The guardian is to find it wherever we go.
        let journal = &std::path::absolute(journal).map_err(journal_error)?;
        let mut file = open(journal)?;
        undo_all(&read(&mut file).map_err(journal_error)?, &mut file)?;
        file.set_len(0).map_err(journal_error)?;
        // In a session of its own no signal for our process group or terminal reaches it. Its copy of
        // the file keeps that locked as long as it lives.
        let guardian = Command::new("setsid")
            .args(["/bin/sh", "-c", SCRIPT, "nightwatt-guardian"])
            .arg(LIMIT.as_secs().to_string())
            .arg(journal)
            .stdin(Stdio::piped())
            .stdout(file.try_clone().map_err(journal_error)?)
            .spawn()
            .map_err(|error| {
                // The journal is still empty: nothing has to be undone.
                let _ = std::fs::remove_file(journal);
                Error::Guardian(error)
            })?;
        let state = State { open: Some(Open { guardian, journal: file }), next: 1 };
        let shared = Shared { state: Mutex::new(state), journal: journal.to_owned() };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// From now on this line of the shell is run at the end. Call it *before* doing what is to be
    /// undone: where nothing was made, the line must do no harm, and end well.
    pub fn protect(&self, line: &str) -> Result<Undo, Error> {
        let journal_error = |source| Error::Journal { path: self.shared.journal.clone(), source };
        let line = in_one_line(line);
        let mut state = self.shared.lock();
        let number = state.next;
        state.next += 1;
        let open = state
            .open
            .as_mut()
            .ok_or(io::ErrorKind::BrokenPipe)
            .map_err(|kind| journal_error(kind.into()))?;
        open.record(&format!("+{number} {line}"), true).map_err(journal_error)?;
        Ok(Undo { number, line, shared: Arc::clone(&self.shared), done: false })
    }

    /// Runs a program as [`tool::run`] does. If we end meanwhile, the guardian ends it before anything is
    /// undone. So it begins once the guardian knows of it: were we killed between the two, it would go on
    /// making what has been undone.
    pub(crate) fn run(
        &self,
        argv: &[String],
        what: &str,
        limit: Duration,
        stop: &Stop,
    ) -> Result<tool::Ran, Error> {
        tool::run_announced(argv, what, limit, stop, |group| {
            self.send(&format!("!{group}"));
            Maker { guard: self, group }
        })
    }

    /// A guardian that does not receive it has ended, and undoes at once.
    fn send(&self, line: &str) {
        if let Some(open) = self.shared.lock().open.as_mut()
            && let Some(pipe) = open.guardian.stdin.as_mut()
        {
            let _ = writeln!(pipe, "{line}");
        }
    }

    /// The guardian's process number, for callers that wait for its end.
    pub fn guardian(&self) -> Option<u32> {
        self.shared.lock().open.as_ref().map(|open| open.guardian.id())
    }

    /// Undoes all that is left, and says whether that worked.
    pub fn finish(self) -> Result<(), Error> {
        self.end()
    }

    fn end(&self) -> Result<(), Error> {
        let journal = &self.shared.journal;
        let journal_error = |source| Error::Journal { path: journal.clone(), source };
        let Some(Open { mut guardian, .. }) = self.shared.lock().open.take() else {
            return Ok(());
        };
        drop(guardian.stdin.take());
        guardian.wait().map_err(journal_error)?;
        match fs::read_to_string(journal) {
            // All is undone, so it has removed its list.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            read => {
                Err(Error::LeftBehind(left(&read.map_err(journal_error)?).into_values().collect()))
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::error!("{error}");
        }
    }
}

/// Announces to the guardian that a group of processes is making something, as long as it lives.
#[derive(Debug)]
struct Maker<'a> {
    guard: &'a Guard,
    group: u32,
}

impl Drop for Maker<'_> {
    fn drop(&mut self) {
        self.guard.send(&format!("~{}", self.group));
    }
}

/// Something that is to be undone. Dropped, it is undone.
#[derive(Debug)]
pub struct Undo {
    number: u64,
    line: String,
    shared: Arc<Shared>,
    done: bool,
}

impl Undo {
    /// Undoes it now. If that fails the guardian tries again at the end.
    pub fn now(mut self) -> Result<(), Error> {
        self.run()
    }

    fn run(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.done, true) || self.shared.lock().open.is_none() {
            return Ok(());
        }
        let stop = Stop::new().map_err(Error::Guardian)?;
        run_line(&self.line, &stop)?;
        // A guardian that does not hear it undoes it once more, which is harmless.
        if let Some(open) = self.shared.lock().open.as_mut() {
            let _ = open.record(&format!("-{}", self.number), false);
        }
        Ok(())
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Err(error) = self.run() {
            tracing::warn!("{error}; it is tried once more at the end");
        }
    }
}

/// Undoes what a run has left that had no time to do so, because the machine went down. Gives how many
/// things that were. Where there is no such file, there is nothing to undo.
pub fn clean(journal: &Path) -> Result<usize, Error> {
    if !journal.exists() {
        return Ok(0);
    }
    let journal_error = |source| Error::Journal { path: journal.to_owned(), source };
    let mut file = open(journal)?;
    let text = read(&mut file).map_err(journal_error)?;
    let count = undo_all(&text, &mut file)?;
    fs::remove_file(journal).map_err(journal_error)?;
    Ok(count)
}

fn run_line(line: &str, stop: &Stop) -> Result<(), Error> {
    let argv = ["/bin/sh", "-c", line].map(str::to_owned);
    tool::succeed(&argv, "undo what was done", LIMIT, stop).map(drop)
}

fn untrusted(journal: &Path, why: &str) -> Error {
    Error::Untrusted { path: journal.to_owned(), why: why.to_owned() }
}

/// Commands in the list run as our user: no other user may have written it.
fn is_ours(list: &Metadata) -> Result<(), String> {
    let (owner, us) = (list.uid(), rustix::process::geteuid().as_raw());
    if !list.is_file() {
        return Err("is no file".to_owned());
    }
    if owner != us {
        return Err(format!("belongs to user {owner}, and we are user {us}"));
    }
    if list.mode() & 0o022 != 0 {
        return Err("is a file that others may write to".to_owned());
    }
    // Another user may have given the name to another file of ours, which we would empty.
    if list.nlink() > 1 {
        return Err("is a file that has another name, too".to_owned());
    }
    Ok(())
}

/// Opens and locks it.
fn open(journal: &Path) -> Result<File, Error> {
    let journal_error = |source| Error::Journal { path: journal.to_owned(), source };
    loop {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(flags.bits().cast_signed())
            .open(journal);
        let file = file.map_err(|source| match Errno::from_io_error(&source) {
            Some(Errno::LOOP) => untrusted(journal, "is a symbolic link"),
            _ => journal_error(source),
        })?;
        is_ours(&file.metadata().map_err(journal_error)?)
            .map_err(|why| untrusted(journal, &why))?;
        if file.try_lock().is_err() {
            let stop = Stop::new().map_err(journal_error)?;
            let path = journal.display().to_string();
            let argv = ["flock", "-w", TIMEOUT_SECONDS, &path, "true"].map(str::to_owned);
            let waited = tool::run(&argv, "wait for the journal", LIMIT, &stop)?;
            if !waited.status.success() || file.try_lock().is_err() {
                return Err(Error::Busy(journal.to_owned()));
            }
        }
        // The process that held the lock may have removed the file: then our lock is on a file
        // without a name.
        let ours = file.metadata().map_err(journal_error)?;
        if fs::metadata(journal).is_ok_and(|now| now.ino() == ours.ino() && now.dev() == ours.dev())
        {
            return Ok(file);
        }
    }
}

fn read(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What a journal says that has not been undone.
fn left(text: &str) -> BTreeMap<u64, String> {
    let mut left = BTreeMap::new();
    // The last line may be cut: what it was to announce has not been done.
    for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        if let Some((number, command)) =
            line.strip_prefix('+').and_then(|rest| rest.split_once(' '))
        {
            number.parse().map(|number: u64| left.insert(number, command.to_owned())).ok();
        } else if let Some(Ok(number)) = line.strip_prefix('-').map(str::parse::<u64>) {
            left.remove(&number);
        }
    }
    left
}

fn undo_all(text: &str, journal: &mut File) -> Result<usize, Error> {
    let left = left(text);
    let count = left.len();
    let mut failed = Vec::new();
    for (number, line) in left.into_iter().rev() {
        let stop = Stop::new().map_err(Error::Guardian)?;
        match run_line(&line, &stop) {
            Ok(()) => {
                // If this does not reach the disk it is undone once more.
                let _ = writeln!(journal, "-{number}");
            }
            Err(error) => failed.push(error.to_string()),
        }
    }
    if failed.is_empty() { Ok(count) } else { Err(Error::LeftBehind(failed)) }
}

/// The journal has one line for each.
fn in_one_line(script: &str) -> String {
    if !script.contains('\n') {
        return script.to_owned();
    }
    let escaped = script.replace('\\', r"\\").replace('\n', r"\n");
    format!("eval \"$(printf %b {})\"", shell::quote(&escaped))
}

#[cfg(test)]
mod tests;
