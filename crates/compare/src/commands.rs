//! Lines of a plan as processes: their output in files, their end watched for.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_energy::time::Mono;
use nightwatt_host::proc_stat::{self, ProcStat};
use nightwatt_host::{Host, oom};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_open,
    waitid,
};

use super::error::Error;

/// A process that was asked to end is killed after this time.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Between two looks at what is left of a group.
const STEP: Duration = Duration::from_millis(20);

/// Fields of `/proc/PID/stat`.
const STATE: usize = 3;
const GROUP: usize = 5;

/// A larger output is not read: logs of single requests are long, but not that long.
const MOST_OUTPUT: u64 = 256 << 20;

/// Bytes shown of the end of a failed command's output.
const TAIL: u64 = 600;

/// A process with its output in files. Dropped, it is ended with all that it started in its group.
#[derive(Debug)]
pub struct Process {
    child: Child,
    is_reaped: bool,
    is_session: bool,
    /// How many processes the kernel had ended for lack of memory before it began.
    oom_kills: Option<u64>,
    /// Its output.
    pub out: PathBuf,
    /// Its errors.
    pub err: PathBuf,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, or by a signal of another process.
    Exited(ExitStatus),
    /// It was ended at its deadline.
    TookTooLong,
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::System { what, source }
}

impl Process {
    /// Starts it; its output goes to `NAME.out` and `NAME.err` in the folder.
    pub fn start(mut command: Command, folder: &Path, name: &str) -> Result<Self, Error> {
        command.process_group(0);
        Self::spawn(command, folder, name, false)
    }

    /// The same for a command that becomes `setsid`, which makes its session and its group. As the leader of a group,
    /// `setsid` would have to start a child for that, and would hide the signal that killed the child. What it leaves
    /// running when it ends by itself is for the caller to find.
    pub fn start_session(command: Command, folder: &Path, name: &str) -> Result<Self, Error> {
        Self::spawn(command, folder, name, true)
    }

    fn spawn(
        mut command: Command,
        folder: &Path,
        name: &str,
        is_session: bool,
    ) -> Result<Self, Error> {
        let (out, err) = (folder.join(format!("{name}.out")), folder.join(format!("{name}.err")));
        let create = |path: &Path| {
            File::create(path).map_err(|source| Error::Results {
                what: "write",
                path: path.to_owned(),
                source,
            })
        };
        command.stdin(Stdio::null()).stdout(create(&out)?).stderr(create(&err)?);
        let oom_kills = oom::kills(&Host::default());
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|source| Error::Spawn { program, source })?;
        Ok(Self { child, is_reaped: false, is_session, oom_kills, out, err })
    }

    /// Waits for its end, and ends what it leaves in its process group. What takes too long is ended.
    pub fn wait(&mut self, deadline: Mono, stop: &Stop) -> Result<Ending, Error> {
        match self.over_by(deadline, stop)? {
            Woken::Readable => {
                self.reap().map(Ending::Exited).map_err(system("wait for a command"))
            }
            Woken::TimedOut => {
                end_all(std::slice::from_mut(self));
                Ok(Ending::TookTooLong)
            }
            Woken::Stopped => Err(Error::Interrupted),
        }
    }

    fn over_by(&self, deadline: Mono, stop: &Stop) -> Result<Woken, Error> {
        let watched = pidfd_open(self.pid(), PidfdFlags::empty())
            .map_err(|error| system("watch a command")(error.into()))?;
        Ok(stop.readable_until(watched.as_fd(), deadline))
    }

    /// Its number, which is its own until it is reaped.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Has it ended? It is not reaped by that: then its number could be another's.
    pub fn is_over(&self) -> bool {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.is_reaped || !matches!(waitid(WaitId::Pid(self.pid()), how), Ok(None))
    }

    /// Takes note of its end. What is left of its group ends before, while its number is still its own.
    fn reap(&mut self) -> io::Result<ExitStatus> {
        if !self.is_session {
            self.kill();
        }
        self.is_reaped = true;
        self.child.wait()
    }

    fn kill(&self) {
        if !self.is_reaped {
            self.signal(Signal::KILL);
        }
    }

    /// A command that was killed may be one of those that the kernel has ended since it began.
    fn lack_of_memory(&self, status: ExitStatus) -> String {
        let status = status.code().and_then(of_shell).unwrap_or(status);
        let now = oom::kills(&Host::default());
        let more = now.zip(self.oom_kills).and_then(|(now, before)| now.checked_sub(before));
        match more.filter(|more| *more > 0 && status.signal() == Some(Signal::KILL.as_raw())) {
            Some(more) => format!(
                ", perhaps by the kernel's out-of-memory killer (it has ended {more} since the command began)"
            ),
            None => String::new(),
        }
    }

    /// To all of its group. A session that is not made yet has no group, and one process.
    fn signal(&self, signal: Signal) {
        if kill_process_group(self.pid(), signal).is_err() {
            let _ = kill_process(self.pid(), signal);
        }
    }
}

