//! The gateway under test: the real program, and what the system says of its process.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use nightwatt_clock::Clock;
use rustix::process::{Pid, Signal};
use serde_json::Value;
use tempfile::TempDir;

/// The program.
const NIGHTWATT: &str = env!("CARGO_BIN_EXE_nightwatt");

/// Whatever has not happened by then does not happen.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// `nightwatt serve`, killed at the end.
pub(crate) struct Gateway {
    pub(crate) dir: TempDir,
    pub(crate) address: SocketAddr,
    child: Child,
    stdout: BufReader<ChildStdout>,
}

/// What a process holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    /// Bytes of memory that are its own (not files it has mapped).
    pub(crate) memory: u64,
    pub(crate) descriptors: usize,
}

impl Gateway {
    /// Starts it with this configuration, in which `DIR` is a folder of its own.
    pub(crate) fn start(config: &str) -> Self {
        Self::start_telling(config, "warn")
    }

    /// The same, with a log of this level.
    pub(crate) fn start_telling(config: &str, level: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let config = config.replace("DIR", &dir.path().display().to_string());
        let path = dir.path().join("nightwatt.toml");
        std::fs::write(&path, config).expect("the configuration is written");
        let log = std::fs::File::create(dir.path().join("serve.log")).expect("a log");
        let mut child = Command::new(NIGHTWATT)
            .args(["serve", "--json", "--log-level", level, "-c"])
            .arg(&path)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the program starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("its stdout"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("it says where it listens");
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|error| {
            let log = std::fs::read_to_string(dir.path().join("serve.log"));
            panic!("{error} in {line:?}; its log: {log:?}")
        });
        let address = said["listening"][0].as_str().and_then(|it| it.parse().ok());
        Self { dir, address: address.expect("an address"), child, stdout }
    }

    /// What a file in its folder says; nothing if it is not there.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    /// What its process holds now.
    pub(crate) fn holds(&self) -> Held {
        let proc = format!("/proc/{}", self.child.id());
        let status = std::fs::read_to_string(format!("{proc}/status")).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        let descriptors = std::fs::read_dir(format!("{proc}/fd")).expect("it runs").count();
        Held { memory: kib.expect("a figure") * 1024, descriptors }
    }

    /// What `status` says of its first site.
    pub(crate) fn status(&self) -> Value {
        let output = self.order("status");
        let status: Value = serde_json::from_slice(&output.stdout).expect("a status");
        status["sites"][0].clone()
    }

    /// `nightwatt <command> --json`.
    pub(crate) fn order(&self, command: &str) -> Output {
        let config = self.dir.path().join("nightwatt.toml");
        let output = Command::new(NIGHTWATT).args([command, "--json", "-c"]).arg(config).output();
        output.expect("the program runs")
    }

    /// Waits until it holds so few descriptors, and says what it holds then.
    pub(crate) fn settled(&self, descriptors: usize) -> Held {
        let what = format!("no more than {descriptors} descriptors stay open");
        eventually(&what, || self.holds().descriptors <= descriptors);
        self.holds()
    }

    /// Stops it in good order, and fails if it did not live to see that. Its folder stays.
    pub(crate) fn stop(&mut self) {
        let ended = self.child.try_wait().expect("a child");
        let log = self.read("serve.log");
        assert!(ended.is_none(), "it ended by itself ({ended:?}); its log: {log}");
        assert!(!log.contains("panicked"), "it panicked: {log}");
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("its pid");
        rustix::process::kill_process(pid, Signal::TERM).expect("it can be signalled");
        let mut rest = String::new();
        let _ = self.stdout.read_to_string(&mut rest);
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}: {}", self.read("serve.log"));
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Looks again and again until it is so.
pub(crate) fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let clock = Clock::real();
    let deadline = clock.now().mono + DEADLINE;
    while !so() {
        assert!(clock.now().mono < deadline, "not within {DEADLINE:?}: {what}");
        pause(Duration::from_millis(20));
    }
}

/// Lets time pass.
#[expect(clippy::disallowed_methods, reason = "the processes under test live in real time")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}
