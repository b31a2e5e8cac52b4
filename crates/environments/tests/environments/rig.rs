//! What the tests of all kinds share: an environment is tried, and what it leaves is looked for.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nightwatt_clock::meter::{Stop, Woken, monotonic};
use nightwatt_environments::guard::Guard;
use nightwatt_environments::shell::quote;
use nightwatt_environments::{EnvironmentConfig, KINDS, Started};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// For what is to happen at once; a slow machine is no failure.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(5);

/// Kinds that start on this machine from nothing but programs.
pub(crate) const WITHOUT_IMAGES: [&str; 6] =
    ["host", "chroot", "bubblewrap", "netns", "nspawn", "lxc"];

/// Kinds that need an image, a daemon or another machine.
const OTHERS: [&str; 5] = ["docker", "libvirt", "podman", "qemu", "ssh"];

#[test]
fn every_kind_is_in_one_of_the_lists() {
    let listed: BTreeSet<_> = WITHOUT_IMAGES.into_iter().chain(OTHERS).collect();
    assert_eq!(listed.len(), WITHOUT_IMAGES.len() + OTHERS.len());
    assert_eq!(listed, KINDS.iter().map(|kind| kind.name).collect());
}

/// Says why a test is skipped if a program is missing.
pub(crate) fn program(name: &str) -> Option<()> {
    nightwatt_needs::program(name).map(drop)
}

pub(crate) fn root() -> Option<()> {
    if rustix::process::geteuid().is_root() {
        return Some(());
    }
    eprintln!("skipped: needs root");
    None
}

