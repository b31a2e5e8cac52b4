//! Containers of engines, with storage of their own.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nightwatt_clock::meter::monotonic;
use nightwatt_needs::static_program;

use crate::rig::{
    Daemon, Rig, TIMEOUT, commands_are_run, free_port, inside, memory_is_limited, output, program,
    root, scratch_is_empty,
};

/// Without systemd, without an image registry, and in a folder of the test.
pub(crate) fn podman(rig: &Rig, options: &str) -> String {
    let at = |name: &str| rig.path(name).display().to_string();
    format!(
        "kind = \"podman\"\nengine_arguments = [\"--root\", \"{}\", \"--runroot\", \"{}\", \"--tmpdir\", \
         \"{}\", \"--storage-driver\", \"vfs\", \"--cgroup-manager\", \"cgroupfs\", \"--runtime\", \
         \"runc\"]\narguments = [\"--ulimit\", \"nofile=10000:10000\", \"--ulimit\", \
         \"nproc=10000:10000\"]\n{options}",
        at("podman/storage"),
        at("podman/run"),
        at("podman/tmp")
    )
}

#[test]
fn a_container_of_podman_comes_and_goes() {
    if program("podman").and(program("runc")).and(root()).is_none() {
        return;
    }
    let rig = Rig::new();
    rig.try_all(&podman(&rig, ""));
}

#[test]
fn containers_have_the_cpus_and_the_memory_that_were_asked_for() {
    if program("podman").and(program("runc")).and(root()).is_none() {
        return;
    }
    let rig = Rig::new();
    let guard = rig.guard();
    let options = podman(&rig, "network = \"bridge\"\ncpus = 1\nmemory = \"96 MiB\"");
    let first = rig.start(&options, &guard);
    let second = rig.config(&options).start(1, None, &guard, &rig.stop).unwrap();
    assert_eq!(inside(&first, "nproc"), "1");
    memory_is_limited(&first);
    rig.serves(&first, 80, "from the first");
    rig.serves(&second, 80, "from the second");
    assert_ne!(first.address(), second.address());
    drop((first, second));
    // podman's monitor writes this file to its working folder when the kernel ends a command.
    assert!(!Path::new("oom").exists(), "a file is left in the user's working folder");
}

/// What systemd-nspawn keeps of containers.
fn nspawns_files() -> Vec<String> {
    let found = Command::new("find").args(["/run/systemd/nspawn", "-mindepth", "2"]).output();
    String::from_utf8(found.unwrap().stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_container_of_nspawn_comes_and_goes() {
    if program("systemd-nspawn").and(program("ps")).and(root()).is_none() {
        return;
    }
    let rig = Rig::new();
    let before = nspawns_files();
    rig.try_all("kind = \"nspawn\"");
    two_side_by_side(&rig, "kind = \"nspawn\"");
    // Containers of other users may come meanwhile: those hold their locks, and have other names.
    let ours = format!("nightwatt-{}-", std::process::id());
    let is_left = |file: &String| {
        // By its name, `flock` would make a file that has just gone.
        let try_lock = "exec 9<\"$0\" && flock --nonblock 9";
        let is_free = || Command::new("sh").args(["-c", try_lock, file]).status();
        let may_be_ours = || file.contains("/inode-") && is_free().unwrap().success();
        Path::new(file).exists() && (file.contains(&ours) || may_be_ours())
    };
    let is_new = |file: &String| !before.contains(file) && is_left(file);
    // Another container that ends has a free lock for a moment; what ours leaves stays.
    let mut left = nspawns_files();
    let deadline = monotonic() + TIMEOUT;
    left.retain(is_new);
    while !left.is_empty() && monotonic() < deadline {
        rig.stop.wait_until(monotonic() + Duration::from_millis(50));
        left.retain(is_new);
    }
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_container_of_lxc_comes_and_goes() {
    if program("lxc-execute").and(program("ps")).and(root()).is_none() {
        return;
    }
    let rig = Rig::new();
    rig.try_all("kind = \"lxc\"");
    two_side_by_side(&rig, "kind = \"lxc\"");
}

/// With the host's network; each on one CPU and in little memory.
fn two_side_by_side(rig: &Rig, options: &str) {
    let guard = rig.guard();
    let options = format!("{options}\ncpus = 1\nmemory = \"96 MiB\"");
    let first = rig.start(&options, &guard);
    let second = rig.config(&options).start(1, None, &guard, &rig.stop).unwrap();
    assert_eq!(inside(&first, "nproc"), "1");
    assert_eq!(inside(&first, "ps -o comm= -p 2"), "sleep", "it sees its own processes");
    memory_is_limited(&first);
    rig.serves(&first, free_port(), "from the first");
    rig.serves(&second, free_port(), "from the second");
}

/// A line of the shell, whose end is of no interest.
struct AtTheEnd(String);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        let _ = Command::new("sh").args(["-c", &self.0]).status();
    }
}

/// podman answers for Docker's daemon; the program, and how it is called, are Docker's own.
#[test]
fn a_container_of_docker_comes_and_goes() {
    let here = program("docker").and(program("podman")).and(program("runc"));
    if here.and(program("pkill")).and(static_program("busybox").map(drop)).and(root()).is_none() {
        return;
    }
    let rig = Rig::new();
    let at = |name: &str| rig.path(name).display().to_string();
    let script = r#"set -e
mkdir -p $D/image/bin $D/image/tmp
cp $(command -v busybox) $D/image/bin/busybox
for name in sh sleep cat echo ls uname nproc sed ps wc head tail grep; do ln -s busybox $D/image/bin/$name; done
engine="podman --root $D/podman/storage --runroot $D/podman/run --tmpdir $D/podman/tmp --storage-driver vfs \
 --cgroup-manager cgroupfs --runtime runc"
tar -C $D/image -c . | $engine import - local/empty:1 >/dev/null 2>&1
exec $engine system service --time 0 unix://$D/api.sock 2>$D/api.log"#;
    let mut command = Command::new("sh");
    command.args(["-c", script]).env("D", at("")).stdin(Stdio::null());
    let _daemon = Daemon(command.spawn().unwrap());
    // Behind its socket podman keeps what watched a command for five minutes, which Docker does not.
    let _watchers = AtTheEnd(format!("pkill -KILL -f '^/usr/[a-z/]*conmon .*{}'", at("podman")));
    rig.until(|| UnixStream::connect(rig.path("api.sock")).is_ok());
    let options = format!(
        "kind = \"docker\"\nimage = \"local/empty:1\"\nhost = \"unix://{}\"\narguments = [\"--ulimit\", \
         \"nofile=10000:10000\", \"--ulimit\", \"nproc=10000:10000\"]",
        at("api.sock")
    );
    // Its image is in podman's storage, and stays; containers are asked for by name.
    let containers = || {
        output(Command::new("docker").args([
            "--host",
            &format!("unix://{}", at("api.sock")),
            "ps",
            "-aq",
        ]))
    };
    let guard = rig.guard();
    let started = rig.start(&options, &guard);
    commands_are_run(&started);
    scratch_is_empty(&started);
    assert_eq!(containers().lines().count(), 1);
    rig.serves(&started, free_port(), "from Docker");
    started.stop().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(containers(), "");
    guard.finish().unwrap();
    let missing = options.replace("empty:1", "missing:1");
    let guard = rig.guard();
    let error = rig.config(&missing).start(0, None, &guard, &rig.stop).unwrap_err().to_string();
    assert!(error.contains("missing:1"), "{error}");
    assert_eq!(containers(), "", "nor is anything left of what could not start");
}
