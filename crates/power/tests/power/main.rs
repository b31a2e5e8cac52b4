//! Controllers and probes against real processes, real sockets and virtual time.

mod agent;
mod cable;
mod command;
mod config;
mod container;
mod daemon;
mod ipmi;
mod libvirt;
mod neighbour;
mod probe;
mod process;
mod qemu;
mod redfish;
mod simulated;
mod ssh;
mod systemd;
mod wol;

use std::fs;
use std::future::Future;
use std::path::PathBuf;

use nightwatt_clock::Clock;
use nightwatt_energy::time::Wall;
use nightwatt_power::Context;
use rustix::fs::{CWD, FileType, Mode};
use rustix::process::{Pid, Signal};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe;

/// A state directory, a clock and its runtime. Whatever process of a test is left when it is
/// dropped is killed: those started for this directory by a controller, and those that mention it.
struct Rig {
    dir: tempfile::TempDir,
    clock: Clock,
    runtime: tokio::runtime::Runtime,
}

impl Rig {
    fn new() -> Self {
        Self::with(Clock::real())
    }

    fn in_virtual_time() -> Self {
        Self::with(Clock::virtual_at(Wall::from_secs(0), 0))
    }

    fn with(clock: Clock) -> Self {
        let runtime = clock.runtime().unwrap();
        Self { dir: tempfile::tempdir().unwrap(), clock, runtime }
    }

    fn context(&self) -> Context {
        Context {
            clock: self.clock.clone(),
            state_dir: self.dir.path().to_owned(),
            site: "www.example.org".to_owned(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn pid_file(&self) -> PathBuf {
        self.path("www.example.org.process.pid")
    }

    fn run<T>(&self, story: impl Future<Output = T>) -> T {
        self.runtime.block_on(story)
    }

    /// A named pipe through which scripts (`echo word > NAME`) tell how far they are.
    fn news(&self, name: &str) -> News {
        let path = self.path(name);
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let _inside = self.runtime.enter();
        // Also open for writing, so that it does not end with each `echo`.
        let pipe = pipe::OpenOptions::new().read_write(true).open_receiver(&path).unwrap();
        News(BufReader::new(pipe))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let dir = self.dir.path().file_name().unwrap().as_encoded_bytes();
        // A process in the middle of `execve` shows no command line, and one being killed may just
        // have forked: repeat until two looks in a row find none.
        let mut quiet = 0;
        for _ in 0..1000 {
            if quiet == 2 {
                break;
            }
            quiet += 1;
            for (pid, about) in processes() {
                let changes_program = about.is_empty();
                let ours = about.windows(dir.len()).any(|part| part == dir);
                if ours {
                    let _ = rustix::process::kill_process(pid, Signal::KILL);
                }
                if ours || changes_program {
                    quiet = 0;
                }
            }
            std::thread::yield_now();
        }
    }
}

/// All other processes that run, with their arguments and environment.
fn processes() -> Vec<(Pid, Vec<u8>)> {
    let numbers = fs::read_dir("/proc").unwrap();
    let numbers = numbers.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let pids = numbers.filter_map(Pid::from_raw).filter(|pid| *pid != rustix::process::getpid());
    pids.filter_map(|pid| {
        let read = |what| fs::read(format!("/proc/{}/{what}", pid.as_raw_nonzero()));
        let stat = String::from_utf8_lossy(&read("stat").ok()?).into_owned();
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<_> = fields.split_ascii_whitespace().collect();
        // A zombie has ended; group 0 is the kernel's own.
        let runs = fields[0] != "Z" && fields[2] != "0";
        runs.then_some(())?;
        Some((pid, [read("cmdline").ok()?, read("environ").ok()?].concat()))
    })
    .collect()
}

struct News(BufReader<pipe::Receiver>);

impl News {
    /// The next line, waited for.
    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        line.trim().to_owned()
    }

    /// The next line, which is a pid.
    async fn pid(&mut self) -> i32 {
        self.line().await.parse().unwrap()
    }
}

/// Does this process run? A zombie has ended.
fn runs(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.starts_with(" Z"))
}

/// Is there nothing under this pid, not even a zombie?
fn vanished(pid: i32) -> bool {
    !fs::exists(format!("/proc/{pid}")).unwrap()
}

fn kill(pid: i32) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// Waits until a process has ended.
async fn ended(pid: i32) {
    use rustix::process::{PidfdFlags, pidfd_open};
    let Ok(process) = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) else { return };
    #[expect(deprecated, reason = "its successor is unsafe; an `OwnedFd` is what it asks for")]
    let process = tokio::io::unix::AsyncFd::with_interest(process, tokio::io::Interest::READABLE);
    process.unwrap().readable().await.unwrap().retain_ready();
}