/// Asks all of them to end, and sees to it.
pub fn end_all(processes: &mut [Process]) {
    end_within(processes, TIMEOUT);
}

/// The same, with this time for them to end by themselves.
fn end_within(processes: &mut [Process], timeout: Duration) {
    let asked: Vec<&Process> = processes.iter().filter(|it| !it.is_over()).collect();
    for process in &asked {
        process.signal(Signal::TERM);
    }
    let deadline = monotonic() + timeout;
    // Not the user's stop: the user who interrupted waits for this.
    if let Ok(stop) = Stop::new() {
        for process in &asked {
            let _ = process.over_by(deadline, &stop);
        }
        // A shell ends at once, and what it has started may need time to clean up.
        while monotonic() < deadline && asked.iter().any(|it| has_others(it.pid())) {
            stop.wait_until(monotonic() + STEP);
        }
    }
    for process in processes.iter_mut().filter(|it| !it.is_reaped) {
        process.kill();
        let _ = process.reap();
    }
}

/// Whether any process of a group runs. Its leader, which is not reaped, does not count if it has ended.
fn has_others(group: Pid) -> bool {
    let Ok(all) = fs::read_dir("/proc") else { return false };
    let runs_in_it = |entry: fs::DirEntry| {
        let is_process = entry.file_name().as_bytes().iter().all(u8::is_ascii_digit);
        let text = proc_stat::read(&entry.path()).ok().filter(|_| is_process)?;
        let stat = ProcStat::of(&text)?;
        let is_of_it = stat.field(GROUP) == Some(group.as_raw_nonzero().get());
        Some(is_of_it && !matches!(stat.field(STATE)?, 'Z' | 'X'))
    };
    all.flatten().filter_map(runs_in_it).any(|it| it)
}

impl Drop for Process {
    fn drop(&mut self) {
        end_all(std::slice::from_mut(self));
    }
}

/// Processes that run side by side. Dropped, all are ended at once.
#[derive(Debug, Default)]
pub struct Processes(pub Vec<Process>);

impl Processes {
    /// Waits until all have ended, or one has failed, and ends the others then. Returns how each that ended by
    /// itself did so, and when.
    pub fn wait_until_one_fails(
        &mut self,
        deadline: Mono,
        stop: &Stop,
    ) -> Result<Vec<Option<(Ending, Mono)>>, Error> {
        let mut endings = vec![None; self.0.len()];
        while endings.iter().any(Option::is_none) {
            let woken = self.one_is_over_by(deadline, stop)?;
            let now = monotonic();
            let (is_late, mut has_failed) = (woken == Woken::TimedOut, false);
            if woken == Woken::Stopped {
                return Err(Error::Interrupted);
            }
            for (process, ending) in self.0.iter_mut().zip(&mut endings) {
                if ending.is_none() && process.is_over() {
                    let status = process.reap().map_err(system("wait for a command"))?;
                    has_failed |= !status.success();
                    *ending = Some((Ending::Exited(status), now));
                } else if ending.is_none() && is_late {
                    *ending = Some((Ending::TookTooLong, now));
                }
            }
            if has_failed || is_late {
                end_all(&mut self.0);
                return Ok(endings);
            }
        }
        Ok(endings)
    }

