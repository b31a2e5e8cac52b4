//! Loaders and tasks, which end with the test.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const FOLDER: &str = "/sys/kernel/sched_ext";

/// Emulated, and beside other guests, a second is soon a minute.
const TIMEOUT: Duration = Duration::from_mins(10);

/// Whether this kernel can do it; else the test is skipped.
pub(crate) fn is_here() -> bool {
    let reason = if !Path::new(FOLDER).exists() {
        "this kernel has no sched_ext"
    } else if !rustix::process::geteuid().is_root() {
        "a scheduler needs root"
    } else {
        return true;
    };
    println!("skipped: {reason}");
    false
}

/// `nightwatt-sched`; in a guest, `NIGHTWATT_SCHED` names it.
pub(crate) fn program() -> Command {
    let here = env!("CARGO_BIN_EXE_nightwatt-sched").into();
    Command::new(std::env::var_os("NIGHTWATT_SCHED").unwrap_or(here))
}

pub(crate) fn state() -> String {
    fs::read_to_string(format!("{FOLDER}/state")).unwrap_or_default().trim().to_owned()
}

fn loaded() -> String {
    fs::read_to_string(format!("{FOLDER}/root/ops")).unwrap_or_default().trim().to_owned()
}

#[track_caller]
#[expect(clippy::disallowed_methods, reason = "this crate has no clock of nightwatt's")]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within {TIMEOUT:?}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// The CPU with the highest number.
pub(crate) fn last_cpu() -> usize {
    let text = fs::read_to_string("/sys/devices/system/cpu/present").unwrap();
    text.trim().rsplit(['-', ',']).next().unwrap().parse().unwrap()
}

pub(crate) fn refused(words: &[&str]) -> String {
    let output = program().args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn counts(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The scheduler, loaded.
pub(crate) struct Loader {
    child: Option<Child>,
    folder: tempfile::TempDir,
}

impl Loader {
    pub(crate) fn start(words: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| fs::File::create(folder.path().join(name)).unwrap();
        let mut command = program();
        command.arg("load").args(words).arg("--json");
        command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err"));
        let mut loader = Self { child: Some(command.spawn().unwrap()), folder };
        eventually("the scheduler is loaded", || {
            let ended = loader.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "{}", loader.read("err"));
            state() == "enabled" && loaded() == "nightwatt"
        });
        loader
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    pub(crate) fn restarts(&self) -> usize {
        self.read("err").matches("the scheduler begins again").count()
    }

    /// By SIGINT.
    pub(crate) fn end(mut self) -> Output {
        let status = self.signal(Signal::INT);
        let (stdout, stderr) = (self.read("out").into_bytes(), self.read("err").into_bytes());
        Output { status, stdout, stderr }
    }

    /// By SIGKILL.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::KILL);
    }

    fn signal(&mut self, signal: Signal) -> std::process::ExitStatus {
        let mut child = self.child.take().unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        let status = child.wait().unwrap();
        eventually("the scheduler is unloaded", || state() == "disabled");
        status
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A process that computes for ever.
pub(crate) struct Worker(Child);

const LOOP: [&str; 3] = ["sh", "-c", "while :; do :; done"];

impl Worker {
    /// Under the scheduler.
    pub(crate) fn start(words: &[&str], cpu: Option<usize>) -> Self {
        let run = program();
        let mut command = match cpu {
            Some(cpu) => {
                let mut command = Command::new("taskset");
                command.args(["-c", &cpu.to_string()]).arg(run.get_program());
                command
            }
            None => Command::new(run.get_program()),
        };
        command.arg("run").args(words).arg("--").args(LOOP);
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn ordinary() -> Self {
        Self(Command::new(LOOP[0]).args(&LOOP[1..]).stdin(Stdio::null()).spawn().unwrap())
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// CPU time so far.
    pub(crate) fn ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        assert_ne!(fields[0], "Z", "the task has ended");
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn processes() -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|it| it.file_name().to_str()?.parse().ok()).collect()
}

/// Field 41 of `/proc/PID/stat`.
pub(crate) fn policy_of(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(41 - 3)?.parse().ok()
}