pub(crate) fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}: {text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

/// One at a time: environments are named after the process that made them, which all tests share.
static TURN: Mutex<()> = Mutex::new(());

/// A folder in which all is made that the test makes.
pub(crate) struct Rig {
    folder: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
    pub(crate) stop: Stop,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::Builder::new().prefix("nightwatt-test-").tempdir().unwrap();
        let open =
            |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o1777)).unwrap();
        // Databases in there run as another user, and so do whole tests.
        open(folder.path());
        for name in ["work", "theirs"] {
            fs::create_dir(folder.path().join(name)).unwrap();
            open(&folder.path().join(name));
        }
        Self { folder, _turn: turn, stop: Stop::new().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn guard(&self) -> Guard {
        Guard::start(&self.path("journal")).unwrap()
    }

    /// The text of an environment, whose folders are made in that of the test.
    pub(crate) fn text(&self, options: &str) -> String {
        Self::text_at(&self.path("work"), options)
    }

    /// The same somewhere else.
    pub(crate) fn text_at(scratch: &Path, options: &str) -> String {
        format!("name = \"it\"\nscratch = {:?}\n{options}\n", scratch.to_str().unwrap())
    }

    pub(crate) fn config(&self, options: &str) -> EnvironmentConfig {
        toml::from_str(&self.text(options)).unwrap()
    }

    pub(crate) fn start(&self, options: &str, guard: &Guard) -> Started {
        self.config(options)
            .start(0, None, guard, &self.stop)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// All that could be left of what was made for this test: processes, cgroups, mounts and files that
    /// have its folder or its environments' names in theirs, and network cards and containers.
    pub(crate) fn inventory(&self, pids: &[u32]) -> BTreeSet<String> {
        let mut marks: Vec<_> = pids.iter().map(|pid| format!("nightwatt-{pid}-")).collect();
        marks.push(self.path("work").display().to_string());
        let marked = |text: &str| marks.iter().any(|mark| text.contains(mark));
        let mut found = BTreeSet::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let read = |name| fs::read(entry.path().join(name)).unwrap_or_default();
            // A process that has ended and waits for its parent does no harm.
            if String::from_utf8_lossy(&read("status")).contains("\nState:\tZ") {
                continue;
            }
            let text =
                [read("environ"), read("cmdline"), read("cgroup"), read("mountinfo")].concat();
            // One that has left its cgroup, memory and namespaces is about to be gone.
            let text = String::from_utf8_lossy(&text).into_owned();
            let text: String = text.lines().filter(|line| !line.ends_with(" (deleted)")).collect();
            if marked(&text) && entry.file_name() != std::process::id().to_string().as_str() {
                let name = String::from_utf8_lossy(&read("comm")).trim().to_owned();
                found.insert(format!("process {} {name}", entry.file_name().display()));
            }
        }
        found.extend(self.links(marked).into_iter().map(|line| format!("link {line}")));
        for folder in ["/sys/fs/cgroup", &self.path("work").display().to_string()] {
            let output = Command::new("find").args([folder, "-mindepth", "1"]).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            found.extend(
                text.lines().filter(|line| marked(line)).map(|line| format!("file {line}")),
            );
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        found.extend(podman_leaves(&self.path("podman")));
        found
            .extend(mounts.lines().filter(|line| marked(line)).map(|line| format!("mount {line}")));
        found
    }

    /// What stays of them. conmon runs `podman container cleanup` when a container ends, which may still find out that
    /// there is nothing to clean.
    fn what_is_left(&self, pids: &[u32]) -> BTreeSet<String> {
        let deadline = monotonic() + Duration::from_mins(1);
        let is_cleaning = |it: &String| it.starts_with("process ") && it.ends_with(" podman");
        loop {
            let left = self.inventory(pids);
            if !left.iter().any(is_cleaning) || monotonic() > deadline {
                return left;
            }
            self.stop.wait_until(monotonic() + Duration::from_millis(50));
        }
    }

    /// Network cards with our alias, or with none although there was time to set one.
    fn links(&self, marked: impl Fn(&str) -> bool) -> Vec<String> {
        if !nightwatt_needs::has("ip") {
            // Nothing here makes one either.
            return Vec::new();
        }
        let look = || {
            let said = output(nightwatt_needs::command("ip").args(["-o", "link"]));
            let is_a_card =
                |line: &&str| line.split([' ', '@', ':']).any(|word| word.starts_with("nwe"));
            said.lines().filter(is_a_card).map(str::to_owned).collect::<Vec<_>>()
        };
        let mut links = look();
        let is_strange = |line: &String| !line.contains("alias nightwatt-");
        let deadline = monotonic() + Duration::from_mins(1);
        while links.iter().any(is_strange) && monotonic() < deadline {
            self.stop.wait_until(monotonic() + Duration::from_millis(50));
            let later = look();
            links.retain(|line| !is_strange(line) || later.contains(line));
        }
        links.retain(|line| marked(line) || is_strange(line));
        links
    }

    pub(crate) fn left(&self, when: &str) {
        let left = self.what_is_left(&[std::process::id()]);
        assert!(left.is_empty(), "left {when}: {left:#?}");
        assert!(!self.path("journal").exists(), "the journal is left {when}");
    }

    /// Tries all that an environment promises, and that nothing is left however it ends.
    pub(crate) fn try_all(&self, options: &str) {
        let guard = self.guard();
        let started = self.start(options, &guard);
        commands_are_run(&started);
        scratch_is_empty(&started);
        started.stop().unwrap_or_else(|error| panic!("{error}"));
        guard.finish().unwrap_or_else(|error| panic!("{error}"));
        self.left("after stop");
        let guard = self.guard();
        drop(self.start(options, &guard));
        drop(guard);
        self.left("after drop");
        for signal in [Signal::INT, Signal::KILL] {
            self.holder_is_ended(&format!("[[environment]]\n{}", self.text(options)), signal);
        }
    }

    /// A program of its own holds environments, and is sent a signal.
    pub(crate) fn holder_is_ended(&self, plan: &str, signal: Signal) {
        self.holder_is_ended_as(plan, signal, &[]);
    }

    /// The same, started by another program that changes the user.
    pub(crate) fn holder_is_ended_as(&self, plan: &str, signal: Signal, by: &[&str]) {
        self.holder_is_ended_with(plan, signal, by, || {});
    }

    /// The same, with something to look at while it holds.
    pub(crate) fn holder_is_ended_with(
        &self,
        plan: &str,
        signal: Signal,
        by: &[&str],
        meanwhile: impl FnOnce(),
    ) {
        fs::write(self.path("plan.toml"), plan).unwrap();
        let (plan, journal) = (self.path("plan.toml"), self.path("theirs/journal"));
        let mut words: Vec<_> = by.iter().map(|word| (*word).into()).collect();
        words.extend([
            hold().into_os_string(),
            plan.into_os_string(),
            journal.clone().into_os_string(),
        ]);
        let mut holder = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let guardian: i32 =
            line.trim().parse().unwrap_or_else(|_| panic!("it did not start: {line:?}"));
        let guardian = pidfd_open(Pid::from_raw(guardian).unwrap(), PidfdFlags::empty()).unwrap();
        let pid = holder.id();
        assert!(!self.inventory(&[pid]).is_empty(), "while it runs there is something to be found");
        meanwhile();
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
        assert!(!holder.wait().unwrap().success());
        let ended = self.stop.readable_until(guardian.as_fd(), monotonic() + TIMEOUT);
        assert_eq!(ended, Woken::Readable, "the guardian has ended");
        let left = self.what_is_left(&[pid]);
        assert!(left.is_empty(), "left after {signal:?}: {left:#?}");
        assert!(!journal.exists(), "all was undone after {signal:?}");
    }

    /// A program that starts environments, itself started by another, is killed before it has.
    pub(crate) fn starter_is_killed(
        &self,
        plan: &str,
        by: &[&str],
        when: &str,
        wait: impl FnOnce(),
    ) {
        fs::write(self.path("plan.toml"), plan).unwrap();
        let (plan, journal) = (self.path("plan.toml"), self.path("theirs/journal"));
        let log = fs::File::create(self.path("log")).unwrap();
        let mut words: Vec<OsString> = by.iter().map(|word| (*word).into()).collect();
        words.extend([hold(), plan, journal.clone()].map(PathBuf::into_os_string));
        let mut starter = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        wait();
        starter.kill().unwrap();
        starter.wait().unwrap();
        self.until(|| {
            !journal.exists() || fs::File::open(&journal).is_ok_and(|file| file.try_lock().is_ok())
        });
        let said = fs::read_to_string(self.path("log")).unwrap();
        if let Ok(text) = fs::read_to_string(&journal) {
            // Killed before the guardian was there: then nothing had been done.
            assert_eq!(text, "", "not all was undone, killed {when}: {said}");
            fs::remove_file(&journal).unwrap();
        }
        let left = self.what_is_left(&[starter.id()]);
        assert!(left.is_empty(), "left, killed {when}: {left:#?}\n{said}");
    }

    /// Polls until this is so: there is no event for it.
    pub(crate) fn until(&self, is_so: impl Fn() -> bool) {
        let deadline = monotonic() + TIMEOUT;
        while !is_so() {
            assert!(monotonic() < deadline, "it is not so within {TIMEOUT:?}");
            self.stop.wait_until(monotonic() + Duration::from_millis(50));
        }
    }

    /// A server inside is reached by a client outside, if there is one.
    pub(crate) fn serves(&self, started: &Started, inside: u16, text: &str) {
        if program("busybox").is_none() {
            return;
        }
        let scratch = started.scratch();
        // What another test's server says is not taken for this one's.
        let text = format!("{text} of process {}", std::process::id());
        let line = format!(
            "echo '{text}' >{scratch}/index.html; exec busybox httpd -f -p {inside} -h {scratch}"
        );
        let mut server = started.command(&line).stdin(Stdio::null()).spawn().unwrap();
        let at = format!("{}:{}", started.address(), started.port(inside));
        let deadline = monotonic() + TIMEOUT;
        let said = loop {
            let mut said = String::new();
            // Behind a forwarded port a connection may be taken, and closed at once.
            let asked = TcpStream::connect(&at).and_then(|mut stream| {
                stream.write_all(b"GET /index.html HTTP/1.0\r\n\r\n")?;
                stream.read_to_string(&mut said)
            });
            if asked.is_ok() && !said.is_empty() {
                break said;
            }
            assert!(monotonic() < deadline, "nobody answers at {at}: {asked:?}");
            assert!(server.try_wait().unwrap().is_none(), "the server has ended");
            self.stop.wait_until(monotonic() + Duration::from_millis(50));
        };
        assert!(said.contains(&text), "{said}");
        server.kill().unwrap();
        server.wait().unwrap();
    }
}

/// A port that is free on all addresses of this machine, for a server that shares its network. It is below those
/// that the kernel gives to those who ask for any, and above those of `nightwatt_needs::free_address`: a server that
/// listens on all addresses would take them. Each process begins to look somewhere else.
pub(crate) fn free_port() -> u16 {
    let first = u16::try_from(std::process::id() % 625 * 16).unwrap();
    let mut ports = (first..10_000).chain(0..first).map(|number| 20_000 + number);
    ports.find(|port| TcpListener::bind(("0.0.0.0", *port)).is_ok()).unwrap()
}

/// Killed at the end.
pub(crate) struct Daemon(pub(crate) Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The example of this name.
fn hold() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let example = own.parent().unwrap().parent().unwrap().join("examples/hold");
    assert!(example.exists(), "{}: `cargo build --examples`", example.display());
    example
}

/// Folders of containers in podman's storage.
fn podman_leaves(storage: &Path) -> Vec<String> {
    let names = [
        "run/overlay-containers",
        "storage/overlay-containers",
        "storage/vfs-containers",
        "storage/vfs/dir",
    ];
    let entries =
        names.iter().filter_map(|name| fs::read_dir(storage.join(name)).ok()).flatten().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    folders.map(|entry| format!("container {}", entry.path().display())).collect()
}

pub(crate) fn inside(started: &Started, line: &str) -> String {
    output(started.command(line).stdin(Stdio::null())).trim().to_owned()
}

pub(crate) fn commands_are_run(started: &Started) {
    let mut command = started.command("read -r word; echo \"hello $word\"; echo error >&2; exit 3");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"world\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(text(&output.stdout), "hello world\n", "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("error\n"), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(3));
    let facts = started.facts();
    let fact =
        |name: &str| facts.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    assert!(fact("kernel").is_some_and(|kernel| kernel.starts_with("Linux ")), "{facts:?}");
    assert!(fact("cpus").is_some_and(|cpus| cpus.parse::<u32>().is_ok()), "{facts:?}");
}

/// And one command finds there what another has written.
pub(crate) fn scratch_is_empty(started: &Started) {
    let scratch = quote(&started.scratch());
    assert_eq!(inside(started, &format!("ls -A {scratch}")), "");
    inside(started, &format!("echo kept >{scratch}/note"));
    assert_eq!(inside(started, &format!("cat {scratch}/note")), "kept");
}

/// With 96 MiB it can hold 30 MB and not 200; `tail` keeps as much as it is asked for.
pub(crate) fn memory_is_limited(started: &Started) {
    let holds = |bytes: u32| {
        let line = format!("head -c {bytes} /dev/zero | tail -c {bytes} 2>/dev/null | wc -c");
        output(started.command(&line).stdin(Stdio::null())).trim().to_owned()
    };
    assert_eq!(holds(30_000_000), "30000000");
    assert_eq!(holds(200_000_000), "0", "the kernel ended it");
}