    /// Waits until one of those that run ends.
    fn one_is_over_by(&self, deadline: Mono, stop: &Stop) -> Result<Woken, Error> {
        let failed = |error: Errno| system("watch a command")(error.into());
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(failed)?;
        // The kernel forgets a file that is closed, so they stay open.
        let mut watched = Vec::new();
        for process in self.0.iter().filter(|process| !process.is_reaped) {
            let pidfd = pidfd_open(process.pid(), PidfdFlags::empty()).map_err(failed)?;
            epoll::add(&epoll, &pidfd, EventData::new_u64(0), EventFlags::IN).map_err(failed)?;
            watched.push(pidfd);
        }
        Ok(stop.readable_until(epoll.as_fd(), deadline))
    }

    /// Waits for the end of each.
    pub fn wait(&mut self, deadline: Mono, stop: &Stop) -> Result<Vec<Ending>, Error> {
        self.0.iter_mut().map(|process| process.wait(deadline, stop)).collect()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        end_all(&mut self.0);
    }
}

/// The text of an output.
pub fn text(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::Results { what: "read", path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() > MOST_OUTPUT {
        // A part of it could be read as if it were all.
        let most = MOST_OUTPUT >> 20;
        return Err(Error::RunFailed(format!("it said more than {most} MiB, too much to be read")));
    }
    let mut bytes = Vec::new();
    file.take(MOST_OUTPUT).read_to_end(&mut bytes).map_err(failed)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What a command said last: in its errors, or else in its output.
pub fn last_words(process: &Process) -> String {
    let tail = |path: &Path| -> io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    let said = [&process.err, &process.out].map(|path| tail(path).unwrap_or_default());
    said.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
}

/// Runs a line to its end, with its output in the folder under this name: `None` if all went well, else why not.
pub fn run(
    command: Command,
    folder: &Path,
    name: &str,
    limit: Duration,
    stop: &Stop,
) -> Result<Option<String>, Error> {
    let mut process = Process::start(command, folder, name)?;
    let ending = process.wait(monotonic() + limit, stop)?;
    Ok(complaint(ending, limit, &process))
}

/// How a command ended: `exit status: 3`, `killed by signal 9 (SIGKILL)`.
fn in_words(status: ExitStatus) -> String {
    let text = status.to_string();
    if let Some(signal) = signal_of(&text) {
        return format!("killed by signal {signal}");
    }
    match status.code().and_then(of_shell) {
        Some(killed) => {
            let signal = killed.to_string();
            let signal = signal_of(&signal).unwrap_or(&signal);
            format!("{text}, with which a shell reports a command killed by signal {signal}")
        }
        None => text,
    }
}

/// The number and the name of a signal, as Rust writes them.
fn signal_of(status: &str) -> Option<&str> {
    status.strip_prefix("signal: ")
}

/// How a command of a shell ended with whose status the shell ends, if it was killed.
fn of_shell(code: i32) -> Option<ExitStatus> {
    let signal = code.checked_sub(128).filter(|signal| (1..=31).contains(signal))?;
    Some(ExitStatus::from_raw(signal))
}

/// Why a command did not end well.
pub fn complaint(ending: Ending, limit: Duration, process: &Process) -> Option<String> {
    let why = match ending {
        Ending::Exited(status) if status.success() => return None,
        Ending::Exited(status) => format!("{}{}", in_words(status), process.lack_of_memory(status)),
        Ending::TookTooLong => format!("it took longer than {} s", limit.as_secs_f64()),
    };
    Some(with_last_words(why, process))
}

/// Why a command did not end well, with what it printed last.
pub fn with_last_words(why: String, process: &Process) -> String {
    match last_words(process) {
        words if words.is_empty() => why,
        words => format!("{why}: {words}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        command
    }

    #[test]
    fn a_command_that_fails_tells_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let stop = Stop::new().unwrap();
        let limit = Duration::from_mins(1);
        let ran = |line| run(shell(line), folder.path(), "a", limit, &stop).unwrap();
        assert_eq!(ran("echo fine"), None);
        assert_eq!(text(&folder.path().join("a.out")).unwrap(), "fine\n");
        assert_eq!(ran("echo no >&2; exit 3"), Some("exit status: 3: no".to_owned()));
        let killed = ran("kill -9 $$").unwrap();
        assert_eq!(killed.split(", ").next(), Some("killed by signal 9 (SIGKILL)"));
        let killed = ran("exec 2>/dev/null; sh -c 'kill -15 $$'; exit $?").unwrap();
        let of_shell = "with which a shell reports a command killed by signal 15 (SIGTERM)";
        assert_eq!(killed, format!("exit status: 143, {of_shell}"));
        assert_eq!(ran("exit 128").unwrap(), "exit status: 128");
        assert_eq!(ran("exit 160").unwrap(), "exit status: 160", "signal 32 is no signal");
    }

    #[test]
    fn what_takes_too_long_is_ended_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let stop = Stop::new().unwrap();
        let line = "sleep 1000 & echo $!; wait";
        // On a busy machine it takes longer until there is something to end.
        let mut limit_s = 0.25;
        let pid = loop {
            let limit = Duration::from_secs_f64(limit_s);
            let why = run(shell(line), folder.path(), "a", limit, &stop).unwrap().unwrap();
            assert!(why.starts_with(&format!("it took longer than {limit_s} s")), "{why}");
            let pid = text(&folder.path().join("a.out")).unwrap();
            if pid.ends_with('\n') {
                break pid;
            }
            limit_s *= 2.0;
        };
        // Gone, or dead and waiting for its parent, which is not us. A signal takes a moment to arrive.
        let is_over = || {
            let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            status.map_or(true, |status| status.contains(") Z "))
        };
        let deadline = monotonic() + Duration::from_secs(20);
        while !is_over() && monotonic() < deadline {
            stop.wait_until(monotonic() + Duration::from_millis(10));
        }
        assert!(is_over(), "{pid} still runs");
    }

    #[test]
    fn the_number_of_what_has_ended_is_its_own_until_it_is_reaped() {
        let folder = tempfile::tempdir().unwrap();
        let stop = Stop::new().unwrap();
        let mut process = Process::start(shell("sleep 1000 & exit 0"), folder.path(), "a").unwrap();
        let before = process.over_by(Mono::NEVER, &stop).unwrap();
        assert_eq!((before, process.is_over(), process.is_over()), (Woken::Readable, true, true));
        // Still a zombie, so no other process can have its number.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.child.id())).unwrap();
        assert!(stat.contains(") Z "), "{stat}");
        assert!(matches!(process.wait(Mono::NEVER, &stop), Ok(Ending::Exited(it)) if it.success()));
        assert!(process.is_reaped);
    }

    #[test]
    fn many_that_do_not_listen_are_ended_together() {
        let folder = tempfile::tempdir().unwrap();
        let line = "trap '' TERM; echo on; while :; do sleep 0.1; done";
        let start = |name: &str| Process::start(shell(line), folder.path(), name).unwrap();
        let mut all = ["a", "b", "c"].map(start);
        end_all(&mut all);
        assert!(all.iter().all(|process| process.is_reaped));
    }

    #[test]
    fn the_signal_that_kills_the_leader_of_a_session_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let stop = Stop::new().unwrap();
        let mut command = Command::new("setsid");
        command.args(["--wait", "sh", "-c", "cut -d ' ' -f 6 /proc/$$/stat; echo $$; kill -9 $$"]);
        let mut process = Process::start_session(command, folder.path(), "a").unwrap();
        let ending = process.wait(Mono::NEVER, &stop).unwrap();
        let why = complaint(ending, Duration::MAX, &process).unwrap();
        assert!(why.starts_with("killed by signal 9 (SIGKILL)"), "{why}");
        let said = text(&process.out).unwrap();
        let numbers: Vec<&str> = said.split_whitespace().collect();
        assert_eq!(numbers[0], numbers[1], "it leads a session");
    }

    #[test]
    fn what_a_shell_has_started_has_time_to_clean_up_when_the_shell_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let on = folder.path().join("on").display().to_string();
        let worker = format!(
            "trap 'sleep 0.3; echo clean >>{on}; exit' TERM; echo on >{on}; while :; do sleep 0.01; done"
        );
        for session in [false, true] {
            let _ = fs::remove_file(&on);
            let line = format!("sh -c \"{worker}\" & wait");
            let mut command = Command::new(if session { "setsid" } else { "sh" });
            command.args(if session {
                vec!["--wait", "sh", "-c", &line]
            } else {
                vec!["-c", &line]
            });
            let start = if session { Process::start_session } else { Process::start };
            let mut all = [start(command, folder.path(), "a").unwrap()];
            let stop = Stop::new().unwrap();
            while fs::read_to_string(&on).unwrap_or_default() != "on\n" {
                stop.wait_until(monotonic() + STEP);
            }
            end_within(&mut all, Duration::from_mins(1));
            assert_eq!(fs::read_to_string(&on).unwrap(), "on\nclean\n", "session: {session}");
        }
    }

    #[test]
    fn each_of_several_ends_at_its_own_time_and_one_that_fails_ends_all() {
        let folder = tempfile::tempdir().unwrap();
        let stop = Stop::new().unwrap();
        let start =
            |name: &str, line: &str| Process::start(shell(line), folder.path(), name).unwrap();
        // The first one waits until the end of the second has been noted, and that for the third: while it has not, the
        // process is there, dead.
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (one, two) = (path("one"), path("two"));
        let waits = |file: &str| {
            format!(
                "while ! [ -s {file} ]; do sleep 0.01; done; \
                 while kill -0 $(cat {file}) 2>/dev/null; do sleep 0.01; done"
            )
        };
        let mut all = Processes(vec![
            start("a", &waits(&one)),
            start("b", &format!("{}; echo $$ >{one}", waits(&two))),
            start("c", &format!("echo $$ >{two}")),
        ]);
        let deadline = monotonic() + Duration::from_mins(1);
        let endings = all.wait_until_one_fails(deadline, &stop).unwrap();
        let at = |place: usize| match endings[place] {
            Some((Ending::Exited(status), at)) if status.success() => at,
            other => panic!("{other:?}"),
        };
        assert!(at(2) < at(1) && at(1) < at(0), "{endings:?}");
        let mut all = Processes(vec![start("a", "sleep 1000"), start("b", "exit 3")]);
        let endings = all.wait_until_one_fails(deadline, &stop).unwrap();
        assert!(endings[0].is_none() && endings[1].is_some(), "{endings:?}");
        let mut all = Processes(vec![start("a", "sleep 1000")]);
        let endings = all.wait_until_one_fails(monotonic(), &stop).unwrap();
        assert!(matches!(endings[..], [Some((Ending::TookTooLong, _))]), "{endings:?}");
    }

    #[test]
    fn more_than_can_be_read_is_not_taken_for_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long");
        File::create(&path).unwrap().set_len(MOST_OUTPUT + 1).unwrap();
        assert!(matches!(text(&path), Err(Error::RunFailed(why)) if why.contains("256 MiB")));
    }

    #[test]
    fn an_interrupted_command_is_ended() {
        let folder = tempfile::tempdir().unwrap();
        let stop = Stop::new().unwrap();
        stop.stop();
        let result = run(shell("sleep 1000"), folder.path(), "a", Duration::from_mins(9), &stop);
        assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
    }
}
